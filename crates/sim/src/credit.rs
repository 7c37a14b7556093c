//! Credits: a counter that processes take from and give back to, and a semaphore over it.
//!
//! - **CRD-1 (conserved).** Credits taken plus credits at home always equal the total: giving more than was taken
//!   panics.
//! - **CRD-2 (fair).** Requests are served in the order of arrival, even if a later request is for fewer credits.

use crate::executor::{Sim, TaskId, Wait};
use crate::wait_queue::{Ticket, WaitQueue};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A counter of credits.
#[derive(Clone)]
pub(crate) struct Credits(Rc<State>);

struct State {
    sim: Sim,
    name: String,
    total: u64,
    home: Cell<u64>,
    waiters: WaitQueue,
    takers: RefCell<Vec<TaskId>>,
}

impl Credits {
    /// Creates `total` credits, all at home.
    pub(crate) fn new(sim: &Sim, name: impl Into<String>, total: u64) -> Self {
        Self(Rc::new(State {
            sim: sim.clone(),
            name: name.into(),
            total,
            home: Cell::new(total),
            waiters: WaitQueue::default(),
            takers: RefCell::default(),
        }))
    }

    /// Takes `count` credits, and waits until they are at home.
    ///
    /// # Panics
    ///
    /// If `count` is larger than the total: the wait would never end.
    pub(crate) fn take(&self, count: u64) -> Take {
        assert!(
            count <= self.0.total,
            "CRD-1: {count} of the {} credits of `{}`",
            self.0.total,
            self.0.name
        );
        Take { state: self.0.clone(), count, ticket: Ticket::default() }
    }

    /// Gives `count` credits back.
    pub(crate) fn give(&self, count: u64) {
        self.0.give(count);
    }
}

impl State {
    fn give(&self, count: u64) {
        let home = self.home.get() + count;
        assert!(home <= self.total, "CRD-1: `{}` has {home} of {} credits", self.name, self.total);
        self.home.set(home);
        self.takers.borrow_mut().retain(|task| *task != self.sim.task());
        self.waiters.wake_first(&self.sim);
    }

    fn describe(&self, count: u64) -> Wait {
        let what =
            format!("{count} of `{}` ({} of {} at home)", self.name, self.home.get(), self.total);
        let providers =
            self.takers.borrow().iter().filter_map(|task| self.sim.name_of(*task)).collect();
        Wait { what, providers }
    }
}

/// A wait for credits; see [`Credits::take`].
#[must_use = "does nothing unless awaited"]
pub(crate) struct Take {
    state: Rc<State>,
    count: u64,
    ticket: Ticket,
}

impl Future for Take {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let state = &*this.state;
        if state.waiters.is_first(&this.ticket) && state.home.get() >= this.count {
            state.waiters.leave(&mut this.ticket);
            state.home.set(state.home.get() - this.count);
            state.takers.borrow_mut().push(state.sim.task());
            state.waiters.wake_first(&state.sim);
            return Poll::Ready(());
        }
        state.waiters.join(&mut this.ticket, state.sim.task());
        state.sim.waiting(|| state.describe(this.count));
        Poll::Pending
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        self.state.waiters.give_up(&mut self.ticket, &self.state.sim);
    }
}

/// A semaphore with a fixed number of permits, first come, first served.
#[derive(Clone)]
pub(crate) struct Semaphore(Credits);

impl Semaphore {
    /// Creates a semaphore with `permits` permits.
    pub(crate) fn new(sim: &Sim, name: impl Into<String>, permits: u64) -> Self {
        Self(Credits::new(sim, name, permits))
    }

    /// Waits for a permit, which returns when the guard is dropped.
    pub(crate) async fn acquire(&self) -> Permit {
        self.0.take(1).await;
        Permit(self.0.clone())
    }
}

/// A permit of a [`Semaphore`].
#[must_use = "the permit returns when this is dropped"]
pub(crate) struct Permit(Credits);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.give(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Executor, Partition};
    use crate::time::Time;

    #[test]
    #[should_panic(expected = "CRD-1")]
    fn crd_1_nobody_can_give_what_was_not_taken() {
        Credits::new(&Executor::new(1).sim(), "slots", 2).give(1);
    }

    #[test]
    fn crd_2_wq_1_a_small_request_does_not_overtake_a_large_one() {
        let mut executor = Executor::new(1);
        let credits = Credits::new(&executor.sim(), "slots", 4);
        let order = Rc::new(RefCell::new(Vec::new()));
        for (index, count) in [3, 4, 1].into_iter().enumerate() {
            let (sim, credits, order) = (executor.sim(), credits.clone(), order.clone());
            executor
                .spawn(Partition(0), format!("p{index}"), async move {
                    credits.take(count).await;
                    order.borrow_mut().push(index);
                    sim.sleep(Time::ns(10)).await;
                    credits.give(count);
                })
                .detach();
        }
        executor.run(|| false).unwrap();
        assert_eq!(*order.borrow(), [0, 1, 2], "CRD-2");
        assert_eq!(credits.0.home.get(), 4);
    }

    #[test]
    fn wq_2_giving_up_lets_the_next_one_pass() {
        let mut executor = Executor::new(1);
        let engine = Semaphore::new(&executor.sim(), "engine", 1);
        let (sim, other) = (executor.sim(), engine.clone());
        let handle = executor.spawn(Partition(0), "main", async move {
            let permit = other.acquire().await;
            let (a, b) = (other.clone(), other.clone());
            let first = sim.spawn("first", async move { drop(a.acquire().await) });
            let second = sim.spawn("second", async move { drop(b.acquire().await) });
            sim.sleep(Time::ns(1)).await;
            drop(first);
            sim.sleep(Time::ns(1)).await;
            drop(permit);
            second.await.is_ok()
        });
        executor.run(|| false).unwrap();
        assert_eq!(handle.take(), Some(true), "WQ-2");
    }

    #[test]
    fn a_deadlock_on_credits_names_the_holder() {
        let mut executor = Executor::new(1);
        let sim = executor.sim();
        let (left, right) = (Semaphore::new(&sim, "left", 1), Semaphore::new(&sim, "right", 1));
        for (name, one, two) in [("a", left.clone(), right.clone()), ("b", right, left)] {
            let sim = executor.sim();
            executor
                .spawn(Partition(0), name, async move {
                    let _one = one.acquire().await;
                    sim.sleep(Time::ns(1)).await;
                    let _two = two.acquire().await;
                })
                .detach();
        }
        let deadlock = executor.run(|| false).unwrap_err();
        assert_eq!(deadlock.cycle, ["a", "b"]);
        assert_eq!(deadlock.waiting[0].waits[0].what, "1 of `right` (0 of 1 at home)");
    }
}
