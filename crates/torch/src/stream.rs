//! Streams and events: program order on a device without waits of the host.
//!
//! Requests wait for each other only where they share bytes, so a device does whatever is ready first. A stream keeps the order
//! of a program: of two requests made on it, the second begins when the first is over.
//!
//! - **STR-1 (in order).** The requests made while a stream is entered begin one after another, in the order in which they
//!   were made; making memory known to the SIP takes no part.
//! - **STR-2 (events).** A stream that waits for an event begins its next request after everything that the event holds.
//! - **STR-3 (order only).** A request that fails does not poison the requests behind it on its stream; those that use its
//!   memory are poisoned as ever (REQ-3).
//!
//! ```
//! use phalanx_sim::{DType, MachineSpec, Time, machine::Options};
//! use phalanx_torch::{Arg, Context, Grid};
//! let mut context = Context::new(MachineSpec::preset("pair").unwrap(), Options::default());
//! let spans = context.run(|cx| async move {
//!     let (compute, copies) = (cx.stream("compute"), cx.stream("copies"));
//!     let (x, y) = (cx.zeros([64], DType::F32)?, cx.zeros([64], DType::F32)?);
//!     cx.synchronize().await?;
//!     let nap = |tl: phalanx_sim::kernel::Tl, _| async move { Ok(tl.compute(Time::us(5)).await) };
//!     let first = compute.run(|| cx.launch("first", Grid::Pes(1), &[Arg::write(&x)], nap))?;
//!     copies.wait(&compute.record());
//!     let copied = copies.run(|| y.fill_(1.0))?;
//!     let before = cx.now();
//!     first.wait().await?;
//!     assert!(!copied.is_over(), "the copy waits for the event, not the program");
//!     copied.wait().await?;
//!     Ok(cx.now() - before)
//! });
//! assert!(spans.unwrap() > Time::us(5));
//! ```

use crate::error::Error;
use crate::rank::Rank;
use crate::request::Handle;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// A queue of requests of one rank, which begin in order.
#[derive(Clone)]
pub struct Stream(Rc<State>);

struct State {
    rank: Rank,
    name: String,
    /// The requests that the next one waits for.
    after: RefCell<Vec<Handle>>,
}

/// A point on a stream, or the end of some requests.
#[derive(Clone, Default)]
pub struct Event {
    handles: Vec<Handle>,
}

/// A stream that is entered, until the value is dropped.
#[must_use = "a stream is left when this is dropped: bind it to a name such as `_on`"]
pub struct Entered {
    stream: Stream,
}

impl Rank {
    /// Makes a stream. Requests go to it while it is entered ([`Stream::enter`], [`Stream::run`]).
    pub fn stream(&self, name: impl Into<String>) -> Stream {
        let state = State { rank: self.clone(), name: name.into(), after: RefCell::default() };
        Stream(Rc::new(state))
    }
}

impl Stream {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Sends the requests of its rank to this stream until the value is dropped; the stream entered last counts.
    pub fn enter(&self) -> Entered {
        self.0.rank.streams().borrow_mut().push(self.clone());
        Entered { stream: self.clone() }
    }

    /// Makes requests on this stream.
    pub fn run<T>(&self, requests: impl FnOnce() -> T) -> T {
        let _on = self.enter();
        requests()
    }

    /// Returns an event that is over when all requests made on the stream so far are over.
    pub fn record(&self) -> Event {
        Event { handles: self.0.after.borrow().clone() }
    }

    /// Lets the requests made on this stream from now on wait for an event of the same rank; the program does not wait.
    pub fn wait(&self, event: &Event) {
        let mut after = self.0.after.borrow_mut();
        after.retain(|handle| !handle.is_over());
        after.extend(event.handles.iter().filter(|handle| !handle.is_over()).cloned());
    }

    /// Waits until all requests made on the stream so far are over.
    pub async fn synchronize(&self) -> Result<(), Error> {
        self.record().wait().await
    }

    /// The requests that the next one waits for.
    pub(crate) fn last(&self) -> Vec<Handle> {
        self.0.after.borrow().clone()
    }

    /// Makes `handle` the last request.
    pub(crate) fn follow(&self, handle: &Handle) {
        *self.0.after.borrow_mut() = vec![handle.clone()];
    }
}

impl Event {
    /// The end of some requests.
    pub(crate) fn of(handles: &[Handle]) -> Self {
        Self { handles: handles.to_vec() }
    }

    /// True if everything that it holds is over.
    pub fn is_over(&self) -> bool {
        self.handles.iter().all(Handle::is_over)
    }

    /// Waits until everything that it holds is over; returns the first error.
    pub async fn wait(&self) -> Result<(), Error> {
        let mut ended = Ok(());
        for handle in &self.handles {
            ended = ended.and(handle.wait().await);
        }
        ended
    }
}

impl Handle {
    /// Returns an event that is over when the request is.
    pub fn event(&self) -> Event {
        Event::of(std::slice::from_ref(self))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut streams = self.stream.0.rank.streams().borrow_mut();
        let own = streams.iter().rposition(|entered| Rc::ptr_eq(&entered.0, &self.stream.0));
        if let Some(index) = own {
            streams.remove(index);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream `{}` of rank {}", self.0.name, self.0.rank.rank())
    }
}
