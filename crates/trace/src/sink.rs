//! Bytes gathered into large blocks on their way out.
//!
//! - **TRC-5 (no silent loss).** A device that fails makes the call that met it fail, and every call
//!   after it: a trace with a hole is never finished as if it were whole.

use std::io::{self, Write};

/// Large enough that a system call costs nothing per slice, small enough to stay in cache.
const BLOCK: usize = 128 * 1024;

pub(crate) struct Sink<W> {
    out: W,
    buffer: Vec<u8>,
    /// `BLOCK`, and 0 once the device has failed so that every later call takes the slow path.
    limit: usize,
    failed: io::ErrorKind,
}

impl<W: Write> Sink<W> {
    pub(crate) fn new(out: W) -> Self {
        let buffer = Vec::with_capacity(BLOCK + BLOCK / 8);
        Self { out, buffer, limit: BLOCK, failed: io::ErrorKind::Other }
    }

    /// The buffer that encoders append to; nothing reaches the device before [`Sink::settle`].
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer out if it has filled a block.
    #[inline]
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        if self.buffer.len() < self.limit { Ok(()) } else { self.spill() }
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.spill()?;
        self.out.flush()?;
        Ok(self.out)
    }

    #[cold]
    fn spill(&mut self) -> io::Result<()> {
        let written = if self.limit == 0 {
            Err(self.failed.into())
        } else {
            self.out.write_all(&self.buffer)
        };
        self.buffer.clear();
        written.inspect_err(|error| {
            self.limit = 0;
            self.failed = error.kind();
        })
    }
}
