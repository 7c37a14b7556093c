//! The calls that a set of figures needs, each once.
//!
//! Every call has a key: what its time depends on. The start of a plan only moves the whole call to a later time, so that it is left out of
//! the key and added afterwards; of the library's figures, a key has those of the call's own plan. So a change of one protocol's
//! figures simulates the calls of that protocol alone, and a change of a start simulates nothing.

use super::super::compare::{Bench, Call, Simulated};
use super::super::table::{Point, Size, Subject, Table};
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::ccl::Plan;
use std::collections::BTreeMap;

/// Points above half as much again as this many bytes may be extrapolated from a call of this size and one of half of it.
const LARGE: u64 = 32 << 20;

/// The two smaller points that can stand in for a point.
pub(super) fn stand_in(point: &Point) -> Option<[Point; 2]> {
    let Size::Bytes(bytes) = point.size else { return None };
    let of = |bytes| Point { size: Size::Bytes(bytes), ..*point };
    (bytes > LARGE / 2 * 3).then(|| [of(LARGE / 2), of(LARGE)])
}

/// Calls to simulate on a machine, each once, and the place of every point among them.
pub(super) struct Batch<'a> {
    pub(super) bench: &'a Bench,
    /// The calls by their keys.
    pub(super) calls: BTreeMap<String, Wanted<'a>>,
    pub(super) places: Vec<PointTime>,
    /// The beginnings of every key: the machine without its library, and with it.
    bare: String,
    whole: String,
}

/// A call.
pub(super) struct Wanted<'a> {
    table: &'a Table,
    point: Point,
    plan: Option<Plan>,
}

impl Wanted<'_> {
    pub(super) fn call<'c>(&'c self, bench: &'c Bench) -> Call<'c> {
        Call { bench, table: self.table, point: &self.point, plan: self.plan.as_ref() }
    }
}

/// The time of a point: that of one call, or of the fastest of several plans.
pub(super) enum PointTime {
    Call(String),
    Fastest(Vec<Timing>),
}

/// The time of a plan: of its own call, or of a line through two smaller ones; and the plan itself.
pub(super) struct Timing {
    plan: Plan,
    bytes: u64,
    small: Option<String>,
    large: String,
}

impl<'a> Batch<'a> {
    pub(super) fn new(bench: &'a Bench) -> Self {
        let sources = Vec::new();
        let machine = MachineSpec { sources, ..bench.machine.clone() };
        let whole = format!("{machine:?}");
        let bare = format!("{:?}", MachineSpec { collectives: None, ..machine });
        Self { bench, calls: BTreeMap::new(), places: Vec::new(), bare, whole }
    }

    /// Adds a point, by the library's choice, or by the plan of this name if the machine has it.
    pub(super) fn add(&mut self, table: &'a Table, point: Point, named: Option<&str>, line: bool) {
        let (Subject::Collective(operation), Size::Bytes(bytes)) = (table.subject, point.size)
        else {
            let key = self.want(table, point, None);
            return self.places.push(PointTime::Call(key));
        };
        let sweep = self.bench.sweep(operation, table);
        let mut plans = sweep.library_plans(bytes);
        if let Some(plan) = named.and_then(|name| sweep.plan_named(bytes, name)) {
            plans = vec![plan];
        }
        if plans.is_empty() || table.ranks > self.bench.machine.devices() {
            let key = self.want(table, point, None);
            return self.places.push(PointTime::Call(key));
        }
        let smaller = stand_in(&point).filter(|_| line);
        let timing = |plan: Plan| {
            let (small, large) = match smaller {
                Some([small, large]) => (Some(self.want(table, small, Some(&plan))), large),
                None => (None, point),
            };
            Timing { bytes, small, large: self.want(table, large, Some(&plan)), plan }
        };
        let timings = plans.into_iter().map(timing).collect();
        self.places.push(PointTime::Fastest(timings));
    }

    /// The key of a call that is wanted.
    fn want(&mut self, table: &'a Table, point: Point, plan: Option<&Plan>) -> String {
        let plan = plan.map(|plan| Plan { start: Time::ZERO, ..plan.clone() });
        let machine = match (&plan, table.subject) {
            (None, Subject::Collective(_)) => &self.whole,
            _ => &self.bare,
        };
        let Table { subject, ranks, dtype, includes_launch, .. } = table;
        let what = plan.as_ref().map(|plan| {
            let Plan { module, edge, channels, in_loops, .. } = plan;
            (module, edge, channels, in_loops)
        });
        let key = format!(
            "{subject:?} {ranks} {dtype:?} {includes_launch} {:?} {what:?} {machine}",
            point.size
        );
        self.calls.entry(key.clone()).or_insert(Wanted { table, point, plan });
        key
    }
}

impl PointTime {
    /// The simulated call.
    pub(super) fn time(&self, known: &BTreeMap<String, Simulated>) -> Simulated {
        match self {
            Self::Call(key) => known[key].clone(),
            Self::Fastest(timings) => {
                let all = timings.iter().map(|timing| (timing.time(known), timing));
                let (time, timing) =
                    all.min_by_key(|(time, _)| *time).expect("FIT-1: a point has a plan");
                Simulated { time, plan: Some(timing.plan.clone()) }
            }
        }
    }
}

impl Timing {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time is compared, not added up"
    )]
    fn time(&self, known: &BTreeMap<String, Simulated>) -> Time {
        let large = known[&self.large].time;
        let Some(small) = &self.small else { return large + self.plan.start };
        let more = large.as_ps().saturating_sub(known[small].time.as_ps()) as f64;
        let beyond = more * (self.bytes as f64 - LARGE as f64) / (LARGE as f64 / 2.0);
        Time::ps(large.as_ps() + beyond.round().max(0.0) as u64) + self.plan.start
    }
}
