//! The tuner: chooses an algorithm by simulating the collective itself, without data, on a machine of its own.
//!
//! - **TUN-1 (the fastest).** The chosen plan is never slower than another plan that fits, if all ranks call the collective at
//!   the same instant: plans that may be the fastest are simulated with the layout, the size and the root of the call.
//! - **TUN-2 (same on all).** The choice depends on the machine, the plans and the [`Trial`] alone: ranks that call the same
//!   collective on tensors of the same layout make the same choice without communication.
//! - **TUN-3 (little work).** A plan is not simulated at the exact size if a smaller size, which takes less work, shows that it is slower, and no
//!   simulation goes on after its plan has lost. No trial is simulated twice by one tuner, nor by the tuners of a process that
//!   [keeps](super::store::keep) times.
//! - **TUN-4 (no history).** A choice does not depend on what was chosen before, on kept times or on the number of threads.
//! - **TUN-5 (interrupts).** A search asks [`Options::interrupt`](phalanx_sim::machine::Options::interrupt) before it begins, after every window of a trial of its own thread, and while it waits for other threads. An
//!   interrupted search chooses no plan and keeps no choice; the next search chooses what it would have chosen without the interrupt.
//!
//! A smaller size is the size itself with three significant bits, or, for large collectives, two sizes from which the time is
//! extrapolated: the time itself, and the busy time of the busiest engine, wire or memory, which no run can beat. The tuner assumes that a
//! time grows with the size, that a byte of a larger collective costs no more, and that the next byte costs no less than the last one;
//! `doubt` is the margin for exceptions.

mod interrupt;
mod race;

pub use race::use_threads;

use super::config::{CclConfig, Plan};
use super::least::requests;
use super::sweep::Bound;
use super::trial::{Timing, Trial};
use interrupt::{Interrupt, Question};
use phalanx_sim::{MachineSpec, Time};
use race::{Limit, Trials};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZero;

/// A chooser of plans for one machine, with a cache.
pub struct Tuner {
    trials: Trials,
    chosen: RefCell<BTreeMap<Trial, Vec<Choice>>>,
}

/// The choice between some plans.
struct Choice {
    plans: Vec<Plan>,
    fastest: Option<Plan>,
}

/// The known time of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The exact times.
    Exact(Timing),
    /// The time is longer than this.
    Longer(Time),
    /// The plan cannot run.
    Unfit,
}

impl Known {
    /// The exact time, if it is known.
    fn exact(self) -> Option<Time> {
        match self {
            Self::Exact(timing) => Some(timing.time),
            Self::Longer(_) | Self::Unfit => None,
        }
    }

    /// The exact times, if they are known.
    fn timing(self) -> Option<Timing> {
        match self {
            Self::Exact(timing) => Some(timing),
            Self::Longer(_) | Self::Unfit => None,
        }
    }

    /// The finding of a simulation that ends at `limit`: the same whatever is known beyond the limit (TUN-4).
    fn within(self, limit: Time) -> Self {
        match self {
            Self::Exact(timing) if timing.time <= limit => self,
            Self::Exact(_) | Self::Longer(_) => Self::Longer(limit),
            Self::Unfit => self,
        }
    }
}

/// Largest collective whose plans are compared at nearly its own size, in bytes a rank.
const NEAR: usize = 4 << 20;

/// Largest size for an extrapolation, in bytes a rank.
const FAR: usize = 16 << 20;

/// The part of a time that an estimate may be wrong by.
fn doubt(time: Time) -> Time {
    Time::ps(time.as_ps() / 8)
}

/// True if an estimate is beyond the limit, and beyond doubt.
fn is_late(estimate: Time, limit: Time) -> bool {
    estimate > limit && estimate - limit > doubt(limit)
}

/// A size with three significant bits that is not larger.
fn rounded_down(count: usize) -> usize {
    let spare = (usize::BITS - count.leading_zeros()).saturating_sub(3);
    count >> spare << spare
}

/// A size with three significant bits that is not smaller.
fn rounded_up(count: usize) -> usize {
    let spare = (usize::BITS - count.leading_zeros()).saturating_sub(3);
    count.div_ceil(1 << spare) << spare
}

/// The bytes of the larger collective that times of this trial are extrapolated from; `None` for a trial of nearly its own size.
fn base(trial: &Trial) -> Option<usize> {
    let quarter = (trial.bytes() / 4 + 1).next_power_of_two() / 2;
    (trial.bytes() > NEAR).then_some(quarter.min(FAR))
}

