//! Folding: the steps that no path can reach any more are dropped, and every chain of steps without a branch becomes one
//! [`Chain`] with the sums of its steps. The remaining steps are a forest with fewer than two chains for each live path
//! (REC-2).

use super::path::{Step, StepId, Steps};
use super::path_lines::{LineMark, LineSums};
use super::sums::{Part, Sums};
use super::usage::Mark;
use crate::time::Time;
use std::cell::Cell;

/// A chain of steps that was folded. It has the number of its last step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    pub(super) sequence: u64,
    /// The step or chain before it.
    pub(crate) parent: StepId,
    /// The start of its first step.
    pub(crate) from: Time,
    /// The end of its last step.
    pub(crate) to: Time,
    /// True if its last step is on a wire outside SIPs.
    pub(crate) ends_outside: bool,
    /// Time behind the wires outside SIPs, between its steps.
    pub(crate) latency: Time,
    pub(crate) parts: Vec<Part>,
    /// The lines of its steps, if any step of the run has one.
    pub(crate) lines: Option<Box<LineSums>>,
    mark: Mark,
}

crate::portable!(struct Chain { sequence, parent, from, to, ends_outside, latency, parts, lines, mark });

/// Room for steps, shared by all SIPs.
pub(crate) struct Room {
    /// Number of steps for which SIPs have taken room since the last fold.
    taken: Cell<usize>,
    /// Number of steps after which a fold is due.
    limit: Cell<usize>,
    /// The limit while few chains are kept.
    least: usize,
    /// Number of steps whose way back was lost.
    lost: Cell<u64>,
}

/// Most steps of one SIP between two folds, on average.
const STEPS_OF_ONE: usize = 1 << 15;

impl Room {
    /// Returns the room of a machine of `sips` SIPs with at most `steps` steps between two folds.
    pub(crate) fn new(steps: usize, sips: u32) -> Self {
        let least = steps.min((sips as usize).saturating_mul(STEPS_OF_ONE)).max(1);
        let (taken, limit, lost) = (Cell::default(), Cell::new(least), Cell::default());
        Self { taken, limit, least, lost }
    }

    /// Returns the room of a machine that keeps no steps (REC-5).
    pub(crate) fn none() -> Self {
        let (taken, limit, lost) = (Cell::default(), Cell::new(usize::MAX), Cell::default());
        Self { taken, limit, least: 0, lost }
    }

    /// True if the machine keeps no steps.
    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.least == 0
    }

    /// Takes room for `steps` steps.
    pub(super) fn take(&self, steps: usize) {
        self.taken.set(self.taken.get() + steps);
    }

    /// True if there are many steps.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.taken.get() >= self.limit.get()
    }

    /// Returns the number of steps for which SIPs have taken room since the last fold.
    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }

    /// Returns the number of steps after which a fold is due.
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Begins again after a fold in another shard.
    pub(crate) fn set(&self, limit: usize, lost: u64) {
        self.taken.set(0);
        self.limit.set(limit);
        self.lost.set(lost);
    }

    pub(super) fn least(&self) -> usize {
        self.least
    }

    /// Returns the number of steps whose way back was lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.get()
    }
}

/// Folds the steps of all SIPs; the steps of `roots` keep their numbers.
///
/// The result depends on the steps and the set of roots alone: the order of SIPs and of roots has no effect.
pub(crate) fn fold(room: &Room, all: &mut [&mut Steps], roots: &[StepId]) {
    let mut forest = Forest::new(all);
    forest.mark_all(roots);
    forest.kept.sort_unstable();
    let kept = std::mem::take(&mut forest.kept);
    let chains = forest.chains(&kept);
    room.lost.set(room.lost.get() + forest.lost);
    forest.give_back();
    room.taken.set(0);
    // Chains are folded again each time: with many of them, folding must be rare.
    room.limit.set(room.least.max(2 * chains.len()));
    for steps in all.iter_mut() {
        steps.start_again();
    }
    for (id, chain) in kept.iter().zip(chains) {
        if let Some(sip) = id.sip() {
            all[sip as usize].folded.push(chain);
        }
    }
}

