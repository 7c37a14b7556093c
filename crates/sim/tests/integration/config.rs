//! Machine files, good and bad.

use phalanx_sim::MachineSpec;
use phalanx_sim::config::{MachineView, parse_machine, preset, presets, to_yaml};

mod bad;
mod base;
mod door;
mod levels;
mod malformed;
mod overrides;
mod random;
mod sources;

#[test]
fn every_preset_is_accepted_under_its_name() {
    for preset in presets() {
        let spec =
            parse_machine(preset.name, preset.text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(spec.name, preset.name);
        assert!(preset.text.starts_with("# What it models: "), "{}", preset.name);
        let is_made_up = preset.text.contains(
            "# Where the figures come from: round figures of the class, not a product's data sheet",
        );
        assert!(is_made_up || preset.text.contains("sources:"), "{}", preset.name);
    }
    assert_eq!(presets().len(), 18);
    assert!(preset("quad").is_none());
}

#[test]
fn print_1_presets_read_back_as_they_were() {
    for preset in presets() {
        let spec = parse_machine(preset.name, preset.text).unwrap();
        assert_eq!(parse_machine("printed", &to_yaml(&spec)), Ok(spec), "PRINT-1: {}", preset.name);
    }
}

#[test]
fn a_machine_prints_as_a_machine_file() {
    let spec = MachineSpec::preset("quad-sip").unwrap();
    insta::assert_snapshot!(to_yaml(&spec), @r#"
    name: quad-sip
    description: "four packages on a ring, four cubes each, eight PEs a cube"
    system:
      sips: { count: 4, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }
      host: { link: { bandwidth: 64 GB/s, latency: 1 us } }
    sip:
      cubes: { rows: 2, columns: 2, link: { bandwidth: 256 GB/s, latency: 20 ns } }
    cube:
      pes: { rows: 2, columns: 4, link: { bandwidth: 256 GB/s, latency: 5 ns } }
      hbm: { capacity: 16 GiB, bandwidth: 1 TB/s, latency: 100 ns }
    pe:
      tcm: { capacity: 2 MiB }
      dma: { bandwidth: 256 GB/s, latency: 50 ns }
      gemm: { rate: 8.192 TFLOP/s, tile: [128, 128, 128] }
      vector: { bandwidth: 512 GB/s }
    "#);
}

#[test]
fn a_machine_has_a_view_for_programs() {
    let spec = MachineSpec::preset("torus-16").unwrap();
    let view = serde_json::to_value(MachineView::new(&spec)).unwrap();
    assert_eq!(view["name"], "torus-16");
    assert_eq!(
        view["system"]["sips"].to_string(),
        r#"{"columns":4,"count":16,"link":{"bandwidth":"64 GB/s","latency":"500 ns"},"rows":4,"topology":"torus_2d"}"#
    );
    assert_eq!(view["pe"]["gemm"]["tile"], serde_json::json!([128, 128, 128]));
    assert_eq!(view["pe"]["gemm"]["rate"], "8.192 TFLOP/s");
    assert_eq!(view["cube"]["hbm"]["capacity"], "16 GiB");
}

#[test]
fn one_sip_needs_no_link_and_one_part_no_wire() {
    let text = preset("bare").unwrap().text;
    let text = text
        .replace("count: 8", "count: 1")
        .replace(", link: { bandwidth: 128 GB/s, latency: 500 ns }", "");
    let text = text.replace(", link: { bandwidth: unlimited, latency: 0 ns } }", " }");
    let spec = parse_machine("one", &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parse_machine("printed", &to_yaml(&spec)), Ok(spec));
}

#[test]
fn a_file_may_be_written_in_block_style_with_quotes_and_windows_line_ends() {
    let text = preset("quad-sip").unwrap().text;
    let block = text.replace(
        "  dma: { bandwidth: 256 GB/s, latency: 50 ns }",
        "  dma:\n    bandwidth: \"256GB/s\"\n    latency: '50ns'",
    );
    let expected = parse_machine("quad-sip", text);
    assert_eq!(parse_machine("block", &block), expected);
    assert_eq!(parse_machine("crlf", &text.replace('\n', "\r\n")), expected);
    assert_eq!(parse_machine("bom", &format!("\u{feff}{text}")), expected);
}

/// Returns the error of `text`.
fn refused(text: &str) -> String {
    match parse_machine("my.yaml", text) {
        Ok(spec) => panic!("accepted: {spec:?}"),
        Err(errors) => errors.to_string(),
    }
}

/// Returns the error of the default machine with `from` replaced by `to`.
fn quad(from: &str, to: &str) -> String {
    let text = preset("quad-sip").unwrap().text;
    assert!(text.contains(from), "{from}");
    refused(&text.replacen(from, to, 1))
}
