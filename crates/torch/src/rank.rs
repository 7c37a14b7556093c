//! A rank: the host program of one SIP.
//!
//! Ranks share no state: tensors, requests, process groups and random numbers belong to one rank (PAR-1). Ranks communicate
//! by messages only.

use crate::distributed::Groups;
use crate::error::Error;
use crate::multiprocessing::DropPanic;
use crate::random::Generator;
use crate::request::{Handle, Requests};
use crate::settings::Settings;
use crate::stream::Stream;
use crate::tp::parallel_state::ParallelState;
use phalanx_sim::executor::JoinHandle;
use phalanx_sim::machine::{Cause, Host, HostRange};
use phalanx_sim::{MachineSpec, Time};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// The interface of a rank's program: makes tensors, launches kernels, joins collectives.
#[derive(Clone)]
pub struct Rank(Rc<State>);

struct State {
    rank: usize,
    ranks: Cell<usize>,
    host: Host,
    settings: Rc<Settings>,
    requests: Requests,
    next_request: Cell<u64>,
    /// The end of the critical path that led to the present step of the program.
    cause: Cell<Cause>,
    /// The ranges that are open, oldest first.
    ranges: RefCell<Vec<HostRange>>,
    /// The streams that are entered, oldest first.
    streams: RefCell<Vec<Stream>>,
    generator: RefCell<Generator>,
    groups: RefCell<Groups>,
    parallel: RefCell<Option<Rc<ParallelState>>>,
    /// The panic of a destructor when the rank was cancelled.
    drop_panic: DropPanic,
    /// True while the program is cancelled: its destructors can ask for nothing (MPS-3).
    closed: Cell<bool>,
}

