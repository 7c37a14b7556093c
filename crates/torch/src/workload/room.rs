//! Room for tensors, on the machine and on this host, found before any of their numbers are made.
//!
//! A tensor that does not fit is refused while it is still a size.

use super::WorkloadError;
use super::parameters::ParameterError;
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::{MemoryError, Region};
use phalanx_sim::value::DType;
use std::fs;

/// The most elements of a tensor, so that no product of sizes overflows.
pub(super) const MOST_ELEMENTS: u64 = 1 << 40;

/// A tensor to be.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    pub(super) sip: u32,
    pub(super) cube: u16,
    pub(super) dtype: DType,
    pub(super) elements: usize,
}

/// Whether `tensors` fit on the machine and, with data, `numbers` bytes on this host.
pub(super) fn check(
    machine: &Machine,
    tensors: impl IntoIterator<Item = Tensor>,
    numbers: Option<u64>,
) -> Result<(), WorkloadError> {
    check_machine(machine, tensors)?;
    numbers.map_or(Ok(()), |needed| check_host(needed, budget()))?;
    Ok(())
}

/// Maps all of them and unmaps them again, last first.
fn check_machine(
    machine: &Machine,
    tensors: impl IntoIterator<Item = Tensor>,
) -> Result<(), MemoryError> {
    let map =
        |tensor: Tensor| machine.empty(tensor.sip, tensor.cube, tensor.dtype, tensor.elements);
    let regions = tensors.into_iter().map(map).collect::<Result<Vec<Region>, _>>()?;
    regions.iter().rev().for_each(|region| machine.free(region));
    Ok(())
}

/// Whether numbers that take `needed` bytes fit on this host.
pub(crate) fn check_numbers(needed: u64) -> Result<(), ParameterError> {
    check_host(needed, budget())
}

/// Whether buffers of `needed` bytes, which processes share, fit on this host.
pub(crate) fn check_shared(needed: u64) -> Result<(), ParameterError> {
    let budget = budget();
    if needed <= budget {
        return Ok(());
    }
    let (needed, budget) = (needed.div_ceil(GIB), budget / GIB);
    let message = format!(
        "the buffers of this run do not fit on this host: {needed} GiB needed, {budget} GiB to spare"
    );
    Err(ParameterError::new(message, "use smaller parameters or fewer chips"))
}

fn check_host(needed: u64, budget: u64) -> Result<(), ParameterError> {
    if needed <= budget {
        return Ok(());
    }
    let (needed, budget) = (needed.div_ceil(GIB), budget / GIB);
    let message = format!(
        "the numbers of this run do not fit on this host: {needed} GiB needed, {budget} GiB to spare"
    );
    Err(ParameterError::new(message, "`--data off` gives the same simulated time without numbers"))
}

const GIB: u64 = 1 << 30;

/// How many bytes numbers may take: three quarters of what is available, for the rest of the program needs some too.
fn budget() -> u64 {
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    available.map_or(UNKNOWN, |bytes| bytes / 4 * 3)
}

/// What numbers may take on a host that does not say what it has.
const UNKNOWN: u64 = 8 * GIB;

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// `size` numbers, `bytes` for each.
pub(super) fn bytes(size: usize, bytes: u64) -> u64 {
    (size as u64).saturating_mul(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_sim::MachineSpec;
    use phalanx_sim::machine::Options;

    #[test]
    fn the_available_memory_is_read() {
        let text = "MemTotal:  65 kB\nMemAvailable:   23837540 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(23_837_540 * 1024));
        assert_eq!(available("MemTotal: 65 kB\n"), None);
        assert_eq!(available("MemAvailable: lots\n"), None);
        assert_eq!(available(&format!("MemAvailable: {} kB\n", u64::MAX)), None);
    }

    #[test]
    fn wrk_1_numbers_beyond_the_budget_are_refused() {
        assert_eq!(check_host(8 * GIB, 8 * GIB), Ok(()));
        let error = check_host(8 * GIB + 1, 8 * GIB).unwrap_err();
        let message =
            "the numbers of this run do not fit on this host: 9 GiB needed, 8 GiB to spare";
        assert_eq!(error.message, message);
        assert!(error.help.contains("`--data off`"));
    }

    #[test]
    fn looking_for_room_takes_none() {
        let spec = MachineSpec::preset("pair").expect("a machine");
        let machine = Machine::new(spec, Options::default());
        let half = Tensor { sip: 1, cube: 0, dtype: DType::F32, elements: 1 << 31 };
        let empty = Tensor { elements: 0, ..half };
        for _ in 0..3 {
            assert_eq!(check_machine(&machine, [half, empty, half]), Ok(()));
        }
        let one = Tensor { elements: 1, ..half };
        let full = check_machine(&machine, [half, half, one]).unwrap_err();
        assert!(matches!(full, MemoryError::Full { sip: 1, cube: 0, .. }), "{full}");
    }
}
