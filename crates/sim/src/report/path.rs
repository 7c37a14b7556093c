//! The critical path of a report: walked back, step by step, from its end.

use super::PathLine;
use super::lines::path_lines;
use crate::machine::World;
use crate::record::{
    Chain, Entry, Gaps, LineMark, LineSums, Owner, Path, PathPart, Step, StepId, Sums, stack_of,
};
use crate::stall::Stack;
use crate::time::Time;
use std::cmp::Reverse;

/// The chain of operations that led to the end of the run.
#[derive(Clone, Debug, Default)]
pub struct CriticalPath {
    /// The program that ended last.
    pub end: Option<Owner>,
    /// The time on the path, by kind: all of the simulated time. Time whose steps were lost counts as a dependency.
    pub spent: Stack,
    /// The resources on the path, longest first.
    pub parts: Vec<PathPart>,
    /// The lines of kernels on the path, longest first; none if no kernel accounts for its time by lines.
    pub lines: Vec<PathLine>,
    /// Time behind the wires of SIPs and hosts among the parts, before the next part began.
    pub latency: Time,
    /// True if the parts go back to the start. They always do if `forgotten` is zero.
    pub complete: bool,
    /// Number of steps, on the path or off it, whose way back was lost: a host program went on from the end of an
    /// operation after it had learned of the ends of thousands of others. Zero if the run was recorded.
    pub forgotten: u64,
    /// Number of steps, on the path or off it, that the run keeps: all of them if it was recorded; otherwise a chain of
    /// older steps counts as one.
    pub kept: u64,
}

impl CriticalPath {
    /// Returns the whole way of `path`, which led to the end of `end`.
    pub(super) fn new(world: &World, end: Owner, path: &Path) -> Self {
        Self::since(world, end, path, Time::ZERO)
    }

    /// Returns the way of `path` from the instant `since` on.
    pub(super) fn since(world: &World, end: Owner, path: &Path, since: Time) -> Self {
        let sums = Sums::default();
        let lines = LineSums::default();
        let mut walk = Walk { since, sums, lines, latency: Time::ZERO, before: Gaps::default() };
        let complete = walk.back(world, path);
        let mut parts = walk.sums.take();
        parts.sort_by_key(|part| (Reverse(part.time), part.resource, part.kind));
        let gaps = difference(path.gaps(), walk.before);
        let spent = stack_of(&parts, gaps, path.at().saturating_sub(since));
        let forgotten = world.room.lost().max(u64::from(!complete));
        let kept = world.sips.iter().map(|sip| sip.borrow().record.steps().kept() as u64).sum();
        let (latency, lines) = (walk.latency, path_lines(world, walk.lines));
        Self { end: Some(end), spent, parts, lines, latency, complete, forgotten, kept }
    }
}

/// The way back along a path, until `since`.
struct Walk {
    since: Time,
    sums: Sums,
    lines: LineSums,
    latency: Time,
    /// The gaps before `since`.
    before: Gaps,
}

/// A point on the way back: the step or chain before it, its instant, and the gaps until then, if recorded.
type Point = (StepId, Time, Gaps);

impl Walk {
    /// Walks; true if it came to the start.
    fn back(&mut self, world: &World, path: &Path) -> bool {
        let mut point = (path.last(), path.at(), path.gaps());
        loop {
            let (at, next, gaps) = &point;
            let Some(number) = at.sip() else {
                self.stop_between((Time::ZERO, Gaps::default()), (*next, *gaps));
                return true;
            };
            let sip = world.sips[number as usize].borrow();
            let before = match sip.record.steps().get(*at) {
                Some(Entry::Chain(chain)) => Some(self.over_chain(chain, *next)),
                Some(Entry::Step(step)) => {
                    let steps = sip.record.steps();
                    let before = steps.gaps_before(*at).unwrap_or_default();
                    self.over_step((step, number, steps.mark_of(*at)), before, &point)
                }
                None => return false,
            };
            match before {
                Some(before) => point = before,
                None => return true,
            }
        }
    }

    /// Adds a chain, which no cut divides: a run that is cut was recorded.
    fn over_chain(&mut self, chain: &Chain, next: Time) -> Point {
        for part in &chain.parts {
            self.sums.add_part(part);
        }
        self.latency += chain.latency;
        self.lines.over_gap(next.saturating_sub(chain.to));
        self.lines.over_chain(chain.lines.as_deref(), chain.to - chain.from);
        if chain.ends_outside {
            self.latency += next.saturating_sub(chain.to);
        }
        (chain.parent, chain.from, Gaps::default())
    }

    /// Adds a step after `before`; nothing is left if the cut comes first.
    fn over_step(
        &mut self,
        (step, sip, mark): (&Step, u32, LineMark),
        before: Gaps,
        after: &Point,
    ) -> Option<Point> {
        let (is_cut, (_, next, gaps)) = (self.since > Time::ZERO, after);
        self.lines.over_gap(next.saturating_sub(step.to.max(self.since)));
        if is_cut && step.to <= self.since {
            self.stop_between((step.to, before), (*next, *gaps));
            return None;
        }
        let inside = step.to - step.from.max(self.since);
        self.sums.add(step.what, inside);
        self.lines.over_step((sip, mark), step.what.kind(), inside);
        if step.what.is_wire_outside() {
            self.latency += next.saturating_sub(step.to);
        }
        if is_cut && step.from <= self.since {
            self.before = before;
            return None;
        }
        Some((step.parent, step.from, before))
    }

    /// The cut lies between two steps: the time behind a wire comes before a wait, so it is taken from the time before the cut.
    fn stop_between(&mut self, (start, first): (Time, Gaps), (end, last): (Time, Gaps)) {
        if self.since == Time::ZERO {
            return;
        }
        let mut left = self.since.min(end).saturating_sub(start).as_ps();
        self.before = first;
        for (before, span) in self.before.iter_mut().zip(difference(last, first)) {
            let span = span.min(left);
            *before += span;
            left -= span;
        }
    }
}

/// Returns `whole` without `part`.
fn difference(whole: Gaps, part: Gaps) -> Gaps {
    let mut left = whole;
    left.iter_mut().zip(part).for_each(|(whole, part)| *whole = whole.saturating_sub(part));
    left
}
