//! Operations for executors of other kernel languages: tiles seen in another shape, and vector operations whose value is given.

use super::tile::{Tile, TileMemory, TileType};
use super::{Computing, Shape, Tl};
use crate::spec::VectorClass;
use crate::value::{DType, Value};
use std::ops::Deref;

/// The bytes of a tile with another shape or type, as long as the tile lives.
pub struct Seen<'a>(Sight<'a>);

enum Sight<'a> {
    /// The tile itself, which has this shape and type.
    Same(&'a Tile),
    Other(Tile),
}

impl Deref for Seen<'_> {
    type Target = Tile;

    #[inline]
    fn deref(&self) -> &Tile {
        match &self.0 {
            Sight::Same(tile) => tile,
            Sight::Other(tile) => tile,
        }
    }
}

impl Tile {
    /// Returns the tile with another shape and type of the same sizes: no operation, and no scratch memory.
    ///
    /// # Panics
    ///
    /// If the shape has another number of elements, or the type another size: a bug of the caller.
    #[inline]
    pub fn seen_as(&self, dtype: DType, shape: impl Into<Shape>) -> Seen<'_> {
        let shape = shape.into();
        if self.is(dtype, &shape) {
            return Seen(Sight::Same(self));
        }
        self.seen_as_other(dtype, shape)
    }

    fn seen_as_other(&self, dtype: DType, shape: Shape) -> Seen<'_> {
        let own = self.tile_type();
        assert_eq!(
            shape.elements(),
            own.shape.elements(),
            "a tile has as many elements in any shape"
        );
        assert_eq!(dtype.size(), own.dtype.size(), "a tile has elements of one size");
        let value = self.value();
        let value =
            if dtype == own.dtype { value } else { value.map(|value| value.bitcast(dtype)) };
        let program = self.program().clone();
        let tile_type = TileType::new(dtype, shape);
        let number = program.tiles().borrow_mut().add(tile_type, value, TileMemory::Borrowed);
        Seen(Sight::Other(Self::of_entry(program, number)))
    }
}

impl Tl {
    /// Performs a vector operation of a class on operands of at most `operand` bytes. Its value is given, and `None` without data.
    #[track_caller]
    pub fn vector_operation(
        &self,
        label: (&'static str, VectorClass),
        operand: u64,
        dtype: DType,
        shape: impl Into<Shape>,
        value: Option<Value>,
    ) -> Computing {
        self.vector(label, operand, dtype, shape.into(), value)
    }
}
