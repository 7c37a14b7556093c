//! The simulation as a function of the fitted figures.

use super::super::compare::{Bench, Call, Done, PointError, Simulated, simulate_all};
use super::super::figures::{Value, is_fraction, replaced};
use super::super::table::{Point, Table};
use phalanx_sim::config::{FigureText, parse_machine};
use phalanx_torch::ccl::{Algorithm, CclConfig, Plan};
use std::cell::Cell;

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
}

/// Values of the figures, and what is simulated with them.
#[derive(Clone)]
pub(super) struct State {
    pub(super) values: Vec<Value>,
    pub(super) simulated: Vec<Simulated>,
    /// `ln(simulated / measured)` of every point.
    pub(super) residuals: Vec<f64>,
    pub(super) objective: f64,
}

/// Errors below this are nearly as good as none.
const SOFT: f64 = 0.03;

/// The softened size of an error.
fn softened(residual: f64) -> f64 {
    residual.hypot(SOFT) - SOFT
}

/// The weight of a squared error that makes it the softened one.
pub(super) fn weight(residual: f64) -> f64 {
    1.0 / residual.hypot(SOFT)
}

impl Model<'_> {
    /// The state of the given file; the error of a row that cannot be simulated.
    pub(super) fn start(&self, values: Vec<Value>) -> Result<State, PointError> {
        let bench = self.bench(&values).expect("FIT-2: the file was read before");
        let simulated = self.simulate(&bench, None)?;
        Ok(self.state(values, simulated))
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
        let plans: Vec<Option<Plan>> = match fixed {
            Some(state) => state.simulated.iter().map(|known| same_plan(bench, known)).collect(),
            None => self.points().map(|_| None).collect(),
        };
        let calls: Vec<Call<'_>> = self
            .points()
            .zip(&plans)
            .map(|((table, point), plan)| Call { bench, table, point, plan: plan.as_ref() })
            .collect();
        let (before, told) = (self.calls.get(), self.told);
        self.calls.set(before + calls.len());
        simulate_all(&calls, self.threads, &|Done { done, all }| {
            told(Done { done: before + done, all: before + all });
        })
    }

    fn state(&self, values: Vec<Value>, simulated: Vec<Simulated>) -> State {
        let pairs = self.points().zip(&simulated);
        let residuals: Vec<f64> =
            pairs.map(|((_, point), simulated)| (simulated.us() / point.measured_us).ln()).collect();
        #[expect(clippy::cast_precision_loss, reason = "few points")]
        let points = residuals.len().max(1) as f64;
        let objective = residuals.iter().map(|residual| softened(*residual)).sum::<f64>() / points;
        State { values, simulated, residuals, objective }
    }
}

/// The plan of a simulated call, as it is on another machine.
fn same_plan(bench: &Bench, known: &Simulated) -> Option<Plan> {
    let name = &known.plan.as_ref()?.name;
    bench.ccl.plan(name, &Algorithm::names())
}
