//! Library profiles: the protocols, algorithms and choices of a library of collectives.
//!
//! A library runs an algorithm by a protocol. A protocol costs a start, a time for each message, and a part of the links'
//! bandwidth; the machine file has these figures (`collectives`), and a profile has figures for machines without.
//!
//! - **PRO-1 (the library chooses).** On a machine with a profile, the plan of a collective is the one that the library
//!   takes: by its own estimates (`nccl-2.2x`), by its table (`rccl`), or the fastest by simulation (`plain`).
//! - **PRO-2 (same on all).** The choice depends on the machine, the operation, the members and the size alone.
//! - **PRO-3 (few channels for few bytes).** A collective takes one channel for each 32 KiB, up to the machine's number.

mod nccl;
mod rccl;

use super::algorithm::{Algorithm, Operation};
use super::channels::Channels;
use super::config::Plan;
use super::trial::Trial;
use phalanx_sim::ipcq::{BufferKind, EdgeSpec};
use phalanx_sim::spec::{CollectivesSpec, Efficiency, ProfileName, Protocol, ProtocolSpec};
use phalanx_sim::{MachineSpec, Time};

/// Bytes of a collective for each of its channels.
const CHANNEL: usize = 32 << 10;

/// Slots of a queue, as far as they fit into scratch.
const SLOTS: u32 = 16;

/// Bytes of a slot.
const SLOT: u64 = 32 << 10;

/// A library of collectives on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: ProfileName,
    channels: u32,
    protocols: Vec<ProtocolSpec>,
}

/// A collective, as a library sees it when it chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) machine: &'a MachineSpec,
    pub(crate) operation: Operation,
    pub(crate) members: &'a [u32],
    /// Bytes of the larger of a rank's input and output.
    pub(crate) bytes: usize,
}

/// An algorithm and a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) module: &'static str,
    pub(crate) protocol: Protocol,
}

impl Profile {
    /// The profile of a machine; `named` is the profile that `ccl.yaml` names.
    pub fn of(machine: &MachineSpec, named: Option<ProfileName>) -> Option<Self> {
        let own = machine.collectives.as_ref();
        let name = named.or(own.map(|own| own.profile))?;
        let CollectivesSpec { channels, protocols, .. } = own.cloned().unwrap_or(defaults(name));
        Some(Self { name, channels, protocols })
    }

    /// The name in files.
    pub fn name(&self) -> &'static str {
        self.name.name()
    }

    /// Every plan of the library for an operation, the same for all sizes but for the number of channels.
    pub fn plans(&self, machine: &MachineSpec, trial: &Trial) -> Vec<Plan> {
        let situation = Situation::of(machine, trial);
        let pairs = self.pairs(&situation);
        pairs.into_iter().filter_map(|pair| self.plan(pair, &situation)).collect()
    }

    /// The plan that the library takes; `None` if it takes the fastest, or has nothing for the operation (PRO-1).
    pub fn choose(&self, machine: &MachineSpec, trial: &Trial) -> Option<Plan> {
        let situation = Situation::of(machine, trial);
        let pairs = self.pairs(&situation);
        let fitting = |pair: &Pair| self.plan(*pair, &situation).is_some();
        let pairs: Vec<Pair> = pairs.into_iter().filter(fitting).collect();
        let pair = match self.name {
            ProfileName::Nccl => nccl::choose(&situation, &pairs),
            ProfileName::Rccl => rccl::choose(&situation, &pairs),
            ProfileName::Plain => None,
        };
        self.plan(pair?, &situation)
    }

    /// The costs of a protocol.
    pub(crate) fn costs(&self, protocol: Protocol) -> Option<&ProtocolSpec> {
        self.protocols.iter().find(|costs| costs.protocol == protocol)
    }

    fn pairs(&self, situation: &Situation<'_>) -> Vec<Pair> {
        match self.name {
            ProfileName::Nccl => nccl::pairs(situation),
            ProfileName::Rccl => rccl::pairs(),
            ProfileName::Plain => plain(),
        }
    }

    /// The plan of a pair, if the machine has the protocol, and the algorithm fits.
    fn plan(&self, pair: Pair, situation: &Situation<'_>) -> Option<Plan> {
        let costs = self.costs(pair.protocol)?;
        let Situation { machine, operation, members, bytes } = *situation;
        let edge = EdgeSpec {
            n_slots: SLOTS,
            slot_size: SLOT,
            buffer_kind: BufferKind::Tcm,
            delay: costs.step,
            efficiency: costs.efficiency,
            ..EdgeSpec::default()
        };
        let plan = Plan {
            name: format!("{}/{}", pair.module, pair.protocol.name()),
            module: pair.module.to_owned(),
            edge,
            start: costs.start,
            channels: Some(Channels::Number(self.channels_for(bytes))),
            n_elem: None,
            topology: None,
            own: None,
        };
        plan.check(operation, machine, members).is_ok().then_some(plan)
    }

    /// The number of channels for a collective (PRO-3).
    fn channels_for(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(CHANNEL)).unwrap_or(u32::MAX).clamp(1, self.channels)
    }
}

