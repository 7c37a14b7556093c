//! Files that are refused, and what is said about them.

use phalanx_torch::ccl::CclConfig;

use super::{BUILTIN, EXAMPLE, parse, plan};

/// Returns the error of `text`.
fn refused(text: &str) -> String {
    match CclConfig::parse("ccl.yaml", text, BUILTIN) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn ccf_1_an_unknown_key_has_a_spelling_suggestion() {
    let root = refused("default: { n_slots: 4 }");
    let defaults = refused("defaults:\n  slotsize: 4");
    let algorithm = refused("algorithms:\n  ring:\n    modul: ring\n    algorithm: ring");
    let misspelt = refused("algorithms:\n  mine:\n    modul: ring");
    insta::assert_snapshot!([root, defaults, algorithm, misspelt].join("\n\n"), @r#"
    error: unknown key `default`
     --> ccl.yaml:1:1
      |
    1 | default: { n_slots: 4 }
      | ^^^^^^^ did you mean `defaults`?
      |
      = help: allowed keys: profile, defaults, algorithms

    error: unknown key `slotsize` in `defaults`
     --> ccl.yaml:2:3
      |
    2 |   slotsize: 4
      |   ^^^^^^^^ did you mean `slot_size`?
      |
      = help: allowed keys: algorithm, buffer_kind, backpressure, n_slots, slot_size, vc_chunk_size, ipcq_credit_size_bytes, channels

    error: unknown key `modul` in `algorithms.ring`
     --> ccl.yaml:3:5
      |
    3 |     modul: ring
      |     ^^^^^ did you mean `module`?
      |
      = help: allowed keys: module, topology, buffer_kind, backpressure, n_slots, slot_size, vc_chunk_size, ipcq_credit_size_bytes, channels, n_elem

    error: unknown key `algorithm` in `algorithms.ring`
     --> ccl.yaml:4:5
      |
    4 |     algorithm: ring
      |     ^^^^^^^^^ no such key
      |
      = help: allowed keys: module, topology, buffer_kind, backpressure, n_slots, slot_size, vc_chunk_size, ipcq_credit_size_bytes, channels, n_elem

    error: unknown key `modul` in `algorithms.mine`
     --> ccl.yaml:3:5
      |
    3 |     modul: ring
      |     ^^^^^ did you mean `module`?
      |
      = help: allowed keys: module, topology, buffer_kind, backpressure, n_slots, slot_size, vc_chunk_size, ipcq_credit_size_bytes, channels, n_elem
    "#);
}

#[test]
fn ccf_1_a_key_given_twice() {
    let defaults = refused("defaults: { n_slots: 4, n_slots: 5 }");
    let algorithm = refused("algorithms:\n  ring: {}\n  tree: {}\n  ring: {}");
    insta::assert_snapshot!([defaults, algorithm].join("\n\n"), @r#"
    error: duplicate key `defaults.n_slots`
     --> ccl.yaml:1:25
      |
    1 | defaults: { n_slots: 4, n_slots: 5 }
      |                         ^^^^^^^ given before
      |
      = help: keep one of the two

    error: duplicate key `algorithms.ring`
     --> ccl.yaml:4:3
      |
    4 |   ring: {}
      |   ^^^^ given before
      |
      = help: keep one of the two
    "#);
}

#[test]
fn ccf_1_an_unknown_algorithm_or_module() {
    let chosen =
        refused("defaults: { algorithm: rign }\nalgorithms: { mine: { module: tree }, tree: }");
    let far = refused("defaults:\n  algorithm: butterfly");
    let module = refused("algorithms:\n  mine: { module: tre }");
    let missing = refused("algorithms:\n  lab: { n_slots: 4 }");
    let near = refused("algorithms:\n  rnig:");
    insta::assert_snapshot!([chosen, far, module, missing, near].join("\n\n"), @r#"
    error: unknown algorithm `rign`
     --> ccl.yaml:1:24
      |
    1 | defaults: { algorithm: rign }
      |                        ^^^^ did you mean `ring`?
      |
      = help: allowed: auto, mine, tree, ring, direct

    error: unknown algorithm `butterfly`
     --> ccl.yaml:2:14
      |
    2 |   algorithm: butterfly
      |              ^^^^^^^^^ no such algorithm
      |
      = help: allowed: auto, ring, tree, direct

    error: unknown module `tre`
     --> ccl.yaml:2:19
      |
    2 |   mine: { module: tre }
      |                   ^^^ did you mean `tree`?
      |
      = help: allowed: ring, tree, direct

    error: missing `algorithms.lab.module`
     --> ccl.yaml:2:3
      |
    2 |   lab: { n_slots: 4 }
      |   ^^^ not the name of a built-in algorithm
      |
      = help: `module` says which one does it: ring, tree, direct

    error: missing `algorithms.rnig.module`
     --> ccl.yaml:2:3
      |
    2 |   rnig:
      |   ^^^^ not the name of a built-in algorithm
      |
      = help: did you mean `ring`? `module` says which one does it: ring, tree, direct
    "#);
}

#[test]
fn ccf_1_a_name_that_cannot_be_used() {
    let auto = refused("algorithms: { auto: { module: ring } }");
    let words = refused("algorithms: { my ring: { module: ring } }");
    insta::assert_snapshot!([auto, words].join("\n\n"), @r#"
    error: no algorithm can be called `auto`
     --> ccl.yaml:1:15
      |
    1 | algorithms: { auto: { module: ring } }
      |               ^^^^ has a meaning of its own
      |
      = help: `auto` lets the program choose; take another name

    error: the name of an algorithm must be one word
     --> ccl.yaml:1:15
      |
    1 | algorithms: { my ring: { module: ring } }
      |               ^^^^^^^ not one word
      |
      = help: allowed: 1 to 64 letters, digits, `-`, `_`, `.`, the first a letter or digit
    "#);
}

#[test]
fn ccf_1_an_unknown_word() {
    let kind = refused("defaults: { buffer_kind: tmc }");
    let pressure = refused("defaults: { backpressure: spin }");
    let topology = refused("algorithms: { ring: { topology: ring } }");
    insta::assert_snapshot!([kind, pressure, topology].join("\n\n"), @r#"
    error: unknown buffer kind `tmc`
     --> ccl.yaml:1:26
      |
    1 | defaults: { buffer_kind: tmc }
      |                          ^^^ did you mean `tcm`?
      |
      = help: allowed: tcm, hbm

    error: unknown backpressure `spin`
     --> ccl.yaml:1:27
      |
    1 | defaults: { backpressure: spin }
      |                           ^^^^ no such backpressure
      |
      = help: allowed: sleep, poll

    error: unknown topology `ring`
     --> ccl.yaml:1:33
      |
    1 | algorithms: { ring: { topology: ring } }
      |                                 ^^^^ did you mean `ring_1d`?
      |
      = help: allowed: ring_1d, mesh_2d, torus_2d, mesh_3d, torus_3d, fully_connected, switch, any
    "#);
}

#[test]
fn ccf_1_a_value_of_the_wrong_type() {
    let list = refused("defaults: { n_slots: [4] }");
    let nothing = refused("defaults: { buffer_kind: }");
    let section = refused("defaults: 4");
    let algorithms = refused("algorithms: [ring]");
    let algorithm = refused("algorithms: { ring: tree }");
    let root = refused("ring");
    let all = [list, nothing, section, algorithms, algorithm, root];
    insta::assert_snapshot!(all.join("\n\n"), @r#"
    error: `defaults.n_slots` must be a whole number, found a list
     --> ccl.yaml:1:22
      |
    1 | defaults: { n_slots: [4] }
      |                      ^^^ not a whole number
      |
      = help: allowed: digits only, as in `8`

    error: `defaults.buffer_kind` must be a text, found nothing
     --> ccl.yaml:1:13
      |
    1 | defaults: { buffer_kind: }
      |             ^^^^^^^^^^^ not a text
      |
      = help: allowed: tcm, hbm

    error: `defaults` must be a mapping, found a single value
     --> ccl.yaml:1:11
      |
    1 | defaults: 4
      |           ^ not a mapping
      |
      = help: allowed keys: algorithm, buffer_kind, backpressure, n_slots, slot_size, vc_chunk_size, ipcq_credit_size_bytes, channels

    error: `algorithms` must be a mapping, found a list
     --> ccl.yaml:1:13
      |
    1 | algorithms: [ring]
      |             ^^^^^^ not a mapping
      |
      = help: allowed: names, and what each stands for

    error: `algorithms.ring` must be a mapping, found a single value
     --> ccl.yaml:1:21
      |
    1 | algorithms: { ring: tree }
      |                     ^^^^ not a mapping
      |
      = help: allowed keys: module, topology, buffer_kind, backpressure, n_slots, slot_size, vc_chunk_size, ipcq_credit_size_bytes, channels, n_elem

    error: a file of collectives must be a mapping, found a single value
     --> ccl.yaml:1:1
      |
    1 | ring
      | ^^^^ not a mapping
      |
      = help: allowed keys: profile, defaults, algorithms
    "#);
}

#[test]
fn ccf_1_a_value_of_the_wrong_unit() {
    let unit = refused("defaults: { slot_size: 16 kib }");
    let kind = refused("defaults: { slot_size: 16 ns, n_slots: 4 KiB }");
    insta::assert_snapshot!([unit, kind].join("\n\n"), @r#"
    error: `defaults.slot_size`: `16 kib` has the unknown unit `kib`
     --> ccl.yaml:1:24
      |
    1 | defaults: { slot_size: 16 kib }
      |                        ^^^^^^ not a number of bytes
      |
      = help: did you mean `KiB`? allowed units: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, or none for bytes

    error: `defaults.slot_size`: `16 ns` is a time, not a number of bytes
     --> ccl.yaml:1:24
      |
    1 | defaults: { slot_size: 16 ns, n_slots: 4 KiB }
      |                        ^^^^^ not a number of bytes
      |
      = help: allowed units: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, or none for bytes

    error: `defaults.n_slots`: `4 KiB` has a unit, `KiB`, where a number alone is wanted
     --> ccl.yaml:1:40
      |
    1 | defaults: { slot_size: 16 ns, n_slots: 4 KiB }
      |                                        ^^^^^ not a whole number
      |
      = help: allowed: digits only, as in `8`
    "#);
}

#[test]
fn ccf_1_zero_and_too_small_numbers() {
    let zero = refused("defaults: { n_slots: 0, slot_size: 0 }");
    let small = refused("defaults: { slot_size: 3 }");
    let elements = refused("algorithms: { ring: { n_elem: 0 }, tree: { n_elem: 1.5 } }");
    insta::assert_snapshot!([zero, small, elements].join("\n\n"), @r#"
    error: `defaults.n_slots` is out of range: 0
     --> ccl.yaml:1:22
      |
    1 | defaults: { n_slots: 0, slot_size: 0 }
      |                      ^ zero makes no sense
      |
      = help: allowed: 1 to 1048576

    error: `defaults.slot_size` is out of range: 0 B
     --> ccl.yaml:1:36
      |
    1 | defaults: { n_slots: 0, slot_size: 0 }
      |                                    ^ zero makes no sense
      |
      = help: allowed: 4 B to 4 GiB

    error: `defaults.slot_size` is out of range: 3 B
     --> ccl.yaml:1:24
      |
    1 | defaults: { slot_size: 3 }
      |                        ^ too small
      |
      = help: allowed: 4 B to 4 GiB

    error: `algorithms.ring.n_elem` is out of range: 0
     --> ccl.yaml:1:31
      |
    1 | algorithms: { ring: { n_elem: 0 }, tree: { n_elem: 1.5 } }
      |                               ^ zero makes no sense
      |
      = help: allowed: 1 to 274877906944

    error: `algorithms.tree.n_elem`: `1.5` is not a whole number
     --> ccl.yaml:1:52
      |
    1 | algorithms: { ring: { n_elem: 0 }, tree: { n_elem: 1.5 } }
      |                                                    ^^^ not a whole number
      |
      = help: allowed: digits only, as in `8`
    "#);
}

#[test]
fn ccf_1_negative_and_overflowing_numbers() {
    let negative = refused("defaults: { n_slots: -1, vc_chunk_size: -1 KiB }");
    let large = refused("defaults: { n_slots: 4294967297, slot_size: 5 GiB }");
    let overflow = refused("defaults: { slot_size: 99999999999 TiB }");
    insta::assert_snapshot!([negative, large, overflow].join("\n\n"), @r#"
    error: `defaults.n_slots`: `-1` is negative
     --> ccl.yaml:1:22
      |
    1 | defaults: { n_slots: -1, vc_chunk_size: -1 KiB }
      |                      ^^ not a whole number
      |
      = help: use zero or more

    error: `defaults.vc_chunk_size`: `-1 KiB` is negative
     --> ccl.yaml:1:41
      |
    1 | defaults: { n_slots: -1, vc_chunk_size: -1 KiB }
      |                                         ^^^^^^ not a number of bytes
      |
      = help: use zero or more

    error: `defaults.n_slots` is out of range: 4294967297
     --> ccl.yaml:1:22
      |
    1 | defaults: { n_slots: 4294967297, slot_size: 5 GiB }
      |                      ^^^^^^^^^^ too large
      |
      = help: allowed: 1 to 1048576

    error: `defaults.slot_size` is out of range: 5 GiB
     --> ccl.yaml:1:45
      |
    1 | defaults: { n_slots: 4294967297, slot_size: 5 GiB }
      |                                             ^^^^^ too large
      |
      = help: allowed: 4 B to 4 GiB

    error: `defaults.slot_size`: `99999999999 TiB` is too large
     --> ccl.yaml:1:24
      |
    1 | defaults: { slot_size: 99999999999 TiB }
      |                        ^^^^^^^^^^^^^^^ too large
      |
      = help: at most 18446744073709551615 bytes
    "#);
}

#[test]
fn ccf_2_everything_wrong_is_reported_together() {
    let text = EXAMPLE
        .replace("algorithm: auto", "algorithm: rong")
        .replace("slot_size: 16 KiB", "slot_size: 16 Kib")
        .replace("backpressure: poll", "backpresure: poll")
        .replace("topology: ring_1d", "topology: ring1d");
    let text = text.replacen("module: ring ", "module: rind ", 1);
    insta::assert_snapshot!(refused(&text), @r#"
    error: unknown algorithm `rong`
     --> ccl.yaml:5:14
      |
    5 |   algorithm: rong             # a name under `algorithms`, a built-in algorithm, or auto
      |              ^^^^ did you mean `ring`?
      |
      = help: allowed: auto, ring_small, ring_1mib, ring, tree, direct

    error: `defaults.slot_size`: `16 Kib` has the unknown unit `Kib`
     --> ccl.yaml:9:14
      |
    9 |   slot_size: 16 Kib           # the largest message in one slot; without a unit, bytes
      |              ^^^^^^ not a number of bytes
      |
      = help: did you mean `KiB`? allowed units: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, or none for bytes

    error: unknown module `rind`
      --> ccl.yaml:15:13
       |
    15 |     module: rind              # the built-in algorithm that does it
       |             ^^^^ did you mean `ring`?
       |
       = help: allowed: ring, tree, direct

    error: unknown key `backpresure` in `algorithms.ring_small`
      --> ccl.yaml:16:5
       |
    16 |     backpresure: poll
       |     ^^^^^^^^^^^ did you mean `backpressure`?
       |
       = help: allowed keys: module, topology, buffer_kind, backpressure, n_slots, slot_size, vc_chunk_size, ipcq_credit_size_bytes, channels, n_elem

    error: unknown topology `ring1d`
      --> ccl.yaml:20:15
       |
    20 |     topology: ring1d         # ring_1d, mesh_2d, torus_2d, mesh_3d, torus_3d, fully_connected, switch or any
       |               ^^^^^^ did you mean `ring_1d`?
       |
       = help: allowed: ring_1d, mesh_2d, torus_2d, mesh_3d, torus_3d, fully_connected, switch, any
    "#);
}

#[test]
fn ccf_2_errors_can_be_asked_for_one_by_one() {
    let errors = CclConfig::parse("my.yaml", "defaults:\n  n_slots: four", BUILTIN).unwrap_err();
    let [error] = errors.errors() else { panic!("{errors}") };
    assert_eq!((error.file(), error.line(), error.column()), ("my.yaml", 2, 12), "CCF-2");
    assert_eq!(error.source_line(), "  n_slots: four");
    assert_eq!(error.help(), Some("allowed: digits only, as in `8`"));
}

#[test]
fn ccf_4_a_slot_of_too_many_chunks() {
    let own = refused("defaults: { slot_size: 1 GiB, vc_chunk_size: 1 }");
    let inherited = refused(
        "defaults: { vc_chunk_size: 64 }\nalgorithms:\n  ring: { slot_size: 1 GiB }\n  tree: { n_slots: 1 }",
    );
    insta::assert_snapshot!([own, inherited].join("\n\n"), @r#"
    error: a slot of 1073741824 chunks is too many
     --> ccl.yaml:1:46
      |
    1 | defaults: { slot_size: 1 GiB, vc_chunk_size: 1 }
      |                                              ^ slot_size / vc_chunk_size
      |
      = help: allowed: at most 1048576 chunks a slot, or a `vc_chunk_size` of 0 for whole messages

    error: a slot of 16777216 chunks is too many
     --> ccl.yaml:3:22
      |
    3 |   ring: { slot_size: 1 GiB }
      |                      ^^^^^ slot_size / vc_chunk_size
      |
      = help: allowed: at most 1048576 chunks a slot, or a `vc_chunk_size` of 0 for whole messages
    "#);
    parse("defaults: { slot_size: 1 GiB, vc_chunk_size: 1 KiB }");
}

#[test]
fn ccf_4_hostile_texts_are_refused() {
    assert!(refused("a: &a [*a]").contains("anchors and aliases are not allowed"), "CCF-4");
    assert!(refused(&"{a: ".repeat(50_000)).contains("malformed YAML"), "CCF-4");
    assert!(refused(&" ".repeat(300_000)).contains("larger than 256 KiB"), "CCF-4");
    let algorithms = |count: usize| {
        let names = (0..count).map(|n| format!("  x{n}: {{ module: y }}"));
        format!("algorithms:\n{}", names.collect::<Vec<_>>().join("\n"))
    };
    assert!(refused(&algorithms(9_000)).contains("more than 10000 values"), "CCF-4");
    assert!(refused(&algorithms(2_000)).ends_with("and 1980 more"), "CCF-4");
}

#[test]
fn ccf_5_an_algorithm_that_does_not_fit_is_shown_where_it_is_configured() {
    let config = parse(EXAMPLE);
    let reason = "it is meant for `ring_1d`, and `lab` is a `mesh_2d`";
    let errors = config.unfit(&plan(&config, "ring_1mib"), reason).unwrap();
    let [error] = errors.errors() else { panic!("{errors}") };
    assert_eq!((error.line(), error.column()), (18, 3), "CCF-5");
    insta::assert_snapshot!(errors.to_string(), @r#"
    error: algorithm `ring_1mib` cannot run on this machine: it is meant for `ring_1d`, and `lab` is a `mesh_2d`
      --> ccl.yaml:18:3
       |
    18 |   ring_1mib:
       |   ^^^^^^^^^ configured here
       |
       = help: choose another algorithm, or `auto`
    "#);
}

#[test]
fn ccf_5_a_built_in_algorithm_is_shown_where_it_is_chosen() {
    let config = parse("defaults: { algorithm: tree }");
    let reason = "3 ranks, and it takes a power of two";
    let errors = config.unfit(&plan(&config, "tree"), reason).unwrap();
    insta::assert_snapshot!(errors.to_string(), @r#"
    error: algorithm `tree` cannot run on this machine: 3 ranks, and it takes a power of two
     --> ccl.yaml:1:24
      |
    1 | defaults: { algorithm: tree }
      |                        ^^^^ chosen here
      |
      = help: choose another algorithm, or `auto`
    "#);
    assert_eq!(
        config.unfit(&plan(&config, "ring"), "why not"),
        None,
        "CCF-5: no file speaks of it"
    );
    let builtin = CclConfig::builtin();
    assert_eq!(builtin.unfit(&plan(&builtin, "ring"), "why not"), None, "CCF-5: there is no file");
}
