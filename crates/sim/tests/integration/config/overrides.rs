//! Machine files with single values set over them.

use phalanx_sim::config::{Override, parse_machine_with, preset};

fn overridden(name: &str, overrides: &[&str]) -> Result<phalanx_sim::MachineSpec, String> {
    let overrides: Vec<Override> =
        overrides.iter().map(|text| Override::parse(text).unwrap()).collect();
    parse_machine_with(name, preset(name).unwrap().text, &overrides)
        .map_err(|errors| errors.to_string())
}

#[test]
fn over_1_values_are_set_by_path() {
    let spec = overridden(
        "quad-sip",
        &["system.sips.count=8", " pe.gemm.tile = [64, 64, 32]", "name=mine"],
    )
    .unwrap();
    assert_eq!(
        (spec.sips.count, spec.gemm.tile, spec.name.as_str()),
        (8, [64, 64, 32], "mine"),
        "OVER-1"
    );
    let spec = overridden("quad-sip", &["pe.dma={bandwidth: unlimited, latency: 1.5 ns}"]).unwrap();
    assert_eq!(spec.dma.latency.as_ps(), 1_500);
}

#[test]
fn over_2_the_last_of_equal_paths_wins() {
    let spec = overridden("quad-sip", &["system.sips.count=8", "system.sips.count=6"]).unwrap();
    assert_eq!(spec.sips.count, 6, "OVER-2");
}

#[test]
fn over_3_a_topology_without_rows_drops_those_of_the_file() {
    let spec = overridden("torus-16", &["system.sips.topology=ring_1d"]).unwrap();
    assert_eq!(spec.sips.topology, phalanx_sim::spec::Topology::Ring1d, "OVER-3");
    let grid = ["system.sips.topology=torus_2d", "system.sips.rows=8", "system.sips.columns=8"];
    assert_eq!(overridden("pod-64", &grid).unwrap().sips.count, 64);
}

