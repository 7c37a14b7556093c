//! Launching kernels: which PEs, which tensors, and how they are touched.

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

/// Which PEs of the rank's SIP run a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// The first so many, cube by cube.
    Pes(usize),
    /// The first `pes` of each of the first `cubes`.
    Cubes {
        /// How many cubes.
        cubes: usize,
        /// How many PEs of each.
        pes: usize,
    },
    /// All.
    All,
}

impl Grid {
    /// The PEs it means, on this rank.
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

/// A tensor that a kernel is given, and what for.
#[derive(Clone)]
pub struct Arg {
    tensor: Tensor,
    access: Access,
}

impl Arg {
    /// To be read.
    pub fn read(tensor: &Tensor) -> Self {
        Self { tensor: tensor.clone(), access: Access::Read }
    }

    /// To be written, or read and written.
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

    /// How many arguments there are.
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

/// Where a kernel runs, and after what.
pub(crate) struct On {
    pub(crate) pes: Vec<PeId>,
    /// Whether it takes the turn of its PEs, or only moves data beside whoever has it.
    pub(crate) exclusive: bool,
    pub(crate) after: Vec<Handle>,
}

/// A kernel whose panic is its error; one of its destructors when it is cancelled is noted.
pub struct Caught<F> {
    kernel: Result<Pin<Box<F>>, String>,
    drop_panic: DropPanic,
}

impl<F> Caught<F> {
    /// The kernel that `kernel` makes.
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
    /// Runs `kernel` once on each PE of `grid`, after everything that was asked of its tensors before.
    ///
    /// # Errors
    ///
    /// If there are no such PEs, or a tensor is another rank's. That the kernel failed is known by waiting for it.
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
        let on = On { pes: grid.pes(self)?, exclusive: true, after: Vec::new() };
        Ok(self.launch_mapped(name, on, args, kernel, |result| result))
    }

    /// The same on these PEs and after these requests; `ended` has the last word on how it ended.
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
        let On { pes, exclusive, after } = on;
        let touches: Vec<_> = args.iter().map(|arg| (&arg.tensor.storage, arg.access)).collect();
        let asked =
            RequestSpec { what: "launch", subject: name.to_owned(), touches: &touches, after };
        let tensors = Args::new(args.iter().map(|arg| arg.tensor.clone()), pes.clone().into());
        let (host, name, drop_panic) =
            (self.host().clone(), name.to_owned(), self.drop_panic().clone());
        // The command crosses the host link while those before are still at work.
        let command = {
            let (host, cause) = (host.clone(), self.cause());
            host.sim().clone().spawn("command", async move { host.command("launch", cause).await })
        };
        self.request(asked, move |cause| async move {
            let sent = command.await.unwrap_or_default();
            let launch = Launch { name: &name, pes: &pes, exclusive, cause: cause.later(sent) };
            let made = |tl| Caught::new(&drop_panic, || kernel(tl, tensors.clone()));
            let result = host.run(launch, made).await;
            ended(result.map_err(Error::from))
        })
    }
}
