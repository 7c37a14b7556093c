//! A kernel that runs: its tiles, its queues, and the list of its recorded operations.

use super::ongoing::Ongoing;
use super::op::{ArgumentView, Op, Slot};
use super::tl::Tl;
use phalanx_sim::kernel::{self, KernelError, KernelRange, Receiver, Sender};
use phalanx_torch::ccl::{Part, RecvQueue};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The way in which a kernel's calls are performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Calls are appended to the list.
    Recording,
    /// Calls are performed at once.
    Direct,
    /// The list was played up to an operation that failed; calls up to there do nothing, and that call raises.
    Again,
    /// The kernel is over.
    Over,
}

thread_local! {
    /// The program that has its turn on this thread.
    static ACTIVE: RefCell<Option<Rc<Running>>> = const { RefCell::new(None) };
    /// The tiles that programs of this thread dropped while they did not have their turn, by program.
    static LATE: RefCell<BTreeMap<u64, Vec<Op>>> = const { RefCell::new(BTreeMap::new()) };
}

/// The program `id`, if it has its turn on this thread.
pub(crate) fn active(id: u64) -> Option<Rc<Running>> {
    let found = |active: &RefCell<Option<Rc<Running>>>| {
        active.borrow().as_ref().filter(|running| running.id == id).cloned()
    };
    ACTIVE.try_with(found).ok().flatten()
}

/// Gives up what `op` names: a tile, an issued operation or a queue of the program `id` that Python has dropped.
pub(crate) fn give_up(id: u64, op: Op) {
    if let Some(running) = active(id) {
        return running.give_up(op);
    }
    // Another program has its turn: the garbage collector runs when it likes. A program that is over has dropped everything.
    let later = |late: &RefCell<BTreeMap<u64, Vec<Op>>>| {
        if let Some(list) = late.borrow_mut().get_mut(&id) {
            list.push(op);
        }
    };
    let _ = LATE.try_with(later);
}

/// The turn of a program, until it is dropped.
pub(crate) struct Turn {
    before: Option<Rc<Running>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let before = self.before.take();
        let _ = ACTIVE.try_with(|active| active.replace(before));
    }
}

/// The state of one program of a launch.
pub(crate) struct Running {
    /// The number of the program: no other has it.
    pub(crate) id: u64,
    pub(crate) tl: kernel::Tl,
    /// The first element of each argument.
    pub(crate) args: Vec<kernel::View>,
    pub(crate) mode: Cell<Mode>,
    pub(crate) list: RefCell<Vec<Op>>,
    pub(crate) tiles: RefCell<Slots<kernel::Tile>>,
    pub(crate) issued: RefCell<Slots<Ongoing>>,
    pub(crate) queues: RefCell<Slots<QueueState>>,
    pub(crate) ranges: RefCell<Slots<KernelRange>>,
    /// The calls that were counted again, and the operation that failed.
    pub(crate) again: RefCell<Option<Again>>,
    /// True if the kernel has asked for its PE.
    pub(crate) has_seen_pe: Cell<bool>,
    /// The reason why the kernel stopped recording.
    pub(crate) look: RefCell<Option<String>>,
    /// The first operation of the list whose operands do not fit.
    pub(crate) unfit: Cell<Option<usize>>,
    /// The context of the kernel, as Python holds it.
    pub(crate) context: RefCell<Option<Py<Tl>>>,
}

/// A list that failed: the number of the operation, and its error.
pub(crate) struct Again {
    pub(crate) list: Rc<Vec<Op>>,
    pub(crate) failed: usize,
    pub(crate) next: usize,
    pub(crate) error: KernelError,
}

/// An open end of a queue.
pub(crate) enum QueueState {
    Sender(Sender),
    Receiver(Receiver),
    /// A queue of a collective, which checks the topics of its messages.
    Part(Rc<(Part, RecvQueue)>),
}

/// Things by number. A number is taken when a call is recorded; the thing comes when the call is performed.
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<Slot>,
    next: Slot,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), next: 0 }
    }
}

impl<T> Slots<T> {
    /// Takes a number.
    pub(crate) fn reserve(&mut self) -> Slot {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = self.next;
        self.next += 1;
        slot
    }

    /// Gives a number back.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    pub(crate) fn put(&mut self, slot: Slot, thing: T) {
        let index = slot as usize;
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index] = Some(thing);
    }

    pub(crate) fn get(&self, slot: Slot) -> Result<&T, KernelError> {
        let found = self.entries.get(slot as usize).and_then(Option::as_ref);
        found.ok_or_else(|| KernelError::Other("the kernel uses what it has given up".to_owned()))
    }

    pub(crate) fn take(&mut self, slot: Slot) -> Option<T> {
        self.entries.get_mut(slot as usize).and_then(Option::take)
    }

    /// Takes everything, oldest number first.
    fn drain(&mut self) -> Vec<T> {
        self.free.clear();
        std::mem::take(&mut self.entries).into_iter().flatten().collect()
    }

    /// Numbers all things anew, as at the start of a kernel.
    fn restart(&mut self) {
        self.free.clear();
        self.next = 0;
    }
}

