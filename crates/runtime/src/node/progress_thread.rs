//! The thread that drives a node while no caller does.
//!
//! While there is a driver, the progress thread is parked on a lock of its own; otherwise it sleeps on the node's bell like any
//! waiter. The last driver that leaves work under way wakes it. Beside worker threads, which pump the node themselves, it takes in
//! what they kept to themselves (SRV-3), and asks the watchdog.
//!
//! - **PTH-1 (takes over).** While work is under way and there is no driver, the progress thread drives.
//! - **PTH-2 (out of the way).** While there is a driver, the progress thread does not touch the node.

use super::{Node, Outlook};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// State of the progress thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// It drives the node, or is about to look for drivers. The state before its start, too.
    Active,
    /// Sleeper on the bell without work; nobody has told it of any.
    Dozing,
    /// Out of the way of a driver.
    Parked,
}

impl ThreadState {
    fn of(number: u64) -> Self {
        let all = [Self::Active, Self::Dozing, Self::Parked];
        all.into_iter().find(|state| *state as u64 == number).expect("PTH-1: a known state")
    }
}

/// Request to a progress thread that is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    None,
    /// Look for drivers and work.
    Look,
    /// End, and never park again.
    Stop,
}

/// State that the progress thread and the drivers share.
pub(crate) struct ProgressThread {
    /// Number of drivers.
    drivers: AtomicU64,
    /// A [`ThreadState`].
    state: AtomicU64,
    request: Mutex<Request>,
    requested: Condvar,
}

impl ProgressThread {
    pub(super) fn new() -> Self {
        Self {
            drivers: AtomicU64::new(0),
            state: AtomicU64::new(ThreadState::Active as u64),
            request: Mutex::new(Request::None),
            requested: Condvar::default(),
        }
    }

    /// Sets the state; only the progress thread does.
    pub(super) fn set_state(&self, state: ThreadState) {
        self.state.store(state as u64, Ordering::SeqCst);
    }

    /// True if there is a driver.
    #[inline]
    pub(super) fn has_drivers(&self) -> bool {
        self.drivers.load(Ordering::SeqCst) > 0
    }

    /// Counts one more driver.
    #[inline]
    pub(super) fn add_driver(&self) {
        self.drivers.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one driver less; true if it was the last.
    #[inline]
    pub(super) fn remove_driver(&self) -> bool {
        // SYNC: PTH-1: the count is before the look at the state; pairs with `park`.
        self.drivers.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Wakes the progress thread if it is parked; returns its state.
    pub(super) fn wake_if_parked(&self) -> ThreadState {
        let state = ThreadState::of(self.state.load(Ordering::SeqCst));
        if state == ThreadState::Parked {
            self.request(Request::Look);
        }
        state
    }

    /// Makes the progress thread end, whatever its state.
    pub(super) fn stop(&self) {
        self.request(Request::Stop);
    }

    fn request(&self, next: Request) {
        let mut request = self.request.lock();
        if *request != Request::Stop {
            *request = next;
        }
        self.requested.notify_one();
    }

    /// Parks until requested; returns at once if there is no driver.
    pub(super) fn park(&self) {
        let mut request = self.request.lock();
        // SYNC: PTH-1: the state is before the look at the drivers; pairs with `remove_driver`, which looks the other way round.
        self.set_state(ThreadState::Parked);
        while *request == Request::None && self.has_drivers() {
            request = self.requested.wait(request);
        }
        if *request == Request::Look {
            *request = Request::None;
        }
        self.set_state(ThreadState::Active);
    }
}

impl Node {
    /// Wakes all drivers and the progress thread, for something that no worker will ring for.
    pub(crate) fn wake_drivers(&self) {
        self.announce();
        self.progress.thread.wake_if_parked();
    }

    /// Starts the progress thread.
    pub(crate) fn start_progress_thread(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let node = Arc::clone(self);
        let builder = thread::Builder::new().name("phalanx-progress".into());
        builder.spawn(move || {
            let waiting = node.background_policy();
            let sleep = |outlook: Outlook, has_reason: &dyn Fn(_) -> bool| {
                node.sleep_until(waiting, &outlook, has_reason);
            };
            node.progress.run_thread(|core| node.judge(core), sleep);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn pth_2_the_progress_thread_is_parked_until_it_is_woken() {
        let progress = ProgressThread::new();
        assert_eq!(progress.wake_if_parked(), ThreadState::Active);
        // Without a driver it does not park.
        progress.park();
        progress.add_driver();
        for _ in 0..200 {
            let is_back = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    progress.park();
                    is_back.store(true, Ordering::SeqCst);
                });
                while progress.state.load(Ordering::SeqCst) != ThreadState::Parked as u64 {
                    thread::yield_now();
                }
                assert!(!is_back.load(Ordering::SeqCst), "PTH-2: there is a driver");
                assert_eq!(progress.wake_if_parked(), ThreadState::Parked);
            });
            assert!(is_back.load(Ordering::SeqCst));
        }
        // Once stopped it never parks again, whether or not it was parked.
        progress.stop();
        progress.wake_if_parked();
        progress.park();
        progress.park();
    }
}
