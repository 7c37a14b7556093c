//! What a callable sees: its arguments, its scalars, and who it is.
//!
//! - **TSK-1 (as declared).** An argument can be used only as it was declared: what was declared as input cannot be
//!   written.
//! - **TSK-2 (in bounds).** An argument outside the memory it names is refused before the callable is called.

use crate::domain::{DomainError, DomainView, Visitor, check_memory};
use crate::failure::Failure;
use crate::message::{MAX_ARGUMENTS, Place, Reach, Received, Seat};
use crate::nested::Foreign;
use crate::shm::grant::Grant;
use crate::shm::mailbox::Witness;
use crate::shm::{Segment, Waiting};
use crate::tensor::{Access, Layout, Tensor};
use bytemuck::Pod;
use std::any::Any;

/// What tasks see of their worker.
pub(crate) struct Setting {
    memories: Vec<Segment>,
    device: Option<Box<dyn Any + Send>>,
    /// Simulated time of the task that runs.
    pub(crate) simulated: u64,
    /// The number that the task that runs was sent with.
    pub(crate) dispatch: u64,
    process: u32,
    /// Where to say that a task moves, if anybody looks.
    witness: Option<Witness>,
    /// How to wait for peers.
    waiting: Option<Waiting>,
}

impl Setting {
    /// Whether all that a task was given lies in the memory it names.
    #[inline]
    pub(crate) fn check_all(&self, given: &Received<'_>) -> Result<(), Failure> {
        given.places.try_reaches(|index, reach| self.check(index, reach))?;
        for seat in given.seats {
            self.check_seat(seat)?;
        }
        Ok(())
    }

    /// Whether an argument lies in the memory it names.
    #[inline]
    fn check(&self, index: usize, reach: Reach) -> Result<(), DataError> {
        let segment = self.memories.get(usize::from(reach.memory));
        let end = reach.offset.checked_add(reach.bytes);
        if let (Some(segment), Some(end)) = (segment, end)
            && end <= segment.len() as u64
        {
            return Ok(());
        }
        Err(outside(index, reach, segment))
    }

    /// Whether a domain lies in the memory it names.
    fn check_seat(&self, seat: &Seat) -> Result<&Segment, DomainError> {
        let memory = self.memories.get(usize::from(seat.roster.memory));
        let memory = memory.ok_or_else(|| DomainError::Memory {
            domain: seat.roster.name.clone(),
            words: format!("memory {} is not shared with this worker", seat.roster.memory),
        })?;
        check_memory(&seat.roster, memory)?;
        Ok(memory)
    }

    /// From now on somebody looks at how tasks move.
    pub(crate) fn serve_with(&mut self, witness: Witness, waiting: Waiting) {
        (self.witness, self.waiting) = (Some(witness), Some(waiting));
    }

    fn open(&self, index: usize, place: &Place, is_shared: bool) -> Result<Data, DataError> {
        let offset = usize::try_from(place.offset).unwrap_or(usize::MAX);
        let bytes = usize::try_from(place.layout.extent).unwrap_or(usize::MAX);
        let segment = self.memories[usize::from(place.memory)].clone();
        let grant = match place.access {
            Access::Unordered => Ok(None),
            _ if is_shared => Ok(None),
            _ if !place.layout.is_dense() => Ok(None),
            Access::Read => Grant::reading(&segment, offset, bytes).map(Some),
            Access::Write | Access::ReadWrite => Grant::writing(&segment, offset, bytes).map(Some),
        };
        let grant = grant.map_err(|error| DataError::Memory { index, words: error.to_string() })?;
        let Place { access, layout, .. } = *place;
        Ok(Data { segment, offset, grant, access, layout, index, is_shared })
    }

    pub(crate) fn new(memories: Vec<Segment>, device: Option<Box<dyn Any + Send>>) -> Self {
        let (simulated, dispatch, process) = (0, 0, std::process::id());
        Self { memories, device, simulated, dispatch, process, witness: None, waiting: None }
    }
}

