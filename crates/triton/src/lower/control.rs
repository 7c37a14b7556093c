//! Loops, branches and calls.

use super::{CALLS, Exit, Frame, Lower, Lowered};
use crate::ir::{Operation, Region, ValueId};
use crate::number::{Arith, Comparison, Relation};
use crate::program::{NONE, Op, Reg};

impl<'m> Lower<'m> {
    pub(super) fn conditional(
        &mut self,
        operation: &'m Operation,
        frame: &Frame<'m>,
        targets: &[usize],
        region: &'m Region,
    ) -> Lowered<()> {
        let condition = frame.get(operation.operands[0]);
        let mut blocks = [0; 2];
        for (block, (to, values)) in blocks.iter_mut().zip(&operation.successors) {
            let arguments = &region.blocks[*to].arguments;
            if arguments.is_empty() && values.is_empty() {
                *block = targets[*to];
                continue;
            }
            let from = self.current;
            *block = self.block();
            self.current = *block;
            self.pass(values, arguments, frame, operation)?;
            self.jump(targets[*to]);
            self.current = from;
        }
        self.emit(Op::Branch(blocks[0], blocks[1]), NONE, &[condition]);
        Ok(())
    }

    /// `scf.if`.
    pub(super) fn branch(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
    ) -> Lowered<()> {
        let condition = frame.get(operation.operands[0]);
        let results = self.results(operation, frame);
        let [then, otherwise, after] = [self.block(), self.block(), self.block()];
        self.emit(Op::Branch(then, otherwise), NONE, &[condition]);
        let exit = Exit::Yield(results, after);
        self.current = then;
        self.body(&operation.regions[0], frame, &exit)?;
        self.current = otherwise;
        match operation.regions.get(1) {
            Some(region) => self.body(region, frame, &exit)?,
            None => self.jump(after),
        }
        self.current = after;
        Ok(())
    }

    /// `scf.while`.
    pub(super) fn while_loop(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
    ) -> Lowered<()> {
        let [before, after] = operation.regions.as_slice() else {
            return Err(self.error(operation, "a loop has two regions"));
        };
        let (Some(test), Some(body)) = (before.blocks.first(), after.blocks.first()) else {
            return Err(self.error(operation, "a loop without blocks"));
        };
        let carried = self.arguments(&test.arguments, frame);
        let given = self.arguments(&body.arguments, frame);
        let results = self.results(operation, frame);
        if given.len() != results.len() || carried.len() != operation.operands.len() {
            return Err(self.error(operation, "its regions take another number of values"));
        }
        let start: Vec<Reg> = operation.operands.iter().map(|value| frame.get(*value)).collect();
        self.moves(&start, &carried);
        let [head, inside, out] = [self.block(), self.block(), self.block()];
        self.jump(head);
        self.current = head;
        self.body(before, frame, &Exit::Condition(given.clone(), inside, out))?;
        self.current = inside;
        self.emit(Op::Round, NONE, &[]);
        self.body(after, frame, &Exit::Yield(carried, head))?;
        self.current = out;
        self.moves(&given, &results);
        Ok(())
    }

    /// `scf.for`, with loads ahead where the body allows.
    pub(super) fn for_loop(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
    ) -> Lowered<()> {
        let region = &operation.regions[0];
        let Some(block) = region.blocks.first() else {
            return Err(self.error(operation, "a loop without a block"));
        };
        let [low, high, step] = [0, 1, 2].map(|at| frame.get(operation.operands[at]));
        let arguments = self.arguments(&block.arguments, frame);
        let results = self.results(operation, frame);
        let start: Vec<Reg> =
            operation.operands[3..].iter().map(|value| frame.get(*value)).collect();
        if arguments.len() != start.len() + 1 || results.len() != start.len() {
            return Err(self.error(operation, "its region takes another number of values"));
        }
        let (counter, carried) = (arguments[0], arguments[1..].to_vec());
        let [head, body, next, out] = [self.block(), self.block(), self.block(), self.block()];
        self.emit(Op::Move, counter, &[low]);
        self.moves(&start, &carried);
        let entry = self.scout(operation, frame, head)?;
        self.jump(entry);
        self.current = head;
        let is_unsigned = operation.words.iter().any(|word| word == "unsigned");
        let less = Comparison { relation: Relation::Lt, is_unsigned };
        let goes_on = self.flag();
        self.emit(Op::Compare(less), goes_on, &[counter, high]);
        self.emit(Op::Branch(body, out), NONE, &[goes_on]);
        self.current = body;
        self.body(region, frame, &Exit::Yield(carried.clone(), next))?;
        self.current = next;
        self.emit(Op::Round, NONE, &[]);
        self.emit(Op::Arith(Arith::Add), counter, &[counter, step]);
        self.jump(entry);
        self.current = out;
        self.moves(&carried, &results);
        Ok(())
    }

    /// A register for a condition.
    pub(super) fn flag(&mut self) -> Reg {
        use crate::types::{Element, Scalar, Type};
        self.register(&Type::One(Element::Number(Scalar::Int(1))))
    }

    fn arguments(&mut self, values: &[ValueId], frame: &mut Frame<'m>) -> Vec<Reg> {
        values
            .iter()
            .map(|value| {
                let reg = self.register(frame.kind(*value));
                frame.set(*value, reg);
                reg
            })
            .collect()
    }

    pub(super) fn results(&mut self, operation: &Operation, frame: &mut Frame<'m>) -> Vec<Reg> {
        self.arguments(&operation.results, frame)
    }

    /// `tt.call`: the function's code in place of the call.
    pub(super) fn call(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        let name = operation.words.first().map_or("", String::as_str);
        let Some(function) = self.module.functions.iter().find(|known| known.name == name) else {
            return Err(self.error(operation, format!("no function `@{name}` in this text")));
        };
        if self.calls == CALLS {
            return Err(self.error(operation, format!("more than {CALLS} calls inside each other")));
        }
        if function.arguments.len() != operation.operands.len() {
            return Err(self.error(operation, format!("`@{name}` takes other arguments")));
        }
        let results = self.results(operation, frame);
        let mut inner = Frame::new(function);
        for ((_, argument), value) in function.arguments.iter().zip(&operation.operands) {
            inner.set(*argument, frame.get(*value));
        }
        let after = self.block();
        let line = self.line;
        self.calls += 1;
        self.body(&function.body, &mut inner, &Exit::Return(results, after))?;
        self.calls -= 1;
        (self.current, self.line) = (after, line);
        Ok(())
    }
}
