//! The context of a running kernel, as Python sees it. Calls return their result, or a `Pending` where the kernel must wait;
//! `phalanx/_kernel.py` does the waiting.

use super::op::{Op, QueueEnd, Slot};
use super::player::Player;
use super::running::{Mode, Running};
use super::tile::{Issued, Made, Tile};
use super::types::{self, Type};
use super::view::{View, shape_of};
use crate::error::exception;
use crate::fiber::{Reply, pending, wait};
use crate::one_thread::OneThread;
use crate::rank::read_dtype;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::kernel::{KernelError, Shape};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{Binary, Compare, Reduce, Unary};
use phalanx_sim::{DType, Time};
use pyo3::prelude::*;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The context of a running kernel.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Tl(OneThread<Rc<Running>>);

/// A PE: SIP, cube, number in the cube.
type Pe = (u32, u16, u16);

/// The exception of a failed operation.
fn raise(py: Python<'_>, error: &KernelError) -> PyErr {
    exception(py, "KernelError", error)
}

/// Plays what was recorded; from then on calls are performed at once.
async fn flush(running: &Rc<Running>) -> Result<(), KernelError> {
    while !running.list.borrow().is_empty() {
        Player::of_recorded(running).await.map_err(|failed| failed.error)?;
    }
    running.mode.set(Mode::Direct);
    Ok(())
}

/// Performs an operation now.
fn direct(py: Python<'_>, running: &Rc<Running>, op: &Op, made: Made) -> Reply {
    let end =
        |py: Python<'_>, running: &Rc<Running>, ended: Result<(), KernelError>, made: Made| {
            match ended {
                Ok(()) => made.object(py, running),
                Err(error) => {
                    made.release(running);
                    Err(raise(py, &error))
                }
            }
        };
    let mut ongoing = match running.issue(op) {
        Ok(ongoing) => ongoing,
        Err(error) => return end(py, running, Err(error), made),
    };
    match ongoing.poll(running, &mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ended) => end(py, running, ended, made),
        Poll::Pending => {
            let running = running.clone();
            pending(
                py,
                Box::pin(async move {
                    let ended = poll_fn(|context| ongoing.poll(&running, context)).await;
                    Python::attach(|py| end(py, &running, ended, made))
                }),
            )
        }
    }
}

impl Tl {
    pub(crate) fn new(running: Rc<Running>) -> Self {
        Self(OneThread::new(running))
    }

    pub(super) fn running(&self) -> PyResult<&Rc<Running>> {
        self.0.get()
    }

    /// Performs or records an operation whose result is known.
    pub(super) fn act(&self, py: Python<'_>, op: Op, made: Made) -> Reply {
        let running = self.running()?;
        match running.mode.get() {
            Mode::Recording => {
                running.list.borrow_mut().push(op);
                made.object(py, running)
            }
            Mode::Direct => direct(py, running, &op, made),
            Mode::Again => self.act_again(py, &op, made),
            Mode::Over => Err(exception(py, "KernelError", "the kernel is over")),
        }
    }

    /// Counts an operation that was played, or raises the error of the one that failed.
    #[cold]
    fn act_again(&self, py: Python<'_>, op: &Op, made: Made) -> Reply {
        let running = self.running()?;
        let mut state = running.again.borrow_mut();
        if let Some(again) = &mut *state {
            let same = |other: &Op| std::mem::discriminant(op) == std::mem::discriminant(other);
            if again.next < again.failed && again.list.get(again.next).is_some_and(same) {
                again.next += 1;
                drop(state);
                return made.object(py, running);
            }
        }
        let error = state.take().map(|again| again.error);
        drop(state);
        running.mode.set(Mode::Direct);
        made.release(running);
        Err(raise(
            py,
            &error.unwrap_or(KernelError::Other("the kernel is not the same twice".into())),
        ))
    }

