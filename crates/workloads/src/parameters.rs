//! The parameters of a workload: kinds, defaults, and the check of `NAME=VALUE`.

use phalanx_sim::names::Names;
use phalanx_sim::value::DType;
use phalanx_sim::{Bytes, MachineSpec, Time, config, units};
use phalanx_torch::limits::ParameterError;
use std::fmt;

/// The types of workloads: their references compute with negative numbers.
const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::Bf16, DType::I32];

/// A parameter, set with `-p NAME=VALUE`.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The values it takes.
    pub kind: ParameterKind,
    /// Its default value.
    pub default: Default,
}

/// The values that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A whole number in this range.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A number of bytes, a whole number of elements of this size, at least `least`.
    Bytes {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// The number that divides it.
        multiple: u64,
    },
    /// A span of time, at most 1000 s.
    Time,
    /// A type of element.
    DType,
    /// A SIP of the machine: its number, or its name in reports (`sip3`).
    Sip,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name that the workload looks up.
    Name,
}

/// The default value of a parameter.
pub enum Default {
    /// A fixed text.
    Text(&'static str),
    /// A text that depends on the machine.
    Machine(fn(&MachineSpec) -> String),
}

/// Checked values for all parameters of a workload.
#[derive(Clone, Debug)]
pub struct Settings {
    values: Vec<(&'static str, Setting)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Setting {
    Count(u64),
    Bytes(u64),
    Time(Time),
    DType(DType),
    Word(String),
}

impl Settings {
    pub(crate) fn new(
        parameters: &'static [Parameter],
        machine: &MachineSpec,
        given: &[(&str, &str)],
    ) -> Result<Self, ParameterError> {
        for (position, (name, _)) in given.iter().enumerate() {
            if !parameters.iter().any(|parameter| parameter.name == *name) {
                return Err(unknown(parameters, name));
            }
            if given[..position].iter().any(|(other, _)| other == name) {
                return Err(ParameterError::new(
                    format!("parameter `{name}` is set twice"),
                    "set it once",
                ));
            }
        }
        let values = parameters.iter().map(|parameter| parameter.resolve(machine, given));
        Ok(Self { values: values.collect::<Result<_, _>>()? })
    }

    fn get(&self, name: &str) -> &Setting {
        let found = self.values.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("WKL-1: the workload declares `{name}`")).1
    }

    /// Returns the value of a count.
    pub fn count(&self, name: &str) -> u64 {
        match self.get(name) {
            Setting::Count(count) | Setting::Bytes(count) => *count,
            other => panic!("WKL-1: `{name}` is {other:?}"),
        }
    }

    /// A count that sizes something in memory.
    pub(crate) fn size(&self, name: &str) -> usize {
        usize::try_from(self.count(name)).expect("a 64-bit machine")
    }

    /// The number of a SIP of `machine`, which may be another machine than the one that the settings were made for.
    pub(crate) fn sip(&self, name: &str, machine: &MachineSpec) -> Result<u32, ParameterError> {
        let sip = self.count(name);
        let number = u32::try_from(sip).ok().filter(|number| *number < machine.devices());
        number.ok_or_else(|| no_such_sip(name, sip, machine))
    }

    /// A span of time.
    pub(crate) fn time(&self, name: &str) -> Time {
        match self.get(name) {
            Setting::Time(time) => *time,
            other => panic!("WKL-1: `{name}` is {other:?}"),
        }
    }

    /// A type of element.
    pub(crate) fn dtype(&self, name: &str) -> DType {
        match self.get(name) {
            Setting::DType(dtype) => *dtype,
            other => panic!("WKL-1: `{name}` is {other:?}"),
        }
    }

    /// A word.
    pub(crate) fn word(&self, name: &str) -> &str {
        match self.get(name) {
            Setting::Word(word) => word,
            other => panic!("WKL-1: `{name}` is {other:?}"),
        }
    }

    /// Returns every name with its value as text.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.values.iter().map(|(name, setting)| (*name, setting.to_string()))
    }

