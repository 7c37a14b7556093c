//! Levels in machine files: what is read, what is refused and where.

use phalanx_sim::config::{Override, parse_machine, parse_machine_with, preset, to_yaml};
use phalanx_sim::names::Names;
use phalanx_sim::spec::{Efficiency, InSwitchSpec, Topology};
use phalanx_sim::{MachineSpec, Time};

const NODE: &str =
    "    - { name: node, count: 4, topology: switch, link: { bandwidth: 50 GB/s, latency: 5 us } }";

/// `quad-sip` with a list of levels, of which this is the text.
fn file(levels: &str) -> String {
    preset("quad-sip").unwrap().text.replace("  host:", &format!("  levels:\n{levels}\n  host:"))
}

fn read(levels: &str) -> MachineSpec {
    parse_machine("my.yaml", &file(levels)).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The message of each error, with the text that it points at.
fn refused(levels: &str) -> Vec<String> {
    let text = file(levels);
    let errors = parse_machine("my.yaml", &text).unwrap_err();
    let pointed = |error: &phalanx_sim::config::ConfigError| {
        let line = text.lines().nth(error.line() - 1).unwrap();
        let rest: String = line.chars().skip(error.column() - 1).take(12).collect();
        format!("{} @ {rest}", error.message())
    };
    errors.errors().iter().map(pointed).collect()
}

#[test]
fn cfg_1_levels_are_read_with_their_defaults() {
    let spec = read(NODE);
    let node = &spec.levels[0];
    assert_eq!((spec.devices(), node.count, node.nics, node.oversubscription), (16, 4, 4, 1));
    assert_eq!((node.pcie, node.link.lanes, node.link.efficiency), (None, 1, Efficiency::FULL));
    let rich = "    - name: node\n      count: 2\n      topology: switch\n      \
                link: { bandwidth: 50 GB/s, latency: 5 us, efficiency: 0.85, lanes: 2 }\n      nics: 2\n      \
                pcie: { bandwidth: 64 GB/s, latency: 1 us }\n      oversubscription: 3\n      \
                multicast:\n      reduction: { efficiency: 0.5, start: 2 us }";
    let node = read(rich).levels[0].clone();
    assert_eq!(node.link.wire().bandwidth.as_per_second(), Some(85_000_000_000));
    assert_eq!((node.nics, node.oversubscription), (2, 3));
    assert_eq!(node.multicast, Some(InSwitchSpec::default()));
    assert_eq!(node.reduction.unwrap().start, Time::us(2));
}

/// Checks that `NODE` with `before` replaced by `after` is refused by these messages.
fn check(before: &str, after: &str, expected: &[&str]) {
    assert!(NODE.contains(before), "{before}");
    let levels = NODE.replace(before, after);
    assert_eq!(refused(&levels), expected, "CFG-1: {levels}");
}

#[test]
fn cfg_1_a_wrong_link_of_a_level_is_shown_there() {
    let latency = "latency: 5 us";
    check(
        latency,
        "latency: 0 ns",
        &["`system.levels.node.link.latency` must be more than zero @ 0 ns } }"],
    );
    check(
        latency,
        "latency: 5 us, lanes: 0",
        &["`system.levels.node.link.lanes` is out of range: 0 @ 0 } }"],
    );
    let large = "`system.levels.node.link.efficiency`: `1.5` is too large @ 1.5 } }";
    check(latency, "latency: 5 us, efficiency: 1.5", &[large]);
    let unit = "`system.levels.node.link.efficiency`: `85 %` has a unit, `%`, where a number alone is wanted @ 85 % } }";
    check(latency, "latency: 5 us, efficiency: 85 %", &[unit]);
    let none = "the machine cannot route: there is no way between the groups of `system.levels.node`, which has no `link` @ { name: node";
    check(", link: { bandwidth: 50 GB/s, latency: 5 us }", "", &[none]);
    let short = NODE.replace("5 us", "10 ps").replace("count: 4", "count: 4, nics: 1");
    assert_eq!(
        refused(&short),
        ["`system.levels.node.link.latency` is too short @ 10 ps } }"],
        "CFG-1"
    );
}

#[test]
fn cfg_1_a_wrong_topology_of_a_level_is_shown_there() {
    let switch = "topology: switch";
    let over = "topology `ring_1d` cannot be oversubscribed @ 2, link: { b";
    check(switch, "topology: ring_1d, oversubscription: 2", &[over]);
    let reduces = "topology `ring_1d` has no reduction @ reduction: {";
    check(switch, "topology: ring_1d, reduction: {}", &[reduces]);
    let side = "missing `system.levels.node.columns` @ torus_3d, la";
    check(switch, "topology: torus_3d, layers: 2, rows: 2", &[side]);
    let product = "`system.levels.node.count` contradicts layers, rows and columns: 2 * 2 * 2 = 8, not 4 @ 4, topology:";
    check(switch, "topology: torus_3d, layers: 2, rows: 2, columns: 2", &[product]);
    check("topology", "topolgy", &["unknown key `topolgy` in `system.levels.node` @ topolgy: swi"]);
}

#[test]
fn cfg_1_wrong_nics_of_a_level_are_shown_there() {
    let count = "count: 4";
    check(
        count,
        "count: 4, nics: 3",
        &["`system.levels.node.nics` does not fit 4 devices: 3 @ 3, topology:"],
    );
    check(
        count,
        "count: 4, nics: 8",
        &["`system.levels.node.nics` does not fit 4 devices: 8 @ 8, topology:"],
    );
    let zero = "`system.levels.node.pcie.latency` must be more than zero @ 0 ns }, topo";
    check(count, "count: 4, pcie: { bandwidth: 1 GB/s, latency: 0 ns }", &[zero]);
    check(count, "count: 65536", &["the machine is too large: 262144 SIPs in all @ 65536, topol"]);
}

#[test]
fn cfg_1_a_wrong_item_or_name_of_a_level_is_shown_there() {
    let missing = ["count", "topology"]
        .map(|key| format!("missing `system.levels.node.{key}` @ {{ name: node"));
    assert_eq!(refused("    - { name: node }"), missing, "CFG-1");
    assert_eq!(
        refused("    - 7"),
        ["`system.levels[0]` must be a mapping, found a single value @ 7"],
        "CFG-1"
    );
    check(
        "node",
        "Node",
        &["`system.levels.Node.name` must be one word of small letters @ Node, count:"],
    );
    check("node", "sip", &["`system.levels.sip.name` cannot be `sip` @ sip, count: "]);
    let twice = format!("{NODE}\n{NODE}");
    assert_eq!(refused(&twice), ["two levels have the name `node` @ node, count:"], "CFG-1");
    let quad = preset("quad-sip").unwrap().text;
    let not_a_list = quad.replace("  host:", "  levels: { name: node }\n  host:");
    let errors = parse_machine("my.yaml", &not_a_list).unwrap_err();
    assert_eq!(errors.errors()[0].message(), "`system.levels` must be a list, found a mapping");
}

#[test]
fn cfg_4_too_many_levels_are_refused() {
    let level = |name: &str| NODE.replace("node", name).replace("count: 4", "count: 1");
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let six = names[..6].iter().map(|name| level(name)).collect::<Vec<_>>().join("\n");
    assert_eq!(read(&six).level_count(), 7, "CFG-4");
    let seven = names.iter().map(|name| level(name)).collect::<Vec<_>>().join("\n");
    assert_eq!(refused(&seven), ["too many levels: 7 @ { name: g, c"], "CFG-4");
}

#[test]
fn over_4_a_level_is_overridden_by_its_name() {
    let text = file(NODE);
    let with = |overrides: &[&str]| {
        let overrides: Vec<_> =
            overrides.iter().map(|text| Override::parse(text).unwrap()).collect();
        parse_machine_with("my.yaml", &text, &overrides)
    };
    let changed = with(&["system.levels.node.count=2", "system.levels.node.link.lanes=3"]).unwrap();
    assert_eq!((changed.devices(), changed.levels[0].link.lanes), (8, 3), "OVER-4");
    let torus =
        ["topology=torus_2d", "rows=2", "columns=2"].map(|set| format!("system.levels.node.{set}"));
    let torus = with(&torus.each_ref().map(String::as_str)).unwrap();
    assert_eq!(torus.levels[0].topology, Topology::Torus2d { rows: 2, columns: 2 }, "OVER-4");
    let again = parse_machine_with(
        "again",
        &to_yaml(&torus),
        &[Override::parse("system.levels.node.topology=ring_1d").unwrap()],
    );
    assert_eq!(again.unwrap().levels[0].topology, Topology::Ring1d, "OVER-3");
    let message = |set: &str| with(&[set]).unwrap_err().errors()[0].message().to_owned();
    assert_eq!(
        message("system.levels.nod.count=2"),
        "unknown key `nod` in `system.levels`",
        "OVER-4"
    );
    assert_eq!(
        message("system.levels.node.cuont=2"),
        "unknown key `cuont` in `system.levels.node`",
        "OVER-4"
    );
    assert_eq!(Names::new(&torus).address(5), "node1.sip1");
}

#[test]
fn print_1_a_machine_of_levels_reads_back() {
    let spec = read(&NODE.replace("count: 4", "count: 4, nics: 2, multicast: {}"));
    assert_eq!(parse_machine("printed", &to_yaml(&spec)), Ok(spec), "PRINT-1");
}