impl Running {
    pub(crate) fn new(tl: kernel::Tl, args: Vec<kernel::View>, mode: Mode) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let _ = LATE.try_with(|late| late.borrow_mut().insert(id, Vec::new()));
        Self {
            id,
            tl,
            args,
            mode: Cell::new(mode),
            list: RefCell::default(),
            tiles: RefCell::default(),
            issued: RefCell::default(),
            queues: RefCell::default(),
            ranges: RefCell::default(),
            again: RefCell::default(),
            has_seen_pe: Cell::default(),
            look: RefCell::default(),
            unfit: Cell::default(),
            context: RefCell::default(),
        }
    }

    /// The memory of a place.
    pub(crate) fn view(&self, place: &ArgumentView) -> kernel::View {
        let base = &self.args[place.arg as usize];
        kernel::View {
            address: base.address + (place.start * base.dtype.size()) as u64,
            dtype: base.dtype,
            shape: place.shape,
            strides: place.strides,
            mask: place.mask.mask(),
        }
    }

    /// Begins a turn of this program.
    pub(crate) fn turn(self: &Rc<Self>) -> Turn {
        let before = ACTIVE.try_with(|active| active.replace(Some(self.clone())));
        let turn = Turn { before: before.ok().flatten() };
        let dropped = LATE.try_with(|late| {
            late.borrow_mut().get_mut(&self.id).filter(|list| !list.is_empty()).map(std::mem::take)
        });
        for op in dropped.ok().flatten().unwrap_or_default() {
            self.give_up(op);
        }
        turn
    }

    /// Gives up what `op` names, in a turn of this program.
    pub(crate) fn give_up(&self, op: Op) {
        match self.mode.get() {
            Mode::Over => {}
            Mode::Recording => {
                self.release(&op);
                self.list.borrow_mut().push(op);
            }
            Mode::Direct => {
                self.drop_now(&op);
                self.release(&op);
            }
            Mode::Again => {
                self.release(&op);
                if let Some(again) = &mut *self.again.borrow_mut() {
                    again.next += 1;
                }
            }
        }
    }

    /// Gives the number in `op` back.
    fn release(&self, op: &Op) {
        match *op {
            Op::Free { tile } => self.tiles.borrow_mut().release(tile),
            Op::Forget { issued, unused } => {
                for slot in unused.into_iter().flatten() {
                    self.tiles.borrow_mut().release(slot);
                }
                self.issued.borrow_mut().release(issued);
            }
            Op::Close { queue } => self.queues.borrow_mut().release(queue),
            Op::CloseRange { range } => self.ranges.borrow_mut().release(range),
            _ => {}
        }
    }

    /// Drops what `op` names.
    pub(crate) fn drop_now(&self, op: &Op) {
        // No table is borrowed while a destructor runs.
        match *op {
            Op::Free { tile } => {
                let dropped = self.tiles.borrow_mut().take(tile);
                drop(dropped);
            }
            Op::Forget { issued, .. } => {
                let dropped = self.issued.borrow_mut().take(issued);
                drop(dropped);
            }
            Op::Close { queue } => {
                let dropped = self.queues.borrow_mut().take(queue);
                drop(dropped);
            }
            Op::CloseRange { range } => {
                let dropped = self.ranges.borrow_mut().take(range);
                drop(dropped);
            }
            _ => {}
        }
    }

    /// Lets the methods of the kernel's context wait from now on.
    pub(crate) fn wait_from_now_on(&self, py: Python<'_>) -> PyResult<()> {
        static WAITING: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let Some(context) = self.context.borrow().as_ref().map(|context| context.clone_ref(py))
        else {
            return Ok(());
        };
        let class = WAITING.import(py, "phalanx._kernel", "WaitingTl")?;
        context.bind(py).setattr("__class__", class)
    }

    /// Prepares for running through the kernel again: numbers start again, things stay.
    pub(crate) fn restart(&self) {
        self.tiles.borrow_mut().restart();
        self.issued.borrow_mut().restart();
        self.queues.borrow_mut().restart();
        self.ranges.borrow_mut().restart();
    }

    /// Ends the kernel: everything that it still holds is dropped.
    pub(crate) fn close(&self) {
        self.mode.set(Mode::Over);
        self.list.borrow_mut().clear();
        let _ = LATE.try_with(|late| late.borrow_mut().remove(&self.id));
        drop(self.context.take());
        let (issued, tiles) = (self.issued.borrow_mut().drain(), self.tiles.borrow_mut().drain());
        let (queues, ranges) = (self.queues.borrow_mut().drain(), self.ranges.borrow_mut().drain());
        drop((issued, tiles, queues, ranges));
    }
}
