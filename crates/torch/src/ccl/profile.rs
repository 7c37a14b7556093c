//! Library profiles: the protocols, algorithms and choices of a library of collectives.
//!
//! A library runs an algorithm by a protocol. A protocol costs a start, a time for each message, a part of the links'
//! bandwidth, and the copy of a rank's own part; the machine file has these figures (`collectives`), and a profile has figures
//! for machines without.
//!
//! - **PRO-1 (the library chooses).** On a machine with a profile, the plan of a collective is the one that the library
//!   takes: by its own estimates (`nccl-2.2x`), by its table (`rccl`), or the fastest by simulation (`plain`, and every
//!   library on a machine that says `choice: fastest`).
//! - **PRO-2 (same on all).** The choice depends on the machine, the operation, the members and the size alone.
//! - **PRO-3 (few channels for few bytes).** A collective takes one channel for each 16 KiB, as NCCL does, up to the machine's number.
//!   One that takes several starts later by the machine's `spread` for each doubling of the ranks of a node.
//! - **PRO-4 (chunks in the switch).** In-switch messages move in rounds: one chunk of each head and channel, of the size that NCCL
//!   takes for the vector. A round costs its bytes and a step; the first result is there after two rounds.
//! - **PRO-5 (a step moves a batch).** Inside a node, a step of a protocol with a `batch` moves so many bytes of each channel: all threads
//!   of a channel send their words at once. Further batches of a message follow one after the other, and make the step longer.
//! - **PRO-6 (steps of a ring add up).** Inside a node, a channel is one block of threads that handles the steps of a ring one after the
//!   other: the costs of words (LL, LL128) overlap with nothing. Slices of Simple follow each other through the ring; what is left is a step
//!   for each doubling of the ranks, and one step where every block goes to its rank at once.
//! - **PRO-7 (few words leave parts empty).** The parts of an all-reduce by a ring are whole lines of 16 bytes. With fewer lines than ranks,
//!   some parts are empty, and no rank pays for their words.
//! - **PRO-8 (rings go in loops).** A ring of a library takes as much of a segment at a time as its slots hold, as NCCL's chunks do; the rest
//!   follows in further loops.

mod nccl;
mod rccl;

use super::algorithm::{Algorithm, Operation};
use super::channels::Channels;
use super::config::Plan;
use super::trial::Trial;
use phalanx_sim::ipcq::{BufferKind, EdgeSpec};
use phalanx_sim::spec::{
    ChoiceName, CollectivesSpec, Efficiency, Generation, ProfileName, Protocol, ProtocolSpec,
};
use phalanx_sim::{Bandwidth, MachineSpec, Time};

/// Bytes of a collective for each of its channels.
const CHANNEL: usize = 16 << 10;

/// Bytes of a line: a rank's part of a vector is whole lines.
const LINE: u64 = 16;

/// Slots of a queue, as far as they fit into scratch.
const SLOTS: u32 = 16;

/// Bytes of a slot.
const SLOT: u64 = 32 << 10;

/// A library of collectives on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: ProfileName,
    choice: ChoiceName,
    generation: Generation,
    channels: u32,
    spread: Time,
    protocols: Vec<ProtocolSpec>,
}

