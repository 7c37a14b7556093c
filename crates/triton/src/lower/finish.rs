//! The last steps: instructions that nobody needs go, jumps get their places, and last uses are found.

use super::Lower;
use crate::program::{Conversion, Instruction, NONE, Op, Parameter, Program, Reg, RegType};
use crate::types::Extent;
use std::collections::BTreeSet;

impl Lower<'_> {
    pub(super) fn finish(mut self, name: String, mut parameters: Vec<Parameter>) -> Program {
        self.sweep();
        self.join_moves();
        let shared = self.hoist();
        let starts = self.live();
        self.mark_deaths(&starts);
        let written = self.written(&parameters);
        for (parameter, is_written) in parameters.iter_mut().zip(written) {
            parameter.is_written = is_written;
        }
        let code = self.flatten();
        share_extents(&mut self.types);
        Program {
            name,
            parameters,
            code,
            shared,
            types: self.types,
            lines: self.lines,
            queues: self.queues,
            uses_pointers_from_memory: self.uses_pointers_from_memory,
        }
    }

    /// Removes instructions without effect whose results nobody needs.
    fn sweep(&mut self) {
        let mut is_needed = vec![false; self.types.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for instruction in self.blocks.iter().flatten() {
                let mut gives = instruction.results().filter(|reg| *reg != NONE);
                let is_used = gives.any(|reg| is_needed[reg as usize]);
                if instruction.op.has_effect() || is_used {
                    for reg in &instruction.args {
                        changed |= !std::mem::replace(&mut is_needed[*reg as usize], true);
                    }
                }
            }
        }
        for block in &mut self.blocks {
            block.retain(|instruction| {
                let mut gives = instruction.results().filter(|reg| *reg != NONE);
                instruction.op.has_effect() || gives.any(|reg| is_needed[reg as usize])
            });
        }
    }

    /// Lets instructions write where a move alone takes their result, and removes the move.
    fn join_moves(&mut self) {
        let mut uses = vec![(0_u32, 0_u32); self.types.len()];
        for instruction in self.blocks.iter().flatten() {
            instruction.args.iter().for_each(|reg| uses[*reg as usize].0 += 1);
            let given = instruction.results().filter(|reg| *reg != NONE);
            given.for_each(|reg| uses[reg as usize].1 += 1);
        }
        for block in &mut self.blocks {
            let mut at = 0;
            while at < block.len() {
                match maker_of_moved(block, at, &uses, &self.types) {
                    Some(maker) => {
                        block[maker].to = block[at].to;
                        block.remove(at);
                    }
                    None => at += 1,
                }
            }
        }
    }

    /// Moves the instructions whose results are the same in all programs of a launch to the beginning; returns their number.
    fn hoist(&mut self) -> usize {
        if self.blocks.iter().any(|block| Self::successors(block).contains(&0)) {
            return 0;
        }
        let mut writes = vec![0_u32; self.types.len()];
        for reg in self.blocks.iter().flatten().flat_map(Instruction::results) {
            writes.get_mut(reg as usize).into_iter().for_each(|count| *count += 1);
        }
        // Arguments are written by nobody.
        let mut is_shared: Vec<bool> = writes.iter().map(|count| *count == 0).collect();
        let mut shared = Vec::new();
        loop {
            let before = shared.len();
            for block in &mut self.blocks {
                shared.extend(block.extract_if(.., |instruction| {
                    let to = instruction.to;
                    let is_same = is_same_in_all(&instruction.op)
                        && to != NONE
                        && writes[to as usize] == 1
                        && instruction.args.iter().all(|reg| is_shared[*reg as usize]);
                    if is_same {
                        is_shared[to as usize] = true;
                    }
                    is_same
                }));
            }
            if shared.len() == before {
                break;
            }
        }
        let count = shared.len();
        self.blocks[0].splice(0..0, shared);
        count
    }

    fn successors(block: &[Instruction]) -> Vec<usize> {
        match block.last().map(|last| &last.op) {
            Some(Op::Jump(to)) => vec![*to],
            Some(Op::Branch(then, otherwise)) => vec![*then, *otherwise],
            _ => Vec::new(),
        }
    }

    /// Returns the registers that are live at the start of each block.
    fn live(&self) -> Vec<Vec<bool>> {
        let mut starts = vec![vec![false; self.types.len()]; self.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for at in (0..self.blocks.len()).rev() {
                let mut live = self.live_at_end(at, &starts);
                for instruction in self.blocks[at].iter().rev() {
                    step_back(instruction, &mut live);
                }
                if live != starts[at] {
                    starts[at] = live;
                    changed = true;
                }
            }
        }
        starts
    }

    fn live_at_end(&self, at: usize, starts: &[Vec<bool>]) -> Vec<bool> {
        let mut live = vec![false; self.types.len()];
        for to in Self::successors(&self.blocks[at]) {
            live.iter_mut().zip(&starts[to]).for_each(|(live, other)| *live |= *other);
        }
        live
    }

    /// Marks the last uses, and empties registers that only some ways need (LOW-2).
    fn mark_deaths(&mut self, starts: &[Vec<bool>]) {
        let mut drops: Vec<Vec<Reg>> = vec![Vec::new(); self.blocks.len()];
        for at in 0..self.blocks.len() {
            let at_end = self.live_at_end(at, starts);
            for to in Self::successors(&self.blocks[at]) {
                for (reg, _) in
                    at_end.iter().enumerate().filter(|(reg, live)| **live && !starts[to][*reg])
                {
                    let reg = u32::try_from(reg).unwrap_or(NONE);
                    if !drops[to].contains(&reg) {
                        drops[to].push(reg);
                    }
                }
            }
            let mut live = at_end;
            for instruction in self.blocks[at].iter_mut().rev() {
                for reg in std::iter::once(&mut instruction.to).chain(&mut instruction.also) {
                    let is_used =
                        *reg != NONE && std::mem::replace(&mut live[*reg as usize], false);
                    *reg = if is_used { *reg } else { NONE };
                }
                for (number, reg) in instruction.args.iter().enumerate().rev() {
                    if !std::mem::replace(&mut live[*reg as usize], true) && number < 32 {
                        instruction.dies |= 1 << number;
                    }
                }
            }
        }
        for (block, drops) in self.blocks.iter_mut().zip(drops) {
            let line = block.first().map_or(0, |first| first.line);
            if !drops.is_empty() {
                let args = drops.into_boxed_slice();
                block.insert(
                    0,
                    Instruction {
                        op: Op::Drop,
                        to: NONE,
                        also: Box::default(),
                        args,
                        dies: 0,
                        line,
                    },
                );
            }
        }
    }

    /// Returns which parameters may point to memory that is written.
    fn written(&self, parameters: &[Parameter]) -> Vec<bool> {
        // The parameters that each register may come from; one more stands for addresses from memory.
        let count = parameters.len();
        let mut from = vec![vec![false; count + 1]; self.types.len()];
        for (number, parameter) in parameters.iter().enumerate() {
            from[parameter.reg as usize][number] = true;
        }
        let mut changed = true;
        while changed {
            changed = false;
            for instruction in self.blocks.iter().flatten().filter(|i| i.to != NONE) {
                let mut mine = from[instruction.to as usize].clone();
                if matches!(instruction.op, Op::Load { .. } | Op::Pop(_)) {
                    mine[count] = true;
                } else {
                    for reg in &instruction.args {
                        mine.iter_mut()
                            .zip(&from[*reg as usize])
                            .for_each(|(to, from)| *to |= *from);
                    }
                }
                if mine != from[instruction.to as usize] {
                    from[instruction.to as usize] = mine;
                    changed = true;
                }
            }
        }
        let mut written = vec![false; count];
        for instruction in self.blocks.iter().flatten().filter(|i| i.op.writes()) {
            let through = &from[instruction.args[0] as usize];
            for (number, is_written) in written.iter_mut().enumerate() {
                *is_written |=
                    through[number] || (through[count] && self.uses_pointers_from_memory);
            }
        }
        written
    }

    /// Puts the blocks one after the other.
    fn flatten(&mut self) -> Vec<Instruction> {
        let mut starts = Vec::new();
        let mut length = 0;
        for block in &self.blocks {
            starts.push(length);
            length += block.len();
        }
        let mut code: Vec<Instruction> = self.blocks.drain(..).flatten().collect();
        for instruction in &mut code {
            match &mut instruction.op {
                Op::Jump(to) => *to = starts[*to],
                Op::Branch(then, otherwise) => {
                    (*then, *otherwise) = (starts[*then], starts[*otherwise]);
                }
                _ => {}
            }
        }
        code
    }
}