    /// Performs an operation that makes a tile; with `None`, its operands do not fit.
    pub(super) fn make(
        &self,
        py: Python<'_>,
        made: Option<Type>,
        op: impl FnOnce(Slot) -> Op,
    ) -> Reply {
        let running = self.running()?;
        let to = running.tiles.borrow_mut().reserve();
        if let Some(made) = made {
            return self.act(py, op(to), Made::Tile(to, made));
        }
        let unknown = Made::Tile(to, (DType::F32, Shape::from(0)));
        self.look(py, "an operation whose operands do not fit", op(to), unknown)
    }

    /// The same, issued only.
    fn begin(&self, py: Python<'_>, op: Op, made: Made) -> Reply {
        let issued = self.running()?.issued.borrow_mut().reserve();
        self.act(py, Op::Begin { issued, op: Box::new(op) }, Made::Issued(issued, Box::new(made)))
    }

    /// Stops recording for `why`, and performs an operation.
    fn look(&self, py: Python<'_>, why: &str, op: Op, made: Made) -> Reply {
        let running = self.running()?;
        if running.mode.get() != Mode::Recording {
            return self.act(py, op, made);
        }
        running.look.replace(Some(why.to_owned()));
        let running = running.clone();
        wait(py, async move {
            let flushed = flush(&running).await;
            if let Err(error) = flushed {
                return Python::attach(|py| Err(raise(py, &error)));
            }
            let ended = match running.issue(&op) {
                Ok(mut ongoing) => poll_fn(|context| ongoing.poll(&running, context)).await,
                Err(error) => Err(error),
            };
            Python::attach(|py| match ended {
                Ok(()) => made.object(py, &running),
                Err(error) => {
                    made.release(&running);
                    Err(raise(py, &error))
                }
            })
        })
    }

    /// Stops recording for `why`, and looks at something.
    fn look_at(
        &self,
        py: Python<'_>,
        why: &str,
        see: impl FnOnce(Python<'_>, &Rc<Running>) -> Reply + 'static,
    ) -> Reply {
        let running = self.running()?.clone();
        match running.mode.get() {
            Mode::Direct => see(py, &running),
            Mode::Recording => {
                running.look.replace(Some(why.to_owned()));
                wait(py, async move {
                    let flushed = flush(&running).await;
                    Python::attach(|py| {
                        flushed.map_err(|error| raise(py, &error))?;
                        see(py, &running)
                    })
                })
            }
            Mode::Again => self.act_again(py, &Op::Barrier, Made::Nothing),
            Mode::Over => Err(exception(py, "KernelError", "the kernel is over")),
        }
    }

    /// The number and the type of an operand.
    pub(super) fn operand(&self, py: Python<'_>, tile: &Tile) -> PyResult<(Slot, Type)> {
        if !tile.get()?.is_of(self.running()?) {
            return Err(exception(py, "KernelError", "the tile belongs to another program"));
        }
        Ok((tile.slot()?, tile.tile_type()?))
    }

    fn binary(&self, py: Python<'_>, op: Binary, left: &Tile, right: &Tile) -> Reply {
        let ((left, one), (right, other)) = (self.operand(py, left)?, self.operand(py, right)?);
        let made = types::broadcast(one, other).filter(|(dtype, _)| op.takes(*dtype));
        self.make(py, made, |to| Op::Binary { to, op, left, right })
    }

    fn compare(&self, py: Python<'_>, op: Compare, left: &Tile, right: &Tile) -> Reply {
        let ((left, one), (right, other)) = (self.operand(py, left)?, self.operand(py, right)?);
        let made = types::broadcast(one, other).map(|(_, shape)| (DType::I32, shape));
        self.make(py, made, |to| Op::Compare { to, op, left, right })
    }

    fn unary(&self, py: Python<'_>, op: Unary, tile: &Tile) -> Reply {
        let (tile, made) = self.operand(py, tile)?;
        self.make(py, Some(made).filter(|(dtype, _)| op.takes(*dtype)), |to| Op::Unary {
            to,
            op,
            tile,
        })
    }

    fn reduce(&self, py: Python<'_>, op: Reduce, tile: &Tile, axis: usize) -> Reply {
        let (tile, one) = self.operand(py, tile)?;
        self.make(py, types::reduce(one, axis), |to| Op::Reduce { to, op, tile, axis })
    }
}

/// Methods that are one operation each.
macro_rules! operations {
    (
        binary [$($binary:ident $b:ident),*] compare [$($compare:ident $c:ident),*]
        unary [$($unary:ident $u:ident),*] reduce [$($reduce:ident $r:ident),*]
    ) => {
        #[pymethods]
        impl Tl {
            $(fn $binary(&self, py: Python<'_>, left: &Tile, right: &Tile) -> Reply {
                self.binary(py, Binary::$b, left, right)
            })*
            $(fn $compare(&self, py: Python<'_>, left: &Tile, right: &Tile) -> Reply {
                self.compare(py, Compare::$c, left, right)
            })*
            $(fn $unary(&self, py: Python<'_>, tile: &Tile) -> Reply {
                self.unary(py, Unary::$u, tile)
            })*
            $(fn $reduce(&self, py: Python<'_>, tile: &Tile, axis: usize) -> Reply {
                self.reduce(py, Reduce::$r, tile, axis)
            })*
        }
    };
}

operations! {
    binary [
        add Add, sub Sub, mul Mul, div Div, maximum Max, minimum Min, rem Rem, floordiv FloorDiv, mod_ FloorRem,
        maxnum MaxNum, minnum MinNum, pow Pow, and_ And, or_ Or, xor Xor, shl Shl, shr Shr, mulhi MulHi
    ]
    compare [eq Eq, ne Ne, lt Lt, le Le, gt Gt, ge Ge]
    unary [
        neg Neg, abs Abs, recip Recip, sqrt Sqrt, exp Exp, log Log, relu Relu, tanh Tanh, sigmoid Sigmoid, gelu Gelu,
        exp2 Exp2, log2 Log2, rsqrt Rsqrt, erf Erf, sin Sin, cos Cos, floor Floor, ceil Ceil, not_ Not
    ]
    reduce [sum Sum, prod Prod, max Max, min Min]
}

#[pymethods]
impl Tl {
    #[getter]
    fn program_id(&self) -> PyResult<usize> {
        Ok(self.running()?.tl.program_id())
    }

