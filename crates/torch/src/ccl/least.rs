//! The least time of a plan, without simulating it.
//!
//! - **LST-1 (a bound).** No trial of the plan ends earlier. The bound is the larger of these: the time that the messages and stores of one PE
//!   hold its store channel, one after the other; the time that what leaves a SIP takes at its one port to a switch; the latencies of
//!   messages of which each waits for the one before.
//!
//! An algorithm says how much work some rank cannot do without ([`CollectiveAlgorithm::least_work`](super::CollectiveAlgorithm)). Every
//! message and store rounds its time up (TIME-2), so that together they take no less than their sum.

use super::algorithm::{CollectiveAlgorithm, LeastWork};
use super::channels::Channels;
use super::config::Plan;
use super::lanes;
use super::trial::Trial;
use phalanx_sim::spec::Topology;
use phalanx_sim::{MachineSpec, Time};

/// Returns the least time of a trial by a plan.
pub fn least(machine: &MachineSpec, trial: &Trial, plan: &Plan) -> Time {
    let Some(algorithm) = plan.algorithm() else { return Time::ZERO };
    let (of_pe, of_all) = work(machine, trial, plan, &*algorithm);
    let copies = trial.layout.pieces.iter().map(|piece| piece.output.len()).min().unwrap_or(0);
    let size = trial.dtype.size() as u64;
    let busy = channel(machine, of_pe, size, copies as u64).max(port(machine, of_all, size));
    busy.max(chain(machine, of_pe.steps))
}

/// The least requests of a PE to its store channel, as far as the algorithm tells: they say how long the simulation of a trial takes.
pub(super) fn requests(machine: &MachineSpec, trial: &Trial, plan: &Plan) -> usize {
    let Some(algorithm) = plan.algorithm() else { return 0 };
    let (of_pe, _) = work(machine, trial, plan, &*algorithm);
    of_pe.messages.saturating_add(of_pe.stores)
}

/// Work of some PE of some rank, and that of all PEs of some rank, as if they were one.
fn work(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    algorithm: &dyn CollectiveAlgorithm,
) -> (LeastWork, LeastWork) {
    let channels = plan.channels_of(algorithm, trial.has_splits);
    let lanes = lanes_of(machine, trial, channels);
    let slot = channels.queues(plan.edge, lanes).slot_size / (trial.dtype.size() as u64).max(1);
    let slot = usize::try_from(slot).unwrap_or(usize::MAX).max(1);
    let parts = if trial.operation.is_elementwise() { 1 } else { trial.members.len() };
    let elements = trial.layout.count().saturating_mul(parts);
    // Some PE has at least an equal share of the elements.
    let of_pe = algorithm.least_work(&trial.shape(elements.div_ceil(lanes), slot));
    (of_pe, algorithm.least_work(&trial.shape(elements, usize::MAX)))
}

/// The number of PEs of a SIP that take part in a trial by a plan.
pub(super) fn lanes(machine: &MachineSpec, trial: &Trial, plan: &Plan) -> usize {
    let algorithm = plan.algorithm();
    algorithm.map_or(1, |algorithm| {
        lanes_of(machine, trial, plan.channels_of(&*algorithm, trial.has_splits))
    })
}

fn lanes_of(machine: &MachineSpec, trial: &Trial, channels: Channels) -> usize {
    let first = trial.layout.pieces.first().map(|piece| (piece.cube, piece.pe));
    let pieces = trial.layout.pieces.len().max(1);
    lanes::count(machine, first.unwrap_or_default(), pieces, channels)
}

/// The time that the work of a PE holds its store channel; every result has so many copies.
fn channel(machine: &MachineSpec, work: LeastWork, size: u64, copies: u64) -> Time {
    let dma = &machine.dma;
    let of_all_copies = |number: usize| (number as u64).saturating_mul(copies);
    let elements = (work.sent as u64).saturating_add(of_all_copies(work.stored));
    let bytes = dma.bandwidth.time_for(elements.saturating_mul(size));
    // Requests overlap if several may be under way.
    let alone = |latency: Time| if dma.outstanding == 1 { latency.as_ps() } else { 0 };
    // A store holds the channel until the memory has its last byte.
    let memory = if machine.cache.is_none() { alone(machine.hbm.latency) } else { 0 };
    let requests = (work.messages as u64).saturating_add(of_all_copies(work.stores));
    let latencies = requests.saturating_mul(alone(dma.latency));
    let latencies = latencies.saturating_add(of_all_copies(work.stores).saturating_mul(memory));
    Time::ps(bytes.as_ps().saturating_add(latencies))
}

/// The latencies of so many messages between SIPs, one after the other: of the DMA that sends, and of a link at least.
fn chain(machine: &MachineSpec, steps: usize) -> Time {
    let links = (0..machine.level_count()).map(|level| machine.link_of(level).latency);
    let each = links.min().unwrap_or(Time::ZERO) + machine.dma.latency;
    Time::ps(each.as_ps().saturating_mul(steps as u64))
}

/// The time that what leaves a SIP takes at the port to a switch, its only one.
fn port(machine: &MachineSpec, work: LeastWork, size: u64) -> Time {
    if machine.sips.topology != Topology::Switch || !machine.levels.is_empty() {
        return Time::ZERO;
    }
    let bandwidth = machine.sips.link.wire().bandwidth;
    bandwidth.time_for((work.sent as u64).saturating_mul(size))
}
