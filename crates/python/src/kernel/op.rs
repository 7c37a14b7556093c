//! The operations of a kernel, as a list keeps them: operands by number, memory by argument.

use super::types::Type;
use super::whole::{Listed, Whole};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{Mask, Shape};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{Atomic, Binary, Compare, Reduce, Unary};
use phalanx_sim::{DType, Time};
use std::rc::Rc;
use std::sync::Arc;

/// The number of a tile, of an issued operation, of a queue or of a range.
pub(crate) type Slot = u32;

/// Elements of an argument, relative to its first: a list can be played with other tensors.
#[derive(Clone)]
pub(crate) struct ArgumentView {
    pub(crate) arg: u32,
    /// Distance from the argument's first element.
    pub(crate) start: usize,
    pub(crate) shape: Shape,
    pub(crate) strides: Shape,
    pub(crate) mask: ViewMask,
}

/// A [`Mask`] that may cross threads.
#[derive(Clone)]
pub(crate) enum ViewMask {
    All,
    Below(Shape),
    Each(Arc<[bool]>),
}

impl ViewMask {
    pub(crate) fn mask(&self) -> Mask {
        match self {
            Self::All => Mask::All,
            Self::Below(bounds) => Mask::below(*bounds),
            Self::Each(each) => Mask::Each(Rc::from(&**each)),
        }
    }
}

/// The end of a queue that a kernel opens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueEnd {
    Sender,
    Receiver,
}

/// One operation. Lists are long: what is large is behind a pointer.
#[derive(Clone)]
pub(crate) enum Op {
    Load {
        to: Slot,
        from: Arc<ArgumentView>,
        other: f64,
    },
    LoadPair {
        to: [Slot; 2],
        from: Box<[Arc<ArgumentView>; 2]>,
    },
    Store {
        to: Arc<ArgumentView>,
        tile: Slot,
    },
    Full {
        to: Slot,
        of: Box<Type>,
        number: f64,
    },
    Binary {
        to: Slot,
        op: Binary,
        left: Slot,
        right: Slot,
    },
    Compare {
        to: Slot,
        op: Compare,
        left: Slot,
        right: Slot,
    },
    Select {
        to: Slot,
        condition: Slot,
        left: Slot,
        right: Slot,
    },
    Unary {
        to: Slot,
        op: Unary,
        tile: Slot,
    },
    Cast {
        to: Slot,
        tile: Slot,
        dtype: DType,
    },
    Reduce {
        to: Slot,
        op: Reduce,
        tile: Slot,
        axis: usize,
    },
    Dot {
        to: Slot,
        left: Slot,
        right: Slot,
        accumulator: Option<Slot>,
    },
    /// An operation on whole tiles.
    Whole {
        to: Slot,
        call: Rc<Whole>,
        tiles: Rc<[Slot]>,
    },
    Split {
        to: [Slot; 2],
        tile: Slot,
    },
    LoadAt {
        to: Slot,
        from: Box<Listed>,
        other: f64,
    },
    StoreAt {
        to: Box<Listed>,
        tile: Slot,
    },
    Atomic {
        to: Slot,
        op: Atomic,
        at: Box<Listed>,
        tiles: Rc<[Slot]>,
    },
    Reshape {
        tile: Slot,
        shape: Shape,
    },
    Compute(Time),
    Barrier,
    Open {
        queue: Slot,
        end: QueueEnd,
        pe: PeId,
        channel: u32,
        spec: Box<EdgeSpec>,
    },
    Close {
        queue: Slot,
    },
    Send {
        queue: Slot,
        tile: Slot,
    },
    Recv {
        to: Slot,
        queue: Slot,
        dtype: DType,
        shape: Shape,
    },
    OpenRange {
        range: Slot,
        name: Rc<str>,
    },
    CloseRange {
        range: Slot,
    },
    /// Issues the operation that follows in the list, without waiting.
    Begin {
        issued: Slot,
    },
    /// Waits for an issued operation.
    Wait {
        issued: Slot,
    },
    /// Drops an issued operation, and the numbers of tiles that nobody asked for.
    Forget {
        issued: Slot,
        unused: [Option<Slot>; 2],
    },
    /// Drops a tile.
    Free {
        tile: Slot,
    },
}

// A list is written once and read once or more: its size is time.
const _: () = assert!(size_of::<Op>() <= 32);
