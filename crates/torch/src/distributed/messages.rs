//! Messages from one rank to another.
//!
//! - **DST-4 (messages).** Messages of one group from one rank to another with one tag are received in the order they
//!   were sent. A send is over when its numbers have been taken from the tensor, whether or not anybody receives them;
//!   a receive is over when they are there. Neither takes a PE's turn, so a message that has not come yet holds up
//!   nothing but who waits for it.

use super::check;
use super::group::{Direction, ProcessGroup, resolve};
use super::work::Work;
use crate::ccl::algorithm::Operation;
use crate::ccl::lanes::whole;
use crate::ccl::part::{Buffer, Part, Peers, ReduceOp};
use crate::error::{Error, Mismatch};
use crate::launch::{Arg, On};
use crate::multiprocessing::Receiving;
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_sim::ipcq::EdgeName;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::topology::PeId;
use std::cell::RefCell;
use std::rc::Rc;

/// Sends a tensor to rank `dst`; the two agree on the tag.
pub async fn send(
    cx: &Rank,
    tensor: &Tensor,
    dst: usize,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    isend(cx, tensor, dst, tag, group)?.wait().await
}

/// The same, without waiting.
pub fn isend(
    cx: &Rank,
    tensor: &Tensor,
    dst: usize,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    begin(cx, tensor, Direction::To, dst, tag, group)
}

/// Receives a tensor from rank `src`; gives the rank it came from, `None` if this rank is not in the group.
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

/// The same, without waiting.
pub fn irecv(
    cx: &Rank,
    tensor: &Tensor,
    src: usize,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let work = begin(cx, tensor, Direction::From, src, tag, group)?;
    Ok(if work.is_nothing() { work } else { work.whose_source_is(src) })
}

/// How many tags there are.
const TAGS: u32 = 1024;

/// Channels of messages are told from those of collectives by this bit.
const MESSAGES: u32 = 1 << 30;

fn begin(
    cx: &Rank,
    tensor: &Tensor,
    direction: Direction,
    other: usize,
    tag: u32,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing(cx));
    }
    let buffer = check_message(cx, tensor, direction, other, tag, &group)?;
    let (from, to) = match direction {
        Direction::To => (cx.rank(), other),
        Direction::From => (other, cx.rank()),
    };
    let peers = peers(cx, &group, (from, to), tag, tensor);
    let mismatch = peers.mismatch.clone();
    let part = Part {
        // As a part in something that two ranks do: what the first has, the second gets.
        operation: Operation::Broadcast,
        combine: ReduceOp::Sum,
        rank: usize::from(direction == Direction::From),
        ranks: 2,
        root: 0,
        dtype: tensor.dtype(),
        input: buffer.clone(),
        output: buffer,
        splits: None,
        peers,
    };
    let (name, arg) = match direction {
        Direction::To => (format!("send to rank {other}"), Arg::read(tensor)),
        Direction::From => (format!("recv from rank {other}"), Arg::write(tensor)),
    };
    let lane = (direction, other, tag);
    let on = On {
        pes: vec![PeId::first(cx.host().sip())],
        exclusive: false,
        label: None,
        after: group.last_message(lane).into_iter().collect(),
    };
    let expected = (direction == Direction::From).then_some(Receiving { from: other, tag });
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
            result.map_err(|error| found.map_or(error, |found| Error::Mismatch(Box::new(found))))
        },
    );
    group.follow_message(lane, &handle);
    Ok(Work::new(cx, handle))
}

/// Refuses what cannot be sent or received; gives where the numbers are.
fn check_message(
    cx: &Rank,
    tensor: &Tensor,
    direction: Direction,
    other: usize,
    tag: u32,
    group: &ProcessGroup,
) -> Result<Buffer, Error> {
    let (name, words) = match direction {
        Direction::To => ("send", "destination"),
        Direction::From => ("recv", "source"),
    };
    check::root(name, group, other)?;
    check::own(cx, name, &[tensor])?;
    if other == cx.rank() {
        return Err(Error::argument(format!(
            "{name}: Invalid {words} rank: {words} rank should not be the same as the rank of the current process; use copy_"
        )));
    }
    if tag >= TAGS {
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

/// The error of a message that nobody has received, if `edge` is for messages.
pub(crate) fn unreceived(edge: &EdgeName) -> Option<Error> {
    let number = edge.channel.checked_sub(MESSAGES)?;
    Some(Error::Unreceived {
        from: edge.from.sip as usize,
        to: edge.to.sip as usize,
        tag: number % TAGS,
        group: number / TAGS,
    })
}

/// The two ends. Both run on the first PE of their SIPs: where the other's tensor is, a rank does not know.
fn peers(
    cx: &Rank,
    group: &ProcessGroup,
    (from, to): (usize, usize),
    tag: u32,
    tensor: &Tensor,
) -> Peers {
    let pe = |rank: usize| PeId::first(u32::try_from(rank).expect("a SIP"));
    let topic = format!(
        "a message from rank {from} to rank {to} with tag {tag} in {}: {}[{}]",
        group.describe(),
        tensor.dtype(),
        tensor.numel()
    );
    let mismatch: Rc<RefCell<Option<Mismatch>>> = Rc::default();
    Peers {
        pes: [pe(from), pe(to)].into(),
        names: [from, to].into(),
        edge: cx.settings().ccl.edge(),
        channel: MESSAGES | (group.number() * TAGS + tag),
        topic: topic.as_str().into(),
        mismatch,
    }
}

async fn run(part: Part, tl: Tl, direction: Direction) -> Result<(), KernelError> {
    let all = 0..part.input.len;
    match direction {
        Direction::To => {
            let to = part.to(&tl, 1, 1)?;
            if all.is_empty() {
                // That there is nothing to send is said too: the receiver may expect something.
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
