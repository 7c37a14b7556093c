//! One argument of a task, while the task runs.

use crate::message::ArgumentDescriptor;
use crate::shm::Segment;
use crate::shm::copying::Copying;
use crate::shm::grant::{Grant, GrantError, Holder};
use crate::tensor::{Access, Layout};
use bytemuck::Pod;

/// One argument of a task that runs. It is gone when its task ends: its memory is others' from then on.
///
/// A callable is called with a task of any lifetime, so nothing of the task's can be kept behind its back. Threads can have
/// an argument if they end before the task does ([`std::thread::scope`]):
///
/// ```
/// use phalanx_runtime::*;
///
/// fn halves(task: &mut Task<'_>) -> Result<(), Failure> {
///     let [mut left, mut right] = task.arguments()?;
///     let fill = |data: &mut Data<'_>, value: f32| data.slice_mut().map(|slice| slice.fill(value));
///     std::thread::scope(|scope| {
///         let other = scope.spawn(|| fill(&mut right, 2.0));
///         fill(&mut left, 1.0)?;
///         other.join().map_err(|_| Failure::new("a thread panicked"))?.map_err(Failure::from)
///     })
/// }
/// # const HALVES: Callable = register!(halves);
/// # static PROGRAM: Program = Program::new(&[HALVES]);
/// # let worker = Worker::builder(&PROGRAM).threads().sub_workers(1).init()?;
/// # let data = worker.tensor(DType::F32, &[2])?;
/// # let halves = [data.rows(0, 1)?.output(), data.rows(1, 2)?.output()];
/// # worker.call(&Call::new(&HALVES).args(halves))?;
/// # assert_eq!(worker.read::<f32>(&data)?, [1.0, 2.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// It cannot be kept for the next task,
///
/// ```compile_fail,E0521
/// use phalanx_runtime::*;
/// use std::sync::Mutex;
///
/// static KEPT: Mutex<Vec<Data<'static>>> = Mutex::new(Vec::new());
///
/// fn keep(task: &mut Task<'_>) -> Result<(), Failure> {
///     KEPT.lock().unwrap().push(task.argument(0)?);
///     Ok(())
/// }
/// ```
///
/// nor in a thread that goes on,
///
/// ```compile_fail,E0521
/// # use phalanx_runtime::*;
/// fn leave_to_a_thread(task: &mut Task<'_>) -> Result<(), Failure> {
///     let mut data = task.argument(0)?;
///     std::thread::spawn(move || data.slice_mut::<u64>().map(|slice| slice.fill(7)).is_ok());
///     Ok(())
/// }
/// ```
///
/// nor in the device,
///
/// ```compile_fail
/// # use phalanx_runtime::*;
/// fn keep_in_the_device(task: &mut Task<'_>) -> Result<(), Failure> {
///     let data = task.argument(0)?;
///     task.device::<Vec<Data<'_>>>()?.push(data);
///     Ok(())
/// }
/// ```
///
/// nor can it be sent away, and the same is true of a slice of it and of the view of a domain:
///
/// ```compile_fail,E0521
/// # use phalanx_runtime::*;
/// # use std::sync::{Mutex, OnceLock, mpsc::Sender};
/// static AWAY: OnceLock<Mutex<Sender<Data<'static>>>> = OnceLock::new();
///
/// fn send_away(task: &mut Task<'_>) -> Result<(), Failure> {
///     let data = task.argument(0)?;
///     AWAY.get().unwrap().lock().unwrap().send(data).map_err(|_| Failure::new("nobody listens"))
/// }
/// ```
///
/// ```compile_fail
/// # use phalanx_runtime::*;
/// fn leak_a_slice(task: &mut Task<'_>) -> Result<(), Failure> {
///     let data: &Data<'_> = Box::leak(Box::new(task.argument(0)?));
///     let slice: &'static [u64] = data.slice()?;
///     std::thread::spawn(move || slice[0]);
///     Ok(())
/// }
/// ```
///
/// ```compile_fail,E0521
/// # use phalanx_runtime::*;
/// fn leave_a_view(task: &mut Task<'_>) -> Result<(), Failure> {
///     let view = task.domain(0)?;
///     std::thread::spawn(move || view.put(0, "x", 0, &[7u64]).is_ok());
///     Ok(())
/// }
/// ```
pub struct Data<'a> {
    pub(super) segment: &'a Segment,
    /// Offset of its first byte.
    pub(super) offset: usize,
    /// The right to see it in place; dense arguments with an order have it.
    pub(super) grant: Option<Grant<'a>>,
    pub(super) access: Access,
    pub(super) layout: Layout,
    pub(super) index: usize,
    /// True if peers can reach it.
    pub(super) is_shared: bool,
}

