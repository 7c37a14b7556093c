//! Operations that were issued and are not over.

use super::op::{Op, QueueEnd, Slot};
use super::running::{QueueState, Running};
use phalanx_sim::kernel::{Computing, KernelError, Loading, Receiving, Sending, Storing, Tile};
use phalanx_sim::value::Atomic;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An issued operation; its tiles get their numbers when it is over.
pub(crate) enum Ongoing {
    Over,
    Tile(Slot, Computing),
    Pair([Slot; 2], Loading<(Tile, Tile)>),
    Store(Storing),
    Send(Sending),
    Recv(Slot, Receiving),
    /// A receive of a collective.
    Part(Slot, Pin<Box<dyn Future<Output = Result<Tile, KernelError>>>>),
    /// The wait for an issued operation.
    Wait(Slot),
    Other(Pin<Box<dyn Future<Output = ()>>>),
}

impl Running {
    /// Issues an operation.
    pub(crate) fn issue(&self, op: &Op) -> Result<Ongoing, KernelError> {
        let (tl, tiles) = (&self.tl, &self.tiles);
        Ok(match op {
            Op::Load { to, from, other } => {
                Ongoing::Tile(*to, tl.load_or(&self.view(from), *other))
            }
            Op::LoadPair { to, from } => {
                let [left, right] = &**from;
                Ongoing::Pair(*to, tl.load_pair(&self.view(left), &self.view(right)))
            }
            Op::Store { to, tile } => {
                Ongoing::Store(tl.store(&self.view(to), tiles.borrow().get(*tile)?))
            }
            Op::Binary { to, op, left, right } => {
                let tiles = tiles.borrow();
                Ongoing::Tile(*to, tl.binary(*op, tiles.get(*left)?, tiles.get(*right)?))
            }
            Op::Compare { to, op, left, right } => {
                let tiles = tiles.borrow();
                Ongoing::Tile(*to, tl.compare(*op, tiles.get(*left)?, tiles.get(*right)?))
            }
            Op::Select { to, condition, left, right } => {
                let tiles = tiles.borrow();
                let [condition, left, right] =
                    [condition, left, right].map(|slot| tiles.get(*slot));
                Ongoing::Tile(*to, tl.select(condition?, left?, right?))
            }
            Op::Unary { to, op, tile } => {
                Ongoing::Tile(*to, tl.unary(*op, tiles.borrow().get(*tile)?))
            }
            Op::Cast { to, tile, dtype } => {
                Ongoing::Tile(*to, tl.cast(tiles.borrow().get(*tile)?, *dtype))
            }
            Op::Reduce { to, op, tile, axis } => {
                Ongoing::Tile(*to, tl.reduce(*op, tiles.borrow().get(*tile)?, *axis))
            }
            Op::Dot { to, left, right, accumulator } => {
                let tiles = tiles.borrow();
                let sum = accumulator.map(|slot| tiles.get(slot)).transpose()?;
                Ongoing::Tile(*to, tl.dot(tiles.get(*left)?, tiles.get(*right)?, sum))
            }
            Op::Whole { .. } | Op::Split { .. } | Op::LoadAt { .. } | Op::StoreAt { .. } => {
                return self.issue_whole(op);
            }
            Op::Atomic { .. } => return self.issue_whole(op),
            _ => return self.issue_other(op),
        })
    }

    /// Issues an operation on whole tiles, or at a list of places.
    fn issue_whole(&self, op: &Op) -> Result<Ongoing, KernelError> {
        let (tl, tiles) = (&self.tl, &self.tiles);
        Ok(match op {
            Op::Whole { to, call, tiles: slots } => {
                let tiles = tiles.borrow();
                let operands = slots.iter().map(|slot| tiles.get(*slot));
                let operands = operands.collect::<Result<Vec<_>, _>>()?;
                Ongoing::Tile(*to, call.issue(tl, &operands)?)
            }
            Op::Split { to, tile } => Ongoing::Pair(*to, tl.split(tiles.borrow().get(*tile)?)),
            Op::LoadAt { to, from, other } => {
                Ongoing::Tile(*to, tl.load_at(&from.places(self)?, *other))
            }
            Op::StoreAt { to, tile } => {
                let places = to.places(self)?;
                Ongoing::Store(tl.store_at(&places, tiles.borrow().get(*tile)?))
            }
            Op::Atomic { to, op, at, tiles: slots } => {
                let (places, tiles) = (at.places(self)?, tiles.borrow());
                Ongoing::Tile(
                    *to,
                    match (&**slots, op) {
                        ([expected, new], Atomic::CompareAndSwap) => {
                            tl.atomic_cas(&places, tiles.get(*expected)?, tiles.get(*new)?)
                        }
                        ([operand], _) => tl.atomic(*op, &places, tiles.get(*operand)?),
                        _ => return Err(KernelError::Other(format!("{}: operands", op.name()))),
                    },
                )
            }
            _ => return self.issue_other(op),
        })
    }

