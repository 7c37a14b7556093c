//! Trials of several plans, on several threads, and the times that are known.

use super::Known;
use super::interrupt::Interrupt;
use crate::ccl::config::Plan;
use crate::ccl::least::{lanes, least};
use crate::ccl::store::{self, Kept, Store};
use crate::ccl::sweep::Bound;
use crate::ccl::trial::{Outcome, Trial, may_be_mirrored, measure_on, observe};
use crate::shards;
use phalanx_sim::{MachineSpec, Time};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The number of threads for trials; 0 is one for each core.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Sets the number of threads on which tuners simulate. A program that runs simulations on all cores itself sets 1.
pub fn use_threads(threads: NonZero<usize>) {
    THREADS.store(threads.get(), Ordering::Relaxed);
}

/// The fewest SIPs of a machine whose trials take longer than the start of a thread.
const LARGE: u32 = 8;

/// Time between two questions of a thread that waits for the trials of others.
const PAUSE: Duration = Duration::from_millis(5);

/// The fewest elements of a part whose rest does not count for an estimate.
const SMOOTH: usize = 64;

/// Something for each trial and the settings of each plan.
type ByPlan<T> = BTreeMap<Trial, BTreeMap<String, T>>;

/// The times of trials that one tuner knows.
pub(super) struct Trials {
    pub(super) machine: MachineSpec,
    known: Mutex<ByPlan<Known>>,
    /// The rows that were simulated.
    rows: Mutex<ByPlan<(Time, Bound)>>,
    /// The kept times of the process, and the fingerprint of the machine in them.
    kept: Option<(Arc<Store>, Vec<u8>)>,
    simulated: AtomicUsize,
    pub(super) threads: usize,
    /// Plans of the current search that are not timed yet.
    open: AtomicUsize,
    pub(super) interrupt: Interrupt,
    /// True if trials that nothing limits are simulated as rows.
    pub(super) keeps_rows: bool,
}

/// A time that only falls, and that threads share.
pub(super) struct Limit(AtomicU64);

impl Limit {
    /// No limit yet.
    pub(super) fn none() -> Self {
        Self::at(Time::MAX)
    }

    fn at(limit: Time) -> Self {
        Self(AtomicU64::new(limit.as_ps()))
    }

    pub(super) fn get(&self) -> Time {
        Time::ps(self.0.load(Ordering::Relaxed))
    }

    fn lower(&self, limit: Time) {
        self.0.fetch_min(limit.as_ps(), Ordering::Relaxed);
    }
}

/// The results of a race, in the order of the plans, and the last limit.
pub(super) struct Times<T> {
    pub(super) results: Vec<T>,
    pub(super) limit: Time,
}

impl Trials {
    pub(super) fn new(machine: MachineSpec) -> Self {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        let threads = match THREADS.load(Ordering::Relaxed) {
            _ if machine.devices() < LARGE => 1,
            0 => cores(),
            threads => threads,
        };
        let kept = Store::of_process().map(|store| (store, store::fingerprint(&machine)));
        let (known, rows, simulated) = (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
        let (interrupt, keeps_rows, open) = (Interrupt::default(), false, AtomicUsize::new(0));
        Self { machine, known, rows, kept, simulated, threads, open, interrupt, keeps_rows }
    }

    pub(super) fn simulated(&self) -> usize {
        self.simulated.load(Ordering::Relaxed)
    }

    /// True if one rank may stand for all in a trial: it takes little work.
    pub(super) fn is_light(&self, trial: &Trial, plan: &Plan) -> bool {
        plan.own.is_none() && may_be_mirrored(&self.machine, trial, plan)
    }

    /// A trial of nearly the same size that takes less work: the PEs of a plan have equal parts of it, so that one rank may stand for all.
    /// The trial itself, if it is too small for that.
    pub(super) fn even(&self, trial: Trial, plan: &Plan) -> Trial {
        if !self.is_light(&trial, plan) {
            return trial;
        }
        // Every rank has as much of each half of the part of every PE.
        let parts = 2 * trial.members.len() * lanes(&self.machine, &trial, plan).max(1);
        let is_small = |count: usize| count / parts < SMOOTH;
        if trial.layout.pieces.iter().any(|piece| is_small(piece.count)) {
            return trial;
        }
        trial.resized(|count| count / parts * parts)
    }

    /// The positions of plans: those whose trials take little work first, so that their times limit the others.
    fn light_first(&self, trial: &Trial, plans: &[Plan]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..plans.len()).collect();
        order.sort_by_key(|at| !self.is_light(trial, &plans[*at]));
        order
    }

    /// Times every plan for a trial. `time` gets a limit that only falls from `start` on, and returns its result and a new limit, if it has found one: a result that
    /// is within the last limit does not depend on the order of the plans.
    pub(super) fn race<T: Send>(
        &self,
        (trial, start): (&Trial, Time),
        plans: &[Plan],
        time: impl Fn(&Plan, &Limit) -> (T, Option<Time>) + Sync,
    ) -> Times<T> {
        let limit = Limit::at(start);
        let order = self.light_first(trial, plans);
        let results = self.each(plans, &order, |at| {
            let (result, less) = time(&plans[at], &limit);
            if let Some(less) = less {
                limit.lower(less);
            }
            result
        });
        Times { results, limit: limit.get() }
    }

