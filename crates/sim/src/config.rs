//! Machine files: YAML in, a checked [`MachineSpec`] out, or every error at its line and column.
//!
//! - **CFG-1 (closed).** A file is accepted only if every key is known, given once, of the right type and unit,
//!   and every part of the machine is there.
//! - **CFG-2 (all at once).** Everything wrong is reported together, in the order of the text, each with file, line,
//!   column, the line itself and what is allowed; text that is no YAML is the exception, its first error hides the rest.
//! - **CFG-3 (routable).** An accepted machine has a way between any two SIPs, and links between SIPs take time: that
//!   latency is the lookahead that lets SIPs advance in parallel (PAR-1).
//! - **CFG-4 (bounded).** No text makes the reader panic, hang or take much memory, and no accepted machine is so large
//!   that its counts or addresses overflow.

use crate::spec::MachineSpec;

mod base;
mod collectives;
mod door;
mod engines;
mod error;
mod levels;
mod machine;
mod overrides;
mod preset;
mod print;
pub mod reader;
mod schema;
mod sips;
mod size;
mod sources;
mod yaml;

pub use crate::spelling::suggestion;
pub use base::base_of;
pub use door::{MachineError, read_path, read_path_within, read_text, read_text_within};
pub use error::{ConfigError, ConfigErrors};
pub use overrides::Override;
pub use preset::{DEFAULT_PRESET, Preset, chips, preset, presets};
pub use print::{Figure, MachineView, to_yaml};
pub use sources::{FigureText, figure_texts};
pub use yaml::LONGEST;

use base::Bases;
use error::Finding;

/// Parses a machine file. `file` is only used in messages.
///
/// ```
/// use phalanx_sim::config::{parse_machine, preset};
/// let text = preset("quad-sip").unwrap().text.replace("bandwidth: 64 GB/s", "bandwidth: 64 Gb/s");
/// let errors = parse_machine("my.yaml", &text).unwrap_err();
/// assert_eq!(errors.errors()[0].message(), "`system.host.link.bandwidth`: `64 Gb/s` has the unknown unit `Gb/s`");
/// assert_eq!((errors.errors()[0].line(), errors.errors()[0].column()), (10, 30));
/// ```
pub fn parse_machine(file: &str, text: &str) -> Result<MachineSpec, ConfigErrors> {
    parse_machine_with(file, text, &[])
}

/// Reads a machine file with `overrides` put over it before it is checked; an error of an override is shown in the text
/// of the override.
pub fn parse_machine_with(
    file: &str,
    text: &str,
    overrides: &[Override],
) -> Result<MachineSpec, ConfigErrors> {
    let mut bases = Bases::default();
    read(text, overrides, &mut bases).map_err(|findings| {
        let findings = findings.into_iter().map(|finding| bases.place(finding)).collect();
        ConfigErrors::all(findings, |finding| location(finding, file, text, overrides))
    })
}

fn read(
    text: &str,
    overrides: &[Override],
    bases: &mut Bases,
) -> Result<MachineSpec, Vec<Finding>> {
    let file = yaml::read(text, 0, 0).map_err(|finding| vec![finding])?;
    let mut root = bases.join(file).map_err(|finding| vec![finding])?;
    let mut findings = Vec::new();
    let figures = sources::paths(&root);
    for (index, over) in overrides.iter().enumerate() {
        findings.extend(over.apply(&mut root, index + 1).err());
    }
    overrides::drop_grid(&mut root);
    sources::drop_overridden(&mut root, &figures);
    match machine::check(&root) {
        Ok(spec) if findings.is_empty() => Ok(spec),
        Ok(_) => Err(findings),
        Err(more) => Err(findings.into_iter().chain(more).collect()),
    }
}

/// Source 0 is the file, the others are overrides.
fn location(finding: Finding, file: &str, text: &str, overrides: &[Override]) -> ConfigError {
    match finding.location.source.checked_sub(1) {
        None => finding.in_text(file, text),
        Some(index) => finding.in_text(overrides::OVERRIDE, overrides[index].text()),
    }
}
