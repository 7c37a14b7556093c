//! The tuner: chooses an algorithm by simulating the collective itself, without data, on a machine of its own.
//!
//! - **TUN-1 (the fastest).** The chosen plan is never slower than another plan that fits, if all ranks call the collective at
//!   the same instant: plans that may be the fastest are simulated with the layout, the size and the root of the call.
//! - **TUN-2 (same on all).** The choice depends on the machine, the plans and the [`Trial`] alone: ranks that call the same
//!   collective on tensors of the same layout make the same choice without communication.
//! - **TUN-3 (little work).** A plan is not simulated at the exact size if a smaller size shows that it is slower, and no
//!   simulation goes on after its plan has lost.
//!
//! A smaller size is the size itself with three significant bits, or, for large collectives, two sizes from which the time is
//! extrapolated. A time grows with the size, and large sizes cost no less for each byte; [`doubt`] is the margin for exceptions.

use super::config::Plan;
use super::trial::{Trial, measure_within};
use phalanx_sim::{MachineSpec, Time};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A chooser of plans for one machine, with a cache.
pub struct Tuner {
    machine: MachineSpec,
    known: RefCell<BTreeMap<Trial, BTreeMap<String, Known>>>,
    chosen: RefCell<BTreeMap<Trial, Vec<Choice>>>,
    simulated: Cell<usize>,
}

/// The choice between some plans.
struct Choice {
    plans: Vec<Plan>,
    fastest: Option<Plan>,
}

/// The known time of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The exact time.
    Exact(Time),
    /// The time is longer than this.
    Longer(Time),
    /// The plan cannot run.
    Unfit,
}

/// Largest collective whose plans are compared at nearly its own size, in bytes a rank.
const NEAR: usize = 4 << 20;

/// Largest size for an extrapolation, in bytes a rank.
const FAR: usize = 16 << 20;

/// The part of a time that an estimate may be wrong by.
fn doubt(time: Time) -> Time {
    Time::ps(time.as_ps() / 8)
}

/// A size with three significant bits that is not larger.
fn rounded(count: usize) -> usize {
    let spare = (usize::BITS - count.leading_zeros()).saturating_sub(3);
    count >> spare << spare
}

impl Tuner {
    /// A tuner for a machine.
    pub fn new(machine: MachineSpec) -> Self {
        let (known, chosen) = (RefCell::default(), RefCell::default());
        Self { machine, known, chosen, simulated: Cell::new(0) }
    }

    /// The fastest of `plans` for a trial, the first of equals; `None` if none fits.
    pub fn fastest(&self, trial: &Trial, plans: &[Plan]) -> Option<Plan> {
        if let Some(choices) = self.chosen.borrow().get(trial)
            && let Some(known) = choices.iter().find(|choice| choice.plans == plans)
        {
            return known.fastest.clone();
        }
        let fastest =
            self.exact(trial, plans, self.estimates(trial, plans)).map(|at| plans[at].clone());
        let choice = Choice { plans: plans.to_vec(), fastest: fastest.clone() };
        self.chosen.borrow_mut().entry(trial.clone()).or_default().push(choice);
        fastest
    }

    /// The number of simulated trials.
    pub fn simulated(&self) -> usize {
        self.simulated.get()
    }

    /// The plans that can run, by their position, each with a time that it takes at least, but for [`doubt`].
    fn estimates(&self, trial: &Trial, plans: &[Plan]) -> Vec<(Time, usize)> {
        if trial.bytes() <= NEAR {
            return self.near(&trial.resized(rounded), plans);
        }
        let last = (trial.bytes() / 4 + 1).next_power_of_two().min(2 * FAR) / 2;
        self.extrapolated(trial, last, plans)
    }

    /// The times of plans at a size near to the wanted one. Slow plans are not simulated to their end.
    fn near(&self, trial: &Trial, plans: &[Plan]) -> Vec<(Time, usize)> {
        let mut best = Time::MAX;
        let mut estimates = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            // Half more than the best leaves room for the distance to the wanted size, and for doubt.
            let limit = Time::ps(best.as_ps().saturating_add(best.as_ps() / 2));
            match self.known(trial, plan, limit) {
                Known::Exact(time) => {
                    best = best.min(time);
                    estimates.push((time, at));
                }
                Known::Longer(time) => estimates.push((time, at)),
                Known::Unfit => {}
            }
        }
        estimates
    }

    /// The times of plans, extrapolated from collectives of `last` bytes a rank and of half of that.
    fn extrapolated(&self, trial: &Trial, last: usize, plans: &[Plan]) -> Vec<(Time, usize)> {
        let bytes = trial.bytes();
        let at = |part: usize| {
            let count = |count: usize| (count as u128 * part as u128).div_ceil(bytes as u128);
            trial.resized(|old| usize::try_from(count(old)).unwrap_or(old))
        };
        let (half, whole) = (at(last / 2), at(last));
        let estimate = |plan: &Plan| {
            let Known::Exact(small) = self.known(&half, plan, Time::MAX) else { return None };
            let Known::Exact(large) = self.known(&whole, plan, Time::MAX) else { return None };
            let more = u128::from(large.as_ps().saturating_sub(small.as_ps()));
            let beyond = (bytes - last) as u128 * more / (last / 2) as u128;
            let time = u128::from(large.as_ps()).saturating_add(beyond);
            Some(Time::ps(u64::try_from(time).unwrap_or(u64::MAX)))
        };
        let estimates = plans.iter().enumerate();
        estimates.filter_map(|(at, plan)| Some((estimate(plan)?, at))).collect()
    }

    /// The position of the fastest plan.
    fn exact(
        &self,
        trial: &Trial,
        plans: &[Plan],
        mut estimates: Vec<(Time, usize)>,
    ) -> Option<usize> {
        estimates.sort_unstable();
        let mut best: Option<(Time, usize)> = None;
        for (estimate, at) in estimates {
            let limit = best.map_or(Time::MAX, |(time, _)| time);
            if estimate > limit && estimate - limit > doubt(limit) {
                break;
            }
            if let Known::Exact(time) = self.known(trial, &plans[at], limit) {
                best = Some(best.map_or((time, at), |best| best.min((time, at))));
            }
        }
        best.map(|(_, at)| at)
    }

    /// The time of a plan if it is not longer than `limit`.
    fn known(&self, trial: &Trial, plan: &Plan, limit: Time) -> Known {
        let settings = format!("{} {:?}", plan.module, plan.edge);
        let known = self.known.borrow().get(trial).and_then(|plans| plans.get(&settings).copied());
        match known {
            Some(known @ (Known::Exact(_) | Known::Unfit)) => return known,
            Some(Known::Longer(least)) if least >= limit => return Known::Longer(least),
            _ => {}
        }
        self.simulated.set(self.simulated.get() + 1);
        let known = match measure_within(&self.machine, trial, plan, limit) {
            Ok(Some(time)) => Known::Exact(time),
            Ok(None) => Known::Longer(limit),
            Err(_) => Known::Unfit,
        };
        self.known.borrow_mut().entry(trial.clone()).or_default().insert(settings, known);
        known
    }
}