/// A collective, as a library sees it when it chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) machine: &'a MachineSpec,
    pub(crate) generation: Generation,
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
    /// Returns the profile of a machine; `named` is the profile that `ccl.yaml` names.
    pub fn of(machine: &MachineSpec, named: Option<ProfileName>) -> Option<Self> {
        let own = machine.collectives.as_ref();
        let name = named.or(own.map(|own| own.profile))?;
        let own = own.cloned().unwrap_or(defaults(name));
        let CollectivesSpec { choice, generation, channels, spread, protocols, .. } = own;
        Some(Self { name, choice, generation, channels, spread, protocols })
    }

    /// Returns the name in files.
    pub fn name(&self) -> &'static str {
        self.name.name()
    }

    /// Returns every plan of the library for an operation, the same for all sizes but for the number of channels.
    pub fn plans(&self, machine: &MachineSpec, trial: &Trial) -> Vec<Plan> {
        let situation = self.situation(machine, trial);
        let pairs = self.fitting_pairs(&situation);
        pairs.into_iter().filter_map(|pair| self.plan(pair, &situation)).collect()
    }

    /// Returns the plan that the library takes; `None` if it takes the fastest, or has nothing for the operation
    /// (PRO-1).
    pub fn choose(&self, machine: &MachineSpec, trial: &Trial) -> Option<Plan> {
        let situation = self.situation(machine, trial);
        let pairs = self.fitting_pairs(&situation);
        let pair = match self.name {
            _ if self.choice == ChoiceName::Fastest => None,
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

    /// The pairs that can run. Between nodes, an algorithm that uses all NICs stands for rings, which cross by one of them here.
    fn fitting_pairs(&self, situation: &Situation<'_>) -> Vec<Pair> {
        let mut pairs = self.pairs(situation);
        pairs.retain(|pair| self.plan(*pair, situation).is_some());
        let has_rails = pairs.iter().any(|pair| pair.module == "two_level");
        if situation.nodes() > 1 && has_rails && self.name != ProfileName::Plain {
            pairs.retain(|pair| pair.module != "ring");
        }
        pairs
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
        let costs = one_after_the_other(self.costs_for(pair.protocol, situation)?, pair, situation);
        let Situation { machine, operation, members, bytes, .. } = *situation;
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
            in_loops: true,
            channels: Some(Channels::Number(self.channels_for(bytes))),
            n_elem: None,
            topology: None,
            own: None,
        };
        plan.check(operation, machine, members).is_ok().then_some(plan)
    }

    /// The costs of a protocol for a collective: the copy of a rank's own part, and the rounds of in-switch messages, are in the start
    /// and in the efficiency.
    fn costs_for(&self, protocol: Protocol, situation: &Situation<'_>) -> Option<ProtocolSpec> {
        let costs = *self.costs(protocol)?;
        if protocol == Protocol::Nvls {
            return Some(in_rounds(costs, situation));
        }
        let own = situation.bytes as u64 / situation.ranks().max(1) as u64;
        let copied = costs.copy.map_or(Time::ZERO, |copy| copy.time_for(own));
        let is_wide = self.channels_for(situation.bytes) > 1;
        let doublings = if is_wide { situation.doublings() } else { 0 };
        let spread = Time::ps(self.spread.as_ps().saturating_mul(doublings));
        let start = costs.start + copied + spread;
        Some(self.in_batches(ProtocolSpec { start, ..costs }, situation))
    }

    /// The costs of a protocol whose steps move batches: a step takes as long as the batches after its first (PRO-5).
    fn in_batches(&self, costs: ProtocolSpec, situation: &Situation<'_>) -> ProtocolSpec {
        if costs.batch == 0 || situation.nodes() > 1 {
            return costs;
        }
        let message = (situation.bytes as u64).div_ceil(situation.ranks().max(1) as u64).max(1);
        let batch = costs.batch.saturating_mul(self.channels_for(situation.bytes).into());
        let further = (message.div_ceil(batch) - 1).saturating_mul(batch);
        let links = situation.machine.link_of(0).bandwidth;
        let step = costs.step + links.time_for(costs.efficiency.stretched(further));
        ProtocolSpec { step, efficiency: Efficiency::FULL, ..costs }
    }

    fn situation<'a>(&self, machine: &'a MachineSpec, trial: &'a Trial) -> Situation<'a> {
        let (operation, members, bytes) = (trial.operation, &*trial.members, trial.bytes());
        Situation { machine, generation: self.generation, operation, members, bytes }
    }

    /// The number of channels for a collective (PRO-3).
    fn channels_for(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(CHANNEL)).unwrap_or(u32::MAX).clamp(1, self.channels)
    }
}

