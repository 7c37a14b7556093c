//! Communication between ranks, for `phalanx/distributed.py`. No operation waits: each returns its [`Work`].

use crate::error::{OrRaise, exception};
use crate::one_thread::OneThread;
use crate::rank::Rank;
use crate::tensor::{Tensor, tensors};
use crate::work::Work;
use phalanx_sim::Time;
use phalanx_torch::distributed::{self as dist, ProcessGroup, ReduceOp};
use pyo3::prelude::*;

/// A group of ranks.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Group(OneThread<ProcessGroup>);

impl Group {
    pub(crate) fn new(group: ProcessGroup) -> Self {
        Self(OneThread::new(group))
    }

    pub(crate) fn get(&self) -> PyResult<&ProcessGroup> {
        self.0.get()
    }
}

#[pymethods]
impl Group {
    #[getter]
    fn members(&self) -> PyResult<Vec<usize>> {
        Ok(self.get()?.members().to_vec())
    }

    #[getter]
    fn rank(&self) -> PyResult<Option<usize>> {
        Ok(self.get()?.rank())
    }
}

/// The given group, on its own thread.
pub(crate) fn given(group: Option<&Py<Group>>) -> PyResult<Option<&ProcessGroup>> {
    group.map(|group| group.get().get()).transpose()
}

fn read_op(py: Python<'_>, name: &str) -> PyResult<ReduceOp> {
    ReduceOp::ALL.into_iter().find(|op| op.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ReduceOp::ALL.iter().map(|op| op.name()).collect();
        let text = format!("no reduction `{name}`: allowed are {}", names.join(", "));
        exception(py, "ArgumentError", text)
    })
}

#[pymethods]
impl Rank {
    fn init_process_group(&self, py: Python<'_>) -> PyResult<Group> {
        dist::init_process_group(self.get()?).or_raise(py).map(Group::new)
    }

    fn destroy_process_group(&self, py: Python<'_>, group: Option<Py<Group>>) -> PyResult<()> {
        dist::destroy_process_group(self.get()?, given(group.as_ref())?).or_raise(py)
    }

    fn new_group(&self, py: Python<'_>, ranks: Vec<usize>) -> PyResult<Group> {
        dist::new_group(self.get()?, &ranks).or_raise(py).map(Group::new)
    }

    fn group_rank(&self, py: Python<'_>, group: Option<Py<Group>>) -> PyResult<Option<usize>> {
        dist::get_rank(self.get()?, given(group.as_ref())?).or_raise(py)
    }

    fn group_size(&self, py: Python<'_>, group: Option<Py<Group>>) -> PyResult<Option<usize>> {
        dist::get_world_size(self.get()?, given(group.as_ref())?).or_raise(py)
    }

    fn all_reduce(
        &self,
        py: Python<'_>,
        tensor: &Tensor,
        op: &str,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let (op, group) = (read_op(py, op)?, given(group.as_ref())?);
        dist::all_reduce_async(self.get()?, tensor.get()?, op, group).or_raise(py).map(Work::new)
    }

    fn reduce(
        &self,
        py: Python<'_>,
        tensor: &Tensor,
        dst: usize,
        op: &str,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let (op, group) = (read_op(py, op)?, given(group.as_ref())?);
        dist::reduce_async(self.get()?, tensor.get()?, dst, op, group).or_raise(py).map(Work::new)
    }

    fn reduce_scatter(
        &self,
        py: Python<'_>,
        output: &Tensor,
        input: &Tensor,
        op: &str,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let (op, group) = (read_op(py, op)?, given(group.as_ref())?);
        let work = dist::reduce_scatter_async(self.get()?, output.get()?, input.get()?, op, group);
        work.or_raise(py).map(Work::new)
    }

    fn all_gather(
        &self,
        py: Python<'_>,
        output: &Tensor,
        input: &Tensor,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let group = given(group.as_ref())?;
        let work = dist::all_gather_async(self.get()?, output.get()?, input.get()?, group);
        work.or_raise(py).map(Work::new)
    }

