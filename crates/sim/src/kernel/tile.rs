//! Tiles: the operands of a kernel, and the scratch memory that holds them.

use super::math::misfit;
use super::program::{Program, ScratchShortage};
use super::{KernelError, Tl};
use crate::ipcq::MessageBody;
use crate::time::Bytes;
use crate::value::{DType, Value};
use std::fmt;
use std::panic::Location;
use std::rc::Rc;

/// The extent of a tile: up to four dimensions of fewer than 2^32 elements.
#[derive(Clone, Copy, Eq)]
pub struct Shape {
    /// The dimensions; those beyond the rank are 1.
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

impl PartialEq for Shape {
    /// Most shapes have one dimension: their lengths are compared alone.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
            && self.dims[0] == other.dims[0]
            && (self.rank == 1 || self.dims[1..] == other.dims[1..])
    }
}

impl Shape {
    /// Returns the dimensions, outermost first.
    #[inline]
    pub fn dims(&self) -> Dims {
        let [a, b, c, d] = self.dims;
        Dims { dims: [a as usize, b as usize, c as usize, d as usize], rank: self.rank }
    }

    /// Returns the length of a shape of one dimension.
    #[inline]
    pub(super) fn one_dimension(&self) -> Option<usize> {
        (self.rank == 1).then_some(self.dims[0] as usize)
    }

    /// Returns the number of elements.
    #[inline]
    pub fn elements(&self) -> usize {
        let [a, b, c, d] = self.dims;
        a as usize * b as usize * c as usize * d as usize
    }

    /// Returns the strides of a dense tile of this shape, in elements.
    pub(crate) fn strides(&self) -> Shape {
        let mut strides = *self;
        let mut step = 1;
        for axis in (0..self.rank as usize).rev() {
            strides.dims[axis] = step;
            step *= self.dims[axis];
        }
        strides
    }

    /// Returns the shape to which both can be broadcast: equal ranks, and equal dimensions unless one is 1; a shape
    /// without dimensions fits every other.
    pub(crate) fn broadcast(&self, other: &Shape) -> Option<Shape> {
        match (self.rank, other.rank) {
            (0, _) => return Some(*other),
            (_, 0) => return Some(*self),
            (a, b) if a != b => return None,
            _ => {}
        }
        let mut shape = *self;
        for (dim, other) in shape.dims.iter_mut().zip(other.dims) {
            match (*dim, other) {
                (1, _) => *dim = other,
                (a, b) if a == b || b == 1 => {}
                _ => return None,
            }
        }
        Some(shape)
    }

    /// Returns the part of the shape below `bounds`.
    pub(super) fn within(&self, bounds: &Shape) -> Shape {
        let mut within = *self;
        within.dims.iter_mut().zip(bounds.dims).for_each(|(dim, bound)| *dim = (*dim).min(bound));
        within
    }

    /// Returns the shape without one dimension.
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
        for (axis, length) in from.iter().enumerate() {
            dims[axis] = dimension(*length);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most four")]
        Self { dims, rank: from.len() as u8 }
    }
}

/// Returns a dimension of a tile.
#[inline]
fn dimension(length: usize) -> u32 {
    u32::try_from(length).expect("a dimension of a tile has fewer than 2^32 elements")
}

impl<const N: usize> From<[usize; N]> for Shape {
    #[inline]
    fn from(dims: [usize; N]) -> Self {
        dims.as_slice().into()
    }
}

impl From<usize> for Shape {
    #[inline]
    fn from(len: usize) -> Self {
        Self { dims: [dimension(len), 1, 1, 1], rank: 1 }
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

/// A value in a PE's scratch memory, or in the slot in which it was received.
///
/// A tile is a handle; a table of its program holds the entry, which is written once and never moved.
#[must_use = "a tile frees its scratch memory, or its slot, when dropped"]
pub struct Tile {
    program: Rc<Program>,
    number: u32,
}

/// The element type, shape and size of a tile.
#[derive(Clone, Copy)]
pub(super) struct TileType {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    pub(super) bytes: u64,
}

impl TileType {
    #[inline]
    pub(super) fn new(dtype: DType, shape: Shape) -> Self {
        Self { dtype, shape, bytes: (shape.elements() * dtype.size()) as u64 }
    }
}

/// The content of a tile: one cache line.
#[repr(align(64))]
struct Entry {
    tile_type: TileType,
    value: Option<Value>,
    memory: TileMemory,
}

/// The memory that a tile occupies until it is dropped.
#[derive(Clone, Copy)]
pub(super) enum TileMemory {
    /// None: the entry is free, and this is the next free entry.
    Free(u32),
    /// Scratch memory.
    Scratch,
    /// A slot of this edge.
    Slot(u32),
    /// That of another tile, which lives longer.
    Borrowed,
}

/// The tiles of a program.
pub(super) struct Tiles {
    entries: Vec<Entry>,
    /// The first free entry.
    free: u32,
}

impl Default for Tiles {
    fn default() -> Self {
        Self { entries: Vec::new(), free: NONE }
    }
}

const NONE: u32 = u32::MAX;

impl Tiles {
    #[inline]
    pub(super) fn add(
        &mut self,
        tile_type: TileType,
        value: Option<Value>,
        memory: TileMemory,
    ) -> u32 {
        let number = self.free;
        let Some(entry) = self.entries.get_mut(number as usize) else {
            return self.grow(Entry { tile_type, value, memory });
        };
        if let TileMemory::Free(next) = entry.memory {
            self.free = next;
        }
        entry.tile_type = tile_type;
        // A free entry has no value.
        if value.is_some() {
            entry.value = value;
        }
        entry.memory = memory;
        number
    }

    #[cold]
    fn grow(&mut self, entry: Entry) -> u32 {
        self.entries.push(entry);
        u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 tiles")
    }

    /// Removes a tile; returns its memory, its size and its value.
    #[inline]
    fn remove(&mut self, number: u32) -> (TileMemory, u64, Option<Value>) {
        let entry = &mut self.entries[number as usize];
        let memory = std::mem::replace(&mut entry.memory, TileMemory::Free(self.free));
        self.free = number;
        (memory, entry.tile_type.bytes, entry.value.take())
    }
}

impl Tile {
    /// Creates a tile in scratch memory; `what` names its use in an error.
    #[inline]
    pub(crate) fn in_scratch(
        program: &Rc<Program>,
        dtype: DType,
        shape: Shape,
        value: Option<Value>,
        what: &str,
    ) -> Result<Self, Box<KernelError>> {
        let tile_type = TileType::new(dtype, shape);
        if let Err(shortage) = program.take_scratch(tile_type.bytes) {
            return Err(full(what, tile_type.bytes, shortage));
        }
        let number = program.tiles().borrow_mut().add(tile_type, value, TileMemory::Scratch);
        Ok(Self { program: program.clone(), number })
    }

    /// Creates a tile in a slot of `edge`; the slot is freed when the tile is dropped.
    #[inline]
    pub(super) fn in_slot(
        program: &Rc<Program>,
        tile_type: TileType,
        value: Option<Value>,
        edge: u32,
    ) -> Self {
        let number = program.tiles().borrow_mut().add(tile_type, value, TileMemory::Slot(edge));
        Self { program: program.clone(), number }
    }

    /// The tile of an entry.
    pub(super) fn of_entry(program: Rc<Program>, number: u32) -> Self {
        Self { program, number }
    }

    pub(super) fn program(&self) -> &Rc<Program> {
        &self.program
    }

    #[inline]
    fn with<T>(&self, read: impl FnOnce(&Entry) -> T) -> T {
        read(&self.program.tiles().borrow().entries[self.number as usize])
    }

    /// Returns the element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.with(|entry| entry.tile_type.dtype)
    }

    /// Returns the shape.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.with(|entry| entry.tile_type.shape)
    }

