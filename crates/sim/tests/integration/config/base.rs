//! Machine files with a base, and the figures of presets.

use phalanx_sim::MachineSpec;
use phalanx_sim::config::{
    Figure, MachineView, Override, chips, figure_texts, parse_machine, parse_machine_with, preset,
    presets, to_yaml,
};
use phalanx_sim::spec::{Origin, Topology};

use super::refused;

fn figures(spec: &MachineSpec) -> Vec<Figure> {
    MachineView::new(spec).figures()
}

fn source<'a>(figures: &'a [Figure], path: &str) -> Option<&'a str> {
    let figure = figures.iter().find(|figure| figure.path == path);
    figure.unwrap_or_else(|| panic!("no {path}")).source.as_deref()
}

const LARGER: &str = "name: mine\nbase: hgx-h100\ncube: { hbm: { bandwidth: 4 TB/s } }\n";

#[test]
fn base_1_a_file_says_what_differs_from_its_base() {
    let base = MachineSpec::preset("hgx-h100").unwrap();
    let mine = parse_machine("mine.yaml", LARGER).unwrap();
    let expected = base.with("cube.hbm.bandwidth=4 TB/s").unwrap();
    assert_eq!((mine.name.as_str(), mine.description.as_str()), ("mine", ""), "BASE-1");
    let (mine, expected) = (mine.with("name=same").unwrap(), expected.with("name=same").unwrap());
    let plain =
        |spec: MachineSpec| MachineSpec { description: String::new(), sources: Vec::new(), ..spec };
    assert_eq!(plain(mine), plain(expected), "BASE-1");
}

#[test]
fn base_1_a_topology_takes_the_sides_of_the_base_away() {
    let text = "name: mine\nbase: tpu-v4-64\nsystem: { sips: { topology: switch } }\n";
    let mine = parse_machine("mine.yaml", text).unwrap();
    assert_eq!((mine.sips.topology, mine.sips.count), (Topology::Switch, 64), "BASE-1");
    let text = "name: mine\nbase: tpu-v4-64\nsystem: { sips: { rows: 2, columns: 8 } }\n";
    assert_eq!(parse_machine("mine.yaml", text).unwrap().sips.count, 64, "BASE-1: 4 x 2 x 8");
}

#[test]
fn base_1_a_list_is_replaced_whole() {
    let text = "name: mine\nbase: a100-efa-16\nsystem:\n  levels:\n    - { name: rack, count: 3, \
                topology: switch, link: { bandwidth: 1 GB/s, latency: 1 us } }\n";
    let mine = parse_machine("mine.yaml", text).unwrap();
    assert_eq!((mine.levels.len(), mine.devices()), (1, 24), "BASE-1");
    assert!(mine.levels[0].pcie.is_none(), "BASE-1");
}

#[test]
fn base_2_figures_of_the_base_keep_their_sources() {
    let mine = figures(&parse_machine("mine.yaml", LARGER).unwrap());
    assert_eq!(source(&mine, "cube.hbm.bandwidth"), None, "BASE-2");
    assert_eq!(source(&mine, "cube.hbm.capacity"), Some("NVIDIA H100 data sheet"), "BASE-2");
    assert_eq!(source(&mine, "pe.dma.latency"), Some(Origin::FITTED), "BASE-2");
    let with = format!("{LARGER}sources: {{ cube.hbm: \"a test\", pe.dma.latency: \"mine\" }}\n");
    let mine = figures(&parse_machine("mine.yaml", &with).unwrap());
    assert_eq!(source(&mine, "cube.hbm.bandwidth"), Some("a test"), "BASE-2");
    assert_eq!(source(&mine, "cube.hbm.capacity"), Some("NVIDIA H100 data sheet"), "BASE-2");
}

