//! Tiles: what a kernel computes with, and the scratch memory they live in.

use super::program::Program;
use super::{KernelError, Tl};
use crate::time::Bytes;
use crate::value::{DType, Value};
use std::fmt;
use std::rc::Rc;

/// The extent of a tile: up to four dimensions of fewer than 2^32 elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Those beyond the rank are 1.
    dims: [u32; 4],
    rank: u8,
}

/// The dimensions of a [`Shape`], outermost first.
#[derive(Clone, Copy)]
pub struct Dims {
    dims: [usize; 4],
    rank: u8,
}

impl std::ops::Deref for Dims {
    type Target = [usize];

    #[inline]
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }
}

impl Shape {
    /// The dimensions, outermost first.
    #[inline]
    pub fn dims(&self) -> Dims {
        Dims { dims: self.dims.map(|dim| dim as usize), rank: self.rank }
    }

    /// The length of a shape of one dimension.
    #[inline]
    pub(super) fn row(&self) -> Option<usize> {
        (self.rank == 1).then_some(self.dims[0] as usize)
    }

    /// How many elements.
    #[inline]
    pub fn elements(&self) -> usize {
        let [a, b, c, d] = self.dims.map(|dim| dim as usize);
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

    /// What of it lies below `bounds`.
    pub(super) fn within(&self, bounds: &Shape) -> Shape {
        let mut within = *self;
        within.dims.iter_mut().zip(bounds.dims).for_each(|(dim, bound)| *dim = (*dim).min(bound));
        within
    }

    /// The same without one dimension.
    pub(crate) fn without(&self, axis: usize) -> Shape {
        let dims = self.dims();
        let left = dims.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, dim)| *dim);
        Shape::from(left.collect::<Vec<_>>().as_slice())
    }
}

impl From<&[usize]> for Shape {
    /// # Panics
    ///
    /// If there are more than four dimensions, or one of 2^32 elements or more.
    #[inline]
    fn from(from: &[usize]) -> Self {
        assert!(from.len() <= 4, "a tile has at most four dimensions");
        let mut dims = [1; 4];
        for (dim, length) in dims.iter_mut().zip(from) {
            *dim =
                u32::try_from(*length).expect("a dimension of a tile has fewer than 2^32 elements");
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most four")]
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
///
/// A handle: what it stands for is in a table of its program, where it is written once and never moved.
#[must_use = "a tile frees its scratch memory, or its slot, when dropped"]
pub struct Tile {
    program: Rc<Program>,
    number: u32,
}

/// What a tile is: one line of the processor's cache.
#[repr(align(64))]
struct Entry {
    dtype: DType,
    shape: Shape,
    bytes: u64,
    value: Option<Value>,
    home: Home,
}

/// What a tile occupies until it is dropped.
#[derive(Clone, Copy)]
enum Home {
    /// Nothing: the tile is gone, and this is the one that went before it.
    Gone(u32),
    /// Its bytes of scratch.
    Scratch,
    /// A slot of this edge.
    Slot(u32),
}

/// The tiles of a program.
pub(super) struct Tiles {
    entries: Vec<Entry>,
    /// The one that went last, whose place is taken next.
    gone: u32,
}

impl Default for Tiles {
    fn default() -> Self {
        Self { entries: Vec::new(), gone: NONE }
    }
}

const NONE: u32 = u32::MAX;

impl Tiles {
    #[inline]
    fn add(&mut self, kind: (DType, Shape, u64), value: Option<Value>, home: Home) -> u32 {
        let (dtype, shape, bytes) = kind;
        let number = self.gone;
        let Some(entry) = self.entries.get_mut(number as usize) else {
            return self.grow(Entry { dtype, shape, bytes, value, home });
        };
        if let Home::Gone(next) = entry.home {
            self.gone = next;
        }
        entry.dtype = dtype;
        entry.shape = shape;
        entry.bytes = bytes;
        entry.value = value;
        entry.home = home;
        number
    }

    #[cold]
    fn grow(&mut self, entry: Entry) -> u32 {
        self.entries.push(entry);
        u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 tiles")
    }

    /// Takes a tile out: what it occupied, and its value.
    #[inline]
    fn remove(&mut self, number: u32) -> (Home, u64, Option<Value>) {
        let entry = &mut self.entries[number as usize];
        let home = std::mem::replace(&mut entry.home, Home::Gone(self.gone));
        self.gone = number;
        (home, entry.bytes, entry.value.take())
    }
}

impl Tile {
    #[inline]
    pub(crate) fn in_scratch(
        program: &Rc<Program>,
        dtype: DType,
        shape: Shape,
        value: Option<Value>,
        what: &str,
    ) -> Result<Self, Box<KernelError>> {
        let bytes = (shape.elements() * dtype.size()) as u64;
        if let Err((free, capacity)) = program.take_scratch(bytes) {
            return Err(full(what, bytes, free, capacity));
        }
        let kind = (dtype, shape, bytes);
        let number = program.tiles().borrow_mut().add(kind, value, Home::Scratch);
        Ok(Self { program: program.clone(), number })
    }

    /// A tile in a slot of `edge`, which goes home when the tile is dropped.
    #[inline]
    pub(super) fn in_slot(
        program: &Rc<Program>,
        kind: (DType, Shape, u64),
        value: Option<Value>,
        edge: u32,
    ) -> Self {
        let number = program.tiles().borrow_mut().add(kind, value, Home::Slot(edge));
        Self { program: program.clone(), number }
    }

    #[inline]
    fn with<T>(&self, look: impl FnOnce(&Entry) -> T) -> T {
        look(&self.program.tiles().borrow().entries[self.number as usize])
    }

    /// The type of its elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.with(|entry| entry.dtype)
    }

    /// Its extent.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.with(|entry| entry.shape)
    }

    /// Both at once.
    #[inline]
    pub(super) fn kind(&self) -> (DType, Shape) {
        self.with(|entry| (entry.dtype, entry.shape))
    }

    /// Whether it has this type and extent.
    #[inline]
    pub(super) fn is(&self, dtype: DType, shape: &Shape) -> bool {
        self.with(|entry| entry.dtype == dtype && entry.shape == *shape)
    }

    /// How many bytes it takes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.with(|entry| entry.bytes)
    }

