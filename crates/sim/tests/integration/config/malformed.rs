//! Texts that are no machine file at all, or hostile ones.

use phalanx_sim::config::{parse_machine, preset};

use super::{quad, refused};

#[test]
fn cfg_4_text_that_is_no_yaml_is_refused_at_its_line() {
    let open = quad("pes: { rows: 2", "pes: { rows: 2 { ");
    let tabs = quad("  tcm:", "\ttcm:");
    let quote = quad("description: four", "description: \"four");
    insta::assert_snapshot!([open, tabs, quote].join("\n\n"), @r#"
    error: malformed YAML: while parsing a flow mapping, did not find expected `,` or `}`
      --> my.yaml:13:18
       |
    13 |   pes: { rows: 2 { , columns: 4, link: { bandwidth: 256 GB/s, latency: 5 ns } }
       |                  ^ here

    error: malformed YAML: tabs disallowed within this context (block indentation)
      --> my.yaml:16:2
       |
    16 |     tcm: { capacity: 2 MiB }
       |     ^ here

    error: malformed YAML: invalid indentation in multiline quoted scalar
     --> my.yaml:8:1
      |
    8 | system:
      | ^ here
    "#);
}

#[test]
fn cfg_4_yaml_that_no_machine_needs_is_refused() {
    let anchor = quad("link: { bandwidth: 128", "link: &wire { bandwidth: 128");
    let tag = quad("count: 4", "count: !!int 4");
    let documents = refused("name: a\n---\nname: b\n");
    let directive = refused("%YAML 1.2\n---\nname: a\n");
    let key = refused("{[a]: b}");
    insta::assert_snapshot!([anchor, tag, documents, directive, key].join("\n\n"), @r#"
    error: anchors and aliases are not allowed
     --> my.yaml:9:46
      |
    9 |   sips: { count: 4, topology: ring_1d, link: &wire { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                                              ^^^^^ used here
      |
      = help: write the value out

    error: tags are not allowed
     --> my.yaml:9:18
      |
    9 |   sips: { count: !!int 4, topology: ring_1d, link: { bandwidth: 128 GB/s, latency: 500 ns } }   # mesh_2d/torus_2d add rows, columns
      |                  ^^^^^ used here
      |
      = help: write the value without its `!` tag

    error: more than one document in the file
     --> my.yaml:2:1
      |
    2 | ---
      | ^^^ the second starts here
      |
      = help: keep one document a file

    error: malformed YAML: YAML directives are disallowed
     --> my.yaml:1:1
      |
    1 | %YAML 1.2
      | ^ here

    error: a key must be a word
     --> my.yaml:1:2
      |
    1 | {[a]: b}
      |  ^^^ not a word
    "#);
}

#[test]
fn cfg_4_no_file_is_a_machine_by_accident() {
    let found = ["", "# only a comment\n", "hello", "[1, 2]", "---\n...\n"].map(refused);
    insta::assert_snapshot!(found.join("\n\n"), @r#"
    error: the file is empty
     --> my.yaml:1:1
      |
    1 |
      | ^ nothing here

    error: the file is empty
     --> my.yaml:1:1
      |
    1 | # only a comment
      | ^ nothing here

    error: a machine file must be a mapping, found a single value
     --> my.yaml:1:1
      |
    1 | hello
      | ^^^^^ not a mapping
      |
      = help: allowed keys: name, description, base, system, sip, cube, pe, collectives, sources

    error: a machine file must be a mapping, found a list
     --> my.yaml:1:1
      |
    1 | [1, 2]
      | ^^^^^^ not a mapping
      |
      = help: allowed keys: name, description, base, system, sip, cube, pe, collectives, sources

    error: a machine file must be a mapping, found nothing
     --> my.yaml:1:4
      |
    1 | ---
      |    ^ not a mapping
      |
      = help: allowed keys: name, description, base, system, sip, cube, pe, collectives, sources
    "#);
}

#[test]
fn yaml_1_bombs_are_refused_early() {
    let line = |(from, to)| format!("{to}: &{to} [{}]", vec![format!("*{from}"); 9].join(", "));
    let laughs: Vec<String> = "abcdefghi".chars().zip("bcdefghij".chars()).map(line).collect();
    let laughs = format!("a: &a [x, x, x, x, x, x, x, x, x]\n{}\n", laughs.join("\n"));
    let stairs: Vec<String> = (0..1_000).map(|n| format!("{}a:", " ".repeat(n))).collect();
    assert!(refused(&laughs).contains("anchors and aliases are not allowed"), "YAML-1");
    assert!(refused(&"[".repeat(100_000)).contains("malformed YAML"), "YAML-1");
    assert!(refused(&"{a: ".repeat(50_000)).contains("malformed YAML"), "YAML-1");
    assert!(
        refused(&stairs.join(
            "
"
        ))
        .starts_with("error: "),
        "YAML-1"
    );
    assert!(
        refused(&format!("[{}]", "a,".repeat(20_000))).contains("more than 10000 values"),
        "YAML-1"
    );
    assert!(refused(&"#".repeat(300 * 1024)).contains("larger than 256 KiB"), "YAML-1");
}

#[test]
fn yaml_2_numbers_are_taken_as_they_stand() {
    let text = preset("quad-sip").unwrap().text;
    assert!(
        quad("count: 4", "count: 1e1").contains("`1e1` is not written in plain decimal digits"),
        "YAML-2"
    );
    let named = parse_machine("my.yaml", &text.replace("name: quad-sip", "name: 0x10")).unwrap();
    assert_eq!(named.name, "0x10", "YAML-2");
    let padded = parse_machine("my.yaml", &text.replace("count: 4", "count: 007")).unwrap();
    assert_eq!(padded.sips.count, 7, "YAML-2: not octal");
}
