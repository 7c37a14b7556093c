//! Descriptors that a process was started with.
//!
//! - **INH-1 (own copy).** The caller gets a descriptor of its own; neither it nor the inherited one is inherited
//!   further.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::FdFlags;

/// Returns a copy of the descriptor that this process inherited under a number.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("no descriptor has the number {number}"),
        ));
    }
    // SAFETY: borrowed for this function only; not -1. If the number is not open, the first call says so and nothing
    // is done with it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    Ok(rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn inh_1_a_copy_is_not_inherited_further() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let copy = inherited(reader.as_raw_fd()).expect("open");
        assert_ne!(copy.as_raw_fd(), reader.as_raw_fd(), "INH-1");
        for fd in [&copy, &reader] {
            assert!(rustix::io::fcntl_getfd(fd).expect("open").contains(FdFlags::CLOEXEC), "INH-1");
        }
        assert!(inherited(-1).is_err());
        assert!(inherited(1_000_000).is_err());
    }
}
