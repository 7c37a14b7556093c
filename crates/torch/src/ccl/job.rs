//! A job: one rank's part of a collective with everything that its programs share.

use super::algorithm::{CollectiveAlgorithm, Operation, Running};
use super::lanes::Lane;
use super::part::{Part, Peers, ReduceOp, Splits};
use crate::error::Mismatch;
use phalanx_sim::ipcq::{EdgeSpec, Topic};
use phalanx_sim::kernel::Tl;
use phalanx_sim::topology::PeId;
use phalanx_sim::{DType, Time};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The members of a group. The ranks of a context have one copy of equal members: a copy for each rank would grow with the
/// square of their number.
#[derive(Debug)]
pub(crate) struct Members {
    /// The members, by their numbers in the world.
    pub(crate) ranks: Rc<[usize]>,
    /// The SIP of each member.
    pub(crate) sips: Rc<[u32]>,
}

/// The state that all programs of one rank's launch share.
pub(crate) struct Job {
    /// One lane for each program.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) algorithm: Arc<dyn CollectiveAlgorithm>,
    pub(crate) operation: Operation,
    pub(crate) combine: ReduceOp,
    pub(crate) dtype: DType,
    pub(crate) rank: usize,
    pub(crate) root: usize,
    pub(crate) splits: Option<Rc<Splits>>,
    /// The SIP of each rank.
    pub(crate) sips: Rc<[u32]>,
    /// The number of each rank in the world.
    pub(crate) names: Rc<[usize]>,
    pub(crate) edge: EdgeSpec,
    /// Time before the first byte moves.
    pub(crate) start: Time,
    pub(crate) in_loops: bool,
    pub(crate) channel: u32,
    pub(crate) topic: Topic,
    pub(crate) mismatch: Rc<RefCell<Option<Mismatch>>>,
}

impl Job {
    /// The PE of each program.
    pub(crate) fn pes(&self) -> Vec<PeId> {
        self.lanes.iter().map(|lane| lane.pe).collect()
    }

    /// Runs one program.
    pub(crate) fn run(&self, tl: Tl) -> Running<'static> {
        let number = tl.program_id();
        let lane = &self.lanes[number];
        let part = Part {
            operation: self.operation,
            combine: self.combine,
            rank: self.rank,
            ranks: self.sips.len(),
            root: self.root,
            dtype: self.dtype,
            input: lane.input.clone(),
            output: lane.output.clone(),
            splits: self.splits.clone(),
            in_loops: self.in_loops,
            lane: number,
            lanes: self.lanes.len(),
            peers: Peers {
                sips: self.sips.clone(),
                pe: lane.pe,
                names: self.names.clone(),
                edge: self.edge,
                channel: self.channel,
                topic: self.topic.clone(),
                mismatch: self.mismatch.clone(),
            },
        };
        if self.start == Time::ZERO {
            return self.algorithm.run(part, tl);
        }
        let (start, algorithm) = (self.start, self.algorithm.clone());
        Box::pin(async move {
            tl.pause(start).await;
            algorithm.run(part, tl).await
        })
    }
}