    /// Returns the value as a plain number, where it is one.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Setting::Count(number) | Setting::Bytes(number) => Some(*number),
            Setting::Time(_) | Setting::DType(_) | Setting::Word(_) => None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Bytes(bytes) => write!(f, "{}", Bytes(*bytes)),
            Self::Time(time) => write!(f, "{time}"),
            Self::DType(dtype) => write!(f, "{dtype}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

fn unknown(parameters: &[Parameter], name: &str) -> ParameterError {
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
    let near = config::suggestion(name, names.iter().copied());
    let hint = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    ParameterError::new(
        format!("unknown parameter `{name}`"),
        format!("{hint}it takes {}", names.join(", ")),
    )
}

impl Parameter {
    /// Returns the default, as text.
    pub fn default_for(&self, machine: &MachineSpec) -> String {
        match self.default {
            Default::Text(text) => text.to_owned(),
            Default::Machine(text) => text(machine),
        }
    }

    fn resolve(
        &self,
        machine: &MachineSpec,
        given: &[(&str, &str)],
    ) -> Result<(&'static str, Setting), ParameterError> {
        let text =
            given.iter().find(|(name, _)| *name == self.name).map(|(_, value)| (*value).to_owned());
        let text = text.unwrap_or_else(|| self.default_for(machine));
        Ok((self.name, self.parse(text.trim(), machine)?))
    }

    fn bad(&self, reason: &str, help: String) -> ParameterError {
        ParameterError::new(format!("parameter `{}`: {reason}", self.name), help)
    }

    /// The number of a SIP of `machine`, from its number or its name.
    fn sip(&self, text: &str, machine: &MachineSpec) -> Result<Setting, ParameterError> {
        let count = machine.devices();
        let by_name = || Names::new(machine).device(text).map(u64::from);
        let by_number = || number_after("sip", text).filter(|_| machine.levels.is_empty());
        let sip = units::parse_count(text).ok().or_else(by_number).or_else(by_name);
        match sip {
            Some(sip) if sip < count.into() => Ok(Setting::Count(sip)),
            Some(sip) => Err(no_such_sip(self.name, sip, machine)),
            None => {
                let near = nearest_sip(text, machine);
                let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                Err(self.bad(&format!("`{text}` is not a SIP"), near + &allowed_sips(machine)))
            }
        }
    }

    fn dtype(&self, text: &str) -> Result<Setting, ParameterError> {
        let help = || DTYPES.map(|dtype| dtype.to_string()).join(", ");
        let refuse = |problem: String| self.bad(&problem, format!("allowed: {}", help()));
        let dtype: DType = text.parse().map_err(|_| refuse(format!("`{text}` is not a type")))?;
        let is_known = DTYPES.contains(&dtype);
        let problem = || refuse(format!("workloads do not compute in `{dtype}`"));
        is_known.then_some(Setting::DType(dtype)).ok_or_else(problem)
    }

    fn word(&self, text: &str, words: &[&str]) -> Result<Setting, ParameterError> {
        if words.contains(&text) {
            return Ok(Setting::Word(text.to_owned()));
        }
        let near = config::suggestion(text, words.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let help = format!("{near}allowed: {}", words.join(", "));
        Err(self.bad(&format!("`{text}` is not one of its words"), help))
    }

    fn parse(&self, text: &str, machine: &MachineSpec) -> Result<Setting, ParameterError> {
        let bad = |reason: String, help: String| self.bad(&reason, help);
        let quantity =
            |error: units::QuantityError| bad(error.to_string(), error.help().unwrap_or_default());
        let inside = |setting, inside: bool, what: String, help: String| {
            inside.then_some(setting).ok_or_else(|| bad(what, help))
        };
        match self.kind {
            ParameterKind::Count { least, most } => {
                let help = format!("allowed: {least} to {most}");
                let count = match units::parse_count(text) {
                    Err(error) if error.is_out_of_range() => {
                        return Err(bad(format!("{} is out of range", error.text()), help));
                    }
                    count => count.map_err(quantity)?,
                };
                let what = format!("{count} is out of range");
                inside(Setting::Count(count), (least..=most).contains(&count), what, help)
            }
            ParameterKind::Bytes { least, most, multiple } => {
                let Bytes(bytes) = units::parse_bytes(text).map_err(|error| match error {
                    error if error.is_too_large() => {
                        bad(error.to_string(), format!("allowed: at most {}", Bytes(most)))
                    }
                    error => quantity(error),
                })?;
                let what = format!("{bytes} bytes cannot be used");
                let help = if bytes > most {
                    format!("allowed: at most {}", Bytes(most))
                } else {
                    format!("allowed: at least {least} bytes, a multiple of {multiple}")
                };
                let fits = (least..=most).contains(&bytes) && bytes % multiple == 0;
                inside(Setting::Bytes(bytes), fits, what, help)
            }
            ParameterKind::Time => {
                let time = units::parse_time(text).map_err(quantity)?;
                let what = format!("{} is out of range", units::show_time(time));
                let help = format!("allowed: at most {}", units::show_time(MOST_TIME));
                inside(Setting::Time(time), time <= MOST_TIME, what, help)
            }
            ParameterKind::DType => self.dtype(text),
            ParameterKind::Sip => self.sip(text, machine),
            ParameterKind::Word(words) => self.word(text, words),
            ParameterKind::Name => Ok(Setting::Word(text.to_owned())),
        }
    }
}

/// The refusal of a SIP that `machine` does not have.
fn no_such_sip(name: &str, sip: u64, machine: &MachineSpec) -> ParameterError {
    let what = if machine.levels.is_empty() { "sip" } else { "SIP " };
    let message = format!("parameter `{name}`: there is no {what}{sip} in `{}`", machine.name);
    ParameterError::new(message, allowed_sips(machine))
}

fn allowed_sips(machine: &MachineSpec) -> String {
    let last = machine.devices().saturating_sub(1);
    let names = Names::new(machine);
    format!("allowed: 0 to {last}, or {} to {}", names.address(0), names.address(last))
}

/// The number in a name such as `sip3`.
fn number_after(prefix: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// The name of the SIP that was probably meant: the SIP of a cube or a PE, or a name of similar spelling.
fn nearest_sip(text: &str, machine: &MachineSpec) -> Option<String> {
    let parts = machine.levels.len() + 1;
    let whole = text.split('.').take(parts).collect::<Vec<_>>().join(".");
    let names = Names::new(machine);
    let names: Vec<String> = (0..machine.devices()).map(|sip| names.address(sip)).collect();
    config::suggestion(&whole, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Longest span of time of a parameter; simulated time as a whole ends after 18 million seconds.
const MOST_TIME: Time = Time::us(1_000_000_000);

/// The seed of a workload's input numbers.
pub(crate) const SEED: Parameter = Parameter {
    name: "seed",
    help: "where the input numbers come from",
    kind: ParameterKind::Count { least: 0, most: u64::MAX },
    default: Default::Text("0"),
};
