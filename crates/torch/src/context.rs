//! A context: a machine and the programs that run on it.

mod slices;

use crate::ccl::config::CclConfig;
use crate::ccl::{CollectiveAlgorithm, Tuner};
use crate::distributed::MemberLists;
use crate::error::Error;
use crate::multiprocessing::{SpawnError, spawn};
use crate::rank::Rank;
use crate::settings::Settings;
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::portable::Portable;
use phalanx_sim::report::Report;
use phalanx_sim::{MachineSpec, Time};
use std::any::Any;
use std::ops::Range;
use std::rc::Rc;

/// A machine with its ranks.
///
/// Only a context makes simulated time pass. A program gets a [`Rank`], which can wait but cannot drive the simulation: there
/// is one event loop.
///
/// ```
/// use phalanx_sim::{MachineSpec, machine::Options, DType};
/// use phalanx_torch::{Context, multiprocessing};
/// let quad = MachineSpec::preset("quad-sip").unwrap();
/// let mut context = Context::new(quad, Options::default());
/// let sums = multiprocessing::spawn(&mut context, 4, |rank, cx| async move {
///     let x = cx.full([2, 3], rank as f64, DType::F32)?;
///     Ok(x.to_vec().await?.iter().sum::<f32>())
/// });
/// assert_eq!(sums.unwrap(), [0.0, 6.0, 12.0, 18.0]);
/// ```
pub struct Context {
    pub(crate) machine: Machine,
    settings: Rc<Settings>,
    /// The ranks made so far, by SIP.
    ranks: Vec<Rank>,
}

impl Context {
    /// Makes a context over a machine.
    pub fn new(machine: MachineSpec, options: Options) -> Self {
        let tuner = Tuner::new(machine.clone()).with_interrupt(options.interrupt.clone());
        let tuner = Rc::new(tuner);
        let settings =
            Settings { seed: 0, ccl: CclConfig::builtin(), tuner, members: MemberLists::default() };
        Self {
            machine: Machine::new(machine, options),
            settings: Rc::new(settings),
            ranks: Vec::new(),
        }
    }

    /// Sets the configuration of collectives.
    #[must_use]
    pub fn with_ccl(self, ccl: CclConfig) -> Self {
        let Settings { seed, tuner, ccl: before, .. } = &*self.settings;
        let ccl = ccl.with_algorithms_of(before);
        let settings =
            Settings { seed: *seed, ccl, tuner: tuner.clone(), members: MemberLists::default() };
        Self { settings: Rc::new(settings), ranks: Vec::new(), ..self }
    }

    /// Adds an algorithm of the program: `distributed`, `ccl.yaml` and `auto` treat it as a built-in one (OWN-1).
    #[must_use]
    pub fn with_algorithm(self, algorithm: impl CollectiveAlgorithm + 'static) -> Self {
        let ccl = self.settings.ccl.clone().with_algorithm(algorithm);
        let Settings { seed, tuner, .. } = &*self.settings;
        let settings =
            Settings { seed: *seed, ccl, tuner: tuner.clone(), members: MemberLists::default() };
        Self { settings: Rc::new(settings), ranks: Vec::new(), ..self }
    }

    /// Sets the tuner, which must be one for the same machine.
    pub(crate) fn with_tuner(self, tuner: Rc<Tuner>) -> Self {
        let Settings { seed, ccl, .. } = &*self.settings;
        let settings =
            Settings { seed: *seed, ccl: ccl.clone(), tuner, members: MemberLists::default() };
        Self { settings: Rc::new(settings), ranks: Vec::new(), ..self }
    }

    /// Returns the tuner of the collectives.
    pub fn tuner(&self) -> &Tuner {
        &self.settings.tuner
    }

    /// Returns the machine.
    pub fn spec(&self) -> &MachineSpec {
        self.machine.spec()
    }

    /// Returns the simulated machine: its memory can be read after a run.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the ranks of a program of `ranks` that this context runs: all, unless it is one of several
    /// [shards](crate::shards).
    pub fn own_ranks(&self, ranks: usize) -> Range<usize> {
        let is_own = |rank: &usize| u32::try_from(*rank).is_ok_and(|sip| self.machine.owns(sip));
        let first = (0..ranks).find(is_own).unwrap_or(ranks);
        first..first + (first..ranks).take_while(is_own).count()
    }

    /// Gathers the lists of all shards, one after the other, so that the results of own ranks become those of all ranks. Alone, it
    /// is the list itself.
    pub fn gather<T: Portable + Any + Clone + Send + Sync>(&self, own: Vec<T>) -> Vec<T> {
        self.machine.gather(own)
    }

    /// Returns the default number of ranks: one for each SIP.
    pub fn default_ranks(&self) -> usize {
        self.machine.spec().devices() as usize
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Time {
        self.machine.now()
    }

    /// Returns a report of the run so far. A second call without a run between returns the same.
    pub fn report(&self) -> Report {
        self.machine.report()
    }

    /// Runs one program, as the only rank.
    ///
    /// # Errors
    ///
    /// [`SpawnError`] if the program fails, and in a [shard](crate::shards) that does not have the first SIP, which has no result to
    /// return.
    pub fn run<T, F>(&mut self, program: impl Fn(Rank) -> F + 'static) -> Result<T, SpawnError>
    where
        T: 'static,
        F: Future<Output = Result<T, Error>> + 'static,
    {
        let results = spawn(self, 1, move |_, rank| program(rank))?;
        results.into_iter().next().ok_or_else(|| {
            let text = "rank 0 runs in another shard, which has the result of the only rank";
            SpawnError::of(0, Error::other(text))
        })
    }

    /// Refuses more ranks than SIPs.
    pub(crate) fn check_ranks(&self, what: &str, ranks: usize) -> Result<(), Error> {
        let most = self.default_ranks();
        if ranks <= most {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "{what}: {ranks} ranks need {ranks} SIPs, and `{}` has {most}; set system.sips.count",
            self.spec().name
        )))
    }

    /// All ranks made so far.
    pub(crate) fn members(&self) -> &[Rank] {
        &self.ranks
    }

    /// Cancels everything that is under way, on all ranks: their destructors run and can ask for nothing (MPS-3). Tensors and
    /// time stay.
    pub fn clear(&mut self) {
        self.ranks.iter().for_each(Rank::close);
        self.machine.clear();
        self.ranks.iter().for_each(Rank::open);
    }

    /// The rank of this number, for a program of `ranks`. Every program gets the same [`Rank`], so that a tensor that outlives
    /// one program still belongs to its rank in the next.
    pub(crate) fn rank(&mut self, rank: usize, ranks: usize) -> Rank {
        while self.ranks.len() <= rank {
            let next = self.ranks.len();
            let sip = u32::try_from(next).expect("no more ranks than SIPs");
            let host = self.machine.host(sip);
            self.ranks.push(Rank::new(next, ranks, host, self.settings.clone()));
        }
        self.ranks[rank].restart(ranks);
        self.ranks[rank].clone()
    }
}