    /// Issues an operation that nobody waits for yet.
    pub(crate) fn begin(&self, issued: Slot, op: &Op) -> Result<(), KernelError> {
        let ongoing = self.issue(op)?;
        self.issued.borrow_mut().put(issued, ongoing);
        Ok(())
    }

    /// Issues an operation that is not one of the engines or of the DMA.
    fn issue_other(&self, op: &Op) -> Result<Ongoing, KernelError> {
        let tl = self.tl.clone();
        match op {
            Op::Full { to, of, number } => {
                let tile = tl.full(of.0, of.1, *number)?;
                self.tiles.borrow_mut().put(*to, tile);
            }
            Op::Reshape { tile, shape } => self.reshape(*tile, *shape)?,
            Op::Compute(span) => {
                let span = *span;
                return Ok(Ongoing::Other(Box::pin(async move { tl.compute(span).await })));
            }
            Op::Barrier => return Ok(Ongoing::Other(Box::pin(async move { tl.barrier().await }))),
            Op::Send { queue, tile } => {
                let (queues, tiles) = (self.queues.borrow(), self.tiles.borrow());
                let QueueState::Sender(sender) = queues.get(*queue)? else {
                    return Err(KernelError::Other(
                        "send: the queue is one to receive from".into(),
                    ));
                };
                return Ok(Ongoing::Send(tl.send(sender, tiles.get(*tile)?)));
            }
            Op::Recv { to, queue, dtype, shape } => {
                let queues = self.queues.borrow();
                return match queues.get(*queue)? {
                    QueueState::Receiver(receiver) => {
                        Ok(Ongoing::Recv(*to, tl.recv(receiver, *dtype, *shape)))
                    }
                    QueueState::Part(ends) => {
                        let (ends, shape) = (ends.clone(), *shape);
                        let received = async move {
                            let tile = ends.0.recv(&tl, &ends.1, shape.elements()).await?;
                            tile.reshape(shape)
                        };
                        Ok(Ongoing::Part(*to, Box::pin(received)))
                    }
                    QueueState::Sender(_) => {
                        Err(KernelError::Other("recv: the queue is one to send to".into()))
                    }
                };
            }
            Op::Open { .. } => self.open(op)?,
            Op::OpenRange { range, name } => {
                self.ranges.borrow_mut().put(*range, tl.range(&**name));
            }
            Op::Wait { issued } => return Ok(Ongoing::Wait(*issued)),
            _ => self.drop_now(op),
        }
        Ok(Ongoing::Over)
    }

    fn reshape(&self, slot: Slot, shape: phalanx_sim::kernel::Shape) -> Result<(), KernelError> {
        let tile = self.tiles.borrow_mut().take(slot);
        let tile =
            tile.ok_or_else(|| KernelError::Other("reshape of a tile that is gone".into()))?;
        let tile = tile.reshape(shape)?;
        self.tiles.borrow_mut().put(slot, tile);
        Ok(())
    }

    fn open(&self, op: &Op) -> Result<(), KernelError> {
        let Op::Open { queue, end, pe, channel, spec } = op else { return Ok(()) };
        let state = match end {
            QueueEnd::Sender => QueueState::Sender(self.tl.sender_on(*pe, *channel, **spec)?),
            QueueEnd::Receiver => QueueState::Receiver(self.tl.receiver_on(*pe, *channel, **spec)?),
        };
        self.queues.borrow_mut().put(*queue, state);
        Ok(())
    }
}

impl Ongoing {
    /// Polls the operation; when it is over, its tiles have their numbers.
    pub(crate) fn poll(
        &mut self,
        running: &Running,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), KernelError>> {
        let put = |slot: Slot, tile: Tile| running.tiles.borrow_mut().put(slot, tile);
        match self {
            Self::Over => Poll::Ready(Ok(())),
            Self::Tile(to, computing) => {
                let made = std::task::ready!(Pin::new(computing).poll(context));
                Poll::Ready(made.map(|tile| put(*to, tile)))
            }
            Self::Pair(to, loading) => {
                let made = std::task::ready!(Pin::new(loading).poll(context));
                Poll::Ready(made.map(|(left, right)| {
                    put(to[0], left);
                    put(to[1], right);
                }))
            }
            Self::Store(storing) => Pin::new(storing).poll(context),
            Self::Send(sending) => Pin::new(sending).poll(context).map(Ok),
            Self::Recv(to, receiving) => {
                let made = std::task::ready!(Pin::new(receiving).poll(context));
                Poll::Ready(made.map(|tile| put(*to, tile)))
            }
            Self::Part(to, receiving) => {
                let made = std::task::ready!(receiving.as_mut().poll(context));
                Poll::Ready(made.map(|tile| put(*to, tile)))
            }
            Self::Wait(issued) => {
                let Some(mut ongoing) = running.issued.borrow_mut().take(*issued) else {
                    return Poll::Ready(Ok(()));
                };
                let polled = ongoing.poll(running, context);
                if polled.is_pending() {
                    running.issued.borrow_mut().put(*issued, ongoing);
                }
                polled
            }
            Self::Other(future) => future.as_mut().poll(context).map(Ok),
        }
    }
}
