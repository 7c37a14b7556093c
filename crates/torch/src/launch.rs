//! Launching kernels: which PEs, which tensors, and how they are touched.

use crate::error::Error;
use crate::placement::Shard;
use crate::rank::Rank;
use crate::request::{Access, Asked, Handle};
use crate::tensor::Tensor;
use phalanx_sim::kernel::{KernelError, Tl, View};
use phalanx_sim::machine::{Cause, Launch};
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use std::rc::Rc;

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
    pub(crate) fn pes(self, rank: &Rank) -> Result<Vec<PeId>, Error> {
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
pub struct Args(Rc<[Tensor]>);

impl Args {
    /// Argument `index`.
    ///
    /// # Panics
    ///
    /// If the launch has fewer arguments: a bug of the kernel.
    pub fn tensor(&self, index: usize) -> &Tensor {
        &self.0[index]
    }

    /// The elements of an argument whose storage is not cut.
    pub fn view(&self, index: usize) -> Result<View, KernelError> {
        self.0[index].view().map_err(|error| KernelError::Other(error.to_string()))
    }

    /// The memory of an argument whose storage is not cut.
    pub fn region(&self, index: usize) -> Result<Region, KernelError> {
        self.0[index].region().map_err(|error| KernelError::Other(error.to_string()))
    }

    /// The shard of an argument that is for `pe`.
    pub fn shard(&self, index: usize, pe: PeId) -> Result<&Shard, KernelError> {
        let found = self.0[index].shards().iter().find(|shard| shard.pe == pe);
        found
            .ok_or_else(|| KernelError::Other(format!("{:?} has no shard for {pe}", self.0[index])))
    }
}

impl Rank {
    /// Runs `kernel` once on each PE of `grid`, after everything that was asked of its tensors before.
    ///
    /// # Errors
    ///
    /// If there are no such PEs. That the kernel failed is known by waiting for it.
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
        let pes = grid.pes(self)?;
        Ok(self.launch_mapped(name, pes, args, Vec::new(), kernel, |result| result))
    }

    /// The same on these PEs and after `after`; `ended` has the last word on how it ended.
    pub(crate) fn launch_mapped<K, F>(
        &self,
        name: &str,
        pes: Vec<PeId>,
        args: &[Arg],
        after: Vec<Handle>,
        kernel: K,
        ended: impl FnOnce(Result<Cause, Error>) -> Result<Cause, Error> + 'static,
    ) -> Handle
    where
        K: Fn(Tl, Args) -> F + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        let touches: Vec<_> = args.iter().map(|arg| (&arg.tensor.storage, arg.access)).collect();
        let asked = Asked { what: "launch", subject: name.to_owned(), touches: &touches, after };
        let tensors = Args(args.iter().map(|arg| arg.tensor.clone()).collect());
        let (host, name) = (self.host().clone(), name.to_owned());
        // The command crosses the host link while those before are still at work.
        let command = {
            let (host, cause) = (host.clone(), self.cause());
            host.sim().clone().spawn("command", async move { host.command("launch", cause).await })
        };
        self.request(asked, move |cause| async move {
            let sent = command.await.unwrap_or_default();
            let launch = Launch { name: &name, pes: &pes, cause: cause.later(sent) };
            let result = host.run(launch, |tl| kernel(tl, tensors.clone())).await;
            ended(result.map_err(Error::from))
        })
    }
}
