//! Tensors in the memory that workers share.

use super::error::{OrRaise, exception};
use phalanx_runtime::{Argument, Buffer, Copied, DType, DataError, Error, Layout, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

/// The names of the element types, in the order of their numbers.
const NAMES: [(&str, DType); 8] = [
    ("u8", DType::U8),
    ("i32", DType::I32),
    ("i64", DType::I64),
    ("f16", DType::F16),
    ("bf16", DType::BF16),
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("u32", DType::U32),
];

/// The element type with this name.
pub(crate) fn dtype(py: Python<'_>, name: &str) -> PyResult<DType> {
    let found = NAMES.iter().find(|(its, _)| *its == name);
    found.map(|(_, dtype)| *dtype).ok_or_else(|| {
        let all: Vec<_> = NAMES.iter().map(|(name, _)| format!("`{name}`")).collect();
        let text = format!("no element type `{name}`, expected one of {}", all.join(", "));
        exception(py, "WorkerError", text)
    })
}

/// The name of an element type.
pub(crate) fn dtype_name(dtype: DType) -> &'static str {
    NAMES[usize::from(dtype as u8)].0
}

/// Bytes of the shared memory.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct SharedBuffer(pub(crate) Buffer);

#[pymethods]
impl SharedBuffer {
    fn __len__(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }

    /// A tensor of elements from byte `start` on; `strides` are distances of elements, and without them there are no gaps.
    #[pyo3(signature = (dtype, shape, start=0, strides=None))]
    fn tensor(
        &self,
        py: Python<'_>,
        dtype: &str,
        shape: Vec<u64>,
        start: u64,
        strides: Option<Vec<u64>>,
    ) -> PyResult<SharedTensor> {
        let dtype = self::dtype(py, dtype)?;
        let tensor = match strides {
            Some(strides) => self.0.strided(start, dtype, &shape, &strides),
            None => self.0.tensor(start, dtype, &shape),
        };
        tensor.or_raise(py).map(SharedTensor)
    }
}

/// A tensor of the shared memory.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct SharedTensor(pub(crate) Tensor);

#[pymethods]
impl SharedTensor {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.layout().shape())
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        dtype_name(self.0.layout().dtype)
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.layout().elements() * self.0.layout().dtype.bytes()
    }

    #[getter]
    fn buffer(&self) -> SharedBuffer {
        SharedBuffer(self.0.buffer().clone())
    }

    fn __len__(&self) -> usize {
        let length = self.0.layout().shape().first().copied().unwrap_or(0);
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        let layout = self.0.layout();
        format!(
            "Tensor({}, {:?}, {})",
            dtype_name(layout.dtype),
            layout.shape(),
            self.0.buffer().home()
        )
    }

    /// A part of it: a slice for each axis, from the first on.
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let all = match index.cast::<PyTuple>() {
            Ok(tuple) => tuple.clone(),
            Err(_) => PyTuple::new(py, [index])?,
        };
        let layout = self.0.layout();
        if all.len() > layout.shape().len() {
            let (given, axes) = (all.len(), layout.shape().len());
            let text = format!("{given} slices were given for {axes} axes");
            return Err(exception(py, "WorkerError", text));
        }
        self.cut(py, &all)
    }

    /// The task reads it.
    fn input(&self) -> SharedArgument {
        SharedArgument(self.0.input())
    }

    /// The task writes it whole.
    fn output(&self) -> SharedArgument {
        SharedArgument(self.0.output())
    }

    /// The task reads and writes it.
    fn in_out(&self) -> SharedArgument {
        SharedArgument(self.0.in_out())
    }

    /// The task writes a part of it.
    fn output_existing(&self) -> SharedArgument {
        SharedArgument(self.0.output_existing())
    }

    /// The task copies it, without order.
    fn no_dep(&self) -> SharedArgument {
        SharedArgument(self.0.no_dep())
    }
}

impl SharedTensor {
    /// Cuts the first axes by slices.
    fn cut(&self, py: Python<'_>, slices: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let layout = self.0.layout();
        let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
        let mut skipped = 0;
        for (axis, slice) in slices.iter().enumerate() {
            let Ok(slice) = slice.cast::<PySlice>() else {
                let text = "a tensor is cut by slices with steps of 1 or more: `x[0:4, ::2]`";
                return Err(exception(py, "WorkerError", text));
            };
            let length = isize::try_from(shape[axis]).unwrap_or(isize::MAX);
            let found = slice.indices(length)?;
            if found.step < 1 {
                let text = format!("a tensor is cut by steps of 1 or more: {}", found.step);
                return Err(exception(py, "WorkerError", text));
            }
            let [first, step] =
                [found.start, found.step].map(|number| number.unsigned_abs() as u64);
            shape[axis] = found.slicelength as u64;
            skipped += if shape[axis] > 0 { first * strides[axis] } else { 0 };
            strides[axis] *= step;
        }
        let start = self.0.start() + skipped * layout.dtype.bytes();
        let is_dense = Layout::dense(layout.dtype, &shape).is_ok_and(|dense| {
            let lengths = shape.iter().zip(strides.iter().zip(dense.strides()));
            // An axis of one element has no distance.
            lengths.into_iter().all(|(length, (ours, its))| *length <= 1 || ours == its)
        });
        let buffer = self.0.buffer();
        let tensor = if is_dense {
            buffer.tensor(start, layout.dtype, &shape)
        } else {
            buffer.strided(start, layout.dtype, &shape, &strides)
        };
        tensor.map_err(Error::from).or_raise(py).map(Self)
    }
}

/// A tensor, and its use by a task.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct SharedArgument(pub(crate) Argument);

#[pymethods]
impl SharedArgument {
    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Copies of the elements as bytes, in row-major order.
pub(crate) fn read_bytes(copied: &Copied) -> Result<Vec<u8>, DataError> {
    Ok(match copied.layout().dtype.bytes() {
        1 => copied.read_elements::<u8>()?,
        2 => bytemuck::cast_slice(&copied.read_elements::<u16>()?).to_vec(),
        4 => bytemuck::cast_slice(&copied.read_elements::<u32>()?).to_vec(),
        _ => bytemuck::cast_slice(&copied.read_elements::<u64>()?).to_vec(),
    })
}

/// Sets the elements from bytes, in row-major order.
pub(crate) fn write_bytes(copied: &Copied, bytes: &[u8]) -> Result<(), DataError> {
    match copied.layout().dtype.bytes() {
        1 => copied.write_elements::<u8>(bytes),
        2 => copied.write_elements::<u16>(&bytemuck::pod_collect_to_vec(bytes)),
        4 => copied.write_elements::<u32>(&bytemuck::pod_collect_to_vec(bytes)),
        _ => copied.write_elements::<u64>(&bytemuck::pod_collect_to_vec(bytes)),
    }
}
