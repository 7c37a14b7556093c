//! The simulated times of measured calls, and their errors.

use super::table::{Point, Size, Subject, Table};
use crate::{Workload, WorkloadError, find};
use phalanx_sim::machine::Options;
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::ccl::sweep::{Sweep, Timed};
use phalanx_torch::ccl::{CclConfig, Operation, Plan, ReduceOp, Tuner};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The machine that is compared with measurements, and its library of collectives.
#[derive(Clone)]
pub struct Bench {
    /// The machine.
    pub machine: MachineSpec,
    /// The configuration of collectives.
    pub ccl: CclConfig,
}

impl Bench {
    /// Makes a bench of a machine with the built-in configuration of collectives.
    pub fn new(machine: MachineSpec) -> Self {
        Self { machine, ccl: CclConfig::builtin() }
    }

    /// The number of devices.
    fn devices(&self) -> u32 {
        self.machine.devices()
    }

    /// The measurements of a table's operation.
    pub(super) fn sweep(&self, operation: Operation, table: &Table) -> Sweep {
        Sweep {
            machine: self.machine.clone(),
            options: Options { data: false, ..Options::default() },
            ccl: self.ccl.clone(),
            operation,
            combine: ReduceOp::Sum,
            dtype: table.dtype,
            ranks: Some(table.ranks),
        }
    }
}

/// A simulated call.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Its time.
    pub time: Time,
    /// The plan of a collective.
    pub plan: Option<Plan>,
}

impl Simulated {
    /// Returns the time in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "a time is compared, not added up")]
    pub fn us(&self) -> f64 {
        self.time.as_ps() as f64 / 1e6
    }

    /// Returns the name of the algorithm; none for a matrix product.
    pub fn algorithm(&self) -> Option<&str> {
        let name = self.plan.as_ref()?.name.as_str();
        Some(name.split_once('/').map_or(name, |(algorithm, _)| algorithm))
    }

    /// Returns the name of the protocol, if the library has several: the text after a `/` in the name of the plan.
    pub fn protocol(&self) -> Option<&str> {
        self.plan.as_ref()?.name.split_once('/').map(|(_, protocol)| protocol)
    }
}

/// A measurement and its simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedPoint {
    /// The measurement.
    pub point: Point,
    /// The simulation.
    pub simulated: Simulated,
    /// Simulated by measured time, less one.
    pub error: f64,
}

/// A table and its simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The table.
    pub table: Table,
    /// Its points, in the order of the table.
    pub points: Vec<ComparedPoint>,
}

impl Compared {
    /// Returns the errors in few numbers.
    pub fn summary(&self) -> Summary {
        summary(self.points.iter().map(|point| point.error))
    }
}

/// Errors in few numbers, as fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// The number of points.
    pub points: usize,
    /// The mean of the errors without their signs.
    pub mean: f64,
    /// The largest error without its sign.
    pub worst: f64,
    /// The part of the points whose error is at most 10 %.
    pub within_10: f64,
    /// The part of the points whose error is at most 20 %.
    pub within_20: f64,
}

/// Returns the errors in few numbers.
#[expect(clippy::cast_precision_loss, reason = "few points")]
pub fn summary(errors: impl IntoIterator<Item = f64>) -> Summary {
    let sizes: Vec<f64> = errors.into_iter().map(f64::abs).collect();
    if sizes.is_empty() {
        return Summary::default();
    }
    let points = sizes.len() as f64;
    let within = |most: f64| sizes.iter().filter(|size| **size <= most).count() as f64 / points;
    Summary {
        points: sizes.len(),
        mean: sizes.iter().sum::<f64>() / points,
        worst: sizes.iter().copied().fold(0.0, f64::max),
        within_10: within(0.1),
        within_20: within(0.2),
    }
}

/// A row that cannot be simulated.
#[derive(Clone, Debug)]
pub struct PointError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The row, in words.
    pub row: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for PointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.row, self.reason)
    }
}

impl std::error::Error for PointError {}

/// One call to simulate: a row, on a machine, by the library's choice or by this plan.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) bench: &'a Bench,
    pub(super) table: &'a Table,
    pub(super) point: &'a Point,
    pub(super) plan: Option<&'a Plan>,
}

/// The tuner of a thread, for the machine it has simulated last: what it knows serves the next call.
#[derive(Default)]
pub(super) struct Memory<'a>(Option<(&'a Bench, Rc<Tuner>)>);

impl<'a> Memory<'a> {
    fn tuner(&mut self, bench: &'a Bench) -> Rc<Tuner> {
        match &self.0 {
            Some((known, tuner)) if std::ptr::eq(*known, bench) => tuner.clone(),
            _ => {
                let tuner = Rc::new(Tuner::new(bench.machine.clone()));
                self.0 = Some((bench, tuner.clone()));
                tuner
            }
        }
    }
}

