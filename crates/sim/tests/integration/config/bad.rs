//! Files that are refused, and what is said about them.

use phalanx_sim::config::{parse_machine, preset};

use super::{quad, refused};

#[test]
fn cfg_1_an_unknown_key_has_its_suggestion() {
    insta::assert_snapshot!(quad("dma: { bandwidth", "dma: { bandwith"), @r#"
    error: unknown key `bandwith` in `pe.dma`
      --> my.yaml:17:10
       |
    17 |   dma: { bandwith: 256 GB/s, latency: 50 ns }
       |          ^^^^^^^^ did you mean `bandwidth`?
       |
       = help: allowed keys: bandwidth, latency, outstanding, burst
    "#);
}

#[test]
fn cfg_1_an_unknown_key_without_a_suggestion_lists_the_keys() {
    insta::assert_snapshot!(quad("  tcm:", "  frequency: 1 GHz\n  tcm:"), @r#"
    error: unknown key `frequency` in `pe`
      --> my.yaml:16:3
       |
    16 |   frequency: 1 GHz
       |   ^^^^^^^^^ no such key
       |
       = help: allowed keys: tcm, dma, gemm, vector
    "#);
}

#[test]
fn cfg_1_an_unknown_part_of_the_file() {
    insta::assert_snapshot!(quad("\nsip:", "\nsips:"), @r#"
    error: unknown key `sips`
      --> my.yaml:11:1
       |
    11 | sips:  { cubes: { rows: 2, columns: 2, link: { bandwidth: 256 GB/s, latency: 20 ns } } }
       | ^^^^ did you mean `sip`?
       |
       = help: allowed keys: name, description, base, system, sip, cube, pe, collectives, sources
    "#);
}

#[test]
fn cfg_1_a_key_given_twice() {
    insta::assert_snapshot!(quad("count: 4,", "count: 4, count: 8,"), @r#"
    error: duplicate key `system.sips.count`
     --> my.yaml:9:21
      |
    9 |   sips: { count: 4, count: 8, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                     ^^^^^ given before
      |
      = help: keep one of the two
    "#);
}

#[test]
fn cfg_1_a_value_of_the_wrong_type() {
    let list = quad("count: 4", "count: [4]");
    let nothing = quad("host: { link: { bandwidth: 64 GB/s, latency: 1 us } }", "host:");
    let text = quad("  tcm: { capacity: 2 MiB }", "  tcm: 2 MiB");
    let tile = quad("[128, 128, 128]", "[128, 128]");
    insta::assert_snapshot!([list, nothing, text, tile].join("\n\n"), @r#"
    error: `system.sips.count` must be a whole number, found a list
     --> my.yaml:9:18
      |
    9 |   sips: { count: [4], topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                  ^^^ not a whole number
      |
      = help: allowed: digits only, as in `8`

    error: `system.host` must be a mapping, found nothing
      --> my.yaml:10:3
       |
    10 |   host:
       |   ^^^^ not a mapping
       |
       = help: allowed keys: link, launch

    error: `pe.tcm` must be a mapping, found a single value
      --> my.yaml:16:8
       |
    16 |   tcm: 2 MiB
       |        ^^^^^ not a mapping
       |
       = help: allowed keys: capacity

    error: `pe.gemm.tile` must be three numbers, found 2 numbers
      --> my.yaml:18:38
       |
    18 |   gemm: { rate: 8.192 TFLOP/s, tile: [128, 128] }
       |                                      ^^^^^^^^^^ not `[m, n, k]`
       |
       = help: as in `[128, 128, 128]`
    "#);
}

#[test]
fn cfg_1_a_value_of_the_wrong_unit() {
    let kind = quad("bandwidth: 64 GB/s", "bandwidth: 64 ns");
    let missing = quad("bandwidth: 64 GB/s", "bandwidth: 64");
    let spelling = quad("bandwidth: 64 GB/s", "bandwidth: 64 GBps");
    insta::assert_snapshot!([kind, missing, spelling].join("\n\n"), @r#"
    error: `system.host.link.bandwidth`: `64 ns` is a time, not a bandwidth
      --> my.yaml:10:30
       |
    10 |   host: { link: { bandwidth: 64 ns, latency: 1 us } }
       |                              ^^^^^ not a bandwidth
       |
       = help: allowed units: B/s, KB/s, MB/s, GB/s, TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s, or `unlimited`

    error: `system.host.link.bandwidth`: `64` has no unit
      --> my.yaml:10:30
       |
    10 |   host: { link: { bandwidth: 64, latency: 1 us } }
       |                              ^^ not a bandwidth
       |
       = help: allowed units: B/s, KB/s, MB/s, GB/s, TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s, or `unlimited`

    error: `system.host.link.bandwidth`: `64 GBps` has the unknown unit `GBps`
      --> my.yaml:10:30
       |
    10 |   host: { link: { bandwidth: 64 GBps, latency: 1 us } }
       |                              ^^^^^^^ not a bandwidth
       |
       = help: did you mean `GB/s`? allowed units: B/s, KB/s, MB/s, GB/s, TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s, or `unlimited`
    "#);
}

#[test]
fn cfg_1_negative_overflowing_or_inexact_quantities() {
    let negative = quad("latency: 1 us", "latency: -1 us");
    let overflow = quad("capacity: 16 GiB", "capacity: 99999999999 GiB");
    let inexact = quad("latency: 1 us", "latency: 1.0000001 us");
    let notation = quad("rows: 2", "rows: 0x2");
    insta::assert_snapshot!([negative, overflow, inexact, notation].join("\n\n"), @r#"
    error: `system.host.link.latency`: `-1 us` is negative
      --> my.yaml:10:48
       |
    10 |   host: { link: { bandwidth: 64 GB/s, latency: -1 us } }
       |                                                ^^^^^ not a time
       |
       = help: use zero or more

    error: `cube.hbm.capacity`: `99999999999 GiB` is too large
      --> my.yaml:14:20
       |
    14 |   hbm: { capacity: 99999999999 GiB, bandwidth: 1 TB/s, latency: 100 ns }
       |                    ^^^^^^^^^^^^^^^ too large
       |
       = help: allowed: at most 4 EiB in all, or `unlimited`

    error: `system.host.link.latency`: `1.0000001 us` is not a whole number of picoseconds
      --> my.yaml:10:48
       |
    10 |   host: { link: { bandwidth: 64 GB/s, latency: 1.0000001 us } }
       |                                                ^^^^^^^^^^^^ not a time
       |
       = help: the simulator counts whole picoseconds

    error: `sip.cubes.rows`: `0x2` is not written in plain decimal digits
      --> my.yaml:11:24
       |
    11 | sip:  { cubes: { rows: 0x2, columns: 2, link: { bandwidth: 256 GB/s, latency: 20 ns } } }
       |                        ^^^ not a whole number
       |
       = help: write the number in plain decimal digits, as in `1000` or `8.192`
    "#);
}

#[test]
fn cfg_1_zero_where_it_makes_no_sense() {
    let bandwidth = quad("bandwidth: 64 GB/s", "bandwidth: 0 GB/s");
    let count = quad("count: 4", "count: 0");
    let rows = quad("rows: 2", "rows: 0");
    insta::assert_snapshot!([bandwidth, count, rows].join("\n\n"), @r#"
    error: `system.host.link.bandwidth`: `0 GB/s` is zero, which makes no sense for a bandwidth
      --> my.yaml:10:30
       |
    10 |   host: { link: { bandwidth: 0 GB/s, latency: 1 us } }
       |                              ^^^^^^ not a bandwidth
       |
       = help: use more than zero, or `unlimited` for what costs nothing

    error: `system.sips.count` is out of range: 0
     --> my.yaml:9:18
      |
    9 |   sips: { count: 0, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                  ^ zero makes no sense
      |
      = help: allowed: 1 to 65536

    error: `sip.cubes.rows` is out of range: 0
      --> my.yaml:11:24
       |
    11 | sip:  { cubes: { rows: 0, columns: 2, link: { bandwidth: 256 GB/s, latency: 20 ns } } }
       |                        ^ zero makes no sense
       |
       = help: allowed: 1 to 65536
    "#);
}

#[test]
fn cfg_1_a_missing_part() {
    let dma = quad("  dma: { bandwidth: 256 GB/s, latency: 50 ns }\n", "");
    let name = quad("name: quad-sip\n", "");
    let rate = quad("rate: 8.192 TFLOP/s, ", "");
    insta::assert_snapshot!([dma, name, rate].join("\n\n"), @r#"
    error: missing `pe.dma`
      --> my.yaml:15:1
       |
    15 | pe:
       | ^^ `dma` must be given here
       |
       = help: keys of this part: tcm, dma, gemm, vector

    error: missing `name`
     --> my.yaml:6:1
      |
    6 | description: four packages on a ring, four cubes each, eight PEs a cube
      | ^ `name` must be given here
      |
      = help: keys of this part: name, description, base, system, sip, cube, pe, collectives, sources

    error: missing `pe.gemm.rate`
      --> my.yaml:18:3
       |
    18 |   gemm: { tile: [128, 128, 128] }
       |   ^^^^ `rate` must be given here
       |
       = help: keys of this part: rate, tile, efficiency, rates
    "#);
}

#[test]
fn cfg_1_a_grid_that_contradicts_the_count() {
    insta::assert_snapshot!(quad("topology: ring_1d", "topology: torus_2d, rows: 2, columns: 3"), @r#"
    error: `system.sips.count` contradicts rows and columns: 2 * 3 = 6, not 4
     --> my.yaml:9:18
      |
    9 |   sips: { count: 4, topology: torus_2d, rows: 2, columns: 3, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d ad...
      |                  ^ 2 * 3 = 6
      |
      = help: count must be rows * columns
    "#);
}

#[test]
fn cfg_1_rows_where_there_are_none() {
    insta::assert_snapshot!(quad("topology: ring_1d", "topology: switch, rows: 2"), @r#"
    error: topology `switch` has no rows
     --> my.yaml:9:39
      |
    9 |   sips: { count: 4, topology: switch, rows: 2, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                                       ^^^^ has no meaning here
      |
      = help: only meshes and tori take rows and columns
    "#);
}

#[test]
fn cfg_1_a_grid_without_its_sides() {
    insta::assert_snapshot!(quad("topology: ring_1d", "topology: mesh_2d, rows: 2"), @r#"
    error: missing `system.sips.columns`
     --> my.yaml:9:31
      |
    9 |   sips: { count: 4, topology: mesh_2d, rows: 2, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                               ^^^^^^^ `mesh_2d` needs columns
      |
      = help: give rows and columns, with count = rows * columns
    "#);
}

#[test]
fn cfg_1_an_unknown_topology() {
    insta::assert_snapshot!(quad("topology: ring_1d", "topology: ring"), @r#"
    error: unknown topology `ring`
     --> my.yaml:9:31
      |
    9 |   sips: { count: 4, topology: ring, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                               ^^^^ did you mean `ring_1d`?
      |
      = help: allowed: ring_1d, mesh_2d, torus_2d, mesh_3d, torus_3d, fully_connected, switch
    "#);
}

#[test]
fn cfg_1_a_name_that_is_not_a_word() {
    insta::assert_snapshot!(quad("name: quad-sip", "name: quad sip"), @r#"
    error: `name` must be one word
     --> my.yaml:6:7
      |
    6 | name: quad sip
      |       ^^^^^^^^ not one word
      |
      = help: allowed: 1 to 64 letters, digits, `-`, `_`, `.`, the first a letter or digit
    "#);
}

#[test]
fn cfg_2_several_errors_are_reported_together() {
    let text = preset("quad-sip").unwrap().text;
    let text = text
        .replace("count: 4", "count: four")
        .replace("tcm: { capacity: 2 MiB }", "tcm: { capacity: 2 Mib }");
    let text =
        text.replace("columns: 4", "colums: 4").replace("  hbm: { capacity: 16 GiB, ", "  hbm: { ");
    insta::assert_snapshot!(refused(&text), @r#"
    error: `system.sips.count`: `four` is not a whole number: it does not start with a number
     --> my.yaml:9:18
      |
    9 |   sips: { count: four, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                  ^^^^ not a whole number
      |
      = help: allowed: digits only, as in `8`

    error: unknown key `colums` in `cube.pes`
      --> my.yaml:13:19
       |
    13 |   pes: { rows: 2, colums: 4, link: { bandwidth: 256 GB/s, latency: 5 ns } }
       |                   ^^^^^^ did you mean `columns`?
       |
       = help: allowed keys: rows, columns, link

    error: missing `cube.hbm.capacity`
      --> my.yaml:14:3
       |
    14 |   hbm: { bandwidth: 1 TB/s, latency: 100 ns }
       |   ^^^ `capacity` must be given here
       |
       = help: keys of this part: capacity, bandwidth, latency, efficiency

    error: `pe.tcm.capacity`: `2 Mib` has the unknown unit `Mib`
      --> my.yaml:16:20
       |
    16 |   tcm: { capacity: 2 Mib }
       |                    ^^^^^ not a capacity
       |
       = help: did you mean `MiB`? allowed units: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, none for bytes, or `unlimited`
    "#);
}

#[test]
fn cfg_2_errors_can_be_asked_for_one_by_one() {
    let text = preset("pair").unwrap().text.replace("count: 2", "count: two");
    let errors = parse_machine("my.yaml", &text).unwrap_err();
    let [error] = errors.errors() else { panic!("{errors}") };
    assert_eq!((error.file(), error.line(), error.column()), ("my.yaml", 7, 18), "CFG-2");
    assert_eq!(
        error.message(),
        "`system.sips.count`: `two` is not a whole number: it does not start with a number"
    );
    assert_eq!(error.help(), Some("allowed: digits only, as in `8`"));
    assert!(error.source_line().starts_with("  sips: { count: two,"));
    assert!(errors.render(true).contains("\u{1b}["));
    assert!(!errors.render(false).contains('\u{1b}'));
}

#[test]
fn cfg_2_a_file_full_of_errors_shows_the_first() {
    let junk = (0..30).map(|n| format!("junk-{n}: 1")).collect::<Vec<_>>().join("\n");
    let shown = refused(&format!("{}{junk}", preset("quad-sip").unwrap().text));
    assert_eq!(shown.matches("unknown key").count(), 20, "CFG-2");
    assert!(shown.ends_with("error: and 10 more"), "{shown}");
}

#[test]
fn cfg_3_sips_without_a_link_cannot_route() {
    insta::assert_snapshot!(quad(", link: { bandwidth: 128 GB/s, latency: 500 ns }", ""), @r#"
    error: the machine cannot route: there is no way from SIP 0 to SIP 1, as `system.sips` has no `link`
     --> my.yaml:9:3
      |
    9 |   sips: { count: 4, topology: ring_1d }   # mesh_2d/torus_2d add rows, columns
      |   ^^^^ `link` must be given here
      |
      = help: add `link: { bandwidth: 128 GB/s, latency: 500 ns }`; only a machine of one SIP needs none
    "#);
}

#[test]
fn cfg_3_links_between_sips_take_time() {
    insta::assert_snapshot!(quad("latency: 500 ns", "latency: 0 ns"), @r#"
    error: `system.sips.link.latency` must be more than zero
     --> my.yaml:9:78
      |
    9 |   sips: { count: 4, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 0 ns } }   # mesh_2d/torus_2d add rows, columns
      |                                                                              ^^^^ zero
      |
      = help: use at least 1 ps: it is the lookahead that lets SIPs advance in parallel
    "#);
}

#[test]
fn cfg_4_machines_have_a_largest_size() {
    let sips = quad("count: 4", "count: 65537");
    let pes = quad("rows: 2, columns: 4", "rows: 200, columns: 400");
    let links = quad("count: 4, topology: ring_1d", "count: 1025, topology: fully_connected");
    let memory = quad("capacity: 16 GiB", "capacity: 1000000 TiB");
    let latency = quad("latency: 500 ns", "latency: 101 s");
    insta::assert_snapshot!([sips, pes, links, memory, latency].join("\n\n"), @r#"
    error: `system.sips.count` is out of range: 65537
     --> my.yaml:9:18
      |
    9 |   sips: { count: 65537, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                  ^^^^^ too many
      |
      = help: allowed: 1 to 65536

    error: the machine is too large: 80000 PEs in a cube
      --> my.yaml:13:30
       |
    13 |   pes: { rows: 200, columns: 400, link: { bandwidth: 256 GB/s, latency: 5 ns } }
       |                              ^^^ counts in rows * columns
       |
       = help: allowed: at most 65536 PEs in a cube

    error: too many SIPs for `fully_connected`: 1025
     --> my.yaml:9:18
      |
    9 |   sips: { count: 1025, topology: fully_connected, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, col...
      |                  ^^^^ too many
      |
      = help: allowed: 1 to 1024, as each pair has its own link; `switch` takes more

    error: the machine is too large: 16 * 1024000000 GiB of HBM in all
      --> my.yaml:14:20
       |
    14 |   hbm: { capacity: 1000000 TiB, bandwidth: 1 TB/s, latency: 100 ns }
       |                    ^^^^^^^^^^^ too much memory
       |
       = help: allowed: at most 4 EiB in all, or `unlimited`

    error: `system.sips.link.latency` is out of range: 101 s
     --> my.yaml:9:78
      |
    9 |   sips: { count: 4, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 101 s } }   # mesh_2d/torus_2d add rows, columns
      |                                                                              ^^^^^ too long
      |
      = help: allowed: at most 100 s
    "#);
}

#[test]
fn cfg_4_a_number_beyond_counting_meets_the_same_limit() {
    let count = quad("count: 4,", "count: 99999999999999999999,");
    let negative = quad("count: 4,", "count: -4,");
    let latency = quad("latency: 500 ns", "latency: 99999999999999 s");
    insta::assert_snapshot!([count, negative, latency].join("\n\n"), @r#"
    error: `system.sips.count` is out of range: 99999999999999999999
     --> my.yaml:9:18
      |
    9 |   sips: { count: 99999999999999999999, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add r...
      |                  ^^^^^^^^^^^^^^^^^^^^ too many
      |
      = help: allowed: 1 to 65536

    error: `system.sips.count` is out of range: -4
     --> my.yaml:9:18
      |
    9 |   sips: { count: -4, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                  ^^ negative
      |
      = help: allowed: 1 to 65536

    error: `system.sips.link.latency`: `99999999999999 s` is too large
     --> my.yaml:9:78
      |
    9 |   sips: { count: 4, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 99999999999999 s } }   # mesh_2d/torus_2d add rows, columns
      |                                                                              ^^^^^^^^^^^^^^^^ too large
      |
      = help: allowed: at most 100 s
    "#);
}