    #[getter]
    fn num_programs(&self) -> PyResult<usize> {
        Ok(self.running()?.tl.num_programs())
    }

    fn program_id_along(&self, axis: usize) -> PyResult<usize> {
        Ok(self.running()?.tl.program_id_along(axis))
    }

    fn num_programs_along(&self, axis: usize) -> PyResult<usize> {
        Ok(self.running()?.tl.num_programs_along(axis))
    }

    #[getter]
    fn pe(&self) -> PyResult<Pe> {
        let running = self.running()?;
        running.has_seen_pe.set(true);
        let pe = running.tl.pe();
        Ok((pe.sip, pe.cube, pe.pe))
    }

    fn share(&self, len: usize) -> PyResult<(usize, usize)> {
        Ok(self.running()?.tl.share(len))
    }

    fn load(&self, py: Python<'_>, view: &View, other: f64, issue: bool) -> Reply {
        let to = self.running()?.tiles.borrow_mut().reserve();
        let made = Made::Tile(to, (view.dtype, view.place.shape));
        let op = Op::Load { to, from: view.place.clone(), other };
        if issue { self.begin(py, op, made) } else { self.act(py, op, made) }
    }

    fn load_pair(&self, py: Python<'_>, left: &View, right: &View, issue: bool) -> Reply {
        let to = {
            let mut tiles = self.running()?.tiles.borrow_mut();
            [tiles.reserve(), tiles.reserve()]
        };
        let of = |slot: Slot, view: &View| (slot, (view.dtype, view.place.shape));
        let made = Made::Pair([of(to[0], left), of(to[1], right)]);
        let op = Op::LoadPair { to, from: Box::new([left.place.clone(), right.place.clone()]) };
        if issue { self.begin(py, op, made) } else { self.act(py, op, made) }
    }

