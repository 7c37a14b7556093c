//! Tiles: what a kernel computes with, and the scratch memory they live in.

use super::messages::Held;
use super::program::Program;
use super::{KernelError, Tl};
use crate::time::Bytes;
use crate::value::{DType, Value};
use std::fmt;
use std::rc::Rc;

/// The extent of a tile: up to four dimensions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    dims: [usize; 4],
    rank: u8,
}

impl Shape {
    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }

    /// How many elements.
    #[inline]
    pub fn elements(&self) -> usize {
        // Dimensions beyond the rank are 1.
        let [a, b, c, d] = self.dims;
        a * b * c * d
    }

    /// The element strides of a dense tile of this shape.
    pub(crate) fn strides(&self) -> Shape {
        let mut strides = *self;
        let mut step = 1;
        for axis in (0..self.rank as usize).rev() {
            strides.dims[axis] = step;
            step *= self.dims[axis];
        }
        strides
    }

    /// The same without one dimension.
    pub(crate) fn without(&self, axis: usize) -> Shape {
        let dims: Vec<usize> = self
            .dims()
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != axis)
            .map(|(_, dim)| *dim)
            .collect();
        Shape::from(dims.as_slice())
    }
}

impl From<&[usize]> for Shape {
    /// # Panics
    ///
    /// If there are more than four dimensions.
    fn from(from: &[usize]) -> Self {
        assert!(from.len() <= 4, "a tile has at most four dimensions");
        let mut dims = [1; 4];
        dims[..from.len()].copy_from_slice(from);
        Self { dims, rank: from.len() as u8 }
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        dims.as_slice().into()
    }
}

impl From<usize> for Shape {
    fn from(len: usize) -> Self {
        [len].into()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims().iter().map(ToString::to_string).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value in a PE's scratch memory, or still in the slot it came in.
#[must_use = "a tile frees its scratch memory, or its slot, when dropped"]
pub struct Tile {
    dtype: DType,
    shape: Shape,
    value: Option<Value>,
    #[expect(dead_code, reason = "held for its destructor")]
    home: Home,
}

/// What a tile occupies until it is dropped.
#[expect(dead_code, reason = "held for their destructors")]
enum Home {
    Scratch(Scratch),
    Slot(Held),
}

impl Tile {
    #[inline]
    pub(crate) fn in_scratch(
        program: &Rc<Program>,
        dtype: DType,
        shape: Shape,
        value: Option<Value>,
        what: &str,
    ) -> Result<Self, KernelError> {
        let scratch = Scratch::take(program, (shape.elements() * dtype.size()) as u64, what)?;
        Ok(Self { dtype, shape, value, home: Home::Scratch(scratch) })
    }

    pub(super) fn in_slot(dtype: DType, shape: Shape, value: Option<Value>, held: Held) -> Self {
        Self { dtype, shape, value, home: Home::Slot(held) }
    }

    /// Has its numbers computed if many operations wait for them, so that what a long loop holds on to is bounded.
    pub(super) fn start_if_deep(&self, program: &Program) {
        if let Some(value) = &self.value
            && value.depth() >= Value::DEEP
        {
            program.world().options.evaluator.start(value);
        }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its extent.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> u64 {
        (self.shape.elements() * self.dtype.size()) as u64
    }

    /// Its numbers, to be computed when somebody looks; `None` without data.
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// The same elements in another shape.
    pub fn reshape(mut self, shape: impl Into<Shape>) -> Result<Self, KernelError> {
        let shape = shape.into();
        if shape.elements() != self.shape.elements() {
            let (left, right) = (self.shape.to_string(), shape.to_string());
            return Err(KernelError::Shape { operation: "reshape", left, right });
        }
        self.shape = shape;
        Ok(self)
    }

    pub(crate) fn describe(&self) -> String {
        format!("{}{}", self.dtype, self.shape)
    }
}

impl fmt::Debug for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Scratch memory, given back when dropped.
pub(super) struct Scratch {
    program: Rc<Program>,
    bytes: u64,
}

impl Scratch {
    #[inline]
    pub(super) fn take(program: &Rc<Program>, bytes: u64, what: &str) -> Result<Self, KernelError> {
        match program.take_scratch(bytes) {
            Ok(()) => Ok(Self { program: program.clone(), bytes }),
            Err((free, capacity)) => Err(full(what, bytes, free, capacity)),
        }
    }
}

#[cold]
fn full(what: &str, bytes: u64, free: Bytes, capacity: Bytes) -> KernelError {
    KernelError::ScratchFull { what: what.to_owned(), wanted: Bytes(bytes), free, capacity }
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        self.program.give_scratch(self.bytes);
    }
}

impl Tl {
    /// Sets scratch memory aside.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, KernelError> {
        Scratch::take(self.program(), bytes, "a reservation").map(Reservation)
    }
}

/// Scratch memory set aside; given back when dropped.
#[must_use = "given back when dropped"]
pub struct Reservation(#[expect(dead_code, reason = "held for its destructor")] Scratch);