/// Why an argument is not in the memory it names.
#[cold]
fn outside(index: usize, reach: Reach, segment: Option<&Segment>) -> DataError {
    let Reach { memory, offset, .. } = reach;
    let words = segment.map_or_else(
        || format!("memory {memory} is not shared with this worker"),
        |segment| {
            let bytes = segment.len();
            format!("it begins at byte {offset} and does not end within {bytes}")
        },
    );
    DataError::Memory { index, words }
}

/// One argument of a task that runs.
pub struct Data {
    segment: Segment,
    /// Where it begins.
    offset: usize,
    /// The right to see it in place; dense arguments with an order have it.
    grant: Option<Grant>,
    access: Access,
    layout: Layout,
    index: usize,
    /// Whether peers can reach it.
    is_shared: bool,
}

/// Why an argument cannot be used so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// It was not declared so.
    #[error(
        "argument {index} was submitted as {access:?}: it cannot be {wanted}; change its tag where it is submitted"
    )]
    Access {
        /// Which argument.
        index: usize,
        /// What it was declared as.
        access: Access,
        /// What was tried.
        wanted: &'static str,
    },
    /// Its elements have gaps.
    #[error(
        "argument {index} has gaps between its elements (strides {strides:?}): use `read_elements`/`write_elements`"
    )]
    Strided {
        /// Which argument.
        index: usize,
        /// Its strides.
        strides: Vec<u64>,
    },
    /// Elements of another size.
    #[error("argument {index} holds elements of {bytes} bytes, not of {wanted}")]
    Element {
        /// Which argument.
        index: usize,
        /// What it holds.
        bytes: u64,
        /// What was asked for.
        wanted: usize,
    },
    /// Another number of elements.
    #[error("argument {index} has {wanted} elements, {given} were given")]
    Count {
        /// Which argument.
        index: usize,
        /// How many were given.
        given: usize,
        /// How many it has.
        wanted: u64,
    },
    /// Peers can reach it.
    #[error(
        "argument {index} lies in a window that peers can reach: use `read_elements`/`write_elements`"
    )]
    Shared {
        /// Which argument.
        index: usize,
    },
    /// It is not in the memory.
    #[error("argument {index}: {words}")]
    Memory {
        /// Which argument.
        index: usize,
        /// What the memory says.
        words: String,
    },
}

impl Data {
    /// What it holds, and how.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What may be done with it.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Its elements, to read.
    pub fn slice<T: Pod>(&self) -> Result<&[T], DataError> {
        self.check::<T>()?;
        let grant = self.grant.as_ref().ok_or_else(|| self.only_copied())?;
        grant.slice().map_err(|error| self.memory(&error))
    }

    /// Its elements, to write.
    pub fn slice_mut<T: Pod>(&mut self) -> Result<&mut [T], DataError> {
        if self.access == Access::Read {
            return Err(self.refuse("written"));
        }
        self.check::<T>()?;
        let (index, refused) = (self.index, self.only_copied());
        let grant = self.grant.as_mut().ok_or(refused)?;
        grant.slice_mut().map_err(|error| DataError::Memory { index, words: error.to_string() })
    }

    /// Copies of its elements in row-major order, also if they have gaps or no order.
    pub fn read_elements<T: Pod>(&self) -> Result<Vec<T>, DataError> {
        self.check_element::<T>()?;
        let count = usize::try_from(self.layout.elements()).unwrap_or(usize::MAX);
        let mut elements = vec![T::zeroed(); count];
        let row = row_length(&self.layout);
        for (row, at) in elements.chunks_mut(row).zip(rows(&self.layout, row)) {
            let bytes = bytemuck::cast_slice_mut(row);
            self.segment.read(self.offset + at, bytes).map_err(|error| self.memory(&error))?;
        }
        Ok(elements)
    }

