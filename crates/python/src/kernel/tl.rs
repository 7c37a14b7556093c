//! The context of a running kernel, as Python sees it. Calls return their result, or a `Pending` where the kernel must wait;
//! `phalanx/_kernel.py` does the waiting.

use super::op::{Op, Slot};
use super::running::{Mode, Running, active};
use super::tile::{Answer, Issued, Made, Tile};
use super::types::{self, Type};
use super::view::{View, shape_of};
use crate::error::exception;
use crate::fiber::{Reply, pending};
use crate::one_thread::{elsewhere, this_thread};
use crate::rank::read_dtype;
use phalanx_sim::kernel::{KernelError, Shape};
use phalanx_sim::value::{Binary, Compare, Reduce, Unary};
use phalanx_sim::{DType, Time};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The context of a running kernel: the number of its program, and that of its thread.
///
/// While a kernel is recorded, no method must wait, and Python calls the methods here. From the first look on, `tl` is of the subclass
/// `phalanx._kernel.WaitingTl`, whose methods wait.
#[pyclass(frozen, subclass, module = "phalanx._core")]
pub(crate) struct Tl {
    program: u64,
    thread: u64,
}

/// A PE: SIP, cube, number in the cube.
type Pe = (u32, u16, u16);

/// The exception of a failed operation.
pub(super) fn raise(py: Python<'_>, error: &KernelError) -> PyErr {
    exception(py, "KernelError", error)
}

/// The exception that leaves a kernel whose recording has ended; `finally` blocks run.
pub(super) fn ends_recording(py: Python<'_>) -> PyErr {
    let class = py.import("phalanx._fibers").and_then(|module| module.getattr("Abort"));
    class.and_then(|class| class.call0()).map_or_else(|error| error, PyErr::from_value)
}

/// Performs an operation now.
fn direct(py: Python<'_>, running: &Rc<Running>, op: &Op, answer: Answer) -> Reply {
    let mut ongoing = match running.issue(op) {
        Ok(ongoing) => ongoing,
        Err(error) => return over(py, running, Err(error), answer),
    };
    match ongoing.poll(running, &mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ended) => over(py, running, ended, answer),
        Poll::Pending => {
            let running = running.clone();
            pending(
                py,
                Box::pin(async move {
                    let ended = poll_fn(|context| ongoing.poll(&running, context)).await;
                    Python::attach(|py| over(py, &running, ended, answer))
                }),
            )
        }
    }
}

/// The answer of an operation that is over.
fn over(
    py: Python<'_>,
    running: &Running,
    ended: Result<(), KernelError>,
    answer: Answer,
) -> Reply {
    match ended {
        Ok(()) => answer.object(py, running.id),
        Err(error) => {
            answer.release(running);
            Err(raise(py, &error))
        }
    }
}

impl Tl {
    pub(crate) fn new(program: u64) -> Self {
        Self { program, thread: this_thread() }
    }

    /// The number of the program.
    pub(super) fn program(&self) -> u64 {
        self.program
    }

    /// The program, which has its turn.
    pub(super) fn running(&self) -> PyResult<Rc<Running>> {
        active(self.program).ok_or_else(|| self.not_now())
    }

    #[cold]
    fn not_now(&self) -> PyErr {
        if self.thread != this_thread() {
            return elsewhere();
        }
        let text = "this `tl` belongs to a kernel that is over, or whose turn it is not";
        Python::attach(|py| exception(py, "KernelError", text))
    }

    /// Performs or records an operation whose result is known.
    pub(super) fn act(&self, py: Python<'_>, op: Op, made: Made) -> Reply {
        let running = self.running()?;
        Self::perform(py, &running, op, made.into())
    }

    fn perform(py: Python<'_>, running: &Rc<Running>, op: Op, answer: Answer) -> Reply {
        match running.mode.get() {
            Mode::Recording => {
                running.list.borrow_mut().push(op);
                answer.object(py, running.id)
            }
            Mode::Direct => direct(py, running, &op, answer),
            Mode::Again => Self::act_again(py, running, &op, answer),
            Mode::Over => Err(exception(py, "KernelError", "the kernel is over")),
        }
    }

