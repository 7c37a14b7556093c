//! A rank: the host program of one SIP, and everything it can do.
//!
//! A rank owns nothing that another rank can see: its tensors, requests, process groups and random numbers are its
//! own (PAR-1). It learns of others by messages only.

use crate::distributed::Groups;
use crate::error::Error;
use crate::multiprocessing::DropPanic;
use crate::random::Generator;
use crate::request::{Handle, Requests};
use crate::settings::Settings;
use crate::tp::parallel_state::ParallelState;
use phalanx_sim::executor::JoinHandle;
use phalanx_sim::machine::{Cause, Host};
use phalanx_sim::{MachineSpec, Time};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// What a rank's program is given: where it is, and everything it can do.
#[derive(Clone)]
pub struct Rank(Rc<State>);

struct State {
    rank: usize,
    ranks: Cell<usize>,
    host: Host,
    settings: Rc<Settings>,
    requests: Requests,
    next_request: Cell<u64>,
    /// What led to where the program is.
    cause: Cell<Cause>,
    generator: RefCell<Generator>,
    groups: RefCell<Groups>,
    parallel: RefCell<Option<Rc<ParallelState>>>,
    /// What a destructor said that panicked when the rank was cancelled.
    drop_panic: DropPanic,
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
            groups: RefCell::default(),
            parallel: RefCell::default(),
            drop_panic: DropPanic::default(),
        }))
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// How many ranks were spawned together.
    pub fn world_size(&self) -> usize {
        self.0.ranks.get()
    }

    /// Whether it is the same rank of the same context.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Begins another program, one of `ranks`: random numbers start again, and tensors stay its own.
    pub(crate) fn restart(&self, ranks: usize) {
        self.0.ranks.set(ranks);
        self.0.cause.set(Cause::default());
        *self.0.groups.borrow_mut() = Groups::default();
        self.0.parallel.borrow_mut().take();
        self.manual_seed(self.0.settings.seed);
    }

    /// The machine.
    pub fn machine(&self) -> &MachineSpec {
        self.0.host.spec()
    }

    /// The simulated time.
    pub fn now(&self) -> Time {
        self.0.host.sim().now()
    }

    /// Whether numbers are computed in this run.
    pub(crate) fn has_data(&self) -> bool {
        self.0.host.has_data()
    }

    /// Does nothing for `span` of simulated time: host work that is not modelled.
    pub async fn sleep(&self, span: Time) {
        self.0.host.sim().sleep(span).await;
    }

    /// Waits for a request.
    pub async fn wait(&self, handle: &Handle) -> Result<(), Error> {
        handle.wait().await
    }

    /// Waits for everything this rank has asked for.
    pub async fn synchronize(&self) -> Result<(), Error> {
        let mut first = Ok(());
        for handle in self.0.requests.handles() {
            // A failure that was seen is not told again.
            if !handle.is_over() || handle.unseen_failure().is_some() {
                let ended = handle.wait().await;
                first = first.and(ended);
            }
        }
        first
    }

    /// Sets the seed of its random numbers: ranks with one seed draw the same.
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

    /// A wait is over, and `cause` led to that.
    pub(crate) fn resumed_by(&self, cause: Cause) {
        self.0.cause.set(self.0.cause.get().later(cause));
    }

    pub(crate) fn keep(&self, handle: &Handle, process: JoinHandle<()>) {
        self.0.requests.keep(handle, process);
    }

    /// The program has returned: waits for what it left under way, and reports a failure that it did not look at.
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

    /// A failure that the program has not looked at, if there is one now.
    pub(crate) fn unseen_failure(&self) -> Option<Error> {
        self.0.requests.handles().iter().find_map(Handle::unseen_failure)
    }

    /// Drops what is under way.
    pub(crate) fn cancel(&self) {
        self.0.requests.cancel();
        self.0.groups.borrow_mut().clear();
        self.0.parallel.borrow_mut().take();
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.world_size())
    }
}
