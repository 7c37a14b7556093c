//! Notice of a death, either way, without asking again and again.
//!
//! A small thread of the child holds a word of shared memory in its list of robust locks, and reads from a pipe whose
//! other end is with the parent. If the child dies, the kernel marks the word and wakes who sleeps on it, before it tears
//! the memory down: an early notice, *not* yet proof that no thread of the child runs (that is the exit of the process).
//! If the parent dies, the pipe ends.
//!
//! - **SNT-1 (child).** However the child ends, its word says so, and who sleeps on the word is woken.
//! - **SNT-2 (parent).** However the parent ends, the child's `on_orphan` is called, once.
//! - **SNT-3 (standing).** When `stand` has returned, the watch is on.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;

use super::segment::Segment;
use crate::sync::{Ordering, shared::AtomicU32};

/// Stack of the thread; `on_orphan` runs on it too.
const STACK: usize = 64 << 10;

/// The watch of a child; lasts as long as the process.
#[derive(Debug)]
pub struct Sentinel {
    _private: (),
}

/// True if the owner of a robust word that holds this has died.
pub fn is_dead(word: u32) -> bool {
    word & libc::FUTEX_OWNER_DIED != 0
}

impl Sentinel {
    /// Starts the watch: the robust word is at `offset` of `segment`, `parent_pipe` ends with the parent, and then
    /// `on_orphan` is called, on a small stack.
    pub fn stand(
        segment: &Segment,
        offset: usize,
        parent_pipe: OwnedFd,
        on_orphan: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        segment.word32(offset).map_err(io::Error::other)?;
        let segment = segment.clone();
        let (tell, told) = mpsc::channel();
        let watch = move || {
            let held = segment.word32(offset).map_err(io::Error::other).and_then(hold);
            let stands = held.is_ok();
            if tell.send(held).is_ok() && stands {
                read_to_end(&parent_pipe);
                on_orphan();
            }
            // The word must stay where the kernel looks for it, also after this thread.
            std::mem::forget(segment);
        };
        thread::Builder::new().name("phalanx-sentinel".into()).stack_size(STACK).spawn(watch)?;
        told.recv().map_err(io::Error::other)??;
        Ok(Self { _private: () })
    }
}

/// Blocks until nobody can write to the pipe any more.
fn read_to_end(pipe: &OwnedFd) {
    let mut buffer = [0_u8; 16];
    loop {
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // A descriptor that cannot be read watches nobody: better to leave than to stay an orphan.
            Err(_) => return,
        }
    }
}

/// A robust lock, as the kernel sees it (`struct robust_list`).
#[repr(C)]
struct Link {
    next: *const Link,
}

/// The robust locks of a thread, as the kernel sees them (`struct robust_list_head`).
#[repr(C)]
struct Head {
    list: Link,
    /// From a link to its word.
    futex_offset: libc::c_long,
    pending: *const Link,
    /// The only link, beside its head; its word is in shared memory.
    link: Link,
}

/// Bytes of the kernel's `struct robust_list_head`.
const HEAD_BYTES: usize = std::mem::offset_of!(Head, link);
const _: () = assert!(HEAD_BYTES == 3 * size_of::<usize>());

/// Holds `word` as a robust lock of this thread.
#[expect(clippy::cast_possible_wrap, reason = "the kernel adds it again")]
fn hold(word: &AtomicU32) -> io::Result<()> {
    let thread =
        u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).map_err(io::Error::other)?;
    let null = std::ptr::null();
    // Never freed: the kernel walks it when the thread ends, which nobody can wait for.
    let head = Box::into_raw(Box::new(Head {
        list: Link { next: null },
        futex_offset: 0,
        pending: null,
        link: Link { next: null },
    }));
    // SAFETY: `head` was just allocated, is ours alone and never freed. The list is circular, from the head to its one
    // link and back, as the kernel's `robust_list` asks; link plus offset is `word`, which the caller keeps mapped.
    let registered = unsafe {
        (*head).list.next = &raw const (*head).link;
        (*head).link.next = &raw const (*head).list;
        (*head).futex_offset =
            (word.as_ptr() as usize).wrapping_sub(&raw const (*head).link as usize) as libc::c_long;
        libc::syscall(libc::SYS_set_robust_list, head, HEAD_BYTES)
    };
    if registered != 0 {
        return Err(io::Error::last_os_error());
    }
    // SYNC: pairs with the loads of who watches. That somebody waits is always said, so that the kernel always wakes.
    word.store(thread | libc::FUTEX_WAITERS, Ordering::Release);
    Ok(())
}