/// A trial of about `bytes` a rank.
fn scaled(trial: &Trial, bytes: usize) -> Trial {
    let whole = trial.bytes() as u128;
    let count = |count: usize| (count as u128 * bytes as u128).div_ceil(whole);
    trial.resized(|old| usize::try_from(count(old)).unwrap_or(old))
}

/// A time for `bytes`, given the time for `each` bytes.
fn proportional(time: Time, bytes: usize, each: usize) -> Time {
    let all = u128::from(time.as_ps()).saturating_mul(bytes as u128) / each as u128;
    Time::ps(u64::try_from(all).unwrap_or(u64::MAX))
}

/// A line through two times: of `at - step` bytes and of `at` bytes, drawn on to `to` bytes.
struct Line {
    at: usize,
    step: usize,
    to: usize,
}

impl Line {
    /// The time at the end of the line through these times.
    fn beyond(&self, small: Time, large: Time) -> Time {
        let more = Time::ps(large.as_ps().saturating_sub(small.as_ps()));
        let more = proportional(more, self.to - self.at, self.step);
        Time::ps(large.as_ps().saturating_add(more.as_ps()))
    }

    /// The most that the larger time may be if the line ends below `limit`.
    fn most(&self, small: Time, limit: Time) -> Time {
        let (step, rest) = (self.step as u128, (self.to - self.at) as u128);
        let all = u128::from(limit.as_ps()) * step + u128::from(small.as_ps()) * rest;
        let most = u64::try_from(all / (step + rest) + 1).unwrap_or(u64::MAX);
        Time::ps(most).max(small)
    }
}

impl Tuner {
    /// Makes a tuner for a machine.
    pub fn new(machine: MachineSpec) -> Self {
        Self { trials: Trials::new(machine), chosen: RefCell::default() }
    }

