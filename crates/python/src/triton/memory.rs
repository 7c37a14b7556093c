//! Memory of the host that Triton's kernels point into.

use crate::error::exception;
use crate::rank::read_dtype;
use bytemuck::allocation::cast_vec;
use bytemuck::cast_slice;
use half::{bf16, f16};
use phalanx_sim::value::Buffer;
use phalanx_sim::{DType, Value};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

/// A memory of the host: its address, and its elements through an array over it. It is made once for many launches.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct HostMemory {
    address: u64,
    dtype: DType,
    elements: Elements,
}

/// The array over a memory, by the type of its elements.
enum Elements {
    F32(PyBuffer<f32>),
    I32(PyBuffer<i32>),
    /// Elements of f16 or bf16.
    Halves(PyBuffer<u16>),
    /// The bytes of any other type.
    Bytes(PyBuffer<u8>),
}

#[pymethods]
impl HostMemory {
    /// `array` is of `float32`, `int32`, of `uint16` for f16 and bf16, or of `uint8`: the bytes of any other type.
    #[new]
    fn new(py: Python<'_>, address: u64, array: &Bound<'_, PyAny>, dtype: &str) -> PyResult<Self> {
        let dtype = read_dtype(py, dtype)?;
        let elements = match dtype {
            DType::F32 => Elements::F32(PyBuffer::get(array)?),
            DType::I32 => Elements::I32(PyBuffer::get(array)?),
            DType::F16 | DType::Bf16 => Elements::Halves(PyBuffer::get(array)?),
            _ => Elements::Bytes(PyBuffer::get(array)?),
        };
        let memory = Self { address, dtype, elements };
        if memory.bytes().is_multiple_of(dtype.size()) {
            return Ok(memory);
        }
        Err(exception(py, "ArgumentError", "a memory that ends within an element"))
    }

    #[getter]
    fn dtype(&self) -> String {
        self.dtype.to_string()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes()
    }
}

impl HostMemory {
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// The elements as they are now.
    pub(super) fn value(&self, py: Python<'_>) -> PyResult<Value> {
        Ok(match &self.elements {
            Elements::F32(array) => Value::from_vec(array.to_vec(py)?),
            Elements::I32(array) => Value::from_vec(array.to_vec(py)?),
            Elements::Halves(array) if self.dtype == DType::F16 => {
                Value::from_vec(cast_vec::<u16, f16>(array.to_vec(py)?))
            }
            Elements::Halves(array) => Value::from_vec(cast_vec::<u16, bf16>(array.to_vec(py)?)),
            Elements::Bytes(array) => {
                Value::from_buffer(Buffer::from_bytes(self.dtype, &array.to_vec(py)?))
            }
        })
    }

    /// Replaces the elements by those of a value of the same type.
    pub(super) fn fill(&self, py: Python<'_>, value: &Value) -> PyResult<()> {
        let elements = value.elements();
        match &self.elements {
            Elements::F32(array) => array.copy_from_slice(py, elements.of()),
            Elements::I32(array) => array.copy_from_slice(py, elements.of()),
            Elements::Halves(array) if self.dtype == DType::F16 => {
                array.copy_from_slice(py, cast_slice(elements.of::<f16>()))
            }
            Elements::Halves(array) => array.copy_from_slice(py, cast_slice(elements.of::<bf16>())),
            Elements::Bytes(array) => array.copy_from_slice(py, elements.bytes()),
        }
    }

    /// A tensor of the memory's size, with its elements if the run has numbers.
    pub(super) fn tensor(
        &self,
        py: Python<'_>,
        rank: &phalanx_torch::Rank,
    ) -> PyResult<Result<phalanx_torch::Tensor, phalanx_torch::Error>> {
        if !rank.has_data() {
            return Ok(rank.empty([self.bytes() / self.dtype.size()], self.dtype));
        }
        let value = self.value(py)?;
        Ok(rank.resident_value([value.len()], &value))
    }

    fn bytes(&self) -> usize {
        match &self.elements {
            Elements::F32(array) => array.len_bytes(),
            Elements::I32(array) => array.len_bytes(),
            Elements::Halves(array) => array.len_bytes(),
            Elements::Bytes(array) => array.len_bytes(),
        }
    }
}
