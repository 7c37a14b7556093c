//! The library of collectives of a machine: its protocols and their costs.

use super::Efficiency;
use crate::time::{Bandwidth, Time};

/// The library that runs the collectives of a machine, with its costs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectivesSpec {
    /// The library: its algorithms, its protocols, and the way in which it chooses.
    pub profile: ProfileName,
    /// The rule that chooses among the library's algorithms and protocols.
    pub choice: ChoiceName,
    /// The generation of the devices, which the library's choice depends on.
    pub generation: Generation,
    /// Most PEs of a SIP that carry one collective.
    pub channels: u32,
    /// Time that a collective on several PEs of a SIP takes beyond one on a single PE, for each doubling of the ranks of a node.
    pub spread: Time,
    /// The costs of its protocols on this machine, each protocol once.
    pub protocols: Vec<ProtocolSpec>,
}

/// The name of a library profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProfileName {
    /// NCCL 2.20 to 2.29.
    Nccl,
    /// RCCL.
    Rccl,
    /// No library in particular: the fastest algorithm is taken.
    Plain,
}

impl ProfileName {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::Nccl, Self::Rccl, Self::Plain];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nccl => "nccl-2.2x",
            Self::Rccl => "rccl",
            Self::Plain => "plain",
        }
    }

    /// Finds the one with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

/// The rule that chooses among a library's algorithms and protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChoiceName {
    /// The library, by its own estimate or table.
    #[default]
    Library,
    /// The fastest by simulation: a library with a tuner that knows the machine.
    Fastest,
}

impl ChoiceName {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 2] = [Self::Library, Self::Fastest];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Fastest => "fastest",
        }
    }
}

/// A generation of devices, as NCCL tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// Compute capability 8.
    Ampere,
    /// Compute capability 9.
    #[default]
    Hopper,
    /// Compute capability 10.
    Blackwell,
}

impl Generation {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::Ampere, Self::Hopper, Self::Blackwell];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ampere => "ampere",
            Self::Hopper => "hopper",
            Self::Blackwell => "blackwell",
        }
    }
}

/// The way in which a library moves bytes from one device to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Every word carries a flag: few microseconds, less than half of the bandwidth.
    Ll,
    /// Every 128 bytes carry a flag.
    Ll128,
    /// Blocks of data, each announced by a flag.
    Simple,
    /// Switches add up and copy.
    Nvls,
}

impl Protocol {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 4] = [Self::Ll, Self::Ll128, Self::Simple, Self::Nvls];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ll => "ll",
            Self::Ll128 => "ll128",
            Self::Simple => "simple",
            Self::Nvls => "nvls",
        }
    }
}

/// The costs of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolSpec {
    /// The protocol.
    pub protocol: Protocol,
    /// Time before a collective's first byte moves, beyond the launch of its kernel.
    pub start: Time,
    /// Time that each message takes beyond the way over the wires; for in-switch messages, of a chunk.
    pub step: Time,
    /// The part of a link's bandwidth that carries data.
    pub efficiency: Efficiency,
    /// The rate at which a device copies its own part of a vector, which overlaps with nothing; `None` if that costs nothing.
    pub copy: Option<Bandwidth>,
    /// Bytes of a channel's message that a step moves at once inside a node: further batches make the step longer. Zero: messages cost
    /// the bandwidth of the wires.
    pub batch: u64,
}
