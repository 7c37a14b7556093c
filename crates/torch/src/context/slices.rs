//! Ranks outside of [`spawn`](crate::multiprocessing::spawn): a main program drives time in slices.
//!
//! - **SLC-1 (between slices).** A request that a main program makes begins when time is driven next, at the time at which it
//!   was driven last; requests that are open stay open.
//! - **SLC-2 (exact).** Driving until a request is over stops at the instant of its end: a main program that is a rank gets the
//!   times of the same program in `spawn`.
//! - **SLC-3 (no silent hang).** If no event is left before the end, that is an error with the state of each rank; nothing is
//!   cancelled, and the main program can ask for what is missing.
//! - **SLC-4 (first of several).** A slice ends at the instant at which the first of all watched futures ends ([`Rank::watch`]).

use super::Context;
use crate::error::Error;
use crate::multiprocessing::{CatchPanics, Desync};
use crate::rank::Rank;
use crate::request::Handle;
use phalanx_sim::Time;
use phalanx_sim::executor::{JoinHandle, Name};
use phalanx_sim::machine::RunError;

impl Context {
    /// Returns the only rank of a main program: its requests run when time is driven, by [`Context::drive_until`] or
    /// [`Context::block_on`].
    ///
    /// ```
    /// use phalanx_sim::{MachineSpec, machine::Options, DType};
    /// use phalanx_torch::Context;
    /// let mut context = Context::new(MachineSpec::preset("pair").unwrap(), Options::default());
    /// let cx = context.main();
    /// let x = cx.full([4], 1.5, DType::F32)?;
    /// let filled = x.fill_(2.5)?;
    /// assert!(!filled.is_over(), "no time has passed");
    /// context.drive_until(&filled)?;
    /// assert_eq!(context.block_on(&cx, async move { x.to_vec().await })?, [2.5; 4]);
    /// # Ok::<(), phalanx_torch::Error>(())
    /// ```
    pub fn main(&mut self) -> Rank {
        self.rank(0, 1)
    }

    /// Returns the ranks of a main program that plays all of them; see [`Context::main`].
    ///
    /// # Errors
    ///
    /// If the machine has fewer SIPs.
    pub fn ranks(&mut self, ranks: usize) -> Result<Vec<Rank>, Error> {
        self.check_ranks("ranks", ranks)?;
        Ok((0..ranks).map(|rank| self.rank(rank, ranks)).collect())
    }

    /// Drives time until a request is over; returns its error.
    ///
    /// # Errors
    ///
    /// The error of the request; [`Error::Desync`] if no event is left and the request is not over (SLC-3); [`Error::Run`] if
    /// the run is interrupted or takes too long.
    pub fn drive_until(&mut self, handle: &Handle) -> Result<(), Error> {
        let rank = handle.rank().clone();
        let waited = handle.clone();
        self.block_on(&rank, async move { waited.wait().await })
    }

    /// Drives time until a future is over that waits for requests of `rank`, and returns its result.
    ///
    /// # Errors
    ///
    /// As [`Context::drive_until`]. The future is dropped.
    pub fn block_on<T: 'static>(
        &mut self,
        rank: &Rank,
        future: impl Future<Output = Result<T, Error>> + 'static,
    ) -> Result<T, Error> {
        let guarded = CatchPanics::new(future, rank.drop_panic().clone());
        let sim = rank.host().sim().clone();
        let number = rank.rank();
        let name = Name::later(move || format!("rank{number}"));
        let process = rank.host().spawn(name, async move {
            let result = guarded.await;
            sim.stop_here();
            result
        });
        let ended = self.machine.advance();
        if let Some(result) = process.take() {
            return result;
        }
        Err(match ended {
            Err(RunError::Deadlock(deadlock)) => {
                Error::Desync(Box::new(Desync::new(self.members(), &[], deadlock)))
            }
            Err(error) => error.into(),
            Ok(_) => Error::other("the run was stopped before the end"),
        })
    }

    /// Drives time until `time`; returns false if nothing is left to do before it.
    ///
    /// # Errors
    ///
    /// [`Error::Run`] if the run is interrupted or takes too long.
    pub fn drive_to(&mut self, time: Time) -> Result<bool, Error> {
        let host = self.machine.host(0);
        let sim = host.sim().clone();
        let stopper = host.spawn("clock", async move {
            sim.doze_until(time).await;
            sim.stop_here();
        });
        let ended = self.machine.advance();
        match ended {
            Ok(_) | Err(RunError::Deadlock(_)) => Ok(stopper.is_finished()),
            Err(error) => Err(error.into()),
        }
    }

    /// Drives time until no event is left. Requests that wait for a request that nobody has made stay open.
    ///
    /// # Errors
    ///
    /// [`Error::Run`] if the run is interrupted or takes too long.
    pub fn drain(&mut self) -> Result<(), Error> {
        match self.machine.advance() {
            Ok(_) | Err(RunError::Deadlock(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Rank {
    /// Ends the slice of time at the instant at which `future` ends, which waits for requests of this rank (SLC-4). Dropping the
    /// handle ends the watch.
    #[must_use = "a dropped watch does nothing"]
    pub fn watch(&self, future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        let sim = self.host().sim().clone();
        self.host().spawn(format!("rank{}", self.rank()), async move {
            future.await;
            sim.stop_here();
        })
    }
}