    /// Sets its elements in row-major order, also if they have gaps or no order.
    pub fn write_elements<T: Pod>(&mut self, elements: &[T]) -> Result<(), DataError> {
        if self.access == Access::Read {
            return Err(self.refuse("written"));
        }
        self.check_element::<T>()?;
        if elements.len() as u64 != self.layout.elements() {
            let (index, wanted) = (self.index, self.layout.elements());
            return Err(DataError::Count { index, given: elements.len(), wanted });
        }
        let row = row_length(&self.layout);
        for (row, at) in elements.chunks(row).zip(rows(&self.layout, row)) {
            let bytes = bytemuck::cast_slice(row);
            self.segment.write(self.offset + at, bytes).map_err(|error| self.memory(&error))?;
        }
        Ok(())
    }

    fn check<T: Pod>(&self) -> Result<(), DataError> {
        self.check_element::<T>()?;
        if self.layout.is_dense() {
            return Ok(());
        }
        Err(DataError::Strided { index: self.index, strides: self.layout.strides().to_vec() })
    }

    fn check_element<T: Pod>(&self) -> Result<(), DataError> {
        let (bytes, wanted) = (self.layout.dtype.bytes(), size_of::<T>());
        if bytes == wanted as u64 || wanted == 1 && self.layout.is_dense() {
            return Ok(());
        }
        Err(DataError::Element { index: self.index, bytes, wanted })
    }

    fn only_copied(&self) -> DataError {
        if self.is_shared {
            return DataError::Shared { index: self.index };
        }
        self.refuse("seen in place, only copied")
    }

    fn refuse(&self, wanted: &'static str) -> DataError {
        DataError::Access { index: self.index, access: self.access, wanted }
    }

    fn memory(&self, error: &dyn std::error::Error) -> DataError {
        DataError::Memory { index: self.index, words: error.to_string() }
    }
}

/// How many elements follow each other without a gap, at least.
fn row_length(layout: &Layout) -> usize {
    let last = layout.shape().last().zip(layout.strides().last());
    let count = last.filter(|(_, stride)| **stride == 1).map_or(1, |(count, _)| *count);
    usize::try_from(count).unwrap_or(1).max(1)
}

/// Where each row of `row` elements begins, in bytes from the first, in row-major order.
fn rows(layout: &Layout, row: usize) -> impl Iterator<Item = usize> + use<> {
    let (layout, row) = (*layout, row as u64);
    let bytes = layout.dtype.bytes();
    (0..layout.elements() / row).map(move |number| {
        let mut rest = number * row;
        let mut at = 0;
        for (count, stride) in layout.shape().iter().zip(layout.strides()).rev() {
            at += rest % count * stride;
            rest /= count;
        }
        usize::try_from(at * bytes).unwrap_or(usize::MAX)
    })
}

/// What a callable is called with.
pub struct Task<'a> {
    setting: &'a mut Setting,
    given: &'a Received<'a>,
    /// One bit for each argument that was taken.
    taken: [u64; MAX_ARGUMENTS.div_ceil(64)],
    /// What its arguments are to the workers below, if it is a graph.
    foreign: Option<Foreign>,
}

impl<'a> Task<'a> {
    #[inline]
    pub(crate) fn new(setting: &'a mut Setting, given: &'a Received<'a>) -> Self {
        Self { setting, given, taken: Default::default(), foreign: None }
    }

    /// All arguments, to be used side by side; each can be taken once.
    pub fn arguments<const N: usize>(&mut self) -> Result<[Data; N], Failure> {
        if N != self.given.places.len() {
            let given = self.given.places.len();
            return Err(Failure::new(format!("{N} arguments are wanted, {given} were given")));
        }
        let taken: Result<Vec<Data>, Failure> = (0..N).map(|index| self.argument(index)).collect();
        taken?.try_into().map_err(|_| Failure::new("arguments are missing"))
    }

    /// One argument; each can be taken once.
    pub fn argument(&mut self, index: usize) -> Result<Data, Failure> {
        let given = self.given.places.len();
        let Some(place) = self.given.places.get(index) else {
            return Err(Failure::new(format!("argument {index} is wanted, {given} were given")));
        };
        let (word, bit) = (index / 64, 1 << (index % 64));
        if self.taken[word] & bit != 0 {
            return Err(Failure::new(format!("argument {index} was taken before")));
        }
        self.taken[word] |= bit;
        let meets =
            |seat: &Seat| seat.roster.touches(place.memory, place.offset, place.layout.extent);
        let is_shared = self.given.seats.iter().any(meets);
        Ok(self.setting.open(index, &place, is_shared)?)
    }

