//! Advice for a workload: its knobs, the queues of its collectives and its machine, each changed and simulated again.
//!
//! - **TUNE-1 (as a user would).** Each piece of advice can be followed: a run with `-p`, with a line of `ccl.yaml` or with
//!   `--set` takes the simulated time that the advice has.
//! - **TUNE-2 (fits).** No advice asks for more slots than the receivers have memory for.

use super::parameters::ParameterKind;
use super::{Outcome, Parameter, Settings, Setup, Workload, WorkloadError};
use phalanx_sim::MachineSpec;
use phalanx_sim::advice::{Advice, Number, Study};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::machine::Options;
use phalanx_sim::report::{EdgeUsage, Report};
use phalanx_sim::stall::Kind;
use phalanx_torch::ccl::CclConfig;
use std::ops::RangeInclusive;

/// Most events of a run whose advice takes about as long as its user waits: some twenty runs.
pub const SHORT: u64 = 20_000;

/// The parameters that set a queue or a route, and the kinds of time that show their lack.
const QUEUES: [(&str, &[Kind]); 3] = [
    ("n_slots", &[Kind::Credit]),
    ("slot_size", &[Kind::Credit, Kind::Link]),
    ("chunk", &[Kind::Link]),
];

/// The word that lets the program choose.
const AUTO: &str = "auto";

impl Workload {
    /// Looks for changes that make the run of `outcome` faster, of parameters and of the machine, by simulating each without
    /// data. The run of `outcome` kept its critical path ([`Options::critical_path`]).
    ///
    /// ```
    /// use phalanx_sim::{MachineSpec, machine::Options};
    /// use phalanx_workloads::Setup;
    ///
    /// let bare = MachineSpec::preset("bare").unwrap();
    /// let queue = phalanx_workloads::find("queue").unwrap();
    /// let settings = queue.settings(&bare, &[("n_slots", "4")]).unwrap();
    /// let setup = Setup::new(bare, Options { critical_path: true, ..Options::default() });
    /// let outcome = queue.run_with(setup.clone(), &settings).unwrap();
    /// let advice = queue.advise(&setup, &settings, &outcome);
    /// assert_eq!(advice[0].to_string(), "n_slots 4 -> 9: 17.932 us -> 8.692 us (-51.5 %)");
    /// ```
    pub fn advise(&self, setup: &Setup, settings: &Settings, outcome: &Outcome) -> Vec<Advice> {
        let trial = Trial { workload: self, setup, settings };
        let mut study = Study::new(&outcome.report);
        for name in self.knobs {
            trial.knob(&mut study, name);
        }
        if outcome.ranks.is_some() {
            trial.collectives(&mut study, &outcome.report);
        }
        study.machine(&setup.machine, |machine| trial.on(machine));
        study.advice()
    }
}

/// A workload that is run again with changes.
struct Trial<'a> {
    workload: &'a Workload,
    setup: &'a Setup,
    settings: &'a Settings,
}

