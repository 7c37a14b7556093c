//! The simulation as a function of the fitted figures.

use super::super::compare::{Bench, Call, Done, PointError, Simulated, simulate_all};
use super::super::figures::{Value, is_fraction, replaced};
use super::super::table::{Point, Size, Table};
use phalanx_sim::Time;
use phalanx_sim::config::{FigureText, parse_machine};
use phalanx_torch::ccl::CclConfig;
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
    /// For each point that smaller calls stand in for, the name of its plan; empty if all points are simulated.
    pub(super) stand_ins: Vec<Option<String>>,
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
    /// The state with these values, which are allowed; the error of a row that cannot be simulated.
    pub(super) fn start(&self, values: Vec<Value>) -> Result<State, PointError> {
        let bench = self.bench(&values).expect("FIT-2: the file was read before");
        let simulated = self.simulate(&bench, None)?;
        Ok(self.state(values, simulated))
    }

    /// The points of `state` that smaller calls can stand in for, as [`Self::stand_ins`] has them.
    pub(super) fn replaceable(&self, state: &State) -> Vec<Option<String>> {
        let name = |simulated: &Simulated| Some(simulated.plan.as_ref()?.name.clone());
        let names: Vec<Option<String>> = self
            .points()
            .zip(&state.simulated)
            .map(|((_, point), simulated)| stand_in(point).and_then(|_| name(simulated)))
            .collect();
        let trial = Self { stand_ins: names.clone(), calls: Cell::new(0), ..*self };
        let simulated =
            self.bench(&state.values).and_then(|bench| trial.simulate(&bench, None).ok());
        self.calls.set(self.calls.get() + trial.calls.get());
        let Some(simulated) = simulated else { return Vec::new() };
        let close =
            |one: &Simulated, other: &Simulated| (one.us() / other.us() - 1.0).abs() < EXACT;
        let pairs = simulated.iter().zip(&state.simulated);
        names
            .into_iter()
            .zip(pairs)
            .map(|(name, (one, other))| name.filter(|_| close(one, other)))
            .collect()
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
        let mut batch = Batch::default();
        for (at, (table, point)) in self.points().enumerate() {
            let stand_in = self.stand_ins.get(at).and_then(Option::as_deref).zip(stand_in(point));
            let plan = fixed.and_then(|state| state.simulated[at].plan.as_ref());
            match stand_in {
                Some((plan, [small, large])) => batch.add_stand_in(table, plan, small, large),
                None => batch.add(table, *point, plan.map(|plan| plan.name.as_str())),
            }
        }
        let calls: Vec<Call<'_>> = batch
            .calls
            .iter()
            .map(|(table, point, plan)| Call { bench, table, point, plan: *plan })
            .collect();
        let (before, told) = (self.calls.get(), self.told);
        self.calls.set(before + calls.len());
        let simulated = simulate_all(&calls, self.threads, &|Done { done, all }| {
            told(Done { done: before + done, all: before + all });
        })?;
        let points = self.points().map(|(_, point)| point.size.extent());
        Ok(batch
            .places
            .iter()
            .zip(points)
            .map(|(place, size)| place.time(&simulated, size))
            .collect())
    }

    fn state(&self, values: Vec<Value>, simulated: Vec<Simulated>) -> State {
        let pairs = self.points().zip(&simulated);
        let residuals: Vec<f64> = pairs
            .map(|((_, point), simulated)| (simulated.us() / point.measured_us).ln())
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "few points")]
        let points = residuals.len().max(1) as f64;
        let objective = residuals.iter().map(|residual| softened(*residual)).sum::<f64>() / points;
        State { values, simulated, residuals, objective }
    }
}

/// Points above half as much again as this many bytes may be extrapolated from a call of this size and one of half of it.
const LARGE: u64 = 32 << 20;
/// The most that an extrapolated time may differ from the simulated one.
const EXACT: f64 = 0.005;

/// The two smaller points that can stand in for a point.
fn stand_in(point: &Point) -> Option<[Point; 2]> {
    let Size::Bytes(bytes) = point.size else { return None };
    let of = |bytes| Point { size: Size::Bytes(bytes), ..*point };
    (bytes > LARGE / 2 * 3).then(|| [of(LARGE / 2), of(LARGE)])
}

/// Calls to simulate, each once, and the place of every point among them.
#[derive(Default)]
struct Batch<'a> {
    calls: Vec<(&'a Table, Point, Option<&'a str>)>,
    places: Vec<Place>,
}

/// The call of a point, or the two calls that stand in for it.
enum Place {
    Own(usize),
    StandIn { small: usize, large: usize },
}

impl<'a> Batch<'a> {
    fn add(&mut self, table: &'a Table, point: Point, plan: Option<&'a str>) {
        self.places.push(Place::Own(self.calls.len()));
        self.calls.push((table, point, plan));
    }

    fn add_stand_in(&mut self, table: &'a Table, plan: &'a str, small: Point, large: Point) {
        let mut find = |point: Point| {
            let same = |call: &(&Table, Point, Option<&str>)| {
                std::ptr::eq(call.0, table) && call.1.size == point.size && call.2 == Some(plan)
            };
            self.calls.iter().position(same).unwrap_or_else(|| {
                self.calls.push((table, point, Some(plan)));
                self.calls.len() - 1
            })
        };
        let (small, large) = (find(small), find(large));
        self.places.push(Place::StandIn { small, large });
    }
}

impl Place {
    /// The simulated call of a point of this many bytes: a line through two smaller ones, where they stand in.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time is compared, not added up"
    )]
    fn time(&self, simulated: &[Simulated], bytes: f64) -> Simulated {
        let (small, large) = match *self {
            Self::Own(at) => return simulated[at].clone(),
            Self::StandIn { small, large } => (&simulated[small], &simulated[large]),
        };
        let more = large.time.as_ps().saturating_sub(small.time.as_ps()) as f64;
        let beyond = more * (bytes - LARGE as f64) / (LARGE as f64 / 2.0);
        let time = Time::ps(large.time.as_ps() + beyond.round().max(0.0) as u64);
        Simulated { time, plan: large.plan.clone() }
    }
}
