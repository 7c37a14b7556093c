//! A one-shot event: set once, seen by every process that waits then or later.
//!
//! - **SIG-1 (once).** Setting a signal twice is a bug and panics; waiting on a set signal returns at once.

use crate::executor::{Sim, Wait};
use crate::wait_queue::{Ticket, WaitQueue};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A one-shot event that carries a value.
pub struct Signal<T>(Rc<State<T>>);

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct State<T> {
    sim: Sim,
    /// The condition and the processes that could set it, for messages: words are made when somebody reads them.
    explain: Box<dyn Fn() -> Wait>,
    value: RefCell<Option<T>>,
    waiters: WaitQueue,
}

impl<T: Clone> Signal<T> {
    /// Creates a signal that is not set; `provider` names the process that will set it.
    pub fn new(sim: &Sim, name: impl Into<String>, provider: impl Into<String>) -> Self {
        let what = format!("`{}` to be set", name.into());
        Self::described(sim, what, vec![provider.into()])
    }

    /// Creates a signal with a description of the condition and all processes that could set it.
    pub fn described(sim: &Sim, what: impl Into<String>, providers: Vec<String>) -> Self {
        let what = what.into();
        Self::explained(sim, move || Wait { what: what.clone(), providers: providers.clone() })
    }

    /// Creates a signal whose condition, and the processes that could set it, are put into words when they are asked for.
    pub fn explained(sim: &Sim, explain: impl Fn() -> Wait + 'static) -> Self {
        Self(Rc::new(State {
            sim: sim.clone(),
            explain: Box::new(explain),
            value: RefCell::new(None),
            waiters: WaitQueue::default(),
        }))
    }

    /// Sets the signal and resumes all waiting processes.
    pub fn set(&self, value: T) {
        let before = self.0.value.replace(Some(value));
        assert!(before.is_none(), "SIG-1: set twice: {}", (self.0.explain)().what);
        self.0.waiters.wake_all(&self.0.sim);
    }

    /// True if the signal is set.
    pub fn is_set(&self) -> bool {
        self.0.value.borrow().is_some()
    }

    /// Waits until the signal is set.
    pub fn wait(&self) -> WaitFor<T> {
        WaitFor { state: self.0.clone(), ticket: Ticket::default() }
    }
}

/// A wait for a [`Signal`].
#[must_use = "does nothing unless awaited"]
pub struct WaitFor<T> {
    state: Rc<State<T>>,
    ticket: Ticket,
}

impl<T: Clone> Future for WaitFor<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        if let Some(value) = &*this.state.value.borrow() {
            return Poll::Ready(value.clone());
        }
        let state = &*this.state;
        state.waiters.join(&mut this.ticket, state.sim.task());
        state.sim.waiting(|| (state.explain)());
        Poll::Pending
    }
}

impl<T> Drop for WaitFor<T> {
    fn drop(&mut self) {
        self.state.waiters.leave(&mut self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Executor, Partition};
    use crate::time::Time;

    #[test]
    fn sig_1_everybody_sees_it_once_set() {
        let mut executor = Executor::new(1);
        let signal = Signal::new(&executor.sim(), "go", "starter");
        let waiters: Vec<_> = (0..3)
            .map(|n| {
                let (sim, signal) = (executor.sim(), signal.clone());
                executor.spawn(Partition(0), format!("w{n}"), async move {
                    sim.sleep(Time::ns(n * 4)).await;
                    (signal.wait().await, sim.now())
                })
            })
            .collect();
        let sim = executor.sim();
        executor
            .spawn(Partition(0), "starter", async move {
                sim.sleep(Time::ns(5)).await;
                signal.set(9);
            })
            .detach();
        executor.run(|| false).unwrap();
        let seen: Vec<_> = waiters.iter().filter_map(crate::executor::JoinHandle::take).collect();
        assert_eq!(seen, [(9, Time::ns(5)), (9, Time::ns(5)), (9, Time::ns(8))]);
    }

    #[test]
    #[should_panic(expected = "SIG-1")]
    fn sig_1_setting_twice_is_a_bug() {
        let signal = Signal::new(&Executor::new(1).sim(), "go", "starter");
        signal.set(1);
        signal.set(2);
    }
}
