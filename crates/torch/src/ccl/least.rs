//! The least time of a plan, without simulating it.
//!
//! - **LST-1 (a bound).** No trial of the plan ends earlier. The bound is the larger of these: the time that the messages and stores of one PE
//!   hold its store channel, one after the other; the time that what leaves a SIP takes at its one port to a switch.
//!
//! An algorithm says how much work some rank cannot do without ([`CollectiveAlgorithm::least_work`](super::CollectiveAlgorithm)).

use super::algorithm::Work;
use super::channels::Channels;
use super::config::Plan;
use super::trial::Trial;
use phalanx_sim::spec::Topology;
use phalanx_sim::{MachineSpec, Time};

/// The least time of a trial by a plan.
pub fn least(machine: &MachineSpec, trial: &Trial, plan: &Plan) -> Time {
    let Some(algorithm) = plan.algorithm() else { return Time::ZERO };
    let pieces = trial.layout.pieces.len().max(1);
    let all = (machine.cubes.count() * machine.pes.count()) as usize;
    let lanes = match plan.channels_of(&*algorithm, trial.has_splits) {
        Channels::Number(number) => pieces.max(number as usize),
        Channels::All => pieces.max(all),
    };
    let parts = if trial.operation.is_elementwise() { 1 } else { trial.members.len() };
    let elements = trial.layout.count().saturating_mul(parts);
    // Some PE has at least an equal share of the elements.
    let of_pe = algorithm.least_work(&trial.shape(elements.div_ceil(lanes)));
    let of_all = algorithm.least_work(&trial.shape(elements));
    let size = trial.dtype.size() as u64;
    channel(machine, of_pe, size).max(port(machine, of_all, size))
}

/// The time that the work of a PE holds its store channel.
fn channel(machine: &MachineSpec, work: Work, size: u64) -> Time {
    let dma = &machine.dma;
    let bytes = dma.bandwidth.time_for((work.elements as u64).saturating_mul(size));
    let latency = if dma.outstanding == 1 { dma.latency.as_ps() } else { 0 };
    // Each request rounds its time by itself.
    let each = (work.requests as u64).saturating_mul(latency);
    Time::ps(bytes.as_ps().saturating_sub(work.requests as u64).saturating_add(each))
}

/// The time that what leaves a SIP takes at the port to a switch, its only one.
fn port(machine: &MachineSpec, work: Work, size: u64) -> Time {
    if machine.sips.topology != Topology::Switch || !machine.levels.is_empty() {
        return Time::ZERO;
    }
    let bandwidth = machine.sips.link.wire().bandwidth;
    let time = bandwidth.time_for((work.leaving as u64).saturating_mul(size));
    // Messages round their times by themselves: a picosecond each, of which there is one for each element at most.
    Time::ps(time.as_ps().saturating_sub(work.leaving as u64))
}