#[test]
fn over_1_errors_point_at_the_override() {
    let errors = overridden(
        "quad-sip",
        &["system.sips.count=0", "pe.dma.latency=5 GB/s", "system.sips.topology=mesh_2d"],
    );
    insta::assert_snapshot!(errors.unwrap_err(), @r#"
    error: `system.sips.count` is out of range: 0
     --> --set:1:19
      |
    1 | system.sips.count=0
      |                   ^ zero makes no sense
      |
      = help: allowed: 1 to 65536

    error: `pe.dma.latency`: `5 GB/s` is a bandwidth, not a time
     --> --set:1:16
      |
    1 | pe.dma.latency=5 GB/s
      |                ^^^^^^ not a time
      |
      = help: allowed units: ps, ns, us, ms, s

    error: missing `system.sips.rows`
     --> --set:1:22
      |
    1 | system.sips.topology=mesh_2d
      |                      ^^^^^^^ `mesh_2d` needs rows
      |
      = help: give rows and columns, with count = rows * columns

    error: missing `system.sips.columns`
     --> --set:1:22
      |
    1 | system.sips.topology=mesh_2d
      |                      ^^^^^^^ `mesh_2d` needs columns
      |
      = help: give rows and columns, with count = rows * columns
    "#);
}

#[test]
fn over_1_unknown_paths_suggest_the_suggestion() {
    let errors = overridden(
        "quad-sip",
        &[
            "system.sips.coutn=8",
            "sips.count=8",
            "pe.dma.latency.x=8",
            "pe.tcm.capacity=[1",
            "system.sips.link={}",
        ],
    );
    insta::assert_snapshot!(errors.unwrap_err(), @r#"
    error: unknown key `coutn` in `system.sips`
     --> --set:1:13
      |
    1 | system.sips.coutn=8
      |             ^^^^^ did you mean `count`?
      |
      = help: allowed keys: count, topology, layers, rows, columns, link, forwarding, multicast, reduction

    error: unknown key `sips`
     --> --set:1:1
      |
    1 | sips.count=8
      | ^^^^ did you mean `system.sips.count`?
      |
      = help: allowed keys: name, description, base, system, sip, cube, pe, collectives, sources

    error: `pe.dma.latency` is a value, it has no keys
     --> --set:1:16
      |
    1 | pe.dma.latency.x=8
      |                ^ nothing below it
      |
      = help: write `pe.dma.latency=VALUE`

    error: malformed YAML: unclosed bracket `[`
     --> --set:1:17
      |
    1 | pe.tcm.capacity=[1
      |                 ^ here

    error: missing `system.sips.link.bandwidth`
     --> --set:1:18
      |
    1 | system.sips.link={}
      |                  ^^ `bandwidth` must be given here
      |
      = help: keys of this part: bandwidth, latency, efficiency, lanes

    error: missing `system.sips.link.latency`
     --> --set:1:18
      |
    1 | system.sips.link={}
      |                  ^^ `latency` must be given here
      |
      = help: keys of this part: bandwidth, latency, efficiency, lanes
    "#);
}

#[test]
fn over_1_an_override_is_a_path_and_a_value() {
    let errors = |text| Override::parse(text).unwrap_err().to_string();
    insta::assert_snapshot!([errors("system.sips.count"), errors("system.sips.count= "), errors("system..count=8"), errors("=8")].join("\n\n"), @r#"
    error: an override is `PATH=VALUE`
     --> --set:1:1
      |
    1 | system.sips.count
      | ^^^^^^^^^^^^^^^^^ no `=` in it
      |
      = help: as in `system.sips.count=8`

    error: an override is `PATH=VALUE`
     --> --set:1:1
      |
    1 | system.sips.count= 
      | ^^^^^^^^^^^^^^^^^^^ no value in it
      |
      = help: as in `system.sips.count=8`

    error: an override is `PATH=VALUE`
     --> --set:1:1
      |
    1 | system..count=8
      | ^^^^^^^^^^^^^ a part of the path is empty
      |
      = help: as in `system.sips.count=8`

    error: an override is `PATH=VALUE`
     --> --set:1:1
      |
    1 | =8
      | ^ a part of the path is empty
      |
      = help: as in `system.sips.count=8`
    "#);
}

#[test]
fn count_that_contradicts_the_grid_is_shown_in_the_override() {
    insta::assert_snapshot!(overridden("torus-16", &["system.sips.count=8"]).unwrap_err(), @r#"
    error: `system.sips.count` contradicts rows and columns: 4 * 4 = 16, not 8
     --> --set:1:19
      |
    1 | system.sips.count=8
      |                   ^ 4 * 4 = 16
      |
      = help: count must be rows * columns
    "#);
}

#[test]
fn over_1_a_file_made_wrong_by_an_override_blames_the_override() {
    let grid = overridden("torus-16", &["system.sips.columns=2"]).unwrap_err();
    let links =
        overridden("quad-sip", &["system.sips.count=2000", "system.sips.topology=fully_connected"])
            .unwrap_err();
    let pes = overridden("pod-64", &["sip.cubes.columns=6553"]).unwrap_err();
    let nothing = overridden("pair", &["pe.tcm.capacity=#"]).unwrap_err();
    insta::assert_snapshot!([grid, links, pes, nothing].join("\n\n"), @r#"
    error: `system.sips.count` contradicts rows and columns: 4 * 2 = 8, not 16
     --> --set:1:21
      |
    1 | system.sips.columns=2
      |                     ^ 4 * 2 = 8
      |
      = help: count must be rows * columns

    error: too many SIPs for `fully_connected`: 2000
     --> --set:1:22
      |
    1 | system.sips.topology=fully_connected
      |                      ^^^^^^^^^^^^^^^ too many
      |
      = help: allowed: 1 to 1024, as each pair has its own link; `switch` takes more

    error: the machine is too large: 6710272 PEs in all
     --> --set:1:19
      |
    1 | sip.cubes.columns=6553
      |                   ^^^^ counts in SIPs * cubes * PEs
      |
      = help: allowed: at most 1048576 PEs

    error: the value is empty
     --> --set:1:17
      |
    1 | pe.tcm.capacity=#
      |                 ^ nothing here
    "#);
}
