//! The elements of memory that a load or store accesses: a base, a shape, strides and a mask.

use super::tile::Shape;
use crate::memory::Region;
use crate::value::DType;
use std::rc::Rc;

/// Elements of memory: a pointer with a shape and strides.
#[derive(Clone, Debug)]
pub struct View {
    /// Virtual address of the first element.
    pub address: u64,
    /// Type of the elements.
    pub dtype: DType,
    /// Number of elements along each dimension.
    pub shape: Shape,
    /// Distance of neighbours along each dimension, in elements.
    pub strides: Shape,
    /// Elements that are accessed.
    pub mask: Mask,
}

/// The elements of a view that are accessed.
#[derive(Clone, Debug)]
pub enum Mask {
    /// All elements.
    All,
    /// The elements whose index is below these bounds in every dimension.
    Below(Box<Shape>),
    /// The elements marked `true`, in row-major order.
    Each(Rc<[bool]>),
}

impl Mask {
    /// Selects the elements whose index is below these bounds in every dimension.
    pub fn below(bounds: impl Into<Shape>) -> Self {
        Self::Below(Box::new(bounds.into()))
    }
}

impl View {
    /// Returns a view of a whole region, with one dimension.
    pub fn of(region: &Region) -> Self {
        Self::dense(region, 0, region.elements)
    }

    /// Returns a view of `len` elements from element `start`.
    #[inline]
    pub fn dense(region: &Region, start: usize, len: usize) -> Self {
        Self::strided(region, start, len, 1)
    }

    /// Returns a view of `shape` elements from element `start`, `strides` apart.
    #[inline]
    pub fn strided(
        region: &Region,
        start: usize,
        shape: impl Into<Shape>,
        strides: impl Into<Shape>,
    ) -> Self {
        let address = region.address + (start * region.dtype.size()) as u64;
        Self {
            address,
            dtype: region.dtype,
            shape: shape.into(),
            strides: strides.into(),
            mask: Mask::All,
        }
    }

    /// Returns a view of the block of `rows` by `columns` at `(row, column)` of a row-major matrix of `width` columns.
    pub fn block(
        region: &Region,
        width: usize,
        (row, column): (usize, usize),
        [rows, columns]: [usize; 2],
    ) -> Self {
        Self::strided(region, row * width + column, [rows, columns], [width, 1])
    }

    /// Sets the mask.
    #[must_use]
    pub fn masked(mut self, mask: Mask) -> Self {
        self.mask = mask;
        self
    }

    /// Returns the distance from the base to the end of the last accessed element; 0 if none is accessed.
    pub(super) fn reach(&self) -> usize {
        self.runs().iter().filter_map(|run| Some(run.memory? + run.len)).max().unwrap_or(0)
    }

    /// Returns the number of accessed elements.
    #[inline]
    pub(super) fn touched(&self) -> usize {
        match &self.mask {
            Mask::All => self.shape.elements(),
            Mask::Below(bounds) => self
                .shape
                .dims()
                .iter()
                .zip(bounds.dims().iter())
                .map(|(dim, bound)| dim.min(bound))
                .product(),
            Mask::Each(each) => each.iter().filter(|touched| **touched).count(),
        }
    }

    /// Returns the bytes of the bursts that the accessed elements take: a run of adjacent elements takes whole bursts, and
    /// elements closer than a burst share bursts.
    pub(super) fn burst_bytes(&self, burst: u64) -> u64 {
        let size = self.dtype.size() as u64;
        if let Mask::Each(_) = self.mask {
            let runs = self.runs().into_iter().filter(|run| run.memory.is_some());
            return runs.map(|run| (run.len as u64 * size).next_multiple_of(burst)).sum();
        }
        let shape = match &self.mask {
            Mask::Below(bounds) => self.shape.within(bounds),
            _ => self.shape,
        };
        if shape.elements() == 0 {
            return 0;
        }
        let (lengths, strides) = (shape.dims(), self.strides.dims());
        // Dimensions by distance; elements in one place count once.
        let (mut dims, mut count) = ([(0, 0); 4], 0);
        for (stride, length) in strides.iter().zip(lengths.iter()) {
            if *stride > 0 && *length > 1 {
                dims[count] = (*stride as u64 * size, *length as u64);
                count += 1;
            }
        }
        dims[..count].sort_unstable();
        let (mut run, mut runs) = (size, 1);
        for &(stride, length) in &dims[..count] {
            // Neighbours that are less than a burst apart form one run, gaps included.
            if runs == 1 && stride < run.next_multiple_of(burst).max(run + 1) {
                run += stride * (length - 1);
            } else {
                runs *= length;
            }
        }
        runs * run.next_multiple_of(burst)
    }