    fn store(&self, py: Python<'_>, view: &View, tile: &Tile, issue: bool) -> Reply {
        let op = Op::Store { to: view.place.clone(), tile: self.operand(py, tile)?.0 };
        if issue { self.begin(py, op, Made::Nothing) } else { self.act(py, op, Made::Nothing) }
    }

    fn dot(
        &self,
        py: Python<'_>,
        left: &Tile,
        right: &Tile,
        accumulator: Option<&Bound<'_, Tile>>,
        issue: bool,
    ) -> Reply {
        let ((left, one), (right, other)) = (self.operand(py, left)?, self.operand(py, right)?);
        let sum = accumulator.map(|tile| self.operand(py, tile.get())).transpose()?;
        let made = types::dot(one, other, sum.map(|(_, sum)| sum));
        let accumulator = sum.map(|(slot, _)| slot);
        let op = |to| Op::Dot { to, left, right, accumulator };
        match made {
            Some(made) if issue => {
                let to = self.running()?.tiles.borrow_mut().reserve();
                self.begin(py, op(to), Made::Tile(to, made))
            }
            made => self.make(py, made, op),
        }
    }

    fn full(&self, py: Python<'_>, shape: Vec<usize>, number: f64, dtype: &str) -> Reply {
        let (dtype, shape) = (read_dtype(py, dtype)?, shape_of(py, &shape)?);
        self.make(py, Some((dtype, shape)), |to| Op::Full { to, dtype, shape, number })
    }

    fn select(&self, py: Python<'_>, condition: &Tile, left: &Tile, right: &Tile) -> Reply {
        let (condition, of) = self.operand(py, condition)?;
        let ((left, one), (right, other)) = (self.operand(py, left)?, self.operand(py, right)?);
        let made = types::select(of, one, other);
        self.make(py, made, |to| Op::Select { to, condition, left, right })
    }

    fn cast(&self, py: Python<'_>, tile: &Tile, dtype: &str) -> Reply {
        let (tile, (_, shape)) = self.operand(py, tile)?;
        let dtype = read_dtype(py, dtype)?;
        self.make(py, Some((dtype, shape)), |to| Op::Cast { to, tile, dtype })
    }

    /// Gives a tile another shape, in place.
    fn reshape(&self, py: Python<'_>, tile: &Tile, shape: Vec<usize>) -> Reply {
        let (slot, (_, before)) = self.operand(py, tile)?;
        let shape = shape_of(py, &shape)?;
        if shape.elements() != before.elements() {
            let error = KernelError::Shape {
                operation: "reshape",
                left: before.to_string(),
                right: shape.to_string(),
            };
            return Err(raise(py, &error));
        }
        tile.set_shape(shape)?;
        self.act(py, Op::Reshape { tile: slot, shape }, Made::Nothing)
    }

    fn compute(&self, py: Python<'_>, picoseconds: u64) -> Reply {
        self.act(py, Op::Compute(Time::ps(picoseconds)), Made::Nothing)
    }

    fn barrier(&self, py: Python<'_>) -> Reply {
        self.act(py, Op::Barrier, Made::Nothing)
    }

    /// Waits for an issued operation.
    fn wait(&self, py: Python<'_>, issued: &Issued) -> Reply {
        let pledge = issued.get()?;
        if !Rc::ptr_eq(&pledge.running, self.running()?) {
            return Err(exception(py, "KernelError", "the operation belongs to another program"));
        }
        let Some((issued, made)) = pledge.take() else {
            return Err(exception(py, "KernelError", "the operation was waited for already"));
        };
        self.act(py, Op::Wait { issued }, made)
    }

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
        Ok(Queue::open(running, queue, end))
    }

