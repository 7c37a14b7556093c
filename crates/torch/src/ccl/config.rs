//! `ccl.yaml`: which algorithm a collective uses, and the queues between its ranks.
//!
//! - **CCF-1 (closed).** A file is accepted only if every key is known, given once, of the right type, unit and range,
//!   and every algorithm and module it names exists.
//! - **CCF-2 (all at once).** Everything wrong is reported together, in the order of the text, each with file, line,
//!   column, the line itself and what is allowed; text that is no YAML is the exception, its first error hides the rest.
//! - **CCF-3 (layers).** An algorithm's settings stand over the defaults of the file, and those over what is built in,
//!   wherever in the file they stand. A setting that is left out changes nothing.
//! - **CCF-4 (bounded).** No text makes the reader panic, hang or take much memory, and what is accepted are queues that
//!   can be opened and sizes that do not overflow.
//! - **CCF-5 (placed).** An algorithm that turns out not to fit the machine is reported where the file configures it.

use phalanx_sim::config::ConfigErrors;
use phalanx_sim::config::reader::{Finding, Location};
use phalanx_sim::ipcq::EdgeSpec;

mod locate;
mod read;

pub use locate::{ENVIRONMENT, FILE, Source, locate};
pub use phalanx_sim::spec::TopologyKind;

/// The word for an algorithm that fits, whichever.
const AUTO: &str = "auto";

/// What a `ccl.yaml` says. It does not know which algorithms are built in: whoever asks passes their names.
#[derive(Clone, Debug)]
pub struct CclConfig {
    text: Option<Text>,
    choice: Choice,
    /// Where the file makes this choice.
    chosen: Option<Location>,
    edge: EdgeSpec,
    entries: Vec<Entry>,
}

/// The file, kept to show what is wrong in it.
#[derive(Clone, Debug)]
struct Text {
    file: String,
    text: String,
}

/// One of `algorithms`.
#[derive(Clone, Debug)]
struct Entry {
    plan: Plan,
    location: Location,
}

/// Which algorithm to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One that fits the machine and the size.
    Auto,
    /// The entry of the file with this name, or else the built-in algorithm.
    Named(String),
}

/// An algorithm with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name of the entry, or of the built-in algorithm.
    pub name: String,
    /// The built-in algorithm that does it.
    pub module: String,
    /// The queues between ranks.
    pub edge: EdgeSpec,
    /// Elements per rank in the bench, unless said otherwise there.
    pub n_elem: Option<usize>,
    /// How the SIPs it is meant for are wired; none if that does not matter.
    pub topology: Option<TopologyKind>,
}

impl CclConfig {
    /// What holds without a file.
    pub fn builtin() -> Self {
        Self {
            text: None,
            choice: Choice::Auto,
            chosen: None,
            edge: EdgeSpec::default(),
            entries: Vec::new(),
        }
    }

    /// Reads a file. `file` is only used in messages; `builtin_names` are the algorithms there are.
    pub fn parse(file: &str, text: &str, builtin_names: &[&str]) -> Result<Self, ConfigErrors> {
        let config = read::config(file, text, builtin_names)?;
        Ok(Self { text: Some(Text { file: file.to_owned(), text: text.to_owned() }), ..config })
    }

    /// The algorithm to use unless told otherwise.
    pub fn default_choice(&self) -> Choice {
        self.choice.clone()
    }

    /// The queues of an algorithm that has no settings of its own.
    pub fn edge(&self) -> EdgeSpec {
        self.edge
    }

    /// The entry called `name`, or else the built-in algorithm with the default settings.
    pub fn plan(&self, name: &str, builtin_names: &[&str]) -> Option<Plan> {
        let entry = self.entry(name).map(|entry| entry.plan.clone());
        entry.or_else(|| builtin_names.contains(&name).then(|| self.bare(name)))
    }

    /// Every entry in the order of the file, then every built-in algorithm without an entry of its name.
    pub fn plans(&self, builtin_names: &[&str]) -> Vec<Plan> {
        let bare = builtin_names.iter().filter(|name| self.entry(name).is_none());
        let entries = self.entries.iter().map(|entry| entry.plan.clone());
        entries.chain(bare.map(|name| self.bare(name))).collect()
    }

    /// That `plan` cannot run on the machine for this `reason`, at its entry, or where the defaults choose it; none if
    /// no file speaks of it.
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

    /// A built-in algorithm as it is.
    fn bare(&self, name: &str) -> Plan {
        let (name, module) = (name.to_owned(), name.to_owned());
        Plan { name, module, edge: self.edge, n_elem: None, topology: None }
    }
}
