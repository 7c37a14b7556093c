//! Tensors for Python.

use crate::error::{OrRaise, exception};
use crate::fiber::{Reply, wait};
use crate::one_thread::OneThread;
use crate::work::Work;
use bytemuck::allocation::cast_vec;
use half::{bf16, f16};
use phalanx_sim::value::Buffer;
use phalanx_sim::{DType, Value};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;

/// A tensor on a rank's SIP.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Tensor(OneThread<phalanx_torch::Tensor>);

impl Tensor {
    pub(crate) fn new(tensor: phalanx_torch::Tensor) -> Self {
        Self(OneThread::new(tensor))
    }

    pub(crate) fn get(&self) -> PyResult<&phalanx_torch::Tensor> {
        self.0.get()
    }
}

/// The elements of a list of tensors.
pub(crate) fn tensors(list: &[Py<Tensor>]) -> PyResult<Vec<phalanx_torch::Tensor>> {
    list.iter().map(|tensor| tensor.get().get().cloned()).collect()
}

#[pymethods]
impl Tensor {
    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        Ok(self.get()?.dtype().name())
    }

    #[getter]
    fn shape(&self) -> PyResult<Vec<usize>> {
        Ok(self.get()?.shape().to_vec())
    }

    #[getter]
    fn strides(&self) -> PyResult<Vec<usize>> {
        Ok(self.get()?.strides().to_vec())
    }

    #[getter]
    fn storage_offset(&self) -> PyResult<usize> {
        Ok(self.get()?.storage_offset())
    }

    #[getter]
    fn owner(&self) -> PyResult<usize> {
        Ok(self.get()?.owner().rank())
    }

    fn is_contiguous(&self) -> PyResult<bool> {
        Ok(self.get()?.is_contiguous())
    }

    fn describe(&self) -> PyResult<String> {
        Ok(format!("{:?}", self.get()?))
    }

    fn reshape(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Self> {
        self.get()?.reshape(shape).or_raise(py).map(Self::new)
    }

    fn narrow(&self, py: Python<'_>, dim: usize, start: usize, len: usize) -> PyResult<Self> {
        self.get()?.narrow(dim, start, len).or_raise(py).map(Self::new)
    }

    fn select(&self, py: Python<'_>, dim: usize, index: usize) -> PyResult<Self> {
        self.get()?.select(dim, index).or_raise(py).map(Self::new)
    }

    fn transpose(&self, py: Python<'_>, one: usize, other: usize) -> PyResult<Self> {
        self.get()?.transpose(one, other).or_raise(py).map(Self::new)
    }

    fn as_strided(
        &self,
        py: Python<'_>,
        shape: Vec<usize>,
        strides: Vec<usize>,
        further: usize,
    ) -> PyResult<Self> {
        self.get()?.as_strided(&shape, &strides, further).or_raise(py).map(Self::new)
    }

    fn chunk(&self, py: Python<'_>, count: usize, dim: usize) -> PyResult<Vec<Self>> {
        let chunks = self.get()?.chunk(count, dim).or_raise(py)?;
        Ok(chunks.into_iter().map(Self::new).collect())
    }

    fn contiguous(&self, py: Python<'_>) -> PyResult<Self> {
        self.get()?.contiguous().or_raise(py).map(Self::new)
    }

    fn copy(&self, py: Python<'_>, source: &Self) -> PyResult<Work> {
        self.get()?.copy_(source.get()?).or_raise(py).map(Work::of_handle)
    }

    fn fill(&self, py: Python<'_>, number: f64) -> PyResult<Work> {
        self.get()?.fill_(number).or_raise(py).map(Work::of_handle)
    }

    /// Waits for the last request that writes it.
    fn ready(&self, py: Python<'_>) -> Reply {
        let tensor = self.get()?.clone();
        wait(py, async move {
            let ended = tensor.ready().await;
            Python::attach(|py| ended.or_raise(py).map(|()| py.None()))
        })
    }

    /// Writes the elements of a contiguous buffer over the host link.
    fn write(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Work> {
        let tensor = self.get()?;
        let value = value_of(py, buffer, tensor.dtype(), tensor.shape())?;
        tensor.write_value(value).or_raise(py).map(Work::of_handle)
    }

    /// Replaces all elements by those of a contiguous buffer, without simulated time.
    fn place(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let tensor = self.get()?;
        tensor.place(&row_of(py, buffer, tensor.dtype())?).or_raise(py)
    }

    /// The elements as they are now, without simulated time.
    fn peek(&self, py: Python<'_>) -> PyResult<Elements> {
        self.get()?.peek().or_raise(py).map(Elements)
    }

    /// Reads the elements.
    fn read(&self, py: Python<'_>) -> Reply {
        let tensor = self.get()?.clone();
        wait(py, async move {
            let read = tensor.to_value().await;
            Python::attach(|py| Ok(Py::new(py, Elements(read.or_raise(py)?))?.into_any()))
        })
    }
}

/// Elements that were read.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Elements(Value);

#[pymethods]
impl Elements {
    /// Copies the elements into a contiguous array: into `uint8` the bytes; otherwise into `float32`, `int32`, `uint16`
    /// for f16 and bf16, and 8-bit floats into `float32`.
    fn copy_to(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<()> {
        copy_to(py, &self.0, array)
    }
}

/// Copies elements into a contiguous array, as [`Elements`] says.
pub(crate) fn copy_to(py: Python<'_>, value: &Value, array: &Bound<'_, PyAny>) -> PyResult<()> {
    let elements = value.elements();
    // The type that is likely comes first: a buffer of another type is an exception, which costs.
    let typed = match elements.dtype() {
        DType::F32 => filled::<f32>(py, array, || elements.of()),
        DType::I32 => filled::<i32>(py, array, || elements.of()),
        DType::F16 => filled::<u16>(py, array, || bytemuck::cast_slice(elements.of::<f16>())),
        DType::Bf16 => filled::<u16>(py, array, || bytemuck::cast_slice(elements.of::<bf16>())),
        _ => None,
    };
    if let Some(ended) = typed {
        return ended;
    }
    match PyBuffer::<u8>::get(array) {
        Ok(bytes) => bytes.copy_from_slice(py, elements.bytes()),
        Err(_) => PyBuffer::<f32>::get(array)?.copy_from_slice(py, &value.to_f32()),
    }
}

/// Fills an array of this type; `None` if it is of another type.
fn filled<'a, T: Element + 'a>(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    elements: impl FnOnce() -> &'a [T],
) -> Option<PyResult<()>> {
    let array = PyBuffer::<T>::get(array).ok()?;
    Some(array.copy_from_slice(py, elements()))
}

/// The elements of a contiguous buffer as a value: one copy.
pub(crate) fn row_of(py: Python<'_>, buffer: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Value> {
    // The type that is likely comes first, as above.
    let typed = match dtype {
        DType::F32 => elements::<f32>(py, buffer).ok().map(Value::from_vec),
        DType::I32 => elements::<i32>(py, buffer).ok().map(Value::from_vec),
        DType::F16 => {
            elements(py, buffer).ok().map(|all| Value::from_vec(cast_vec::<u16, f16>(all)))
        }
        DType::Bf16 => {
            elements(py, buffer).ok().map(|all| Value::from_vec(cast_vec::<u16, bf16>(all)))
        }
        _ => None,
    };
    if let Some(value) = typed {
        return Ok(value);
    }
    match PyBuffer::<u8>::get(buffer) {
        Ok(bytes) => Ok(Value::from_buffer(Buffer::from_bytes(dtype, &bytes.to_vec(py)?))),
        Err(_) => Ok(Value::from_f32(dtype, &elements::<f32>(py, buffer)?)),
    }
}

/// The same for a shape.
pub(crate) fn value_of(
    py: Python<'_>,
    buffer: &Bound<'_, PyAny>,
    dtype: DType,
    shape: &[usize],
) -> PyResult<Value> {
    let value = row_of(py, buffer, dtype)?;
    let wanted = shape.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
    if wanted == Some(value.len()) {
        return Ok(value);
    }
    let text = format!("{dtype}{shape:?} takes other than {} numbers", value.len());
    Err(exception(py, "ArgumentError", text))
}

fn elements<T: Element>(py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    PyBuffer::<T>::get(buffer)?.to_vec(py)
}