    /// Returns element type, shape and size.
    #[inline]
    pub(super) fn tile_type(&self) -> TileType {
        self.with(|entry| entry.tile_type)
    }

    /// True if the tile has this element type and shape.
    #[inline]
    pub(super) fn is(&self, dtype: DType, shape: &Shape) -> bool {
        self.with(|entry| entry.tile_type.dtype == dtype && entry.tile_type.shape == *shape)
    }

    /// Returns the size in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.with(|entry| entry.tile_type.bytes)
    }

    /// Returns the content of a message with this tile.
    #[inline]
    pub(super) fn message_body(&self) -> MessageBody {
        self.with(|entry| MessageBody { bytes: entry.tile_type.bytes, value: entry.value.clone() })
    }

    /// Returns the value, which is computed when it is read; `None` without data.
    #[inline]
    pub fn value(&self) -> Option<Value> {
        self.with(|entry| entry.value.clone())
    }

    /// Starts the computation of a value with too many pending operations, so that a long loop does not use ever more memory.
    #[inline]
    pub(super) fn start_if_deep(&self) {
        if let Some(value) = self.value()
            && value.depth() >= Value::DEEP
        {
            self.program.world().options.evaluator.start(&value);
        }
    }

    /// Returns the same elements in another shape.
    #[track_caller]
    pub fn reshape(self, shape: impl Into<Shape>) -> Result<Self, KernelError> {
        let (before, shape) = (self.shape(), shape.into());
        if shape.elements() != before.elements() {
            let (left, right) = (before.to_string(), shape.to_string());
            let (a, b) = (before.elements(), shape.elements());
            let error = misfit("reshape", left, &right, &format!("{a} and {b} elements"));
            self.program.note_fault(Location::caller(), &error);
            return Err(error);
        }
        let index = self.number as usize;
        self.program.tiles().borrow_mut().entries[index].tile_type.shape = shape;
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
        let (memory, bytes, value) = self.program.tiles().borrow_mut().remove(self.number);
        drop(value);
        match memory {
            TileMemory::Scratch => self.program.give_scratch(bytes),
            TileMemory::Slot(edge) => self.program.world().release(edge, &self.program.path()),
            TileMemory::Free(_) | TileMemory::Borrowed => {}
        }
    }
}

/// Scratch memory, freed when dropped.
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
            Err(shortage) => Err(full(what, bytes, shortage)),
        }
    }
}

#[cold]
#[expect(
    clippy::unnecessary_box_returns,
    reason = "a result with a thin error is passed in registers"
)]
fn full(what: &str, bytes: u64, shortage: ScratchShortage) -> Box<KernelError> {
    let (what, wanted) = (what.to_owned(), Bytes(bytes));
    let ScratchShortage { free, capacity } = shortage;
    Box::new(KernelError::ScratchFull { what, wanted, free, capacity })
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        self.program.give_scratch(self.bytes);
    }
}

impl Tl {
    /// Returns the size of the PE's scratch memory.
    pub fn scratch_capacity(&self) -> crate::time::Capacity {
        self.program().world().spec.tcm
    }

    /// Reserves scratch memory.
    #[track_caller]
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, KernelError> {
        match Scratch::take(self.program(), bytes, "a reservation") {
            Ok(scratch) => Ok(Reservation(scratch)),
            Err(error) => Err(*self.fault(error)),
        }
    }
}

/// Reserved scratch memory, freed when dropped.
#[must_use = "freed when dropped"]
pub struct Reservation(#[expect(dead_code, reason = "held for its destructor")] Scratch);
