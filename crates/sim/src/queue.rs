//! A bounded queue between processes: a full one makes the sender wait, an empty one the receiver.
//!
//! - **QUE-1 (bounded).** Never more than `capacity` items.
//! - **QUE-2 (FIFO).** Items come out in the order they went in, to receivers in order of asking; none is lost or
//!   seen twice, also when a waiting process is cancelled.

use crate::executor::{Sim, TaskId, Wait};
use crate::wait_queue::{Ticket, WaitQueue};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A bounded queue.
pub struct Queue<T>(Rc<State<T>>);

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct State<T> {
    sim: Sim,
    name: String,
    capacity: usize,
    items: RefCell<VecDeque<T>>,
    putters: WaitQueue,
    getters: WaitQueue,
    last_putter: Cell<Option<TaskId>>,
    last_getter: Cell<Option<TaskId>>,
}

impl<T> Queue<T> {
    /// An empty queue.
    ///
    /// # Panics
    ///
    /// If `capacity` is zero: nothing could ever pass.
    pub fn new(sim: &Sim, name: impl Into<String>, capacity: usize) -> Self {
        assert!(capacity > 0, "QUE-1: a queue needs room for one item");
        Self(Rc::new(State {
            sim: sim.clone(),
            name: name.into(),
            capacity,
            items: RefCell::default(),
            putters: WaitQueue::default(),
            getters: WaitQueue::default(),
            last_putter: Cell::new(None),
            last_getter: Cell::new(None),
        }))
    }

    /// How many items are inside.
    pub fn len(&self) -> usize {
        self.0.items.borrow().len()
    }

    /// Whether nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an item in, waiting for room.
    pub fn put(&self, item: T) -> Put<T> {
        Put { state: self.0.clone(), item: Some(item), ticket: Ticket::default() }
    }

    /// Takes the oldest item, waiting for one.
    pub fn get(&self) -> Get<T> {
        Get { state: self.0.clone(), ticket: Ticket::default() }
    }
}

impl<T> State<T> {
    fn describe(&self, what: &str, other_side: Option<TaskId>, queue: &WaitQueue) -> Wait {
        let (len, capacity) = (self.items.borrow().len(), self.capacity);
        let mut providers = queue.names(&self.sim);
        providers.extend(other_side.and_then(|task| self.sim.name_of(task)));
        Wait { what: format!("{what} `{}` ({len} of {capacity} items)", self.name), providers }
    }
}

/// Waits for room; see [`Queue::put`].
#[must_use = "does nothing unless awaited"]
pub struct Put<T> {
    state: Rc<State<T>>,
    item: Option<T>,
    ticket: Ticket,
}

impl<T> Unpin for Put<T> {}

impl<T> Future for Put<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let state = &*this.state;
        if state.putters.is_first(&this.ticket) && state.items.borrow().len() < state.capacity {
            state.putters.leave(&mut this.ticket);
            state.last_putter.set(Some(state.sim.task()));
            state.items.borrow_mut().extend(this.item.take());
            state.getters.call(&state.sim);
            state.putters.call(&state.sim);
            return Poll::Ready(());
        }
        state.putters.join(&mut this.ticket, state.sim.task());
        state.sim.waiting(|| state.describe("room in", state.last_getter.get(), &state.getters));
        Poll::Pending
    }
}

impl<T> Drop for Put<T> {
    fn drop(&mut self) {
        self.state.putters.give_up(&mut self.ticket, &self.state.sim);
    }
}

/// Waits for an item; see [`Queue::get`].
#[must_use = "does nothing unless awaited"]
pub struct Get<T> {
    state: Rc<State<T>>,
    ticket: Ticket,
}

impl<T> Unpin for Get<T> {}

impl<T> Future for Get<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let state = &*this.state;
        if state.getters.is_first(&this.ticket)
            && let Some(item) = state.items.borrow_mut().pop_front()
        {
            state.getters.leave(&mut this.ticket);
            state.last_getter.set(Some(state.sim.task()));
            state.putters.call(&state.sim);
            state.getters.call(&state.sim);
            return Poll::Ready(item);
        }
        state.getters.join(&mut this.ticket, state.sim.task());
        state
            .sim
            .waiting(|| state.describe("an item from", state.last_putter.get(), &state.putters));
        Poll::Pending
    }
}

impl<T> Drop for Get<T> {
    fn drop(&mut self) {
        self.state.getters.give_up(&mut self.ticket, &self.state.sim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Executor, Partition};
    use crate::time::Time;

    #[test]
    fn que_1_que_2_a_slow_consumer_holds_the_producer_back() {
        let mut executor = Executor::new(1);
        let queue = Queue::new(&executor.sim(), "q", 2);
        let (sim, source) = (executor.sim(), queue.clone());
        executor
            .spawn(Partition(0), "producer", async move {
                for item in 0..6 {
                    source.put((item, sim.now())).await;
                    assert!(source.len() <= 2, "QUE-1");
                }
            })
            .detach();
        let (sim, sink) = (executor.sim(), queue);
        let consumer = executor.spawn(Partition(0), "consumer", async move {
            let mut got = Vec::new();
            for _ in 0..6 {
                got.push(sink.get().await.0);
                sim.sleep(Time::ns(10)).await;
            }
            (got, sim.now())
        });
        executor.run().unwrap();
        assert_eq!(consumer.take(), Some((vec![0, 1, 2, 3, 4, 5], Time::ns(60))), "QUE-2");
    }

    #[test]
    fn que_2_a_cancelled_receiver_loses_nothing() {
        let mut executor = Executor::new(1);
        let queue = Queue::new(&executor.sim(), "q", 1);
        let sim = executor.sim();
        let main = executor.spawn(Partition(0), "main", async move {
            let (a, b) = (queue.clone(), queue.clone());
            let first = sim.spawn("first", async move { a.get().await });
            let second = sim.spawn("second", async move { b.get().await });
            sim.sleep(Time::ns(1)).await;
            queue.put(7).await;
            drop(first);
            second.await.unwrap()
        });
        executor.run().unwrap();
        assert_eq!(main.take(), Some(7), "QUE-2");
    }

    #[test]
    fn a_deadlock_names_the_queue_and_its_other_side() {
        let mut executor = Executor::new(1);
        let queue = Queue::new(&executor.sim(), "tiles", 1);
        let source = queue.clone();
        executor.spawn(Partition(0), "producer", async move { source.put(1).await }).detach();
        executor
            .spawn(Partition(0), "consumer", async move {
                queue.get().await;
                queue.get().await;
            })
            .detach();
        let text = executor.run().unwrap_err().to_string();
        assert!(
            text.contains("`consumer` waits for an item from `tiles` (0 of 1 items)"),
            "{text}"
        );
    }
}
