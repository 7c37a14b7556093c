//! A task as its callable sees it: arguments, scalars, identity.
//!
//! - **TSK-1 (as declared).** An argument can be used only as it was declared: what was declared as input cannot be
//!   written.
//! - **TSK-2 (in bounds).** An argument outside the memory it names is refused before the callable is called.
//! - **TSK-3 (not beyond its task).** An argument cannot be kept after its task has ended, and a leaked argument blocks no
//!   later task.
//! - **TSK-4 (seen as it was).** Bytes that a task sees in place are changed by this task only: copies by other tasks of its
//!   process are refused, and so are those of the worker's caller.

mod data;
mod owned;

pub use data::{Data, DataError};
pub use owned::{ArgumentSpan, Copied, Progress};

use crate::bootstrap::Device;
use crate::domain::{DomainError, DomainView, TaskIdentity, check_memory};
use crate::failure::Failure;
use crate::message::{MAX_ARGUMENTS, Membership, Reach, Received};
use crate::nested::Foreign;
use crate::shm::grant::Holder;
use crate::shm::mailbox::Witness;
use crate::shm::{Segment, Waiting};
use crate::tensor::Tensor;

/// Parts of a worker that its tasks see.
pub(crate) struct Setting {
    memories: Vec<Segment>,
    /// Holder of the grants of the task that runs.
    holder: Holder,
    device: Option<Device>,
    /// Simulated time of the task that runs.
    pub(crate) simulated: u64,
    /// The number that the task that runs was sent with.
    pub(crate) dispatch: u64,
    process: u32,
    /// Witness of the task's progress, if there is one.
    witness: Option<Witness>,
    /// Wait policy for peers.
    waiting: Option<Waiting>,
}

impl Setting {
    /// Refuses a task with an argument or a window outside the memory that it names.
    #[inline]
    pub(crate) fn check_all(&self, given: &Received<'_>) -> Result<(), Failure> {
        given.arguments.try_reaches(|index, reach| self.check(index, reach))?;
        for membership in given.memberships {
            memory_of(membership, &self.memories)?;
        }
        Ok(())
    }

    /// Refuses an argument outside the memory that it names.
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

    /// Sets the witness of tasks' progress, and the wait policy.
    pub(crate) fn serve_with(&mut self, witness: Witness, waiting: Waiting) {
        (self.witness, self.waiting) = (Some(witness), Some(waiting));
    }

    /// Gives back the grants of a task that has ended.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.holder.give_back_all(&self.memories);
    }

    pub(crate) fn new(memories: Vec<Segment>, device: Option<Device>) -> Self {
        let (holder, simulated, dispatch, process) = (Holder::new(), 0, 0, std::process::id());
        let (witness, waiting) = (None, None);
        Self { memories, holder, device, simulated, dispatch, process, witness, waiting }
    }
}

/// Returns the memory that a domain lies in, if it does.
fn memory_of<'m>(
    membership: &Membership,
    memories: &'m [Segment],
) -> Result<&'m Segment, DomainError> {
    let memory = memories.get(usize::from(membership.roster.memory));
    let memory = memory.ok_or_else(|| DomainError::Memory {
        domain: membership.roster.name.clone(),
        words: format!("memory {} is not shared with this worker", membership.roster.memory),
    })?;
    check_memory(&membership.roster, memory)?;
    Ok(memory)
}

/// Makes the error of an argument outside of its memory.
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

/// A task while it runs: the argument of a callable.
pub struct Task<'a> {
    memories: &'a [Segment],
    holder: &'a Holder,
    device: &'a mut Option<Device>,
    simulated: &'a mut u64,
    witness: Option<&'a Witness>,
    pub(crate) waiting: Option<Waiting>,
    /// Its identity in its domains.
    pub(crate) identity: TaskIdentity,
    given: &'a Received<'a>,
    /// One bit for each argument that was taken.
    taken: [u64; MAX_ARGUMENTS.div_ceil(64)],
    /// Its arguments as the workers below know them, if it is a graph.
    foreign: Option<Foreign>,
}

impl<'a> Task<'a> {
    #[inline]
    pub(crate) fn new(setting: &'a mut Setting, given: &'a Received<'a>) -> Self {
        let Setting { memories, holder, device, simulated, dispatch, process, witness, waiting } =
            setting;
        let identity =
            TaskIdentity { run: given.order.run, dispatch: *dispatch, process: *process };
        Self {
            identity,
            memories,
            holder,
            device,
            simulated,
            witness: witness.as_ref(),
            waiting: *waiting,
            given,
            taken: Default::default(),
            foreign: None,
        }
    }

