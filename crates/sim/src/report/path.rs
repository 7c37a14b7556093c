//! The critical path of a report: walked back, step by step, from its end.

use crate::machine::World;
use crate::record::{Owner, Path, Resource};
use crate::stall::{Kind, Stack};
use crate::time::Time;
use std::collections::BTreeMap;

/// The chain of operations that led to the end of the run.
#[derive(Clone, Debug, Default)]
pub struct CriticalPath {
    /// The program that ended last.
    pub end: Option<Owner>,
    /// The time on the path, by kind: all of the simulated time.
    pub spent: Stack,
    /// The resources on the path, longest first, as far back as steps were kept.
    pub parts: Vec<PathPart>,
    /// Time behind the wires of SIPs and hosts among the parts, before the next part began.
    pub latency: Time,
    /// True if the parts go back to the start. They always do if the run was recorded, or if `forgotten` is zero.
    pub complete: bool,
    /// Number of steps, on the path or off it, that were not kept.
    pub forgotten: u64,
}

/// One resource's part in the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// The resource.
    pub resource: Resource,
    /// The kind of its time.
    pub kind: Kind,
    /// Number of operations.
    pub count: u64,
    /// Sum of their times.
    pub time: Time,
}

impl CriticalPath {
    /// Returns the whole way of `path`, which led to the end of `end`.
    pub(super) fn new(world: &World, end: Owner, path: &Path) -> Self {
        Self::since(world, end, path, Time::ZERO)
    }

    /// Returns the way of `path` from the instant `since` on.
    pub(super) fn since(world: &World, end: Owner, path: &Path, since: Time) -> Self {
        let mut walk = Walk { since, parts: BTreeMap::new(), latency: Time::ZERO, before: None };
        let complete = walk.back(world, path);
        let mut parts: Vec<PathPart> = walk
            .parts
            .into_iter()
            .map(|((resource, kind), (count, time))| PathPart { resource, kind, count, time })
            .collect();
        parts.sort_by_key(|part| (std::cmp::Reverse(part.time), part.resource));
        let spent = path.spent();
        assert_eq!(spent.total(), path.at(), "REC-1: the path accounts for all of its time");
        let spent = walk.before.map_or(spent, |before| difference(&spent, &before));
        let forgotten = world.sips.iter().map(|sip| sip.borrow().record.steps().forgotten()).sum();
        Self { end: Some(end), spent, parts, latency: walk.latency, complete, forgotten }
    }
}

/// The way back along a path, until `since`.
struct Walk {
    since: Time,
    parts: BTreeMap<(Resource, Kind), (u64, Time)>,
    latency: Time,
    /// The time before `since`, by kind.
    before: Option<Stack>,
}

impl Walk {
    /// Walks; true if it came to the start.
    fn back(&mut self, world: &World, path: &Path) -> bool {
        let is_cut = self.since > Time::ZERO;
        let (mut at, mut next, mut spent) = (path.last(), path.at(), path.spent());
        loop {
            let Some(sip) = at.sip() else {
                self.stop_between((Time::ZERO, &Stack::default()), (next, &spent));
                return true;
            };
            let sip = world.sips[sip as usize].borrow();
            let Some(step) = sip.record.steps().get(at) else { return false };
            let before = sip.record.steps().spent_before(at).unwrap_or_default();
            if is_cut && step.to <= self.since {
                let mut after = before;
                after.add(step.kind, step.to - step.from);
                self.stop_between((step.to, &after), (next, &spent));
                return true;
            }
            let from = step.from.max(self.since);
            let part = self.parts.entry((step.resource, step.kind)).or_default();
            *part = (part.0 + 1, part.1 + (step.to - from));
            if step.resource.is_wire_outside() {
                self.latency += next.saturating_sub(step.to);
            }
            if is_cut && step.from <= self.since {
                let mut until = before;
                until.add(step.kind, self.since - step.from);
                self.before = Some(until);
                return true;
            }
            (at, next, spent) = (step.parent, step.from, before);
        }
    }

    /// The cut lies between two steps, where time may be of several kinds: those of a step come before waits, so the time
    /// before the cut is taken from the kinds in their usual order.
    fn stop_between(&mut self, (start, first): (Time, &Stack), (end, last): (Time, &Stack)) {
        if self.since == Time::ZERO {
            return;
        }
        let mut left = self.since.min(end).saturating_sub(start);
        let mut before = *first;
        let between = difference(last, first);
        for kind in Kind::ALL {
            let span = between.get(kind).min(left);
            before.add(kind, span);
            left = left - span;
        }
        self.before = Some(before);
    }
}

/// Returns `whole` without `part`.
fn difference(whole: &Stack, part: &Stack) -> Stack {
    let mut stack = Stack::default();
    for kind in Kind::ALL {
        stack.add(kind, whole.get(kind).saturating_sub(part.get(kind)));
    }
    stack
}
