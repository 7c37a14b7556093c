//! `phalanx check`: machine files, each valid or with everything that is wrong with it.

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::machine::Source;
use crate::{printer, show};
use phalanx_sim::MachineSpec;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut failures = Vec::new();
    for file in &args.files {
        match check_one(file) {
            Ok(line) => printer::data(&line)?,
            Err(failure) => failures.push(failure),
        }
    }
    let mut code = ExitCode::SUCCESS;
    for (index, failure) in failures.iter().enumerate() {
        if index > 0 {
            printer::note("\n")?;
        }
        code = printer::failure(failure, false);
    }
    Ok(code)
}

fn check_one(file: &Path) -> Result<String, Failure> {
    let source = Source::read(file)?;
    let spec = source.parse()?;
    Ok(format!("{}: ok ({}, {})\n", source.file, spec.name, size(&spec)))
}

/// `4 SIPs, ring_1d, 128 PEs`.
pub(super) fn size(spec: &MachineSpec) -> String {
    let sips = show::count(spec.devices().into(), "SIP");
    let pes = show::count(all_pes(spec), "PE");
    let outer =
        spec.levels.iter().map(|level| format!(" in {}s of {}", level.name, level.topology.name()));
    let outer: String = outer.collect();
    format!("{sips}, {}{outer}, {pes}", spec.sips.topology.name())
}

pub(super) fn all_pes(spec: &MachineSpec) -> u64 {
    u64::from(spec.devices()) * u64::from(spec.cubes.count()) * u64::from(spec.pes.count())
}
