use super::parse;
use crate::ir::{Attribute, Module};
use crate::types::Type;
use proptest::prelude::*;

const ADD: &str = include_str!("../../tests/kernels/add.ttir");
const WIDE: &str = include_str!("../../tests/kernels/wide.ttir");

fn text_of(kind: &Type) -> String {
    kind.to_string()
}

fn read(text: &str) -> Module {
    parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn ttr_2_every_value_has_a_type() {
    let module = read(ADD);
    let function = &module.functions[0];
    assert_eq!((function.name.as_str(), function.arguments.len()), ("add", 4), "TTR-2");
    let types: Vec<String> =
        function.arguments.iter().map(|(_, id)| text_of(&function.values[*id as usize])).collect();
    assert_eq!(types, ["!tt.ptr<f32>", "!tt.ptr<f32>", "!tt.ptr<f32>", "i32"]);
    let load = function.body.blocks[0].operations.iter().find(|op| op.name == "tt.load").unwrap();
    assert_eq!(text_of(&function.values[load.results[0] as usize]), "tensor<1024xf32>", "TTR-2");
    let error = parse(&ADD.replace("%offs_3 = ", "%other = ")).unwrap_err();
    assert!(error.message.contains("`%offs_3` is not defined"), "TTR-2: {error}");
    assert_eq!(error.operation.as_deref(), Some("arith.cmpi"));
}

#[test]
fn ttr_3_operations_know_their_lines_and_the_calls_around_them() {
    let module = read(WIDE);
    let function = module.functions.iter().find(|function| function.is_public).unwrap();
    let mut lines = Vec::new();
    function.body.each(&mut |operation| {
        if operation.name == "tt.reduce" {
            lines.push(operation.place.frames.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
    });
    assert!(lines[0].len() > 1, "TTR-3: {lines:?}");
    assert!(lines[0][0].contains("standard.py:"), "TTR-3: {lines:?}");
    assert!(lines[0].last().unwrap().contains("kernels.py:"), "TTR-3: {lines:?}");
}

#[test]
fn regions_blocks_and_attributes_are_read() {
    let module = read(WIDE);
    let function = module.functions.iter().find(|function| function.is_public).unwrap();
    let mut seen = Vec::new();
    function.body.each(&mut |operation| seen.push(operation.name.clone()));
    for name in ["scf.for", "scf.while", "scf.if", "cf.cond_br", "tt.reduce", "tt.scan", "tt.call"]
    {
        assert!(seen.iter().any(|known| known == name), "{name}");
    }
    let mut reduce = None;
    function.body.each(&mut |op| reduce = reduce.or((op.name == "tt.reduce").then_some(op)));
    assert_eq!(reduce.unwrap().attribute("axis"), Some(&Attribute::Int(0)));
    assert!(function.body.blocks.len() > 2);
}

#[test]
fn ttr_1_a_broken_text_has_a_place() {
    let cases = [
        ("module {\n  tt.fun public @x() {\n", (2, 3), "expected `module`, `tt.func` or `#loc`"),
        ("module {", (1, 9), "the end of the text"),
        ("tt.func @f(%x: i33) {\n}", (1, 16), "no type `i33`: did you mean `i32`?"),
        ("tt.func @f(%x: tensor<0xf32>) {\n}", (1, 23), "not the extent"),
        ("tt.func @f() {\n  \"oops\n}", (2, 3), "no end"),
        (
            "tt.func @f() {\n  %a = tt.get_program_id x : i32\n  %b:2 = arith.addi %a, %a : i32\n}",
            (3, 10),
            "1 results, but 2 names",
        ),
        ("tt.func @f() {\n  cf.br ^bb7\n}", (2, 9), "no block `^bb7`"),
        ("tt.func @f() {\n  §\n}", (2, 3), "unexpected sign"),
    ];
    for (text, place, message) in cases {
        let error = parse(text).unwrap_err();
        assert_eq!((error.line, error.column), place, "TTR-1: {error}");
        assert!(error.message.contains(message), "TTR-1: {error}");
    }
    let deep = format!("tt.func @f() {{\n{}", "scf.if %a {\n".repeat(1000));
    assert!(parse(&deep).is_err());
    let deep = format!("tt.func @f(%x: i1) {{\n{}", "scf.if %x {\n".repeat(1000));
    assert!(parse(&deep).unwrap_err().message.contains("levels of nesting"), "TTR-1");
}

proptest! {
    #[test]
    fn ttr_1_no_text_makes_the_reader_panic(
        at in 0..8000usize, cut in 0..60usize, piece in "[ -~\n]{0,12}", is_wide in any::<bool>(),
    ) {
        let text = if is_wide { WIDE } else { ADD };
        let at = at % text.len();
        let end = (at + cut).min(text.len());
        if text.is_char_boundary(at) && text.is_char_boundary(end) {
            let changed = format!("{}{piece}{}", &text[..at], &text[end..]);
            if let Err(error) = parse(&changed) {
                prop_assert!(error.line > 0 && error.column > 0 && !error.message.is_empty(), "TTR-1");
            }
        }
        let _ = parse(&piece);
    }
}
