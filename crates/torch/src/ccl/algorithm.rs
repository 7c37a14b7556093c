//! An algorithm: a kernel for one rank's part in a collective, and what it needs.
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

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Everybody gets the combination of all vectors.
    AllReduce,
    /// Everybody gets its segment of the combination of all vectors.
    ReduceScatter,
    /// Everybody gets all vectors, one behind the other.
    AllGather,
    /// Everybody gets the root's vector.
    Broadcast,
    /// The root gets the combination of all vectors.
    Reduce,
    /// Everybody gets its segment of the root's vector.
    Scatter,
    /// The root gets all vectors, one behind the other.
    Gather,
    /// Everybody gets its segment of every vector.
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

    /// Whether numbers are combined.
    pub fn combines(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Whether one rank is special.
    pub fn has_root(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Scatter | Self::Gather)
    }

    /// Whether input and output are the same vector, element by element.
    pub fn is_elementwise(self) -> bool {
        matches!(self, Self::AllReduce | Self::Broadcast | Self::Reduce)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kernel under way.
pub type Running = Pin<Box<dyn Future<Output = Result<(), KernelError>>>>;

/// How a collective can be done.
pub struct Algorithm {
    /// Its name, as `ccl.yaml` and `-a` take it.
    pub name: &'static str,
    /// One line on how it works.
    pub summary: &'static str,
    /// What it can do.
    pub operations: &'static [Operation],
    /// Whether the vector is spread over all PEs of the SIP, each with a part of its own.
    pub all_pes: bool,
    /// Why it cannot run with these members on this machine, if it cannot.
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

    /// Whether it can do `operation` for these members on this machine.
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
    /// Why this plan cannot do `operation` for these members on this machine, if it cannot.
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

/// Fits any machine and any number of ranks.
pub fn anywhere(_: &MachineSpec, _: &[u32]) -> Result<(), String> {
    Ok(())
}
