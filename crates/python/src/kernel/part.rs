//! Algorithms of collectives whose kernel is Python: one rank's part, as that kernel sees it.

use super::launch::Call;
use super::op::{ArgumentView, QueueEnd, ViewMask};
use super::program::KernelProgram;
use super::queue::Queue;
use super::running::{Mode, QueueState};
use super::tl::Tl;
use super::view::View;
use crate::error::{Raised, exception};
use crate::machine::MachineSpec;
use crate::one_thread::OneThread;
use phalanx_sim::kernel::{self, Shape};
use phalanx_sim::spec;
use phalanx_torch::ccl::{
    self, Buffer, Channels, CollectiveAlgorithm, Operation, Running as Kernel,
};
use pyo3::prelude::*;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// An algorithm in Python.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Algorithm(Arc<Described>);

struct Described {
    name: String,
    operations: Vec<Operation>,
    channels: Channels,
    /// `fits(machine, members)` returns why it does not fit, or `None`.
    fits: Option<Py<PyAny>>,
    /// `begin(part)` returns what starts the kernel of a launch: a function of `tl` and views.
    begin: Py<PyAny>,
}

#[pymethods]
impl Algorithm {
    #[new]
    fn new(
        py: Python<'_>,
        name: String,
        operations: Vec<String>,
        channels: &str,
        fits: Option<Py<PyAny>>,
        begin: Py<PyAny>,
    ) -> PyResult<Self> {
        let refused = |text: String| exception(py, "ArgumentError", text);
        let find = |word: &String| {
            Operation::ALL.into_iter().find(|known| known.name() == word).ok_or_else(|| {
                let names: Vec<&str> = Operation::ALL.iter().map(|known| known.name()).collect();
                refused(format!("no operation `{word}`: there are {}", names.join(", ")))
            })
        };
        let operations = operations.iter().map(find).collect::<PyResult<_>>()?;
        let channels = channels
            .parse()
            .map_err(|_| refused(format!("channels is a number or `all`, not `{channels}`")))?;
        Ok(Self(Arc::new(Described { name, operations, channels, fits, begin })))
    }

    #[getter]
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }
}

impl Algorithm {
    /// The algorithm, for the Rust side.
    pub(crate) fn in_python(&self) -> InPython {
        InPython(self.0.clone())
    }
}

/// An algorithm in Python, as collectives use it.
pub(crate) struct InPython(Arc<Described>);

impl CollectiveAlgorithm for InPython {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn operations(&self) -> &[Operation] {
        &self.0.operations
    }

    fn channels(&self) -> Channels {
        self.0.channels
    }

    fn fits(&self, machine: &spec::MachineSpec, members: &[u32]) -> Result<(), String> {
        let Some(fits) = &self.0.fits else { return Ok(()) };
        Python::attach(|py| {
            let call = || -> PyResult<Option<String>> {
                let machine = Py::new(py, MachineSpec(machine.clone()))?;
                fits.bind(py).call1((machine, members.to_vec()))?.extract()
            };
            match call() {
                Ok(None) => Ok(()),
                Ok(Some(reason)) => Err(reason),
                Err(error) => Err(Raised::new(error).words()),
            }
        })
    }

    fn run(&self, part: ccl::Part, tl: kernel::Tl) -> Kernel<'static> {
        let views = memory(&part, &tl);
        let started = Python::attach(|py| {
            let part = Py::new(py, Part(OneThread::new(part)))?;
            self.0.begin.bind(py).call1((part,)).map(Bound::unbind)
        });
        match started {
            Ok(begin) => {
                Box::pin(KernelProgram::of_views(tl, Ok(views), Rc::new(Call::once(begin))))
            }
            Err(error) => {
                let error = super::program::foreign(Raised::new(error));
                Box::pin(std::future::ready(Err(error)))
            }
        }
    }
}

/// The memory of a part: the input, then each copy of the output.
fn memory(part: &ccl::Part, tl: &kernel::Tl) -> Vec<kernel::View> {
    let input = near(&part.input, tl);
    let regions = [&part.input.copies[input]].into_iter().chain(part.output.copies.iter());
    regions.map(|region| kernel::View::dense(region, 0, region.elements)).collect()
}

/// The copy in the PE's cube, or the first.
fn near(buffer: &Buffer, tl: &kernel::Tl) -> usize {
    buffer.copies.iter().position(|region| region.cube == tl.pe().cube).unwrap_or(0)
}