/// A refused use of an argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// It was not declared so.
    #[error(
        "argument {index} was submitted as {access:?}: it cannot be {wanted}; change its tag where it is submitted"
    )]
    Access {
        /// Index of the argument.
        index: usize,
        /// Declared access.
        access: Access,
        /// Action that was tried.
        wanted: &'static str,
    },
    /// Its elements have gaps.
    #[error(
        "argument {index} has gaps between its elements (strides {strides:?}): use `read_elements`/`write_elements`"
    )]
    Strided {
        /// Index of the argument.
        index: usize,
        /// Its strides.
        strides: Vec<u64>,
    },
    /// Elements of another size.
    #[error("argument {index} holds elements of {bytes} bytes, not of {wanted}")]
    Element {
        /// Index of the argument.
        index: usize,
        /// Value that it holds.
        bytes: u64,
        /// Value that was asked for.
        wanted: usize,
    },
    /// Another number of elements.
    #[error("argument {index} has {wanted} elements, {given} were given")]
    Count {
        /// Index of the argument.
        index: usize,
        /// Number that was given.
        given: usize,
        /// Number that it has.
        wanted: u64,
    },
    /// Peers can reach it.
    #[error(
        "argument {index} lies in a window that peers can reach: use `read_elements`/`write_elements`"
    )]
    Shared {
        /// Index of the argument.
        index: usize,
    },
    /// A running task has bytes of it in place.
    #[error(
        "a running task has bytes of argument {index} in place, so they cannot be {wanted}: submit the one of them after the other, or submit both as `no_dep`, which are copied"
    )]
    InPlace {
        /// Index of the argument.
        index: usize,
        /// Action that was tried.
        wanted: &'static str,
    },
    /// It is not in the memory.
    #[error("argument {index}: {words}")]
    Memory {
        /// Index of the argument.
        index: usize,
        /// Refusal of the memory.
        words: String,
    },
}

impl<'a> Data<'a> {
    /// Opens the argument of a descriptor; nobody gets it in place while peers can reach it.
    pub(super) fn open(
        holder: &'a Holder,
        segment: &'a Segment,
        index: usize,
        descriptor: &ArgumentDescriptor,
        is_shared: bool,
    ) -> Result<Self, DataError> {
        let ArgumentDescriptor { access, layout, .. } = *descriptor;
        let offset = usize::try_from(descriptor.offset).unwrap_or(usize::MAX);
        let bytes = usize::try_from(layout.extent).unwrap_or(usize::MAX);
        let grant = match access {
            _ if is_shared || !descriptor.is_in_place() => Ok(None),
            Access::Read => Grant::reading(holder, segment, offset, bytes).map(Some),
            _ => Grant::writing(holder, segment, offset, bytes).map(Some),
        };
        let grant = grant.map_err(|error| DataError::Memory { index, words: error.to_string() })?;
        Ok(Self { segment, offset, grant, access, layout, index, is_shared })
    }
}

