//! Triton kernels for Python: `phalanx.triton` reads them and launches them.

use crate::error::{OrRaise, exception};
use crate::fiber::{Reply, wait};
use crate::one_thread::OneThread;
use crate::rank::Rank;
use crate::stream::Event;
use crate::tensor::Tensor;
use phalanx_triton::{Argument, Kernel, Launched, STEP_LIMIT, Settings};
use pyo3::prelude::*;

/// A kernel that was read from its TTIR.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct TritonKernel(OneThread<Kernel>);

#[pymethods]
impl TritonKernel {
    #[new]
    fn new(py: Python<'_>, ttir: &str) -> PyResult<Self> {
        let kernel = Kernel::read(ttir).map_err(|error| exception(py, "TritonError", error))?;
        Ok(Self(OneThread::new(kernel)))
    }

    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(self.0.get()?.name())
    }

    #[getter]
    fn arguments(&self) -> PyResult<Vec<String>> {
        Ok(self.0.get()?.arguments())
    }

    #[getter]
    fn written(&self) -> PyResult<Vec<bool>> {
        Ok(self.0.get()?.written())
    }

    #[getter]
    fn uses_pointers_from_memory(&self) -> PyResult<bool> {
        Ok(self.0.get()?.uses_pointers_from_memory())
    }
}

/// A launch of a Triton kernel.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct TritonWork(OneThread<Launched>);

#[pymethods]
impl TritonWork {
    fn wait(&self, py: Python<'_>) -> Reply {
        let launched = self.0.get()?.clone();
        wait(py, async move {
            let ended = launched.wait().await;
            Python::attach(|py| ended.or_raise(py).map(|()| py.None()))
        })
    }

    /// True if it is over; other processes run before it is false.
    fn is_completed(&self, py: Python<'_>) -> Reply {
        let launched = self.0.get()?.clone();
        wait(py, async move {
            let over = launched.handle().is_over();
            Python::attach(|py| Ok(over.into_pyobject(py)?.to_owned().into_any().unbind()))
        })
    }

    /// The end of the launch, for streams to wait for.
    fn event(&self) -> PyResult<Event> {
        Ok(Event::new(self.0.get()?.handle().event()))
    }

    /// When the first program began and when the last one ended, in picoseconds of simulated time.
    fn elapsed(&self) -> PyResult<Option<(u64, u64)>> {
        Ok(self.0.get()?.span().map(|(begin, end)| (begin.as_ps(), end.as_ps())))
    }
}

/// An argument from Python: a number, nothing, `(tensor, offset)`, or a descriptor.
#[derive(FromPyObject)]
enum Given {
    Bool(bool),
    Whole(i64),
    Unsigned(u64),
    Float(f64),
    Described((Py<Tensor>, u64, Vec<i64>, Vec<i64>, bool)),
    Pointer((Py<Tensor>, u64)),
    Tensor(Py<Tensor>),
}

impl Given {
    fn argument(self) -> PyResult<Argument> {
        Ok(match self {
            Self::Bool(is_set) => Argument::Whole(is_set.into()),
            Self::Whole(number) => Argument::Whole(number),
            Self::Unsigned(number) => Argument::Whole(number.cast_signed()),
            Self::Float(number) => Argument::Float(number),
            Self::Pointer((tensor, offset)) => {
                Argument::Pointer(tensor.get().get()?.clone(), offset)
            }
            Self::Tensor(tensor) => Argument::Pointer(tensor.get().get()?.clone(), 0),
            Self::Described((tensor, offset, shape, strides, pads_with_nan)) => {
                let tensor = tensor.get().get()?.clone();
                Argument::Described { tensor, offset, shape, strides, pads_with_nan }
            }
        })
    }
}

#[pymethods]
impl Rank {
    /// Launches a Triton kernel; `mapped` are tensors and the addresses at which the kernel finds them.
    #[expect(clippy::too_many_arguments, reason = "the parts of a launch")]
    #[pyo3(signature = (kernel, grid, arguments, num_stages, num_warps, mapped, step_limit=None))]
    fn launch_triton(
        &self,
        py: Python<'_>,
        kernel: &TritonKernel,
        grid: (usize, usize, usize),
        arguments: Vec<Option<Given>>,
        num_stages: usize,
        num_warps: usize,
        mapped: Vec<(u64, Py<Tensor>)>,
        step_limit: Option<u64>,
    ) -> PyResult<TritonWork> {
        // A PE runs one program at a time, whatever the number of warps.
        let _ = num_warps;
        let arguments: Vec<Argument> = arguments
            .into_iter()
            .map(|given| given.map_or(Ok(Argument::Null), Given::argument))
            .collect::<PyResult<_>>()?;
        let mapped: Vec<(u64, phalanx_torch::Tensor)> = mapped
            .iter()
            .map(|(address, tensor)| Ok((*address, tensor.get().get()?.clone())))
            .collect::<PyResult<_>>()?;
        let settings = Settings {
            grid: [grid.0, grid.1, grid.2],
            num_stages,
            step_limit: step_limit.unwrap_or(STEP_LIMIT),
        };
        let launched = kernel.0.get()?.launch(self.get()?, &arguments, &mapped, &settings);
        launched.or_raise(py).map(|launched| TritonWork(OneThread::new(launched)))
    }
}
