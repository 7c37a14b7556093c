//! Kernels: `async` functions that run on PEs, written against [`Tl`].
//!
//! A call *issues* an operation; `.await` *waits for* its end. A load that is issued before the kernel waits for a
//! product overlaps with the product. Between awaits a kernel takes no simulated time.
//!
//! ```
//! use phalanx_sim::kernel::{KernelError, Tl, View};
//! use phalanx_sim::memory::Region;
//! async fn add(tl: Tl, a: Region, b: Region, out: Region) -> Result<(), KernelError> {
//!     let (x, y) = (tl.load(&View::of(&a)), tl.load(&View::of(&b)));
//!     let sum = tl.add(&x.await?, &y.await?).await?;
//!     tl.store(&View::of(&out), &sum).await
//! }
//! ```
//!
//! - **KRN-1 (scratch).** The live tiles and slots of a PE never exceed its TCM; one more is an error that names the
//!   kernel and the bytes.
//! - **KRN-2 (values).** A tile is a value: later writes to its source do not change the tile.
//! - **KRN-3 (program order).** A PE's stores take effect in the order of issue, and end before the kernel ends.
//! - **KRN-5 (declared).** A store to an argument that its launch declares as read changes nothing, and is the error of its
//!   kernel, awaited or not.
//! - **KRN-6 (line).** The error of an operation comes with the line of the kernel that asked for the operation.
//! - **KRN-4 (one at a time).** A PE's load channel, store channel, matrix engine and vector engine each perform one
//!   operation at a time.

mod arrival;
mod class;
mod gemm;
mod given;
pub mod in_switch;
mod issued;
mod lines;
mod math;
mod memory;
mod messages;
mod places;
mod product;
mod program;
mod range;
mod shape;
mod source;
mod tile;
mod view;
mod whole;

pub use arrival::Arrival;
pub use gemm::{Gemm, GemmPlan, GemmProblem, Operand, SplitGemm};
pub use given::Seen;
pub use in_switch::{Multicaster, Multicasting, Reducer, Reducing};
pub use issued::{Computing, Issued, Loading};
pub use lines::Lines;
pub(crate) use lines::{Followed, LineTotals};
pub use memory::Storing;
pub use messages::{Receiver, Receiving, Sender, Sending};
pub use places::Places;
pub use program::{GridShape, ReadOnly};
pub(crate) use program::{Group, Program};
pub use range::KernelRange;
pub use source::SourceLine;
pub use tile::{Dims, Shape, Tile};
pub use view::{Mask, View};

use crate::foreign::Foreign;
use crate::ipcq::{EdgeName, EdgeSpec};
use crate::memory::MemoryError;
use crate::record::{Gap, Resource};
use crate::spec::MachineSpec;
use crate::stall::Kind;
use crate::time::{Bytes, Time};
use crate::topology::PeId;
use crate::value::DType;
use std::panic::Location;
use std::rc::Rc;

/// The failure of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A memory access failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No scratch memory is left (KRN-1).
    #[error("out of scratch: {wanted} wanted for {what}, {free} of {capacity} free")]
    ScratchFull {
        /// Use of the memory.
        what: String,
        /// Size of the request.
        wanted: Bytes,
        /// Size of the free memory.
        free: Bytes,
        /// Size of the scratch memory.
        capacity: Bytes,
    },
    /// Operands with shapes or types that do not match.
    #[error("{operation}: {left} does not fit {right}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// One operand.
        left: String,
        /// The other operand.
        right: String,
    },
    /// A store to an argument that the launch declares as read.
    #[error(
        "store: address {address:#x} is in argument {argument}, which the launch declares as read; declare it as written"
    )]
    ReadOnly {
        /// The address of the store.
        address: u64,
        /// Number of the argument.
        argument: usize,
    },
    /// The kernel reads an element in a run without data.
    #[error("the kernel reads a number, and this run computes none (data is off)")]
    NoData,
    /// [`Options::interrupt`](crate::machine::Options::interrupt) ended a computation of numbers.
    #[error("the run was interrupted while numbers were computed")]
    Interrupted,
    /// Sender and receiver have different settings of an edge.
    #[error("edge {edge}: the sender has {}, the receiver {}", specs.0, specs.1)]
    EdgeMismatch {
        /// The edge.
        edge: EdgeName,
        /// The sender's settings and the receiver's settings.
        specs: Box<(EdgeSpec, EdgeSpec)>,
    },
    /// An edge with settings that cannot work.
    #[error("edge {edge}: {reason}")]
    BadEdge {
        /// The edge.
        edge: EdgeName,
        /// The problem.
        reason: &'static str,
    },
    /// A message of an unexpected type or size.
    #[error("edge {edge}: expected {expected}, got {got}")]
    WrongMessage {
        /// The edge.
        edge: EdgeName,
        /// Message the receiver expected.
        expected: String,
        /// Message that arrived.
        got: String,
    },
    /// An error from outside, which the kernel brings along.
    #[error("{0}")]
    Foreign(Foreign),
    /// An error of the kernel's own.
    #[error("{0}")]
    Other(String),
}

crate::portable!(enum KernelError {
    0 => Memory(error),
    1 => ScratchFull { what, wanted, free, capacity },
    2 => Shape { operation, left, right },
    3 => ReadOnly { address, argument },
    4 => NoData,
    5 => EdgeMismatch { edge, specs },
    6 => BadEdge { edge, reason },
    7 => WrongMessage { edge, expected, got },
    8 => Foreign(error),
    9 => Other(text),
    10 => Interrupted,
});

