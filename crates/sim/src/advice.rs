//! Advice: changes that make a run faster, each found by simulating the run again.
//!
//! A report cannot simulate, but its owner can. A [`Study`] of a report proposes changes, of settings of the program and of
//! values of the machine, and asks the owner for a run with each:
//!
//! ```
//! use phalanx_sim::advice::{Number, Study};
//! use phalanx_sim::ipcq::EdgeSpec;
//! use phalanx_sim::machine::{Machine, Options, RunError};
//! use phalanx_sim::report::Report;
//! use phalanx_sim::topology::PeId;
//! use phalanx_sim::{DType, MachineSpec};
//!
//! /// Sends 64 messages of 16 KiB through a queue.
//! fn run(spec: MachineSpec, n_slots: u64) -> Result<Report, RunError> {
//!     let edge = EdgeSpec { n_slots: n_slots as u32, ..EdgeSpec::default() };
//!     let mut machine = Machine::new(spec, Options { data: false, critical_path: true, ..Options::default() });
//!     let (from, to) = (PeId::first(0), PeId::first(1));
//!     machine.launch(0, "send", &[from], move |tl| async move {
//!         let (queue, tile) = (tl.sender(to, edge)?, tl.zeros(DType::F32, 4096)?);
//!         for _ in 0..64 {
//!             tl.send(&queue, &tile).await;
//!         }
//!         Ok(())
//!     });
//!     machine.launch(1, "receive", &[to], move |tl| async move {
//!         let queue = tl.receiver(from, edge)?;
//!         for _ in 0..64 {
//!             drop(tl.recv(&queue, DType::F32, 4096).await?);
//!         }
//!         Ok(())
//!     });
//!     machine.run()
//! }
//!
//! let spec = MachineSpec::preset("bare")?;
//! let mut report = run(spec.clone(), 4)?;
//! let mut study = Study::new(&report);
//! study.number(&Number::count("n_slots", 4, 1..=64), |n_slots| run(spec.clone(), n_slots));
//! study.machine(&spec, |faster| run(faster, 4));
//! report.advice = Some(study.advice());
//!
//! let advice = report.advice.as_ref().unwrap();
//! assert_eq!(advice[0].to_string(), "n_slots 4 -> 9: 17.932 us -> 8.692 us (-51.5 %)");
//! assert!(advice[1].to_string().starts_with("system.sips.link.latency 500 ns -> 250 ns: "));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **ADV-1 (simulated).** Each piece of advice has the time of a run with its change, and that run is at least a fiftieth
//!   shorter than the run without.
//! - **ADV-2 (every kind).** Each kind of time has values of the machine that are tried if the run spent time of that kind.

mod machine;
mod number;

pub use number::Number;

use crate::report::{Report, figures};
use crate::spec::MachineSpec;
use crate::stall::Kind;
use crate::time::Time;
use std::fmt;

/// The gain of a piece of advice is at least one part in so many of the simulated time: 2 %.
pub const LEAST_GAIN: u64 = 50;
/// Most pieces of advice.
const MOST: usize = 4;
/// Most pieces of advice on settings.
const MOST_SETTINGS: usize = 2;

/// A change of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The owner of the value.
    pub target: Target,
    /// The name of the value; for a machine its path, as `--set` takes it.
    pub name: String,
    /// The value of the run.
    pub from: String,
    /// The value to try.
    pub to: String,
}

/// The owner of a changed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The program: its user can change it.
    Setting,
    /// The machine: a value that limits the run.
    Machine,
}

/// A change that makes a run faster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The change.
    pub change: Change,
    /// The kind of time on the critical path that the change shortens most.
    pub kind: Kind,
    /// The simulated time without the change.
    pub before: Time,
    /// The simulated time with the change.
    pub after: Time,
}

/// A search for advice: runs with changes, compared with the report of the run without.
pub struct Study<'a> {
    report: &'a Report,
    found: Vec<Advice>,
}

impl<'a> Study<'a> {
    /// Returns a study of the run of `report`. This run and those of the study keep their critical paths
    /// ([`Options::critical_path`](crate::machine::Options::critical_path)), which say what kind of time a change takes off.
    pub fn new(report: &'a Report) -> Self {
        Self { report, found: Vec::new() }
    }