impl Data<'_> {
    /// Returns the type and the layout of its elements.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the access that the task has.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns its elements to read.
    pub fn slice<T: Pod>(&self) -> Result<&[T], DataError> {
        self.check::<T>()?;
        let grant = self.grant.as_ref().ok_or_else(|| self.only_copied())?;
        grant.slice().map_err(|error| self.memory(&error))
    }

    /// Returns its elements to write.
    pub fn slice_mut<T: Pod>(&mut self) -> Result<&mut [T], DataError> {
        if self.access == Access::Read {
            return Err(self.refuse("written"));
        }
        self.check::<T>()?;
        let (index, refused) = (self.index, self.only_copied());
        let grant = self.grant.as_mut().ok_or(refused)?;
        grant.slice_mut().map_err(|error| DataError::Memory { index, words: error.to_string() })
    }

    /// Returns copies of its elements in row-major order, also if they have gaps or no order. Elements without gaps can be
    /// read as their bytes: then `T` is a type of one byte.
    ///
    /// Elements that another task of this process changes in place are refused.
    pub fn read_elements<T: Pod>(&self) -> Result<Vec<T>, DataError> {
        self.check_element::<T>()?;
        let count = usize::try_from(self.count::<T>()).unwrap_or(usize::MAX);
        let mut elements = vec![T::zeroed(); count];
        let into = bytemuck::cast_slice_mut(&mut elements);
        if self.grant.is_some() {
            let read = self.segment.read(self.offset, into);
            return read.map(|()| elements).map_err(|error| self.memory(&error));
        }
        let (rows, mut copying) = (Rows::of(&self.layout), Copying::new(self.segment));
        for (row, at) in into.chunks_mut(rows.bytes()).zip(rows.offsets()) {
            let read = copying.read(self.offset + at, row);
            read.map_err(|error| self.uncopied(&error, "read"))?;
        }
        Ok(elements)
    }

    /// Sets its elements in row-major order, also if they have gaps or no order. Elements without gaps can be written as their
    /// bytes: then `T` is a type of one byte.
    ///
    /// Elements that another task of this process sees in place are refused.
    pub fn write_elements<T: Pod>(&mut self, elements: &[T]) -> Result<(), DataError> {
        if self.access == Access::Read {
            return Err(self.refuse("written"));
        }
        self.check_element::<T>()?;
        if elements.len() as u64 != self.count::<T>() {
            let (index, wanted) = (self.index, self.count::<T>());
            return Err(DataError::Count { index, given: elements.len(), wanted });
        }
        let from = bytemuck::cast_slice(elements);
        if self.grant.is_some() {
            let written = self.segment.write(self.offset, from);
            return written.map_err(|error| self.memory(&error));
        }
        self.write_rows(from).map_err(|error| self.uncopied(&error, "written"))
    }

    fn write_rows(&self, from: &[u8]) -> Result<(), GrantError> {
        let (rows, mut copying) = (Rows::of(&self.layout), Copying::new(self.segment));
        let all = || from.chunks(rows.bytes()).zip(rows.offsets());
        let extent = usize::try_from(self.layout.extent).unwrap_or(usize::MAX);
        if copying.check(self.offset, extent, true).is_err() {
            // A task has the bytes between the rows in place, or nothing may be written.
            for (row, at) in all() {
                copying.check(self.offset + at, row.len(), true)?;
            }
        }
        all().try_for_each(|(row, at)| copying.write(self.offset + at, row))
    }

    /// Returns the number of its elements as `T`, which was checked.
    fn count<T: Pod>(&self) -> u64 {
        let Layout { dtype, .. } = self.layout;
        self.layout.elements() * dtype.bytes() / size_of::<T>() as u64
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

    fn uncopied(&self, error: &GrantError, wanted: &'static str) -> DataError {
        match error {
            GrantError::Overlap { .. } => DataError::InPlace { index: self.index, wanted },
            other => self.memory(other),
        }
    }

    fn memory(&self, error: &dyn std::error::Error) -> DataError {
        DataError::Memory { index: self.index, words: error.to_string() }
    }
}

/// Elements of a layout that follow each other without a gap, row by row.
#[derive(Clone, Copy)]
struct Rows {
    layout: Layout,
    /// Elements of a row; at least one.
    elements: u64,
}

impl Rows {
    fn of(layout: &Layout) -> Self {
        let last = layout.shape().last().zip(layout.strides().last());
        let count = last.filter(|(_, stride)| **stride == 1).map_or(1, |(count, _)| *count);
        Self { layout: *layout, elements: count.max(1) }
    }

    /// Returns the bytes of a row.
    fn bytes(self) -> usize {
        usize::try_from(self.elements * self.layout.dtype.bytes()).unwrap_or(usize::MAX)
    }

    /// Returns the byte offset of each row, in row-major order.
    fn offsets(self) -> impl Iterator<Item = usize> {
        (0..self.layout.elements() / self.elements).map(move |number| {
            let mut rest = number * self.elements;
            let mut at = 0;
            for (count, stride) in self.layout.shape().iter().zip(self.layout.strides()).rev() {
                at += rest % count * stride;
                rest /= count;
            }
            usize::try_from(at * self.layout.dtype.bytes()).unwrap_or(usize::MAX)
        })
    }
}
