//! Launching kernels: grids, arguments and accesses.

mod grid;

pub use grid::Grid;

use crate::error::Error;
use crate::multiprocessing::{DropPanic, panic_message};
use crate::rank::Rank;
use crate::request::{Access, Handle, RequestSpec, Subject, Touch};
use crate::tensor::{Storage, Tensor};
use phalanx_sim::kernel::{GridShape, KernelError, ReadOnly, Tl, View};
use phalanx_sim::machine::{Cause, Launch};
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An argument of a kernel: a tensor and the access to it.
#[derive(Clone)]
pub struct Arg {
    tensor: Tensor,
    access: Access,
}

impl Arg {
    /// Passes a tensor that the kernel reads.
    pub fn read(tensor: &Tensor) -> Self {
        Self { tensor: tensor.clone(), access: Access::Read }
    }

    /// Passes a tensor that the kernel writes, or reads and writes.
    pub fn write(tensor: &Tensor) -> Self {
        Self { tensor: tensor.clone(), access: Access::Write }
    }
}

/// The tensors of a launch, as its programs see them.
#[derive(Clone)]
pub struct Args {
    tensors: Rc<[Tensor]>,
    pes: Rc<[PeId]>,
}

impl Args {
    /// Makes the arguments of a kernel that runs on `pes`.
    pub fn new(tensors: impl IntoIterator<Item = Tensor>, pes: Rc<[PeId]>) -> Self {
        Self { tensors: tensors.into_iter().collect(), pes }
    }

    /// Returns the number of arguments.
    pub fn count(&self) -> usize {
        self.tensors.len()
    }

    /// Returns the PEs of the launch: program `i` runs on the `i`-th, if there are as many PEs as programs.
    pub fn pes(&self) -> &[PeId] {
        &self.pes
    }

    /// Returns argument `index`.
    ///
    /// # Panics
    ///
    /// If the launch has fewer arguments: a bug of the kernel.
    pub fn tensor(&self, index: usize) -> &Tensor {
        &self.tensors[index]
    }

    /// Returns the elements of an argument whose storage is not cut.
    pub fn view(&self, index: usize) -> Result<View, KernelError> {
        self.tensors[index].view().map_err(|error| KernelError::Other(error.to_string()))
    }

    /// Returns the memory of an argument whose storage is not cut.
    pub fn region(&self, index: usize) -> Result<Region, KernelError> {
        self.tensors[index].region().map_err(|error| KernelError::Other(error.to_string()))
    }
}

/// The PEs of a launch and its extra dependencies.
pub(crate) struct On {
    pub(crate) pes: Vec<PeId>,
    /// The programs along each axis; one program for each PE if `None`.
    pub(crate) axes: Option<[usize; 3]>,
    /// True if the kernel takes the turn of its PEs; false if it only moves data beside another kernel.
    pub(crate) exclusive: bool,
    /// Its name in traces, if that is another than its own.
    pub(crate) label: Option<String>,
    pub(crate) after: Vec<Handle>,
}

/// A kernel whose panic becomes its error; a panic of its destructors is recorded in a [`DropPanic`].
pub struct Caught<F> {
    kernel: Result<Pin<Box<F>>, String>,
    drop_panic: DropPanic,
}

impl<F> Caught<F> {
    /// Wraps the kernel that `kernel` makes.
    pub fn new(drop_panic: &DropPanic, kernel: impl FnOnce() -> F) -> Self {
        let made = catch_unwind(AssertUnwindSafe(kernel));
        let kernel = made.map(Box::pin).map_err(|panic| panic_message(&*panic));
        Self { kernel, drop_panic: drop_panic.clone() }
    }
}

impl<F: Future<Output = Result<(), KernelError>>> Future for Caught<F> {
    type Output = Result<(), KernelError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let panicked = |text: &str| KernelError::Other(format!("panicked: {text}"));
        let kernel = match &mut self.kernel {
            Ok(kernel) => kernel,
            Err(text) => return Poll::Ready(Err(panicked(text))),
        };
        let polled = catch_unwind(AssertUnwindSafe(|| kernel.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(&panic_message(&*panic)))))
    }
}

