//! From a module to a program: functions are put in place of their calls, regions become jumps, values become registers.
//!
//! - **LOW-1 (known).** An operation that the executor does not perform is an error that names the operation, its line of the text
//!   and the line of the kernel's source that asks for it.
//! - **LOW-2 (last use).** A register is empty after the last use of its value, so that a tile's scratch memory is free then.

mod ahead;
mod combine;
mod control;
mod finish;
mod operations;
mod scaled;

use crate::error::{SourceLine, TritonError};
use crate::ir::{Block, Function, Module, Operation, Region, ValueId};
use crate::program::{Instruction, NONE, Op, Parameter, Program, Reg, RegType};
use crate::types::Type;
use std::collections::BTreeMap;
use std::rc::Rc;

type Lowered<T> = Result<T, TritonError>;

/// The deepest nesting of calls.
const CALLS: usize = 50;

/// Makes the program of the module's kernel: its first public function.
pub(crate) fn lower(module: &Module) -> Lowered<Program> {
    let Some(kernel) = module.functions.iter().find(|function| function.is_public) else {
        let message = "no public `tt.func`: there is no kernel in this text".to_owned();
        return Err(TritonError { line: 1, column: 1, operation: None, source: None, message });
    };
    let file = kernel.place.frames.last().map(|line| line.file.clone());
    let mut lower = Lower {
        module,
        types: Vec::new(),
        blocks: vec![Vec::new()],
        current: 0,
        file,
        lines: vec![kernel.place.frames.last().cloned()],
        line: 0,
        queues: 0,
        calls: 0,
        uses_pointers_from_memory: false,
    };
    let mut frame = Frame::new(kernel);
    let mut parameters = Vec::new();
    for (name, value) in &kernel.arguments {
        let kind = kernel.values[*value as usize].clone();
        let reg = lower.register(&kind);
        frame.set(*value, reg);
        parameters.push(Parameter { name: name.clone(), kind, reg, is_written: false });
    }
    lower.body(&kernel.body, &mut frame, &Exit::Kernel)?;
    Ok(lower.finish(kernel.name.clone(), parameters))
}

struct Lower<'m> {
    module: &'m Module,
    types: Vec<RegType>,
    /// Basic blocks; jumps name blocks until the end.
    blocks: Vec<Vec<Instruction>>,
    current: usize,
    /// The file of the kernel.
    file: Option<Rc<str>>,
    lines: Vec<Option<SourceLine>>,
    line: u32,
    queues: usize,
    calls: usize,
    uses_pointers_from_memory: bool,
}

/// The registers of a function's values.
#[derive(Clone)]
struct Frame<'m> {
    function: &'m Function,
    registers: Vec<Reg>,
    /// The number of uses of each value, and one of the users.
    users: Rc<[(u32, Option<&'m Operation>)]>,
    /// The operation that makes each value.
    makers: Rc<[Option<&'m Operation>]>,
    /// The queues of loads that are issued ahead.
    queues: BTreeMap<ValueId, usize>,
}

impl<'m> Frame<'m> {
    fn new(function: &'m Function) -> Self {
        let count = function.values.len();
        let (mut users, mut makers) = (vec![(0, None); count], vec![None; count]);
        function.body.each(&mut |operation| {
            let given = operation.successors.iter().flat_map(|(_, values)| values);
            for value in operation.operands.iter().chain(given) {
                let (count, last) = &mut users[*value as usize];
                (*count, *last) = (*count + 1, Some(operation));
            }
            for value in &operation.results {
                makers[*value as usize] = Some(operation);
            }
        });
        Self {
            function,
            registers: vec![NONE; count],
            users: users.into(),
            makers: makers.into(),
            queues: BTreeMap::new(),
        }
    }

    /// Returns the transposition that alone uses a loaded value: then the load itself reads in that order.
    fn turned(&self, value: ValueId) -> Option<&'m Operation> {
        let maker = self.makers[value as usize]?;
        let is_plain = |other: &ValueId| {
            self.makers[*other as usize].is_some_and(|maker| maker.name == "arith.constant")
        };
        let is_load = match maker.name.as_str() {
            "tt.load" => maker.operands.get(2).is_none_or(is_plain),
            name => name == "tt.descriptor_load",
        };
        match self.users[value as usize] {
            (1, Some(user)) if is_load && user.name == "tt.trans" => Some(user),
            _ => None,
        }
    }

    /// Notes that a load takes its tile from a queue.
    fn queue(&mut self, value: ValueId, queue: usize) {
        self.queues.insert(value, queue);
    }

    fn set(&mut self, value: ValueId, reg: Reg) {
        self.registers[value as usize] = reg;
    }

    fn get(&self, value: ValueId) -> Reg {
        self.registers[value as usize]
    }

    fn kind(&self, value: ValueId) -> &'m Type {
        &self.function.values[value as usize]
    }
}

