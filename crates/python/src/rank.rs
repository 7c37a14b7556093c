//! Ranks: making tensors and waiting.

use crate::error::{OrRaise, exception};
use crate::fiber::{Reply, wait};
use crate::one_thread::OneThread;
use crate::tensor::{Tensor, row_of, value_of};
use phalanx_sim::{DType, Time};
use phalanx_torch::{DpPolicy, Placed, Spread};
use pyo3::prelude::*;
use std::cell::RefCell;

/// The host program's side of one SIP.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Rank(OneThread<phalanx_torch::Rank>);

/// The placement of a tensor: spread over cubes, spread over PEs, number of cubes, number of PEs of each.
pub(crate) type Policy = (String, String, usize, usize);

impl Rank {
    pub(crate) fn new(rank: phalanx_torch::Rank) -> Self {
        Self(OneThread::new(rank))
    }

    pub(crate) fn get(&self) -> PyResult<&phalanx_torch::Rank> {
        self.0.get()
    }

    fn placed(&self, py: Python<'_>, policy: Option<&Policy>) -> PyResult<Placed<'_>> {
        let policy =
            policy.map_or_else(|| Ok(DpPolicy::default()), |policy| read_policy(py, policy))?;
        Ok(self.get()?.placed(policy))
    }
}

fn read_policy(py: Python<'_>, (cube, pe, num_cubes, num_pes): &Policy) -> PyResult<DpPolicy> {
    let spread = |name: &str| match name {
        "replicate" => Ok(Spread::Replicate),
        "row_wise" => Ok(Spread::RowWise),
        "column_wise" => Ok(Spread::ColumnWise),
        _ => {
            let text = format!(
                "DPPolicy: no spread `{name}`: allowed are replicate, row_wise, column_wise"
            );
            Err(exception(py, "ArgumentError", text))
        }
    };
    Ok(DpPolicy { cube: spread(cube)?, pe: spread(pe)?, num_cubes: *num_cubes, num_pes: *num_pes })
}

/// The element type of this name.
pub(crate) fn read_dtype(py: Python<'_>, name: &str) -> PyResult<DType> {
    name.parse().map_err(|error| exception(py, "DTypeError", error))
}

#[pymethods]
impl Rank {
    #[getter]
    fn rank(&self) -> PyResult<usize> {
        Ok(self.get()?.rank())
    }

    #[getter]
    fn world_size(&self) -> PyResult<usize> {
        Ok(self.get()?.world_size())
    }

    /// The facts of a PE that a kernel can learn without looking at the time: the SIP, its cubes and their PEs.
    fn identity(&self) -> PyResult<(usize, u32, u32)> {
        let (cubes, pes) = self.sizes()?;
        Ok((self.get()?.rank(), cubes, pes))
    }

    /// The simulated time, in picoseconds.
    fn now(&self) -> PyResult<u64> {
        Ok(self.get()?.now().as_ps())
    }

    /// True if the run computes numbers.
    fn has_data(&self) -> PyResult<bool> {
        Ok(self.get()?.has_data())
    }

    /// The number of cubes of the SIP and of PEs of each cube.
    fn sizes(&self) -> PyResult<(u32, u32)> {
        let machine = self.get()?.machine();
        Ok((machine.cubes.count(), machine.pes.count()))
    }

    fn sleep(&self, py: Python<'_>, picoseconds: u64) -> Reply {
        let rank = self.get()?.clone();
        wait(py, async move {
            rank.sleep(Time::ps(picoseconds)).await;
            Python::attach(|py| Ok(py.None()))
        })
    }

    fn synchronize(&self, py: Python<'_>) -> Reply {
        let rank = self.get()?.clone();
        wait(py, async move {
            let ended = rank.synchronize().await;
            Python::attach(|py| ended.or_raise(py).map(|()| py.None()))
        })
    }

    fn manual_seed(&self, seed: u64) -> PyResult<()> {
        self.get()?.manual_seed(seed);
        Ok(())
    }

    /// Opens a named range.
    fn range(&self, name: &str) -> PyResult<Range> {
        Ok(Range(OneThread::new(RefCell::new(Some(self.get()?.range(name))))))
    }

    #[pyo3(signature = (shape, dtype, policy=None))]
    fn empty(
        &self,
        py: Python<'_>,
        shape: Vec<usize>,
        dtype: &str,
        policy: Option<Policy>,
    ) -> PyResult<Tensor> {
        let made = self.placed(py, policy.as_ref())?.empty(shape, read_dtype(py, dtype)?);
        made.or_raise(py).map(Tensor::new)
    }

    #[pyo3(signature = (shape, number, dtype, policy=None))]
    fn full(
        &self,
        py: Python<'_>,
        shape: Vec<usize>,
        number: f64,
        dtype: &str,
        policy: Option<Policy>,
    ) -> PyResult<Tensor> {
        let made = self.placed(py, policy.as_ref())?.full(shape, number, read_dtype(py, dtype)?);
        made.or_raise(py).map(Tensor::new)
    }

    /// A tensor of the elements of a contiguous buffer: `float32`, `int32`, or `uint16` for f16 and bf16. With `resident` the
    /// elements are there before the program begins.
    #[pyo3(name = "from_buffer", signature = (buffer, shape, dtype, policy=None))]
    fn tensor_of(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        shape: Vec<usize>,
        dtype: &str,
        policy: Option<Policy>,
    ) -> PyResult<Tensor> {
        let dtype = read_dtype(py, dtype)?;
        let value = value_of(py, buffer, dtype, &shape)?;
        let made = self.placed(py, policy.as_ref())?.of_value(&shape, dtype, || value);
        made.or_raise(py).map(Tensor::new)
    }

    /// A tensor of the elements of a contiguous buffer, one row, in memory without simulated time.
    fn resident(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, dtype: &str) -> PyResult<Tensor> {
        let value = row_of(py, buffer, read_dtype(py, dtype)?)?;
        self.get()?.resident_value([value.len()], &value).or_raise(py).map(Tensor::new)
    }

    fn arange(
        &self,
        py: Python<'_>,
        start: f64,
        end: f64,
        step: f64,
        dtype: &str,
    ) -> PyResult<Tensor> {
        let made = self.get()?.arange(start, end, step, read_dtype(py, dtype)?);
        made.or_raise(py).map(Tensor::new)
    }

    fn rand(&self, py: Python<'_>, shape: Vec<usize>, dtype: &str) -> PyResult<Tensor> {
        self.get()?.rand(shape, read_dtype(py, dtype)?).or_raise(py).map(Tensor::new)
    }

    fn randn(&self, py: Python<'_>, shape: Vec<usize>, dtype: &str) -> PyResult<Tensor> {
        self.get()?.randn(shape, read_dtype(py, dtype)?).or_raise(py).map(Tensor::new)
    }
}

/// A named range of a rank, until it is closed.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Range(OneThread<RefCell<Option<phalanx_torch::Range>>>);

#[pymethods]
impl Range {
    fn close(&self) -> PyResult<()> {
        drop(self.0.get()?.take());
        Ok(())
    }
}
