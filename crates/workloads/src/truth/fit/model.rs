//! The simulation as a function of the fitted figures.

use super::super::compare::Call;
use super::super::compare::{Bench, Done, PointError, Simulated, simulate_all};
use super::super::figures::{Value, is_fraction, replaced};
use super::super::table::{Point, Table};
use super::batch::{Batch, stand_in};
use phalanx_sim::config::{FigureText, parse_machine};
use phalanx_torch::ccl::CclConfig;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A machine file with figures to fit, and the points to fit them to.
pub(super) struct Model<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    pub(super) ccl: &'a CclConfig,
    pub(super) figures: &'a [(FigureText, Value)],
    pub(super) tables: &'a [Table],
    pub(super) threads: usize,
    pub(super) told: &'a (dyn Fn(Done) + Sync),
    /// The number of simulated calls.
    pub(super) calls: Cell<usize>,
    /// True for each point that smaller calls stand in for; empty if all points are simulated.
    pub(super) stand_ins: Vec<bool>,
    /// The simulated times: figures that a call does not depend on can change without another simulation.
    pub(super) known: RefCell<BTreeMap<String, Simulated>>,
}

/// Values of the figures, and the times simulated with them.
#[derive(Clone)]
pub(super) struct State {
    pub(super) values: Vec<Value>,
    pub(super) simulated: Vec<Simulated>,
    /// `ln(simulated / measured)` of every point, less where its runs differ (FIT-4).
    pub(super) residuals: Vec<f64>,
    pub(super) objective: f64,
}

/// Errors below this are nearly as good as none.
const SOFT: f64 = 0.03;

/// The softened size of an error.
fn softened(residual: f64) -> f64 {
    residual.hypot(SOFT) - SOFT
}

/// The part of a point's error that counts (FIT-4).
fn trust(point: &Point) -> f64 {
    SOFT / (SOFT + point.spread)
}

/// The weight of a squared error that makes it the softened one.
pub(super) fn weight(residual: f64) -> f64 {
    1.0 / residual.hypot(SOFT)
}

/// The most that an extrapolated time may differ from the simulated one.
const EXACT: f64 = 0.005;

impl Model<'_> {
    /// The state with these values, which are allowed; the error of a row that cannot be simulated.
    pub(super) fn start(&self, values: Vec<Value>) -> Result<State, PointError> {
        let bench = self.bench(&values).expect("FIT-2: the file was read before");
        let simulated = self.simulate(&bench, None)?;
        Ok(self.state(values, simulated))
    }

    /// The points of `state` that smaller calls can stand in for, as [`Self::stand_ins`] has them.
    pub(super) fn replaceable(&mut self, state: &State) -> Vec<bool> {
        self.stand_ins = self.points().map(|(_, point)| stand_in(point).is_some()).collect();
        let bench = self.bench(&state.values);
        let simulated = bench.and_then(|bench| self.simulate(&bench, Some(state)).ok());
        let Some(simulated) = simulated else { return Vec::new() };
        let close =
            |one: &Simulated, other: &Simulated| (one.us() / other.us() - 1.0).abs() < EXACT;
        let pairs = simulated.iter().zip(&state.simulated);
        pairs.map(|(one, other)| close(one, other)).collect()
    }

    /// The state with these values; none where they are not allowed, or a call cannot be simulated. With `fixed`, every call keeps the
    /// plan that it has there.
    pub(super) fn at(&self, values: Vec<Value>, fixed: Option<&State>) -> Option<State> {
        let bench = self.bench(&values)?;
        let simulated = self.simulate(&bench, fixed).ok()?;
        Some(self.state(values, simulated))
    }

    /// The machine file with these values.
    pub(super) fn text_of(&self, values: &[Value]) -> String {
        let figures = self.figures.iter().map(|(figure, _)| figure);
        replaced(self.text, &figures.zip(values).collect::<Vec<_>>())
    }

    /// The largest number that a figure may have.
    pub(super) fn most(&self, figure: usize) -> f64 {
        if is_fraction(&self.figures[figure].0.path) { 1.0 } else { f64::INFINITY }
    }

    fn bench(&self, values: &[Value]) -> Option<Bench> {
        let machine = parse_machine(self.file, &self.text_of(values)).ok()?;
        Some(Bench { machine, ccl: self.ccl.clone() })
    }

    fn points(&self) -> impl Iterator<Item = (&Table, &Point)> {
        self.tables.iter().flat_map(|table| table.points.iter().map(move |point| (table, point)))
    }

    fn simulate(&self, bench: &Bench, fixed: Option<&State>) -> Result<Vec<Simulated>, PointError> {
        let mut batch = Batch::new(bench);
        for (at, (table, point)) in self.points().enumerate() {
            let can_stand_in = self.stand_ins.get(at).copied().unwrap_or(false);
            let plan = fixed.and_then(|state| state.simulated[at].plan.as_ref());
            batch.add(table, *point, plan.map(|plan| plan.name.as_str()), can_stand_in);
        }
        self.run(&batch)?;
        let known = self.known.borrow();
        Ok(batch.places.iter().map(|place| place.time(&known)).collect())
    }

    /// Simulates the calls of a batch that are not known yet.
    fn run(&self, batch: &Batch<'_>) -> Result<(), PointError> {
        let new = |key: &&String| !self.known.borrow().contains_key(*key);
        let keys: Vec<&String> = batch.calls.keys().filter(new).collect();
        let wanted = keys.iter().map(|key| &batch.calls[*key]);
        let calls: Vec<Call<'_>> = wanted.map(|wanted| wanted.call(batch.bench)).collect();
        let (before, told) = (self.calls.get(), self.told);
        self.calls.set(before + calls.len());
        let simulated = simulate_all(&calls, self.threads, &|Done { done, all }| {
            told(Done { done: before + done, all: before + all });
        })?;
        self.known.borrow_mut().extend(keys.into_iter().cloned().zip(simulated));
        Ok(())
    }

    fn state(&self, values: Vec<Value>, simulated: Vec<Simulated>) -> State {
        let pairs = self.points().zip(&simulated);
        let residuals: Vec<f64> = pairs
            .map(|((_, point), simulated)| (simulated.us() / point.measured_us).ln() * trust(point))
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "few points")]
        let points = residuals.len().max(1) as f64;
        let objective = residuals.iter().map(|residual| softened(*residual)).sum::<f64>() / points;
        State { values, simulated, residuals, objective }
    }
}
