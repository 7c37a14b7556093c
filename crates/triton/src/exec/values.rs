//! The values of registers.

use crate::index::Index;
use crate::program::RegType;
use crate::types::{Extent, Scalar};
use phalanx_sim::DType;
use phalanx_sim::kernel::{Computing, KernelError, Shape, Tile};
use std::cell::RefCell;
use std::rc::Rc;

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
    /// Known integers, addresses or bits.
    Index(Rc<Index>),
    /// Numbers in scratch memory.
    Data(Data),
    /// A descriptor.
    Descriptor(Rc<Descriptor>),
}

impl Val {
    pub(crate) fn index(index: Index) -> Self {
        Self::Index(Rc::new(index))
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
    cell: Rc<RefCell<Cell>>,
    pub(crate) shape: Extent,
}

enum Cell {
    Issued(Computing),
    Ready(Rc<Tile>),
    /// Somebody waits for it, or it was given away.
    Taken,
}

impl Data {
    /// The result of an operation that was issued.
    pub(crate) fn issued(operation: Computing, shape: Extent) -> Self {
        Self { cell: Rc::new(RefCell::new(Cell::Issued(operation))), shape }
    }

    /// A tile that others may hold too.
    pub(crate) fn shared(tile: Rc<Tile>, shape: Extent) -> Self {
        Self { cell: Rc::new(RefCell::new(Cell::Ready(tile))), shape }
    }

    /// The same tile in another shape.
    pub(crate) fn with_shape(&self, shape: Extent) -> Self {
        Self { cell: self.cell.clone(), shape }
    }

    /// Waits for the tile.
    pub(crate) async fn tile(&self) -> Result<Rc<Tile>, KernelError> {
        let before = std::mem::replace(&mut *self.cell.borrow_mut(), Cell::Taken);
        let tile = match before {
            Cell::Ready(tile) => tile,
            Cell::Issued(operation) => Rc::new(operation.await?),
            Cell::Taken => return Err(KernelError::Other("a tile that failed before".to_owned())),
        };
        *self.cell.borrow_mut() = Cell::Ready(tile.clone());
        Ok(tile)
    }

    /// Waits for the tile, and gives it away if nobody else holds it and it has this shape.
    pub(crate) async fn into_tile(
        self,
        shape: Shape,
    ) -> Result<Result<Tile, Rc<Tile>>, KernelError> {
        let tile = self.tile().await?;
        if Rc::strong_count(&self.cell) > 1 || tile.shape() != shape {
            return Ok(Err(tile));
        }
        drop(self);
        Ok(Rc::try_unwrap(tile))
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

    /// Returns the extent of one element that stands for all.
    pub(crate) fn ones(&self) -> Extent {
        vec![1; self.extent.len()].into()
    }
}

/// Returns the shape of a tile of a tensor; one of more than four axes is flat.
pub(crate) fn tile_shape(extent: &[usize]) -> Shape {
    match extent.len() {
        0..=4 => extent.into(),
        _ => extent.iter().product::<usize>().into(),
    }
}
