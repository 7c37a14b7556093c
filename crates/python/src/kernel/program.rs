//! One program of a launch: Python runs through the kernel, the list is played.

use super::launch::Call;
use super::op::{ArgumentView, ViewMask};
use super::player::{Failed, Player};
use super::running::{Again, Mode, Running};
use super::tl::Tl;
use super::view::View;
use crate::error::Raised;
use crate::fiber::Program;
use phalanx_sim::Foreign;
use phalanx_sim::kernel::{self, KernelError};
use phalanx_torch::Args;
use pyo3::prelude::*;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// One program.
pub(crate) struct KernelProgram {
    running: Rc<Running>,
    call: Rc<Call>,
    stage: Stage,
    /// The exception with which Python left the kernel before the list was played.
    raised: Option<Raised>,
}

enum Stage {
    Start,
    Refused(KernelError),
    Python(Program),
    Playing(Player),
    Over,
}

impl KernelProgram {
    pub(crate) fn new(tl: kernel::Tl, args: &Args, call: Rc<Call>) -> Self {
        Self::of_views(tl, (0..args.count()).map(|index| args.view(index)).collect(), call)
    }

    /// A program with this memory.
    pub(crate) fn of_views(
        tl: kernel::Tl,
        views: Result<Vec<kernel::View>, KernelError>,
        call: Rc<Call>,
    ) -> Self {
        let (views, stage) = match views {
            Ok(views) => (views, Stage::Start),
            Err(error) => (Vec::new(), Stage::Refused(error)),
        };
        let mode = if call.greenlet { Mode::Direct } else { Mode::Recording };
        Self { running: Rc::new(Running::new(tl, views, mode)), call, stage, raised: None }
    }

    /// Begins to run through the kernel in Python.
    fn python(&self) -> Result<Program, KernelError> {
        Python::attach(|py| {
            let views: Vec<View> = (0..)
                .zip(&self.running.args)
                .map(|(arg, view)| {
                    let (shape, strides) = (view.shape, view.strides);
                    let place = ArgumentView { arg, start: 0, shape, strides, mask: ViewMask::All };
                    View::new(place, view.dtype)
                })
                .collect();
            let begun = || -> PyResult<Program> {
                let tl = Py::new(py, Tl::new(self.running.id))?;
                self.running.context.replace(Some(tl.clone_ref(py)));
                if self.running.mode.get() != Mode::Recording {
                    self.running.wait_from_now_on(py)?;
                }
                Ok(Program::new(self.call.begin.bind(py).call1((tl, views))?.unbind()))
            };
            begun().map_err(|error| foreign(Raised::new(error)))
        })
    }

    fn advance(&mut self, context: &mut Context<'_>) -> Poll<Result<(), KernelError>> {
        loop {
            match &mut self.stage {
                Stage::Start => {
                    let number = self.running.tl.program_id();
                    self.stage = match self.call.recorded(number) {
                        Some(list) => Stage::Playing(Player::new(self.running.clone(), list)),
                        None => Stage::Python(self.python()?),
                    };
                }
                Stage::Refused(error) => return Poll::Ready(Err(error.clone())),
                Stage::Python(program) => {
                    let ended = ready!(Pin::new(program).poll(context));
                    if self.running.mode.get() != Mode::Recording {
                        return Poll::Ready(self.left(ended));
                    }
                    self.stage = Stage::Playing(self.recorded(ended));
                }
                Stage::Playing(player) => match ready!(Pin::new(player).poll(context)) {
                    Ok(()) if self.running.unfit.take().is_some() => {
                        let text = "operands that do not fit were computed with";
                        return Poll::Ready(Err(KernelError::Other(text.to_owned())));
                    }
                    Ok(()) => {
                        let raised = self.raised.take();
                        return Poll::Ready(raised.map_or(Ok(()), |raised| Err(foreign(raised))));
                    }
                    Err(failed) => {
                        self.again(failed);
                        self.stage = Stage::Python(self.python()?);
                    }
                },
                Stage::Over => return Poll::Pending,
            }
        }
    }

    /// Python left the kernel as a greenlet.
    fn left(&self, ended: Result<Py<PyAny>, Raised>) -> Result<(), KernelError> {
        if let Some(again) = self.running.again.take() {
            // The kernel ended before the operation that had failed.
            return Err(again.error);
        }
        if let Some(look) = self.running.look.take() {
            self.call.looked(look);
        }
        ended.map(|_| ()).map_err(foreign)
    }

    /// Python left the kernel, and everything was recorded.
    fn recorded(&mut self, ended: Result<Py<PyAny>, Raised>) -> Player {
        let mut list = self.running.list.take();
        if let Some(unfit) = self.running.unfit.get() {
            // Operations recorded after the one that will fail do not count.
            list.truncate(unfit + 1);
            return Player::new(self.running.clone(), list.into());
        }
        let list = Rc::new(list);
        match ended {
            Ok(_) => {
                let is_same_again = !(self.call.is_queued && self.running.has_seen_pe.get());
                self.call.keep(self.running.tl.program_id(), &list, is_same_again);
            }
            Err(raised) => self.raised = Some(raised),
        }
        Player::new(self.running.clone(), list)
    }

    /// Prepares for running through the kernel again, up to the operation that failed.
    fn again(&mut self, failed: Failed) {
        let Failed { list, at, error } = failed;
        self.raised = None;
        self.running.unfit.set(None);
        self.running.restart();
        self.running.again.replace(Some(Again { list, failed: at, next: 0, error }));
        self.running.mode.set(Mode::Again);
    }
}

/// A Python exception as the error of a kernel.
pub(crate) fn foreign(raised: Raised) -> KernelError {
    Foreign::new(raised.words(), raised).into()
}

impl Future for KernelProgram {
    type Output = Result<(), KernelError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let _turn = self.running.turn();
        let polled = self.advance(context);
        if polled.is_ready() {
            self.stage = Stage::Over;
            self.running.close();
        }
        polled
    }
}

impl Drop for KernelProgram {
    /// Cancels the program.
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Over) {
            return;
        }
        let _turn = self.running.turn();
        self.stage = Stage::Over;
        self.running.close();
    }
}
