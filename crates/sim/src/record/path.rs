//! The critical path: the chain of operations that led to an instant, and the steps that tell of it.

use super::fold::{Chain, Room};
use super::path_lines::LineMark;
use super::spare;
use super::sums::PathPart;
use super::usage::Use;
use crate::stall::{Kind, Stack};
use crate::time::Time;
use std::rc::Rc;

/// The chain of operations that led to an instant.
///
/// The time of its operations is in its steps, the time between steps in `gaps`. The rest was a dependency. A path is
/// copied with every message, so that it is small. Code that is hot changes a copy on the stack and then stores it: a copy of
/// a path in memory that was just changed there stalls the processor, which cannot join narrow writes to a wide read. What changes
/// most often is the last field, which a copy reads alone.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Path {
    last: StepId,
    gaps: Gaps,
    at: Time,
}

crate::portable!(struct Path { at, last, gaps });

/// A kind of time between two steps of a path.
#[derive(Clone, Copy)]
pub(crate) enum Gap {
    /// [`Kind::Link`].
    Link,
    /// [`Kind::Dependency`].
    Dependency,
}

/// The time between the steps of a path, from its start, by [`Gap`]; dependencies are left out.
pub(crate) type Gaps = [u64; 1];

/// The kinds of the numbers of [`Gaps`].
const GAP_KINDS: [Kind; 1] = [Kind::Link];

impl Path {
    /// Returns a chain that begins at `at`, with all time before it spent on `gap`.
    #[cfg(test)]
    pub(crate) fn starting(at: Time, gap: Gap) -> Self {
        let mut path = Self::default();
        path.advance(at, gap);
        path
    }

    /// Goes on to `to` without a step, spending the time between on `gap` (REC-1).
    #[inline]
    pub(crate) fn advance(&mut self, to: Time, gap: Gap) {
        if to > self.at {
            if let Some(spent) = self.gaps.get_mut(gap as usize) {
                *spent += (to - self.at).as_ps();
            }
            self.at = to;
        }
    }

    /// Returns the time between its steps.
    pub(crate) fn gaps(&self) -> Gaps {
        self.gaps
    }

    #[inline]
    pub(crate) fn at(&self) -> Time {
        self.at
    }

    pub(crate) fn last(&self) -> StepId {
        self.last
    }
}

/// The number of a step: its SIP, and its position among the steps of that SIP. Zero is no step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepId(u64);

crate::portable!(tuple StepId);

pub(super) const SEQUENCE_BITS: u32 = 44;

impl StepId {
    fn new(sip: u32, sequence: u64) -> Self {
        Self(u64::from(sip) << SEQUENCE_BITS | (sequence + 1))
    }

    pub(crate) fn sip(self) -> Option<u32> {
        (self.0 != 0).then_some((self.0 >> SEQUENCE_BITS) as u32)
    }

    /// Returns its position among the steps of its SIP.
    pub(super) fn sequence(self) -> u64 {
        (self.0 & ((1 << SEQUENCE_BITS) - 1)) - 1
    }
}

/// One operation of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) parent: StepId,
    /// The resource, and the kind of its time.
    pub(crate) what: Use,
    pub(crate) from: Time,
    pub(crate) to: Time,
}

crate::portable!(struct Step { parent, what, from, to });

/// Returns `whole` by kind: the time of steps, the time between them, and the rest, which is a dependency.
pub(crate) fn stack_of(parts: &[PathPart], gaps: Gaps, whole: Time) -> Stack {
    let mut stack = Stack::default();
    for part in parts {
        stack.add(part.kind, part.time);
    }
    for (kind, span) in GAP_KINDS.into_iter().zip(gaps) {
        stack.add(kind, Time::ps(span));
    }
    let known = stack.total();
    assert!(known <= whole, "REC-1: {known} of a path of {whole}");
    stack.add(Kind::Dependency, whole - known);
    stack
}

/// Most steps of one SIP for which it takes room at once.
const CHUNK: usize = 1 << 12;

/// The steps of one SIP: the latest as they are and the others folded, or all of them as they are if the run is recorded.
#[repr(C)]
pub(crate) struct Steps {
    /// The steps since the last fold.
    pub(super) list: Vec<Step>,
    /// The number of the next step.
    next: StepId,
    /// Length of the list at which the SIP takes more room; 0 if the run is recorded.
    pub(super) taken: usize,
    /// True if the machine keeps no steps (REC-5).
    is_none: bool,
    /// Number of steps before the list.
    pub(super) first: u64,
    /// Number of steps for which the SIP takes room at once.
    chunk: usize,
    room: Rc<Room>,
    /// The chains of earlier steps, by number.
    pub(super) folded: Vec<Chain>,
    /// The gaps before each step, if the run is recorded.
    pub(super) before: Option<Vec<Gaps>>,
    /// The lines of steps of the list, as far as there are marks.
    pub(super) marks: Vec<LineMark>,
    /// True if a step was ever marked.
    pub(super) has_lines: bool,
}

impl Drop for Steps {
    fn drop(&mut self) {
        spare::give(std::mem::take(&mut self.list));
    }
}

