//! Fitting: the figures of a machine file that are marked `fitted` are changed until the simulation meets measurements.
//!
//! The sum of errors is that of `ln(simulated / measured)`, softened near zero, so that a point that is twice too slow weighs as much
//! as one that is twice too fast, and an outlier little more than others. Steps are those of Gauss and Newton, damped, in the logarithms
//! of the figures; derivatives are differences of simulations in which every call keeps its algorithm. If such a step
//! does not help, and for whole numbers, figures are moved one by one.
//!
//! - **FIT-1 (deterministic).** The same file and the same tables give the same figures, whatever the number of threads.
//! - **FIT-2 (marked figures only).** The written file differs from the given one in the values of figures marked `fitted`, and
//!   in nothing else.
//! - **FIT-3 (never worse).** The error of the written file on the used points is not larger than that of the given one.
//! - **FIT-4 (runs that differ count less).** The error of a point with several runs counts the less the more its shortest and its longest run
//!   differ: half as much at 3 % to either side.

mod batch;
mod model;
mod search;
mod unclear;

use super::compare::{Compared, ComparedPoint, Done, PointError};
use super::figures::{Value, fitted};
use super::table::Table;
use model::{Model, State};
use phalanx_sim::config::{ConfigErrors, parse_machine};
use phalanx_torch::ccl::CclConfig;
use std::cell::{Cell, RefCell};
pub use unclear::Unclear;

/// A fitted machine.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The machine file with the fitted figures.
    pub text: String,
    /// Every figure that is marked, with its values.
    pub changes: Vec<Change>,
    /// The used points before.
    pub before: Vec<Compared>,
    /// The used points after.
    pub after: Vec<Compared>,
    /// The figures that the points cannot tell apart.
    pub unclear: Vec<Unclear>,
    /// The number of points in the tables; more than the used ones if the tables were thinned.
    pub given: usize,
    /// The number of simulated calls.
    pub simulations: usize,
}

/// A figure before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path of the figure.
    pub figure: String,
    /// The value of the given file.
    pub before: String,
    /// The fitted value.
    pub after: String,
}

/// The reason why nothing can be fitted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FitError {
    /// The machine file is wrong.
    #[error(transparent)]
    Invalid(#[from] ConfigErrors),
    /// No figure is marked.
    #[error("no figure of `{0}` is marked `fitted` in its section `sources`")]
    NothingMarked(String),
    /// A marked figure is no number above zero.
    #[error("`{figure}` cannot be fitted: its value is `{value}`")]
    NoNumber {
        /// The path of the figure.
        figure: String,
        /// Its value.
        value: String,
    },
    /// A row cannot be simulated.
    #[error(transparent)]
    Point(#[from] PointError),
}

/// Points that are used at most.
const POINTS: usize = 90;

/// Fits the marked figures of the machine file `text` to `tables`, by `threads` threads; `told` hears of the progress.
///
/// # Errors
///
/// [`FitError`].
pub fn fit(
    (file, text): (&str, &str),
    ccl: &CclConfig,
    tables: &[Table],
    threads: usize,
    told: &(dyn Fn(Done) + Sync),
) -> Result<Fit, FitError> {
    let machine = parse_machine(file, text)?;
    let mut figures = Vec::new();
    for (figure, value) in fitted(&machine, text) {
        let Some(value) = value else {
            return Err(FitError::NoNumber { figure: figure.path, value: figure.value });
        };
        figures.push((figure, value));
    }
    if figures.is_empty() {
        return Err(FitError::NothingMarked(file.to_owned()));
    }
    let (used, given) = (thinned(tables), tables.iter().map(|table| table.points.len()).sum());
    let calls = Cell::new(0);
    let (stand_ins, (figures, tables)) = (Vec::new(), (figures.as_slice(), used.as_slice()));
    let known = RefCell::default();
    let mut model =
        Model { file, text, ccl, figures, tables, threads, told, calls, stand_ins, known };
    let values: Vec<Value> = figures.iter().map(|(_, value)| value.clone()).collect();
    let before = model.start(values)?;
    let (after, unclear) = search(&mut model, &before)?;
    let changes = figures.iter().zip(&after.values).map(|((figure, old), new)| Change {
        figure: figure.path.clone(),
        before: old.text(),
        after: new.text(),
    });
    Ok(Fit {
        text: model.text_of(&after.values),
        changes: changes.collect(),
        before: compared(&used, &before),
        after: compared(&used, &after),
        unclear,
        given,
        simulations: model.calls.get(),
    })
}

/// The best state, and the figures that the points cannot determine. Smaller calls stand in for large ones, but not in
/// the result (FIT-3).
fn search(model: &mut Model<'_>, before: &State) -> Result<(State, Vec<Unclear>), PointError> {
    model.stand_ins = model.replaceable(before);
    let found = search::run(model, model.start(before.values.clone())?);
    let unclear = unclear::find(model, &found);
    model.stand_ins.clear();
    model.known.borrow_mut().clear();
    let after = model.start(found.values)?;
    let is_better = after.objective < before.objective;
    Ok((if is_better { after } else { before.clone() }, unclear))
}

/// The tables with few enough points: of each table its first, its last, and points at equal distances between them.
fn thinned(tables: &[Table]) -> Vec<Table> {
    let all: usize = tables.iter().map(|table| table.points.len()).sum();
    if all <= POINTS {
        return tables.to_vec();
    }
    let thin = |table: &Table| {
        let points = table.points.len();
        let kept = (points * POINTS / all).max(3).min(points);
        let at = |number: usize| if kept < 2 { 0 } else { number * (points - 1) / (kept - 1) };
        let points = (0..kept).map(|number| table.points[at(number)]).collect();
        Table { points, ..table.clone() }
    };
    tables.iter().map(thin).collect()
}

fn compared(tables: &[Table], state: &State) -> Vec<Compared> {
    let mut simulated = state.simulated.iter();
    let mut of_table = |table: &Table| {
        let points = table.points.iter().zip(&mut simulated).map(|(point, simulated)| {
            let error = simulated.us() / point.measured_us - 1.0;
            ComparedPoint { point: *point, simulated: simulated.clone(), error }
        });
        Compared { points: points.collect(), table: table.clone() }
    };
    tables.iter().map(&mut of_table).collect()
}