/// The costs of an algorithm inside a node whose steps are in the start: those of a ring, and the one step of blocks that go to their ranks
/// in slices (PRO-6).
fn one_after_the_other(costs: ProtocolSpec, pair: Pair, situation: &Situation<'_>) -> ProtocolSpec {
    if situation.nodes() > 1 {
        return costs;
    }
    let rounds = if situation.operation == Operation::AllReduce { 2 } else { 1 };
    let steps = match (pair.module, pair.protocol) {
        ("ring", Protocol::Simple) => situation.doublings(),
        ("ring", _) => rounds * (situation.ranks() as u64).saturating_sub(1),
        ("direct", Protocol::Simple) => rounds,
        _ => return costs,
    };
    let steps = costs.step.as_ps().saturating_mul(steps);
    let (filled, parts) = match pair.protocol {
        Protocol::Simple => (1, 1),
        _ => situation.filled_parts(),
    };
    let start = costs.start + Time::ps(steps.saturating_mul(filled) / parts);
    ProtocolSpec { start, step: Time::ZERO, ..costs }
}

/// The costs of in-switch messages in rounds of chunks (PRO-4).
fn in_rounds(costs: ProtocolSpec, situation: &Situation<'_>) -> ProtocolSpec {
    let bytes = situation.bytes as u64;
    let lanes = nccl::in_switch_channels(situation.generation) * situation.ranks() as u64;
    let round = nccl::in_switch_chunk(bytes, lanes) * lanes;
    let links = situation.machine.link_of(0).bandwidth;
    let wire = |bytes: u64| links.time_for(costs.efficiency.stretched(bytes));
    let first = wire(bytes.min(round)) + costs.step;
    let (moving, whole) = (wire(round).as_ps(), (wire(round) + costs.step).as_ps());
    let left = u128::from(costs.efficiency.as_millionths()) * u128::from(moving)
        / u128::from(whole.max(1));
    let left = u32::try_from(left).ok().and_then(Efficiency::millionths);
    let efficiency = left.unwrap_or(costs.efficiency);
    ProtocolSpec { start: costs.start + first + first, step: Time::ZERO, efficiency, ..costs }
}

