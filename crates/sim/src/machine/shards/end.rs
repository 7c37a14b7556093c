//! The messages of shards at rest: the end of a run, the steps of the critical path, and reports.

use super::super::{Failure, Machine, RunError, World};
use super::{Shards, SipNotes, gather};
use crate::exchange::Exchange;
use crate::executor::{Deadlock, Waiting};
use crate::ipcq::EdgeName;
use crate::memory::{MemoryError, Region};
use crate::portable::Portable;
use crate::record::{Path, StepId, StepsNotes, fold};
use crate::report::EdgeUsage;
use crate::time::Time;
use crate::topology::PeId;
use crate::value::Value;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The facts that a shard knows at the end of a run.
struct Ending {
    failure: Option<Failure>,
    waiting: Vec<Waiting>,
    last: Option<(Time, PeId, Path)>,
    has_overflowed: bool,
}

crate::portable!(struct Ending { failure, waiting, last, has_overflowed });

/// An edge that is not empty at the end of a run, as one of its ends knows it.
struct LeftOver {
    edge: EdgeName,
    unread: usize,
    credits: Option<CreditsLeft>,
}

crate::portable!(struct LeftOver { edge, unread, credits });

/// Missing credits, all credits and the last topic, as the sender knows them.
type CreditsLeft = (u32, u32, Option<String>);

/// The steps of some SIPs, on their way to the shard that folds them or back.
type MovedSteps = Mutex<Vec<(u32, StepsNotes)>>;

/// The steps that a shard gives to be folded.
struct Unfolded {
    roots: Vec<StepId>,
    last: Option<(Time, PeId, Path)>,
    steps: MovedSteps,
}

crate::portable!(struct Unfolded { roots, last, steps });

/// The result of a fold: the steps of all other shards, the next limit and the number of steps that were lost.
struct Folded {
    steps: MovedSteps,
    limit: usize,
    lost: u64,
}

crate::portable!(struct Folded { steps, limit, lost });

impl Machine {
    /// True if this machine simulates a SIP: always, unless it is one of several shards.
    pub fn owns(&self, sip: u32) -> bool {
        self.world.owns(sip)
    }

    /// Returns the way to the other shards of the run, if there are any.
    pub fn exchange(&self) -> Option<&Arc<dyn Exchange>> {
        self.world.options.exchange.as_ref()
    }

    /// Gathers the lists of all shards, one after the other: a list by SIP stays one. Alone, it is the list itself.
    pub fn gather<T: Portable + Any + Clone + Send + Sync>(&self, own: Vec<T>) -> Vec<T> {
        let Some(exchange) = self.exchange() else { return own };
        gather(&**exchange, own).iter().flat_map(|part| part.iter().cloned()).collect()
    }

    /// Returns the contents of regions of any SIPs, of all shards; see [`Machine::read`].
    pub fn read_all(&self, regions: &[Region]) -> Result<Vec<Option<Value>>, MemoryError> {
        let own = regions.iter().enumerate().filter(|(_, region)| self.owns(region.sip));
        let own = own.map(|(index, region)| (index, self.read(region)));
        let mut all: Vec<(usize, Result<_, _>)> = self.gather(own.collect());
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, value)| value).collect()
    }

    /// Tells the other shards how the run has ended, and returns a deadlock of all.
    pub(in super::super) fn end_together(&self, ended: Option<Deadlock>) -> Option<Deadlock> {
        let Some(shards) = self.world.shards.as_deref() else { return ended };
        let time = ended.as_ref().map(|deadlock| deadlock.time);
        let waiting = ended.map_or_else(Vec::new, |deadlock| deadlock.waiting);
        let all = shards.gather(Ending {
            failure: self.world.first_failure(),
            waiting,
            last: *self.world.launched.last.borrow(),
            has_overflowed: self.world.sim.has_overflowed(),
        });
        let failures = all.iter().filter_map(|end| end.failure.clone());
        *self.world.launched.failures.borrow_mut() = failures.collect();
        *self.world.launched.last.borrow_mut() = latest(all.iter().map(|end| end.last));
        if all.iter().any(|end| end.has_overflowed) {
            self.world.sim.overflow();
        }
        let waiting = all.iter().flat_map(|end| end.waiting.iter().cloned());
        time.map(|time| Deadlock::new(time, waiting.collect()))
    }
}

/// Returns the program that ended last, the one on the lowest PE among equals.
fn latest(ends: impl Iterator<Item = Option<(Time, PeId, Path)>>) -> Option<(Time, PeId, Path)> {
    ends.flatten().max_by_key(|(time, pe, _)| (*time, std::cmp::Reverse(*pe)))
}