/// A step, or a chain of steps that was folded.
pub(crate) enum Entry<'a> {
    Step(&'a Step),
    Chain(&'a Chain),
}

impl Steps {
    pub(super) fn new(sip: u32, sips: u32, recording: bool, room: Rc<Room>) -> Self {
        let share = room.least() / sips as usize;
        let chunk = (share / 4).clamp(1, CHUNK);
        let (list, next) = (spare::take(share), StepId::new(sip, 0));
        let before = recording.then(Vec::new);
        let (folded, marks) = (Vec::new(), Vec::new());
        let (first, taken, has_lines) = (0, 0, false);
        let is_none = room.is_none();
        Self { list, next, taken, is_none, first, chunk, room, folded, before, marks, has_lines }
    }

    /// Notes that `path` went on to `to` by using a resource.
    #[inline]
    pub(super) fn add(&mut self, path: &mut Path, to: Time, what: Use) {
        debug_assert!(to >= path.at, "REC-1: {what:?} goes back from {} to {to}", path.at);
        if self.is_none {
            path.at = to;
            return;
        }
        let step = Step { parent: path.last, what, from: path.at, to };
        if self.list.len() >= self.taken {
            self.take_room(path.gaps);
        }
        path.last = self.next;
        path.at = to;
        self.next.0 += 1;
        self.list.push(step);
    }

    /// Takes room for more steps. A recorded run has no limit; it keeps the gaps before each step.
    #[cold]
    #[inline(never)]
    fn take_room(&mut self, gaps: Gaps) {
        if let Some(before) = &mut self.before {
            return before.push(gaps);
        }
        self.taken += self.chunk;
        self.room.take(self.chunk);
    }

    /// Returns the SIP.
    pub(super) fn sip(&self) -> u32 {
        self.next.sip().unwrap_or_default()
    }

    /// Goes on with the numbers after those of the list, which was replaced.
    pub(super) fn renumber(&mut self) {
        self.next = StepId::new(self.sip(), self.first + self.list.len() as u64);
    }

    /// Begins an empty list after all steps so far have been folded.
    pub(super) fn start_again(&mut self) {
        self.first += self.list.len() as u64;
        self.taken = 0;
        self.list.clear();
        self.folded.clear();
        self.marks.clear();
    }

    /// Returns a step or the chain that ends with it, unless it was lost.
    pub(crate) fn get(&self, id: StepId) -> Option<Entry<'_>> {
        match self.index_of(id) {
            Some(index) => Some(Entry::Step(&self.list[index])),
            None => self.chain_index(id).map(|index| Entry::Chain(&self.folded[index])),
        }
    }

    /// Returns the position of a step in the list, if it is there.
    #[inline]
    pub(super) fn index_of(&self, id: StepId) -> Option<usize> {
        let index = usize::try_from(id.sequence().checked_sub(self.first)?).ok()?;
        (index < self.list.len()).then_some(index)
    }

    /// Returns the position of the chain that ends with a step, if there is one.
    pub(super) fn chain_index(&self, id: StepId) -> Option<usize> {
        self.folded.binary_search_by_key(&id.sequence(), |chain| chain.sequence).ok()
    }

    /// Returns the gaps before a step; nothing if the run is not recorded.
    pub(crate) fn gaps_before(&self, id: StepId) -> Option<Gaps> {
        self.before.as_ref()?.get(self.index_of(id)?).copied()
    }

    /// Number of steps and chains that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.list.len() + self.folded.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Resource, Sums};

    fn steps(sip: u32, recording: bool) -> Steps {
        Steps::new(sip, 4, recording, Rc::new(Room::new(16, 4)))
    }

    #[test]
    fn rec_1_a_path_accounts_for_every_picosecond() {
        let (mut steps, mut sums) = (steps(3, false), Sums::default());
        let mut path = Path::starting(Time::ps(5), Gap::Dependency);
        for (to, kind) in [(9, Kind::Dma), (11, Kind::Credit), (30, Kind::Compute)] {
            let (what, before) = (Use::new(Resource::Host(3), kind), path.at());
            steps.add(&mut path, Time::ps(to), what);
            sums.add(what, path.at() - before);
            path.advance(Time::ps(to + 2), Gap::Link);
            path.advance(Time::ps(to), Gap::Link);
        }
        assert_eq!((path.at(), path.last().sip()), (Time::ps(32), Some(3)));
        let stack = stack_of(&sums.take(), path.gaps(), path.at());
        let times = [Kind::Dma, Kind::Compute, Kind::Link, Kind::Dependency]
            .map(|kind| stack.get(kind).as_ps());
        assert_eq!((times, stack.total()), ([4, 17, 6, 5], path.at()), "REC-1");
        assert_eq!(stack.get(Kind::Credit), Time::ZERO, "REC-1: it began when it ended");
    }

    /// Takes `count` steps of a picosecond, each after a picosecond behind a wire; returns their numbers.
    fn walk(steps: &mut Steps, count: u64) -> Vec<StepId> {
        let mut path = Path::default();
        let step = |step| {
            path.advance(Time::ps(2 * step - 1), Gap::Link);
            steps.add(&mut path, Time::ps(2 * step), Use::new(Resource::Host(1), Kind::Link));
            path.last()
        };
        (1..=count).map(step).collect()
    }

    #[test]
    fn rec_3_a_recorded_run_keeps_every_step() {
        let mut steps = steps(1, true);
        let ids = walk(&mut steps, 100);
        assert!(!steps.room.is_used_up(), "REC-3: nothing to fold");
        for (at, id) in (1..).zip(ids) {
            let Some(Entry::Step(step)) = steps.get(id) else { panic!("REC-3: {id:?} is lost") };
            assert_eq!(step.to, Time::ps(2 * at), "REC-3");
            assert_eq!(steps.gaps_before(id), Some([at]), "REC-3");
        }
    }
}
