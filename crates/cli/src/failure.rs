//! The failures of this program: a kind, a message, perhaps a hint, and an exit code.

use phalanx_sim::config::ConfigErrors;
use phalanx_sim::machine::RunError;
use phalanx_sim::names::Names;
use phalanx_workloads::node::NodeError;
use phalanx_workloads::{ParameterError, WorkloadError};
use std::fmt;

/// An error that the user should see.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    message: Message,
    pub(crate) hint: Option<String>,
}

#[derive(Debug)]
enum Message {
    Line(String),
    /// Errors of a machine file or of overrides; these errors print themselves.
    Machine(Vec<ConfigErrors>),
}

/// The kind of a failure; the names are stable in `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something typed that there is not.
    Input,
    /// A machine file or an override.
    Machine,
    /// The configuration of collectives.
    Ccl,
    /// A table of measurements.
    Table,
    /// A parameter of a workload.
    Parameter,
    Deadlock,
    Kernel,
    Credits,
    /// Simulated time ran out.
    Time,
    Memory,
    WrongResult,
    /// A worker that could not start, or that is gone.
    Worker,
    /// A task of a node that failed.
    Task,
    /// A process of several that has ended.
    Process,
    /// A file that cannot be written.
    Output,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Machine => "machine",
            Self::Ccl => "ccl",
            Self::Table => "table",
            Self::Parameter => "parameter",
            Self::Deadlock => "deadlock",
            Self::Kernel => "kernel",
            Self::Credits => "credits",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::WrongResult => "wrong_result",
            Self::Worker => "worker",
            Self::Task => "task",
            Self::Process => "process",
            Self::Output => "output",
        }
    }

    /// CLI-1.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Input | Self::Machine | Self::Ccl | Self::Table | Self::Parameter => 2,
            _ => 1,
        }
    }
}

impl Failure {
    /// Names the addresses in the message and the hint by the levels of a machine.
    pub(crate) fn named(mut self, names: &Names) -> Self {
        if let Message::Line(line) = &mut self.message {
            *line = names.text(line).into_owned();
        }
        self.hint = self.hint.map(|hint| names.text(&hint).into_owned());
        self
    }

    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: Message::Line(message.into()), hint: None }
    }

    /// Something typed that there is not.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message)
    }

    /// Reads the message of the parser about words that are no command: the error, tips, usage, each a paragraph.
    pub(crate) fn typed(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut paragraphs = text.trim_end().split("\n\n");
        let message = paragraphs.next().unwrap_or_default();
        let tips: Vec<&str> = paragraphs
            .flat_map(str::lines)
            .filter_map(|line| line.trim_start().strip_prefix("tip: "))
            .collect();
        let failure = Self::input(message.strip_prefix("error: ").unwrap_or(message));
        if tips.is_empty() { failure } else { failure.hint(tips.join("; ")) }
    }

    /// A file that cannot be written.
    pub(crate) fn output(message: impl Into<String>) -> Self {
        Self::new(Kind::Output, message)
    }

    /// All that is wrong with a machine.
    pub(crate) fn machine(errors: Vec<ConfigErrors>) -> Self {
        Self { kind: Kind::Machine, message: Message::Machine(errors), hint: None }
    }

    /// All that is wrong with the configuration of collectives.
    pub(crate) fn ccl(errors: ConfigErrors) -> Self {
        Self { kind: Kind::Ccl, message: Message::Machine(vec![errors]), hint: None }
    }

    /// All that is wrong with tables of measurements.
    pub(crate) fn table(errors: Vec<ConfigErrors>) -> Self {
        Self { kind: Kind::Table, message: Message::Machine(errors), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message with pictures of the places that are wrong, in colours; none for a plain message.
    pub(crate) fn pictures(&self) -> Option<String> {
        match &self.message {
            Message::Line(_) => None,
            Message::Machine(errors) => {
                let pictures = errors.iter().map(|errors| errors.render(true));
                Some(pictures.collect::<Vec<_>>().join("\n\n"))
            }
        }
    }
}

/// `FILE:LINE:COLUMN: MESSAGE` for each.
fn lines(errors: &[ConfigErrors]) -> Vec<String> {
    let each = errors.iter().flat_map(ConfigErrors::errors);
    each.map(|e| format!("{}:{}:{}: {}", e.file(), e.line(), e.column(), e.message())).collect()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Message::Line(line) => f.write_str(line),
            Message::Machine(errors) => f.write_str(&lines(errors).join("\n")),
        }
    }
}

impl std::error::Error for Failure {}

impl From<ParameterError> for Failure {
    fn from(error: ParameterError) -> Self {
        let failure = Self::new(Kind::Parameter, error.message);
        if error.help.is_empty() { failure } else { failure.hint(error.help) }
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        use phalanx_runtime::Error;
        let error = match error {
            NodeError::Parameter(error) => return error.into(),
            NodeError::Runtime(error) => error,
        };
        let kind = match &error {
            Error::Run(run) if run.stall().is_some() => Kind::Deadlock,
            Error::Run(_) => Kind::Task,
            Error::NoMemory(_) => Kind::Memory,
            _ => Kind::Worker,
        };
        let failure = Self::new(kind, error.to_string());
        match error {
            Error::Start(_) | Error::System { .. } => {
                failure.hint("`phalanx node doctor` looks for what this host lacks")
            }
            _ => failure,
        }
    }
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        let kind = match error {
            WorkloadError::Parameter(error) => return error.into(),
            WorkloadError::Memory(_) => Kind::Memory,
            WorkloadError::Run(RunError::Deadlock(_)) => Kind::Deadlock,
            WorkloadError::Run(RunError::CreditsAway { .. }) => Kind::Credits,
            WorkloadError::Run(RunError::TooLong | RunError::Interrupted(_)) => Kind::Time,
            WorkloadError::Spawn(ref error) if error.desync.is_some() => Kind::Deadlock,
            WorkloadError::Run(RunError::Kernel { .. }) | WorkloadError::Spawn(_) => Kind::Kernel,
        };
        Self::new(kind, error.to_string())
    }
}
