//! The critical path: the chain of operations that led to an instant, and the steps that tell of it.

use super::Resource;
use crate::stall::{Kind, Stack};
use crate::time::Time;

/// The chain of operations that led to an instant, summed up by kind.
///
/// Time that is not in `spent` was a dependency: a fifth number would be one more to copy with every path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    spent: [u64; Kind::COUNT - 1],
    at: Time,
    last: StepId,
}

impl Path {
    /// Returns a chain that begins at `at`, with all time before it spent on `kind`.
    #[cfg(test)]
    pub(crate) fn starting(at: Time, kind: Kind) -> Self {
        let mut path = Self::default();
        path.advance(at, kind);
        path
    }

    /// Goes on to `to`, spending the time between on `kind` (REC-1).
    #[inline]
    pub(crate) fn advance(&mut self, to: Time, kind: Kind) {
        if to > self.at {
            if let Some(spent) = self.spent.get_mut(kind as usize) {
                *spent += (to - self.at).as_ps();
            }
            self.at = to;
        }
    }

    /// Takes the last step of `other`.
    #[inline]
    pub(crate) fn follow(&mut self, other: &Self) {
        self.last = other.last;
    }

    /// Returns all of its time, by kind.
    pub(crate) fn spent(&self) -> Stack {
        stack_of(self.spent, self.at)
    }

    pub(crate) fn at(&self) -> Time {
        self.at
    }

    pub(crate) fn last(&self) -> StepId {
        self.last
    }
}

/// The number of a step: its SIP, and its position among the steps of that SIP. Zero is no step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepId(u64);

pub(super) const SEQUENCE_BITS: u32 = 44;

impl StepId {
    fn new(sip: u32, sequence: u64) -> Self {
        Self(u64::from(sip) << SEQUENCE_BITS | (sequence + 1))
    }

    pub(crate) fn sip(self) -> Option<u32> {
        (self.0 != 0).then_some((self.0 >> SEQUENCE_BITS) as u32)
    }

    fn sequence(self) -> u64 {
        (self.0 & ((1 << SEQUENCE_BITS) - 1)) - 1
    }
}

/// One operation of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) parent: StepId,
    pub(crate) resource: Resource,
    pub(crate) kind: Kind,
    pub(crate) from: Time,
    pub(crate) to: Time,
}

/// Returns the time until `at` by kind, where all that is not in `spent` is a dependency.
fn stack_of(spent: [u64; Kind::COUNT - 1], at: Time) -> Stack {
    let mut stack = Stack::default();
    for (kind, span) in Kind::ALL.into_iter().zip(spent) {
        stack.add(kind, Time::ps(span));
    }
    stack.add(Kind::Dependency, at - stack.total());
    stack
}

/// Most steps that all SIPs together keep without recording (REC-2): ten mebibytes.
const STEPS: usize = 1 << 18;
/// Most steps that one SIP keeps without recording.
const STEPS_OF_ONE: usize = 1 << 15;

/// The latest steps of one SIP; all of them, if the run is recorded.
pub(crate) struct Steps {
    sip: u32,
    list: Vec<Step>,
    next: u64,
    /// A power of two, so that the position of a step needs no division.
    capacity: usize,
    /// The time spent before each step, if the run is recorded.
    before: Option<Vec<[u64; Kind::COUNT - 1]>>,
}

impl Steps {
    pub(super) fn new(sip: u32, sips: u32, recording: bool) -> Self {
        let share = (STEPS / (sips as usize).next_power_of_two()).clamp(16, STEPS_OF_ONE);
        let capacity = if recording { 1 << (usize::BITS - 1) } else { share };
        // Reserved memory costs nothing until it is written, and growing would copy every step several times.
        let list = Vec::with_capacity(share);
        Self { sip, list, next: 0, capacity, before: recording.then(Vec::new) }
    }

