//! The guide tells the truth: every `console` block in it is run and compared.

#[test]
fn the_guide_shows_what_the_program_says() {
    trycmd::TestCases::new()
        .env("COLUMNS", "100")
        .env("PHALANX_CACHE", "off")
        .case("../../docs/guide/*.md")
        .case("../../README.md");
}
