//! Messages from one rank to another.
//!
//! - **DST-4 (messages).** Messages of one group from one rank to another with one tag are received in the order of sending. A
//!   send is over when its numbers have been copied from the tensor, received or not; a receive is over when the numbers are
//!   in its tensor. Neither takes a PE's turn, so a missing message delays only its receiver.

mod any;

pub use any::{P2pOp, batch_isend_irecv, irecv_any, recv_any};

use super::check;
use super::group::{Direction, EdgeKey, MOST_GROUPS, ProcessGroup, resolve};
use super::work::Work;
use crate::ccl::algorithm::Operation;
use crate::ccl::lanes::whole;
use crate::ccl::part::{Buffer, Part, Peers, ReduceOp};
use crate::error::Error;
use crate::launch::{Arg, On};
use crate::multiprocessing::Receiving;
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_sim::ipcq::EdgeName;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::topology::PeId;
use std::rc::Rc;

/// Sends a tensor to rank `dst`; the receiver uses the same tag.
pub async fn send(
    cx: &Rank,
    tensor: &Tensor,
    dst: usize,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    isend(cx, tensor, dst, tag, group)?.wait().await
}

/// Does the same without waiting.
pub fn isend(
    cx: &Rank,
    tensor: &Tensor,
    dst: usize,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let edge = EdgeKey { direction: Direction::To, peer: dst, tag };
    Message { cx, tensor, edge, group: resolve(cx, group)? }.begin()
}

/// Receives a tensor from rank `src`; returns `src`, or `None` if this rank is not in the group.
pub async fn recv(
    cx: &Rank,
    tensor: &Tensor,
    src: usize,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<Option<usize>, Error> {
    let work = irecv(cx, tensor, src, tag, group)?;
    work.wait().await?;
    Ok(work.source_rank())
}

/// Does the same without waiting.
pub fn irecv(
    cx: &Rank,
    tensor: &Tensor,
    src: usize,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let edge = EdgeKey { direction: Direction::From, peer: src, tag };
    let work = Message { cx, tensor, edge, group: resolve(cx, group)? }.begin()?;
    Ok(if work.is_nothing() { work } else { work.whose_source_is(src) })
}

/// Number of tags.
const TAGS: u32 = 1024;

/// The bit that tells channels of messages from channels of collectives. Other channels with this bit have one beyond [`NUMBERS`] too.
const MESSAGES: u32 = 1 << 29;

/// The numbers of messages: one for each tag of each group.
const NUMBERS: u32 = MOST_GROUPS * TAGS;

/// One side of a message, as a rank asks for it.
struct Message<'a> {
    cx: &'a Rank,
    tensor: &'a Tensor,
    edge: EdgeKey,
    group: ProcessGroup,
}

