//! Wiring: the tasks that a new task waits for, and the slabs that it holds.

use super::{Engine, is_over};
use crate::arena::NONE;
use crate::buffer::Buffer;
use crate::group::Group;
use crate::region::rounded;
use crate::ring::{KEPT, Ring};
use crate::run::{Run, RunId};
use crate::scope::Mode;
use crate::task::{Arg, ArgumentOf, Route, Slab, State, Tag, TaskId, TaskSpec};
use crate::tensormap::trail::Readers;
use crate::tensormap::{Effect, Kinds, RunKey, TensorMap, Touch};
use crate::view::Region;

/// Makes `region` the only one of a buffer that nobody uses and of which no trees are known; else does nothing.
#[inline]
fn adopt(buffer: &mut Buffer, region: &Region, run: RunKey, runs: &[Run]) -> bool {
    let is_mine = buffer.trail.is_of(run);
    if buffer.trail.maps != NONE || region.geometry.is_some() || region.start == region.end {
        return false;
    }
    if is_mine && !buffer.is_unused() || !is_mine && !is_over(runs, buffer.trail.run()) {
        return false;
    }
    if !is_mine {
        buffer.begin(run);
    }
    (buffer.trail.start, buffer.trail.end) = (region.start, region.end);
    true
}

/// Forgets tasks that have ended.
fn drop_ended(ring: &Ring, buffer: &mut Buffer) {
    if !ring.is_under_way(buffer.trail.writer) {
        buffer.trail.writer = TaskId::NONE;
    }
    if buffer.has_readers {
        buffer.readers.retain(|reader| ring.is_under_way(reader));
        buffer.has_readers = !buffer.readers.tasks().is_empty();
    }
}

/// One argument, as it enters a trail or a tree.
#[derive(Clone, Copy)]
struct Entry<'a> {
    buffer: u32,
    run: RunKey,
    region: &'a Region,
    effect: Effect,
    at: ArgumentOf,
}

/// The conflicts of one argument of a new task.
struct Met {
    task: TaskId,
    sequence: u64,
    at: ArgumentOf,
    is_unordered: bool,
    /// Conflicts that nobody waits for.
    unordered: u64,
}

impl Met {
    fn new(task: TaskId, sequence: u64, at: ArgumentOf, effect: Effect) -> Self {
        Self { task, sequence, at, is_unordered: effect.is_unordered, unordered: 0 }
    }