    /// Returns all arguments, to be used side by side; each can be taken once.
    pub fn arguments<const N: usize>(&mut self) -> Result<[Data<'a>; N], Failure> {
        if N != self.given.arguments.len() {
            let given = self.given.arguments.len();
            return Err(Failure::new(format!("{N} arguments are wanted, {given} were given")));
        }
        let mut taken = [const { None }; N];
        for (index, slot) in taken.iter_mut().enumerate() {
            *slot = Some(self.argument(index)?);
        }
        Ok(taken.map(|data| data.expect("TSK-1: each was taken")))
    }

    /// Returns one argument; each can be taken once.
    pub fn argument(&mut self, index: usize) -> Result<Data<'a>, Failure> {
        let given = self.given.arguments.len();
        let Some(descriptor) = self.given.arguments.get(index) else {
            return Err(Failure::new(format!("argument {index} is wanted, {given} were given")));
        };
        let (word, bit) = (index / 64, 1 << (index % 64));
        if self.taken[word] & bit != 0 {
            return Err(Failure::new(format!("argument {index} was taken before")));
        }
        self.taken[word] |= bit;
        let memory = &self.memories[usize::from(descriptor.memory)];
        let is_shared = self.given.is_shared(&descriptor);
        Ok(Data::open(self.holder, memory, index, &descriptor, is_shared)?)
    }

    /// Returns one argument as a tensor that a graph can pass on to its own workers, as often as it likes.
    ///
    /// Only graphs have such: `register!(graph f)`. It is of use until the graph's run is over.
    pub fn tensor(&self, index: usize) -> Result<Tensor, Failure> {
        let given = self.given.arguments.len();
        let Some(descriptor) = self.given.arguments.get(index) else {
            return Err(Failure::new(format!("argument {index} is wanted, {given} were given")));
        };
        let tensor = self.foreign.as_ref().and_then(|foreign| foreign.tensor(&descriptor));
        tensor.ok_or_else(|| Failure::new("only a graph can pass its arguments on"))
    }

    /// Returns the witness of its progress.
    pub(crate) fn witness(&self) -> Option<Witness> {
        self.witness.cloned()
    }

    /// Lets its arguments be passed on.
    pub(crate) fn inherit(&mut self, foreign: Foreign) {
        self.foreign = Some(foreign);
    }

    /// Returns the number of arguments.
    pub fn argument_count(&self) -> usize {
        self.given.arguments.len()
    }

    /// Returns one of its scalars.
    pub fn scalar(&self, index: usize) -> Result<u64, Failure> {
        self.given.scalars.get(index).ok_or_else(|| {
            Failure::new(format!(
                "scalar {index} is wanted, {} were given",
                self.given.scalars.len()
            ))
        })
    }

    /// Returns the number of scalars.
    pub fn scalar_count(&self) -> usize {
        self.given.scalars.len()
    }

    /// Returns one of its scalars as a real number.
    pub fn real(&self, index: usize) -> Result<f64, Failure> {
        self.scalar(index).map(f64::from_bits)
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.given.blob
    }

    /// Returns its member number in its group, from 0.
    pub fn member(&self) -> usize {
        usize::from(self.given.order.member)
    }

    /// Returns the number of members of its group; 1 if it is no group.
    pub fn members(&self) -> usize {
        usize::from(self.given.order.members)
    }

    /// Returns one of its domains, in the order of [`Call::domain`](crate::Call::domain).
    pub fn domain(&self, index: usize) -> Result<DomainView<'a>, Failure> {
        let (membership, memory) = self.membership(index)?;
        let waiting = self.waiting.unwrap_or_else(Waiting::calibrate);
        Ok(DomainView::open(membership, self.identity, memory, self.witness, waiting)?)
    }

    /// Returns its membership in one of its domains, and the memory of the domain.
    pub(crate) fn membership(
        &self,
        index: usize,
    ) -> Result<(&'a Membership, &'a Segment), Failure> {
        let memberships = self.given.memberships;
        let Some(membership) = memberships.get(index) else {
            let given = memberships.len();
            return Err(Failure::new(format!("domain {index} is wanted, {given} were given")));
        };
        Ok((membership, memory_of(membership, self.memories)?))
    }

    /// Returns the number of domains.
    pub fn domain_count(&self) -> usize {
        self.given.memberships.len()
    }

    /// Returns the device of this worker, as its bootstrap made it.
    pub fn device<D: 'static>(&mut self) -> Result<&mut D, Failure> {
        let device = self.device.as_mut();
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
        *self.simulated = self.simulated.saturating_add(picoseconds);
    }

    /// Says that a long task moves, so that nobody takes it for stuck.
    pub fn progress(&mut self) {
        if let Some(witness) = self.witness {
            witness.advance();
        }
    }
}
