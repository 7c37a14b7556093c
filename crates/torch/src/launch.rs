//! Launching kernels: grids, arguments and accesses.

use crate::error::Error;
use crate::multiprocessing::{DropPanic, panic_message};
use crate::rank::Rank;
use crate::request::{Access, Handle, RequestSpec};
use crate::tensor::Tensor;
use phalanx_sim::kernel::{KernelError, Tl, View};
use phalanx_sim::machine::{Cause, Launch};
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The PEs of the rank's SIP that run a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// The first PEs, cube by cube.
    Pes(usize),
    /// The first `pes` of each of the first `cubes`.
    Cubes {
        /// Number of cubes.
        cubes: usize,
        /// Number of PEs of each cube.
        pes: usize,
    },
    /// All PEs.
    All,
}

impl Grid {
    /// The PEs of the grid on this rank.
    pub fn pes(self, rank: &Rank) -> Result<Vec<PeId>, Error> {
        let all = rank.host().pes();
        let machine = rank.machine();
        let refuse = |what: String| {
            let (cubes, pes) = (machine.cubes.count(), machine.pes.count());
            Err(Error::argument(format!(
                "grid of {what}: a SIP of `{}` has {cubes} cubes of {pes} PEs",
                machine.name
            )))
        };
        match self {
            Self::All => Ok(all),
            Self::Pes(count) if (1..=all.len()).contains(&count) => Ok(all[..count].to_vec()),
            Self::Pes(count) => refuse(format!("{count} PEs")),
            Self::Cubes { cubes, pes } => {
                if cubes == 0
                    || cubes > machine.cubes.count() as usize
                    || pes == 0
                    || pes > machine.pes.count() as usize
                {
                    return refuse(format!("{cubes} cubes by {pes} PEs"));
                }
                let inside = |pe: &PeId| usize::from(pe.cube) < cubes && usize::from(pe.pe) < pes;
                Ok(all.into_iter().filter(inside).collect())
            }
        }
    }
}

/// An argument of a kernel: a tensor and the access to it.
#[derive(Clone)]
pub struct Arg {
    tensor: Tensor,
    access: Access,
}

impl Arg {
    /// A tensor that the kernel reads.
    pub fn read(tensor: &Tensor) -> Self {
        Self { tensor: tensor.clone(), access: Access::Read }
    }

    /// A tensor that the kernel writes, or reads and writes.
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
    /// The arguments of a kernel that runs on `pes`.
    pub fn new(tensors: impl IntoIterator<Item = Tensor>, pes: Rc<[PeId]>) -> Self {
        Self { tensors: tensors.into_iter().collect(), pes }
    }

    /// The number of arguments.
    pub fn count(&self) -> usize {
        self.tensors.len()
    }

    /// The PEs of the launch: program `i` runs on the `i`-th.
    pub fn pes(&self) -> &[PeId] {
        &self.pes
    }

    /// Argument `index`.
    ///
    /// # Panics
    ///
    /// If the launch has fewer arguments: a bug of the kernel.
    pub fn tensor(&self, index: usize) -> &Tensor {
        &self.tensors[index]
    }

    /// The elements of an argument whose storage is not cut.
    pub fn view(&self, index: usize) -> Result<View, KernelError> {
        self.tensors[index].view().map_err(|error| KernelError::Other(error.to_string()))
    }

    /// The memory of an argument whose storage is not cut.
    pub fn region(&self, index: usize) -> Result<Region, KernelError> {
        self.tensors[index].region().map_err(|error| KernelError::Other(error.to_string()))
    }
}

/// The PEs of a launch and its extra dependencies.
pub(crate) struct On {
    pub(crate) pes: Vec<PeId>,
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
        let on = On { pes: grid.pes(self)?, exclusive: true, label: None, after: Vec::new() };
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
        let On { pes, exclusive, label, after } = on;
        let touches: Vec<_> = args.iter().map(|arg| (&arg.tensor.storage, arg.access)).collect();
        let asked =
            RequestSpec { what: "launch", subject: name.to_owned(), touches: &touches, after };
        let tensors = Args::new(args.iter().map(|arg| arg.tensor.clone()), pes.clone().into());
        let (host, name, drop_panic) =
            (self.host().clone(), name.to_owned(), self.drop_panic().clone());
        // The command crosses the host link while earlier requests still run.
        let command = {
            let (host, cause) = (host.clone(), self.cause());
            host.sim().clone().spawn("command", async move { host.command("launch", cause).await })
        };
        self.request(asked, move |cause| async move {
            let sent = command.await.unwrap_or_default();
            let (label, cause) = (label.as_deref(), cause.later(sent));
            let launch = Launch { name: &name, label, pes: &pes, exclusive, cause };
            let made = |tl| Caught::new(&drop_panic, || kernel(tl, tensors.clone()));
            let result = host.run(launch, made).await;
            ended(result.map_err(Error::from))
        })
    }
}
