//! Limits of a machine's size, so that no count or address overflows later (CFG-4).

use crate::spec::{GridSpec, MachineSpec};
use crate::time::Capacity;

use super::error::{Finding, Location};
use super::reader::Reader;

/// The most PEs in all.
const MOST_PES: u64 = 1 << 20;
/// The most cubes in a SIP, and PEs in a cube: they are numbered in 16 bits.
const MOST_IN_GRID: u64 = 1 << 16;
/// The most memory in all, so that addresses fit in 62 bits.
const MOST_BYTES: u128 = 1 << 62;

/// The same in words.
pub(super) const MEMORY_LIMIT: &str = "allowed: at most 4 EiB in all, or `unlimited`";

/// Locations of the numbers that make a machine large.
pub(super) struct Size {
    pub(super) sips: Location,
    pub(super) cubes: Location,
    pub(super) pes: Location,
    pub(super) hbm: Location,
    pub(super) tcm: Location,
}

/// Of several numbers that are too large together, the one to point at: the last that was set by an override, or
/// else the largest.
pub(super) fn blame<const N: usize>(parts: [(Location, u64); N]) -> Location {
    let worst =
        parts.into_iter().max_by_key(|(location, number)| (location.override_number(), *number));
    worst.expect("CFG-2: something is to blame").0
}

/// Limits on the whole, so that no count or address overflows later.
pub(super) fn check_size(r: &mut Reader, spec: &MachineSpec, size: &Size) {
    let grid = |grid: &GridSpec| u64::from(grid.rows) * u64::from(grid.columns);
    let sips = (size.sips, u64::from(spec.devices()));
    let all_cubes = (size.cubes, grid(&spec.cubes));
    let all_pes = (size.pes, grid(&spec.pes));
    for (what, (location, count)) in [("cubes in a SIP", all_cubes), ("PEs in a cube", all_pes)] {
        if count > MOST_IN_GRID {
            let finding =
                Finding::new(location, format!("the machine is too large: {count} {what}"));
            let finding = finding.label("counts in rows * columns");
            return r
                .findings
                .push(finding.help(format!("allowed: at most {MOST_IN_GRID} {what}")));
        }
    }
    let cubes = u128::from(sips.1) * u128::from(all_cubes.1);
    let pes = cubes * u128::from(all_pes.1);
    if pes > u128::from(MOST_PES) {
        let location = blame([sips, all_cubes, all_pes]);
        let finding = Finding::new(location, format!("the machine is too large: {pes} PEs in all"));
        let finding = finding.label("counts in SIPs * cubes * PEs");
        return r.findings.push(finding.help(format!("allowed: at most {MOST_PES} PEs")));
    }
    check_memory(
        r,
        "HBM",
        cubes,
        spec.hbm.capacity,
        blame([(size.hbm, u64::MAX), sips, all_cubes]),
    );
    check_memory(r, "TCM", pes, spec.tcm, blame([(size.tcm, u64::MAX), sips, all_cubes, all_pes]));
}

fn check_memory(r: &mut Reader, name: &str, parts: u128, capacity: Capacity, location: Location) {
    let Capacity::Limited(bytes) = capacity else { return };
    if parts.saturating_mul(u128::from(bytes.0)) > MOST_BYTES {
        let finding = Finding::new(
            location,
            format!("the machine is too large: {parts} * {bytes} of {name} in all"),
        );
        r.findings.push(finding.label("too much memory").help(MEMORY_LIMIT));
    }
}
