use super::*;
use crate::parser::parse;

fn program(text: &str) -> Program {
    lower(&parse(text).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn low_1_an_unknown_operation_is_named_with_its_lines() {
    let add = include_str!("../../tests/kernels/add.ttir");
    let error = lower(&parse(&add.replace("arith.addf", "arith.adf")).unwrap()).unwrap_err();
    assert_eq!(error.operation.as_deref(), Some("arith.adf"), "LOW-1");
    let line = 1 + add.lines().position(|line| line.contains("arith.addf")).unwrap();
    assert_eq!(error.line as usize, line, "LOW-1");
    assert!(
        error.source.as_ref().is_some_and(|source| &*source.file == "kernels.py"),
        "LOW-1: {error}"
    );
    assert!(error.message.contains("not supported"), "LOW-1: {error}");
}

#[test]
fn low_2_every_register_is_empty_after_its_last_use() {
    for text in [
        include_str!("../../tests/kernels/matmul.ttir"),
        include_str!("../../tests/kernels/wide.ttir"),
        include_str!("../../tests/kernels/softmax.ttir"),
    ] {
        let program = program(text);
        // Walks the code and tracks which registers hold something: none that is read later is emptied.
        let mut open = vec![(0usize, std::collections::BTreeSet::<Reg>::new())];
        open[0].1.extend(program.parameters.iter().map(|parameter| parameter.reg));
        let mut seen = std::collections::BTreeSet::new();
        while let Some((mut at, mut full)) = open.pop() {
            if !seen.insert(at) {
                continue;
            }
            loop {
                let instruction = &program.code[at];
                for (number, reg) in instruction.args.iter().enumerate() {
                    let is_drop = matches!(instruction.op, Op::Drop);
                    assert!(
                        is_drop || full.contains(reg),
                        "LOW-2: register {reg} is read empty at {at}"
                    );
                    if is_drop || instruction.dies >> number & 1 == 1 {
                        full.remove(reg);
                    }
                }
                full.extend(instruction.results().filter(|reg| *reg != NONE));
                match instruction.op {
                    Op::Jump(to) => {
                        open.push((to, full));
                        break;
                    }
                    Op::Branch(then, otherwise) => {
                        open.push((then, full.clone()));
                        open.push((otherwise, full));
                        break;
                    }
                    Op::Return => break,
                    _ => at += 1,
                }
            }
        }
    }
}
