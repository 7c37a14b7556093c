//! Trees that share the work: each carries a part of the vector.
//!
//! Every tree has the same root. A rank combines its numbers with those of its children, the child with the lowest number
//! first: `((x[child] + x[next child]) + ...) + x[own]`.

use super::super::algorithm::{Operation, Running};
use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::LoadFrom;
use super::super::streams::{Stream, side_by_side};
use phalanx_sim::kernel::{KernelError, Tile, Tl};
use std::rc::Rc;

/// A tree of ranks: the parent of each, `None` for the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree(pub(super) Vec<Option<usize>>);

impl Tree {
    fn children(&self, rank: usize) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(move |child| self.0[*child] == Some(rank))
    }

    /// The edges from a rank to the root.
    pub(super) fn depth(&self, rank: usize) -> usize {
        std::iter::successors(self.0[rank], |above| self.0[*above]).count()
    }

    /// The child of `above` on the way to `rank`, or `above` itself; `None` if `rank` is elsewhere.
    fn branch(&self, above: usize, rank: usize) -> Option<usize> {
        let mut below = rank;
        for at in std::iter::successors(Some(rank), |at| self.0[*at]) {
            if at == above {
                return Some(below);
            }
            below = at;
        }
        None
    }

    /// The ranks at and below a rank, the deepest first, each with the branch that it is on.
    fn below(&self, rank: usize) -> Vec<(usize, usize)> {
        let on_branch = |other: usize| Some((other, self.branch(rank, other)?));
        let mut below: Vec<(usize, usize)> = (0..self.0.len()).filter_map(on_branch).collect();
        below.sort_by_key(|(other, _)| std::cmp::Reverse(self.depth(*other)));
        below
    }

    /// The queues that a rank receives from, at most: from its parent and from its children.
    fn receivers(&self) -> usize {
        let children = (0..self.0.len()).map(|rank| self.children(rank).count());
        children.max().unwrap_or(0) + 1
    }
}

/// Runs one rank's part of an operation over all trees.
pub(super) async fn run(part: &Part, tl: &Tl, trees: Vec<Tree>) -> Result<(), KernelError> {
    let receivers = trees.iter().map(Tree::receivers).sum();
    let streams = trees.len();
    let part_of = |index| {
        let stream = Stream { index, streams, receivers };
        part.stream(tl, stream, &(index..index + 1), streams)
    };
    run_on((0..streams).map(part_of), tl, trees).await
}

/// As [`run`], each tree with its part, over the queues of that.
pub(super) async fn run_on(
    parts: impl Iterator<Item = Part>,
    tl: &Tl,
    trees: Vec<Tree>,
) -> Result<(), KernelError> {
    let mut running = Vec::new();
    for (part, tree) in parts.zip(trees) {
        let node = Rc::new(Node::open(part, tl.clone(), tree)?);
        running.extend(node.streams());
    }
    side_by_side(running).await
}

/// A rank in a tree, with its queues.
struct Node {
    part: Part,
    tl: Tl,
    tree: Tree,
    /// Queues to and from the parent; `None` where the operation has none.
    up: Option<SendQueue>,
    down: Option<RecvQueue>,
    /// Queues from and to the children.
    gather: Vec<(usize, RecvQueue)>,
    spread: Vec<(usize, SendQueue)>,
}

impl Node {
    fn open(part: Part, tl: Tl, tree: Tree) -> Result<Self, KernelError> {
        let operation = part.operation;
        let spreads = !matches!(operation, Operation::Reduce | Operation::Gather);
        let gathers = !matches!(operation, Operation::Broadcast | Operation::Scatter);
        let parent = tree.0[part.rank];
        let above = |wanted: bool| parent.filter(|_| wanted);
        let up = above(gathers).map(|parent| part.to(&tl, parent, 1)).transpose()?;
        let down = above(spreads).map(|parent| part.from(&tl, parent, 1)).transpose()?;
        let (mut gather, mut spread) = (Vec::new(), Vec::new());
        for child in tree.children(part.rank) {
            if gathers {
                gather.push((child, part.from(&tl, child, 1)?));
            }
            if spreads {
                spread.push((child, part.to(&tl, child, 1)?));
            }
        }
        Ok(Self { part, tl, tree, up, down, gather, spread })
    }

