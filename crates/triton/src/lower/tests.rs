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

#[test]
fn what_all_programs_share_needs_arguments_alone() {
    let program = program(include_str!("../../tests/kernels/matmul.ttir"));
    let mut known: Vec<Reg> = program.parameters.iter().map(|parameter| parameter.reg).collect();
    assert!(program.shared > 20, "constants, ranges and strides: {}", program.shared);
    for instruction in &program.code[..program.shared] {
        assert!(instruction.args.iter().all(|reg| known.contains(reg)), "{instruction:?}");
        assert!(!instruction.op.has_effect(), "{instruction:?}");
        known.push(instruction.to);
    }
    let (shared, own) = program.code.split_at(program.shared);
    let writes = |code: &[Instruction], reg| code.iter().any(|other| other.to == reg);
    let is_kept = |instruction: &Instruction| !writes(own, instruction.to);
    assert!(shared.iter().all(is_kept), "no program changes what it shares");
    assert!(own.iter().all(|instruction| !matches!(instruction.op, Op::Range(_))));
}

#[test]
fn a_product_writes_where_its_loop_carries_the_sum() {
    let code = program(include_str!("../../tests/kernels/matmul.ttir")).code;
    let dot = code.iter().find(|instruction| matches!(instruction.op, Op::Dot)).unwrap();
    assert_eq!(dot.to, dot.args[2], "the sum of the next round");
    let is_moved = |instruction: &Instruction| {
        matches!(instruction.op, Op::Move) && instruction.args[0] == dot.to
    };
    assert!(code.iter().filter(|instruction| is_moved(instruction)).count() < 2, "after the loop");
}