impl Message<'_> {
    /// Starts sending or receiving; does nothing on a rank outside the group.
    fn begin(self) -> Result<Work, Error> {
        let Self { cx, tensor, edge, ref group } = self;
        if group.rank().is_none() {
            return Ok(Work::nothing());
        }
        let part = self.part(self.check()?);
        let mismatch = part.peers.mismatch.clone();
        let EdgeKey { direction, peer, tag } = edge;
        let (name, arg) = match direction {
            Direction::To => (format!("send to rank {peer}"), Arg::read(tensor)),
            Direction::From => (format!("recv from rank {peer}"), Arg::write(tensor)),
        };
        let on = On {
            pes: vec![PeId::first(cx.host().sip())],
            axes: None,
            exclusive: false,
            label: None,
            after: group.last_message(edge).into_iter().collect(),
        };
        let expected =
            (direction == Direction::From).then_some(Receiving { from: Some(peer), tag });
        if let Some(message) = expected {
            group.expect(message);
        }
        let own = group.clone();
        let handle = cx.launch_mapped(
            &name,
            on,
            &[arg],
            move |tl, _| run(part.clone(), tl, direction),
            move |result| {
                if let Some(message) = expected {
                    own.received(message);
                }
                let found = mismatch.take();
                result
                    .map_err(|error| found.map_or(error, |found| Error::Mismatch(Box::new(found))))
            },
        );
        group.follow_message(edge, &handle);
        Ok(Work::new(handle))
    }

    /// This rank's side of the message. A message is a broadcast between two ranks: the sender is rank 0 and the root.
    fn part(&self, buffer: Buffer) -> Part {
        Part {
            operation: Operation::Broadcast,
            combine: ReduceOp::Sum,
            rank: usize::from(self.edge.direction == Direction::From),
            ranks: 2,
            root: 0,
            dtype: self.tensor.dtype(),
            input: buffer.clone(),
            output: buffer,
            splits: None,
            in_loops: false,
            lane: 0,
            lanes: 1,
            peers: self.peers(),
        }
    }

    /// Refuses a message that cannot be sent or received; returns the memory of the tensor.
    fn check(&self) -> Result<Buffer, Error> {
        let Self { cx, tensor, edge: EdgeKey { direction, peer, tag }, group } = self;
        let (name, words) = match direction {
            Direction::To => ("send", "destination"),
            Direction::From => ("recv", "source"),
        };
        check::root(name, group, *peer)?;
        check::own(cx, name, &[tensor])?;
        if *peer == cx.rank() {
            return Err(Error::argument(format!(
                "{name}: Invalid {words} rank: {words} rank should not be the same as the rank of the current process; use copy_"
            )));
        }
        if *tag >= TAGS {
            return Err(Error::argument(format!(
                "{name}: tag {tag} is too large; tags are 0 to {}",
                TAGS - 1
            )));
        }
        whole(tensor).ok_or_else(|| {
            Error::argument(format!(
                "{name}: {} must be contiguous and in one piece; use `contiguous()`",
                tensor.describe()
            ))
        })
    }

    /// The two ends. Both run on the first PE of their SIPs: a rank does not know the place of the other rank's tensor.
    fn peers(&self) -> Peers {
        let Self { cx, tensor, edge: EdgeKey { direction, peer, tag }, group } = self;
        let (from, to) = match direction {
            Direction::To => (cx.rank(), *peer),
            Direction::From => (*peer, cx.rank()),
        };
        let sip = |rank: usize| u32::try_from(rank).expect("a SIP");
        let topic = format!(
            "a message from rank {from} to rank {to} with tag {tag} in {}: {}[{}]",
            group.describe(),
            tensor.dtype(),
            tensor.numel()
        );
        Peers {
            sips: [sip(from), sip(to)].into(),
            pe: PeId::first(sip(cx.rank())),
            names: [from, to].into(),
            edge: cx.settings().ccl.edge(),
            channel: MESSAGES | (group.number() * TAGS + tag),
            topic: topic.as_str().into(),
            mismatch: Rc::default(),
        }
    }
}

/// The error of an unreceived message, if `edge` is for messages.
pub(crate) fn unreceived(edge: &EdgeName) -> Option<Error> {
    let number = edge.channel.checked_sub(MESSAGES).filter(|number| *number < NUMBERS)?;
    Some(Error::Unreceived {
        from: edge.from.sip as usize,
        to: edge.to.sip as usize,
        tag: number % TAGS,
        group: number / TAGS,
    })
}

async fn run(part: Part, tl: Tl, direction: Direction) -> Result<(), KernelError> {
    let all = 0..part.input.len;
    match direction {
        Direction::To => {
            let to = part.to(&tl, 1, 1)?;
            if all.is_empty() {
                // An empty message is sent too: the receiver may expect elements.
                part.send(&tl, &to, &tl.zeros(part.dtype, 0)?);
            }
            for chunk in part.chunks(&all) {
                let tile = part.load(&tl, &chunk).await?;
                part.send(&tl, &to, &tile);
            }
        }
        Direction::From => {
            let from = part.from(&tl, 0, 1)?;
            if all.is_empty() {
                drop(part.recv(&tl, &from, 0).await?);
            }
            for chunk in part.chunks(&all) {
                let tile = part.recv(&tl, &from, chunk.len()).await?;
                part.store(&tl, &chunk, &tile);
            }
        }
    }
    Ok(())
}