    /// Simulates a trial by every plan, up to `limit` and up to the time of each earlier plan that has ended, unless the plan is late for that. A plan
    /// that is not late for the times of all earlier plans, and faster than they, always gets its exact time, whether plans run at once or one
    /// after the other: a plan that is late for some limit is late for every lower one.
    pub(super) fn in_turn(
        &self,
        trial: &Trial,
        plans: &[Plan],
        limit: Time,
        is_late: impl Fn(usize, Time) -> bool + Sync,
    ) -> Vec<Known> {
        let limits: Vec<Limit> = plans.iter().map(|_| Limit::at(limit)).collect();
        let order: Vec<usize> = (0..plans.len()).collect();
        self.each(plans, &order, |at| {
            let now = limits[at].get();
            // Nothing is before the first one to cut it short.
            let known = if is_late(at, now) {
                Known::Longer(now)
            } else if at == 0 && limit == Time::MAX && self.keeps_rows {
                self.time_of_row(trial, &plans[at])
            } else {
                self.time(trial, &plans[at], &limits[at])
            };
            if let Some(time) = known.exact() {
                for later in &limits[at + 1..] {
                    later.lower(time);
                }
            }
            known
        })
    }

    /// Results of `one` for the position of each plan, on several threads, begun in this order. Algorithms of a program run on this
    /// thread alone.
    fn each<T: Send>(
        &self,
        plans: &[Plan],
        order: &[usize],
        one: impl Fn(usize) -> T + Sync,
    ) -> Vec<T> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<T>>> = Mutex::new(plans.iter().map(|_| None).collect());
        let own = plans.iter().any(|plan| plan.own.is_some());
        let threads = if own { 1 } else { self.threads.min(plans.len()) };
        self.open.store(order.len(), Ordering::Relaxed);
        let take = || {
            while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = one(at);
                self.open.fetch_sub(1, Ordering::Relaxed);
                results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
            }
        };
        let caller = thread::current();
        let help = || {
            take();
            caller.unpark();
        };
        thread::scope(|scope| {
            // A thread that cannot be had leaves its work to the others.
            let start = |_| thread::Builder::new().spawn_scoped(scope, help).ok();
            let helpers: Vec<_> = (1..threads).filter_map(start).collect();
            take();
            while helpers.iter().any(|helper| !helper.is_finished()) && !self.interrupt.is_wanted()
            {
                thread::park_timeout(PAUSE);
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.into_iter().map(|result| result.expect("TUN-3: every plan is timed")).collect()
    }

    /// The trial whose times are those of this one, which equal groups share (TRI-2). Algorithms of programs may tell SIPs apart.
    fn standard<'a>(&self, trial: &'a Trial, plan: &Plan) -> Cow<'a, Trial> {
        if plan.own.is_some() {
            return Cow::Borrowed(trial);
        }
        Cow::Owned(trial.standard(&self.machine))
    }

    /// The kept choice between plans.
    pub(super) fn chosen(&self, trial: &Trial, plans: &[Plan]) -> Option<usize> {
        let (store, machine) = self.kept.as_ref()?;
        match store.get(store::choice_key(machine, trial, plans)?)? {
            Kept::Chosen(at) => Some(at as usize).filter(|at| *at < plans.len()),
            _ => None,
        }
    }

    /// Keeps the choice between plans.
    pub(super) fn keep_choice(&self, trial: &Trial, plans: &[Plan], at: usize) {
        let Some((store, machine)) = &self.kept else { return };
        let key = store::choice_key(machine, trial, plans);
        if let (Some(key), Ok(at)) = (key, u32::try_from(at)) {
            store.put(key, Kept::Chosen(at));
        }
    }

    /// The time of a plan and what bounds it; `None` if it cannot run.
    pub(super) fn row(&self, trial: &Trial, plan: &Plan) -> Option<(Time, Bound)> {
        let trial = &*self.standard(trial, plan);
        let kept = self
            .kept
            .as_ref()
            .and_then(|(store, machine)| Some((store, store::row_key(machine, trial, plan)?)));
        if let Some(Kept::Row(time, bound)) = kept.and_then(|(store, key)| store.get(key)) {
            return Some((time, bound));
        }
        let settings = store::settings(plan);
        if let Some(row) = self.rows().get(trial).and_then(|plans| plans.get(&settings)) {
            return Some(*row);
        }
        let (timing, bound) = observe(&self.machine, trial, plan).ok()?;
        self.rows().entry(trial.clone()).or_default().insert(settings, (timing.time, bound));
        if let Some((store, key)) = kept {
            store.put(key, Kept::Row(timing.time, bound));
        }
        Some((timing.time, bound))
    }

    /// The exact time of a plan, with its row if it is not known yet.
    fn time_of_row(&self, trial: &Trial, plan: &Plan) -> Known {
        let (trial, settings) = (&*self.standard(trial, plan), store::settings(plan));
        let is_known = self.known().get(trial).is_some_and(|plans| plans.contains_key(&settings));
        if is_known || self.kept_time(trial, plan).is_some() {
            return self.time(trial, plan, &Limit::none());
        }
        let Ok((timing, bound)) = observe(&self.machine, trial, plan) else {
            return self.time(trial, plan, &Limit::none());
        };
        self.simulated.fetch_add(1, Ordering::Relaxed);
        self.known()
            .entry(trial.clone())
            .or_default()
            .insert(settings.clone(), Known::Exact(timing));
        self.rows().entry(trial.clone()).or_default().insert(settings, (timing.time, bound));
        if let Some((store, machine)) = &self.kept {
            if let Some(key) = store::key(machine, trial, plan) {
                store.put(key, Kept::Exact(timing));
            }
            if let Some(key) = store::row_key(machine, trial, plan) {
                store.put(key, Kept::Row(timing.time, bound));
            }
        }
        Known::Exact(timing)
    }

    /// The time that an earlier process has kept.
    fn kept_time(&self, trial: &Trial, plan: &Plan) -> Option<Known> {
        let (store, machine) = self.kept.as_ref()?;
        Known::of(store.get(store::key(machine, trial, plan)?)?)
    }

    fn rows(&self) -> MutexGuard<'_, ByPlan<(Time, Bound)>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a plan takes longer than `limit` for certain, and nothing has to be simulated (LST-1).
    pub(super) fn is_beyond(&self, trial: &Trial, plan: &Plan, limit: Time) -> bool {
        limit != Time::MAX && least(&self.machine, trial, plan) > limit
    }

    /// The time of a plan if it is not longer than `limit`.
    pub(super) fn time(&self, trial: &Trial, plan: &Plan, limit: &Limit) -> Known {
        self.time_below(trial, plan, limit, Time::MAX)
    }

    /// The time of a plan if it is neither longer than `limit` nor than `most`.
    pub(super) fn time_below(
        &self,
        trial: &Trial,
        plan: &Plan,
        limit: &Limit,
        most: Time,
    ) -> Known {
        let trial = &*self.standard(trial, plan);
        let least = || limit.get().min(most);
        let settings = store::settings(plan);
        let known = self.known().get(trial).and_then(|plans| plans.get(&settings).copied());
        let now = least();
        if let Some(known) = known.filter(|known| known.answers(now)) {
            return known.within(now);
        }
        if self.is_beyond(trial, plan, now) {
            return Known::Longer(now);
        }
        let kept = self
            .kept
            .as_ref()
            .and_then(|(store, machine)| Some((store, store::key(machine, trial, plan)?)));
        let before = kept.and_then(|(store, key)| Known::of(store.get(key)?));
        let known = before.filter(|known| known.answers(now)).unwrap_or_else(|| {
            let known = self.simulate(trial, plan, least);
            if let (Some((store, key)), Some(time)) = (kept, known.to_keep())
                && !self.interrupt.was_wanted()
            {
                store.put(key, time);
            }
            known
        });
        self.known().entry(trial.clone()).or_default().insert(settings, known);
        known.within(least())
    }

    fn simulate(&self, trial: &Trial, plan: &Plan, limit: impl Fn() -> Time + Sync) -> Known {
        // No time is known, and none is less than this.
        if self.interrupt.is_wanted() {
            return Known::Longer(Time::ZERO);
        }
        self.simulated.fetch_add(1, Ordering::Relaxed);
        let limit = || if self.interrupt.is_wanted() { Time::ZERO } else { limit() };
        let shards = || self.shards(plan);
        match measure_on(&self.machine, trial, plan, limit, shards) {
            Ok(Outcome::Ended(timing)) => Known::Exact(timing),
            Ok(Outcome::Longer(least)) => Known::Longer(least),
            Err(_) => Known::Unfit,
        }
    }

    /// The threads that share one trial: all of them for the last of a search, if their cores are idle.
    fn shards(&self, plan: &Plan) -> usize {
        let is_last = self.open.load(Ordering::Relaxed) <= 1;
        if self.threads < 2 || !is_last || plan.own.is_some() {
            return 1;
        }
        shards::that_pay(self.machine.devices(), shards::idle_cores()).min(self.threads)
    }

    fn known(&self) -> MutexGuard<'_, ByPlan<Known>> {
        // Every insertion is whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// True if nothing is left to find out up to `limit`.
    fn answers(self, limit: Time) -> bool {
        match self {
            Self::Exact(_) | Self::Unfit => true,
            Self::Longer(least) => least >= limit,
        }
    }

    /// The time that was kept.
    fn of(kept: Kept) -> Option<Self> {
        match kept {
            Kept::Exact(timing) => Some(Self::Exact(timing)),
            Kept::Longer(least) => Some(Self::Longer(least)),
            Kept::Chosen(_) | Kept::Row(..) => None,
        }
    }

    /// The time to keep for later processes. A plan that cannot run says so quickly.
    fn to_keep(self) -> Option<Kept> {
        match self {
            Self::Exact(timing) => Some(Kept::Exact(timing)),
            Self::Longer(least) => Some(Kept::Longer(least)),
            Self::Unfit => None,
        }
    }
}
