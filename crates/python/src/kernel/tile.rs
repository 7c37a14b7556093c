//! Tiles and issued operations, as Python holds them.

use super::op::{Op, Slot};
use super::running::Running;
use super::tl::Tl;
use super::types::Type;
use crate::one_thread::OneThread;
use phalanx_sim::DType;
use phalanx_sim::kernel::Shape;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::Cell;
use std::rc::Rc;

/// A tile of a kernel. Its scratch memory, or its slot, is free when Python drops it.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Tile(OneThread<Held>);

/// A tile that Python holds.
pub(crate) struct Held {
    running: Rc<Running>,
    pub(crate) slot: Slot,
    dtype: DType,
    shape: Cell<Shape>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.running.give_up(Op::Free { tile: self.slot });
    }
}

impl Tile {
    pub(crate) fn new(running: &Rc<Running>, slot: Slot, (dtype, shape): Type) -> Self {
        let held = Held { running: running.clone(), slot, dtype, shape: Cell::new(shape) };
        Self(OneThread::new(held))
    }

    pub(crate) fn get(&self) -> PyResult<&Held> {
        self.0.get()
    }

    pub(crate) fn slot(&self) -> PyResult<Slot> {
        Ok(self.0.get()?.slot)
    }

    pub(crate) fn tile_type(&self) -> PyResult<Type> {
        let held = self.0.get()?;
        Ok((held.dtype, held.shape.get()))
    }

    pub(crate) fn set_shape(&self, shape: Shape) -> PyResult<()> {
        self.0.get()?.shape.set(shape);
        Ok(())
    }
}

impl Held {
    /// True if the tile is one of this program.
    pub(crate) fn is_of(&self, running: &Rc<Running>) -> bool {
        Rc::ptr_eq(&self.running, running)
    }
}

#[pymethods]
impl Tile {
    /// The context of the tile's kernel.
    #[getter]
    fn tl(&self) -> PyResult<Tl> {
        Ok(Tl::new(self.0.get()?.running.clone()))
    }

    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        Ok(self.0.get()?.dtype.name())
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &*self.0.get()?.shape.get().dims())
    }

    fn __repr__(&self) -> PyResult<String> {
        let held = self.0.get()?;
        Ok(format!("<tile {}{}>", held.dtype, held.shape.get()))
    }
}

/// What a call gives to Python when it is over.
#[derive(Clone)]
pub(crate) enum Made {
    Nothing,
    Tile(Slot, Type),
    Pair([(Slot, Type); 2]),
    Issued(Slot, Box<Made>),
}

impl Made {
    pub(crate) fn object(self, py: Python<'_>, running: &Rc<Running>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::Nothing => py.None(),
            Self::Tile(slot, made) => Py::new(py, Tile::new(running, slot, made))?.into_any(),
            Self::Pair(pair) => {
                let pair = pair.map(|(slot, made)| Tile::new(running, slot, made));
                pair.into_pyobject(py)?.into_any().unbind()
            }
            Self::Issued(slot, made) => {
                let issued =
                    Pledge { running: running.clone(), slot, made: Cell::new(Some(*made)) };
                Py::new(py, Issued(OneThread::new(issued)))?.into_any()
            }
        })
    }

    /// Gives the numbers back: the call failed.
    pub(crate) fn release(&self, running: &Running) {
        match self {
            Self::Nothing => {}
            Self::Tile(slot, _) => running.tiles.borrow_mut().release(*slot),
            Self::Pair(pair) => {
                for (slot, _) in pair {
                    running.tiles.borrow_mut().release(*slot);
                }
            }
            Self::Issued(slot, made) => {
                running.issued.borrow_mut().release(*slot);
                made.release(running);
            }
        }
    }
}

/// An operation that was issued: wait for its result.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Issued(OneThread<Pledge>);

pub(crate) struct Pledge {
    pub(crate) running: Rc<Running>,
    slot: Slot,
    made: Cell<Option<Made>>,
}

impl Issued {
    pub(crate) fn get(&self) -> PyResult<&Pledge> {
        self.0.get()
    }
}

impl Pledge {
    /// The number, and what it gives, once.
    pub(crate) fn take(&self) -> Option<(Slot, Made)> {
        Some((self.slot, self.made.take()?))
    }

    /// Puts back what [`Pledge::take`] gave.
    pub(crate) fn put(&self, made: Made) {
        self.made.set(Some(made));
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        if let Some(made) = self.made.take() {
            made.release(&self.running);
        }
        self.running.give_up(Op::Forget { issued: self.slot });
    }
}