/// A chain that is put together from its end.
struct ChainWalk {
    /// Its place among the chains.
    place: usize,
    chain: Chain,
    sums: Sums,
    /// The step or chain before it, which belongs to it if it is its end, or has no other after it.
    next: StepId,
    is_end: bool,
    /// True if it begins with a step.
    has_step: bool,
}

/// The end of a chain.
enum ChainEnd {
    /// Nothing is to be added before it.
    Whole(Chain),
    /// It and what comes before it are to be added.
    Begun(Chain),
}

/// Most ways that are walked at a time. The steps of a way are far apart in memory: the processor fetches those of several ways
/// at once.
const WALKS: usize = 8;

/// The steps of one SIP during a fold.
struct Ground {
    /// Number of steps before the list.
    first: u64,
    list: Vec<Step>,
}

impl Ground {
    /// Returns the position of a step in the list if it is there, and a position after the list if it is not.
    #[inline]
    fn index_of(&self, id: StepId) -> usize {
        usize::try_from(id.sequence().wrapping_sub(self.first)).unwrap_or(usize::MAX)
    }
}

/// All steps and chains during a fold.
struct Forest<'a, 'b> {
    all: &'a mut [&'b mut Steps],
    grounds: Vec<Ground>,
    kept: Vec<StepId>,
    lost: u64,
    has_lines: bool,
}

