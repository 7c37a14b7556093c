//! `ccl.yaml`: the algorithms of collectives, and the queues between ranks.
//!
//! - **CCF-1 (closed).** A file is accepted only if every key is known, given once, of the right type, unit and range,
//!   and every algorithm and module it names exists.
//! - **CCF-2 (all at once).** All errors are reported together, in the order of the text, each with file, line, column, the
//!   line itself and the allowed values. Text that is no YAML is the exception: its first error hides the rest.
//! - **CCF-3 (layers).** An algorithm's settings override the defaults of the file, and these override the built-in ones, at
//!   any position in the file. A setting that is left out changes nothing.
//! - **CCF-4 (bounded).** No text makes the reader panic, hang or take much memory. Accepted queues can be opened, and
//!   accepted sizes do not overflow.
//! - **CCF-5 (placed).** An algorithm that does not fit the machine is reported at its place in the file.

use super::algorithm::{Algorithm, CollectiveAlgorithm, OwnAlgorithm};
use super::channels::Channels;
use phalanx_sim::config::ConfigErrors;
use phalanx_sim::config::reader::{Finding, Location};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::spec::ProfileName;
use phalanx_sim::{MachineSpec, Time};

use std::sync::Arc;

mod locate;
mod read;

pub use locate::{ENVIRONMENT, FILE, Source, locate};
pub use phalanx_sim::spec::TopologyKind;

use super::profile::Profile;

/// The word for the fastest algorithm that fits, or for the choice of the machine's library.
const AUTO: &str = "auto";

/// The contents of a `ccl.yaml`. The names of built-in algorithms come from the caller.
#[derive(Clone, Debug)]
pub struct CclConfig {
    text: Option<Text>,
    profile: ProfileChoice,
    choice: Choice,
    /// The place of this choice in the file.
    chosen: Option<Location>,
    edge: EdgeSpec,
    channels: Option<Channels>,
    entries: Vec<Entry>,
    /// The algorithms of the program.
    own: Vec<OwnAlgorithm>,
}

/// The text of the file, for error messages.
#[derive(Clone, Debug)]
struct Text {
    file: String,
    text: String,
}

/// An entry of `algorithms`.
#[derive(Clone, Debug)]
struct Entry {
    plan: Plan,
    location: Location,
    /// The keys of the entry that the defaults have too.
    own: Vec<&'static str>,
}

/// The library profile that a file asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileChoice {
    /// That of the machine, if the machine has one.
    #[default]
    Machine,
    /// None: algorithms without protocols.
    Off,
    /// This one.
    Named(ProfileName),
}

/// A choice of algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The choice of the library, or the fastest that fits the machine and the size.
    Auto,
    /// The entry of the file with this name, or the built-in algorithm.
    Named(String),
}

/// An algorithm with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name of the entry, or of the built-in algorithm.
    pub name: String,
    /// The built-in algorithm that the entry configures.
    pub module: String,
    /// The queues between ranks.
    pub edge: EdgeSpec,
    /// The channels; `None` for those of the algorithm.
    pub channels: Option<Channels>,
    /// Time before the first byte moves, beyond the launch: the start-up of a protocol.
    pub start: Time,
    /// True if a ring takes as much of a segment at a time as its slots hold, and the rest in further loops, as libraries do.
    pub in_loops: bool,
    /// Elements per rank in benchmarks, unless set there.
    pub n_elem: Option<usize>,
    /// The topology of SIPs that it is meant for; `None` for any.
    pub topology: Option<TopologyKind>,
    /// The algorithm, if it is one of the program.
    pub own: Option<OwnAlgorithm>,
}

