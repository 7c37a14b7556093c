//! Checks of capacity: tensors must fit on the machine and on this host before their numbers are made.

use super::WorkloadError;
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::{MemoryError, Region};
use phalanx_sim::value::DType;
use phalanx_torch::limits::check_numbers;

/// Most elements of a tensor: no product of sizes overflows.
pub(super) const MOST_ELEMENTS: u64 = 1 << 40;

/// A planned tensor, without memory.
#[derive(Clone, Copy)]
pub(super) struct PlannedTensor {
    pub(super) sip: u32,
    pub(super) cube: u16,
    pub(super) dtype: DType,
    pub(super) elements: usize,
}

/// Refuses `tensors` that do not fit on the machine and, with data, `numbers` bytes that do not fit on this host.
pub(super) fn check(
    machine: &Machine,
    tensors: impl IntoIterator<Item = PlannedTensor>,
    numbers: Option<u64>,
) -> Result<(), WorkloadError> {
    check_machine(machine, tensors)?;
    numbers.map_or(Ok(()), check_numbers)?;
    Ok(())
}

/// Allocates all tensors and frees them again, last first.
fn check_machine(
    machine: &Machine,
    tensors: impl IntoIterator<Item = PlannedTensor>,
) -> Result<(), MemoryError> {
    let map = |tensor: PlannedTensor| {
        machine.empty(tensor.sip, tensor.cube, tensor.dtype, tensor.elements)
    };
    let regions = tensors.into_iter().map(map).collect::<Result<Vec<Region>, _>>()?;
    regions.iter().rev().for_each(|region| machine.free(region));
    Ok(())
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
    fn looking_for_room_takes_none() {
        let spec = MachineSpec::preset("pair").expect("a machine");
        let machine = Machine::new(spec, Options::default());
        let half = PlannedTensor { sip: 1, cube: 0, dtype: DType::F32, elements: 1 << 31 };
        let empty = PlannedTensor { elements: 0, ..half };
        for _ in 0..3 {
            assert_eq!(check_machine(&machine, [half, empty, half]), Ok(()));
        }
        let one = PlannedTensor { elements: 1, ..half };
        let full = check_machine(&machine, [half, half, one]).unwrap_err();
        assert!(matches!(full, MemoryError::Full { sip: 1, cube: 0, .. }), "{full}");
    }
}