    /// Sets the number of threads for its trials.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZero<usize>) -> Self {
        self.trials.threads = threads.get();
        self
    }

    /// The same tuner; its searches end when the answer is true.
    #[must_use]
    pub(crate) fn with_interrupt(mut self, question: Option<Question>) -> Self {
        self.trials.interrupt = Interrupt::new(question);
        self
    }

    /// True if the last search was interrupted: it has chosen no plan.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.trials.interrupt.was_wanted()
    }

    /// The same tuner for tables: a trial that is simulated to its end tells what bounds it, where that costs no other trial.
    #[must_use]
    pub(super) fn with_rows(mut self) -> Self {
        self.trials.keeps_rows = true;
        self
    }

    /// Chooses the plan of a trial without a named algorithm: the choice of the library (PRO-1), or the fastest that
    /// fits.
    pub fn choose(&self, ccl: &CclConfig, trial: &Trial) -> Option<Plan> {
        let machine = &self.trials.machine;
        let profile = ccl.profile(machine);
        if let Some(plan) = profile.as_ref().and_then(|profile| profile.choose(machine, trial)) {
            return Some(plan);
        }
        let own = profile.map_or_else(Vec::new, |profile| profile.plans(machine, trial));
        let all = || ccl.candidates(&ccl.names(), trial.bytes());
        let plans = if own.is_empty() { all() } else { own };
        let fits = |plan: &Plan| plan.check(trial.operation, machine, &trial.members).is_ok();
        self.fastest(trial, &plans.into_iter().filter(fits).collect::<Vec<_>>())
    }

    /// Returns the fastest of `plans` for a trial, the first of equals; `None` if none fits.
    pub fn fastest(&self, trial: &Trial, plans: &[Plan]) -> Option<Plan> {
        self.trials.interrupt.begin();
        if let Some(choices) = self.chosen.borrow().get(trial)
            && let Some(known) = choices.iter().find(|choice| choice.plans == plans)
        {
            return known.fastest.clone();
        }
        let at = self.trials.chosen(trial, plans).or_else(|| {
            if self.trials.interrupt.is_wanted() {
                return None;
            }
            let at = self.search(trial, plans).filter(|_| !self.was_interrupted())?;
            self.trials.keep_choice(trial, plans, at);
            Some(at)
        });
        if self.was_interrupted() {
            return None;
        }
        let fastest = at.map(|at| plans[at].clone());
        let choice = Choice { plans: plans.to_vec(), fastest: fastest.clone() };
        self.chosen.borrow_mut().entry(trial.clone()).or_default().push(choice);
        fastest
    }

    /// The time of a trial by `plan`, and what bounds it; `None` if the plan cannot run.
    pub(super) fn row(&self, trial: &Trial, plan: &Plan) -> Option<(Time, Bound)> {
        self.trials.row(trial, plan)
    }

    /// The position of the fastest of `plans`, the first of equals.
    fn search(&self, trial: &Trial, plans: &[Plan]) -> Option<usize> {
        if let Some(base) = base(trial) {
            return self.search_far(trial, base, plans);
        }
        let nearly = trial.resized(rounded_down);
        if nearly == *trial {
            return self.search_here(trial, plans);
        }
        let mut estimates = self.near(&nearly, plans);
        estimates.sort_unstable();
        let leader = self.leader(trial, plans, &estimates, None);
        leader.or_else(|| self.exact(trial, plans, &estimates))
    }

    /// The position of the fastest of `plans`, by trials of all that may be: each ends when its plan has lost.
    fn search_here(&self, trial: &Trial, plans: &[Plan]) -> Option<usize> {
        let trials = &self.trials;
        let times = trials.race((trial, Time::MAX), plans, |plan, limit| {
            let time = trials.time(trial, plan, limit).exact();
            (time, time)
        });
        let numbered = times.results.into_iter().enumerate();
        numbered.filter_map(|(at, time)| Some((time?, at))).min().map(|(_, at)| at)
    }

    /// The position of the fastest of `plans` for a large collective: first among those whose trials take little work, whose exact time
    /// limits the others.
    fn search_far(&self, trial: &Trial, base: usize, plans: &[Plan]) -> Option<usize> {
        let is_light = |at: &usize| self.trials.is_light(trial, &plans[*at]);
        let (light, others): (Vec<usize>, Vec<usize>) = (0..plans.len()).partition(is_light);
        let (mut estimates, _) = self.extrapolated(trial, base, (plans, &light), Time::MAX);
        estimates.sort_unstable();
        let best = self.best(trial, plans, &estimates, None);
        let start =
            best.map_or(Time::MAX, |(time, _)| Time::ps(time.as_ps() + doubt(time).as_ps()));
        // A smaller collective of as many messages takes as long to simulate: it is no way to save work.
        let is_steady = |at: &usize| best.is_some() && self.is_steady(trial, base, &plans[*at]);
        let (steady, others): (Vec<usize>, Vec<usize>) = others.into_iter().partition(is_steady);
        let (mut estimates, limit) = self.extrapolated(trial, base, (plans, &others), start);
        let beyond = (estimates.len() < others.len()).then_some(limit);
        estimates.sort_unstable();
        let mut all: Vec<(Time, usize)> = best.into_iter().chain(estimates.clone()).collect();
        all.sort_unstable();
        if steady.is_empty()
            && let Some(at) = self.leader(trial, plans, &all, beyond)
        {
            return Some(at);
        }
        // Nothing estimates a steady plan: it is simulated, after those that may limit it.
        estimates.extend(steady.into_iter().map(|at| (Time::ZERO, at)));
        self.best(trial, plans, &estimates, best).map(|(_, at)| at)
    }

    /// True if a collective of `base` bytes a rank takes more than half of the messages of a trial.
    fn is_steady(&self, trial: &Trial, base: usize, plan: &Plan) -> bool {
        let machine = &self.trials.machine;
        let [whole, part] =
            [trial, &scaled(trial, base)].map(|trial| requests(machine, trial, plan));
        part > 0 && whole < part.saturating_mul(2)
    }

    /// Returns the number of simulated trials.
    pub fn simulated(&self) -> usize {
        self.trials.simulated()
    }

    /// A time that a plan takes at most, but for [`doubt`].
    fn most(&self, trial: &Trial, plan: &Plan) -> Option<Time> {
        let (larger, base) = match base(trial) {
            None => (trial.resized(rounded_up), None),
            Some(base) => {
                let larger = self.trials.even(scaled(trial, base), plan);
                let bytes = larger.bytes();
                (larger, Some(bytes))
            }
        };
        let time = self.trials.time(&larger, plan, &Limit::none()).exact()?;
        Some(base.map_or(time, |base| proportional(time, trial.bytes(), base)))
    }

    /// The times of plans at a size near to the wanted one. Slow plans are not simulated to their end.
    fn near(&self, trial: &Trial, plans: &[Plan]) -> Vec<(Time, usize)> {
        // Half more than the best leaves room for the distance to the wanted size, and for doubt.
        let room = |best: Time| Time::ps(best.as_ps().saturating_add(best.as_ps() / 2));
        let trials = &self.trials;
        let times = trials.race((trial, Time::MAX), plans, |plan, limit| {
            let known = trials.time(trial, plan, limit);
            (known, known.exact().map(room))
        });
        let limit = times.limit;
        let estimates = times.results.into_iter().enumerate().filter_map(|(at, known)| {
            let time = match known.within(limit) {
                Known::Exact(Timing { time, .. }) | Known::Longer(time) => time,
                Known::Unfit => return None,
            };
            Some((time, at))
        });
        estimates.collect()
    }

    /// The times of the plans at these positions, extrapolated from collectives of `base` bytes a rank and of half of that, and a limit, which falls
    /// from `start` on: a plan beyond it is left out, and is not simulated to the end once that is known. The last plans come first: those over
    /// more channels.
    fn extrapolated(
        &self,
        trial: &Trial,
        base: usize,
        (plans, positions): (&[Plan], &[usize]),
        start: Time,
    ) -> (Vec<(Time, usize)>, Time) {
        let chosen: Vec<Plan> = positions.iter().rev().map(|at| plans[*at].clone()).collect();
        let trials = &self.trials;
        let times = trials.race((trial, start), &chosen, |plan, limit| {
            let estimate = || {
                if trials.is_beyond(trial, plan, limit.get()) {
                    return None;
                }
                let even = |bytes| trials.even(scaled(trial, bytes), plan);
                let (half, whole) = (even(base / 2), even(base));
                let (at, to) = (whole.bytes(), trial.bytes());
                let line = Line { at, step: at.saturating_sub(half.bytes()).max(1), to };
                let small = trials.time(&half, plan, limit).timing()?;
                let most = line.most(small.time, limit.get());
                let large = trials.time_below(&whole, plan, limit, most).timing()?;
                let busiest = line.beyond(small.busiest, large.busiest);
                Some(line.beyond(small.time, large.time).max(busiest).max(small.time))
            };
            let estimate = estimate();
            let room = |time: Time| Time::ps(time.as_ps().saturating_add(2 * doubt(time).as_ps()));
            (estimate, estimate.map(room))
        });
        let limit = times.limit;
        let numbered = times.results.into_iter().zip(positions.iter().rev());
        let numbered = numbered.filter_map(|(time, at)| Some((time?, *at)));
        (numbered.filter(|(estimate, _)| *estimate <= limit).collect(), limit)
    }

    /// The position of the fastest plan: trials that take little work come first, and limit the others.
    fn exact(&self, trial: &Trial, plans: &[Plan], estimates: &[(Time, usize)]) -> Option<usize> {
        let is_light = |(_, at): &&(Time, usize)| self.trials.is_light(trial, &plans[*at]);
        let (light, others): (Vec<_>, Vec<_>) = estimates.iter().partition(is_light);
        let best = self.best(trial, plans, &light, None);
        self.best(trial, plans, &others, best).map(|(_, at)| at)
    }

    /// The least of `best` and the exact times of plans, one after the other; a plan is left out if its estimate is late.
    fn best(
        &self,
        trial: &Trial,
        plans: &[Plan],
        estimates: &[(Time, usize)],
        mut best: Option<(Time, usize)>,
    ) -> Option<(Time, usize)> {
        let limit = best.map_or(Time::MAX, |(time, _)| time);
        let some: Vec<Plan> = estimates.iter().map(|(_, at)| plans[*at].clone()).collect();
        let times = self
            .trials
            .in_turn(trial, &some, limit, |turn, limit| is_late(estimates[turn].0, limit));
        // In the order of the estimates, as if each were simulated after the ones before.
        for ((estimate, at), known) in estimates.iter().zip(times) {
            let limit = best.map_or(Time::MAX, |(time, _)| time);
            if let Some(time) = known.exact().filter(|_| !is_late(*estimate, limit)) {
                best = Some(best.map_or((time, *at), |best| best.min((time, *at))));
            }
        }
        best
    }

    /// The position of a plan that is the fastest by estimates alone, which are sorted; plans without an estimate are `beyond` this.
    fn leader(
        &self,
        trial: &Trial,
        plans: &[Plan],
        estimates: &[(Time, usize)],
        beyond: Option<Time>,
    ) -> Option<usize> {
        let (least, first) = *estimates.first()?;
        let second = estimates.get(1).map(|(second, _)| *second).or(beyond);
        let Some(second) = second else { return Some(first) };
        let is_slower = |than: Time| second > than && second - than > doubt(than);
        // Without a clear distance a trial of the exact size is needed anyway.
        if !is_slower(least) {
            return None;
        }
        self.most(trial, &plans[first]).filter(|most| is_slower(*most)).map(|_| first)
    }
}