    fn all_gather_list(
        &self,
        py: Python<'_>,
        outputs: Vec<Py<Tensor>>,
        input: &Tensor,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let (outputs, group) = (tensors(&outputs)?, given(group.as_ref())?);
        let work = dist::all_gather_list_async(self.get()?, &outputs, input.get()?, group);
        work.or_raise(py).map(Work::new)
    }

    fn broadcast(
        &self,
        py: Python<'_>,
        tensor: &Tensor,
        src: usize,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let group = given(group.as_ref())?;
        dist::broadcast_async(self.get()?, tensor.get()?, src, group).or_raise(py).map(Work::new)
    }

    fn scatter(
        &self,
        py: Python<'_>,
        output: &Tensor,
        list: Option<Vec<Py<Tensor>>>,
        src: usize,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let list = list.map(|list| tensors(&list)).transpose()?;
        let group = given(group.as_ref())?;
        let work =
            dist::scatter_list_async(self.get()?, output.get()?, list.as_deref(), src, group);
        work.or_raise(py).map(Work::new)
    }

    fn scatter_tensor(
        &self,
        py: Python<'_>,
        output: &Tensor,
        input: Option<Py<Tensor>>,
        src: usize,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let input = input.as_ref().map(|input| input.get().get()).transpose()?;
        let group = given(group.as_ref())?;
        let work = dist::scatter_async(self.get()?, output.get()?, input, src, group);
        work.or_raise(py).map(Work::new)
    }

    fn gather(
        &self,
        py: Python<'_>,
        input: &Tensor,
        list: Option<Vec<Py<Tensor>>>,
        dst: usize,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let list = list.map(|list| tensors(&list)).transpose()?;
        let group = given(group.as_ref())?;
        let work = dist::gather_list_async(self.get()?, input.get()?, list.as_deref(), dst, group);
        work.or_raise(py).map(Work::new)
    }

    fn gather_tensor(
        &self,
        py: Python<'_>,
        input: &Tensor,
        output: Option<Py<Tensor>>,
        dst: usize,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let output = output.as_ref().map(|output| output.get().get()).transpose()?;
        let group = given(group.as_ref())?;
        let work = dist::gather_async(self.get()?, input.get()?, output, dst, group);
        work.or_raise(py).map(Work::new)
    }

    fn all_to_all(
        &self,
        py: Python<'_>,
        output: &Tensor,
        input: &Tensor,
        output_split_sizes: Option<Vec<usize>>,
        input_split_sizes: Option<Vec<usize>>,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let work = dist::all_to_all_async(
            self.get()?,
            output.get()?,
            input.get()?,
            output_split_sizes.as_deref(),
            input_split_sizes.as_deref(),
            given(group.as_ref())?,
        );
        work.or_raise(py).map(Work::new)
    }

    fn barrier(&self, py: Python<'_>, group: Option<Py<Group>>) -> PyResult<Work> {
        dist::barrier_async(self.get()?, given(group.as_ref())?).or_raise(py).map(Work::new)
    }

    /// Waits for all ranks of a group, and fails after `picoseconds` with the ranks that are missing.
    fn monitored_barrier(
        &self,
        py: Python<'_>,
        picoseconds: u64,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let (timeout, group) = (Time::ps(picoseconds), given(group.as_ref())?);
        dist::monitored_barrier_async(self.get()?, timeout, group).or_raise(py).map(Work::new)
    }

    fn isend(
        &self,
        py: Python<'_>,
        tensor: &Tensor,
        dst: usize,
        tag: u32,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let group = given(group.as_ref())?;
        dist::isend(self.get()?, tensor.get()?, dst, tag, group).or_raise(py).map(Work::new)
    }

    fn irecv(
        &self,
        py: Python<'_>,
        tensor: &Tensor,
        src: Option<usize>,
        tag: u32,
        group: Option<Py<Group>>,
    ) -> PyResult<Work> {
        let (rank, tensor, group) = (self.get()?, tensor.get()?, given(group.as_ref())?);
        let work = match src {
            Some(src) => dist::irecv(rank, tensor, src, tag, group),
            None => dist::irecv_any(rank, tensor, tag, group),
        };
        work.or_raise(py).map(Work::new)
    }
}
