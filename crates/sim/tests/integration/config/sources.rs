//! The section `sources`.

use phalanx_sim::MachineSpec;
use phalanx_sim::config::{MachineView, figure_texts, parse_machine, preset, to_yaml};
use phalanx_sim::spec::Origin;

use super::refused;

/// The default machine with a section `sources`.
fn with_sources(lines: &str) -> String {
    format!("{}sources:\n{lines}", preset("quad-sip").unwrap().text)
}

fn machine(lines: &str) -> MachineSpec {
    parse_machine("my.yaml", &with_sources(lines)).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn src_1_figures_have_sources() {
    let spec = machine("  pe.dma.latency: fitted\n  pe.gemm.tile: \"a: b # c\"\n");
    let known: Vec<_> =
        spec.sources.iter().map(|from| (from.figure.as_str(), from.origin.clone())).collect();
    let text = Origin::Text("a: b # c".into());
    assert_eq!(known, [("pe.dma.latency", Origin::Fitted), ("pe.gemm.tile", text)], "SRC-1");
    assert_eq!(parse_machine("printed", &to_yaml(&spec)), Ok(spec.clone()), "PRINT-1");
    let figures = MachineView::new(&spec).figures();
    let source = |path: &str| figures.iter().find(|figure| figure.path == path).unwrap();
    assert_eq!(source("pe.dma.latency").source.as_deref(), Some("fitted"));
    assert_eq!(source("pe.gemm.tile").value, "[128, 128, 128]");
    assert_eq!(source("pe.tcm.capacity").source, None);
    assert!(machine("").sources.is_empty(), "an empty section");
    let spec = machine("  pe: a\n  pe.dma: b\n  pe.dma.latency: fitted\n");
    let figures = MachineView::new(&spec).figures();
    let source =
        |path: &str| figures.iter().find(|figure| figure.path == path).unwrap().source.as_deref();
    let [rate, bandwidth] = ["pe.gemm.rate", "pe.dma.bandwidth"].map(source);
    assert_eq!((rate, bandwidth, source("pe.dma.latency")), (Some("a"), Some("b"), Some("fitted")));
    assert_eq!(source("cube.hbm.latency"), None);
    let changed = spec.with("pe.dma.latency=1 ns").unwrap();
    assert_eq!(changed.sources, [], "SRC-2: the figure, and the parts that it belongs to");
}

#[test]
fn src_1_a_source_of_nothing_is_refused() {
    let lines = "  pe.dma.latncy: fitted\n  dma.latency: x\n  pe.dmas: fitted\n  name: x\n  pe.tcm.capacity: [1]\n";
    insta::assert_snapshot!(refused(&with_sources(lines)), @r#"
    error: `sources` names no figure of this file: `pe.dma.latncy`
      --> my.yaml:21:3
       |
    21 |   pe.dma.latncy: fitted
       |   ^^^^^^^^^^^^^ did you mean `pe.dma.latency`?
       |
       = help: allowed: the path of a value that the file gives, as in `pe.dma.latency`

    error: `sources` names no figure of this file: `dma.latency`
      --> my.yaml:22:3
       |
    22 |   dma.latency: x
       |   ^^^^^^^^^^^ did you mean `pe.dma.latency`?
       |
       = help: allowed: the path of a value that the file gives, as in `pe.dma.latency`

    error: `sources` names no figure of this file: `pe.dmas`
      --> my.yaml:23:3
       |
    23 |   pe.dmas: fitted
       |   ^^^^^^^ did you mean `pe.dma`?
       |
       = help: allowed: the path of a value that the file gives, as in `pe.dma.latency`

    error: `sources` names no figure of this file: `name`
      --> my.yaml:24:3
       |
    24 |   name: x
       |   ^^^^ no such figure in this file
       |
       = help: allowed: the path of a value that the file gives, as in `pe.dma.latency`

    error: `sources.pe.tcm.capacity` must be a text, found a list
      --> my.yaml:25:20
       |
    25 |   pe.tcm.capacity: [1]
       |                    ^^^ not a text
       |
       = help: allowed: `fitted`, or where the figure is from
    "#);
}

#[test]
fn src_1_figures_of_levels_go_by_the_name_of_their_level() {
    let levels = "\n  levels:\n    - { name: node, count: 2, topology: switch, link: { bandwidth: 50 GB/s, latency: 5 us }, nics: 2 }\n  host";
    let text =
        with_sources("  system.levels.node.link.latency: fitted\n  system.levels.node.nics: two\n");
    let text = text.replacen("\n  host", levels, 1);
    let spec = parse_machine("my.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(spec.sources.len(), 2, "SRC-1");
    assert_eq!(parse_machine("printed", &to_yaml(&spec)), Ok(spec.clone()), "PRINT-1");
    let figures = MachineView::new(&spec).figures();
    let latency = figures.iter().find(|figure| figure.path == "system.levels.node.link.latency");
    assert_eq!(latency.unwrap().source.as_deref(), Some("fitted"));
    assert!(figures.iter().all(|figure| !figure.path.ends_with("name")));
    let slow = spec.with("system.levels.node.link.latency=9 us").unwrap();
    assert_eq!(slow.sources.len(), 1, "SRC-2");
    let wrong = refused(&text.replace("system.levels.node.nics", "system.levels.0.nics"));
    assert!(wrong.contains("names no figure"), "{wrong}");
}

#[test]
fn src_1_a_source_is_one_line_given_once() {
    let twice = refused(&with_sources("  pe.dma.latency: fitted\n  pe.dma.latency: fitted\n"));
    assert!(twice.starts_with("error: duplicate key `sources.pe.dma.latency`"), "{twice}");
    for text in ["\"two\\nlines\"", "\"\""] {
        let lines = refused(&with_sources(&format!("  pe.dma.latency: {text}\n")));
        assert!(lines.contains("must be one line of text"), "{lines}");
    }
    let list = refused(&format!("{}sources: [1]\n", preset("quad-sip").unwrap().text));
    assert!(list.starts_with("error: `sources` must be a mapping, found a list"), "{list}");
}

#[test]
fn src_2_an_override_takes_the_source_of_its_figure() {
    let lines = "  pe.dma.latency: a\n  pe.dma.bandwidth: b\n  pe.gemm.rate: c\n";
    let spec = machine(lines);
    let figures = |spec: &MachineSpec| {
        spec.sources.iter().map(|from| from.figure.clone()).collect::<Vec<_>>()
    };
    let one = spec.with("pe.dma.latency=1 ns").unwrap();
    assert_eq!(figures(&one), ["pe.dma.bandwidth", "pe.gemm.rate"], "SRC-2");
    let part = spec.with("pe.dma={bandwidth: 1 GB/s, latency: 1 ns}").unwrap();
    assert_eq!(figures(&part), ["pe.gemm.rate"], "SRC-2: a whole section");
    let own = spec.with_all(["pe.dma.latency=1 ns", "sources={pe.dma.latency: mine}"]).unwrap();
    assert_eq!(figures(&own), ["pe.dma.latency"], "SRC-2: its own source");
    let grid = ["system.sips.topology=torus_2d", "system.sips.rows=2", "system.sips.columns=2"];
    let rows = "sources={system.sips.rows: r}";
    let torus = spec.with_all(grid.into_iter().chain([rows])).unwrap();
    let ring = torus.with("system.sips.topology=ring_1d").unwrap();
    assert_eq!(figures(&ring), Vec::<String>::new(), "SRC-2: rows that are gone (OVER-3)");
}

#[test]
fn figures_have_their_place_in_the_text() {
    let text = with_sources("  pe.dma.latency: fitted\n");
    for figure in figure_texts(&text) {
        assert_eq!(text[figure.range.clone()].trim_matches('"'), figure.value, "{}", figure.path);
    }
    let paths: Vec<_> = figure_texts(&text).into_iter().map(|figure| figure.path).collect();
    assert!(
        paths.contains(&"cube.hbm.bandwidth".to_owned()) && !paths.contains(&"name".to_owned())
    );
    assert_eq!(figure_texts("]["), []);
}