    /// True if the run spent at least a hundredth of its critical path, or of all stall stacks, on `kind`.
    pub fn has(&self, kind: Kind) -> bool {
        let is_part =
            |part: Time, whole: u128| part > Time::ZERO && u128::from(part.as_ps()) * 100 >= whole;
        let whole = u128::from(self.report.simulated.as_ps());
        let stacks = self.report.stalls.iter().map(|stalls| stalls.stack.get(kind)).sum();
        is_part(self.report.critical_path.spent.get(kind), whole)
            || is_part(stacks, whole * self.report.stalls.len() as u128)
    }

    /// Tries values of the machine, each twice as fast, for the kinds of time that the run has.
    ///
    /// `run` simulates the same program on the machine it is given. A machine that it refuses is no advice.
    pub fn machine<E>(
        &mut self,
        machine: &MachineSpec,
        mut run: impl FnMut(MachineSpec) -> Result<Report, E>,
    ) {
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| self.has(*kind)).collect();
        for value in machine::values(machine).filter(|value| value.shortens(&kinds)) {
            let Some((from, to)) = value.twice_as_fast() else { continue };
            let Ok(faster) = machine.with(&format!("{}={to}", value.path)) else { continue };
            let change =
                Change { target: Target::Machine, name: value.path.into_owned(), from, to };
            self.compare(change, run(faster).ok());
        }
    }

    /// Tries other values of a number that the program's user sets, and keeps the best.
    ///
    /// `run` simulates the same program with the value it is given. A value that it refuses is no advice.
    pub fn number<E>(
        &mut self,
        number: &Number<'_>,
        mut run: impl FnMut(u64) -> Result<Report, E>,
    ) {
        let Some((value, report)) = number.best(self.report.simulated, |n| run(n).ok()) else {
            return;
        };
        let (name, from) = (number.name.to_owned(), number.show(number.value));
        let change = Change { target: Target::Setting, name, from, to: number.show(value) };
        self.compare(change, Some(report));
    }

    /// Tries a word in place of another one that the program's user sets.
    pub fn word<E>(&mut self, name: &str, [from, to]: [&str; 2], run: Result<Report, E>) {
        let [name, from, to] = [name, from, to].map(str::to_owned);
        self.compare(Change { target: Target::Setting, name, from, to }, run.ok());
    }

    /// Returns the advice: settings first, the larger gain first, at most four.
    pub fn advice(self) -> Vec<Advice> {
        let mut found = self.found;
        found.sort_by_key(|advice| (advice.change.target, advice.after));
        let settings = found.partition_point(|advice| advice.change.target == Target::Setting);
        found.drain(settings.min(MOST_SETTINGS)..settings);
        found.truncate(MOST);
        found
    }

    /// Keeps a change if its run is shorter by the least gain (ADV-1).
    fn compare(&mut self, change: Change, changed: Option<Report>) {
        let (before, Some(changed)) = (self.report.simulated, changed) else { return };
        let after = changed.simulated;
        if gains(before, after) {
            let kind = shortened(self.report, &changed);
            self.found.push(Advice { change, kind, before, after });
        }
    }
}

/// True if `after` is shorter than `before` by the least gain.
fn gains(before: Time, after: Time) -> bool {
    let saved = u128::from(before.saturating_sub(after).as_ps());
    saved > 0 && saved * u128::from(LEAST_GAIN) >= u128::from(before.as_ps())
}

/// Returns the kind of time on the critical path of `before` that `after` has most less of.
fn shortened(before: &Report, after: &Report) -> Kind {
    let spent = |report: &Report, kind| report.critical_path.spent.get(kind);
    let less = |kind: &Kind| spent(before, *kind).saturating_sub(spent(after, *kind));
    let [first, rest @ ..] = Kind::ALL;
    rest.into_iter().fold(first, |most, kind| if less(&kind) > less(&most) { kind } else { most })
}

impl Advice {
    /// Returns the simulated time that the change saves.
    pub fn saved(&self) -> Time {
        self.before.saturating_sub(self.after)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.name, self.from, self.to)
    }
}

/// Prints the change, both times and the gain: `n_slots 4 -> 9: 17.932 us -> 8.692 us (-51.5 %)`.
impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after, saved] = [self.before, self.after, self.saved()].map(Time::as_ps);
        let gain = figures::percent(saved, before);
        let [before, after] = [before, after].map(figures::time);
        write!(f, "{}: {before} -> {after} (-{gain})", self.change)
    }
}

impl Target {
    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::Machine => "machine",
        }
    }
}