    /// What a message carries: its size and its numbers.
    #[inline]
    pub(super) fn cargo(&self) -> (u64, Option<Value>) {
        self.with(|entry| (entry.bytes, entry.value.clone()))
    }

    /// Its numbers, to be computed when somebody looks; `None` without data.
    #[inline]
    pub fn value(&self) -> Option<Value> {
        self.with(|entry| entry.value.clone())
    }

    /// Has its numbers computed if too many operations are waiting behind it, so that a long loop does not grow.
    #[inline]
    pub(super) fn start_if_deep(&self) {
        if let Some(value) = self.value()
            && value.depth() >= Value::DEEP
        {
            self.program.world().options.evaluator.start(&value);
        }
    }

    /// The same elements in another shape.
    pub fn reshape(self, shape: impl Into<Shape>) -> Result<Self, KernelError> {
        let (before, shape) = (self.shape(), shape.into());
        if shape.elements() != before.elements() {
            let (left, right) = (before.to_string(), shape.to_string());
            return Err(KernelError::Shape { operation: "reshape", left, right });
        }
        self.program.tiles().borrow_mut().entries[self.number as usize].shape = shape;
        Ok(self)
    }

    pub(crate) fn describe(&self) -> String {
        format!("{}{}", self.dtype(), self.shape())
    }
}

impl fmt::Debug for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Drop for Tile {
    #[inline]
    fn drop(&mut self) {
        let (home, bytes, value) = self.program.tiles().borrow_mut().remove(self.number);
        drop(value);
        match home {
            Home::Scratch => self.program.give_scratch(bytes),
            Home::Slot(edge) => self.program.world().release(edge, &self.program.path()),
            Home::Gone(_) => {}
        }
    }
}

/// Scratch memory, given back when dropped.
pub(super) struct Scratch {
    program: Rc<Program>,
    bytes: u64,
}

impl Scratch {
    #[inline]
    pub(super) fn take(
        program: &Rc<Program>,
        bytes: u64,
        what: &str,
    ) -> Result<Self, Box<KernelError>> {
        match program.take_scratch(bytes) {
            Ok(()) => Ok(Self { program: program.clone(), bytes }),
            Err((free, capacity)) => Err(full(what, bytes, free, capacity)),
        }
    }
}

#[cold]
#[expect(
    clippy::unnecessary_box_returns,
    reason = "a result with a thin error is passed in registers"
)]
fn full(what: &str, bytes: u64, free: Bytes, capacity: Bytes) -> Box<KernelError> {
    let (what, wanted) = (what.to_owned(), Bytes(bytes));
    Box::new(KernelError::ScratchFull { what, wanted, free, capacity })
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        self.program.give_scratch(self.bytes);
    }
}

impl Tl {
    /// How much scratch memory the PE has.
    pub fn scratch_capacity(&self) -> crate::time::Capacity {
        self.program().world().spec.tcm
    }

    /// Sets scratch memory aside.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, KernelError> {
        let scratch = Scratch::take(self.program(), bytes, "a reservation");
        scratch.map(Reservation).map_err(|error| *error)
    }
}

/// Scratch memory set aside; given back when dropped.
#[must_use = "given back when dropped"]
pub struct Reservation(#[expect(dead_code, reason = "held for its destructor")] Scratch);
