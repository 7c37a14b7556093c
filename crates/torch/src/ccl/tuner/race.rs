//! Trials of several plans, on several threads, and the times that are known.

use super::Known;
use crate::ccl::config::Plan;
use crate::ccl::store::{self, Kept, Store};
use crate::ccl::trial::{Trial, TrialError, measure_within};
use phalanx_sim::{MachineSpec, Time};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The number of threads for trials; 0 is one for each core.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Sets the number of threads on which tuners simulate. A program that runs simulations on all cores itself sets 1.
pub fn use_threads(threads: NonZero<usize>) {
    THREADS.store(threads.get(), Ordering::Relaxed);
}

/// The fewest SIPs of a machine whose trials take longer than the start of a thread.
const LARGE: u32 = 8;

/// The times of trials that one tuner knows.
pub(super) struct Trials {
    pub(super) machine: MachineSpec,
    known: Mutex<BTreeMap<Trial, BTreeMap<String, Known>>>,
    /// The kept times of the process, and the fingerprint of the machine in them.
    kept: Option<(Arc<Store>, Vec<u8>)>,
    simulated: AtomicUsize,
    pub(super) threads: usize,
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
        let (known, simulated) = (Mutex::default(), AtomicUsize::new(0));
        Self { machine, known, kept, simulated, threads }
    }

    pub(super) fn simulated(&self) -> usize {
        self.simulated.load(Ordering::Relaxed)
    }

    /// Times every plan. `time` gets a limit that only falls, and returns its result and a new limit, if it has found one: a result that
    /// is within the last limit does not depend on the order of the plans. Algorithms of a program run on this thread alone.
    pub(super) fn race<T: Send>(
        &self,
        plans: &[Plan],
        time: impl Fn(&Plan, Time) -> (T, Option<Time>) + Sync,
    ) -> Times<T> {
        let limit = AtomicU64::new(u64::MAX);
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<T>>> = Mutex::new(plans.iter().map(|_| None).collect());
        let one = |at: usize| {
            let (result, less) = time(&plans[at], Time::ps(limit.load(Ordering::Relaxed)));
            if let Some(less) = less {
                limit.fetch_min(less.as_ps(), Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
        };
        let own = plans.iter().any(|plan| plan.own.is_some());
        let threads = if own { 1 } else { self.threads.min(plans.len()) };
        let take = || {
            while let at = next.fetch_add(1, Ordering::Relaxed)
                && at < plans.len()
            {
                one(at);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // A thread that cannot be had leaves its work to the others.
                let _ = thread::Builder::new().spawn_scoped(scope, take);
            }
            take();
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let results = results.into_iter().map(|result| result.expect("TUN-3: every plan is timed"));
        Times { results: results.collect(), limit: Time::ps(limit.into_inner()) }
    }

    /// The time of a plan if it is not longer than `limit`.
    pub(super) fn time(&self, trial: &Trial, plan: &Plan, limit: Time) -> Known {
        let settings = store::settings(plan);
        let known = self.known().get(trial).and_then(|plans| plans.get(&settings).copied());
        if let Some(known) = known.filter(|known| known.answers(limit)) {
            return known.within(limit);
        }
        let kept = self
            .kept
            .as_ref()
            .and_then(|(store, machine)| Some((store, store::key(machine, trial, plan)?)));
        let before = kept.and_then(|(store, key)| store.get(key)).map(Known::from);
        let known = before.filter(|known| known.answers(limit)).unwrap_or_else(|| {
            let known = self.simulate(trial, plan, limit);
            if let (Some((store, key)), Some(time)) = (kept, known.to_keep()) {
                store.put(key, time);
            }
            known
        });
        self.known().entry(trial.clone()).or_default().insert(settings, known);
        known.within(limit)
    }

    fn simulate(&self, trial: &Trial, plan: &Plan, limit: Time) -> Known {
        self.simulated.fetch_add(1, Ordering::Relaxed);
        let measured: Result<Option<Time>, TrialError> =
            measure_within(&self.machine, trial, plan, limit);
        match measured {
            Ok(Some(time)) => Known::Exact(time),
            Ok(None) => Known::Longer(limit),
            Err(_) => Known::Unfit,
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Trial, BTreeMap<String, Known>>> {
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

    /// The time to keep for later processes. A plan that cannot run says so quickly.
    fn to_keep(self) -> Option<Kept> {
        match self {
            Self::Exact(time) => Some(Kept::Exact(time)),
            Self::Longer(least) => Some(Kept::Longer(least)),
            Self::Unfit => None,
        }
    }
}

impl From<Kept> for Known {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Exact(time) => Self::Exact(time),
            Kept::Longer(least) => Self::Longer(least),
        }
    }
}