impl CclConfig {
    /// Returns the configuration without a file.
    pub fn builtin() -> Self {
        Self {
            text: None,
            profile: ProfileChoice::default(),
            choice: Choice::Auto,
            chosen: None,
            edge: EdgeSpec::default(),
            channels: None,
            entries: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Adds an algorithm of the program (OWN-1). A file that names it is read with [`Self::parse`] and its name among the others.
    #[must_use]
    pub fn with_algorithm(mut self, algorithm: impl CollectiveAlgorithm + 'static) -> Self {
        self.own.retain(|own| own.0.name() != algorithm.name());
        self.own.push(OwnAlgorithm(Arc::new(algorithm)));
        self
    }

    /// The same configuration with the algorithms of `other` as well.
    pub(crate) fn with_algorithms_of(mut self, other: &Self) -> Self {
        for own in &other.own {
            self.own.retain(|known| known.0.name() != own.0.name());
            self.own.push(own.clone());
        }
        self
    }

    /// Returns the names of all algorithms: the built-in ones, and those of the program.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Algorithm::names();
        let own = self.own.iter().map(|own| own.0.name());
        names.extend(own.filter(|name| Algorithm::find(name).is_none()));
        names
    }

    /// Reads a file. `file` is its name for messages; `builtin_names` are the built-in algorithms.
    pub fn parse(file: &str, text: &str, builtin_names: &[&str]) -> Result<Self, ConfigErrors> {
        let config = read::config(file, text, builtin_names)?;
        Ok(Self { text: Some(Text { file: file.to_owned(), text: text.to_owned() }), ..config })
    }

    /// Returns the default algorithm.
    pub fn default_choice(&self) -> Choice {
        self.choice.clone()
    }

    /// Returns the library profile of collectives on a machine, if the file or the machine names one.
    pub fn profile(&self, machine: &MachineSpec) -> Option<Profile> {
        match self.profile {
            ProfileChoice::Machine => Profile::of(machine, None),
            ProfileChoice::Off => None,
            ProfileChoice::Named(name) => Profile::of(machine, Some(name)),
        }
    }

    /// Returns the queues of an algorithm without settings.
    pub fn edge(&self) -> EdgeSpec {
        self.edge
    }

    /// Returns this configuration with other queues in the defaults: settings that an entry has itself stay (CCF-3).
    #[must_use]
    pub fn with_edge(&self, edge: EdgeSpec) -> Self {
        let mut changed = Self { edge, ..self.clone() };
        for entry in &mut changed.entries {
            entry.inherit(edge);
        }
        changed
    }

    /// Returns this configuration with so many channels for every algorithm.
    #[must_use]
    pub fn with_channels(&self, channels: Channels) -> Self {
        let mut changed = Self { channels: Some(channels), ..self.clone() };
        for entry in &mut changed.entries {
            entry.plan.channels = Some(channels);
        }
        changed
    }

    /// Returns the entry called `name`, or the built-in algorithm with the default settings. `NAME:N` and `NAME:all`
    /// are the same with so many channels.
    pub fn plan(&self, name: &str, builtin_names: &[&str]) -> Option<Plan> {
        if let Some((name, channels)) = name.split_once(':') {
            let channels = channels.parse().ok()?;
            return self.plan(name, builtin_names).map(|plan| plan.over(channels));
        }
        let entry = self.entry(name).map(|entry| self.attached(entry));
        let known = || builtin_names.contains(&name) || self.own(name).is_some();
        entry.or_else(|| known().then(|| self.bare(name)))
    }

    /// Returns the plans that `auto` chooses from for so many bytes a rank: [`Self::plans`], and each algorithm over
    /// more channels where no number is set. Channels do not pay for a small vector.
    pub fn candidates(&self, builtin_names: &[&str], bytes: usize) -> Vec<Plan> {
        let mut plans = self.plans(builtin_names);
        if bytes < WIDE {
            return plans;
        }
        let free: Vec<Plan> =
            plans.iter().filter(|plan| plan.channels.is_none()).cloned().collect();
        plans.extend(free.iter().flat_map(Plan::wide));
        plans
    }

    /// Returns a plan for every entry in the order of the file, then every built-in algorithm without an entry.
    pub fn plans(&self, builtin_names: &[&str]) -> Vec<Plan> {
        let own = self.own.iter().map(|own| own.0.name());
        let own = own.filter(|name| !builtin_names.contains(name));
        let bare = builtin_names.iter().copied().chain(own);
        let bare = bare.filter(|name| self.entry(name).is_none());
        let entries = self.entries.iter().map(|entry| self.attached(entry));
        entries.chain(bare.map(|name| self.bare(name))).collect()
    }

    /// Returns the error of a `plan` that cannot run on the machine for this `reason`, at its entry or at the default
    /// that chooses it; `None` if no file names the plan.
    pub fn unfit(&self, plan: &Plan, reason: &str) -> Option<ConfigErrors> {
        let Text { file, text } = self.text.as_ref()?;
        let entry = self.entry(&plan.name).map(|entry| (entry.location, "configured here"));
        let chosen = || matches!(&self.choice, Choice::Named(name) if *name == plan.name);
        let default = || self.chosen.filter(|_| chosen()).map(|location| (location, "chosen here"));
        let (location, label) = entry.or_else(default)?;
        let message = format!("algorithm `{}` cannot run on this machine: {reason}", plan.name);
        let finding = Finding::new(location, message).label(label);
        let help = format!("choose another algorithm, or `{AUTO}`");
        Some(finding.help(help).in_text(file, text).into())
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.plan.name == name)
    }

