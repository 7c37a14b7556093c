//! Elements of a region that a host reads: a start, a shape and strides, of any rank.

use crate::memory::{MemoryError, Mmu, Region};
use crate::value::Value;

/// Elements of a region, in row-major order of `shape`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The first element.
    pub start: usize,
    /// Number of elements along each dimension.
    pub shape: Vec<usize>,
    /// Distance of neighbours along each dimension, in elements.
    pub strides: Vec<usize>,
}

impl Selection {
    /// Selects `len` adjacent elements.
    pub fn dense(start: usize, len: usize) -> Self {
        Self { start, shape: vec![len], strides: vec![1] }
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the number of elements from the first to the last in memory, both included.
    fn span(&self) -> usize {
        if self.elements() == 0 {
            return 0;
        }
        self.shape.iter().zip(&self.strides).map(|(n, stride)| (n - 1) * stride).sum::<usize>() + 1
    }

    /// Reads the elements from memory.
    pub(super) fn read(&self, mmu: &Mmu, region: &Region) -> Result<Value, MemoryError> {
        let span = self.span();
        if span == 0 {
            return Ok(Value::zeros(region.dtype, 0));
        }
        let address = region.address + (self.start * region.dtype.size()) as u64;
        let first = mmu.find(address, region.dtype, span).map_err(|error| *error)?;
        if let Some((value, at)) = mmu.covering(first, span) {
            return Ok(value.strided(at, &self.shape, &self.strides));
        }
        if span == self.elements() {
            // Every element of the span is read, in this order or in another.
            return Ok(mmu.read(first, 0, span)?.strided(0, &self.shape, &self.strides));
        }
        let pieces: Result<Vec<Value>, MemoryError> =
            self.runs().map(|(at, len)| mmu.read(first, at, len)).collect();
        Ok(Value::concat(&pieces?))
    }

    /// Returns the adjacent elements, in order: their distance from the start and their number.
    fn runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (mut len, mut inner) = (1, self.shape.len());
        while inner > 0 && (self.strides[inner - 1] == len || self.shape[inner - 1] == 1) {
            inner -= 1;
            len *= self.shape[inner];
        }
        let outer = &self.shape[..inner];
        (0..outer.iter().product()).map(move |number: usize| {
            let (mut rest, mut at) = (number, 0);
            for (n, stride) in outer.iter().zip(&self.strides).rev() {
                at += rest % n * stride;
                rest /= n;
            }
            (at, len)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Hbm;
    use crate::time::{Bytes, Capacity};
    use crate::value::DType;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_selection_reads_its_elements_one_by_one(
            start in 0..5usize,
            dims in prop::collection::vec((0..4usize, 0..5usize), 0..6),
            cuts in prop::collection::vec(0..200usize, 0..4),
        ) {
            let mut mmu = Mmu::new(0, true);
            let mut hbm = Hbm::new(Capacity::Limited(Bytes(4096)));
            let region = mmu.map(&mut hbm, 0, DType::I32, 200).unwrap();
            let whole: Vec<i32> = (0..200).collect();
            mmu.write(mmu.start_of(&region).unwrap(), 0, Value::from_i32(&whole));
            for cut in cuts {
                let piece = Value::from_i32(&whole[cut..]);
                mmu.write(mmu.start_of(&region).unwrap(), cut, piece);
            }
            let (shape, strides) = dims.into_iter().unzip();
            let selection = Selection { start, shape, strides };
            let mut slowly = vec![start];
            for (n, stride) in selection.shape.iter().zip(&selection.strides) {
                slowly = slowly.iter().flat_map(|at| (0..*n).map(move |i| at + i * stride)).collect();
            }
            let slowly: Vec<i32> = slowly.into_iter().map(|at| whole[at]).collect();
            prop_assert_eq!(selection.read(&mmu, &region).unwrap().to_i32(), slowly);
        }

        #[test]
        fn a_selection_does_not_touch_the_gaps(rows in 1..6usize, wide in 1..5usize, gap in 0..3usize) {
            let mut mmu = Mmu::new(0, true);
            let mut hbm = Hbm::new(Capacity::Limited(Bytes(4096)));
            let region = mmu.map(&mut hbm, 0, DType::F32, rows * (wide + gap)).unwrap();
            for row in 0..rows {
                let start = mmu.start_of(&region).unwrap();
                mmu.write(start, row * (wide + gap), Value::full(DType::F32, wide, 1.0));
            }
            let selection = Selection { start: 0, shape: vec![rows, wide], strides: vec![wide + gap, 1] };
            let read = selection.read(&mmu, &region).unwrap();
            prop_assert_eq!(read.to_f32(), vec![1.0; rows * wide]);
        }
    }
}
