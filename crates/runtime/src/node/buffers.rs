//! Memory for buffers: where it is, who the engine knows it by, and who may be looking at it.

use super::{Core, Node};
use crate::error::Error;
use crate::memory::Home;
use crate::message::{Parts, Place, decode_task};
use crate::tensor::{Access, Buffer, Bytes, Tensor};
use phalanx_engine::{Grant, Identity};
use std::sync::Arc;

impl Node {
    /// Zeroed memory that the engine knows.
    pub(crate) fn new_buffer(
        &self,
        core: &mut Core,
        bytes: u64,
        home: Home,
    ) -> Result<Buffer, Error> {
        core.release_dropped();
        let offset = core.memory.allocate(bytes)?;
        core.last_buffer += 1;
        let (owner, number, generation) = (self.nonce, core.last_buffer, 1);
        let identity = Identity { owner, number, generation };
        let id = core.engine.register(identity, bytes, Grant::ReadWrite);
        let id = id.map_err(|error| {
            core.memory.release(offset, bytes);
            Error::Setting(error.to_string())
        })?;
        let dropped = Some(Arc::clone(&core.memory.dropped));
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
    /// Whether a task that is with a worker sees bytes of a tensor of this node in place, or will.
    pub(crate) fn may_be_seen(&self, tensor: &Tensor) -> bool {
        let (start, end) = (tensor.offset(), tensor.offset() + tensor.layout().extent);
        let meets = |place: &Place| {
            let its_end = place.offset.saturating_add(place.layout.extent);
            place.memory == 0 && place.is_in_place() && place.offset < end && start < its_end
        };
        let mut parts = Parts::default();
        let mut flights = self.engine.workers().flat_map(|worker| self.engine.flights(worker));
        flights.any(|flight| {
            let message = self.jobs[flight.task.slot()].message(flight.member);
            decode_task(message, &mut parts).is_ok_and(|task| {
                task.places.iter().any(|place| meets(&place) && !task.is_shared(&place))
            })
        })
    }
}