impl Situation<'_> {
    /// Number of ranks.
    pub(crate) fn ranks(&self) -> usize {
        self.members.len()
    }

    /// The number of parts of a ring's vector that have words in them, and the number of all parts (PRO-7).
    fn filled_parts(&self) -> (u64, u64) {
        let parts = self.ranks().max(1) as u64;
        if self.operation != Operation::AllReduce {
            return (parts, parts);
        }
        ((self.bytes as u64).div_ceil(LINE).clamp(1, parts), parts)
    }

    /// The number of doublings that lead from one rank to all ranks of a node.
    pub(crate) fn doublings(&self) -> u64 {
        let ranks = self.ranks() / self.nodes().max(1);
        ranks.next_power_of_two().ilog2().into()
    }

    /// Bandwidth of all NICs of a node.
    pub(crate) fn nics(&self) -> Bandwidth {
        let nics = self.machine.levels.first().map_or(1, |level| u64::from(level.nics.max(1)));
        self.machine.link_of(1).bandwidth.scaled(nics, 1)
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
        copy: None,
        batch: 0,
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
    let (choice, generation) = Default::default();
    CollectivesSpec { profile, choice, generation, channels: 16, spread: Time::ZERO, protocols }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ccl::trial::measure;

    fn chosen(operation: Operation, ranks: u32, bytes: usize) -> Plan {
        let machine = MachineSpec::preset("hgx-h100").unwrap();
        let profile = Profile::of(&machine, None).unwrap();
        let trial = Trial::new(operation, (0..ranks).collect(), bytes / 4);
        profile.choose(&machine, &trial).unwrap()
    }

    #[test]
    fn pro_1_nccl_takes_ll_for_few_bytes_then_the_switch_or_larger_words() {
        let name = |bytes| chosen(Operation::AllReduce, 8, bytes).name;
        assert_eq!(name(1 << 10), "ring/ll", "PRO-1");
        assert_eq!(name(8 << 20), "nvls/nvls", "PRO-1");
        assert_eq!(chosen(Operation::AllReduce, 2, 256 << 20).name, "ring/simple", "PRO-1");
        assert_eq!(chosen(Operation::AllReduce, 4, 256 << 20).name, "ring/simple", "PRO-1");
        let gather = |bytes| chosen(Operation::AllGather, 8, bytes).name;
        assert_eq!(
            [1 << 20, 8 << 20, 64 << 20].map(gather),
            ["ring/ll", "ring/ll128", "ring/simple"]
        );
    }

    #[test]
    fn pro_4_larger_chunks_start_later_and_have_more_of_the_links() {
        let of = |bytes| {
            let plan = chosen(Operation::AllReduce, 8, bytes);
            (plan.start, plan.edge.efficiency)
        };
        let (small, large) = (of(4 << 20), of(256 << 20));
        assert!(small.0 < large.0 && small.1 < large.1, "PRO-4: {small:?}, {large:?}");
        assert_eq!(of(128 << 20), large, "PRO-4: the same chunk, the same costs");
    }

    #[test]
    fn pro_2_a_choice_is_the_same_however_often_it_is_made() {
        for bytes in [1 << 12, 1 << 20, 1 << 26] {
            let once = chosen(Operation::AllGather, 8, bytes);
            assert_eq!(once, chosen(Operation::AllGather, 8, bytes), "PRO-2");
        }
    }

    #[test]
    fn pro_5_the_first_batch_of_a_message_costs_no_bandwidth_of_its_own() {
        let machine = MachineSpec::preset("hgx-h100").unwrap();
        let profile = Profile::of(&machine, None).unwrap();
        let ll = *profile.costs(Protocol::Ll).unwrap();
        assert_eq!(ll.batch, 4 << 10, "NCCL: 512 threads of 8 bytes");
        let start = |ranks, bytes: usize| {
            let plan = chosen(Operation::AllReduce, ranks, bytes);
            assert_eq!(plan.name, "ring/ll", "{bytes}");
            assert_eq!(plan.edge.efficiency, Efficiency::FULL, "PRO-5: what costs is in the step");
            plan.start
        };
        let links = machine.link_of(0).bandwidth;
        // 24 channels of 4 KiB are 96 KiB of each segment.
        let expected = |doublings: u64, steps: u64, batches: u64| {
            let batches = links.time_for(ll.efficiency.stretched(batches * (96 << 10)));
            let step = ll.step + batches;
            let spread = profile.spread.as_ps() * doublings;
            ll.start + Time::ps(spread + step.as_ps() * steps)
        };
        assert_eq!(start(8, 512 << 10), expected(3, 14, 0), "PRO-5: the step alone");
        assert_eq!(start(8, 1 << 20), expected(3, 14, 1), "PRO-5: a further batch for 128 KiB");
        assert_eq!(start(2, 1 << 20), expected(1, 2, 5), "PRO-5: five for 512 KiB");
        let without = ProtocolSpec { batch: 0, ..ll };
        let trial = Trial::new(Operation::AllReduce, (0..8).collect(), 1 << 18);
        let situation = profile.situation(&machine, &trial);
        assert_eq!(profile.in_batches(without, &situation), without, "PRO-5: none");
    }

    #[test]
    fn pro_6_a_ring_pays_each_of_its_steps() {
        let steps = |operation, ranks| {
            let plan = chosen(operation, ranks, 1 << 10);
            assert_eq!(plan.edge.delay, Time::ZERO, "PRO-6");
            plan.start.as_ps()
        };
        let step = steps(Operation::AllGather, 3) - steps(Operation::AllGather, 2);
        assert!(step > 0, "PRO-6");
        assert_eq!(steps(Operation::AllGather, 8) - steps(Operation::AllGather, 2), 6 * step);
        assert_eq!(steps(Operation::AllReduce, 8) - steps(Operation::AllGather, 8), 7 * step);
        assert_eq!(steps(Operation::ReduceScatter, 4), steps(Operation::AllGather, 4), "PRO-6");
    }

    #[test]
    fn pro_6_slices_of_simple_pay_a_step_for_each_doubling() {
        let machine = MachineSpec::preset("hgx-a100").unwrap();
        let profile = Profile::of(&machine, None).unwrap();
        let simple = *profile.costs(Protocol::Simple).unwrap();
        let steps = |operation, ranks: u32, doublings: u64| {
            let bytes = 256 << 20;
            let trial = Trial::new(operation, (0..ranks).collect(), bytes / 4);
            let plan = profile.choose(&machine, &trial).unwrap();
            assert_eq!((&*plan.name, plan.edge.delay), ("ring/simple", Time::ZERO), "PRO-6");
            let own = trial.bytes() as u64 / u64::from(ranks);
            let copied = simple.copy.map_or(Time::ZERO, |copy| copy.time_for(own));
            let known = (simple.start + copied).as_ps() + profile.spread.as_ps() * doublings;
            plan.start.as_ps() - known
        };
        let step = simple.step.as_ps();
        let exchange = Trial::new(Operation::AllToAll, (0..8).collect(), 1 << 20);
        let plan = profile.choose(&machine, &exchange).unwrap();
        assert_eq!((&*plan.name, plan.edge.delay), ("direct/simple", Time::ZERO), "PRO-6: one");
        for (ranks, doublings) in [(2, 1), (4, 2), (5, 3), (8, 3)] {
            for operation in [Operation::AllReduce, Operation::AllGather] {
                let got = steps(operation, ranks, doublings);
                assert_eq!(got, step * doublings, "PRO-6: {operation}, {ranks} ranks");
            }
        }
    }

    #[test]
    fn pro_3_channels_grow_with_bytes_up_to_the_most() {
        let channels = |bytes| chosen(Operation::AllReduce, 8, bytes).channels;
        assert_eq!(channels(1 << 10), Some(Channels::Number(1)), "PRO-3");
        assert_eq!(channels(128 << 10), Some(Channels::Number(8)), "PRO-3");
        assert_eq!(channels(64 << 20), Some(Channels::Number(24)), "PRO-3");
        let start = |bytes| chosen(Operation::AllReduce, 8, bytes).start;
        assert!(start(16 << 10) < start(32 << 10), "PRO-3: several channels start later");
    }

    #[test]
    fn pro_7_parts_without_words_cost_nothing() {
        let machine = MachineSpec::preset("hgx-h100").unwrap();
        let profile = Profile::of(&machine, None).unwrap();
        let step = profile.costs(Protocol::Ll).unwrap().step.as_ps();
        let start = |operation, bytes| chosen(operation, 8, bytes).start.as_ps();
        let reduce = |bytes| start(Operation::AllReduce, bytes);
        for (bytes, filled) in [(8, 1), (16, 1), (32, 2), (64, 4), (112, 7), (128, 8), (1024, 8)] {
            let spared = reduce(1024) - reduce(bytes);
            assert_eq!(spared, 14 * step * (8 - filled) / 8, "PRO-7: {bytes} bytes");
        }
        let gather = |bytes| start(Operation::AllGather, bytes);
        assert_eq!(gather(32), gather(1024), "PRO-7: every rank has words of its own");
    }

    #[test]
    fn pro_8_the_time_of_a_large_ring_is_a_line() {
        let machine = MachineSpec::preset("hgx-h100").unwrap();
        let profile = Profile::of(&machine, None).unwrap();
        let time = |mib: usize| {
            let trial = Trial::new(Operation::AllReduce, vec![0, 1], (mib << 20) / 4);
            let plan = profile.choose(&machine, &trial).unwrap();
            assert!(plan.in_loops, "PRO-8");
            measure(&machine, &trial, &plan).unwrap().as_ps()
        };
        let [small, middle, large] = [32, 64, 128].map(time);
        let (first, second) = (2 * (middle - small), large - middle);
        assert!(first.abs_diff(second) < second / 100, "PRO-8: {first}, {second}");
    }
}
