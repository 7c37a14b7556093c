//! Launching kernels.

use super::op::Op;
use super::program::KernelProgram;
use crate::error::{OrRaise, exception};
use crate::one_thread::OneThread;
use crate::rank::Rank;
use crate::tensor::Tensor;
use crate::work::Work;
use phalanx_torch::{Arg, Grid};
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What all programs of a launch share.
pub(crate) struct Call {
    /// `begin(tl, views)` returns a function that starts the program's greenlet.
    pub(crate) begin: Py<PyAny>,
    pub(crate) greenlet: bool,
    kept: Rc<Kept>,
}

/// The lists of a kernel with its arguments, by program.
struct Kept {
    /// True if the lists may be played again.
    replays: bool,
    lists: RefCell<Vec<Option<Rc<[Op]>>>>,
    look: RefCell<Option<String>>,
    /// Programs that recorded, that were replayed, and that ran as greenlets.
    counts: [Cell<u64>; 3],
}

impl Call {
    /// The list of an earlier program with this number.
    pub(crate) fn recorded(&self, number: usize) -> Option<Rc<[Op]>> {
        if self.greenlet || !self.kept.replays {
            return None;
        }
        let list = self.kept.lists.borrow().get(number).cloned().flatten();
        if list.is_some() {
            count(&self.kept.counts[1]);
        }
        list
    }

    /// Keeps the list of a program that recorded everything.
    pub(crate) fn keep(&self, number: usize, list: &Rc<[Op]>) {
        count(&self.kept.counts[0]);
        if self.kept.replays {
            let mut lists = self.kept.lists.borrow_mut();
            if lists.len() <= number {
                lists.resize(number + 1, None);
            }
            lists[number] = Some(list.clone());
        }
    }

    /// Notes why a program stopped recording.
    pub(crate) fn looked(&self, why: String) {
        count(&self.kept.counts[2]);
        self.kept.look.replace(Some(why));
    }
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// The lists of a kernel with one kind of arguments.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Recordings(OneThread<Rc<Kept>>);

#[pymethods]
impl Recordings {
    #[new]
    fn new(replays: bool) -> Self {
        let kept = Kept {
            replays,
            lists: RefCell::default(),
            look: RefCell::default(),
            counts: Default::default(),
        };
        Self(OneThread::new(Rc::new(kept)))
    }

    /// Why a program stopped recording, if one did.
    fn look(&self) -> PyResult<Option<String>> {
        Ok(self.0.get()?.look.borrow().clone())
    }

    /// The number of programs that recorded, that were replayed, and that looked at something.
    fn counts(&self) -> PyResult<[u64; 3]> {
        Ok(self.0.get()?.counts.each_ref().map(Cell::get))
    }

    /// The number of operations of each list.
    fn lengths(&self) -> PyResult<Vec<usize>> {
        let kept = self.0.get()?;
        let lists = kept.lists.borrow();
        Ok(lists.iter().map(|list| list.as_ref().map_or(0, |list| list.len())).collect())
    }
}

/// The PEs of a launch: all, the first so many, or so many of each of so many cubes.
fn read_grid(py: Python<'_>, grid: &[usize]) -> PyResult<Grid> {
    match *grid {
        [] => Ok(Grid::All),
        [pes] => Ok(Grid::Pes(pes)),
        [cubes, pes] => Ok(Grid::Cubes { cubes, pes }),
        _ => Err(exception(py, "ArgumentError", "a grid has one or two numbers")),
    }
}

#[pymethods]
impl Rank {
    /// Runs a kernel on each PE of a grid. Each tensor comes with whether the kernel writes it.
    #[expect(clippy::too_many_arguments, reason = "the parts of a launch")]
    fn launch(
        &self,
        py: Python<'_>,
        name: &str,
        grid: Vec<usize>,
        tensors: Vec<(Py<Tensor>, bool)>,
        begin: Py<PyAny>,
        recordings: &Recordings,
        greenlet: bool,
    ) -> PyResult<Work> {
        let args: Vec<Arg> = tensors
            .iter()
            .map(|(tensor, writes)| {
                let tensor = tensor.get().get()?;
                Ok(if *writes { Arg::write(tensor) } else { Arg::read(tensor) })
            })
            .collect::<PyResult<_>>()?;
        let call = Rc::new(Call { begin, greenlet, kept: recordings.0.get()?.clone() });
        let kernel =
            move |tl, args: phalanx_torch::Args| KernelProgram::new(tl, &args, call.clone());
        let handle = self.get()?.launch(name, read_grid(py, &grid)?, &args, kernel);
        handle.or_raise(py).map(Work::of_handle)
    }
}
