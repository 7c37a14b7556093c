//! The inputs of a sweep, and the check of its results.
//!
//! Inputs are small whole numbers, so that every order of combining them gives the same result.

use super::Sweep;
use crate::ccl::algorithm::Operation;
use crate::ccl::part::ReduceOp;
use crate::context::Context;
use crate::error::Error;
use crate::multiprocessing::{SpawnError, spawn};
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_sim::value::{DType, Value};
use std::rc::Rc;

impl Sweep {
    /// The input tensor of one rank.
    pub(super) fn input(&self, cx: &Rank, rank: usize, len: usize) -> Result<Tensor, Error> {
        if !self.options.data {
            return cx.empty([len], self.dtype);
        }
        let numbers: Vec<f32> = (0..len).map(|index| self.number(rank, index)).collect();
        cx.from_slice(&numbers, [len], self.dtype)
    }

    /// Element `index` of rank `rank`'s input.
    fn number(&self, rank: usize, index: usize) -> f32 {
        let mut x = (rank as u64) << 40 ^ index as u64 ^ 0x9E37_79B9_7F4A_7C15;
        x = (x ^ (x >> 31)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        x ^= x >> 32;
        if self.combine == ReduceOp::Product {
            return if x & 1 == 0 { 1.0 } else { -1.0 };
        }
        // Sums over all ranks stay exact in eight bits.
        let span = if self.ranks() <= 64 { 5 } else { 3 };
        #[expect(clippy::cast_precision_loss, reason = "at most 5")]
        let number = (x % span) as f32 - (span / 2) as f32;
        number
    }

    /// Counts the wrong elements of all ranks (SWP-2).
    pub(super) fn wrong(
        &self,
        context: &mut Context,
        tensors: &[(Tensor, Tensor)],
        count: usize,
    ) -> Result<Option<u64>, SpawnError> {
        if !self.options.data {
            return Ok(None);
        }
        let outputs: Rc<Vec<Tensor>> =
            Rc::new(tensors.iter().map(|(_, output)| output.clone()).collect());
        let first = context.own_ranks(self.ranks()).start;
        let got = spawn(context, self.ranks(), move |rank, _| {
            let outputs = outputs.clone();
            async move { outputs[rank - first].to_vec().await }
        })?;
        let got = context.gather(got);
        // The combination is the same for all ranks.
        let combined: Vec<f32> = if self.operation.combines() {
            (0..self.elements(count)).map(|index| self.combined(index)).collect()
        } else {
            Vec::new()
        };
        let mut wrong = 0;
        for (rank, got) in got.iter().enumerate() {
            let is_wrong = |(index, got): &(usize, &f32)| {
                let expected = self.expected(rank, *index, count, &combined);
                // A zero may have either sign.
                expected.is_some_and(|expected| (**got - expected).abs() > 0.0 || got.is_nan())
            };
            wrong += got.iter().enumerate().filter(is_wrong).count() as u64;
        }
        Ok(Some(wrong))
    }

    /// The expected element of a rank; `None` where any value is right.
    fn expected(&self, rank: usize, index: usize, count: usize, combined: &[f32]) -> Option<f32> {
        Some(match self.operation {
            // The outputs of other ranks than the root are undefined.
            Operation::Reduce if rank != 0 => return None,
            Operation::AllReduce | Operation::Reduce => combined[index],
            Operation::ReduceScatter => combined[rank * count + index],
            Operation::AllGather | Operation::Gather => self.number(index / count, index % count),
            Operation::Broadcast => self.number(0, index),
            Operation::Scatter => self.number(0, rank * count + index),
            Operation::AllToAll => self.number(index / count, rank * count + index % count),
        })
    }

    /// Element `index` of all inputs, combined and rounded.
    fn combined(&self, index: usize) -> f32 {
        let numbers = (0..self.ranks()).map(|rank| self.number(rank, index));
        let binary = self.combine.binary();
        let all = numbers.reduce(|one, other| binary.apply(one, other)).unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "few ranks")]
        let ranks = self.ranks() as f32;
        if self.combine == ReduceOp::Avg { rounded(self.dtype, all / ranks) } else { all }
    }
}

/// A number rounded to a type.
fn rounded(dtype: DType, number: f32) -> f32 {
    if dtype.is_float() { Value::from_f32(dtype, &[number]).to_f32()[0] } else { number }
}
