//! Credits and resources: a counter that processes take from and give back to, and a guard over it.
//!
//! - **CRD-1 (conserved).** Credits taken and not given back plus credits at home are always the number it was
//!   created with: giving more than was taken panics.
//! - **CRD-2 (fair).** Takers are served in order of asking, also when a later one wants fewer.

use crate::executor::{Sim, TaskId, Wait};
use crate::wait_queue::{Ticket, WaitQueue};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A counter of credits.
///
/// ```
/// use phalanx_sim::{credit::Credits, executor::{Executor, Partition}, Time};
/// let mut executor = Executor::new(1);
/// let credits = Credits::new(&executor.sim(), "slots", 1);
/// for _ in 0..2 {
///     let (sim, credits) = (executor.sim(), credits.clone());
///     executor.spawn(Partition(0), "user", async move {
///         credits.take(1).await;
///         sim.sleep(Time::ns(10)).await;
///         credits.give(1);
///     }).detach();
/// }
/// executor.run().unwrap();
/// assert_eq!(executor.sim().now(), Time::ns(20));
/// ```
#[derive(Clone)]
pub struct Credits(Rc<State>);

struct State {
    sim: Sim,
    name: String,
    total: u64,
    home: Cell<u64>,
    waiters: WaitQueue,
    takers: RefCell<Vec<TaskId>>,
}

impl Credits {
    /// `total` credits, all at home.
    pub fn new(sim: &Sim, name: impl Into<String>, total: u64) -> Self {
        Self(Rc::new(State {
            sim: sim.clone(),
            name: name.into(),
            total,
            home: Cell::new(total),
            waiters: WaitQueue::default(),
            takers: RefCell::default(),
        }))
    }

    /// How many are at home.
    pub fn home(&self) -> u64 {
        self.0.home.get()
    }

    /// Takes `count`, waiting until that many are there.
    ///
    /// # Panics
    ///
    /// If there are not so many in all: nobody could ever wait long enough.
    pub fn take(&self, count: u64) -> Take {
        assert!(
            count <= self.0.total,
            "CRD-1: {count} of the {} credits of `{}`",
            self.0.total,
            self.0.name
        );
        Take { state: self.0.clone(), count, ticket: Ticket::default() }
    }

    /// Gives `count` back.
    pub fn give(&self, count: u64) {
        self.0.give(count);
    }
}

impl State {
    fn give(&self, count: u64) {
        let home = self.home.get() + count;
        assert!(home <= self.total, "CRD-1: `{}` has {home} of {} credits", self.name, self.total);
        self.home.set(home);
        self.takers.borrow_mut().retain(|task| *task != self.sim.task());
        self.waiters.call(&self.sim);
    }

    fn describe(&self, count: u64) -> Wait {
        let what =
            format!("{count} of `{}` ({} of {} at home)", self.name, self.home.get(), self.total);
        let providers =
            self.takers.borrow().iter().filter_map(|task| self.sim.name_of(*task)).collect();
        Wait { what, providers }
    }
}

/// Waits for credits; see [`Credits::take`].
#[must_use = "does nothing unless awaited"]
pub struct Take {
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
            state.waiters.call(&state.sim);
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

/// Something only `servers` processes at a time may use, first come first served.
#[derive(Clone)]
pub struct Resource(Credits);

impl Resource {
    /// A resource with room for `servers` users.
    pub fn new(sim: &Sim, name: impl Into<String>, servers: u64) -> Self {
        Self(Credits::new(sim, name, servers))
    }

    /// Waits for a turn; the turn ends when the guard is dropped.
    pub async fn acquire(&self) -> Turn {
        self.0.take(1).await;
        Turn(self.0.clone())
    }
}

/// The right to use a [`Resource`].
#[must_use = "the turn ends when this is dropped"]
pub struct Turn(Credits);

impl Drop for Turn {
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
    fn crd_2_line_1_a_small_request_does_not_overtake_a_large_one() {
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
        executor.run().unwrap();
        assert_eq!(*order.borrow(), [0, 1, 2], "CRD-2");
        assert_eq!(credits.home(), 4);
    }

    #[test]
    fn line_2_giving_up_lets_the_next_one_pass() {
        let mut executor = Executor::new(1);
        let resource = Resource::new(&executor.sim(), "engine", 1);
        let (sim, other) = (executor.sim(), resource.clone());
        let handle = executor.spawn(Partition(0), "main", async move {
            let turn = other.acquire().await;
            let (a, b) = (other.clone(), other.clone());
            let first = sim.spawn("first", async move { drop(a.acquire().await) });
            let second = sim.spawn("second", async move { drop(b.acquire().await) });
            sim.sleep(Time::ns(1)).await;
            drop(first);
            sim.sleep(Time::ns(1)).await;
            drop(turn);
            second.await.is_ok()
        });
        executor.run().unwrap();
        assert_eq!(handle.take(), Some(true), "LINE-2");
    }

    #[test]
    fn a_deadlock_on_credits_names_the_holder() {
        let mut executor = Executor::new(1);
        let (left, right) =
            (Resource::new(&executor.sim(), "left", 1), Resource::new(&executor.sim(), "right", 1));
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
        let deadlock = executor.run().unwrap_err();
        assert_eq!(deadlock.cycle, ["a", "b"]);
        assert_eq!(deadlock.waiting[0].waits[0].what, "1 of `right` (0 of 1 at home)");
    }
}