impl KernelError {
    /// Returns the error from outside, if it is one.
    pub fn foreign(&self) -> Option<&Foreign> {
        match self {
            Self::Foreign(foreign) => Some(foreign),
            _ => None,
        }
    }
}

impl From<Foreign> for KernelError {
    fn from(foreign: Foreign) -> Self {
        Self::Foreign(foreign)
    }
}

impl From<Box<KernelError>> for KernelError {
    fn from(error: Box<KernelError>) -> Self {
        *error
    }
}

/// The context of a running kernel: its PE and all operations.
#[derive(Clone)]
pub struct Tl {
    program: Rc<Program>,
}

impl Tl {
    pub(crate) fn new(program: Program) -> Self {
        let program = Rc::new(program);
        program.world().launched.programs.borrow_mut().add(&program);
        Self { program }
    }

    pub(crate) fn program(&self) -> &Rc<Program> {
        &self.program
    }

    /// Returns the number of this program in its launch.
    pub fn program_id(&self) -> usize {
        self.program.number()
    }

    /// Returns the number of programs of the launch.
    pub fn num_programs(&self) -> usize {
        self.program.group().size()
    }

    /// Returns the number of this program along `axis` of its grid, from 0; the first axis is the fastest.
    pub fn program_id_along(&self, axis: usize) -> usize {
        let before: usize = self.program.group().axes().iter().take(axis).product();
        self.program_id() / before.max(1) % self.num_programs_along(axis).max(1)
    }

    /// Returns the number of programs along `axis` of the grid; 1 beyond the third axis.
    pub fn num_programs_along(&self, axis: usize) -> usize {
        self.program.group().axes().get(axis).copied().unwrap_or(1)
    }

    /// Returns the PE of this program.
    pub fn pe(&self) -> PeId {
        self.program.pe()
    }

    /// Returns the specification of the machine.
    pub fn machine(&self) -> &MachineSpec {
        &self.program.world().spec
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Time {
        self.program.sim().now()
    }

    /// True if this run computes data.
    pub fn has_data(&self) -> bool {
        self.program.world().options.data
    }

    /// Returns this program's part of `len` elements that are divided evenly: `(start, length)`.
    pub fn share(&self, len: usize) -> (usize, usize) {
        let (id, count) = (self.program_id(), self.num_programs());
        let (start, end) = (len * id / count, len * (id + 1) / count);
        (start, end - start)
    }

    /// Waits until every program of the launch has reached the barrier and ended its stores.
    pub async fn barrier(&self) {
        self.program.drain().await;
        self.program.barrier().await;
    }

    /// Notes the caller's line of an operation that fails; returns the error.
    #[cold]
    #[track_caller]
    #[expect(
        clippy::unnecessary_box_returns,
        reason = "a result with a thin error is passed in registers"
    )]
    fn fault(&self, error: Box<KernelError>) -> Box<KernelError> {
        self.program.note_fault(Location::caller(), &error);
        error
    }

    /// Waits for `span` without an engine, such as the start-up of a library: the time counts as latency.
    pub async fn pause(&self, span: Time) {
        let program = &self.program;
        let mut path = program.path();
        path.advance(program.sim().now(), Gap::Dependency);
        program.sim().sleep(span).await;
        let (now, pe) = (program.sim().now(), program.pe());
        {
            let record = &mut program.world().sips[pe.sip as usize].borrow_mut().record;
            record.step(&mut path, now, Kind::Latency, Resource::Program(pe));
        }
        program.waited(Kind::Latency, &path);
    }

    /// Returns the element at `index` of a tile; the run computes it now.
    #[track_caller]
    pub fn item(&self, tile: &Tile, index: usize) -> Result<f64, KernelError> {
        let Some(value) = tile.value() else {
            return Err(*self.fault(Box::new(KernelError::NoData)));
        };
        if index >= value.len() {
            let (left, right) = (format!("index {index}"), format!("{} elements", value.len()));
            let error = KernelError::Shape { operation: "item", left, right };
            return Err(*self.fault(Box::new(error)));
        }
        self.force(&value)?;
        Ok(value.get(index))
    }

    /// Computes a value now, unless the run is interrupted.
    #[track_caller]
    fn force(&self, value: &crate::value::Value) -> Result<(), KernelError> {
        if self.program.world().options.force(std::slice::from_ref(value)) {
            return Ok(());
        }
        Err(*self.fault(Box::new(KernelError::Interrupted)))
    }

    /// Fails if the run is interrupted. A kernel that computes for long without simulated time asks now and then.
    #[track_caller]
    pub fn check_interrupt(&self) -> Result<(), KernelError> {
        if !self.program.world().options.is_interrupted() {
            return Ok(());
        }
        Err(*self.fault(Box::new(KernelError::Interrupted)))
    }

    /// Creates a tile filled with one number.
    #[track_caller]
    pub fn full(
        &self,
        dtype: DType,
        shape: impl Into<Shape>,
        number: f64,
    ) -> Result<Tile, KernelError> {
        let shape = shape.into();
        let value =
            self.has_data().then(|| crate::value::Value::full(dtype, shape.elements(), number));
        match Tile::in_scratch(&self.program, dtype, shape, value, "a constant") {
            Ok(tile) => Ok(tile),
            Err(error) => Err(*self.fault(error)),
        }
    }

    /// Creates a tile filled with zeros.
    #[track_caller]
    pub fn zeros(&self, dtype: DType, shape: impl Into<Shape>) -> Result<Tile, KernelError> {
        self.full(dtype, shape, 0.0)
    }
}