    /// The streams of this rank: up and down, or messages and copies, at the same time.
    fn streams(self: Rc<Self>) -> Vec<Running<'static>> {
        let one =
            |node: Rc<Self>| -> Running<'static> { Box::pin(async move { node.run().await }) };
        let down =
            |node: Rc<Self>| -> Running<'static> { Box::pin(async move { node.receive().await }) };
        let copy =
            |node: Rc<Self>| -> Running<'static> { Box::pin(async move { node.copy_own().await }) };
        match self.part.operation {
            Operation::AllReduce => vec![one(self.clone()), down(self)],
            Operation::Scatter | Operation::Gather => vec![one(self.clone()), copy(self)],
            _ => vec![one(self)],
        }
    }

    async fn run(&self) -> Result<(), KernelError> {
        match self.part.operation {
            Operation::Scatter => self.scatter().await,
            Operation::Gather => self.gather().await,
            operation if operation.combines() => self.reduce().await,
            _ if self.tree.0[self.part.rank].is_none() => self.send_all().await,
            _ => self.receive().await,
        }
    }

    fn send_to_all(&self, tile: &Tile) {
        for (_, to) in &self.spread {
            self.part.send(&self.tl, to, tile);
        }
    }

    /// Sends the root's vector to its children, and stores it as fast as the memory allows without keeping messages waiting.
    async fn send_all(&self) -> Result<(), KernelError> {
        let mut storing = Vec::new();
        let chunks = self.part.chunks(&(0..self.part.input.len)).map(|chunk| ((), chunk));
        let mut own = self.part.prefetch(&self.tl, LoadFrom::Input, chunks);
        while let Some(((), chunk, mine)) = own.next().await? {
            self.send_to_all(&mine);
            if !self.part.is_in_place() {
                self.part.store_after(&self.tl, &chunk, &mine, &mut storing).await?;
            }
        }
        Ok(())
    }

    /// Combines chunks toward the root, which sends each result back at once if all ranks want it.
    async fn reduce(&self) -> Result<(), KernelError> {
        let (part, tl) = (&self.part, &self.tl);
        let chunks = part.chunks(&(0..part.input.len)).map(|chunk| ((), chunk));
        let mut own = part.prefetch(tl, LoadFrom::Input, chunks);
        while let Some(((), chunk, mine)) = own.next().await? {
            let mut sum = None;
            for (_, from) in &self.gather {
                let received = part.recv(tl, from, chunk.len()).await?;
                sum = Some(match sum {
                    None => received,
                    Some(sum) => part.combine(tl, &sum, &received).await?,
                });
            }
            let sum = match sum {
                None => mine,
                Some(sum) => part.combine(tl, &sum, &mine).await?,
            };
            if let Some(up) = &self.up {
                part.send(tl, up, &sum);
                continue;
            }
            let whole = part.finish(tl, sum).await?;
            self.send_to_all(&whole);
            part.store(tl, &chunk, &whole);
        }
        Ok(())
    }

    /// Receives each chunk from the parent, sends it to the children, and stores it.
    async fn receive(&self) -> Result<(), KernelError> {
        let Some(down) = &self.down else { return Ok(()) };
        for chunk in self.part.chunks(&(0..self.part.output.len)) {
            let received = self.part.recv(&self.tl, down, chunk.len()).await?;
            self.send_to_all(&received);
            self.part.store(&self.tl, &chunk, &received);
        }
        Ok(())
    }

    /// Copies the root's own segment, beside the messages.
    async fn copy_own(&self) -> Result<(), KernelError> {
        let (part, tl) = (&self.part, &self.tl);
        if self.tree.0[part.rank].is_some() {
            return Ok(());
        }
        let within =
            |len: usize, own: usize| if len == own { 0..len } else { part.segment(len, part.rank) };
        let own = part.input.len.min(part.output.len);
        part.copy(tl, &within(part.input.len, own), &within(part.output.len, own)).await
    }

    /// Passes segments on to the branches of their ranks, the deepest rank first.
    async fn scatter(&self) -> Result<(), KernelError> {
        let (part, tl, own) = (&self.part, &self.tl, self.part.rank);
        for (rank, branch) in self.tree.below(own) {
            let child = self.spread.iter().find(|(child, _)| *child == branch);
            match (&self.down, child) {
                (None, Some((_, to))) => {
                    let theirs = part.segment(part.input.len, rank);
                    part.send_all(tl, to, LoadFrom::Input, &theirs).await?;
                }
                (None, None) => {}
                (Some(down), _) => {
                    for chunk in part.chunks(&(0..part.output.len)) {
                        let received = part.recv(tl, down, chunk.len()).await?;
                        match child {
                            Some((_, to)) => part.send(tl, to, &received),
                            None => part.store(tl, &chunk, &received),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Passes segments on toward the root, the deepest rank last.
    async fn gather(&self) -> Result<(), KernelError> {
        let (part, tl, own) = (&self.part, &self.tl, self.part.rank);
        for (rank, branch) in self.tree.below(own).into_iter().rev() {
            let child = self.gather.iter().find(|(child, _)| *child == branch);
            match (child, &self.up) {
                (None, None) => {}
                (None, Some(up)) => {
                    let mine = 0..part.input.len;
                    part.send_all(tl, up, LoadFrom::Input, &mine).await?;
                }
                (Some((_, from)), None) => {
                    for chunk in part.chunks(&part.segment(part.output.len, rank)) {
                        let received = part.recv(tl, from, chunk.len()).await?;
                        part.store(tl, &chunk, &received);
                    }
                }
                (Some((_, from)), Some(up)) => {
                    for chunk in part.chunks(&(0..part.input.len)) {
                        let received = part.recv(tl, from, chunk.len()).await?;
                        part.send(tl, up, &received);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_knows_its_branches() {
        // 2 is the root of 0 and 3; 1 and 4 are below 0.
        let tree = Tree(vec![Some(2), Some(0), None, Some(2), Some(0)]);
        assert_eq!(tree.children(2).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(tree.depth(4), 2);
        assert_eq!(tree.branch(2, 4), Some(0));
        assert_eq!(tree.branch(3, 4), None);
        assert_eq!(tree.below(2), [(1, 0), (4, 0), (0, 0), (3, 3), (2, 2)]);
        assert_eq!(tree.below(0), [(1, 1), (4, 4), (0, 0)]);
        assert_eq!(tree.receivers(), 3);
    }
}
