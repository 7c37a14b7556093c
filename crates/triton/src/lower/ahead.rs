//! Loads ahead: a second, short copy of a loop's body runs ahead of the loop and issues its loads.
//!
//! The copy holds the operations that compute addresses and masks, and the loads. A loop has one if nothing in it writes
//! memory, and the addresses of a load depend on no tile.

use super::{Frame, Lower, Lowered};
use crate::ir::{Block, Operation, ValueId};
use crate::number::{Arith, Comparison, Relation};
use crate::program::{NONE, Op, Reg};
use crate::types::Type;
use std::collections::{BTreeMap, BTreeSet};

/// The part of a loop's body that runs ahead.
struct Slice {
    /// Positions of operations in the block.
    operations: BTreeSet<usize>,
    /// Numbers of carried values.
    carried: BTreeSet<usize>,
}

impl<'m> Lower<'m> {
    /// Adds the copy of a loop that runs ahead; returns the block that each round begins at.
    pub(super) fn scout(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
        head: usize,
    ) -> Lowered<usize> {
        let region = &operation.regions[0];
        let [block] = region.blocks.as_slice() else { return Ok(head) };
        let mut is_still = true;
        region.each(&mut |inner| is_still &= !disturbs(inner));
        let loads: Vec<usize> = (0..block.operations.len())
            .filter(|at| {
                matches!(block.operations[*at].name.as_str(), "tt.load" | "tt.descriptor_load")
            })
            .filter(|at| {
                is_still && !matches!(frame.kind(block.operations[*at].results[0]), Type::One(_))
            })
            .collect();
        let mut slice = Slice { operations: BTreeSet::new(), carried: BTreeSet::new() };
        let early: Vec<usize> = loads.into_iter().filter(|at| slice.add(block, *at)).collect();
        if early.is_empty() {
            return Ok(head);
        }
        let stages = operation.int("tt.num_stages").and_then(|stages| usize::try_from(stages).ok());
        self.copy_ahead(operation, frame, head, &slice, &early, stages)
    }

    fn copy_ahead(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
        head: usize,
        slice: &Slice,
        early: &[usize],
        stages: Option<usize>,
    ) -> Lowered<usize> {
        let block = &operation.regions[0].blocks[0];
        let [_, high, step] = [0, 1, 2].map(|at| frame.get(operation.operands[at]));
        let mut ahead = frame.clone();
        let twin = |lower: &mut Self, value: ValueId, ahead: &mut Frame<'m>| {
            let (from, kind) = (ahead.get(value), ahead.kind(value));
            let reg = lower.register(kind);
            lower.emit(Op::Move, reg, &[from]);
            ahead.set(value, reg);
            reg
        };
        let counter = twin(self, block.arguments[0], &mut ahead);
        let mut carried: BTreeMap<usize, Reg> = BTreeMap::new();
        for number in &slice.carried {
            let reg = twin(self, block.arguments[number + 1], &mut ahead);
            carried.insert(*number, reg);
        }
        let first = self.queues;
        self.queues += early.len();
        let came_from = self.current;
        let [test, more, copy] = [self.block(), self.block(), self.block()];
        self.current = test;
        let (has_room, is_left) = (self.flag(), self.flag());
        self.emit(Op::HasRoom { queue: first, stages }, has_room, &[]);
        self.emit(Op::Branch(more, head), NONE, &[has_room]);
        self.current = more;
        let less = Comparison { relation: Relation::Lt, is_unsigned: false };
        self.emit(Op::Compare(less), is_left, &[counter, high]);
        self.emit(Op::Branch(copy, head), NONE, &[is_left]);
        self.current = copy;
        for (at, inner) in block.operations.iter().enumerate() {
            let queue = early.iter().position(|load| *load == at).map(|number| first + number);
            if queue.is_some() || slice.operations.contains(&at) {
                self.at(inner);
                self.ahead_or_not(inner, &mut ahead, queue)?;
            }
        }
        let yielded = block.operations.last().filter(|last| last.name == "scf.yield");
        let from: Vec<Reg> = carried
            .keys()
            .filter_map(|number| Some(ahead.get(*yielded?.operands.get(*number)?)))
            .collect();
        let to: Vec<Reg> = carried.values().copied().collect();
        self.moves(&from, &to);
        self.emit(Op::Arith(Arith::Add), counter, &[counter, step]);
        self.jump(test);
        self.current = came_from;
        for (number, load) in early.iter().enumerate() {
            frame.queue(block.operations[*load].results[0], first + number);
        }
        Ok(test)
    }

    fn ahead_or_not(
        &mut self,
        operation: &'m Operation,
        ahead: &mut Frame<'m>,
        queue: Option<usize>,
    ) -> Lowered<()> {
        match queue {
            Some(queue) => self.load(operation, ahead, Some(queue)),
            None => self.operation(operation, ahead),
        }
    }
}

impl Slice {
    /// Adds what the load at `load` needs; false, and nothing added, if a tile is among it.
    fn add(&mut self, block: &Block, load: usize) -> bool {
        let makers: BTreeMap<ValueId, usize> = block
            .operations
            .iter()
            .enumerate()
            .flat_map(|(at, operation)| operation.results.iter().map(move |value| (*value, at)))
            .collect();
        let yielded = block.operations.last().filter(|last| last.name == "scf.yield");
        let (mut operations, mut carried) = (self.operations.clone(), self.carried.clone());
        let mut open: Vec<ValueId> = block.operations[load].operands.clone();
        while let Some(value) = open.pop() {
            if let Some(number) = block.arguments.iter().skip(1).position(|known| *known == value) {
                let next = yielded.and_then(|last| last.operands.get(number));
                let Some(next) = next else { return false };
                if carried.insert(number) {
                    open.push(*next);
                }
            } else if let Some(at) = makers.get(&value) {
                if !is_index(&block.operations[*at].name) {
                    return false;
                }
                if operations.insert(*at) {
                    open.extend(&block.operations[*at].operands);
                }
            }
        }
        (self.operations, self.carried) = (operations, carried);
        true
    }
}

/// True if an operation may compute indices without a tile.
fn is_index(name: &str) -> bool {
    let is_whole = Arith::of_name(name).is_some_and(|arith| !arith.is_float());
    is_whole
        || matches!(
            name,
            "arith.constant"
                | "arith.cmpi"
                | "arith.select"
                | "arith.extsi"
                | "arith.extui"
                | "arith.trunci"
                | "arith.index_cast"
                | "tt.splat"
                | "tt.broadcast"
                | "tt.expand_dims"
                | "tt.reshape"
                | "tt.trans"
                | "tt.addptr"
                | "tt.make_range"
                | "tt.get_program_id"
                | "tt.get_num_programs"
                | "tt.make_tensor_descriptor"
                | "tt.bitcast"
        )
}

/// True if an operation may change memory, or may not end: then no load may be moved before it.
fn disturbs(operation: &Operation) -> bool {
    matches!(
        operation.name.as_str(),
        "tt.store"
            | "tt.atomic_rmw"
            | "tt.atomic_cas"
            | "tt.descriptor_store"
            | "tt.descriptor_reduce"
            | "tt.call"
            | "scf.while"
            | "ttg.barrier"
            | "gpu.barrier"
    )
}
