//! Waiting for the first message on several edges.

use super::{KernelError, Tl};
use crate::executor::Wait;
use crate::ipcq::{EdgeName, EdgeSpec};
use crate::kernel::program::Program;
use crate::topology::PeId;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A wait for a message on one of several edges; see [`Tl::arrival`].
#[must_use = "does nothing unless awaited"]
pub struct Arrival {
    program: Rc<Program>,
    edges: Vec<u32>,
}

impl Tl {
    /// Waits until a message is there on one of the edges to this PE from these PEs, each with a channel. Returns the index of
    /// the edge whose message arrived first, the lower one of two that arrived together. The message stays for a receiver.
    #[track_caller]
    pub fn arrival(&self, from: &[(PeId, u32)], spec: EdgeSpec) -> Result<Arrival, KernelError> {
        let mut edges = Vec::with_capacity(from.len());
        for (pe, channel) in from {
            let name = EdgeName { from: *pe, to: self.pe(), channel: *channel };
            if let Err(error) = super::messages::check(name, &spec, self.program().world()) {
                return Err(*self.fault(Box::new(error)));
            }
            edges.push(self.program().world().open(name, spec));
        }
        Ok(Arrival { program: self.program().clone(), edges })
    }
}

impl Future for Arrival {
    type Output = usize;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<usize> {
        let Self { program, edges: numbers } = &*self;
        let edges = &mut *program.world().edges.borrow_mut();
        let arrived = numbers.iter().enumerate().filter_map(|(index, number)| {
            edges.list[*number as usize].front().map(|message| (message.arrived, index))
        });
        if let Some((_, index)) = arrived.min() {
            return Poll::Ready(index);
        }
        for number in numbers {
            edges.list[*number as usize].receiver = Some(program.sim().task());
        }
        program.sim().waiting(|| {
            let mut providers = Vec::new();
            for number in numbers {
                let edge = &edges.list[*number as usize];
                let sender = edge.ends.sender_name.clone();
                providers.push(sender.unwrap_or_else(|| edge.name.from.to_string()));
            }
            let what = format!("a message on one of {} edges to {}", numbers.len(), program.pe());
            Wait { what, providers }
        });
        Poll::Pending
    }
}
