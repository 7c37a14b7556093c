//! Queues between PEs, as Python holds them.

use super::op::{Op, QueueEnd, Slot};
use super::running::give_up;
use super::tile::{Made, Tile};
use super::tl::{Tl, element_type, read_shape};
use super::types::Type;
use crate::error::exception;
use crate::fiber::Reply;
use phalanx_sim::Time;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::topology::PeId;
use pyo3::prelude::*;

/// A PE: SIP, cube, number in the cube.
type Pe = (u32, u16, u16);

/// An open end of a queue between PEs.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Queue {
    program: u64,
    slot: Slot,
    end: QueueEnd,
}

impl Drop for Queue {
    fn drop(&mut self) {
        give_up(self.program, Op::Close { queue: self.slot });
    }
}

impl Queue {
    /// An end that is open.
    pub(super) fn open(program: u64, queue: Slot, end: QueueEnd) -> Self {
        Self { program, slot: queue, end }
    }

    /// The number of the queue, whose end is the wanted one.
    fn end(&self, py: Python<'_>, tl: &Tl, wanted: QueueEnd, operation: &str) -> PyResult<Slot> {
        if self.program != tl.program() {
            let text = format!("{operation}: the queue belongs to another program");
            return Err(exception(py, "KernelError", text));
        }
        if self.end == wanted {
            return Ok(self.slot);
        }
        let text = format!("{operation}: this is the other end of the queue");
        Err(exception(py, "KernelError", text))
    }
}

impl Tl {
    fn send_or_issue(&self, py: Python<'_>, queue: &Queue, tile: &Tile, issue: bool) -> Reply {
        let queue = queue.end(py, self, QueueEnd::Sender, "send")?;
        let op = Op::Send { queue, tile: self.operand(py, tile)?.0 };
        self.done_or_issued(py, issue, op, Made::Nothing)
    }

    fn recv_or_issue(
        &self,
        py: Python<'_>,
        queue: &Queue,
        [shape, dtype]: [&Bound<'_, PyAny>; 2],
        issue: bool,
    ) -> Reply {
        let made: Type = (element_type(py, Some(dtype))?, read_shape(py, shape)?);
        let queue = queue.end(py, self, QueueEnd::Receiver, "recv")?;
        let (dtype, shape) = made;
        self.made_or_issued(py, issue, made, |to| Op::Recv { to, queue, dtype, shape })
    }
}

#[pymethods]
impl Tl {
    /// Opens an end of a queue to or from another PE.
    #[expect(clippy::too_many_arguments, reason = "the settings of a queue")]
    fn open(
        &self,
        py: Python<'_>,
        sender: bool,
        pe: Pe,
        channel: u32,
        n_slots: u32,
        slot_size: u64,
        in_hbm: bool,
        poll_ps: Option<u64>,
        vc_chunk_size: u64,
        credit_size: u64,
    ) -> PyResult<Queue> {
        let running = self.running()?;
        let spec = EdgeSpec {
            n_slots,
            slot_size,
            buffer_kind: if in_hbm { BufferKind::Hbm } else { BufferKind::Tcm },
            backpressure: poll_ps
                .map_or(Backpressure::Sleep, |ps| Backpressure::Poll(Time::ps(ps))),
            vc_chunk_size,
            ipcq_credit_size_bytes: credit_size,
            ..EdgeSpec::default()
        };
        let queue = running.queues.borrow_mut().reserve();
        let end = if sender { QueueEnd::Sender } else { QueueEnd::Receiver };
        let pe = PeId { sip: pe.0, cube: pe.1, pe: pe.2 };
        let op = Op::Open { queue, end, pe, channel, spec: Box::new(spec) };
        self.act(py, op, Made::Nothing)?;
        Ok(Queue::open(running.id, queue, end))
    }

    fn send(&self, py: Python<'_>, queue: &Queue, tile: &Tile) -> Reply {
        self.send_or_issue(py, queue, tile, false)
    }

    fn send_async(&self, py: Python<'_>, queue: &Queue, tile: &Tile) -> Reply {
        self.send_or_issue(py, queue, tile, true)
    }

    fn recv(
        &self,
        py: Python<'_>,
        queue: &Queue,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> Reply {
        self.recv_or_issue(py, queue, [shape, dtype], false)
    }

    fn recv_async(
        &self,
        py: Python<'_>,
        queue: &Queue,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> Reply {
        self.recv_or_issue(py, queue, [shape, dtype], true)
    }
}