impl<'a> Call<'a> {
    /// Simulates the call (TRU-2).
    pub(super) fn simulate(&self, memory: &mut Memory<'a>) -> Result<Simulated, PointError> {
        let result = match (self.table.subject, self.point.size) {
            (Subject::Collective(operation), Size::Bytes(bytes)) => {
                self.collective(operation, bytes, memory)
            }
            (_, Size::Gemm(sides)) => self.gemm(sides),
            (Subject::Gemm, Size::Bytes(_)) => Err("a matrix product has no size in bytes".into()),
        };
        result.map_err(|reason| self.failure(reason))
    }

    fn failure(&self, reason: String) -> PointError {
        let (file, line) = (self.table.file.clone(), self.point.line);
        let row = format!("{} of {}", self.table.heading(), self.point.size);
        PointError { file, line, row, reason }
    }

    fn collective(
        &self,
        operation: Operation,
        bytes: u64,
        memory: &mut Memory<'a>,
    ) -> Result<Simulated, String> {
        let (ranks, devices) = (self.table.ranks, self.bench.devices());
        if ranks > devices {
            let name = &self.bench.machine.name;
            return Err(format!("`{name}` has {devices} devices, and the row has {ranks} ranks"));
        }
        let sweep = self.bench.sweep(operation, self.table);
        let timed = sweep.time(bytes, self.plan, &memory.tuner(self.bench));
        let Timed { time, plan } = timed.map_err(|error| error.to_string())?;
        Ok(Simulated { time, plan: Some(plan) })
    }

    fn gemm(&self, sides: [u64; 3]) -> Result<Simulated, String> {
        let time = gemm_time(&self.bench.machine, sides, &self.table.dtype.to_string());
        let launch = self.bench.machine.launch;
        let launch = if self.table.includes_launch { launch } else { Time::ZERO };
        Ok(Simulated { time: time.map_err(|error| error.to_string())? + launch, plan: None })
    }
}

/// The time of a matrix product on one device, as `phalanx run gemm` has it.
fn gemm_time(machine: &MachineSpec, sides: [u64; 3], dtype: &str) -> Result<Time, WorkloadError> {
    let gemm: &Workload = find("gemm").expect("TRU-2: a workload of this crate");
    let [m, n, k] = sides.map(|side| side.to_string());
    let given = [("m", m.as_str()), ("n", &n), ("k", &k), ("dtype", dtype)];
    let settings = gemm.settings(machine, &given)?;
    let options = Options { data: false, critical_path: false, ..Options::default() };
    Ok(gemm.run(machine.clone(), options, &settings)?.report.simulated)
}

/// The progress of many calls: simulated ones and all.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Calls that were simulated.
    pub done: usize,
    /// All calls.
    pub all: usize,
}

/// Simulates every point of `tables`, by `threads` threads; `told` hears of the progress. The error is that of the first row that
/// cannot be simulated.
pub fn compare(
    bench: &Bench,
    tables: &[Table],
    threads: usize,
    told: &(dyn Fn(Done) + Sync),
) -> Result<Vec<Compared>, PointError> {
    let points =
        tables.iter().flat_map(|table| table.points.iter().map(move |point| (table, point)));
    let calls: Vec<Call<'_>> =
        points.map(|(table, point)| Call { bench, table, point, plan: None }).collect();
    let mut results = simulate_all(&calls, threads, told)?.into_iter();
    let mut of_point = |point: &Point| {
        let simulated = results.next().expect("TRU-3: one result a call");
        let error = simulated.us() / point.measured_us - 1.0;
        ComparedPoint { point: *point, simulated, error }
    };
    let mut of_table = |table: &Table| {
        let points = table.points.iter().map(&mut of_point).collect();
        Compared { table: table.clone(), points }
    };
    Ok(tables.iter().map(&mut of_table).collect())
}

/// Simulates all calls by `threads` threads, large ones first; results have the order of the calls (TRU-3).
pub(super) fn simulate_all(
    calls: &[Call<'_>],
    threads: usize,
    told: &(dyn Fn(Done) + Sync),
) -> Result<Vec<Simulated>, PointError> {
    let mut order: Vec<usize> = (0..calls.len()).collect();
    let extent = |at: &usize| calls[*at].point.size.extent();
    order.sort_by(|one, other| extent(other).total_cmp(&extent(one)).then(one.cmp(other)));
    let (next, done, failed) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let results: Vec<Mutex<Option<Result<Simulated, PointError>>>> =
        calls.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        let mut memory = Memory::default();
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            // After an error only rows before it can change the outcome.
            if at > failed.load(Ordering::Relaxed) {
                continue;
            }
            let result = calls[at].simulate(&mut memory);
            if result.is_err() {
                failed.fetch_min(at, Ordering::Relaxed);
            }
            *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            told(Done { done, all: calls.len() });
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, calls.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let results = results
        .into_iter()
        .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.collect()
}
