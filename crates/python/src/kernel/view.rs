//! The memory of a kernel's arguments.

use super::op::{ArgumentView, ViewMask};
use crate::error::exception;
use phalanx_sim::DType;
use phalanx_sim::kernel::Shape;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PySlice, PyTuple};
use std::sync::Arc;

/// Elements of an argument: what a kernel loads and stores.
#[pyclass(frozen, module = "phalanx._core")]
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) place: Arc<ArgumentView>,
    pub(crate) dtype: DType,
}

/// Checked dimensions of a tile.
pub(crate) fn shape_of(py: Python<'_>, dims: &[usize]) -> PyResult<Shape> {
    if dims.len() > 4 {
        let text = format!("{} dimensions: a kernel's tile has at most four", dims.len());
        return Err(exception(py, "ArgumentError", text));
    }
    if let Some(dim) = dims.iter().find(|dim| **dim > u32::MAX as usize) {
        let text = format!("a dimension of {dim} elements: a tile has fewer than 2^32");
        return Err(exception(py, "ArgumentError", text));
    }
    Ok(Shape::from(dims))
}

/// The extent of a part of a view, dimension by dimension.
#[derive(Default)]
struct Extent {
    dims: [usize; 4],
    strides: [usize; 4],
    rank: usize,
}

impl Extent {
    /// Adds a dimension; a view has at most four.
    fn push(&mut self, dim: usize, stride: usize) {
        self.dims[self.rank] = dim;
        self.strides[self.rank] = stride;
        self.rank += 1;
    }
}

/// Takes one index along a dimension: returns how far the first element moves.
fn cut(
    py: Python<'_>,
    part: &Bound<'_, PyAny>,
    (dim, stride): (usize, usize),
    into: &mut Extent,
) -> PyResult<usize> {
    if let Ok(slice) = part.cast::<PySlice>() {
        let range = slice.indices(isize::try_from(dim).unwrap_or(isize::MAX))?;
        let (Ok(from), Ok(step)) = (usize::try_from(range.start), usize::try_from(range.step))
        else {
            return Err(exception(py, "ArgumentError", "a slice has a positive step"));
        };
        // One element has no neighbour: its stride does not matter.
        into.push(range.slicelength, if range.slicelength > 1 { step * stride } else { stride });
        return Ok(if range.slicelength > 0 { from * stride } else { 0 });
    }
    let Ok(index) = part.extract::<isize>() else {
        let text = "a view is indexed by whole numbers, slices and ...";
        return Err(PyTypeError::new_err(text));
    };
    Ok(position(index, dim)? * stride)
}

impl View {
    pub(crate) fn new(place: ArgumentView, dtype: DType) -> Self {
        Self { place: Arc::new(place), dtype }
    }

    fn with(&self, start: usize, shape: Shape, strides: Shape, mask: ViewMask) -> Self {
        Self::new(ArgumentView { arg: self.place.arg, start, shape, strides, mask }, self.dtype)
    }

    /// A part of the view.
    fn part(&self, py: Python<'_>, start: usize, extent: &Extent) -> PyResult<Self> {
        let Extent { dims, strides, rank } = extent;
        let (shape, strides) = (shape_of(py, &dims[..*rank])?, shape_of(py, &strides[..*rank])?);
        Ok(self.with(start, shape, strides, ViewMask::All))
    }

    fn refuse_mask(&self, py: Python<'_>) -> PyResult<()> {
        if matches!(self.place.mask, ViewMask::All) {
            return Ok(());
        }
        Err(exception(
            py,
            "ArgumentError",
            "a view with a mask cannot be cut further: mask it last",
        ))
    }
}

/// The error of an index with too many parts.
#[cold]
fn too_many(rank: usize) -> PyErr {
    PyIndexError::new_err(format!("too many indices: the view has {rank} dimensions"))
}

/// The place of one index along a dimension of `size`.
fn position(index: isize, size: usize) -> PyResult<usize> {
    let shifted = if index < 0 { index.checked_add_unsigned(size) } else { Some(index) };
    let found = shifted.and_then(|index| usize::try_from(index).ok()).filter(|index| *index < size);
    found.ok_or_else(|| {
        PyIndexError::new_err(format!("index {index} is out of range: there are {size}"))
    })
}

