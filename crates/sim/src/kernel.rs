//! Kernels: `async` functions that run on PEs, written against [`Tl`].
//!
//! Every operation is *issued* by the call and *waited for* by `.await`: issue the next load before waiting for
//! the current product, and the two overlap. Between awaits a kernel takes no simulated time.
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
//! - **KRN-1 (scratch).** The tiles and slots alive on a PE never exceed its TCM; one more is an error that names
//!   kernel and bytes.
//! - **KRN-2 (values).** A tile is a value: later writes to where it came from do not change it.
//! - **KRN-3 (program order).** A PE's stores take effect in the order they are issued, and are over when the
//!   kernel ends.
//! - **KRN-4 (one at a time).** A PE's load channel, store channel, matrix engine and vector engine each do one
//!   thing after another.

mod gemm;
mod issued;
mod math;
mod memory;
mod messages;
mod program;
mod range;
mod tile;
mod view;

pub use gemm::{Gemm, Operand};
pub use issued::{Computing, Issued, Loading};
pub use memory::Storing;
pub use messages::{Receiver, Receiving, Sender, Sending};
pub(crate) use program::{Group, Program};
pub use range::KernelRange;
pub use tile::{Dims, Shape, Tile};
pub use view::{Mask, View};

use crate::ipcq::{EdgeName, EdgeSpec};
use crate::memory::MemoryError;
use crate::spec::MachineSpec;
use crate::time::{Bytes, Time};
use crate::topology::PeId;
use crate::value::DType;
use std::rc::Rc;

/// What can go wrong in a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// An address.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// KRN-1.
    #[error("out of scratch: {wanted} wanted for {what}, {free} of {capacity} free")]
    ScratchFull {
        /// For what.
        what: String,
        /// How much.
        wanted: Bytes,
        /// How much there was.
        free: Bytes,
        /// How much there is in all.
        capacity: Bytes,
    },
    /// Tiles that do not fit each other.
    #[error("{operation}: {left} does not fit {right}")]
    Shape {
        /// Which operation.
        operation: &'static str,
        /// One side.
        left: String,
        /// The other.
        right: String,
    },
    /// A number was asked for in a run without numbers.
    #[error("the kernel reads a number, and this run computes none (data is off)")]
    NoData,
    /// Sender and receiver set the edge up differently.
    #[error("edge {edge}: the sender has {}, the receiver {}", specs.0, specs.1)]
    EdgeMismatch {
        /// Which.
        edge: EdgeName,
        /// The sender's settings and the receiver's.
        specs: Box<(EdgeSpec, EdgeSpec)>,
    },
    /// An edge set up in a way that cannot work.
    #[error("edge {edge}: {reason}")]
    BadEdge {
        /// Which.
        edge: EdgeName,
        /// Why not.
        reason: &'static str,
    },
    /// A message of another type or size than was expected.
    #[error("edge {edge}: expected {expected}, got {got}")]
    WrongMessage {
        /// Which.
        edge: EdgeName,
        /// What the receiver asked for.
        expected: String,
        /// What came.
        got: String,
    },
    /// A kernel's own complaint.
    #[error("{0}")]
    Other(String),
}

impl From<Box<KernelError>> for KernelError {
    fn from(error: Box<KernelError>) -> Self {
        *error
    }
}

/// What a kernel runs with: where it is, and everything it can do.
#[derive(Clone)]
pub struct Tl {
    program: Rc<Program>,
}

impl Tl {
    pub(crate) fn new(program: Program) -> Self {
        Self { program: Rc::new(program) }
    }

    pub(crate) fn program(&self) -> &Rc<Program> {
        &self.program
    }

    /// Which of the programs of its launch this is.
    pub fn program_id(&self) -> usize {
        self.program.number()
    }

    /// How many programs its launch has.
    pub fn num_programs(&self) -> usize {
        self.program.group().size()
    }

    /// The PE it runs on.
    pub fn pe(&self) -> PeId {
        self.program.pe()
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &MachineSpec {
        &self.program.world().spec
    }

    /// The simulated time.
    pub fn now(&self) -> Time {
        self.program.sim().now()
    }

    /// Whether numbers are computed in this run.
    pub fn has_data(&self) -> bool {
        self.program.world().options.data
    }

    /// The piece of `len` that belongs to this program when it is shared out evenly: `(start, length)`.
    pub fn share(&self, len: usize) -> (usize, usize) {
        let (id, count) = (self.program_id(), self.num_programs());
        let (start, end) = (len * id / count, len * (id + 1) / count);
        (start, end - start)
    }

    /// Waits until every program of the launch has come here, and all their stores are over.
    pub async fn barrier(&self) {
        self.program.drain().await;
        self.program.barrier().await;
    }

    /// The number at `index` of a tile: makes the run compute it now.
    pub fn item(&self, tile: &Tile, index: usize) -> Result<f64, KernelError> {
        let value = tile.value().ok_or(KernelError::NoData)?;
        if index >= value.len() {
            let right = format!("{} elements", value.len());
            return Err(KernelError::Shape {
                operation: "item",
                left: format!("index {index}"),
                right,
            });
        }
        self.program.world().options.evaluator.force(std::slice::from_ref(&value));
        Ok(value.get(index))
    }

    /// A tile full of one number.
    pub fn full(
        &self,
        dtype: DType,
        shape: impl Into<Shape>,
        number: f64,
    ) -> Result<Tile, KernelError> {
        let shape = shape.into();
        let value =
            self.has_data().then(|| crate::value::Value::full(dtype, shape.elements(), number));
        Tile::in_scratch(&self.program, dtype, shape, value, "a constant").map_err(|error| *error)
    }

    /// A tile full of zeros.
    pub fn zeros(&self, dtype: DType, shape: impl Into<Shape>) -> Result<Tile, KernelError> {
        self.full(dtype, shape, 0.0)
    }
}