    /// One argument as a tensor that a graph can pass on to its own workers, as often as it likes.
    ///
    /// Only graphs have such: `register!(graph f)`. It is of use until the graph's run is over.
    pub fn tensor(&self, index: usize) -> Result<Tensor, Failure> {
        let given = self.given.places.len();
        let Some(place) = self.given.places.get(index) else {
            return Err(Failure::new(format!("argument {index} is wanted, {given} were given")));
        };
        let tensor = self.foreign.as_ref().and_then(|foreign| foreign.tensor(&place));
        tensor.ok_or_else(|| Failure::new("only a graph can pass its arguments on"))
    }

    /// Where to say that it moves.
    pub(crate) fn witness(&self) -> Option<Witness> {
        self.setting.witness.clone()
    }

    /// Its arguments are to be passed on.
    pub(crate) fn inherit(&mut self, foreign: Foreign) {
        self.foreign = Some(foreign);
    }

    /// How many arguments it was given.
    pub fn argument_count(&self) -> usize {
        self.given.places.len()
    }

    /// A number it was given.
    pub fn scalar(&self, index: usize) -> Result<u64, Failure> {
        self.given.scalars.get(index).ok_or_else(|| {
            Failure::new(format!(
                "scalar {index} is wanted, {} were given",
                self.given.scalars.len()
            ))
        })
    }

    /// How many numbers it was given.
    pub fn scalar_count(&self) -> usize {
        self.given.scalars.len()
    }

    /// A real number it was given.
    pub fn real(&self, index: usize) -> Result<f64, Failure> {
        self.scalar(index).map(f64::from_bits)
    }

    /// The bytes it was given.
    pub fn bytes(&self) -> &[u8] {
        self.given.blob
    }

    /// Which member of its group it is, from 0.
    pub fn member(&self) -> usize {
        usize::from(self.given.order.member)
    }

    /// How many members its group has; 1 if it is no group.
    pub fn members(&self) -> usize {
        usize::from(self.given.order.members)
    }

    /// A domain it was given, in the order of [`Call::domain`](crate::Call::domain).
    pub fn domain(&self, index: usize) -> Result<DomainView, Failure> {
        let seats = self.given.seats;
        let Some(seat) = seats.get(index) else {
            let given = seats.len();
            return Err(Failure::new(format!("domain {index} is wanted, {given} were given")));
        };
        let memory = self.setting.check_seat(seat)?;
        let waiting = self.setting.waiting.unwrap_or_else(Waiting::calibrate);
        let Setting { dispatch, process, .. } = *self.setting;
        let visitor = Visitor { run: self.given.order.run, dispatch, process };
        let witness = self.setting.witness.clone();
        Ok(DomainView::open(seat, visitor, memory, witness, waiting)?)
    }

    /// How many domains it was given.
    pub fn domain_count(&self) -> usize {
        self.given.seats.len()
    }

    /// The device of this worker, as its bootstrap made it.
    pub fn device<D: 'static>(&mut self) -> Result<&mut D, Failure> {
        let device = self.setting.device.as_mut();
        let device = device.ok_or_else(|| Failure::new("this worker has no device"))?;
        device.downcast_mut().ok_or_else(|| {
            Failure::new(format!(
                "the device of this worker is no `{}`",
                std::any::type_name::<D>()
            ))
        })
    }

    /// Adds to the simulated time that the task reports.
    pub fn simulated(&mut self, picoseconds: u64) {
        self.setting.simulated = self.setting.simulated.saturating_add(picoseconds);
    }

    /// Says that a long task moves, so that nobody takes it for stuck.
    pub fn progress(&mut self) {
        if let Some(witness) = &self.setting.witness {
            witness.advance();
        }
    }
}
