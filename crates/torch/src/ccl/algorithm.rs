//! An algorithm: a kernel for one rank's part in a collective, and its requirements.
//!
//! A new algorithm is a file under `algorithms/` and a line in [`Algorithm::ALL`].

use super::algorithms::{
    bidirectional_ring, direct, halving_doubling, hierarchical, recursive_doubling, ring, torus_2d,
    tree,
};
use super::config::Plan;
use super::part::Part;
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use std::fmt;
use std::pin::Pin;

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

    /// `all_reduce`.
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
pub type Running = Pin<Box<dyn Future<Output = Result<(), KernelError>>>>;

/// An algorithm for collectives.
pub struct Algorithm {
    /// Its name, as `ccl.yaml` and `-a` take it.
    pub name: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// The operations it implements.
    pub operations: &'static [Operation],
    /// True if it spreads the vector over all PEs of the SIP.
    pub all_pes: bool,
    /// Checks that it can run with these members on this machine; the error says why not.
    pub fits: fn(&MachineSpec, members: &[u32]) -> Result<(), String>,
    /// Runs one rank's part.
    pub run: fn(Part, Tl) -> Running,
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
    ];

    /// The built-in algorithm called `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|algorithm| algorithm.name == name)
    }

    /// The names of all built-in algorithms.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|algorithm| algorithm.name).collect()
    }

    /// True if it spreads the vector of this operation over all PEs of the SIP.
    pub(crate) fn uses_all_pes(&self, operation: Operation) -> bool {
        self.all_pes && operation.is_elementwise()
    }

    /// Checks that it can do `operation` for these members on this machine; the error says why not.
    pub fn check(
        &self,
        operation: Operation,
        machine: &MachineSpec,
        members: &[u32],
    ) -> Result<(), String> {
        if !self.operations.contains(&operation) {
            let able = Self::ALL.iter().filter(|other| other.operations.contains(&operation));
            let able: Vec<&str> = able.map(|other| other.name).collect();
            return Err(format!(
                "`{}` cannot do {operation}; these can: {}",
                self.name,
                able.join(", ")
            ));
        }
        (self.fits)(machine, members)
    }
}

impl Plan {
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
        let algorithm = Algorithm::find(&self.module)
            .ok_or_else(|| format!("there is no algorithm `{}`", self.module))?;
        algorithm.check(operation, machine, members)
    }
}

/// The [`Algorithm::fits`] of an algorithm that fits any machine and any number of ranks.
pub fn anywhere(_: &MachineSpec, _: &[u32]) -> Result<(), String> {
    Ok(())
}
