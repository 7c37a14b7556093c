//! The values of registers.

use crate::index::Index;
use crate::program::RegType;
use crate::types::{Extent, Scalar};
use phalanx_sim::DType;
use phalanx_sim::kernel::{Computing, KernelError, Shape, Tile};
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// The content of a register.
#[derive(Clone, Default)]
pub(crate) enum Val {
    /// Nothing, or no longer.
    #[default]
    None,
    /// An integer or an address; 0 or 1 for a bit.
    Whole(i64),
    /// A float; of a tensor: of every element.
    Float(f64),
    /// A tensor whose integers, addresses or bits all are this one.
    Equal(i64),
    /// Known integers, addresses or bits.
    Index(Rc<Index>),
    /// Numbers in scratch memory.
    Data(Data),
    /// A descriptor.
    Descriptor(Rc<Descriptor>),
}

impl Val {
    pub(crate) fn index(index: Index) -> Self {
        match index.as_equal() {
            Some(number) => Self::Equal(number),
            None => Self::Index(Rc::new(index)),
        }
    }

    /// Returns known numbers of a tensor.
    #[inline]
    pub(super) fn as_index(&self) -> Option<Cow<'_, Index>> {
        match self {
            Self::Index(index) => Some(Cow::Borrowed(index)),
            Self::Equal(number) => Some(Cow::Owned(Index::splat(*number))),
            _ => None,
        }
    }
}

/// A tensor in memory that is accessed block by block.
pub(crate) struct Descriptor {
    /// The address of the first element.
    pub(crate) base: i64,
    pub(crate) lengths: Vec<i64>,
    /// In elements.
    pub(crate) strides: Vec<i64>,
    /// Elements beyond the tensor read as NaN, not as 0.
    pub(crate) pads_with_nan: bool,
}

/// A tile, seen in a shape whose dimensions are those of its tensor, or 1 where all elements are equal.
#[derive(Clone)]
pub(crate) struct Data {
    pub(super) slot: Rc<Slot>,
    pub(crate) shape: Extent,
}

/// The place of a tile: the operation that makes it, and then the tile.
pub(crate) struct Slot {
    tile: OnceCell<Tile>,
    /// `None` after it has ended.
    operation: RefCell<Option<Computing>>,
}

impl Slot {
    /// Returns the tile, if somebody has waited for it.
    #[inline]
    pub(super) fn ready(&self) -> Option<&Tile> {
        self.tile.get()
    }

    /// Waits for the tile.
    pub(super) async fn wait(&self) -> Result<&Tile, KernelError> {
        if self.tile.get().is_none() {
            poll_fn(|context| self.poll(context)).await?;
        }
        self.tile.get().ok_or_else(failed_before)
    }

    /// True if the tile is there; otherwise the program is resumed at the end of the operation, for which it must wait.
    #[inline]
    pub(super) fn is_there(&self) -> Result<bool, KernelError> {
        if self.tile.get().is_some() {
            return Ok(true);
        }
        // No waker is needed: the executor resumes the running program.
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }

    #[inline]
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<(), KernelError>> {
        let mut place = self.operation.borrow_mut();
        let Some(operation) = &mut *place else { return Poll::Ready(Err(failed_before())) };
        let ended = ready!(Pin::new(operation).poll(context));
        *place = None;
        // Nobody else has set it: the operation ends once.
        Poll::Ready(ended.map(|tile| drop(self.tile.set(tile))))
    }
}

#[cold]
fn failed_before() -> KernelError {
    KernelError::Other("a tile that failed before".to_owned())
}

impl Data {
    /// The result of an operation that was issued.
    pub(crate) fn issued(operation: Computing, shape: Extent) -> Self {
        let slot = Slot { tile: OnceCell::new(), operation: RefCell::new(Some(operation)) };
        Self { slot: Rc::new(slot), shape }
    }

    /// A tile that is there.
    pub(crate) fn of_tile(tile: Tile, shape: Extent) -> Self {
        let slot = Slot { tile: tile.into(), operation: RefCell::new(None) };
        Self { slot: Rc::new(slot), shape }
    }

    /// The same tile in another shape.
    pub(crate) fn with_shape(&self, shape: Extent) -> Self {
        Self { slot: self.slot.clone(), shape }
    }

    /// Waits for the tile.
    pub(crate) async fn tile(&self) -> Result<&Tile, KernelError> {
        self.slot.wait().await
    }

    /// Gives the tile away, if nobody else holds it and it has this shape; else gives itself back.
    pub(crate) fn into_tile(self, shape: Shape) -> Result<Tile, Self> {
        if self.slot.ready().is_none_or(|tile| tile.shape() != shape) {
            return Err(self);
        }
        let Self { slot, shape } = self;
        match Rc::try_unwrap(slot) {
            Ok(Slot { tile, .. }) => Ok(tile.into_inner().expect("it is ready")),
            Err(slot) => Err(Self { slot, shape }),
        }
    }
}

/// Returns the element type of numbers in memory.
pub(crate) fn dtype_of(scalar: Scalar) -> DType {
    match scalar {
        Scalar::Int(1) => DType::Bool,
        Scalar::Int(8) => DType::I8,
        Scalar::Int(16) => DType::I16,
        Scalar::Int(32) => DType::I32,
        Scalar::Int(_) => DType::I64,
        Scalar::F16 => DType::F16,
        Scalar::BF16 => DType::Bf16,
        Scalar::F32 => DType::F32,
        Scalar::F64 => DType::F64,
        Scalar::F8E4M3 => DType::F8e4m3,
        Scalar::F8E5M2 => DType::F8e5m2,
    }
}

/// Returns the type of the same size without sign.
pub(crate) fn unsigned_of(dtype: DType) -> DType {
    match dtype {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        other => other,
    }
}

impl RegType {
    /// Returns the element type of its numbers.
    pub(crate) fn dtype(&self) -> DType {
        dtype_of(self.scalar())
    }

    /// Returns the shape of its tile.
    pub(crate) fn shape(&self) -> Shape {
        tile_shape(&self.extent)
    }
}

/// Returns the shape of a tile of a tensor; one of more than four axes is flat.
pub(crate) fn tile_shape(extent: &[usize]) -> Shape {
    match extent.len() {
        0..=4 => extent.into(),
        _ => extent.iter().product::<usize>().into(),
    }
}
