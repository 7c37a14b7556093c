//! What a new task waits for and what it holds.

use super::{Engine, is_over};
use crate::arena::{NONE, number};
use crate::group::Group;
use crate::record::{Entry, Incoming};
use crate::region::rounded;
use crate::run::RunId;
use crate::scope::Mode;
use crate::task::{Arg, Edge, Route, Slab, State, Tag, TaskId};
use crate::tensormap::{Accessor, Kinds};
use crate::view::Region;

impl Engine {
    pub(super) fn add_group(
        &mut self,
        pool: Option<u32>,
        targets: Vec<u32>,
        members: usize,
    ) -> u32 {
        self.groups.add(Group { targets, pool, members, remaining: members, cause: None, took: 0 })
    }

    pub(super) fn members(&self, slot: u32) -> usize {
        if let Route::Group(group) = self.ring[slot].route { self.groups[group].members } else { 1 }
    }

    /// A slot for a new task of `run`.
    #[inline]
    pub(super) fn open_slot(&mut self, run: RunId, route: Route) -> u32 {
        let slot = self.ring.take();
        self.sequence += 1;
        let sequence = self.sequence;
        let entry = &mut self.ring[slot];
        entry.state = State::Pending;
        entry.is_ended = false;
        entry.route = route;
        entry.run = run.index;
        (entry.waits, entry.deferred, entry.path) = (0, 0, 0);
        (entry.accesses, entry.record) = (NONE, NONE);
        // A task never waits for itself.
        (entry.sequence, entry.mark) = (sequence, sequence);
        entry.cause = None;
        entry.itself = Some(entry.holders.itself(slot));
        self.runs[run.index as usize].live += 1;
        slot
    }

    /// Bytes that live as long as their scope, their task and all who name them.
    pub(super) fn give_slab(&mut self, slot: u32, run: usize, bytes: u64) -> Option<Slab> {
        let offset = self.ring.bytes.allocate(bytes)?;
        let length = i64::try_from(bytes).ok()?;
        let buffer = self.buffers.add_slab(length, slot);
        let slab = Slab { buffer, offset, bytes };
        let entry = &mut self.ring[slot];
        entry.slab = Some(slab);
        entry.is_scoped = true;
        let reference = entry.holders.scope(slot);
        let run = &mut self.runs[run];
        run.scoped += 1;
        let run_key = (run.id.index, run.id.number);
        let mode = run.scopes.last().map_or(Mode::Automatic, |scope| scope.mode);
        if let Some(scope) = run.scopes.last_mut() {
            scope.refs.push(reference);
            scope.bytes += rounded(bytes).unwrap_or(bytes);
        }
        if mode == Mode::Automatic {
            let runs = &self.runs;
            let first = &mut self.buffers.at_mut(buffer.index).map;
            let map = self.map.of(first, run_key, |run| is_over(runs, run));
            let mut accessor = Accessor { task: slot, accesses: &mut self.ring[slot].accesses };
            self.map.access(
                map,
                &Region::whole(length),
                Tag::Output.effect(false),
                &mut accessor,
                |_, _| {},
            );
        }
        Some(slab)
    }

    /// Enters the arguments of one member.
    #[inline]
    pub(super) fn wire(&mut self, slot: u32, member: u16, args: &[Arg], is_unordered: bool) {
        let run = self.ring[slot].run;
        let entry = &self.runs[run as usize];
        let run = (run, entry.id.number);
        let is_manual = entry.scopes.last().is_some_and(|scope| scope.mode == Mode::Manual);
        for (argument, arg) in (0..).zip(args) {
            let owner = self.buffers.at(arg.view.buffer.index).owner;
            if owner != NONE {
                self.hold(slot, owner);
            }
            let runs = &self.runs;
            let first = &mut self.buffers.at_mut(arg.view.buffer.index).map;
            let map = self.map.of(first, run, |run| is_over(runs, run));
            if is_manual || arg.tag == Tag::NoDep || arg.view.is_empty() {
                continue;
            }
            self.infer(slot, map, arg, (member, argument), is_unordered);
        }
    }

    #[inline]
    fn infer(&mut self, slot: u32, map: u32, arg: &Arg, at: (u16, u16), is_unordered: bool) {
        let mut accesses = self.ring[slot].accesses;
        let mut accessor = Accessor { task: slot, accesses: &mut accesses };
        let effect = arg.tag.effect(is_unordered);
        if is_unordered {
            let mut met = 0;
            self.map.access(map, &arg.view.region, effect, &mut accessor, |_, _| met += 1);
            let run = self.ring[slot].run;
            self.runs[run as usize].report.unordered += met;
        } else {
            let ring = &mut self.ring;
            self.map.access(map, &arg.view.region, effect, &mut accessor, |producer, kinds| {
                add_edge(ring, slot, producer, at, kinds);
            });
        }
        self.ring[slot].accesses = accesses;
    }

    /// `slot` keeps the slab of `owner`.
    fn hold(&mut self, slot: u32, owner: u32) {
        if slot != owner {
            let reference = self.ring[owner].holders.consumer(owner);
            self.ring[slot].held.push(reference);
        }
    }

    /// An explicit dependency; one on a task that is gone is satisfied.
    pub(super) fn wire_after(&mut self, slot: u32, task: TaskId) {
        let Some(producer) = self.ring.find(task) else { return };
        if self.ring[producer].slab.is_some() {
            self.hold(slot, producer);
        }
        if matches!(self.ring[producer].state, State::Pending | State::Ready | State::Running) {
            add_edge(&mut self.ring, slot, producer, (0, u16::MAX), Kinds::EXPLICIT);
        }
    }

    /// Remembers a new task if the engine is recording.
    pub(super) fn record(&mut self, slot: u32, members: usize) {
        if !self.config.is_recording {
            return;
        }
        let entry = &self.ring[slot];
        let edges = entry.edges.iter().filter_map(|edge| {
            let from = self.ring.find(edge.producer).map(|producer| self.ring[producer].record)?;
            Some(Incoming { from, member: edge.member, argument: edge.argument, kinds: edge.kinds })
        });
        let edges = edges.collect();
        let entry = Entry {
            task: self.ring.id(slot),
            work: entry.work,
            members,
            state: State::Pending,
            took: 0,
            edges,
        };
        let run = self.ring[slot].run as usize;
        self.ring[slot].record = number(self.runs[run].record.len());
        self.runs[run].record.push(entry);
    }
}

/// `slot` waits for `producer`, once, however many arguments say so.
#[inline]
fn add_edge(ring: &mut crate::ring::Ring, slot: u32, producer: u32, at: (u16, u16), kinds: Kinds) {
    let sequence = ring[slot].sequence;
    let entry = &mut ring[producer];
    let is_new = entry.mark != sequence;
    if is_new {
        entry.mark = sequence;
        entry.consumers.push(slot);
    }
    let task = TaskId { slot: producer, generation: entry.generation };
    let entry = &mut ring[slot];
    entry.waits += u32::from(is_new);
    entry.edges.push(Edge { producer: task, member: at.0, argument: at.1, kinds });
}