    /// A built-in algorithm with the default settings.
    fn bare(&self, name: &str) -> Plan {
        let (name, module) = (name.to_owned(), name.to_owned());
        let (edge, channels) = (self.edge, self.channels);
        let own = self.own(&module).cloned();
        let (start, in_loops) = (Time::ZERO, false);
        Plan { name, module, edge, channels, start, in_loops, n_elem: None, topology: None, own }
    }

    /// The plan of an entry, with its algorithm if it is one of the program.
    fn attached(&self, entry: &Entry) -> Plan {
        Plan { own: self.own(&entry.plan.module).cloned(), ..entry.plan.clone() }
    }

    /// The program's algorithm called `name`.
    fn own(&self, name: &str) -> Option<&OwnAlgorithm> {
        self.own.iter().find(|own| own.0.name() == name)
    }
}

/// The least bytes a rank for which `auto` tries more channels.
const WIDE: usize = 32 << 10;

impl Plan {
    /// The same plan with so many channels.
    fn over(&self, channels: Channels) -> Self {
        let name = format!("{}:{channels}", self.name);
        Self { name, channels: Some(channels), ..self.clone() }
    }

    /// The plan over more channels.
    fn wide(&self) -> Vec<Self> {
        let Some(algorithm) = self.algorithm() else { return Vec::new() };
        algorithm.wide().iter().map(|channels| self.over(*channels)).collect()
    }

    /// The channels of a collective; one with split sizes has one, since no rank knows the splits of others.
    pub(crate) fn channels_of(
        &self,
        algorithm: &dyn CollectiveAlgorithm,
        has_splits: bool,
    ) -> Channels {
        if has_splits { Channels::ONE } else { self.channels.unwrap_or(algorithm.channels()) }
    }
}

impl Entry {
    /// Takes every setting of a queue that the entry does not have itself from the defaults.
    fn inherit(&mut self, defaults: EdgeSpec) {
        let own = |key: &str| self.own.contains(&key);
        let edge = self.plan.edge;
        let either = |key: &str| if own(key) { edge } else { defaults };
        self.plan.edge = EdgeSpec {
            n_slots: either("n_slots").n_slots,
            slot_size: either("slot_size").slot_size,
            buffer_kind: either("buffer_kind").buffer_kind,
            backpressure: either("backpressure").backpressure,
            vc_chunk_size: either("vc_chunk_size").vc_chunk_size,
            ipcq_credit_size_bytes: either("ipcq_credit_size_bytes").ipcq_credit_size_bytes,
            ..edge
        };
    }
}
