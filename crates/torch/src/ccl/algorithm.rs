//! An algorithm: a kernel for one rank's part in a collective, and its requirements.
//!
//! A new built-in algorithm is a file under `algorithms/` and a line in [`Algorithm::ALL`]. A program adds its own ones by
//! [`Context::with_algorithm`](crate::Context::with_algorithm) or [`CclConfig::with_algorithm`](super::CclConfig::with_algorithm).
//!
//! - **OWN-1 (as built in).** `distributed`, `ccl.yaml`, `auto` and a [`Sweep`](super::sweep::Sweep) treat an algorithm of a program as they
//!   treat the built-in ones; of two with one name, that of the program counts.

use super::algorithms::{
    bidirectional_ring, direct, double_tree, halving_doubling, hierarchical, multi_ring, nvls,
    recursive_doubling, ring, torus_2d, tree, two_hop, two_level,
};
use super::channels::Channels;
use super::config::Plan;
use super::part::Part;
use phalanx_sim::MachineSpec;
use phalanx_sim::exchange::Symmetry;
use phalanx_sim::kernel::{KernelError, Tl};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Every rank gets the combination of all vectors.
    AllReduce,
    /// Every rank gets its segment of the combination of all vectors.
    ReduceScatter,
    /// Every rank gets all vectors, concatenated.
    AllGather,
    /// Every rank gets the root's vector.
    Broadcast,
    /// The root gets the combination of all vectors.
    Reduce,
    /// Every rank gets its segment of the root's vector.
    Scatter,
    /// The root gets all vectors, concatenated.
    Gather,
    /// Every rank gets its segment of every vector.
    AllToAll,
}

impl Operation {
    /// Every operation, in the order of the manual.
    pub const ALL: [Self; 8] = [
        Self::AllReduce,
        Self::ReduceScatter,
        Self::AllGather,
        Self::Broadcast,
        Self::Reduce,
        Self::Scatter,
        Self::Gather,
        Self::AllToAll,
    ];

    /// Returns the name, as in `all_reduce`.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllGather => "all_gather",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Scatter => "scatter",
            Self::Gather => "gather",
            Self::AllToAll => "all_to_all",
        }
    }

    /// True if the operation combines numbers.
    pub fn combines(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// True if one rank is the root.
    pub fn has_root(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Scatter | Self::Gather)
    }

    /// True if element `i` of the output comes from elements `i` of the inputs.
    pub fn is_elementwise(self) -> bool {
        matches!(self, Self::AllReduce | Self::Broadcast | Self::Reduce)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A running kernel.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<(), KernelError>> + 'a>>;

/// An algorithm for collectives, built in or of a program.
///
/// The kernel uses the tools of [`Part`]: queues to other ranks ([`Part::to`], [`Part::from`]), chunks of the vector
/// ([`Part::chunks`]), loads and stores, [`Part::combine`], and [`Part::stream`] with [`side_by_side`](super::side_by_side) for parts of
/// the vector that go different ways at the same time.
pub trait CollectiveAlgorithm: Send + Sync {
    /// Its name, as `ccl.yaml` and `-a` take it.
    fn name(&self) -> &str;

    /// The operations that it implements.
    fn operations(&self) -> &[Operation];

    /// The channels that it has unless set: PEs of a SIP, each with a part of the vector.
    fn channels(&self) -> Channels {
        Channels::ONE
    }

    /// The numbers of channels that `auto` tries beside these.
    fn wide(&self) -> &[Channels] {
        Channels::WIDE
    }

    /// Checks that it can run with these members on this machine; the error says why not.
    fn fits(&self, _machine: &MachineSpec, _members: &[u32]) -> Result<(), String> {
        Ok(())
    }

    /// The symmetry under which all ranks do the same on parts of this shape, if there is one: ranks take the same steps of the same
    /// sizes at the same PEs, and the partner of a rank in a step is the image of the partner of another. `None` is always right; a
    /// symmetry that does not hold makes trials wrong.
    fn symmetry(&self, _shape: &Shape) -> Option<Symmetry> {
        None
    }

    /// Work on a part of this shape that some rank cannot do without. Less than there is, or none, is always right.
    fn least_work(&self, _shape: &Shape) -> LeastWork {
        LeastWork::default()
    }

    /// Runs one rank's part.
    fn run(&self, part: Part, tl: Tl) -> Running<'static>;
}

/// The shape of one PE's part of a collective: everything but the rank that its steps depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The operation.
    pub operation: Operation,
    /// The number of ranks.
    pub ranks: usize,
    /// Elements of the larger of input and output.
    pub elements: usize,
    /// Elements of a message, at most.
    pub slot: usize,
    /// True if an all-to-all has split sizes.
    pub has_splits: bool,
}

/// Work of one PE of one rank in a collective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeastWork {
    /// Messages to other ranks.
    pub messages: usize,
    /// Elements in these; twice as large a part has twice as many.
    pub sent: usize,
    /// Stores of results.
    pub stores: usize,
    /// Elements in these.
    pub stored: usize,
    /// Messages of which each is sent after the one before has come, whatever rank sends it.
    pub steps: usize,
}