impl<F> Drop for Caught<F> {
    fn drop(&mut self) {
        let kernel = std::mem::replace(&mut self.kernel, Err(String::new()));
        self.drop_panic.drop_catching(kernel);
    }
}

/// The memory of the arguments that a launch reads and does not write.
fn read_only(args: &[Arg]) -> Rc<[ReadOnly]> {
    let is_written = |storage: &Rc<Storage>| {
        args.iter()
            .any(|arg| arg.access != Access::Read && Rc::ptr_eq(&arg.tensor.storage, storage))
    };
    let of_arg = |(argument, arg): (usize, &Arg)| {
        let shards = arg.tensor.shards().iter();
        shards.map(|shard| ReadOnly { argument, region: shard.region }).collect::<Vec<_>>()
    };
    let read = args.iter().enumerate().filter(|(_, arg)| !is_written(&arg.tensor.storage));
    read.flat_map(of_arg).collect()
}

impl Rank {
    /// Runs `kernel` once on each PE of `grid`, after earlier requests on its tensors.
    ///
    /// # Errors
    ///
    /// If there are no such PEs, or a tensor belongs to another rank. Waiting for the handle returns the error of the kernel.
    pub fn launch<K, F>(
        &self,
        name: &str,
        grid: Grid,
        args: &[Arg],
        kernel: K,
    ) -> Result<Handle, Error>
    where
        K: Fn(Tl, Args) -> F + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        if let Some(arg) = args.iter().find(|arg| !arg.tensor.owner().is(self)) {
            return Err(Error::argument(format!(
                "launch `{name}`: {:?} is not one of rank {}, which uses its own tensors only",
                arg.tensor,
                self.rank()
            )));
        }
        let (pes, axes) = grid.layout(self)?;
        let on = On { pes, axes: Some(axes), exclusive: true, label: None, after: Vec::new() };
        Ok(self.launch_mapped(name, on, args, kernel, |result| result))
    }

    /// Runs `kernel` on these PEs and after these requests; `ended` maps its result.
    pub(crate) fn launch_mapped<K, F>(
        &self,
        name: &str,
        on: On,
        args: &[Arg],
        kernel: K,
        ended: impl FnOnce(Result<Cause, Error>) -> Result<Cause, Error> + 'static,
    ) -> Handle
    where
        K: Fn(Tl, Args) -> F + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        let On { pes, axes, exclusive, label, after } = on;
        let axes = axes.unwrap_or([pes.len(), 1, 1]);
        let shape = GridShape { axes, read_only: read_only(args) };
        let touches: Vec<_> = args.iter().map(|arg| Touch::of(&arg.tensor, arg.access)).collect();
        let name: Rc<str> = name.into();
        let subject = Subject::Words(name.clone());
        let asked = RequestSpec { what: "launch", subject, touches: &touches, after };
        let tensors = Args::new(args.iter().map(|arg| arg.tensor.clone()), pes.clone().into());
        let (host, drop_panic) = (self.host().clone(), self.drop_panic().clone());
        // The command crosses the host link while earlier requests still run.
        let command = self.can_ask().then(|| {
            let (host, cause) = (host.clone(), self.cause());
            host.clone().spawn("command", async move { host.command("launch", cause).await })
        });
        self.request(asked, move |cause| async move {
            let sent = match command {
                Some(command) => command.await.unwrap_or_default(),
                None => Cause::default(),
            };
            let (label, cause) = (label.as_deref(), cause.later(sent));
            let launch = Launch { name: &name, label, pes: &pes, exclusive, cause };
            let made = move |tl| Caught::new(&drop_panic, || kernel(tl, tensors.clone()));
            let result = host.run_programs(launch, shape, made).await;
            ended(result.map_err(Error::from))
        })
    }
}