/// One rank's part in a collective.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Part(OneThread<ccl::Part>);

/// Elements of a vector.
type Elements = (usize, usize);

impl Part {
    fn get(&self) -> PyResult<&ccl::Part> {
        self.0.get()
    }

    fn view(buffer: &Buffer, arg: usize, (start, stop): Elements) -> View {
        let place = ArgumentView {
            arg: u32::try_from(arg).unwrap_or(u32::MAX),
            start: buffer.place(start),
            shape: Shape::from([stop.saturating_sub(start)].as_slice()),
            strides: Shape::from([1].as_slice()),
            mask: ViewMask::All,
        };
        View::new(place, buffer.copies[0].dtype)
    }

    /// Opens an end of a queue, unless the kernel runs through again: then the end is open.
    fn open(
        &self,
        py: Python<'_>,
        tl: &Tl,
        end: QueueEnd,
        rank: usize,
        receivers: usize,
    ) -> PyResult<Queue> {
        let part = self.get()?;
        if rank >= part.ranks {
            let text = format!("there is no rank {rank} of {}", part.ranks);
            return Err(exception(py, "ArgumentError", text));
        }
        let running = tl.running()?;
        let queue = running.queues.borrow_mut().reserve();
        if running.mode.get() != Mode::Again {
            let refused = |error| exception(py, "KernelError", error);
            let state = match end {
                QueueEnd::Sender => {
                    let opened = part.to(&running.tl, rank, receivers).map_err(refused)?;
                    QueueState::Sender(opened.into_sender())
                }
                QueueEnd::Receiver => {
                    let opened = part.from(&running.tl, rank, receivers).map_err(refused)?;
                    QueueState::Part(Rc::new((part.clone(), opened)))
                }
            };
            running.queues.borrow_mut().put(queue, state);
        }
        Ok(Queue::open(running.id, queue, end))
    }
}

#[pymethods]
impl Part {
    #[getter]
    fn operation(&self) -> PyResult<&'static str> {
        Ok(self.get()?.operation.name())
    }

    #[getter]
    fn op(&self) -> PyResult<&'static str> {
        Ok(self.get()?.combine.name())
    }

    #[getter]
    fn rank(&self) -> PyResult<usize> {
        Ok(self.get()?.rank)
    }

    #[getter]
    fn ranks(&self) -> PyResult<usize> {
        Ok(self.get()?.ranks)
    }

    #[getter]
    fn root(&self) -> PyResult<usize> {
        Ok(self.get()?.root)
    }

    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        Ok(self.get()?.dtype.name())
    }

    #[getter]
    fn lengths(&self) -> PyResult<Elements> {
        let part = self.get()?;
        Ok((part.input.len, part.output.len))
    }

    #[getter]
    fn is_in_place(&self) -> PyResult<bool> {
        Ok(self.get()?.is_in_place())
    }

    fn segment(&self, len: usize, index: usize) -> PyResult<Elements> {
        let Range { start, end } = self.get()?.segment(len, index);
        Ok((start, end))
    }

    fn chunks(&self, start: usize, stop: usize) -> PyResult<Vec<Elements>> {
        Ok(self.get()?.chunks(&(start..stop)).map(|chunk| (chunk.start, chunk.end)).collect())
    }

    fn to(&self, py: Python<'_>, tl: &Tl, rank: usize, receivers: usize) -> PyResult<Queue> {
        self.open(py, tl, QueueEnd::Sender, rank, receivers)
    }

    fn source(&self, py: Python<'_>, tl: &Tl, rank: usize, receivers: usize) -> PyResult<Queue> {
        self.open(py, tl, QueueEnd::Receiver, rank, receivers)
    }

    /// Elements of the input.
    fn input(&self, elements: Elements) -> PyResult<View> {
        let part = self.get()?;
        Ok(Self::view(&part.input, 0, elements))
    }

    /// Elements of the output, in the copy that is near.
    fn output(&self, tl: &Tl, elements: Elements) -> PyResult<View> {
        let part = self.get()?;
        let copy = near(&part.output, &tl.running()?.tl);
        Ok(Self::view(&part.output, 1 + copy, elements))
    }

    /// Elements of the output, in each copy.
    fn outputs(&self, elements: Elements) -> PyResult<Vec<View>> {
        let part = self.get()?;
        let copies = 0..part.output.copies.len();
        Ok(copies.map(|copy| Self::view(&part.output, 1 + copy, elements)).collect())
    }
}