impl Trial<'_> {
    /// Runs the workload without data.
    fn run(
        &self,
        machine: MachineSpec,
        ccl: CclConfig,
        settings: &Settings,
    ) -> Result<Report, WorkloadError> {
        // Advice names the kind of time that a change takes off the critical path.
        let options = Options { data: false, critical_path: true, ..Options::default() };
        Ok(self.workload.run_with(Setup { machine, options, ccl }, settings)?.report)
    }

    /// Runs on another machine.
    fn on(&self, machine: MachineSpec) -> Result<Report, WorkloadError> {
        self.run(machine, self.setup.ccl.clone(), self.settings)
    }

    /// Runs with another value of a parameter.
    fn with(&self, name: &str, value: &str) -> Result<Report, WorkloadError> {
        let shown: Vec<(&str, String)> = self.settings.iter().collect();
        let changed = |(known, shown): &'_ (&'static str, String)| {
            (*known, if *known == name { value.to_owned() } else { shown.clone() })
        };
        let changed: Vec<(&str, String)> = shown.iter().map(changed).collect();
        let given: Vec<(&str, &str)> =
            changed.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let settings = self.workload.settings(&self.setup.machine, &given)?;
        self.run(self.setup.machine.clone(), self.setup.ccl.clone(), &settings)
    }

    /// Tries other values of a parameter.
    fn knob(&self, study: &mut Study<'_>, name: &str) {
        let queue = QUEUES.iter().find(|(known, _)| *known == name);
        let parameter = self.workload.parameters.iter().find(|parameter| parameter.name == name);
        let Some(parameter) = parameter else { return };
        if queue.is_some_and(|(_, kinds)| !kinds.iter().any(|kind| study.has(*kind))) {
            return;
        }
        match self.number(parameter) {
            Some(number) => study.number(&number, |value| self.with(name, &value.to_string())),
            None => self.word(study, name),
        }
    }

    fn number(&self, parameter: &Parameter) -> Option<Number<'static>> {
        let (name, value) = (parameter.name, self.settings.number(parameter.name)?);
        match parameter.kind {
            ParameterKind::Count { least, most } => Some(Number::count(name, value, least..=most)),
            ParameterKind::Bytes { most, .. } if name == "chunk" => {
                Some(Number::part(name, value, self.settings.count("bytes"), 1..=most))
            }
            ParameterKind::Bytes { least, most, .. } => {
                Some(Number::bytes(name, value, least..=most))
            }
            _ => None,
        }
    }

    fn word(&self, study: &mut Study<'_>, name: &str) {
        let word = self.settings.word(name);
        if word != AUTO {
            study.word(name, [word, AUTO], self.with(name, AUTO));
        }
    }

    /// Tries other queues between ranks: the `defaults` of `ccl.yaml`.
    fn collectives(&self, study: &mut Study<'_>, report: &Report) {
        let edge = self.setup.ccl.edge();
        let Some(largest) = report.edges.iter().map(|queue| queue.spec.slot_size).max() else {
            return;
        };
        let numbers = [
            Number::count("defaults.n_slots", edge.n_slots.into(), 1..=MOST_SLOTS),
            Number::bytes("defaults.slot_size", edge.slot_size, SIZES),
            Number::part("defaults.vc_chunk_size", edge.vc_chunk_size, largest, SIZES),
        ];
        for ((number, (_, kinds)), set) in numbers.iter().zip(QUEUES).zip(SETTERS) {
            if kinds.iter().any(|kind| study.has(*kind)) {
                study.number(number, |value| self.with_queues(set(edge, value)));
            }
        }
    }

    /// Runs with other queues between ranks; refuses queues that a collective had to make smaller (TUNE-2).
    fn with_queues(&self, edge: EdgeSpec) -> Result<Report, Unfit> {
        let ccl = self.setup.ccl.with_edge(edge);
        let run = self.run(self.setup.machine.clone(), ccl, self.settings);
        let report = run.map_err(|_| Unfit)?;
        let fits = |queue: &EdgeUsage| {
            queue.spec.n_slots >= edge.n_slots && queue.spec.slot_size >= edge.slot_size
        };
        if report.edges.iter().all(fits) { Ok(report) } else { Err(Unfit) }
    }
}

/// The error of queues that cannot be used.
struct Unfit;

/// Most slots that are tried.
const MOST_SLOTS: u64 = 1 << 10;
/// Sizes of slots and chunks that are tried.
const SIZES: RangeInclusive<u64> = 256..=1 << 30;

/// A function that changes one number of an edge.
type Setter = fn(EdgeSpec, u64) -> EdgeSpec;

/// The setters of the numbers in [`QUEUES`].
const SETTERS: [Setter; 3] = [
    |edge, value| EdgeSpec { n_slots: u32::try_from(value).unwrap_or(u32::MAX), ..edge },
    |edge, slot_size| EdgeSpec { slot_size, ..edge },
    |edge, vc_chunk_size| EdgeSpec { vc_chunk_size, ..edge },
];