impl<'a, 'b> Forest<'a, 'b> {
    fn new(all: &'a mut [&'b mut Steps]) -> Self {
        let has_lines = all.iter().any(|steps| steps.has_lines);
        let ground = |steps: &mut Steps| Ground {
            first: steps.first,
            list: std::mem::take(&mut steps.list),
        };
        let grounds = all.iter_mut().map(|steps| ground(steps)).collect();
        Self { all, grounds, kept: Vec::new(), lost: 0, has_lines }
    }

    /// Gives the SIPs their lists back.
    fn give_back(self) {
        for (steps, ground) in self.all.iter_mut().zip(self.grounds) {
            steps.list = ground.list;
        }
    }

    /// Marks the ways back from the ends of paths, some of them at a time.
    fn mark_all(&mut self, roots: &[StepId]) {
        let mut roots = roots.iter().map(|root| (*root, Mark::Kept));
        let mut walks: Vec<(StepId, Mark)> = roots.by_ref().take(WALKS).collect();
        while !walks.is_empty() {
            let mut at = 0;
            while at < walks.len() {
                let (id, after) = walks[at];
                let before = self.mark(id, after).map(|parent| (parent, Mark::Inner));
                match before.or_else(|| roots.next()) {
                    Some(next) => {
                        walks[at] = next;
                        at += 1;
                    }
                    None => drop(walks.swap_remove(at)),
                }
            }
        }
    }

    /// Marks a step or a chain that is reached as `after` says; returns what comes before it, unless that is marked.
    #[inline]
    fn mark(&mut self, id: StepId, after: Mark) -> Option<StepId> {
        let ground = &mut self.grounds[id.sip()? as usize];
        let index = ground.index_of(id);
        let Some(step) = ground.list.get_mut(index) else { return self.mark_chain(id, after) };
        let before = step.what.mark();
        if before == Mark::Unreached {
            step.what.set_mark(after);
            let parent = step.parent;
            if after == Mark::Kept {
                self.kept.push(id);
            }
            return Some(parent);
        }
        if before != Mark::Kept {
            step.what.set_mark(Mark::Kept);
            self.kept.push(id);
        }
        None
    }

    /// Does the same for a chain.
    fn mark_chain(&mut self, id: StepId, after: Mark) -> Option<StepId> {
        let (sip, index) = self.chain_at(id)?;
        let chain = &mut self.all[sip].folded[index];
        let before = chain.mark;
        chain.mark = follow(before, after);
        if before != Mark::Kept && chain.mark == Mark::Kept {
            self.kept.push(id);
        }
        (before == Mark::Unreached).then_some(chain.parent)
    }

    /// Returns a step, if it has not been folded.
    #[inline]
    fn step_at(&self, id: StepId) -> Option<&Step> {
        let ground = &self.grounds[id.sip()? as usize];
        ground.list.get(ground.index_of(id))
    }

    /// Returns the SIP and the position of the chain that ends with a step.
    fn chain_at(&self, id: StepId) -> Option<(usize, usize)> {
        let sip = id.sip()? as usize;
        Some((sip, self.all[sip].chain_index(id)?))
    }

    /// Returns the chains that end with the kept steps, each of which begins after the kept step before it; some of them are
    /// put together at a time.
    fn chains(&mut self, kept: &[StepId]) -> Vec<Chain> {
        let mut chains: Vec<Chain> = kept.iter().map(|_| Chain::default()).collect();
        let (mut left, mut walks) = (kept.iter().enumerate(), Vec::new());
        let mut spare: Vec<Sums> = std::iter::repeat_with(Sums::default).take(WALKS).collect();
        loop {
            while let Some(sums) = spare.pop() {
                let Some((place, &next)) = left.next() else { break };
                match self.end_with(next) {
                    ChainEnd::Begun(chain) => {
                        let (is_end, has_step) = (true, false);
                        walks.push(ChainWalk { place, chain, sums, next, is_end, has_step });
                    }
                    ChainEnd::Whole(chain) => {
                        chains[place] = chain;
                        spare.push(sums);
                    }
                }
            }
            if walks.is_empty() {
                return chains;
            }
            let mut at = 0;
            while at < walks.len() {
                if self.go_back(&mut walks[at]) {
                    at += 1;
                    continue;
                }
                let mut walk: ChainWalk = walks.swap_remove(at);
                walk.chain.parts = walk.sums.take_parts();
                chains[walk.place] = walk.chain;
                spare.push(walk.sums);
            }
        }
    }

    /// Begins at the end of the chain of a kept step.
    fn end_with(&mut self, id: StepId) -> ChainEnd {
        if let Some(Step { to, what, .. }) = self.step_at(id) {
            return ChainEnd::Begun(self.end_of(id, *to, what.is_wire_outside()));
        }
        let Some((sip, index)) = self.chain_at(id) else {
            return ChainEnd::Whole(Chain::default());
        };
        let Chain { to, ends_outside, parent, .. } = self.all[sip].folded[index];
        if self.is_inner(parent) {
            return ChainEnd::Begun(self.end_of(id, to, ends_outside));
        }
        ChainEnd::Whole(self.all[sip].folded[index].take())
    }

    /// Returns a chain of no step yet, at the end of a step.
    fn end_of(&self, id: StepId, to: Time, ends_outside: bool) -> Chain {
        let lines = self.has_lines.then(Box::default);
        Chain { sequence: id.sequence(), from: to, to, ends_outside, lines, ..Chain::default() }
    }

    /// True for a step or a chain that belongs to the chain of the step after it.
    fn is_inner(&self, id: StepId) -> bool {
        let mark = match self.step_at(id) {
            Some(step) => Some(step.what.mark()),
            None => self.chain_at(id).map(|(sip, index)| self.all[sip].folded[index].mark),
        };
        mark == Some(Mark::Inner)
    }

    /// Lets a chain begin with the step or chain before it; false if it is whole without.
    #[inline]
    fn go_back(&mut self, walk: &mut ChainWalk) -> bool {
        let Some(&Step { parent, what, from, to }) = self.step_at(walk.next) else {
            return self.go_back_over_chain(walk);
        };
        if !walk.is_end && what.mark() != Mark::Inner {
            return false;
        }
        let ChainWalk { chain, sums, .. } = walk;
        sums.add(what, to - from);
        if let Some(lines) = &mut chain.lines {
            let place = self.line_of(walk.next);
            lines.over_gap(chain.from.saturating_sub(to));
            lines.over_step(place, what.kind(), to - from);
        }
        chain.begin_at(parent, (from, to), what.is_wire_outside());
        (walk.next, walk.is_end, walk.has_step) = (parent, false, true);
        true
    }

    /// Does the same for a chain before it.
    fn go_back_over_chain(&mut self, walk: &mut ChainWalk) -> bool {
        let Some((sip, index)) = self.chain_at(walk.next) else {
            // A step that is not here any more.
            self.lost += u64::from(walk.has_step && walk.next != StepId::default());
            return false;
        };
        let earlier = &mut self.all[sip].folded[index];
        if !walk.is_end && earlier.mark != Mark::Inner {
            return false;
        }
        let Chain { parent, from, to, ends_outside, latency, parts, lines, .. } = earlier.take();
        let ChainWalk { chain, sums, .. } = walk;
        for part in &parts {
            sums.add_part(part);
        }
        if let Some(all) = &mut chain.lines {
            all.over_gap(chain.from.saturating_sub(to));
            all.over_chain(lines.as_deref(), to - from);
        }
        chain.begin_at(parent, (from, to), ends_outside);
        chain.latency += latency;
        (walk.next, walk.is_end, walk.has_step) = (parent, false, false);
        true
    }

    /// Returns the SIP of a step, and its line.
    #[cold]
    fn line_of(&self, id: StepId) -> (u32, LineMark) {
        let sip = id.sip().unwrap_or_default();
        let index = self.grounds[sip as usize].index_of(id);
        (sip, self.all[sip as usize].mark_at(index))
    }
}

