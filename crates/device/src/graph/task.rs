//! The specification of a task: a kernel, its target, and the tiles it accesses.

use phalanx_engine::{BufferId, View};
use phalanx_sim::Time;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::topology::PeId;
use phalanx_torch::Args;
use phalanx_torch::Error;
use phalanx_torch::Tensor;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;

pub use phalanx_engine::Tag;

/// The name of a task of a graph: its number in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The number of the graph in its rank.
    pub(crate) graph: u64,
    pub(crate) number: usize,
}

impl TaskId {
    /// Its number in the order of submission, from 0.
    pub fn number(self) -> usize {
        self.number
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.number)
    }
}

/// The kernel of a task, its type erased.
pub(crate) type Kernel = Rc<dyn Fn(Tl, Args) -> Body>;
/// A running kernel.
pub(crate) type Body = Pin<Box<dyn Future<Output = Result<(), KernelError>>>>;

/// The target of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskTarget {
    /// This PE and no other.
    Pe(PeId),
    /// The first free PE of the graph ([`super::Pools::Whole`]).
    Any,
    /// The first free PE of this cube ([`super::Pools::Cubes`]).
    Cube(u16),
}

/// The specification of a task.
///
/// ```
/// # use phalanx_sim::DType;
/// # use phalanx_sim::{MachineSpec, machine::Options, kernel::{KernelError, Tl}};
/// # use phalanx_device::{GraphOptions, KernelTask, OpenGraph};
/// # use phalanx_torch::{Args, Context};
/// async fn double(tl: Tl, args: Args) -> Result<(), KernelError> {
///     let x = tl.load(&args.view(0)?).await?;
///     let y = tl.add(&x, &x).await?;
///     tl.store(&args.view(1)?, &y).await
/// }
/// # let quad = MachineSpec::preset("quad-sip").unwrap();
/// let mut context = Context::new(quad, Options::default());
/// let doubled = context.run(|cx| async move {
///     let (x, y) = (cx.full([4, 8], 3.0, DType::F32)?, cx.zeros([4, 8], DType::F32)?);
///     let graph = cx.graph("doubling", GraphOptions::default())?;
///     for row in 0..4 {
///         let (from, to) = (x.narrow(0, row, 1)?, y.narrow(0, row, 1)?);
///         graph.submit(KernelTask::new("double", double).input(&from).output(&to)).await?;
///     }
///     graph.finish().await?;
///     y.to_vec().await
/// });
/// assert_eq!(doubled.unwrap(), vec![6.0; 32]);
/// ```
#[derive(Clone)]
pub struct KernelTask {
    pub(crate) kernel_name: String,
    pub(crate) label: String,
    pub(crate) kernel: Kernel,
    pub(crate) target: TaskTarget,
    pub(crate) args: Vec<(Tensor, Tag)>,
    pub(crate) members: Vec<Member>,
    pub(crate) after: Vec<TaskId>,
    pub(crate) priority: u8,
    pub(crate) is_unordered: bool,
    pub(crate) expected: Time,
}

/// A member of a group: its PE and its tiles.
#[derive(Clone)]
pub struct Member {
    pub(crate) pe: Option<PeId>,
    pub(crate) args: Vec<(Tensor, Tag)>,
}

