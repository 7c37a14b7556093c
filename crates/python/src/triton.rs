//! Triton kernels for Python: `phalanx.triton` reads them and launches them.

mod memory;

pub(crate) use memory::HostMemory;

use crate::context::Context;
use crate::error::{OrRaise, exception};
use crate::fiber::{Reply, wait};
use crate::one_thread::OneThread;
use crate::rank::{Rank, read_dtype};
use crate::tensor::{Tensor, copy_to, row_of};
use phalanx_sim::Value;
use phalanx_triton::{Argument, Kernel, Launched, Settings};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList, PyTuple};

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
    fn source_comments(&self) -> PyResult<String> {
        Ok(self.0.get()?.source_comments())
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
pub(crate) struct TritonWork(OneThread<Running>);

/// A launch, and the memories of the host that it may write.
struct Running {
    launched: Launched,
    written: Vec<(phalanx_torch::Tensor, Py<HostMemory>)>,
}

impl Running {
    /// The memories that the kernel may have written, as it left them.
    fn copy_back(&self, py: Python<'_>) -> PyResult<()> {
        for (tensor, memory) in &self.written {
            memory.get().fill(py, &tensor.peek().or_raise(py)?)?;
        }
        Ok(())
    }
}

#[pymethods]
impl TritonWork {
    fn wait(&self, py: Python<'_>) -> Reply {
        let launched = self.0.get()?.launched.clone();
        wait(py, async move {
            let ended = launched.wait().await;
            Python::attach(|py| ended.or_raise(py).map(|()| py.None()))
        })
    }

    /// Copies what the kernel wrote into the memories of the host.
    fn copy_back(&self, py: Python<'_>) -> PyResult<()> {
        self.0.get()?.copy_back(py)
    }
}

/// A memory of the host, and whether the kernel may write it.
type Span = (Py<HostMemory>, bool);

/// The input of a launch: arguments and memories of the host. An argument is a number, nothing, a pointer or a descriptor. A
/// pointer is `(memory, offset)`: a tensor or the number of a memory, and the bytes from its beginning; a descriptor is a pointer with shape,
/// strides, and whether elements beyond the tensor read as NaN.
struct Given {
    arguments: Vec<Argument>,
    mapped: Vec<(u64, phalanx_torch::Tensor)>,
    written: Vec<(phalanx_torch::Tensor, Py<HostMemory>)>,
}

impl Given {
    fn read(
        py: Python<'_>,
        rank: &phalanx_torch::Rank,
        arguments: &Bound<'_, PyList>,
        spans: Vec<Span>,
    ) -> PyResult<Self> {
        let (mut mapped, mut written) = (Vec::with_capacity(spans.len()), Vec::new());
        for (memory, is_written) in spans {
            let tensor = memory.get().tensor(py, rank)?.or_raise(py)?;
            mapped.push((memory.get().address(), tensor.clone()));
            if is_written && rank.has_data() {
                written.push((tensor, memory));
            }
        }
        let arguments = arguments
            .iter()
            .map(|argument| read_argument(&argument, &mapped))
            .collect::<Result<_, _>>()?;
        Ok(Self { arguments, mapped, written })
    }
}

/// Reads one argument. Types are asked for, not tried: an attempt that fails makes an exception, which costs.
fn read_argument(
    given: &Bound<'_, PyAny>,
    mapped: &[(u64, phalanx_torch::Tensor)],
) -> PyResult<Argument> {
    if let Ok(parts) = given.cast::<PyTuple>() {
        let first = parts.get_item(0)?;
        let tensor = if let Ok(tensor) = first.cast::<Tensor>() {
            tensor.get().get()?.clone()
        } else {
            let found = mapped.get(first.extract::<usize>()?);
            let missing = || PyIndexError::new_err("a memory that was not given");
            found.ok_or_else(missing)?.1.clone()
        };
        let offset = parts.get_item(1)?.extract()?;
        if parts.len() == 2 {
            return Ok(Argument::Pointer(tensor, offset));
        }
        let (shape, strides) = (parts.get_item(2)?.extract()?, parts.get_item(3)?.extract()?);
        let pads_with_nan = parts.get_item(4)?.extract()?;
        return Ok(Argument::Described { tensor, offset, shape, strides, pads_with_nan });
    }
    if given.is_none() {
        return Ok(Argument::Null);
    }
    if let Ok(float) = given.cast::<PyFloat>() {
        return Ok(Argument::Float(float.value()));
    }
    if let Ok(whole) = given.extract::<i64>() {
        return Ok(Argument::Whole(whole));
    }
    if let Ok(whole) = given.extract::<u64>() {
        return Ok(Argument::Whole(whole.cast_signed()));
    }
    given.extract().map(Argument::Float)
}

/// Programs along each axis, rounds whose loads are issued ahead, and the most rounds of loops of a program.
type Shape = ((usize, usize, usize), usize, u64);

fn begin(
    py: Python<'_>,
    rank: &phalanx_torch::Rank,
    kernel: &TritonKernel,
    arguments: &Bound<'_, PyList>,
    spans: Vec<Span>,
    ((grid, num_stages, step_limit), lines): (Shape, bool),
) -> PyResult<Running> {
    let given = Given::read(py, rank, arguments, spans)?;
    let settings = Settings { grid: [grid.0, grid.1, grid.2], num_stages, step_limit, lines };
    let launched = kernel.0.get()?.launch(rank, &given.arguments, &given.mapped, &settings);
    Ok(Running { launched: launched.or_raise(py)?, written: given.written })
}

#[pymethods]
impl Rank {
    /// Launches a Triton kernel with arguments and memories of the host.
    fn launch_triton(
        &self,
        py: Python<'_>,
        kernel: &TritonKernel,
        arguments: &Bound<'_, PyList>,
        spans: Vec<Span>,
        shape: Shape,
    ) -> PyResult<TritonWork> {
        let running = begin(py, self.get()?, kernel, arguments, spans, (shape, true))?;
        Ok(TritonWork(OneThread::new(running)))
    }
}

#[pymethods]
impl Context {
    /// Runs a Triton kernel to its end on a rank's SIP, and copies what it wrote back. Returns the simulated picoseconds.
    /// Without `lines`, the report does not tell of the kernel's lines.
    #[expect(clippy::too_many_arguments, reason = "called with positions alone, which costs least")]
    #[pyo3(signature = (rank, kernel, arguments, spans, shape, lines = true))]
    fn run_triton(
        &self,
        py: Python<'_>,
        rank: &Rank,
        kernel: &TritonKernel,
        arguments: &Bound<'_, PyList>,
        spans: Vec<Span>,
        shape: Shape,
        lines: bool,
    ) -> PyResult<u64> {
        let rank = rank.get()?;
        let begun = rank.now();
        let range = rank.range(kernel.0.get()?.name());
        let running = begin(py, rank, kernel, arguments, spans, (shape, lines))?;
        let launched = running.launched.clone();
        let ended =
            self.with(py, |context| context.block_on(rank, async move { launched.wait().await }))?;
        drop(range);
        self.finish(py, ended)?;
        let took = rank.now() - begun;
        let copied = running.copy_back(py);
        self.finish(py, Ok(()))?;
        copied?;
        Ok(took.as_ps())
    }
}

/// Computes the product of two row-major matrices by ascending `k` in f32, as matrix engines do, into `out`: `dims` are m, n and k.
#[pyfunction]
pub(crate) fn product(
    py: Python<'_>,
    left: &Bound<'_, PyAny>,
    right: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    dims: [usize; 3],
    dtype: &str,
) -> PyResult<()> {
    let dtype = read_dtype(py, dtype)?;
    let (left, right) = (row_of(py, left, dtype)?, row_of(py, right, dtype)?);
    let [m, n, k] = dims;
    if left.len() != m * k || right.len() != k * n {
        return Err(exception(
            py,
            "ArgumentError",
            "matrices of other sizes than those of the product",
        ));
    }
    copy_to(py, &Value::dot(&left, &right, dims, None).cast(dtype), out)
}