/// The effect of a region's end.
enum Exit {
    /// The kernel returns.
    Kernel,
    /// A function returns: its results go to these registers, and the program goes on at this block.
    Return(Vec<Reg>, usize),
    /// `scf.yield` gives these registers, and the program goes on at this block.
    Yield(Vec<Reg>, usize),
    /// `scf.condition` gives these registers and goes to the first block, or to the second if it does not hold.
    Condition(Vec<Reg>, usize, usize),
}

impl<'m> Lower<'m> {
    fn register(&mut self, kind: &Type) -> Reg {
        self.typed_register(RegType::of(kind))
    }

    fn typed_register(&mut self, kind: RegType) -> Reg {
        self.types.push(kind);
        u32::try_from(self.types.len() - 1).unwrap_or(NONE)
    }

    fn block(&mut self) -> usize {
        self.blocks.push(Vec::new());
        self.blocks.len() - 1
    }

    fn emit(&mut self, op: Op, to: Reg, args: &[Reg]) {
        let instruction = Instruction {
            op,
            to,
            also: Box::default(),
            args: args.into(),
            dies: 0,
            line: self.line,
        };
        self.blocks[self.current].push(instruction);
    }

    fn jump(&mut self, block: usize) {
        self.emit(Op::Jump(block), NONE, &[]);
    }

    /// Returns an error of an operation.
    fn error(&self, operation: &Operation, message: impl Into<String>) -> TritonError {
        TritonError {
            line: operation.place.line,
            column: operation.place.column,
            operation: Some(operation.name.clone()),
            source: self.source(operation),
            message: message.into(),
        }
    }

    /// Returns the line of the kernel's own file that asks for an operation; else the outermost call.
    fn source(&self, operation: &Operation) -> Option<SourceLine> {
        let frames = &operation.place.frames;
        let own = frames.iter().find(|line| Some(&line.file) == self.file.as_ref());
        own.or_else(|| frames.last()).cloned()
    }

    /// Notes the line of the instructions that follow.
    fn at(&mut self, operation: &Operation) {
        let source = self.source(operation);
        if source.is_none() || self.lines[self.line as usize] == source {
            return;
        }
        let known = self.lines.iter().position(|line| *line == source);
        let index = known.unwrap_or_else(|| {
            self.lines.push(source);
            self.lines.len() - 1
        });
        self.line = u32::try_from(index).unwrap_or(0);
    }

    /// Lowers the blocks of a region from the current block on.
    fn body(&mut self, region: &'m Region, frame: &mut Frame<'m>, exit: &Exit) -> Lowered<()> {
        let first = self.current;
        let targets: Vec<usize> =
            (0..region.blocks.len()).map(|at| if at == 0 { first } else { self.block() }).collect();
        for block in region.blocks.iter().skip(1) {
            for argument in &block.arguments {
                let reg = self.register(frame.kind(*argument));
                frame.set(*argument, reg);
            }
        }
        for (at, block) in region.blocks.iter().enumerate() {
            self.current = targets[at];
            self.straight(block, frame, exit, &targets, region)?;
        }
        Ok(())
    }