    #[inline]
    fn meet(&mut self, ring: &mut Ring, other: TaskId, kinds: Kinds) {
        if !self.is_unordered {
            ring.joining(self.task.place(), self.sequence).meet(other, self.at, kinds);
        } else if other != self.task && ring.is_under_way(other) {
            self.unordered += 1;
        }
    }
}

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
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "on the way of every task: a call costs a tenth of it"
    )]
    pub(super) fn open_slot(&mut self, run: RunId, route: Route) -> u32 {
        self.counts.sequence += 1;
        self.runs[run.index as usize].live += 1;
        self.ring.take(run.index, route, self.counts.sequence)
    }

    /// Bytes that live as long as their scope, their task and all who name them.
    pub(super) fn give_slab(&mut self, slot: u32, run: usize, bytes: u64) -> Option<Slab> {
        let offset = self.ring.bytes.allocate(bytes)?;
        let length = i64::try_from(bytes).ok()?;
        let buffer = self.buffers.add_slab(length, slot);
        let slab = Slab { buffer, offset, bytes };
        self.ring.extra_mut(slot).is_scoped = true;
        self.ring.rare_mut(slot).slab = Some(slab);
        let entry = &mut self.ring[slot];
        entry.has_slab = true;
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
            let whole = Region::whole(length);
            let effect = Tag::Output.effect(false);
            let at = ArgumentOf::first(0);
            let entry = Entry { buffer: buffer.index, run: run_key, region: &whole, effect, at };
            self.enter_argument(slot, &entry);
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
        let is_plain = !is_manual && !is_unordered;
        let (mut args, mut at) = (args, ArgumentOf::first(member));
        loop {
            if is_plain {
                (args, at) = self.wire_usual(slot, run, args, at);
            }
            let Some((arg, others)) = args.split_first() else { return };
            self.wire_unusual((slot, run, is_manual), arg, at, is_unordered);
            (args, at) = (others, at.after(1));
        }
    }

    /// Enters the first arguments of which this is true: one region, one run, few readers. Then the task that wrote the
    /// region and those that have read it since are all there is to know. The others are left over.
    #[inline]
    fn wire_usual<'a>(
        &mut self,
        slot: u32,
        run: RunKey,
        args: &'a [Arg],
        at: ArgumentOf,
    ) -> (&'a [Arg], ArgumentOf) {
        let task = self.ring.id(slot);
        let mut joining = self.ring.joining(slot, self.counts.sequence);
        let mut count = 0;
        for arg in args {
            let buffer = self.buffers.at_mut(arg.view.buffer.index);
            let is_input = arg.tag == Tag::Input;
            let is_long = is_input && buffer.readers.is_full();
            if is_long || buffer.owner != NONE || arg.tag == Tag::NoDep {
                break;
            }
            let trail = &buffer.trail;
            if !(trail.is_of(run) && trail.is_about(&arg.view.region)
                || adopt(buffer, &arg.view.region, run, &self.runs))
            {
                break;
            }
            let at = at.after(count);
            joining.meet(buffer.trail.writer, at, arg.tag.kinds());
            if is_input {
                buffer.has_readers = true;
                buffer.readers.push(task);
            } else {
                buffer.trail.writer = task;
                if std::mem::take(&mut buffer.has_readers) {
                    self.counts.visits += buffer.readers.tasks().len() as u64;
                    for reader in buffer.readers.tasks() {
                        joining.meet(*reader, at, Kinds::WRITE_AFTER_READ);
                    }
                    buffer.readers.clear();
                }
            }
            count += 1;
        }
        joining.enter(count);
        self.counts.visits += u64::from(count);
        (&args[count as usize..], at.after(count))
    }

    /// An argument that needs more than a look at the trail.
    #[inline(never)]
    fn wire_unusual(
        &mut self,
        (slot, run, is_manual): (u32, RunKey, bool),
        arg: &Arg,
        at: ArgumentOf,
        is_unordered: bool,
    ) {
        let index = arg.view.buffer.index;
        let owner = self.buffers.at(index).owner;
        if owner != NONE {
            self.hold(slot, owner);
        }
        self.name(index, run);
        if !is_manual && arg.tag != Tag::NoDep && !arg.view.is_empty() {
            let effect = arg.tag.effect(is_unordered);
            let entry = Entry { buffer: index, run, region: &arg.view.region, effect, at };
            self.enter_argument(slot, &entry);
        }
    }

    /// Takes notice that a run names a buffer.
    #[inline]
    fn name(&mut self, buffer: u32, run: RunKey) {
        let buffer = self.buffers.at_mut(buffer);
        if buffer.trail.is_of(run) {
            return;
        }
        let is_over = |run| is_over(&self.runs, run);
        if is_over(buffer.trail.run()) {
            buffer.begin(run);
        } else {
            self.map.map(&mut buffer.trail.maps, run, is_over);
        }
    }

    /// Enters one argument, in the trail of its buffer or in a tree.
    fn enter_argument(&mut self, slot: u32, entry: &Entry<'_>) {
        let Entry { buffer: index, run, region, effect, at } = *entry;
        self.name(index, run);
        self.ring.extra_mut(slot).entered += 1;
        self.counts.visits += 1;
        let mut met = Met::new(self.ring.id(slot), self.counts.sequence, at, effect);
        let buffer = self.buffers.at_mut(index);
        let is_candidate = buffer.trail.is_of(run) && region.geometry.is_none() && !effect.adds();
        let is_long = !effect.writes && buffer.readers.is_full();
        if is_candidate && (is_long || !buffer.trail.is_about(region)) && !buffer.is_unused() {
            self.counts.visits += buffer.readers.tasks().len() as u64;
            drop_ended(&self.ring, buffer);
        }
        let (is_unused, is_long) = (buffer.is_unused(), !effect.writes && buffer.readers.is_full());
        let trail = &mut buffer.trail;
        let is_free = |map: &TensorMap, first| first == NONE || !map.has_regions(first, run);
        if is_candidate && is_unused && is_free(&self.map, trail.maps) {
            (trail.start, trail.end) = (region.start, region.end);
        } else if !is_candidate || is_unused || is_long || !trail.is_about(region) {
            return self.enter_tree(slot, entry);
        }
        if effect.writes {
            met.meet(&mut self.ring, trail.writer, effect.on_write());
            if std::mem::take(&mut buffer.has_readers) {
                self.counts.visits += buffer.readers.tasks().len() as u64;
                for reader in buffer.readers.tasks() {
                    met.meet(&mut self.ring, *reader, Kinds::WRITE_AFTER_READ);
                }
                buffer.readers.clear();
            }
            trail.writer = met.task;
        } else {
            met.meet(&mut self.ring, trail.writer, Kinds::READ_AFTER_WRITE);
            buffer.has_readers = true;
            buffer.readers.push(met.task);
        }
        self.runs[run.0 as usize].report.unordered += met.unordered;
    }

    fn enter_tree(&mut self, slot: u32, entry: &Entry<'_>) {
        let Entry { buffer: index, run, region, effect, at } = *entry;
        self.spread((index, run));
        let first = &mut self.buffers.at_mut(index).trail.maps;
        let map = self.map.map(first, run, |run| is_over(&self.runs, run));
        let mut met = Met::new(self.ring.id(slot), self.counts.sequence, at, effect);
        let mut accesses = self.ring.extra(slot).accesses;
        let ring = &mut self.ring;
        self.map.access(
            map,
            &Touch { region, effect, task: slot },
            &mut accesses,
            &mut |producer, kinds| {
                let producer = ring.id(producer);
                met.meet(ring, producer, kinds);
            },
        );
        self.ring.extra_mut(slot).accesses = accesses;
        self.ring[slot].has_accesses = true;
        self.runs[run.0 as usize].report.unordered += met.unordered;
    }

    /// The only region of a run, if it has users, becomes one of several.
    fn spread(&mut self, (index, run): (u32, RunKey)) {
        let buffer = self.buffers.at_mut(index);
        if !buffer.trail.is_of(run) || buffer.is_unused() {
            return;
        }
        let map = self.map.map(&mut buffer.trail.maps, run, |run| is_over(&self.runs, run));
        let region = Region::dense(buffer.trail.start, buffer.trail.end);
        let writer = std::mem::replace(&mut buffer.trail.writer, TaskId::NONE);
        buffer.has_readers = false;
        let readers = std::mem::replace(&mut buffer.readers, Readers::new());
        buffer.trail.forget_region();
        self.counts.visits += readers.tasks().len() as u64;
        let writer = (writer, Tag::Output.effect(false));
        let readers = readers.tasks().iter().map(|reader| (*reader, Tag::Input.effect(false)));
        for (task, effect) in std::iter::once(writer).chain(readers) {
            if self.ring.is_under_way(task) {
                self.ring[task.place()].has_accesses = true;
                let accesses = &mut self.ring.extra_mut(task.place()).accesses;
                let touch = Touch { region: &region, effect, task: task.place() };
                self.map.access(map, &touch, accesses, &mut |_, _| {});
            }
        }
    }

    /// `slot` keeps the slab of `owner`.
    fn hold(&mut self, slot: u32, owner: u32) {
        if slot != owner {
            let reference = self.ring[owner].holders.consumer(owner);
            self.ring[slot].has_held = true;
            let held = &mut self.ring.rare_mut(slot).held;
            held.push(reference);
            self.ring[slot].is_bulky |= self.ring.rare(slot).held.len() > KEPT;
        }
    }

    /// An explicit dependency; one on a task that is gone is satisfied.
    pub(super) fn wire_after(&mut self, slot: u32, task: TaskId) {
        let Some(producer) = self.ring.find(task) else { return };
        if self.ring[producer].has_slab {
            self.hold(slot, producer);
        }
        if matches!(self.ring[producer].state, State::Pending | State::Ready | State::Running) {
            let mut joining = self.ring.joining(slot, self.counts.sequence);
            joining.meet(task, ArgumentOf::NONE, Kinds::EXPLICIT);
        }
    }

    /// Remembers a new task and all that it depends on, also what has ended; `spec` is none for a slab without a task.
    pub(super) fn record(&mut self, slot: u32, spec: Option<&TaskSpec<'_>>) {
        let (task, members) = (self.ring.id(slot), self.members(slot));
        let slab = self.ring.rare(slot).slab;
        let entry = &mut self.ring[slot];
        let run = &mut self.runs[entry.run as usize];
        let record = &mut run.record;
        let at = record.add(task, entry.work, members);
        let is_manual = run.scopes.last().is_some_and(|scope| scope.mode == Mode::Manual);
        if let Some(spec) = spec {
            for (member, args) in spec.members() {
                let numbered = (0..).map(|count| ArgumentOf::first(member).after(count)).zip(args);
                let counts =
                    |arg: &Arg| !is_manual && arg.tag != Tag::NoDep && !arg.view.is_empty();
                for (at, arg) in numbered.filter(|(_, arg)| counts(arg)) {
                    let effect = arg.tag.effect(spec.is_unordered);
                    record.access(arg.view.buffer, (&arg.view.region, effect), at);
                }
            }
            for task in spec.after {
                record.after(*task);
            }
        }
        if let (Some(slab), false) = (slab, is_manual) {
            let whole = Region::whole(slab.bytes.cast_signed());
            let effect = Tag::Output.effect(false);
            record.access(slab.buffer, (&whole, effect), ArgumentOf::NONE);
        }
        entry.path = entry.path.max(record.finish());
        self.ring.extra_mut(slot).record = at;
    }
}