impl World {
    /// Requires every message read and every credit home, on all shards (MCH-1).
    pub(in super::super) fn check_credits_together(&self) -> Result<(), RunError> {
        let Some(shards) = self.shards.as_deref() else { return self.check_credits() };
        let all = shards.gather(self.left_over());
        let mut edges: BTreeMap<EdgeName, (usize, Option<CreditsLeft>)> = BTreeMap::new();
        for left in all.iter().flat_map(|left| left.iter()) {
            let (unread, credits) = edges.entry(left.edge).or_default();
            *unread += left.unread;
            *credits = credits.take().or_else(|| left.credits.clone());
        }
        let first = edges.into_iter().find_map(|(edge, (unread, credits))| {
            let (away, slots, about) = credits?;
            Some(RunError::CreditsAway { edge, unread, away, slots, about })
        });
        first.map_or(Ok(()), Err)
    }

    /// Returns the edges that are not empty, as this shard knows them.
    fn left_over(&self) -> Vec<LeftOver> {
        let edges = self.edges.borrow();
        let mut left = Vec::new();
        for edge in edges.sorted() {
            let unread = edge.messages.len();
            let is_sender = self.owns(edge.name.from.sip);
            let is_left = if is_sender { !edge.is_home() } else { unread > 0 };
            if is_left {
                let about = || edge.last_topic().map(ToString::to_string);
                let credits = is_sender.then(|| (edge.away(), edge.spec.n_slots, about()));
                left.push(LeftOver { edge: edge.name, unread, credits });
            }
        }
        left
    }

    /// Gathers the notes of all SIPs in shard 0. Returns the queues by name and the number of events, of all shards.
    pub(crate) fn gather_notes(&self) -> (Vec<EdgeUsage>, u64) {
        let edges = self.edges.borrow();
        let own = edges.sorted().filter(|edge| self.owns(edge.name.from.sip));
        let usage: Vec<EdgeUsage> = own.map(EdgeUsage::of).collect();
        drop(edges);
        let events = self.sim.events();
        let Some(shards) = self.shards.as_deref() else { return (usage, events) };
        let own = (0..).zip(&self.sips).filter(|(number, _)| shards.owns(*number));
        // Shard 0 reports for all, and knows its own.
        let notes: Vec<SipNotes> = if shards.is_first() {
            Vec::new()
        } else {
            own.map(|(_, sip)| SipNotes::of(&mut sip.borrow_mut())).collect()
        };
        if shards.is_first() {
            for notes in shards.gather_first(notes).iter().flat_map(|part| part.iter()) {
                notes.put_into(&mut self.sips[notes.number() as usize].borrow_mut());
            }
        } else {
            shards.gather_first(notes);
        }
        let all = shards.gather((usage, events));
        let mut usage: Vec<EdgeUsage> = all.iter().flat_map(|part| part.0.clone()).collect();
        usage.sort_by_key(|usage| usage.edge);
        (usage, all.iter().map(|part| part.1).sum())
    }

    /// Folds the steps of all shards, in shard 0: the result is that of one run (REC-2).
    #[cold]
    pub(super) fn fold_together(&self, shards: &Shards) {
        let own = || (0..).zip(&self.sips).filter(|(number, _)| shards.owns(*number));
        let take = |(number, sip): (u32, &std::cell::RefCell<super::super::Sip>)| {
            (number, sip.borrow_mut().record.steps_mut().take())
        };
        let steps = if shards.is_first() { Vec::new() } else { own().map(take).collect() };
        let roots = self.live_steps(shards.since.get());
        let (last, steps) = (*self.launched.last.borrow(), Mutex::new(steps));
        let all = shards.gather_first(Unfolded { roots, last, steps });
        let mut folded = Folded { steps: Mutex::default(), limit: 0, lost: 0 };
        if shards.is_first() {
            self.put_steps(all.iter().map(|unfolded| &unfolded.steps));
            let last = latest(all.iter().map(|unfolded| unfolded.last));
            let roots = all.iter().flat_map(|unfolded| unfolded.roots.iter().copied());
            let roots: Vec<StepId> = roots.chain(last.map(|(.., path)| path.last())).collect();
            let mut sips: Vec<_> = self.sips.iter().map(std::cell::RefCell::borrow_mut).collect();
            let mut steps: Vec<_> = sips.iter_mut().map(|sip| sip.record.steps_mut()).collect();
            fold(&self.room, &mut steps, &roots);
            let others = (0..).zip(steps).filter(|(number, _)| !shards.owns(*number));
            let others = others.map(|(number, steps)| (number, steps.take())).collect();
            let room = &self.room;
            folded = Folded { steps: Mutex::new(others), limit: room.limit(), lost: room.lost() };
        }
        let all = shards.gather(folded);
        self.put_steps_if(&all[0].steps, |number| shards.owns(number));
        self.room.set(all[0].limit, all[0].lost);
    }

    fn put_steps<'a>(&self, all: impl Iterator<Item = &'a MovedSteps>) {
        all.for_each(|steps| self.put_steps_if(steps, |_| true));
    }

    /// Takes the steps of the chosen SIPs.
    fn put_steps_if(&self, steps: &MovedSteps, is_chosen: impl Fn(u32) -> bool) {
        let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, steps) in steps.extract_if(.., |(number, _)| is_chosen(*number)) {
            self.sips[number as usize].borrow_mut().record.steps_mut().put(steps);
        }
    }
}