    fn straight(
        &mut self,
        block: &'m Block,
        frame: &mut Frame<'m>,
        exit: &Exit,
        targets: &[usize],
        region: &'m Region,
    ) -> Lowered<()> {
        for operation in &block.operations {
            let is_last = matches!(operation.name.as_str(), "tt.return" | "scf.yield" | "cf.br");
            // The work at the end of a loop belongs to the line before it.
            if !is_last {
                self.at(operation);
            }
            match operation.name.as_str() {
                "cf.br" => {
                    let (to, values) = &operation.successors[0];
                    self.pass(values, &region.blocks[*to].arguments, frame, operation)?;
                    self.jump(targets[*to]);
                    return Ok(());
                }
                "cf.cond_br" => return self.conditional(operation, frame, targets, region),
                "tt.return" | "scf.yield" | "scf.condition" => {
                    return self.leave(operation, frame, exit);
                }
                _ => self.operation(operation, frame)?,
            }
        }
        // A region without results may leave out its last operation.
        match exit {
            Exit::Kernel => self.emit(Op::Return, NONE, &[]),
            Exit::Return(_, to) | Exit::Yield(_, to) | Exit::Condition(_, to, _) => self.jump(*to),
        }
        Ok(())
    }

    /// Performs the last operation of a region.
    fn leave(&mut self, operation: &Operation, frame: &Frame<'m>, exit: &Exit) -> Lowered<()> {
        let values: Vec<Reg> = operation.operands.iter().map(|value| frame.get(*value)).collect();
        let count = |to: &[Reg], values: &[Reg]| to.len() == values.len();
        match (operation.name.as_str(), exit) {
            ("tt.return", Exit::Kernel) => self.emit(Op::Return, NONE, &[]),
            ("tt.return", Exit::Return(to, block)) | ("scf.yield", Exit::Yield(to, block))
                if count(to, &values) =>
            {
                self.moves(&values, to);
                self.jump(*block);
            }
            ("scf.condition", Exit::Condition(to, then, otherwise))
                if values.len() == to.len() + 1 =>
            {
                // The condition is looked at before the moves, which may change its register.
                let condition = self.copy(values[0]);
                self.moves(&values[1..], to);
                self.emit(Op::Branch(*then, *otherwise), NONE, &[condition]);
            }
            _ => return Err(self.error(operation, "it does not fit the region that it ends")),
        }
        Ok(())
    }

    fn copy(&mut self, reg: Reg) -> Reg {
        let copy = self.typed_register(self.types[reg as usize].clone());
        self.emit(Op::Move, copy, &[reg]);
        copy
    }

    /// Moves all at once.
    fn moves(&mut self, from: &[Reg], to: &[Reg]) {
        let overlaps = from.iter().enumerate().any(|(at, reg)| to[..at].contains(reg));
        let from: Vec<Reg> =
            if overlaps { from.iter().map(|reg| self.copy(*reg)).collect() } else { from.to_vec() };
        for (from, to) in from.iter().zip(to).filter(|(from, to)| from != to) {
            self.emit(Op::Move, *to, &[*from]);
        }
    }

    /// Gives values to the arguments of a block.
    fn pass(
        &mut self,
        values: &[ValueId],
        arguments: &[ValueId],
        frame: &Frame<'m>,
        operation: &Operation,
    ) -> Lowered<()> {
        if values.len() != arguments.len() {
            return Err(self.error(operation, "the block takes another number of values"));
        }
        let from: Vec<Reg> = values.iter().map(|value| frame.get(*value)).collect();
        let to: Vec<Reg> = arguments.iter().map(|value| frame.get(*value)).collect();
        self.moves(&from, &to);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