impl CollectiveAlgorithm for Algorithm {
    fn name(&self) -> &str {
        self.name
    }

    fn operations(&self) -> &[Operation] {
        self.operations
    }

    fn channels(&self) -> Channels {
        self.channels
    }

    fn wide(&self) -> &[Channels] {
        self.wide
    }

    fn fits(&self, machine: &MachineSpec, members: &[u32]) -> Result<(), String> {
        (self.fits)(machine, members)
    }

    fn symmetry(&self, shape: &Shape) -> Option<Symmetry> {
        (self.symmetry)(shape)
    }

    fn least_work(&self, shape: &Shape) -> LeastWork {
        (self.work)(shape)
    }

    fn run(&self, part: Part, tl: Tl) -> Running<'static> {
        (self.run)(part, tl)
    }
}

/// An algorithm of a program.
#[derive(Clone)]
pub struct OwnAlgorithm(pub(super) Arc<dyn CollectiveAlgorithm>);

impl PartialEq for OwnAlgorithm {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OwnAlgorithm {}

impl fmt::Debug for OwnAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnAlgorithm").field(&self.0.name()).finish()
    }
}

/// A built-in algorithm.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// Its name, as `ccl.yaml` and `-a` take it.
    pub name: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// The operations it implements.
    pub operations: &'static [Operation],
    /// The channels that it has unless set: PEs of a SIP, each with a part of the vector.
    pub channels: Channels,
    /// The numbers of channels that `auto` tries beside these.
    pub wide: &'static [Channels],
    /// Checks that it can run with these members on this machine; the error says why not.
    pub fits: fn(&MachineSpec, members: &[u32]) -> Result<(), String>,
    /// The symmetry under which all ranks do the same on parts of this shape, if there is one.
    pub symmetry: fn(&Shape) -> Option<Symmetry>,
    /// Work on a part of this shape that some rank cannot do without.
    pub work: fn(&Shape) -> LeastWork,
    /// Runs one rank's part.
    pub run: fn(Part, Tl) -> Running<'static>,
}

impl Algorithm {
    /// Every built-in algorithm, in the order of the manual.
    pub const ALL: &'static [Self] = &[
        ring::ALGORITHM,
        bidirectional_ring::ALGORITHM,
        direct::ALGORITHM,
        halving_doubling::ALGORITHM,
        recursive_doubling::ALGORITHM,
        tree::ALGORITHM,
        torus_2d::ALGORITHM,
        hierarchical::ALGORITHM,
        multi_ring::ALGORITHM,
        double_tree::ALGORITHM,
        two_level::ALGORITHM,
        nvls::ALGORITHM,
        two_hop::ALGORITHM,
    ];

    /// Returns the built-in algorithm called `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|algorithm| algorithm.name == name)
    }

    /// Returns the names of all built-in algorithms.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|algorithm| algorithm.name).collect()
    }

    /// Checks that it can do `operation` for these members on this machine; the error says why not.
    pub fn check(
        &self,
        operation: Operation,
        machine: &MachineSpec,
        members: &[u32],
    ) -> Result<(), String> {
        check(self, operation, machine, members)
    }
}

fn check(
    algorithm: &dyn CollectiveAlgorithm,
    operation: Operation,
    machine: &MachineSpec,
    members: &[u32],
) -> Result<(), String> {
    if algorithm.operations().contains(&operation) {
        return algorithm.fits(machine, members);
    }
    let able = Algorithm::ALL.iter().filter(|other| other.operations.contains(&operation));
    let able: Vec<&str> = able.map(|other| other.name).collect();
    let name = algorithm.name();
    Err(format!("`{name}` cannot do {operation}; these can: {}", able.join(", ")))
}

impl Plan {
    /// Returns the algorithm of the program, or the built-in one; `None` if there is none of this name.
    pub fn algorithm(&self) -> Option<Arc<dyn CollectiveAlgorithm>> {
        if let Some(own) = &self.own {
            return Some(own.0.clone());
        }
        Algorithm::find(&self.module).map(|built_in| Arc::new(*built_in) as _)
    }

    /// Checks that this plan can do `operation` for these members on this machine; the error says why not.
    pub fn check(
        &self,
        operation: Operation,
        machine: &MachineSpec,
        members: &[u32],
    ) -> Result<(), String> {
        let here = machine.sips.topology;
        if let Some(meant) = self.topology.filter(|meant| *meant != here.kind()) {
            return Err(format!("it is meant for {}, and this is {}", meant.name(), here.name()));
        }
        let algorithm =
            self.algorithm().ok_or_else(|| format!("there is no algorithm `{}`", self.module))?;
        check(&*algorithm, operation, machine, members)
    }
}

/// Accepts any machine and any number of ranks: an [`Algorithm::fits`].
pub fn anywhere(_: &MachineSpec, _: &[u32]) -> Result<(), String> {
    Ok(())
}

/// The [`Algorithm::symmetry`] of an algorithm whose ranks do not do the same.
pub(crate) fn never(_: &Shape) -> Option<Symmetry> {
    None
}

/// The [`Algorithm::work`] of an algorithm that says nothing about it.
pub(crate) fn unknown_work(_: &Shape) -> LeastWork {
    LeastWork::default()
}
