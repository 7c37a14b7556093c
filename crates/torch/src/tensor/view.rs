//! Views: the same elements in another shape. Views share the storage, and with it the order of requests.

use super::{Tensor, dense};
use crate::error::Error;

impl Tensor {
    /// Views the same elements in another shape.
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Result<Self, Error> {
        let shape = shape.as_ref();
        let elements = shape.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
        if elements != Some(self.numel()) {
            return Err(self.cannot("reshape", format!("{shape:?} has another number of elements")));
        }
        if !self.is_contiguous() {
            return Err(self.cannot("reshape", "its elements are not adjacent; use `contiguous`"));
        }
        Ok(self.seen(shape.to_vec(), dense(shape), 0))
    }

    /// Views the indices `start..start + len` of dimension `dim`.
    pub fn narrow(&self, dim: usize, start: usize, len: usize) -> Result<Self, Error> {
        let size = self.dim("narrow", dim)?;
        if start.checked_add(len).is_none_or(|end| end > size) {
            let why = format!("{start}..+{len} is not within 0..{size} of dimension {dim}");
            return Err(self.cannot("narrow", why));
        }
        let mut shape = self.shape().to_vec();
        shape[dim] = len;
        Ok(self.seen(shape, self.strides().to_vec(), start * self.strides()[dim]))
    }

    /// Views one index of dimension `dim`; the dimension is removed.
    pub fn select(&self, dim: usize, index: usize) -> Result<Self, Error> {
        let one = self.narrow(dim, index, 1)?;
        let (mut shape, mut strides) = (one.shape().to_vec(), one.strides().to_vec());
        shape.remove(dim);
        strides.remove(dim);
        Ok(one.seen(shape, strides, 0))
    }

    /// Swaps two dimensions.
    pub fn transpose(&self, one: usize, other: usize) -> Result<Self, Error> {
        self.dim("transpose", one)?;
        self.dim("transpose", other)?;
        let (mut shape, mut strides) = (self.shape().to_vec(), self.strides().to_vec());
        shape.swap(one, other);
        strides.swap(one, other);
        Ok(self.seen(shape, strides, 0))
    }

    /// Cuts the tensor into `count` equal parts along dimension `dim`.
    pub fn chunk(&self, count: usize, dim: usize) -> Result<Vec<Self>, Error> {
        let size = self.dim("chunk", dim)?;
        if count == 0 || !size.is_multiple_of(count) {
            return Err(self.cannot("chunk", format!("{size} is not divisible by {count}")));
        }
        let len = size / count;
        (0..count).map(|part| self.narrow(dim, part * len, len)).collect()
    }

    /// Elements of the tensor's storage in another arrangement: `shape` and `strides`, beginning `further` elements after the
    /// first of this tensor.
    pub fn as_strided(
        &self,
        shape: &[usize],
        strides: &[usize],
        further: usize,
    ) -> Result<Self, Error> {
        if shape.len() != strides.len() {
            let why = format!("{} dimensions and {} strides", shape.len(), strides.len());
            return Err(self.cannot("as_strided", why));
        }
        let storage = self.storage.rows * self.storage.columns;
        let last = shape.iter().zip(strides).try_fold(further, |at, (dim, stride)| {
            at.checked_add(dim.saturating_sub(1).checked_mul(*stride)?)
        });
        let is_empty = shape.contains(&0);
        let fits = last.and_then(|last| last.checked_add(self.storage_offset()));
        if !is_empty && fits.is_none_or(|last| last >= storage) {
            let why = format!("{shape:?} by {strides:?} reaches beyond its {storage} elements");
            return Err(self.cannot("as_strided", why));
        }
        Ok(self.seen(shape.to_vec(), strides.to_vec(), if is_empty { 0 } else { further }))
    }

    fn seen(&self, shape: Vec<usize>, strides: Vec<usize>, further: usize) -> Self {
        let offset = self.storage_offset() + further;
        Self { shape: shape.into(), strides: strides.into(), offset, ..self.clone() }
    }

    fn dim(&self, operation: &str, dim: usize) -> Result<usize, Error> {
        let missing = || {
            self.cannot(operation, format!("there is no dimension {dim} of {}", self.shape().len()))
        };
        self.shape().get(dim).copied().ok_or_else(missing)
    }

    fn cannot(&self, operation: &str, why: impl std::fmt::Display) -> Error {
        Error::argument(format!("{operation} of {}: {why}", self.describe()))
    }
}
