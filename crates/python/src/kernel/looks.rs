//! Looks at a number, at the time or at an arrival: they end the recording of a kernel.

use super::op::Op;
use super::player::Player;
use super::running::{Mode, Running};
use super::tile::{Issued, Made, Tile};
use super::tl::{Tl, ends_recording, raise};
use crate::error::exception;
use crate::fiber::{Reply, wait};
use phalanx_sim::kernel::KernelError;
use pyo3::prelude::*;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Plays what was recorded; from then on calls are performed at once.
async fn flush(running: &Rc<Running>) -> Result<(), KernelError> {
    while !running.list.borrow().is_empty() {
        Player::of_recorded(running).await.map_err(|failed| failed.error)?;
    }
    running.mode.set(Mode::Direct);
    Ok(())
}

impl Tl {
    /// Stops recording for `why`, and looks at something.
    fn look_at(
        &self,
        py: Python<'_>,
        why: &str,
        see: impl FnOnce(Python<'_>, &Rc<Running>) -> Reply + 'static,
    ) -> Reply {
        let running = self.running()?;
        match running.mode.get() {
            Mode::Direct => see(py, &running),
            // The kernel has caught what ends the recording.
            Mode::Recording if running.unfit.get().is_some() => Err(ends_recording(py)),
            Mode::Recording => {
                running.look.replace(Some(why.to_owned()));
                running.wait_from_now_on(py)?;
                wait(py, async move {
                    let flushed = flush(&running).await;
                    Python::attach(|py| {
                        flushed.map_err(|error| raise(py, &error))?;
                        see(py, &running)
                    })
                })
            }
            Mode::Again => Self::act_again(py, &running, &Op::Barrier, Made::Nothing.into()),
            Mode::Over => Err(exception(py, "KernelError", "the kernel is over")),
        }
    }
}

#[pymethods]
impl Tl {
    /// Looks at the time, in picoseconds.
    fn now(&self, py: Python<'_>, line: usize) -> Reply {
        self.look_at(py, &format!("line {line}: tl.now looks at the time"), |py, running| {
            Ok(running.tl.now().as_ps().into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Looks at an element.
    fn item(&self, py: Python<'_>, tile: &Tile, index: usize, line: usize) -> Reply {
        let slot = self.operand(py, tile)?.0;
        let why = format!("line {line}: tl.item looks at a number");
        self.look_at(py, &why, move |py, running| {
            let tiles = running.tiles.borrow();
            let found = tiles.get(slot).and_then(|tile| running.tl.item(tile, index));
            let number = found.map_err(|error| raise(py, &error))?;
            Ok(number.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Looks whether an issued operation would wait.
    fn is_over(&self, py: Python<'_>, issued: &Issued, line: usize) -> Reply {
        let Some(slot) = issued.open() else {
            return Ok(true.into_pyobject(py)?.to_owned().into_any().unbind());
        };
        self.look_at(
            py,
            &format!("line {line}: is_over looks at an arrival"),
            move |py, running| {
                let ongoing = running.issued.borrow_mut().take(slot);
                let over = ongoing.is_none_or(|mut ongoing| {
                    let mut context = Context::from_waker(Waker::noop());
                    let over = matches!(ongoing.poll(running, &mut context), Poll::Ready(Ok(())));
                    if !over {
                        running.issued.borrow_mut().put(slot, ongoing);
                    }
                    over
                });
                Ok(over.into_pyobject(py)?.to_owned().into_any().unbind())
            },
        )
    }
}