    fn send(&self, py: Python<'_>, queue: &Queue, tile: &Tile, issue: bool) -> Reply {
        let queue = queue.end(py, QueueEnd::Sender, "send")?;
        let op = Op::Send { queue, tile: self.operand(py, tile)?.0 };
        if issue { self.begin(py, op, Made::Nothing) } else { self.act(py, op, Made::Nothing) }
    }

    fn recv(
        &self,
        py: Python<'_>,
        queue: &Queue,
        shape: Vec<usize>,
        dtype: &str,
        issue: bool,
    ) -> Reply {
        let (dtype, shape) = (read_dtype(py, dtype)?, shape_of(py, &shape)?);
        let queue = queue.end(py, QueueEnd::Receiver, "recv")?;
        let to = self.running()?.tiles.borrow_mut().reserve();
        let (op, made) = (Op::Recv { to, queue, dtype, shape }, Made::Tile(to, (dtype, shape)));
        if issue { self.begin(py, op, made) } else { self.act(py, op, made) }
    }

    /// Opens a named range; returns its number.
    fn open_range(&self, py: Python<'_>, name: &str) -> PyResult<Slot> {
        let range = self.running()?.ranges.borrow_mut().reserve();
        self.act(py, Op::OpenRange { range, name: name.into() }, Made::Nothing)?;
        Ok(range)
    }

    fn close_range(&self, range: Slot) -> PyResult<()> {
        self.running()?.give_up(Op::CloseRange { range });
        Ok(())
    }

    /// Looks at the time, in picoseconds.
    fn now(&self, py: Python<'_>, line: usize) -> Reply {
        self.look_at(py, &format!("line {line}: tl.now looks at the time"), |py, running| {
            Ok(running.tl.now().as_ps().into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Looks at an element.
    fn item(&self, py: Python<'_>, tile: &Tile, index: usize, line: usize) -> Reply {
        let slot = self.operand(py, tile)?.0;
        let why = format!("line {line}: tl.item looks at a number");
        self.look_at(py, &why, move |py, running| {
            let tiles = running.tiles.borrow();
            let found = tiles.get(slot).and_then(|tile| running.tl.item(tile, index));
            let number = found.map_err(|error| raise(py, &error))?;
            Ok(number.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Looks whether an issued operation would wait.
    fn is_over(&self, py: Python<'_>, issued: &Issued, line: usize) -> Reply {
        let pledge = issued.get()?;
        let Some((slot, made)) = pledge.take() else {
            return Ok(true.into_pyobject(py)?.to_owned().into_any().unbind());
        };
        pledge.put(made);
        self.look_at(
            py,
            &format!("line {line}: is_over looks at an arrival"),
            move |py, running| {
                let ongoing = running.issued.borrow_mut().take(slot);
                let over = ongoing.is_none_or(|mut ongoing| {
                    let mut context = Context::from_waker(Waker::noop());
                    let over = matches!(ongoing.poll(running, &mut context), Poll::Ready(Ok(())));
                    if !over {
                        running.issued.borrow_mut().put(slot, ongoing);
                    }
                    over
                });
                Ok(over.into_pyobject(py)?.to_owned().into_any().unbind())
            },
        )
    }
}

/// An open end of a queue between PEs.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Queue(OneThread<OpenQueue>);

struct OpenQueue {
    running: Rc<Running>,
    queue: Slot,
    end: QueueEnd,
}

impl Drop for OpenQueue {
    fn drop(&mut self) {
        self.running.give_up(Op::Close { queue: self.queue });
    }
}

impl Queue {
    /// An end that is open.
    pub(super) fn open(running: &Rc<Running>, queue: Slot, end: QueueEnd) -> Self {
        Self(OneThread::new(OpenQueue { running: running.clone(), queue, end }))
    }

    fn end(&self, py: Python<'_>, wanted: QueueEnd, operation: &str) -> PyResult<Slot> {
        let open = self.0.get()?;
        if open.end == wanted {
            return Ok(open.queue);
        }
        let text = format!("{operation}: this is the other end of the queue");
        Err(exception(py, "KernelError", text))
    }
}
