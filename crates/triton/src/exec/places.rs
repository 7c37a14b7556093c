//! Accesses by lists of addresses, and atomic operations.

use super::Run;
use super::tiles::Operand;
use super::values::{Data, tile_shape};
use crate::program::{Change, Instruction, Op};
use crate::types::Extent;
use phalanx_sim::DType;
use phalanx_sim::kernel::{KernelError, Places};
use phalanx_sim::value::Atomic;

impl Run {
    /// Loads elements at a list of addresses.
    pub(super) async fn load_list(
        &mut self,
        addresses: &[i64],
        mask: Option<&[i64]>,
        other: f64,
        dtype: DType,
        shape: Extent,
    ) -> Result<Data, KernelError> {
        let Some(places) = self.places(addresses, mask, dtype, &shape)? else {
            let tile = self.tl.full(dtype, tile_shape(&shape), other)?;
            return Ok(Data::of_tile(tile, shape));
        };
        let loading = self.tl.load_at(&places, other);
        if places.dtype == dtype {
            return Ok(Data::issued(loading, shape));
        }
        Ok(self.reinterpreted(loading.await?, dtype, shape))
    }

    /// Stores elements to a list of addresses.
    pub(super) async fn store_list(
        &mut self,
        addresses: &[i64],
        mask: Option<&[i64]>,
        operand: Operand,
    ) -> Result<(), KernelError> {
        let Some(places) = self.places(addresses, mask, operand.dtype, &operand.shape)? else {
            return Ok(());
        };
        let operand = self.as_held(operand, places.dtype).await?;
        let storing = self.tl.store_at(&places, &operand.see());
        storing.error().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Finds the memory of a list of addresses; `None` if none is accessed.
    fn places(
        &self,
        addresses: &[i64],
        mask: Option<&[i64]>,
        dtype: DType,
        extent: &[usize],
    ) -> Result<Option<Places>, KernelError> {
        let size = i64::try_from(dtype.size()).unwrap_or(1);
        let is_set = |at: usize| mask.is_none_or(|mask| mask[at] != 0);
        let Some(first) = (0..addresses.len()).find(|at| is_set(*at)) else { return Ok(None) };
        let (region, base) =
            self.call.space.translate(addresses[first], addresses[first] + size)?;
        if region.dtype.size() != dtype.size() {
            let text = format!("memory of {} is accessed as {dtype}", region.dtype);
            return Err(KernelError::Other(text));
        }
        let start = addresses[first].wrapping_sub((base - region.address).cast_signed());
        let bytes = region.bytes().cast_signed();
        let mut offsets = vec![0; addresses.len()];
        for (at, offset) in offsets.iter_mut().enumerate().filter(|(at, _)| is_set(*at)) {
            let inside = addresses[at].wrapping_sub(start);
            if inside < 0 || inside + size > bytes {
                return Err(self.call.space.outside(addresses[at]));
            }
            if inside % size != 0 {
                let text = format!(
                    "address {:#x} is in the middle of an element of {dtype}",
                    addresses[at]
                );
                return Err(KernelError::Other(text));
            }
            *offset = inside / size;
        }
        let places = Places {
            address: region.address,
            dtype: region.dtype,
            shape: tile_shape(extent),
            offsets: offsets.into(),
            mask: mask.map(|mask| mask.iter().map(|bit| *bit != 0).collect()),
        };
        Ok(Some(places))
    }

    /// Performs an atomic operation.
    pub(super) async fn atomic(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        match &instruction.op {
            Op::Change { change, has_mask } => self.change(instruction, *change, *has_mask).await,
            Op::CompareExchange => self.compare_exchange(instruction).await,
            Op::DescriptorChange(change) => self.change_block(instruction, *change).await,
            other => Err(KernelError::Other(format!("{other:?} is no atomic operation"))),
        }
    }

    async fn change(
        &mut self,
        instruction: &Instruction,
        change: Change,
        has_mask: bool,
    ) -> Result<(), KernelError> {
        let pointers = self.index_of(instruction.args[0]).await?;
        let kind = self.kind(instruction.args[0]).clone();
        let mask = if has_mask {
            Some(self.index_of(instruction.args[2]).await?.list(&kind.extent))
        } else {
            None
        };
        let operand = self.full_tile(instruction, 1).await?;
        self.release(instruction);
        let addresses = pointers.list(&kind.extent);
        self.change_list(instruction, change, &addresses, mask.as_deref(), operand).await
    }

    async fn change_block(
        &mut self,
        instruction: &Instruction,
        change: Change,
    ) -> Result<(), KernelError> {
        let (pointers, mask, operand) = self.block_operand(instruction).await?;
        self.change_list(instruction, change, &pointers, Some(&mask), operand).await
    }

    async fn change_list(
        &mut self,
        instruction: &Instruction,
        change: Change,
        addresses: &[i64],
        mask: Option<&[i64]>,
        operand: Operand,
    ) -> Result<(), KernelError> {
        let (dtype, shape) = (operand.dtype, operand.shape.clone());
        let Some(places) = self.places(addresses, mask, dtype, &shape)? else {
            let tile = self.tl.full(dtype, tile_shape(&shape), 0.0)?;
            self.set(instruction.to, super::Val::Data(Data::of_tile(tile, shape)));
            return Ok(());
        };
        let operation = atomic_of(change, dtype, places.dtype)?;
        let held = self.as_held(operand, places.dtype).await?;
        let changing = self.tl.atomic(operation, &places, &held.see());
        if places.dtype == dtype {
            self.keep(instruction.to, changing, shape);
            return Ok(());
        }
        let data = self.reinterpreted(changing.await?, dtype, shape);
        self.set(instruction.to, super::Val::Data(data));
        Ok(())
    }

    async fn compare_exchange(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let pointers = self.index_of(instruction.args[0]).await?;
        let extent = self.kind(instruction.args[0]).extent.clone();
        let expected = self.full_tile(instruction, 1).await?;
        let new = self.full_tile(instruction, 2).await?;
        self.release(instruction);
        let (dtype, shape) = (expected.dtype, expected.shape.clone());
        let Some(places) = self.places(&pointers.list(&extent), None, dtype, &shape)? else {
            return Ok(());
        };
        let (expected, new) =
            (self.as_held(expected, places.dtype).await?, self.as_held(new, places.dtype).await?);
        let changing = self.tl.atomic_cas(&places, &expected.see(), &new.see());
        if places.dtype == dtype {
            self.keep(instruction.to, changing, shape);
            return Ok(());
        }
        let data = self.reinterpreted(changing.await?, dtype, shape);
        self.set(instruction.to, super::Val::Data(data));
        Ok(())
    }
}

/// Returns the operation of memory. Triton compares floats by their bits: as integers, and negative ones without sign.
fn atomic_of(change: Change, dtype: DType, holds: DType) -> Result<Atomic, KernelError> {
    let is_bits = holds.is_float() && !dtype.is_float();
    Ok(match change {
        Change::Add => Atomic::Add,
        Change::And => Atomic::And,
        Change::Or => Atomic::Or,
        Change::Xor => Atomic::Xor,
        Change::Exchange => Atomic::Exchange,
        Change::Max => Atomic::Max,
        Change::Min => Atomic::Min,
        Change::MaxUnsigned if is_bits => Atomic::Min,
        Change::MinUnsigned if is_bits => Atomic::Max,
        Change::MaxUnsigned | Change::MinUnsigned
            if matches!(holds, DType::U8 | DType::U16 | DType::U32 | DType::U64) =>
        {
            if change == Change::MaxUnsigned { Atomic::Max } else { Atomic::Min }
        }
        Change::MaxUnsigned | Change::MinUnsigned => {
            let text =
                format!("an atomic of numbers without sign on memory of {holds} is not supported");
            return Err(KernelError::Other(text));
        }
    })
}