/// True for an operation on known numbers that gives the same in all programs, and takes neither time nor scratch memory.
fn is_same_in_all(op: &Op) -> bool {
    matches!(
        op,
        Op::Constant(_)
            | Op::Programs(_)
            | Op::Range(_)
            | Op::Arith(_)
            | Op::Compare(_)
            | Op::Convert(Conversion::Whole { .. })
            | Op::Splat
            | Op::Broadcast
            | Op::Expand(_)
            | Op::Reshape
            | Op::Transpose(_)
            | Op::AddPointer
    )
}

/// Returns the instruction of a block that can write where the move at `at` takes its result: it alone writes its register, the move alone
/// reads it, and nothing between them has to do with the target.
fn maker_of_moved(
    block: &[Instruction],
    at: usize,
    uses: &[(u32, u32)],
    types: &[RegType],
) -> Option<usize> {
    let Instruction { op: Op::Move, to, args, .. } = &block[at] else { return None };
    let from = args[0];
    let (kind, other) = (&types[from as usize], &types.get(*to as usize)?);
    let is_alike = kind.extent == other.extent && kind.element == other.element;
    if uses[from as usize] != (1, 1) || !is_alike || kind.is_one != other.is_one {
        return None;
    }
    let maker = block[..at].iter().rposition(|instruction| instruction.to == from)?;
    let is_free = |instruction: &Instruction| {
        !instruction.args.contains(to) && instruction.results().all(|reg| reg != *to)
    };
    (block[maker].also.is_empty() && block[maker + 1..at].iter().all(is_free)).then_some(maker)
}

/// Lets equal extents be one, so that most comparisons end where they begin.
fn share_extents(types: &mut [RegType]) {
    let mut known: BTreeSet<Extent> = BTreeSet::new();
    let mut shared = |extent: Extent| {
        if let Some(known) = known.get(&extent) {
            return known.clone();
        }
        known.insert(extent.clone());
        extent
    };
    for kind in types {
        kind.ones = shared(vec![1; kind.extent.len()].into());
        kind.extent = shared(kind.extent.clone());
    }
}

/// Turns the registers that are live after an instruction into those that are live before.
fn step_back(instruction: &Instruction, live: &mut [bool]) {
    for reg in instruction.results().filter(|reg| *reg != NONE) {
        live[reg as usize] = false;
    }
    for reg in &instruction.args {
        live[*reg as usize] = true;
    }
}
