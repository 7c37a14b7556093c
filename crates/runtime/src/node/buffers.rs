//! Memory for buffers: where it is, and who the engine knows it by.

use super::{Core, Node};
use crate::error::Error;
use crate::memory::Home;
use crate::tensor::{Access, Buffer, Bytes};
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