impl KernelTask {
    /// Makes a task that runs `kernel` on any PE; `name` is for logs.
    pub fn new<K, F>(name: impl Into<String>, kernel: K) -> Self
    where
        K: Fn(Tl, Args) -> F + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        Self {
            kernel_name: name.into(),
            label: String::new(),
            kernel: Rc::new(move |tl, args| Box::pin(kernel(tl, args))),
            target: TaskTarget::Any,
            args: Vec::new(),
            members: Vec::new(),
            after: Vec::new(),
            priority: 0,
            is_unordered: false,
            expected: Time::ZERO,
        }
    }

    /// Sets the label, shown after the name of the kernel: `c[0, 1] k=2`.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }

    /// Sets the target.
    #[must_use]
    pub fn target(self, target: TaskTarget) -> Self {
        Self { target, ..self }
    }

    /// Places the task on this PE.
    #[must_use]
    pub fn on(self, pe: PeId) -> Self {
        self.target(TaskTarget::Pe(pe))
    }

    /// Reads this tile.
    #[must_use]
    pub fn input(self, tensor: &Tensor) -> Self {
        self.arg(tensor, Tag::Input)
    }

    /// Writes all of this tile; its old elements do not matter.
    #[must_use]
    pub fn output(self, tensor: &Tensor) -> Self {
        self.arg(tensor, Tag::Output)
    }

    /// Reads and writes this tile.
    #[must_use]
    pub fn in_out(self, tensor: &Tensor) -> Self {
        self.arg(tensor, Tag::InOut)
    }

    /// Writes some of this tile; the other elements stay.
    #[must_use]
    pub fn output_existing(self, tensor: &Tensor) -> Self {
        self.arg(tensor, Tag::OutputExisting)
    }

    /// Accesses this tile without order; the program takes care of races.
    #[must_use]
    pub fn no_dep(self, tensor: &Tensor) -> Self {
        self.arg(tensor, Tag::NoDep)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, tensor: &Tensor, tag: Tag) -> Self {
        self.args.push((tensor.clone(), tag));
        self
    }

    /// Adds a member of a group. All members start at once, as the programs of one launch, and may exchange messages.
    #[must_use]
    pub fn member(mut self, member: Member) -> Self {
        self.members.push(member);
        self
    }

    /// Waits for these tasks too.
    #[must_use]
    pub fn after(mut self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.after.extend(tasks);
        self
    }

    /// Sets the priority: the task starts before ready tasks of lower priority.
    #[must_use]
    pub fn priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Infers no edges to this task: it waits only for `after`. Later tasks still wait for it.
    #[must_use]
    pub fn unordered(self) -> Self {
        Self { is_unordered: true, ..self }
    }

    /// Sets the longest wait for another process, if longer than the graph's budget.
    #[must_use]
    pub fn expected(self, span: Time) -> Self {
        Self { expected: span, ..self }
    }

    /// `dot c[0, 1]`.
    pub(crate) fn name(&self) -> String {
        named(&self.kernel_name, &self.label)
    }
}

impl Member {
    /// Makes a member on this PE.
    pub fn on(pe: PeId) -> Self {
        Self { pe: Some(pe), args: Vec::new() }
    }

    /// Makes a member on any PE of the task's target.
    pub fn any() -> Self {
        Self { pe: None, args: Vec::new() }
    }

    /// Reads this tile.
    #[must_use]
    pub fn input(self, tensor: &Tensor) -> Self {
        self.arg(tensor, Tag::Input)
    }

    /// Writes all of this tile.
    #[must_use]
    pub fn output(self, tensor: &Tensor) -> Self {
        self.arg(tensor, Tag::Output)
    }

    /// Reads and writes this tile.
    #[must_use]
    pub fn in_out(self, tensor: &Tensor) -> Self {
        self.arg(tensor, Tag::InOut)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, tensor: &Tensor, tag: Tag) -> Self {
        self.args.push((tensor.clone(), tag));
        self
    }
}

/// `dot c[0, 1]`, or `dot`.
pub(crate) fn named(kernel: &str, label: &str) -> String {
    if label.is_empty() { kernel.to_owned() } else { format!("{kernel} {label}") }
}

/// The bytes of a tensor in its storage, as a view of the engine: exact for any strides and placement.
pub(crate) fn bytes_of(tensor: &Tensor, buffer: BufferId) -> Result<View, Error> {
    let size = tensor.dtype().size() as u64;
    let offset = tensor.storage_offset() as u64 * size;
    let refuse = |error| Error::argument(format!("{} in a graph: {error}", tensor.describe()));
    if tensor.numel() == 0 {
        return View::bytes(buffer, offset, 0).map_err(refuse);
    }
    // The stride of an axis with one index does not matter.
    let axes = tensor.shape().iter().zip(tensor.strides()).filter(|(count, _)| **count > 1);
    let (shape, strides): (Vec<u64>, Vec<u64>) =
        axes.map(|(count, stride)| (*count as u64, *stride as u64)).unzip();
    View::strided(buffer, offset, &shape, &strides, size).map_err(refuse)
}

/// True if a task that fails may have changed an argument with this tag.
pub(crate) fn writes(tag: Tag) -> bool {
    match tag {
        Tag::Output | Tag::InOut | Tag::OutputExisting | Tag::NoDep => true,
        Tag::Input => false,
    }
}