    /// True if the mask has the shape of the view.
    pub(super) fn mask_fits(&self) -> bool {
        match &self.mask {
            Mask::All => true,
            Mask::Below(bounds) => bounds.dims().len() == self.shape.dims().len(),
            Mask::Each(each) => each.len() == self.shape.elements(),
        }
    }

    /// Cuts the view into the longest runs that are adjacent both in the tile and in memory.
    pub(super) fn runs(&self) -> Vec<Run> {
        if let Some(len) = self.dense_len().filter(|len| *len > 0) {
            return vec![Run { tile: 0, memory: Some(0), len }];
        }
        let mut runs: Vec<Run> = Vec::new();
        let (mut tile, elements) = (0, self.shape.elements());
        while tile < elements {
            let (memory, len) = self.locate(tile);
            match runs.last_mut() {
                Some(run) if run.continues(memory) => run.len += len,
                _ => runs.push(Run { tile, memory, len }),
            }
            tile += len;
        }
        runs
    }

    /// Returns the number of elements, if they are adjacent and all are accessed.
    #[inline]
    pub(super) fn dense_len(&self) -> Option<usize> {
        if !matches!(self.mask, Mask::All) {
            return None;
        }
        if let (Some(len), Some(1)) = (self.shape.one_dimension(), self.strides.one_dimension()) {
            return Some(len);
        }
        (self.strides == self.shape.strides()).then(|| self.shape.elements())
    }

    /// Returns the offset of element `tile` from the base (`None` if masked), and the number of elements of its row for
    /// which the same holds.
    fn locate(&self, tile: usize) -> (Option<usize>, usize) {
        let mut rest = tile;
        let mut at = 0;
        let mut inside = true;
        let mut len = 1;
        let last = self.shape.dims().len().wrapping_sub(1);
        for axis in (0..self.shape.dims().len()).rev() {
            let dim = self.shape.dims()[axis];
            let index = rest % dim;
            rest /= dim;
            let stride = self.strides.dims()[axis];
            at += index * stride;
            let mut end = dim;
            if let Mask::Below(bounds) = &self.mask {
                let bound = bounds.dims()[axis];
                inside &= index < bound;
                end = if index < bound { dim.min(bound) } else { dim };
            }
            if axis == last && (stride == 1 || !inside) {
                len = end - index;
            }
        }
        if let Mask::Each(each) = &self.mask {
            (inside, len) = (each[tile], 1);
        }
        (inside.then_some(at), len)
    }
}

/// Adjacent elements: `len` elements from `tile` in the tile and from `memory` in memory (`None`: masked).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) tile: usize,
    pub(super) memory: Option<usize>,
    pub(super) len: usize,
}

impl Run {
    fn continues(&self, memory: Option<usize>) -> bool {
        match (self.memory, memory) {
            (Some(start), Some(next)) => start + self.len == next,
            (None, None) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the runs of a view, found element by element.
    fn slowly(view: &View) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for tile in 0..view.shape.elements() {
            let (memory, _) = view.locate(tile);
            match runs.last_mut() {
                Some(run) if run.continues(memory) => run.len += 1,
                _ => runs.push(Run { tile, memory, len: 1 }),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn whole_rows_give_the_runs_of_their_elements(
            dims in prop::collection::vec((1..5usize, 0..4usize, 0..6usize), 1..5),
            below in any::<bool>(),
        ) {
            let shape = |pick: fn(&(usize, usize, usize)) -> usize| {
                Shape::from(dims.iter().map(pick).collect::<Vec<_>>().as_slice())
            };
            let mask = if below { Mask::below(shape(|dim| dim.2)) } else { Mask::All };
            let view = View {
                address: 0, dtype: DType::F32, shape: shape(|dim| dim.0), strides: shape(|dim| dim.1), mask,
            };
            prop_assert_eq!(view.runs(), slowly(&view));
        }
    }
}