#[test]
fn base_3_errors_are_shown_where_they_stand() {
    let error = |text: &str| parse_machine("mine.yaml", text).unwrap_err().errors()[0].clone();
    let unknown = error("name: mine\nbase: hgx-h10\n");
    assert_eq!(unknown.message(), "`base` names no machine and no chip: `hgx-h10`", "BASE-3");
    assert!(refused("name: mine\nbase: hgx-h10\n").contains("did you mean `hgx-h100`?"), "BASE-3");
    let wrong = error("name: mine\nbase: [pair]\n");
    assert_eq!((wrong.message(), wrong.line()), ("`base` must be a name", 2), "BASE-3");
    let own = error("name: mine\nbase: hgx-h100\npe: { dma: { latency: 3 GB } }\n");
    assert_eq!((own.file(), own.line(), own.column()), ("mine.yaml", 3, 23), "BASE-3: {own:?}");
    let missing = error("name: mine\nbase: h100-sxm\n");
    assert_eq!((missing.file(), missing.line()), ("mine.yaml", 2), "BASE-3: {missing:?}");
    let many = error(
        "name: mine\nbase: hgx-h100\nsystem: { sips: { count: 65536 } }\nsip: { cubes: \
                      { rows: 4096, link: { bandwidth: 1 GB/s, latency: 1 ns } } }\n",
    );
    assert_eq!(many.file(), "mine.yaml", "BASE-3: {many:?}");
}

#[test]
fn base_3_overrides_stand_over_the_base() {
    let over = Override::parse("pe.dma.latency=7 ns").unwrap();
    let mine = parse_machine_with("mine.yaml", LARGER, &[over]).unwrap();
    let of_mine = figures(&mine);
    assert_eq!(source(&of_mine, "pe.dma.latency"), None, "BASE-3: SRC-2");
    assert_eq!(source(&of_mine, "pe.dma.bandwidth"), Some(Origin::FITTED), "BASE-3");
    assert_eq!(parse_machine("printed", &to_yaml(&mine)).unwrap(), mine, "BASE-3: PRINT-1");
}

/// The presets of machines that exist.
fn real() -> impl Iterator<Item = &'static str> {
    let made_up = ["pair", "quad-sip", "octo-ring", "torus-16", "pod-64", "bare"];
    presets().iter().map(|preset| preset.name).filter(move |name| !made_up.contains(name))
}

/// The most figures of a preset, and the most fitted ones with those of its base.
const MOST: usize = 20;

#[test]
fn presets_have_few_figures_and_all_have_sources() {
    assert_eq!(real().count(), 12);
    for name in real() {
        let all = figures(&MachineSpec::preset(name).unwrap());
        let numbers = all.iter().filter(|figure| figure.is_number());
        let own = figure_texts(preset(name).unwrap().text);
        let is_own = |figure: &&Figure| own.iter().any(|own| own.path == figure.path);
        let count = numbers.clone().filter(is_own).count();
        assert!((2..=MOST).contains(&count), "{name} has {count} figures");
        let without: Vec<_> = numbers.clone().filter(|figure| figure.source.is_none()).collect();
        assert!(without.is_empty(), "{name}: no source for {without:?}");
        // A figure that no document or measurement gives says `assumed`.
        let evasive = |figure: &&Figure| {
            let source = figure.source.as_deref().unwrap_or_default();
            ["not ", "as ", "none", "unknown"].iter().any(|word| source.starts_with(word))
        };
        let evasive: Vec<_> = numbers.clone().filter(evasive).collect();
        assert!(evasive.is_empty(), "{name}: {evasive:?}");
        let fitted = numbers.filter(|figure| figure.source.as_deref() == Some(Origin::FITTED));
        let fitted = fitted.count();
        assert!(fitted <= MOST, "{name} has {fitted} fitted figures");
    }
}

#[test]
fn chips_have_documents_and_nothing_fitted() {
    for chip in chips() {
        assert!(preset(chip.name).is_none(), "{} is a chip, not a machine", chip.name);
        assert!(!chip.text.contains(": fitted"), "{}", chip.name);
        assert!(chip.text.contains(&format!("\nname: {}\n", chip.name)), "{}", chip.name);
    }
}
