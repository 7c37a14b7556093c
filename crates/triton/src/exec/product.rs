//! Products of matrices.

use super::tiles::Operand;
use super::values::Data;
use super::{Run, Val};
use crate::program::Instruction;
use crate::types::Extent;
use phalanx_sim::kernel::{Computing, KernelError, Tile};
use phalanx_sim::value::DType;

/// The sum that a product is added to.
pub(super) enum Sum {
    Zero,
    /// A tile of the product's type, in whose scratch memory the result can be.
    Own(Tile),
    /// The same, but somebody else has it too.
    Shared(Operand),
}

/// True for a sum that is zero.
pub(super) fn is_zero(sum: &Val) -> bool {
    match sum {
        Val::Float(number) => *number == 0.0,
        Val::Equal(number) => *number == 0,
        Val::Index(index) => index.as_splat() == Some(0),
        _ => false,
    }
}

impl Run {
    /// A matrix product, in the scratch memory of its sum if nobody else needs the sum.
    pub(super) async fn dot(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let (left, right) =
            (self.full_tile(instruction, 0).await?, self.full_tile(instruction, 1).await?);
        let sum = self.operand(instruction, 2);
        let sum = self.sum_of(instruction, sum, left.dtype.product()).await?;
        let operation = self.multiply(instruction, &left, &right, sum);
        let (wanted, shape) = self.kind_of_sum(instruction);
        if wanted == left.dtype.product() {
            self.keep(instruction.to, operation, shape);
            return Ok(());
        }
        let tile = operation.await?;
        let operation = self.tl.cast(&tile, wanted);
        self.keep(instruction.to, operation, shape);
        Ok(())
    }

    /// Returns the type of a product's sum.
    pub(super) fn kind_of_sum(&self, instruction: &Instruction) -> (DType, Extent) {
        let kind = self.kind(instruction.args[2]);
        (kind.dtype(), kind.extent.clone())
    }

    /// Issues a product.
    pub(super) fn multiply(
        &self,
        instruction: &Instruction,
        left: &Operand,
        right: &Operand,
        sum: Sum,
    ) -> Computing {
        let (left, right) = (left.see(), right.see());
        match sum {
            Sum::Zero => self.tl.accumulate(&left, &right, None),
            Sum::Own(tile) => self.tl.accumulate(&left, &right, Some(tile)),
            Sum::Shared(sum) => {
                let shape = self.kind(instruction.args[2]).shape();
                let sum = sum.tile().seen_as(sum.dtype, shape);
                self.tl.dot(&left, &right, Some(&sum))
            }
        }
    }

    /// Returns the sum of a product, whose type is `product`.
    async fn sum_of(
        &mut self,
        instruction: &Instruction,
        sum: Val,
        product: DType,
    ) -> Result<Sum, KernelError> {
        if is_zero(&sum) {
            return Ok(Sum::Zero);
        }
        let kind = self.kind(instruction.args[2]).clone();
        let is_own = kind.dtype() == product;
        let sum = match sum {
            Val::Data(data) if is_own && data.shape == kind.extent => {
                data.tile().await?;
                return Ok(self.whole_sum(instruction, data, product));
            }
            other => other,
        };
        let operand = self.as_tile(sum, &kind).await?;
        let full = self.filled(operand, kind.extent.clone()).await?;
        if is_own {
            let (dtype, shape) = (full.dtype, full.shape.clone());
            let full = full.into_data(shape);
            return Ok(match full.into_tile(kind.shape()) {
                Ok(tile) => Sum::Own(tile),
                Err(data) => Sum::Shared(Operand::of(data, dtype)),
            });
        }
        let operation = self.tl.cast(&full.see(), product);
        Ok(Sum::Own(operation.await?))
    }

    /// Returns the sum of a product in a tile of the product's type and shape, which is there.
    pub(super) fn whole_sum(&self, instruction: &Instruction, sum: Data, product: DType) -> Sum {
        match sum.into_tile(self.kind(instruction.args[2]).shape()) {
            Ok(tile) => Sum::Own(tile),
            Err(data) => Sum::Shared(Operand::of(data, product)),
        }
    }
}