/// Returns the mark of a step that was marked `before`, and is reached as `after` says.
#[inline]
fn follow(before: Mark, after: Mark) -> Mark {
    if before == Mark::Unreached { after } else { Mark::Kept }
}

impl Chain {
    /// Takes the chain out, without its mark; its number stays.
    fn take(&mut self) -> Self {
        let (parts, lines) = (std::mem::take(&mut self.parts), self.lines.take());
        Self { parts, lines, mark: Mark::Unreached, ..*self }
    }

    /// Lets the chain begin with what lies between `from` and `to`.
    #[inline]
    fn begin_at(&mut self, parent: StepId, (from, to): (Time, Time), is_outside: bool) {
        if is_outside {
            self.latency += self.from.saturating_sub(to);
        }
        (self.parent, self.from) = (parent, from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::usage::Use;
    use crate::record::{Entry, Gap, Path, PathPart, Resource};
    use crate::stall::Kind;
    use proptest::prelude::*;
    use std::rc::Rc;

    const SIPS: u32 = 3;
    const PATHS: usize = 5;

    /// One event of a run with a few live paths.
    #[derive(Clone, Debug)]
    enum Event {
        /// A path takes a step in a SIP, some time after its end.
        Step {
            path: usize,
            sip: u32,
            wait: u64,
            span: u64,
            resource: u32,
        },
        /// A path takes over another.
        Copy {
            from: usize,
            to: usize,
        },
        Fold,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let step = (0..PATHS, 0..SIPS, 0..3u64, 0..9u64, 0..4u32).prop_map(
            |(path, sip, wait, span, resource)| Event::Step { path, sip, wait, span, resource },
        );
        let copy = (0..PATHS, 0..PATHS).prop_map(|(from, to)| Event::Copy { from, to });
        prop::collection::vec(prop_oneof![6 => step, 2 => copy, 1 => Just(Event::Fold)], 0..120)
    }

    /// A path, and its steps as a list that is never folded.
    #[derive(Clone, Default)]
    struct Live {
        path: Path,
        steps: Vec<(Resource, Time, Time)>,
    }

    /// The steps of a path that were kept: the parts, the time behind outer wires, and true if they reach the start.
    fn walk(all: &[Steps], path: &Path) -> (Vec<PathPart>, Time, bool) {
        let (mut sums, mut latency) = (Sums::default(), Time::ZERO);
        let (mut at, mut next) = (path.last(), path.at());
        while let Some(sip) = at.sip() {
            let (parent, from, to, is_outside) = match all[sip as usize].get(at) {
                None => return (sums.take(), latency, false),
                Some(Entry::Step(step)) => {
                    sums.add(step.what, step.to - step.from);
                    (step.parent, step.from, step.to, step.what.is_wire_outside())
                }
                Some(Entry::Chain(chain)) => {
                    chain.parts.iter().for_each(|part| sums.add_part(part));
                    latency += chain.latency;
                    (chain.parent, chain.from, chain.to, chain.ends_outside)
                }
            };
            if is_outside {
                latency += next - to;
            }
            (at, next) = (parent, from);
        }
        (sums.take(), latency, true)
    }

    impl Live {
        /// The same from the list of steps.
        fn truth(&self) -> (Vec<PathPart>, Time, bool) {
            let (mut sums, mut latency, mut next) = (Sums::default(), Time::ZERO, self.path.at());
            for &(resource, from, to) in self.steps.iter().rev() {
                sums.add(Use::new(resource, Kind::Link), to - from);
                if resource.is_wire_outside() {
                    latency += next - to;
                }
                next = from;
            }
            (sums.take(), latency, true)
        }

        fn step(&mut self, steps: &mut Steps, (wait, span): (u64, u64), resource: Resource) {
            self.path.advance(self.path.at() + Time::ps(wait), Gap::Dependency);
            let (from, to) = (self.path.at(), self.path.at() + Time::ps(span));
            steps.add(&mut self.path, to, Use::new(resource, Kind::Link));
            self.steps.push((resource, from, to));
        }
    }

    fn resource(number: u32) -> Resource {
        let here = crate::topology::PeId::first(number);
        if number < 2 { Resource::Host(number) } else { Resource::Load(here) }
    }

    fn new_machine() -> (Rc<Room>, Vec<Steps>) {
        let room = Rc::new(Room::new(8, SIPS));
        let all = (0..SIPS).map(|sip| Steps::new(sip, SIPS, false, room.clone())).collect();
        (room, all)
    }

    fn fold_all(room: &Room, all: &mut [Steps], roots: &[StepId]) {
        fold(room, &mut all.iter_mut().collect::<Vec<_>>(), roots);
    }

    proptest! {
        #[test]
        fn rec_2_folding_changes_no_live_path_and_keeps_two_chains_a_path(events in events()) {
            let (room, mut all) = new_machine();
            let mut live = vec![Live::default(); PATHS];
            for event in events {
                match event {
                    Event::Step { path, sip, wait, span, resource: number } => {
                        live[path].step(&mut all[sip as usize], (wait, span), resource(number));
                    }
                    Event::Copy { from, to } => live[to] = live[from].clone(),
                    Event::Fold => {
                        let roots: Vec<StepId> = live.iter().map(|live| live.path.last()).collect();
                        fold_all(&room, &mut all, &roots);
                        let kept: usize = all.iter().map(Steps::kept).sum();
                        prop_assert!(kept < 2 * PATHS, "REC-2: {} chains", kept);
                    }
                }
            }
            prop_assert_eq!(room.lost(), 0, "REC-2");
            for live in &live {
                let (mut found, mut truth) = (walk(&all, &live.path), live.truth());
                found.0.sort_by_key(|part| part.resource);
                truth.0.sort_by_key(|part| part.resource);
                prop_assert_eq!(found, truth, "REC-2");
            }
        }
    }

    #[test]
    fn rec_2_a_way_back_from_a_path_that_was_not_live_is_counted_as_lost() {
        let (room, mut all) = new_machine();
        let mut live = vec![Live::default(); 2];
        for live in &mut live {
            live.step(&mut all[0], (0, 5), resource(3));
        }
        fold_all(&room, &mut all, &[live[0].path.last()]);
        assert_eq!((walk(&all, &live[0].path).2, walk(&all, &live[1].path).2), (true, false));
        live[1].step(&mut all[1], (0, 5), resource(3));
        for _ in 0..3 {
            fold_all(&room, &mut all, &[live[1].path.last()]);
            assert_eq!(room.lost(), 1, "REC-2: counted once");
        }
        assert_eq!(all.iter().map(Steps::kept).sum::<usize>(), 1);
    }
}
