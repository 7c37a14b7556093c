//! The errors of a rank's program.

use crate::multiprocessing::Desync;
use phalanx_sim::kernel::KernelError;
use phalanx_sim::machine::RunError;
use phalanx_sim::memory::MemoryError;
use phalanx_sim::portable;
use phalanx_sim::portable::{Malformed, Portable, Reader};
use phalanx_sim::value::DType;
use phalanx_sim::{Foreign, Time};
use std::fmt;
use std::sync::Arc;

/// The error of an operation or of a rank.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No free memory, or an address that is not mapped.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A kernel failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An argument that cannot be used.
    #[error("{0}")]
    Argument(String),
    /// Ranks that are in different operations.
    #[error("{0}")]
    Mismatch(Box<Mismatch>),
    /// A message that no rank has received.
    #[error("rank {from} sent rank {to} a message with tag {tag} in {} that nobody received", group_name(*group))]
    Unreceived {
        /// The sending rank.
        from: usize,
        /// The receiving rank.
        to: usize,
        /// The tag.
        tag: u32,
        /// The number of the group; 0 is the world.
        group: u32,
    },
    /// Ranks that have not come in time.
    #[error("{operation}: {} not come within {timeout}", have_ranks(ranks))]
    Missing {
        /// The operation.
        operation: &'static str,
        /// The ranks.
        ranks: Vec<usize>,
        /// The time that they had.
        timeout: Time,
    },
    /// Replicas of a tensor that differ.
    #[error(
        "replicas of {tensor} differ at element {index}: {} holds {}, {} holds {}",
        first.0, first.1, second.0, second.1
    )]
    ReplicasDiffer {
        /// The tensor, in words.
        tensor: String,
        /// The first element that differs.
        index: usize,
        /// The PE of one copy, and its number.
        first: (String, f64),
        /// The PE of the other copy, and its number.
        second: (String, f64),
    },
    /// Time was driven for something that can no longer happen: no event is left.
    #[error("{0}")]
    Desync(Box<Desync>),
    /// A read of numbers in a run without data.
    #[error("{0} was read, and this run computes no numbers (data is off)")]
    NoData(String),
    /// An operation that was not begun because an earlier one had failed.
    #[error("{what} was not begun: {cause}")]
    After {
        /// The operation.
        what: String,
        /// The first failure.
        cause: Box<Error>,
    },
    /// An error of a crate that builds on ranks, such as a task graph that failed; see [`Error::downcast_ref`].
    #[error("{0}")]
    Custom(Custom),
    /// An error from outside, which the rank's program brings along; see [`Error::foreign`].
    #[error("{0}")]
    Foreign(Foreign),
    /// The rank's program panicked.
    #[error("panicked: {0}")]
    Panic(String),
    /// An error of the program itself.
    #[error("{0}")]
    Other(String),
}

portable!(enum Error {
    0 => Memory(error),
    1 => Run(error),
    2 => Argument(text),
    3 => Mismatch(sides),
    4 => Unreceived { from, to, tag, group },
    5 => Missing { operation, ranks, timeout },
    6 => ReplicasDiffer { tensor, index, first, second },
    7 => Desync(ranks),
    8 => NoData(text),
    9 => After { what, cause },
    10 => Custom(error),
    11 => Foreign(error),
    12 => Panic(text),
    13 => Other(text),
});

/// Two sides of one operation that do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The rank that found the mismatch.
    pub here: MismatchSide,
    /// The other rank.
    pub there: MismatchSide,
}

portable!(struct Mismatch { here, there });

/// One side of a [`Mismatch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MismatchSide {
    /// The rank.
    pub rank: usize,
    /// The operation that the rank is in.
    pub operation: String,
}

portable!(struct MismatchSide { rank, operation });

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the ranks do not do the same:\n  rank {} is in {}\n  rank {} is in {}",
            self.here.rank, self.here.operation, self.there.rank, self.there.operation
        )
    }
}

/// An error of a crate that builds on ranks.
#[derive(Clone, Debug)]
pub struct Custom(Arc<dyn std::error::Error + Send + Sync>);

/// An error of another process, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Told(String);

/// Another process gets the words of the error alone.
impl Portable for Custom {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.to_string().put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(Arc::new(Told(String::take(from)?))))
    }
}

impl fmt::Display for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Custom {
    /// True for the same error, and for errors with the same text.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.to_string() == other.to_string()
    }
}

impl Error {
    /// Wraps the error of a crate that builds on ranks.
    pub fn custom(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Custom(Custom(Arc::new(error)))
    }

    /// Returns the error given to [`Error::custom`], if it is one of type `T`.
    pub fn downcast_ref<T: std::error::Error + 'static>(&self) -> Option<&T> {
        match self {
            Self::Custom(custom) => custom.0.downcast_ref(),
            _ => None,
        }
    }

    /// Makes an error of the program itself.
    pub fn other(text: impl fmt::Display) -> Self {
        Self::Other(text.to_string())
    }

    /// Makes the error of an argument that cannot be used.
    pub fn argument(text: impl Into<String>) -> Self {
        Self::Argument(text.into())
    }

    /// Returns the error from outside: this error itself, or the cause of a failed kernel or operation.
    pub fn foreign(&self) -> Option<&Foreign> {
        match self.root() {
            Self::Foreign(foreign)
            | Self::Run(RunError::Kernel { error: KernelError::Foreign(foreign), .. }) => {
                Some(foreign)
            }
            _ => None,
        }
    }

    /// Returns the first failure.
    pub fn root(&self) -> &Self {
        match self {
            Self::After { cause, .. } => cause.root(),
            _ => self,
        }
    }
}

impl From<Foreign> for Error {
    fn from(foreign: Foreign) -> Self {
        Self::Foreign(foreign)
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Self::Other(text.to_owned())
    }
}

/// `rank 2 has`, or `ranks 1, 3 have`.
fn have_ranks(ranks: &[usize]) -> String {
    let list: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match ranks {
        [rank] => format!("rank {rank} has"),
        _ => format!("ranks {} have", list.join(", ")),
    }
}

/// `the world`, or `group 3`.
pub(crate) fn group_name(number: u32) -> String {
    if number == 0 { "the world".to_owned() } else { format!("group {number}") }
}

/// `f16[2, 3]`.
pub(crate) fn describe(dtype: DType, shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("{dtype}[{}]", dims.join(", "))
}
