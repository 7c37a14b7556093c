//! Runs no-op tasks on the engine alone, for counting instructions: `benches/instructions/run` does.
//!
//! ```text
//! cargo run --release -p phalanx-engine --example engine_alone [repeats [tasks [pattern]]]
//! ```
//!
//! Patterns: `independent` (each its own datum), `chain` (one datum), `stencil` (64 wide, 3 reads and a write, two
//! buffers), `wavefront` (2 reads), `random` (3 producers among the last 256). Each fills the ring of 1024 and then runs all
//! that is ready, so that every edge is a real one. The benchmark, with times and threads, is `engine_bench` of
//! `phalanx-runtime`.
#![expect(clippy::print_stdout, reason = "it says what it did")]

mod inline;
mod patterns;

use inline::Inline;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (repeats, count) = (number(20), number(50_000));
    let wanted = arguments.next();
    let mut inline = Inline::new();
    let data = inline.data(count.max(128));
    let patterns = patterns::patterns(count);
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    for (pattern, tasks) in patterns.iter().filter(|(name, _)| is_wanted(name)) {
        for _ in 0..repeats {
            inline.run(&data, tasks, usize::MAX);
        }
        println!("{pattern}: {repeats} times {count} tasks");
    }
}
