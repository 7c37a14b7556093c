//! `tree`: a binomial tree toward the root and back.
//!
//! Ranks are counted from the root on (the root of an all-reduce is rank 0). Rank `v` has the children `v + 1`, `v + 2`,
//! `v + 4`, ... up to the lowest bit of `v`, and combines its vector with theirs in this order:
//! `((x[0] + x[1]) + (x[2] + x[3])) + ...`. On the way back the largest subtree is served first. A chunk is sent on as soon
//! as it arrives.

use super::super::algorithm::{Algorithm, LeastWork, Operation, Running, Shape, anywhere, never};
use super::super::channels::Channels;
use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::LoadFrom;
use phalanx_sim::kernel::{KernelError, Tile, Tl};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "tree",
    summary: "up a binomial tree and down again; few steps for one root",
    operations: &[Operation::AllReduce, Operation::Broadcast, Operation::Reduce],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits: anywhere,
    symmetry: never,
    work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// A node of the tree with its queues.
struct Node<'a> {
    part: &'a Part,
    tl: &'a Tl,
    /// Queues to and from the parent; `None` at the root.
    up: Option<SendQueue>,
    down: Option<RecvQueue>,
    /// Queues from and to the children, the closest child first.
    gather: Vec<RecvQueue>,
    spread: Vec<SendQueue>,
}

/// The root sends everything to each of its children, and stores the result of an all-reduce.
fn work(shape: &Shape) -> LeastWork {
    let Shape { operation, ranks, elements, slot, .. } = *shape;
    let copies = match operation {
        Operation::AllReduce => 1,
        Operation::Broadcast => 0,
        _ => return LeastWork::default(),
    };
    if ranks < 2 || elements == 0 {
        return LeastWork::default();
    }
    let children = ranks.next_power_of_two().ilog2() as usize;
    let chunks = elements.div_ceil(slot.max(1));
    LeastWork {
        messages: children.saturating_mul(chunks),
        sent: children.saturating_mul(elements),
        stores: copies * chunks,
        stored: copies * elements,
        // The rank with the most ones in its number is so far below the root.
        steps: (1 + copies) * ranks.ilog2() as usize,
    }
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    let node = Node::open(&part, &tl)?;
    let reduces = part.operation.combines();
    if reduces {
        node.reduce().await?;
    } else if node.down.is_none() {
        let chunks = part.chunks(&(0..part.input.len)).map(|chunk| ((), chunk));
        let mut own = part.prefetch(&tl, LoadFrom::Input, chunks);
        while let Some(((), _, mine)) = own.next().await? {
            node.send_to_all(&mine);
        }
        part.copy_on_root(&tl).await?;
    }
    node.broadcast().await
}

impl<'a> Node<'a> {
    fn open(part: &'a Part, tl: &'a Tl) -> Result<Self, KernelError> {
        let (reduces, spreads) = (part.operation.combines(), part.operation != Operation::Reduce);
        let root = if part.operation.has_root() { part.root } else { 0 };
        let rank = |place: usize| (place + root) % part.ranks;
        let place = (part.rank + part.ranks - root) % part.ranks;
        let levels = part.ranks.next_power_of_two().ilog2();
        let receivers = if reduces { levels as usize + usize::from(spreads) } else { 1 };
        let mut node =
            Self { part, tl, up: None, down: None, gather: Vec::new(), spread: Vec::new() };
        for level in 0..levels {
            let step = 1 << level;
            if place & step != 0 {
                let parent = rank(place - step);
                node.up = if reduces { Some(part.to(tl, parent, receivers)?) } else { None };
                node.down = if spreads { Some(part.from(tl, parent, receivers)?) } else { None };
                break;
            }
            if place + step < part.ranks {
                let child = rank(place + step);
                if reduces {
                    node.gather.push(part.from(tl, child, receivers)?);
                }
                if spreads {
                    node.spread.push(part.to(tl, child, receivers)?);
                }
            }
        }
        Ok(node)
    }

    /// Sends a tile to all children, the largest subtree first.
    fn send_to_all(&self, tile: &Tile) {
        for to in self.spread.iter().rev() {
            self.part.send(self.tl, to, tile);
        }
    }

    /// Combines a chunk of this rank's vector with those of its subtree.
    async fn combined(&self, mut sum: Tile) -> Result<Tile, KernelError> {
        let len = sum.shape().elements();
        for from in &self.gather {
            let received = self.part.recv(self.tl, from, len).await?;
            sum = self.part.combine(self.tl, &sum, &received).await?;
        }
        Ok(sum)
    }

    /// Combines chunks toward the root; the root sends each result back at once.
    async fn reduce(&self) -> Result<(), KernelError> {
        let chunks = self.part.chunks(&(0..self.part.input.len)).map(|chunk| ((), chunk));
        let mut own = self.part.prefetch(self.tl, LoadFrom::Input, chunks);
        while let Some(((), chunk, mine)) = own.next().await? {
            let sum = self.combined(mine).await?;
            if let Some(up) = &self.up {
                self.part.send(self.tl, up, &sum);
            } else {
                let whole = self.part.finish(self.tl, sum).await?;
                self.send_to_all(&whole);
                self.part.store(self.tl, &chunk, &whole);
            }
        }
        Ok(())
    }

    /// Receives each chunk from the parent and sends the chunk to the children.
    async fn broadcast(&self) -> Result<(), KernelError> {
        let Some(down) = &self.down else { return Ok(()) };
        for chunk in self.part.chunks(&(0..self.part.output.len)) {
            let received = self.part.recv(self.tl, down, chunk.len()).await?;
            self.send_to_all(&received);
            self.part.store(self.tl, &chunk, &received);
        }
        Ok(())
    }
}
