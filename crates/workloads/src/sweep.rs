//! Sweeps: one workload at many points, each a choice of machine, of its figures and of parameters.
//!
//! ```
//! use phalanx_workloads::sweep::{Axis, MachineText, Sweep};
//!
//! let ping = phalanx_workloads::find("ping").unwrap();
//! let mut sweep = Sweep::new(ping, vec![MachineText::preset("bare").unwrap()]);
//! sweep.axes.push(Axis::parse("bytes=16..64KiB:x2").unwrap());
//! let points = sweep.grid().unwrap();
//! let rows = sweep.run(&points, 2);
//! let times: Vec<String> = rows.iter().map(|row| row.time().unwrap().to_string()).collect();
//! assert_eq!(times, ["628 ns", "756 ns", "1012 ns"]);
//! ```
//!
//! - **SWE-1 (same rows).** A row depends on its point alone: rows are the same whatever runs them, in whatever order, on however
//!   many threads, shards or processes, and they are given in the order of the points.
//! - **SWE-2 (a failure is a row).** A point that cannot be run is a row with its error; other points are not affected.
//! - **SWE-3 (nothing twice).** A row that a journal has for the same content (machine, workload, parameters, configuration, program)
//!   is not run again, whatever ended the program before.
//! - **SWE-4 (each once).** Processes that share a journal's directory claim points one by one, so that no two run the same point.
//! - **SWE-5 (the last clears up).** A journal's directory stays until every process of the team has closed its journal. A process that
//!   starts late finds all rows and runs no point.

mod axis;
mod drawing;
mod journal;
mod point;
mod run;
mod team;

pub use axis::{Axis, AxisError};
pub use drawing::svg;
pub use journal::{Journal, JournalError};
pub use point::{MOST, Point, PointsError, read_points, sample};
pub use run::Row;
pub use team::{Share, ShareError, Team};

use crate::{Settings, Workload};
use phalanx_sim::MachineSpec;
use phalanx_sim::config::{self, ConfigErrors, Override};
use phalanx_torch::ccl::CclConfig;
use sha2::{Digest, Sha256};

/// The code that simulated times depend on, as a fingerprint: results that are kept between runs belong to it.
pub const CODE: &str = env!("PHALANX_CODE");

/// A machine file as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineText {
    /// The name of the machine or the file, for messages and points.
    pub file: String,
    /// The text of the file.
    pub text: String,
}

impl MachineText {
    /// Returns a machine that comes with the program.
    pub fn preset(name: &str) -> Option<Self> {
        let preset = config::preset(name)?;
        Some(Self { file: name.to_owned(), text: preset.text.to_owned() })
    }
}

/// One workload at many points.
#[derive(Clone)]
pub struct Sweep {
    /// The workload.
    pub workload: &'static Workload,
    /// The machines; points differ in the machine if there are several.
    pub machines: Vec<MachineText>,
    /// The figures of the machine and the parameters that points differ in, or that all have in common.
    pub axes: Vec<Axis>,
    /// True if numbers are computed and compared with the reference.
    pub data: bool,
    /// The configuration of collectives.
    pub ccl: CclConfig,
    /// The text of this configuration.
    pub ccl_text: String,
}

/// The reason why a point cannot be run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SetupError {
    /// The machine of the point is wrong.
    #[error("{}", messages(.0))]
    Machine(ConfigErrors),
    /// A parameter of the point is wrong.
    #[error("{}", .0.message)]
    Parameter(crate::ParameterError),
}

/// The messages of a machine's errors on one line.
fn messages(errors: &ConfigErrors) -> String {
    let each = errors.errors().iter().map(|error| error.message().to_owned());
    each.collect::<Vec<_>>().join("; ")
}

impl Sweep {
    /// Makes a sweep without axes, without data, with the built-in configuration of collectives.
    pub fn new(workload: &'static Workload, machines: Vec<MachineText>) -> Self {
        let (ccl, ccl_text) = (CclConfig::builtin(), String::new());
        Self { workload, machines, axes: Vec::new(), data: false, ccl, ccl_text }
    }

    /// Returns all combinations: the machines, then the values of each axis; the last axis changes fastest.
    pub fn grid(&self) -> Result<Vec<Point>, PointsError> {
        point::grid(self.machines.len(), &self.axes)
    }

    /// The machine and the parameters of a point.
    pub(crate) fn set_up(&self, point: &Point) -> Result<(MachineSpec, Settings), SetupError> {
        let source = &self.machines[point.machine];
        let mut overrides = Vec::new();
        for (name, value) in point.overrides() {
            let text = format!("{name}={value}");
            overrides.push(Override::parse(&text).map_err(SetupError::Machine)?);
        }
        let machine = config::parse_machine_with(&source.file, &source.text, &overrides)
            .map_err(SetupError::Machine)?;
        let given: Vec<(&str, &str)> = point.parameters().collect();
        let settings = self.workload.settings(&machine, &given).map_err(SetupError::Parameter)?;
        Ok((machine, settings))
    }

    /// Checks the axes before anything runs: an axis none of whose values can be set up, with the first values of the others, is
    /// a mistake.
    pub fn check(&self, points: &[Point]) -> Result<(), SetupError> {
        let Some(first) = points.first() else { return Ok(()) };
        let Err(error) = self.set_up(first) else { return Ok(()) };
        let differs_in_one = |point: &&Point| first.differences(point) == 1;
        let mut others = points.iter().filter(differs_in_one).take(CHECKED);
        if others.any(|point| self.set_up(point).is_ok()) { Ok(()) } else { Err(error) }
    }

    /// Returns the fingerprint of all content that a point's row depends on.
    pub fn key(&self, point: &Point) -> String {
        let machine = &self.machines[point.machine];
        let mut hash = Sha256::new();
        let data = if self.data { "data" } else { "" };
        let parts = [CODE, self.workload.name, &machine.text, &self.ccl_text, data];
        let settings = point.settings.iter().flat_map(|(name, value)| [name, value]);
        for part in parts.into_iter().chain(settings.map(String::as_str)) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let short = hash.finalize()[..16].iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
        format!("{short:032x}")
    }

    /// Returns the name of a point's machine, if there are several.
    pub fn machine_name(&self, point: &Point) -> Option<&str> {
        (self.machines.len() > 1).then(|| self.machines[point.machine].file.as_str())
    }
}

/// The most points that [`Sweep::check`] looks at.
const CHECKED: usize = 64;
