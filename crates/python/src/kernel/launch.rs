//! Launching kernels.

use super::op::Op;
use super::program::KernelProgram;
use crate::error::{OrRaise, exception};
use crate::one_thread::OneThread;
use crate::rank::Rank;
use crate::tensor::Tensor;
use crate::work::Work;
use phalanx_sim::topology::PeId;
use phalanx_torch::{Arg, Grid};
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The state that all programs of a launch share.
pub(crate) struct Call {
    /// `begin(tl, views)` returns a function that starts the program's greenlet.
    pub(crate) begin: Py<PyAny>,
    pub(crate) greenlet: bool,
    /// True if a program runs on the PE that is free first: its PE depends on the time.
    pub(crate) is_queued: bool,
    kept: Rc<Kept>,
}

/// The lists of a kernel with its arguments, by program.
#[derive(Default)]
struct Kept {
    /// True if the lists may be played again.
    replays: bool,
    lists: RefCell<Vec<Option<Rc<Vec<Op>>>>>,
    look: RefCell<Option<String>>,
    /// Programs that recorded, that were replayed, and that ran as greenlets.
    counts: [Cell<u64>; 3],
}

impl Call {
    /// A launch that is not replayed.
    pub(crate) fn once(begin: Py<PyAny>) -> Self {
        Self { begin, greenlet: false, is_queued: false, kept: Rc::default() }
    }

    /// The list of an earlier program with this number.
    pub(crate) fn recorded(&self, number: usize) -> Option<Rc<Vec<Op>>> {
        if self.greenlet || !self.kept.replays {
            return None;
        }
        let list = self.kept.lists.borrow().get(number).cloned().flatten();
        if list.is_some() {
            count(&self.kept.counts[1]);
        }
        list
    }

    /// Keeps the list of a program that recorded everything, if it would record the same again.
    pub(crate) fn keep(&self, number: usize, list: &Rc<Vec<Op>>, is_same_again: bool) {
        count(&self.kept.counts[0]);
        if self.kept.replays && is_same_again {
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
        let kept = Kept { replays, ..Kept::default() };
        Self(OneThread::new(Rc::new(kept)))
    }

    /// Returns the reason why a program stopped recording, if one did.
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

/// A grid: its kind (`all`, `pes`, `cubes`, `on`), the numbers of that kind, chosen PEs as (cube, PE), and the programs along each
/// axis if there are others than one on each PE.
type GridParts = (String, Vec<usize>, Vec<(u16, u16)>, Option<Vec<usize>>);

fn read_grid(py: Python<'_>, sip: u32, parts: GridParts) -> PyResult<Grid> {
    let (kind, numbers, chosen, axes) = parts;
    let pes = match (kind.as_str(), numbers.as_slice()) {
        ("all", []) => Grid::All,
        ("pes", &[pes]) => Grid::Pes(pes),
        ("cubes", &[cubes, pes]) => Grid::Cubes { cubes, pes },
        ("on", []) => {
            Grid::On(chosen.into_iter().map(|(cube, pe)| PeId { sip, cube, pe }).collect())
        }
        _ => {
            return Err(exception(py, "ArgumentError", format!("no grid `{kind}` of {numbers:?}")));
        }
    };
    Ok(match axes {
        None => pes,
        Some(axes) => Grid::programs(axes).over(pes),
    })
}

#[pymethods]
impl Rank {
    /// Runs a kernel on each PE of a grid. Each tensor comes with whether the kernel writes it.
    #[expect(clippy::too_many_arguments, reason = "the parts of a launch")]
    fn launch(
        &self,
        py: Python<'_>,
        name: &str,
        grid: GridParts,
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
        let is_queued = grid.3.is_some();
        let call = Rc::new(Call { begin, greenlet, is_queued, kept: recordings.0.get()?.clone() });
        let kernel =
            move |tl, args: phalanx_torch::Args| KernelProgram::new(tl, &args, call.clone());
        let rank = self.get()?;
        let sip = u32::try_from(rank.rank()).unwrap_or(u32::MAX);
        let handle = rank.launch(name, read_grid(py, sip, grid)?, &args, kernel);
        handle.or_raise(py).map(Work::of_handle)
    }
}
