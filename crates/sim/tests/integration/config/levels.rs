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

#[test]
fn cfg_1_what_is_wrong_with_a_level_is_shown_there() {
    let cases = [
        (
            "    - { name: node }",
            vec![
                "missing `system.levels.node.count` @ { name: node",
                "missing `system.levels.node.topology` @ { name: node",
            ],
        ),
        ("    - 7", vec!["`system.levels[0]` must be a mapping, found a single value @ 7"]),
        (
            &NODE.replace("node", "Node"),
            vec!["`system.levels.Node.name` must be one word of small letters @ Node, count:"],
        ),
        (
            &NODE.replace("node", "sip"),
            vec!["`system.levels.sip.name` cannot be `sip` @ sip, count: "],
        ),
        (
            &NODE.replace("latency: 5 us", "latency: 0 ns"),
            vec!["`system.levels.node.link.latency` must be more than zero @ 0 ns } }"],
        ),
        (
            &NODE.replace("latency: 5 us", "latency: 5 us, lanes: 0"),
            vec!["`system.levels.node.link.lanes` is out of range: 0 @ 0 } }"],
        ),
        (
            &NODE.replace("latency: 5 us", "latency: 5 us, efficiency: 1.5"),
            vec!["`system.levels.node.link.efficiency`: `1.5` is too large @ 1.5 } }"],
        ),
        (
            &NODE.replace("latency: 5 us", "latency: 5 us, efficiency: 85 %"),
            vec![
                "`system.levels.node.link.efficiency`: `85 %` has a unit, `%`, where a number alone is wanted @ 85 % } }",
            ],
        ),
        (
            &NODE.replace("count: 4", "count: 4, nics: 3"),
            vec!["`system.levels.node.nics` does not fit 4 devices: 3 @ 3, topology:"],
        ),
        (
            &NODE.replace("count: 4", "count: 4, nics: 8"),
            vec!["`system.levels.node.nics` does not fit 4 devices: 8 @ 8, topology:"],
        ),
        (
            &NODE.replace("count: 4", "count: 4, pcie: { bandwidth: 1 GB/s, latency: 0 ns }"),
            vec!["`system.levels.node.pcie.latency` must be more than zero @ 0 ns }, topo"],
        ),
        (
            &NODE.replace("topology: switch", "topology: ring_1d, oversubscription: 2"),
            vec!["topology `ring_1d` cannot be oversubscribed @ 2, link: { b"],
        ),
        (
            &NODE.replace("topology: switch", "topology: ring_1d, reduction: {}"),
            vec!["topology `ring_1d` has no reduction @ reduction: {"],
        ),
        (
            &NODE.replace("5 us", "10 ps").replace("count: 4", "count: 4, nics: 1"),
            vec!["`system.levels.node.link.latency` is too short @ 10 ps } }"],
        ),
        (
            &NODE.replace("topology: switch", "topology: torus_3d, layers: 2, rows: 2"),
            vec!["missing `system.levels.node.columns` @ torus_3d, la"],
        ),
        (
            &NODE.replace("topology: switch", "topology: torus_3d, layers: 2, rows: 2, columns: 2"),
            vec![
                "`system.levels.node.count` contradicts layers, rows and columns: 2 * 2 * 2 = 8, not 4 @ 4, topology:",
            ],
        ),
        (
            &NODE.replace("count: 4", "count: 65536"),
            vec!["the machine is too large: 262144 SIPs in all @ 65536, topol"],
        ),
        (&format!("{NODE}\n{NODE}"), vec!["two levels have the name `node` @ node, count:"]),
        (
            &NODE.replace(
                "topology: switch, link: { bandwidth: 50 GB/s, latency: 5 us }",
                "topology: switch",
            ),
            vec![
                "the machine cannot route: there is no way between the groups of `system.levels.node`, which has no `link` @ { name: node",
            ],
        ),
        (
            &NODE.replace("oversub", "").replace("topology", "topolgy"),
            vec!["unknown key `topolgy` in `system.levels.node` @ topolgy: swi"],
        ),
    ];
    for (levels, expected) in cases {
        assert_eq!(refused(levels), expected, "CFG-1: {levels}");
    }
    let not_a_list =
        preset("quad-sip").unwrap().text.replace("  host:", "  levels: { name: node }\n  host:");
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
