//! Memory that host and SIP share in a program's eyes: its elements come and go in no simulated time.
//!
//! A program that was written for arrays of the host, such as one with kernels of Triton, has its arrays in the memory of the
//! SIP when a kernel begins, and sees what the kernel wrote when it is over.
//!
//! - **RES-1 (no time).** [`Rank::resident_value`], [`Tensor::place`] and [`Tensor::peek`] are no requests: they take no simulated
//!   time and no part in the order of requests. The program waits for requests that touch the tensor itself.

use super::Tensor;
use super::create::piece_of;
use crate::error::Error;
use crate::rank::Rank;
use phalanx_sim::value::Value;

impl Rank {
    /// Makes a tensor of the elements of a value, row by row, which are in memory when the call returns (RES-1).
    ///
    /// ```
    /// use phalanx_sim::{MachineSpec, Value, machine::Options};
    /// use phalanx_torch::Context;
    /// let mut context = Context::new(MachineSpec::preset("pair").unwrap(), Options::default());
    /// let got = context.run(|cx| async move {
    ///     let numbers = cx.resident_value([3], &Value::from_vec(vec![1.0_f32, 2.0, 3.0]))?;
    ///     assert_eq!(cx.now().as_ps(), 0);
    ///     numbers.peek()
    /// });
    /// assert_eq!(got.unwrap().to_f32(), [1.0, 2.0, 3.0]);
    /// ```
    pub fn resident_value(
        &self,
        shape: impl AsRef<[usize]>,
        value: &Value,
    ) -> Result<Tensor, Error> {
        let tensor = self.empty(shape, value.dtype())?;
        tensor.place(value)?;
        Ok(tensor)
    }
}

impl Tensor {
    /// Replaces all elements of a tensor that is all of its storage, now (RES-1).
    pub fn place(&self, value: &Value) -> Result<(), Error> {
        self.must_be_whole("place")?;
        if value.dtype() != self.dtype() || value.len() != self.numel() {
            return Err(Error::argument(format!(
                "place: {} cannot take {} elements of {}",
                self.describe(),
                value.len(),
                value.dtype()
            )));
        }
        for shard in self.shards() {
            let piece = piece_of(value, shard, self.storage.columns);
            self.rank.host().place(&shard.region, piece)?;
        }
        Ok(())
    }

    /// Returns the elements of a tensor that is all of its storage, as they are now (RES-1). Of several copies, the
    /// first.
    pub fn peek(&self) -> Result<Value, Error> {
        self.must_be_whole("peek")?;
        if !self.rank.has_data() {
            return Err(Error::NoData(format!("{self:?}")));
        }
        let Ok(region) = self.region() else { return self.peek_shards() };
        let value = self.rank.host().peek(&region)?;
        let value = value.ok_or_else(|| Error::NoData(format!("{self:?}")))?;
        self.rank.host().force(std::slice::from_ref(&value))?;
        Ok(value)
    }

    fn must_be_whole(&self, what: &str) -> Result<(), Error> {
        if self.is_whole() {
            return Ok(());
        }
        let words = format!("{what}: {} is a part of its storage; use the whole", self.describe());
        Err(Error::argument(words))
    }
}