    /// Counts an operation that was played, or raises the error of the one that failed.
    #[cold]
    pub(super) fn act_again(
        py: Python<'_>,
        running: &Rc<Running>,
        op: &Op,
        answer: Answer,
    ) -> Reply {
        let mut state = running.again.borrow_mut();
        if let Some(again) = &mut *state {
            let same = |other: &Op| std::mem::discriminant(op) == std::mem::discriminant(other);
            if again.next < again.failed && again.list.get(again.next).is_some_and(same) {
                // The operation that was begun follows in the list.
                again.next += if matches!(op, Op::Begin { .. }) { 2 } else { 1 };
                drop(state);
                return answer.object(py, running.id);
            }
        }
        let error = state.take().map(|again| again.error);
        drop(state);
        running.mode.set(Mode::Direct);
        answer.release(running);
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
            return Self::perform(py, &running, op(to), Made::Tile(to, made).into());
        }
        let unknown = Made::Tile(to, (DType::F32, Shape::from(0)));
        if running.mode.get() != Mode::Recording {
            return Self::perform(py, &running, op(to), unknown.into());
        }
        Err(Self::unfit(py, &running, op(to)))
    }

    /// Ends the recording at an operation whose operands do not fit: it fails when the list is played, and raises when Python runs
    /// through the kernel again.
    #[cold]
    fn unfit(py: Python<'_>, running: &Running, op: Op) -> PyErr {
        let mut list = running.list.borrow_mut();
        if running.unfit.get().is_none() {
            running.unfit.set(Some(list.len()));
        }
        list.push(op);
        ends_recording(py)
    }

    /// The same, issued only.
    fn begin(py: Python<'_>, running: &Rc<Running>, op: Op, made: Made) -> Reply {
        let issued = running.issued.borrow_mut().reserve();
        let (begin, answer) = (Op::Begin { issued }, Answer::Issued(issued, made));
        match running.mode.get() {
            Mode::Recording => running.list.borrow_mut().extend([begin, op]),
            Mode::Direct => return over(py, running, running.begin(issued, &op), answer),
            Mode::Again => return Self::act_again(py, running, &begin, answer),
            Mode::Over => return Err(exception(py, "KernelError", "the kernel is over")),
        }
        answer.object(py, running.id)
    }

    /// Performs, or only issues, an operation that makes a tile.
    pub(super) fn made_or_issued(
        &self,
        py: Python<'_>,
        issue: bool,
        made: Type,
        op: impl FnOnce(Slot) -> Op,
    ) -> Reply {
        let running = self.running()?;
        let to = running.tiles.borrow_mut().reserve();
        let (op, made) = (op(to), Made::Tile(to, made));
        if issue {
            Self::begin(py, &running, op, made)
        } else {
            Self::perform(py, &running, op, made.into())
        }
    }

    /// Performs, or only issues, an operation.
    pub(super) fn done_or_issued(&self, py: Python<'_>, issue: bool, op: Op, made: Made) -> Reply {
        let running = self.running()?;
        if issue {
            Self::begin(py, &running, op, made)
        } else {
            Self::perform(py, &running, op, made.into())
        }
    }

    /// The number and the type of an operand.
    pub(super) fn operand(&self, py: Python<'_>, tile: &Tile) -> PyResult<(Slot, Type)> {
        if tile.program != self.program {
            return Err(exception(py, "KernelError", "the tile belongs to another program"));
        }
        Ok((tile.slot, tile.tile_type()))
    }

    /// Takes the numbers of two tiles.
    pub(super) fn pair(&self) -> PyResult<[Slot; 2]> {
        let running = self.running()?;
        let mut tiles = running.tiles.borrow_mut();
        Ok([tiles.reserve(), tiles.reserve()])
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

/// Operations that a kernel waits for, or only issues.
impl Tl {
    fn load_or_issue(&self, py: Python<'_>, view: &View, other: f64, issue: bool) -> Reply {
        let made = (view.dtype, view.place.shape);
        self.made_or_issued(py, issue, made, |to| Op::Load { to, from: view.place.clone(), other })
    }

    fn load_pair_or_issue(&self, py: Python<'_>, left: &View, right: &View, issue: bool) -> Reply {
        let to = self.pair()?;
        let of = |slot: Slot, view: &View| (slot, (view.dtype, view.place.shape));
        let made = Made::Pair([of(to[0], left), of(to[1], right)]);
        let op = Op::LoadPair { to, from: Box::new([left.place.clone(), right.place.clone()]) };
        self.done_or_issued(py, issue, op, made)
    }

    fn dot_or_issue(
        &self,
        py: Python<'_>,
        [left, right]: [&Tile; 2],
        accumulator: Option<&Bound<'_, Tile>>,
        issue: bool,
    ) -> Reply {
        let ((left, one), (right, other)) = (self.operand(py, left)?, self.operand(py, right)?);
        let sum = accumulator.map(|tile| self.operand(py, tile.get())).transpose()?;
        let made = types::dot(one, other, sum.map(|(_, sum)| sum));
        let accumulator = sum.map(|(slot, _)| slot);
        let op = |to| Op::Dot { to, left, right, accumulator };
        match made {
            Some(made) => self.made_or_issued(py, issue, made, op),
            None => self.make(py, None, op),
        }
    }
}

/// A shape that Python names: a whole number, or a sequence of them.
pub(super) fn read_shape(py: Python<'_>, shape: &Bound<'_, PyAny>) -> PyResult<Shape> {
    if let Ok(len) = shape.extract::<usize>() {
        return shape_of(py, &[len]);
    }
    shape_of(py, &shape.extract::<Vec<usize>>()?)
}

/// An element type that Python names as `phalanx.resolve` takes it; f32 without a name.
pub(super) fn element_type(py: Python<'_>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<DType> {
    let Some(dtype) = dtype else { return Ok(DType::F32) };
    if let Ok(name) = dtype.cast::<PyString>()
        && let Ok(found) = name.to_str()?.parse()
    {
        return Ok(found);
    }
    let resolved = py.import("phalanx._dtypes")?.getattr("resolve")?.call1((dtype,))?;
    read_dtype(py, resolved.getattr("name")?.cast::<PyString>()?.to_str()?)
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

    #[pyo3(signature = (view, other=0.0))]
    fn load(&self, py: Python<'_>, view: &View, other: f64) -> Reply {
        self.load_or_issue(py, view, other, false)
    }

    #[pyo3(signature = (view, other=0.0))]
    fn load_async(&self, py: Python<'_>, view: &View, other: f64) -> Reply {
        self.load_or_issue(py, view, other, true)
    }

    fn load_pair(&self, py: Python<'_>, left: &View, right: &View) -> Reply {
        self.load_pair_or_issue(py, left, right, false)
    }

    fn load_pair_async(&self, py: Python<'_>, left: &View, right: &View) -> Reply {
        self.load_pair_or_issue(py, left, right, true)
    }

    fn store(&self, py: Python<'_>, view: &View, tile: &Tile) -> Reply {
        let op = Op::Store { to: view.place.clone(), tile: self.operand(py, tile)?.0 };
        self.done_or_issued(py, false, op, Made::Nothing)
    }

    fn store_async(&self, py: Python<'_>, view: &View, tile: &Tile) -> Reply {
        let op = Op::Store { to: view.place.clone(), tile: self.operand(py, tile)?.0 };
        self.done_or_issued(py, true, op, Made::Nothing)
    }

    #[pyo3(signature = (left, right, acc=None))]
    fn dot(
        &self,
        py: Python<'_>,
        left: &Tile,
        right: &Tile,
        acc: Option<&Bound<'_, Tile>>,
    ) -> Reply {
        self.dot_or_issue(py, [left, right], acc, false)
    }

    #[pyo3(signature = (left, right, acc=None))]
    fn dot_async(
        &self,
        py: Python<'_>,
        left: &Tile,
        right: &Tile,
        acc: Option<&Bound<'_, Tile>>,
    ) -> Reply {
        self.dot_or_issue(py, [left, right], acc, true)
    }

    #[pyo3(signature = (shape, number, dtype=None))]
    fn full(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        number: f64,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> Reply {
        let of = (element_type(py, dtype)?, read_shape(py, shape)?);
        self.make(py, Some(of), |to| Op::Full { to, of: Box::new(of), number })
    }

    #[pyo3(signature = (shape, dtype=None))]
    fn zeros(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> Reply {
        self.full(py, shape, 0.0, dtype)
    }

    fn select(&self, py: Python<'_>, condition: &Tile, left: &Tile, right: &Tile) -> Reply {
        let (condition, of) = self.operand(py, condition)?;
        let ((left, one), (right, other)) = (self.operand(py, left)?, self.operand(py, right)?);
        let made = types::select(of, one, other);
        self.make(py, made, |to| Op::Select { to, condition, left, right })
    }

    fn cast(&self, py: Python<'_>, tile: &Tile, dtype: &Bound<'_, PyAny>) -> Reply {
        let (tile, (_, shape)) = self.operand(py, tile)?;
        let dtype = element_type(py, Some(dtype))?;
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
        tile.set_shape(shape);
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
        if issued.program != self.program {
            return Err(exception(py, "KernelError", "the operation belongs to another program"));
        }
        let Some((issued, made)) = issued.take() else {
            return Err(exception(py, "KernelError", "the operation was waited for already"));
        };
        self.act(py, Op::Wait { issued }, made)
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
}
