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

use phalanx_sim::config::ConfigErrors;
use phalanx_sim::config::reader::{Finding, Location};
use phalanx_sim::ipcq::EdgeSpec;

mod locate;
mod read;

pub use locate::{ENVIRONMENT, FILE, Source, locate};
pub use phalanx_sim::spec::TopologyKind;

/// The word for the fastest algorithm that fits.
const AUTO: &str = "auto";

/// The contents of a `ccl.yaml`. The names of built-in algorithms come from the caller.
#[derive(Clone, Debug)]
pub struct CclConfig {
    text: Option<Text>,
    choice: Choice,
    /// The place of this choice in the file.
    chosen: Option<Location>,
    edge: EdgeSpec,
    entries: Vec<Entry>,
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

/// A choice of algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The fastest that fits the machine and the size.
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
    /// Elements per rank in benchmarks, unless set there.
    pub n_elem: Option<usize>,
    /// The topology of SIPs that it is meant for; `None` for any.
    pub topology: Option<TopologyKind>,
}

impl CclConfig {
    /// The configuration without a file.
    pub fn builtin() -> Self {
        Self {
            text: None,
            choice: Choice::Auto,
            chosen: None,
            edge: EdgeSpec::default(),
            entries: Vec::new(),
        }
    }

    /// Reads a file. `file` is its name for messages; `builtin_names` are the built-in algorithms.
    pub fn parse(file: &str, text: &str, builtin_names: &[&str]) -> Result<Self, ConfigErrors> {
        let config = read::config(file, text, builtin_names)?;
        Ok(Self { text: Some(Text { file: file.to_owned(), text: text.to_owned() }), ..config })
    }

    /// The default algorithm.
    pub fn default_choice(&self) -> Choice {
        self.choice.clone()
    }

    /// The queues of an algorithm without settings.
    pub fn edge(&self) -> EdgeSpec {
        self.edge
    }

    /// The same configuration with other queues in the defaults: settings that an entry has itself stay (CCF-3).
    #[must_use]
    pub fn with_edge(&self, edge: EdgeSpec) -> Self {
        let mut changed = Self { edge, ..self.clone() };
        for entry in &mut changed.entries {
            entry.inherit(edge);
        }
        changed
    }

    /// The entry called `name`, or the built-in algorithm with the default settings.
    pub fn plan(&self, name: &str, builtin_names: &[&str]) -> Option<Plan> {
        let entry = self.entry(name).map(|entry| entry.plan.clone());
        entry.or_else(|| builtin_names.contains(&name).then(|| self.bare(name)))
    }

    /// Every entry in the order of the file, then every built-in algorithm without an entry.
    pub fn plans(&self, builtin_names: &[&str]) -> Vec<Plan> {
        let bare = builtin_names.iter().filter(|name| self.entry(name).is_none());
        let entries = self.entries.iter().map(|entry| entry.plan.clone());
        entries.chain(bare.map(|name| self.bare(name))).collect()
    }

    /// The error of a `plan` that cannot run on the machine for this `reason`, at its entry or at the default that chooses it;
    /// `None` if no file names the plan.
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
        Plan { name, module, edge: self.edge, n_elem: None, topology: None }
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
        };
    }
}
