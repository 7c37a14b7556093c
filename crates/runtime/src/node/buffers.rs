//! Buffers of a node: their memory, their identity for the engine, and the tasks that may see them.

use super::{Core, Node};
use crate::error::Error;
use crate::memory::Home;
use crate::message::{ArgumentDescriptor, DecodeBuffers, decode_task};
use crate::tensor::{Access, Buffer, Bytes, Tensor};
use phalanx_engine::{Grant, Identity};
use std::sync::Arc;

impl Node {
    /// Allocates a zeroed buffer that the engine knows.
    pub(crate) fn new_buffer(
        &self,
        core: &mut Core,
        bytes: u64,
        home: Home,
    ) -> Result<Buffer, Error> {
        core.release_dropped();
        let offset = core.arena.allocate(bytes)?;
        let (owner, number, generation) = (self.nonce, core.arena.next_number(), 1);
        let identity = Identity { owner, number, generation };
        let id = core.engine.register(identity, bytes, Grant::ReadWrite);
        let id = id.map_err(|error| {
            core.arena.release(offset, bytes);
            Error::Setting(error.to_string())
        })?;
        let dropped = Some(Arc::clone(&core.arena.dropped));
        Ok(Buffer(Arc::new(Bytes {
            id,
            owner,
            number,
            generation,
            memory: 0,
            offset,
            bytes,
            base: 0,
            access: Access::ReadWrite,
            home,
            dropped,
        })))
    }
}

impl Core {
    /// True if a task that a worker has sees bytes of a tensor of this node in place, or will.
    pub(crate) fn may_be_seen(&self, tensor: &Tensor) -> bool {
        let (start, end) = (tensor.offset(), tensor.offset() + tensor.layout().extent);
        let meets = |argument: &ArgumentDescriptor| {
            let its_end = argument.offset.saturating_add(argument.layout.extent);
            argument.memory == 0
                && argument.is_in_place()
                && argument.offset < end
                && start < its_end
        };
        let mut buffers = DecodeBuffers::default();
        let mut flights = self.engine.workers().flat_map(|worker| self.engine.flights(worker));
        flights.any(|flight| {
            let message = self.jobs[flight.task.slot()].message(flight.member);
            decode_task(message, &mut buffers).is_ok_and(|task| {
                task.arguments.iter().any(|argument| meets(&argument) && !task.is_shared(&argument))
            })
        })
    }
}