impl<'a> Situation<'a> {
    fn of(machine: &'a MachineSpec, trial: &'a Trial) -> Self {
        let (operation, members, bytes) = (trial.operation, &*trial.members, trial.bytes());
        Self { machine, operation, members, bytes }
    }

    /// Number of ranks.
    pub(crate) fn ranks(&self) -> usize {
        self.members.len()
    }

    /// Number of nodes: groups of the innermost level that have members.
    pub(crate) fn nodes(&self) -> usize {
        let mut nodes: Vec<u32> =
            self.members.iter().map(|member| self.machine.group_of(*member, 0)).collect();
        nodes.dedup();
        nodes.len()
    }
}

/// Every algorithm by the one protocol that libraries without protocols have.
fn plain() -> Vec<Pair> {
    let pair = |algorithm: &Algorithm| Pair { module: algorithm.name, protocol: Protocol::Simple };
    Algorithm::ALL.iter().map(pair).collect()
}

/// The figures of a profile on a machine that has none: those that the library itself estimates with.
fn defaults(profile: ProfileName) -> CollectivesSpec {
    let costs = |protocol, start: u64, step: u64, millionths| ProtocolSpec {
        protocol,
        start: Time::ns(start),
        step: Time::ns(step),
        efficiency: Efficiency::millionths(millionths).unwrap_or(Efficiency::FULL),
    };
    let protocols = match profile {
        ProfileName::Nccl | ProfileName::Rccl => vec![
            costs(Protocol::Ll, 6_600, 600, 310_000),
            costs(Protocol::Ll128, 14_000, 1_900, 736_000),
            costs(Protocol::Simple, 8_400, 3_400, 800_000),
            costs(Protocol::Nvls, 25_000, 0, 600_000),
        ],
        ProfileName::Plain => vec![costs(Protocol::Simple, 0, 0, 1_000_000)],
    };
    CollectivesSpec { profile, channels: 16, protocols }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(operation: Operation, ranks: u32, bytes: usize) -> Plan {
        let machine = MachineSpec::preset("hgx-h100").unwrap();
        let profile = Profile::of(&machine, None).unwrap();
        let trial = Trial::new(operation, (0..ranks).collect(), bytes / 4);
        profile.choose(&machine, &trial).unwrap()
    }

    #[test]
    fn pro_1_nccl_takes_ll_for_few_bytes_then_ll128_then_the_switch() {
        let name = |bytes| chosen(Operation::AllReduce, 8, bytes).name;
        assert_eq!(name(1 << 10), "ring/ll", "PRO-1");
        assert_eq!(name(8 << 20), "ring/ll128", "PRO-1");
        assert_eq!(name(256 << 20), "nvls/nvls", "PRO-1");
        assert_eq!(chosen(Operation::AllReduce, 2, 256 << 20).name, "ring/simple", "PRO-1");
    }

    #[test]
    fn pro_2_a_choice_is_the_same_however_often_it_is_made() {
        for bytes in [1 << 12, 1 << 20, 1 << 26] {
            let once = chosen(Operation::AllGather, 8, bytes);
            assert_eq!(once, chosen(Operation::AllGather, 8, bytes), "PRO-2");
        }
    }

    #[test]
    fn pro_3_channels_grow_with_bytes_up_to_the_most() {
        let channels = |bytes| chosen(Operation::AllReduce, 8, bytes).channels;
        assert_eq!(channels(1 << 10), Some(Channels::Number(1)), "PRO-3");
        assert_eq!(channels(256 << 10), Some(Channels::Number(8)), "PRO-3");
        assert_eq!(channels(64 << 20), Some(Channels::Number(24)), "PRO-3");
    }
}