impl Rank {
    pub(crate) fn new(rank: usize, ranks: usize, host: Host, settings: Rc<Settings>) -> Self {
        Self(Rc::new(State {
            rank,
            ranks: Cell::new(ranks),
            host,
            generator: RefCell::new(Generator::new(settings.seed)),
            settings,
            requests: Requests::default(),
            next_request: Cell::new(0),
            cause: Cell::default(),
            ranges: RefCell::default(),
            streams: RefCell::default(),
            groups: RefCell::default(),
            parallel: RefCell::default(),
            drop_panic: DropPanic::default(),
            closed: Cell::new(false),
        }))
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// Returns the number of ranks spawned together.
    pub fn world_size(&self) -> usize {
        self.0.ranks.get()
    }

    /// True for the same rank of the same context.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Begins another program of `ranks` ranks: random numbers start again, and tensors stay with the rank.
    pub(crate) fn restart(&self, ranks: usize) {
        self.0.ranks.set(ranks);
        self.0.cause.set(Cause::default());
        self.0.streams.borrow_mut().clear();
        *self.0.groups.borrow_mut() = Groups::default();
        self.0.parallel.borrow_mut().take();
        self.manual_seed(self.0.settings.seed);
    }

    /// Returns the machine.
    pub fn machine(&self) -> &MachineSpec {
        self.0.host.spec()
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Time {
        self.0.host.sim().now()
    }

    /// True if this run computes numbers.
    pub fn has_data(&self) -> bool {
        self.0.host.has_data()
    }

    /// Waits for `span` of simulated time: host work that is not modelled.
    pub async fn sleep(&self, span: Time) {
        self.0.host.sim().sleep(span).await;
    }

    /// Opens a named range, like a range of NVTX, that ends when the value is dropped: traces show it, and reports add ranges up
    /// by name and can be cut to them.
    ///
    /// A rank asks and goes on, so a range covers the work that was asked for in it, from the begin of the first request to
    /// the end of the last, and at least until the rank leaves it. That memory is mapped does not count as work.
    ///
    /// ```
    /// use phalanx_sim::{DType, MachineSpec, machine::Options};
    /// use phalanx_torch::Context;
    /// let options = Options { record: true, ..Options::default() };
    /// let mut context = Context::new(MachineSpec::preset("pair").unwrap(), options);
    /// context
    ///     .run(|cx| async move {
    ///         for step in 0..4 {
    ///             let _range = cx.range(format!("step {step}"));
    ///             cx.full([64, 64], 1.0, DType::F32)?.to_vec().await?;
    ///         }
    ///         Ok(())
    ///     })
    ///     .unwrap();
    /// let report = context.report();
    /// assert_eq!(report.ranges[3].name, "step 3");
    /// assert_eq!(report.within("step 3").unwrap().simulated, report.ranges[3].total);
    /// ```
    pub fn range(&self, name: impl Into<String>) -> Range {
        let range = self.0.host.range(name);
        self.0.ranges.borrow_mut().push(range.clone());
        Range { rank: self.clone(), range }
    }

    /// The ranges that are open.
    pub(crate) fn open_ranges(&self) -> Vec<HostRange> {
        self.0.ranges.borrow().clone()
    }

    /// Waits for a request.
    pub async fn wait(&self, handle: &Handle) -> Result<(), Error> {
        handle.wait().await
    }

    /// Waits for all requests of this rank.
    pub async fn synchronize(&self) -> Result<(), Error> {
        let mut first = Ok(());
        for handle in self.0.requests.handles() {
            // A failure that was seen is not reported again.
            if !handle.is_over() || handle.unseen_failure().is_some() {
                let ended = handle.wait().await;
                first = first.and(ended);
            }
        }
        first
    }

    /// Sets the seed of its random numbers: ranks with the same seed draw the same numbers.
    pub fn manual_seed(&self, seed: u64) {
        *self.0.generator.borrow_mut() = Generator::new(seed);
    }

    pub(crate) fn generator(&self) -> &RefCell<Generator> {
        &self.0.generator
    }

    pub(crate) fn host(&self) -> &Host {
        &self.0.host
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn streams(&self) -> &RefCell<Vec<Stream>> {
        &self.0.streams
    }

    pub(crate) fn groups(&self) -> &RefCell<Groups> {
        &self.0.groups
    }

    pub(crate) fn parallel(&self) -> &RefCell<Option<Rc<ParallelState>>> {
        &self.0.parallel
    }

    pub(crate) fn drop_panic(&self) -> &DropPanic {
        &self.0.drop_panic
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.0.next_request.replace(self.0.next_request.get() + 1)
    }

    pub(crate) fn cause(&self) -> Cause {
        self.0.cause.get()
    }

    /// Ends a wait: `cause` led to its end.
    pub(crate) fn resumed_by(&self, cause: Cause) {
        self.0.cause.set(self.0.cause.get().later(cause));
    }

    pub(crate) fn keep(&self, handle: &Handle, process: Option<JoinHandle<()>>) {
        self.0.requests.keep(handle, process);
    }

    /// After the program has returned: waits for its open requests, and reports a failure that it did not look at.
    pub(crate) async fn settle(&self) -> Result<(), Error> {
        for handle in self.0.requests.handles() {
            if !handle.is_over() {
                handle.wait().await?;
            }
            if let Some(error) = handle.unseen_failure() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// A failure that the program has not looked at.
    pub(crate) fn unseen_failure(&self) -> Option<Error> {
        self.0.requests.handles().iter().find_map(Handle::unseen_failure)
    }

    /// Drops all open requests, and refuses those that destructors make from now on.
    pub(crate) fn close(&self) {
        self.0.closed.set(true);
        self.cancel();
    }

    /// Allows requests again, after [`Rank::close`].
    pub(crate) fn open(&self) {
        self.cancel();
        self.0.closed.set(false);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// Drops all open requests.
    pub(crate) fn cancel(&self) {
        self.0.requests.cancel();
        self.0.groups.borrow_mut().clear();
        self.0.parallel.borrow_mut().take();
    }
}

/// A named range of a rank, from [`Rank::range`] until the value is dropped.
#[must_use = "a range ends when it is dropped: bind it to a name such as `_range`"]
pub struct Range {
    rank: Rank,
    range: HostRange,
}

impl Drop for Range {
    fn drop(&mut self) {
        self.rank.0.ranges.borrow_mut().retain(|open| !open.is(&self.range));
        self.range.close(self.rank.cause());
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.world_size())
    }
}
