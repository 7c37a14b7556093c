//! Which elements of memory a load or store touches: a base, a shape, strides and a mask.

use super::tile::Shape;
use crate::memory::Region;
use crate::value::DType;
use std::rc::Rc;

/// Elements of memory, as a pointer with shape and strides (in elements).
#[derive(Clone, Debug)]
pub struct View {
    /// The virtual address of the first element.
    pub address: u64,
    /// Their type.
    pub dtype: DType,
    /// How many along each dimension.
    pub shape: Shape,
    /// How far apart along each dimension, in elements.
    pub strides: Shape,
    /// Which of them count.
    pub mask: Mask,
}

/// Which elements of a view are touched.
#[derive(Clone, Debug)]
pub enum Mask {
    /// All.
    All,
    /// Those whose index is below these bounds in every dimension.
    Below(Box<Shape>),
    /// Those that are `true`, row by row.
    Each(Rc<[bool]>),
}

impl Mask {
    /// Those whose index is below these bounds in every dimension.
    pub fn below(bounds: impl Into<Shape>) -> Self {
        Self::Below(Box::new(bounds.into()))
    }
}

impl View {
    /// A whole region, as one row.
    pub fn of(region: &Region) -> Self {
        Self::dense(region, 0, region.elements)
    }

    /// `len` elements from element `start` on.
    pub fn dense(region: &Region, start: usize, len: usize) -> Self {
        Self::strided(region, start, len, 1)
    }

    /// `shape` elements from element `start` on, `strides` apart.
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

    /// The block of `rows` by `columns` whose corner is `(row, column)` of a row-major matrix `width` wide.
    pub fn block(
        region: &Region,
        width: usize,
        (row, column): (usize, usize),
        [rows, columns]: [usize; 2],
    ) -> Self {
        Self::strided(region, row * width + column, [rows, columns], [width, 1])
    }

    /// The same with a mask.
    #[must_use]
    pub fn masked(mut self, mask: Mask) -> Self {
        self.mask = mask;
        self
    }

    /// How many elements from the base to the last one that is touched, plus one; 0 if none is.
    pub(super) fn reach(&self) -> usize {
        self.runs().iter().filter_map(|run| Some(run.memory? + run.len)).max().unwrap_or(0)
    }

    /// How many elements are touched.
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

    /// Whether the mask has the view's own shape.
    pub(super) fn mask_fits(&self) -> bool {
        match &self.mask {
            Mask::All => true,
            Mask::Below(bounds) => bounds.dims().len() == self.shape.dims().len(),
            Mask::Each(each) => each.len() == self.shape.elements(),
        }
    }

    /// The view cut into the longest runs that are adjacent both in the tile and in memory.
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

    /// How many elements there are, if they are adjacent and all of them count.
    #[inline]
    pub(super) fn dense_len(&self) -> Option<usize> {
        if !matches!(self.mask, Mask::All) {
            return None;
        }
        if let (Some(len), Some(1)) = (self.shape.row(), self.strides.row()) {
            return Some(len);
        }
        (self.strides == self.shape.strides()).then(|| self.shape.elements())
    }

    /// Where element `tile` of the tile stands, from the base (`None` if it is masked), and for how many elements
    /// of its row the same holds.
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

/// Adjacent elements: `len` of them from `tile` on in the tile and from `memory` on in memory (`None`: masked).
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

    /// The runs of a view, element by element.
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
