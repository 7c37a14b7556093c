//! Domains: windows of memory on some chips, and the domains of a task.

use super::child::Running;
use super::error::{OrRaise, exception};
use super::graph::seconds;
use super::tensor::{SharedTensor, dtype_name};
use phalanx_runtime::{self as runtime, DomainError, DomainView, OwnedDomain};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::sync::Arc;

/// A domain, as the code of a graph holds it.
#[pyclass(frozen, module = "phalanx._core", name = "RuntimeDomain")]
pub(crate) struct Domain(pub(crate) runtime::Domain);

#[pymethods]
impl Domain {
    #[getter]
    fn id(&self) -> u64 {
        self.0.id()
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn chips(&self) -> Vec<u32> {
        self.0.chips()
    }

    fn __len__(&self) -> usize {
        self.0.ranks()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }

    fn rank_of(&self, py: Python<'_>, chip: u32) -> PyResult<usize> {
        self.0.rank_of(chip).or_raise(py)
    }

    fn buffer(&self, py: Python<'_>, rank: usize, name: &str) -> PyResult<SharedTensor> {
        self.0.buffer(rank, name).or_raise(py).map(SharedTensor)
    }
}

/// A domain of a task, while the task runs.
#[pyclass(frozen, module = "phalanx._core", name = "TaskDomain")]
pub(crate) struct TaskDomain {
    pub(crate) running: Arc<Running>,
    pub(crate) domain: Arc<OwnedDomain>,
}

#[pymethods]
impl TaskDomain {
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.view(py, |view| Ok(view.name().to_owned()))
    }

    #[getter]
    fn rank(&self, py: Python<'_>) -> PyResult<usize> {
        self.view(py, |view| Ok(view.rank()))
    }

    #[getter]
    fn ranks(&self, py: Python<'_>) -> PyResult<usize> {
        self.view(py, |view| Ok(view.ranks()))
    }

    /// The element type, the shape and the bytes of an element of a buffer.
    fn layout(&self, py: Python<'_>, buffer: &str) -> PyResult<(&'static str, Vec<u64>)> {
        self.view(py, |view| {
            let buffer = view.buffer(buffer)?;
            let layout = buffer.layout();
            Ok((dtype_name(layout.dtype), layout.shape().to_vec()))
        })
    }

    /// Writes bytes into a buffer of a peer, from byte `offset` on.
    fn put(
        &self,
        py: Python<'_>,
        peer: usize,
        buffer: &str,
        offset: usize,
        bytes: &[u8],
    ) -> PyResult<()> {
        self.view(py, |view| view.put(peer, buffer, offset, bytes))
    }

    /// Reads `count` bytes of a buffer of a peer, from byte `offset` on.
    fn get<'py>(
        &self,
        py: Python<'py>,
        peer: usize,
        buffer: &str,
        offset: usize,
        count: usize,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let bytes = self.view(py, |view| {
            let mut bytes = vec![0; count];
            view.get(peer, buffer, offset, &mut bytes).map(|()| bytes)
        })?;
        Ok(PyByteArray::new(py, &bytes))
    }

    fn notify(&self, py: Python<'_>, peer: usize, cell: u32, value: u64) -> PyResult<()> {
        self.view(py, |view| view.notify(peer, cell, value))
    }

    fn notify_add(&self, py: Python<'_>, peer: usize, cell: u32, amount: u64) -> PyResult<()> {
        self.view(py, |view| view.notify_add(peer, cell, amount))
    }

    fn test(&self, py: Python<'_>, peer: usize, cell: u32) -> PyResult<u64> {
        self.view(py, |view| view.test(peer, cell))
    }

    fn wait(
        &self,
        py: Python<'_>,
        peer: usize,
        cell: u32,
        value: u64,
        timeout: f64,
    ) -> PyResult<u64> {
        let timeout = seconds(py, timeout)?;
        self.view(py, |view| view.wait(peer, cell, value, timeout))
    }

    fn barrier(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let timeout = seconds(py, timeout)?;
        self.view(py, |view| view.barrier(timeout))
    }
}

impl TaskDomain {
    fn view<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&DomainView<'_>) -> Result<T, DomainError> + Send,
    ) -> PyResult<T> {
        if self.running.is_over() {
            let text = "the task of this domain has ended: a domain is of use while its task runs";
            return Err(exception(py, "WorkerError", text));
        }
        let domain = &self.domain;
        py.detach(|| act(&domain.view()?)).or_raise(py)
    }
}