#[pymethods]
impl View {
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &*self.place.shape.dims())
    }

    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &*self.place.strides.dims())
    }

    fn numel(&self) -> usize {
        self.place.shape.elements()
    }

    /// A part by whole numbers, slices and `...`, as in numpy.
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.refuse_mask(py)?;
        let (dims, strides) = (self.place.shape.dims(), self.place.strides.dims());
        let along = |axis: usize| (dims[axis], strides[axis]);
        let rank = dims.len();
        let mut start = self.place.start;
        let mut extent = Extent::default();
        let Ok(parts) = index.cast::<PyTuple>() else {
            return if index.is_instance_of::<PyEllipsis>() {
                Ok(self.clone())
            } else if rank == 0 {
                Err(too_many(rank))
            } else {
                start += cut(py, index, along(0), &mut extent)?;
                (1..rank).for_each(|axis| extent.push(dims[axis], strides[axis]));
                self.part(py, start, &extent)
            };
        };
        let is_dots = |part: &Bound<'_, PyAny>| part.is_instance_of::<PyEllipsis>();
        let dots = parts.iter().filter(is_dots).count();
        if dots > 1 || parts.len() - dots > rank {
            return Err(too_many(rank));
        }
        let skipped = rank - (parts.len() - dots);
        let mut axis = 0;
        for part in parts.iter() {
            if is_dots(&part) {
                (axis..axis + skipped).for_each(|axis| extent.push(dims[axis], strides[axis]));
                axis += skipped;
            } else {
                start += cut(py, &part, along(axis), &mut extent)?;
                axis += 1;
            }
        }
        (axis..rank).for_each(|axis| extent.push(dims[axis], strides[axis]));
        self.part(py, start, &extent)
    }

    /// The block of `shape` elements from `start`; elements beyond the end are masked.
    fn block(&self, py: Python<'_>, start: Vec<usize>, shape: Vec<usize>) -> PyResult<Self> {
        self.refuse_mask(py)?;
        let (dims, strides) = (self.place.shape.dims(), self.place.strides.dims());
        if start.len() != dims.len() || shape.len() != dims.len() {
            let text = format!(
                "block: start and shape have {} and {} dimensions, the view has {}",
                start.len(),
                shape.len(),
                dims.len()
            );
            return Err(exception(py, "ArgumentError", text));
        }
        let inside: Vec<usize> = (0..dims.len())
            .map(|axis| shape[axis].min(dims[axis].saturating_sub(start[axis])))
            .collect();
        let from = self.place.start
            + (0..dims.len())
                .map(|axis| start[axis].min(dims[axis]) * strides[axis])
                .sum::<usize>();
        let mask =
            if inside == shape { ViewMask::All } else { ViewMask::Below(shape_of(py, &inside)?) };
        Ok(self.with(from, shape_of(py, &shape)?, self.place.strides, mask))
    }

    /// The elements whose index is below `bounds` in every dimension; the others are not touched.
    fn below(&self, py: Python<'_>, bounds: Vec<usize>) -> PyResult<Self> {
        self.refuse_mask(py)?;
        let ArgumentView { start, shape, strides, .. } = *self.place;
        Ok(self.with(start, shape, strides, ViewMask::Below(shape_of(py, &bounds)?)))
    }

    /// The elements marked true, row by row; the others are not touched.
    fn where_(&self, py: Python<'_>, each: Vec<bool>) -> PyResult<Self> {
        self.refuse_mask(py)?;
        let ArgumentView { start, shape, strides, .. } = *self.place;
        Ok(self.with(start, shape, strides, ViewMask::Each(each.into())))
    }

    /// Two dimensions exchanged.
    fn transpose(&self, py: Python<'_>, one: usize, other: usize) -> PyResult<Self> {
        self.refuse_mask(py)?;
        let (mut dims, mut strides) =
            (self.place.shape.dims().to_vec(), self.place.strides.dims().to_vec());
        if one.max(other) >= dims.len() {
            let text =
                format!("transpose: there is no dimension {} of {}", one.max(other), dims.len());
            return Err(exception(py, "ArgumentError", text));
        }
        dims.swap(one, other);
        strides.swap(one, other);
        let (shape, strides) = (shape_of(py, &dims)?, shape_of(py, &strides)?);
        Ok(self.with(self.place.start, shape, strides, ViewMask::All))
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.place.shape.dims().first().copied();
        first.ok_or_else(|| PyTypeError::new_err("len() of a view without dimensions"))
    }

    fn __repr__(&self) -> String {
        format!("<view {}{} of argument {}>", self.dtype, self.place.shape, self.place.arg)
    }
}
