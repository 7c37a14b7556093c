//! Tiles and issued operations, as Python holds them.
//!
//! They name their program and a number in it, and nothing else: [`Running`] has the things themselves.

use super::op::{Op, Slot};
use super::running::{Running, active, give_up};
use super::tl::Tl;
use super::types::Type;
use crate::error::exception;
use phalanx_sim::DType;
use phalanx_sim::kernel::Shape;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A tile of a kernel. Its scratch memory, or its slot, is free when Python drops it.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Tile {
    pub(crate) program: u64,
    pub(crate) slot: Slot,
    dtype: DType,
    /// The shape that the tile was made with.
    shape: Shape,
    is_reshaped: AtomicBool,
    reshaped: Mutex<Option<Shape>>,
}

impl Drop for Tile {
    fn drop(&mut self) {
        give_up(self.program, Op::Free { tile: self.slot });
    }
}

impl Tile {
    pub(crate) fn new(program: u64, slot: Slot, (dtype, shape): Type) -> Self {
        let (is_reshaped, reshaped) = (AtomicBool::new(false), Mutex::new(None));
        Self { program, slot, dtype, shape, is_reshaped, reshaped }
    }

    pub(crate) fn tile_type(&self) -> Type {
        (self.dtype, self.current_shape())
    }

    fn current_shape(&self) -> Shape {
        if !self.is_reshaped.load(Ordering::Relaxed) {
            return self.shape;
        }
        self.reshaped.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(self.shape)
    }

    pub(crate) fn set_shape(&self, shape: Shape) {
        *self.reshaped.lock().unwrap_or_else(PoisonError::into_inner) = Some(shape);
        self.is_reshaped.store(true, Ordering::Relaxed);
    }
}

#[pymethods]
impl Tile {
    /// The context of the tile's kernel.
    #[getter]
    fn tl(&self, py: Python<'_>) -> PyResult<Py<Tl>> {
        let context = active(self.program)
            .and_then(|running| running.context.borrow().as_ref().map(|tl| tl.clone_ref(py)));
        let text = "the tile belongs to a kernel that is over, or whose turn it is not";
        context.ok_or_else(|| exception(py, "KernelError", text))
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &*self.current_shape().dims())
    }

    fn __repr__(&self) -> String {
        format!("<tile {}{}>", self.dtype, self.current_shape())
    }
}

/// The result of an operation.
#[derive(Clone, Copy)]
pub(crate) enum Made {
    Nothing,
    Tile(Slot, Type),
    Pair([(Slot, Type); 2]),
}

/// The answer of a call to Python: the result of the operation, or the issued operation that will have the result.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Made(Made),
    Issued(Slot, Made),
}

impl Made {
    /// The numbers of the tiles.
    fn slots(self) -> [Option<Slot>; 2] {
        match self {
            Self::Nothing => [None; 2],
            Self::Tile(slot, _) => [Some(slot), None],
            Self::Pair([(left, _), (right, _)]) => [Some(left), Some(right)],
        }
    }

    /// Gives the numbers back: the operation failed.
    pub(crate) fn release(self, running: &Running) {
        for slot in self.slots().into_iter().flatten() {
            running.tiles.borrow_mut().release(slot);
        }
    }
}

impl From<Made> for Answer {
    fn from(made: Made) -> Self {
        Self::Made(made)
    }
}

impl Answer {
    pub(crate) fn object(self, py: Python<'_>, program: u64) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::Made(Made::Nothing) => py.None(),
            Self::Made(Made::Tile(slot, made)) => {
                Py::new(py, Tile::new(program, slot, made))?.into_any()
            }
            Self::Made(Made::Pair(pair)) => {
                let pair = pair.map(|(slot, made)| Tile::new(program, slot, made));
                pair.into_pyobject(py)?.into_any().unbind()
            }
            Self::Issued(slot, made) => {
                Py::new(py, Issued { program, slot, made: Mutex::new(Some(made)) })?.into_any()
            }
        })
    }

    /// Gives the numbers back: the call failed.
    pub(crate) fn release(self, running: &Running) {
        match self {
            Self::Made(made) => made.release(running),
            Self::Issued(slot, made) => {
                running.issued.borrow_mut().release(slot);
                made.release(running);
            }
        }
    }
}

/// An operation that was issued: wait for its result.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Issued {
    pub(crate) program: u64,
    slot: Slot,
    made: Mutex<Option<Made>>,
}

impl Issued {
    /// The number, and its result, once.
    pub(crate) fn take(&self) -> Option<(Slot, Made)> {
        Some((self.slot, self.made.lock().unwrap_or_else(PoisonError::into_inner).take()?))
    }

    /// The number, if nobody has waited for the operation.
    pub(crate) fn open(&self) -> Option<Slot> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.is_some().then_some(self.slot)
    }
}

impl Drop for Issued {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let unused = made.map_or([None; 2], Made::slots);
        give_up(self.program, Op::Forget { issued: self.slot, unused });
    }
}
