//! Interrupting a long run, and showing its progress: both are asked after a window of simulated time, and while numbers are computed that
//! somebody waits for.

use crate::one_thread::OneThread;
use phalanx_sim::executor::Sim;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Questions between two looks at the clock: there is one after each window, and one before each operation of numbers that are awaited.
const WINDOWS: u32 = 8;
/// Time between two looks at Python's signals.
const SIGNALS: Duration = Duration::from_millis(50);
/// Time after which a run shows its progress, and between two showings.
const SHOWN: Duration = Duration::from_millis(500);

/// The question of a run after its windows.
pub(crate) struct Interrupt {
    windows: AtomicU32,
    /// True after a handler of a signal has raised, up to the end of the run.
    is_raised: AtomicBool,
    state: Mutex<State>,
    sim: OnceLock<OneThread<Sim>>,
    /// Called with the simulated picoseconds, and with `None` at the end of a run that was shown.
    progress: Option<Py<PyAny>>,
}

struct State {
    looked: Instant,
    shown: Instant,
    is_shown: bool,
    /// The error that a handler of a signal has raised.
    raised: Option<PyErr>,
}

impl Interrupt {
    pub(crate) fn new(progress: Option<Py<PyAny>>) -> Self {
        let now = Instant::now();
        let state = State { looked: now, shown: now, is_shown: false, raised: None };
        Self {
            windows: AtomicU32::new(0),
            is_raised: AtomicBool::new(false),
            state: Mutex::new(state),
            sim: OnceLock::new(),
            progress,
        }
    }

    /// Sets the simulation whose time is shown.
    pub(crate) fn watch(&self, sim: Sim) {
        drop(self.sim.set(OneThread::new(sim)));
    }

    /// True if the run must end: a handler of a signal has raised.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        let windows = self.windows.load(Ordering::Relaxed).wrapping_add(1);
        self.windows.store(windows, Ordering::Relaxed);
        self.is_raised.load(Ordering::Relaxed) || windows.is_multiple_of(WINDOWS) && self.look()
    }

    #[cold]
    fn look(&self) -> bool {
        let now = Instant::now();
        let (signals, shows) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let pause = now.duration_since(state.looked);
            // A long pause lies between two runs: the time after which progress is shown counts anew. On a busy host the pause may also be
            // within a run, so signals are looked at all the same.
            if pause > 4 * SHOWN {
                state.shown = now;
            }
            let signals = now.duration_since(state.looked) >= SIGNALS;
            let shows = self.progress.is_some() && now.duration_since(state.shown) >= SHOWN;
            if signals {
                state.looked = now;
            }
            if shows {
                (state.shown, state.is_shown) = (now, true);
            }
            (signals, shows)
        };
        if !signals && !shows {
            return false;
        }
        let raised = Python::attach(|py| {
            if shows {
                self.show(py)?;
            }
            py.check_signals()
        });
        let Err(error) = raised else { return false };
        self.state.lock().unwrap_or_else(PoisonError::into_inner).raised = Some(error);
        self.is_raised.store(true, Ordering::Relaxed);
        true
    }

    fn show(&self, py: Python<'_>) -> PyResult<()> {
        let Some(progress) = &self.progress else { return Ok(()) };
        let Some(sim) = self.sim.get() else { return Ok(()) };
        progress.bind(py).call1((sim.get()?.now().as_ps(),)).map(|_| ())
    }

    /// Ends a run; returns what interrupted it.
    pub(crate) fn end(&self, py: Python<'_>) -> Option<PyErr> {
        self.is_raised.store(false, Ordering::Relaxed);
        let (is_shown, raised) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (std::mem::take(&mut state.is_shown), state.raised.take())
        };
        let ended = match &self.progress {
            Some(progress) if is_shown => progress.bind(py).call1((py.None(),)).err(),
            _ => None,
        };
        raised.or(ended)
    }
}
