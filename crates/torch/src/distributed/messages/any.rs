//! Receiving from whichever rank sends first, and messages in batches.

use super::{Direction, EdgeKey, Message, TAGS, run};
use crate::ccl::part::Part;
use crate::distributed::group::{ProcessGroup, resolve};
use crate::distributed::work::Work;
use crate::error::Error;
use crate::launch::{Arg, On};
use crate::multiprocessing::Receiving;
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::topology::PeId;
use std::cell::Cell;
use std::rc::Rc;

/// One message of [`batch_isend_irecv`].
#[derive(Clone)]
pub enum P2pOp {
    /// Sends a tensor to rank `peer`.
    Send {
        /// The tensor.
        tensor: Tensor,
        /// The receiving rank.
        peer: usize,
        /// The tag.
        tag: u32,
    },
    /// Receives a tensor from rank `peer`.
    Recv {
        /// The tensor.
        tensor: Tensor,
        /// The sending rank.
        peer: usize,
        /// The tag.
        tag: u32,
    },
}

impl P2pOp {
    fn parts(&self) -> (&Tensor, EdgeKey) {
        let (direction, tensor, peer, tag) = match self {
            Self::Send { tensor, peer, tag } => (Direction::To, tensor, peer, tag),
            Self::Recv { tensor, peer, tag } => (Direction::From, tensor, peer, tag),
        };
        (tensor, EdgeKey { direction, peer: *peer, tag: *tag })
    }
}

/// Sends and receives several tensors without waiting. The order of sends and receives in the list does not matter; the order
/// within one direction between two ranks does. If one message cannot be sent or received, none is.
pub fn batch_isend_irecv(
    cx: &Rank,
    messages: &[P2pOp],
    group: Option<&ProcessGroup>,
) -> Result<Vec<Work>, Error> {
    let group = resolve(cx, group)?;
    let message = |op: &'static str, number: usize| {
        let (tensor, edge) = messages[number].parts();
        (op, Message { cx, tensor, edge, group: group.clone() })
    };
    if group.rank().is_some() {
        for number in 0..messages.len() {
            let (name, message) = message("batch_isend_irecv", number);
            message
                .check()
                .map_err(|error| Error::argument(format!("{name}: message {number}: {error}")))?;
        }
    }
    let begin = |number: usize| {
        let (_, message) = message("", number);
        let EdgeKey { direction, peer, .. } = message.edge;
        let work = message.begin()?;
        let is_received = direction == Direction::From && !work.is_nothing();
        Ok(if is_received { work.whose_source_is(peer) } else { work })
    };
    (0..messages.len()).map(begin).collect()
}

/// Receives a tensor from whichever rank of the group sends one with this tag first; returns that rank, or `None` if this rank
/// is not in the group.
pub async fn recv_any(
    cx: &Rank,
    tensor: &Tensor,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<Option<usize>, Error> {
    let work = irecv_any(cx, tensor, tag, group)?;
    work.wait().await?;
    Ok(work.source_rank())
}

/// Does the same without waiting; [`Work::source_rank`] is known when the work is over. Of messages that arrive at one instant
/// the one of the lowest rank is taken.
pub fn irecv_any(
    cx: &Rank,
    tensor: &Tensor,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    let others: Vec<usize> =
        group.members().iter().copied().filter(|member| *member != cx.rank()).collect();
    if others.is_empty() {
        let words = format!("recv: {} has no other rank to receive from", group.describe());
        return Err(Error::argument(words));
    }
    let key = |peer: usize| EdgeKey { direction: Direction::From, peer, tag };
    let mut parts = Vec::new();
    for peer in &others {
        let message = Message { cx, tensor, edge: key(*peer), group: group.clone() };
        parts.push((*peer, message.part(message.check()?)));
    }
    // It takes its turn among the receives from each rank with this tag.
    let after = others.iter().filter_map(|peer| group.last_message(key(*peer))).collect();
    let on = On {
        pes: vec![PeId::first(cx.host().sip())],
        axes: None,
        exclusive: false,
        label: None,
        after,
    };
    debug_assert!(tag < TAGS, "checked");
    let expected = Receiving { from: None, tag };
    group.expect(expected);
    let (parts, source) = (Rc::new(parts), Rc::new(Cell::new(None)));
    let (own, candidates, found) = (group.clone(), parts.clone(), source.clone());
    let handle = cx.launch_mapped(
        "recv from any rank",
        on,
        &[Arg::write(tensor)],
        move |tl, _| run_any(parts.clone(), source.clone(), tl),
        move |result| {
            own.received(expected);
            let mismatch = candidates.iter().find_map(|(_, part)| part.peers.mismatch.take());
            result.map_err(|error| mismatch.map_or(error, |found| Error::Mismatch(Box::new(found))))
        },
    );
    for peer in &others {
        group.follow_message(key(*peer), &handle);
    }
    Ok(Work::new(handle).whose_source_is_in(found))
}

async fn run_any(
    parts: Rc<Vec<(usize, Part)>>,
    source: Rc<Cell<Option<usize>>>,
    tl: Tl,
) -> Result<(), KernelError> {
    let (edge, channel) = parts[0].1.edge(&tl, 1);
    let senders: Vec<(PeId, u32)> =
        parts.iter().map(|(_, part)| (part.peers.pe(0), channel)).collect();
    let (rank, part) = &parts[tl.arrival(&senders, edge)?.await];
    source.set(Some(*rank));
    run(part.clone(), tl, Direction::From).await
}