    /// Notes that `path` went on to `to` by using `resource`.
    #[inline]
    pub(super) fn add(&mut self, path: &mut Path, to: Time, kind: Kind, resource: Resource) {
        debug_assert!(to >= path.at, "REC-1: {resource} goes back from {} to {to}", path.at);
        let step = Step { parent: path.last, resource, kind, from: path.at, to };
        if self.before.is_some() {
            self.note_before(path);
        }
        path.last = StepId::new(self.sip, self.next);
        path.advance(to, kind);
        if self.list.len() < self.capacity {
            self.list.push(step);
        } else {
            let slot = self.slot_of(self.next);
            self.list[slot] = step;
        }
        self.next += 1;
    }

    /// Notes the time spent before the next step.
    #[cold]
    #[inline(never)]
    fn note_before(&mut self, path: &Path) {
        self.before.get_or_insert_default().push(path.spent);
    }

    /// Returns a step, unless it was forgotten.
    pub(crate) fn get(&self, id: StepId) -> Option<&Step> {
        let sequence = id.sequence();
        let kept = self.next.saturating_sub(sequence) <= self.capacity as u64;
        if kept { self.list.get(self.slot_of(sequence)) } else { None }
    }

    /// Returns the time before a step, by kind; nothing if the run is not recorded.
    pub(crate) fn spent_before(&self, id: StepId) -> Option<Stack> {
        let slot = self.slot_of(id.sequence());
        let spent = self.before.as_ref()?.get(slot)?;
        Some(stack_of(*spent, self.list[slot].from))
    }

    /// Number of steps that were not kept.
    pub(crate) fn forgotten(&self) -> u64 {
        self.next - self.list.len() as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are kept")]
    fn slot_of(&self, sequence: u64) -> usize {
        sequence as usize & (self.capacity - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rec_1_a_path_accounts_for_every_picosecond() {
        let mut steps = Steps::new(3, 4, false);
        let mut path = Path::starting(Time::ps(5), Kind::Dependency);
        for (to, kind) in [(9, Kind::Dma), (9, Kind::Link), (30, Kind::Compute), (12, Kind::Credit)]
        {
            if to >= path.at().as_ps() {
                steps.add(&mut path, Time::ps(to), kind, Resource::Host(3));
            } else {
                path.advance(Time::ps(to), kind);
            }
            assert_eq!(path.spent().total(), path.at(), "REC-1");
        }
        assert_eq!((path.at(), path.last().sip()), (Time::ps(30), Some(3)));
        assert_eq!(path.spent().get(Kind::Credit), Time::ZERO, "REC-1: no way back");
    }

    /// Takes `count` steps of a picosecond; returns their numbers.
    fn walk(steps: &mut Steps, count: u64) -> Vec<StepId> {
        let mut path = Path::default();
        let step = |step| {
            steps.add(&mut path, Time::ps(step), Kind::Link, Resource::Host(1));
            path.last()
        };
        (1..=count).map(step).collect()
    }

    #[test]
    fn rec_2_old_steps_are_forgotten_and_new_ones_kept() {
        let mut steps = Steps::new(1, 1 << 20, false);
        let ids = walk(&mut steps, 100);
        assert_eq!((steps.list.len(), steps.forgotten()), (16, 84), "REC-2");
        let (gone, kept) = ids.split_at(84);
        assert!(gone.iter().all(|id| steps.get(*id).is_none()), "REC-2");
        let ends = kept.iter().map(|id| steps.get(*id).unwrap().to);
        assert!(ends.eq((85..=100).map(Time::ps)), "REC-2");
    }

    #[test]
    fn rec_3_a_recorded_run_forgets_no_step() {
        let mut steps = Steps::new(1, 1 << 20, true);
        let ids = walk(&mut steps, 100);
        assert_eq!(steps.forgotten(), 0, "REC-3");
        for (at, id) in (1..).zip(ids) {
            assert_eq!(steps.get(id).unwrap().to, Time::ps(at), "REC-3");
            assert_eq!(steps.spent_before(id).unwrap().get(Kind::Link), Time::ps(at - 1));
        }
    }
}
