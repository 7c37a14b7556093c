//! Accesses by lists of addresses, and atomic operations.

use super::Run;
use super::tiles::Operand;
use super::values::Data;
use crate::program::Instruction;
use phalanx_sim::DType;
use phalanx_sim::kernel::{KernelError, Shape};

impl Run {
    /// Loads elements at a list of addresses.
    pub(super) async fn load_list(
        &mut self,
        _addresses: &[i64],
        _mask: Option<&[i64]>,
        _other: f64,
        _dtype: DType,
        _shape: Shape,
    ) -> Result<Data, KernelError> {
        Err(KernelError::Other("a load at irregular addresses is not supported".to_owned()))
    }

    /// Stores elements to a list of addresses.
    pub(super) async fn store_list(
        &mut self,
        _addresses: &[i64],
        _mask: Option<&[i64]>,
        _operand: Operand,
    ) -> Result<(), KernelError> {
        Err(KernelError::Other("a store to irregular addresses is not supported".to_owned()))
    }

    /// Performs an atomic operation.
    pub(super) async fn atomic(&mut self, _instruction: &Instruction) -> Result<(), KernelError> {
        Err(KernelError::Other("atomic operations are not supported".to_owned()))
    }
}
