//! Launches of more programs than PEs.
//!
//! - **GRD-1 (in order).** The PEs of a launch take its programs in the order of their numbers: a PE takes the next program
//!   when it is free, and keeps its turn until no program is left.

use super::host::{Cause, Host, Launch, the_end_of};
use super::{RunError, run_kernel};
use crate::kernel::{GridShape, Group, KernelError, Program, Tl};
use crate::signal::Signal;
use crate::topology::PeId;
use std::cell::Cell;
use std::rc::Rc;

/// The programs of a launch that no PE has taken, and their end.
struct Programs<K> {
    host: Host,
    name: String,
    label: String,
    exclusive: bool,
    kernel: K,
    group: Rc<Group>,
    next: Cell<usize>,
    /// The number of programs that are not over, and the latest cause.
    left: Cell<(usize, Cause)>,
    ended: Signal<Result<Cause, RunError>>,
}

impl Host {
    /// Runs a grid of programs of up to three axes on the PEs of `launch`, the first axis fastest, and waits for their end
    /// (HST-2, GRD-1). The caller has sent the launch command before.
    pub async fn run_programs<K, F>(
        &self,
        launch: Launch<'_>,
        shape: GridShape,
        kernel: K,
    ) -> Result<Cause, RunError>
    where
        K: Fn(Tl) -> F + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        let count = shape.axes.iter().product();
        let pes = &launch.pes[..launch.pes.len().min(count)];
        if count == pes.len() {
            return self.run_each(Launch { pes, ..launch }, &shape, kernel).await;
        }
        assert!(pes.iter().all(|pe| pe.sip == self.sip), "HST-1: a launch stays within its SIP");
        let Launch { name, label, cause, exclusive, .. } = launch;
        if pes.is_empty() {
            return Ok(cause);
        }
        let ended = the_end_of(self.sim(), name, pes);
        let programs = Rc::new(Programs {
            host: self.clone(),
            name: name.to_owned(),
            label: label.unwrap_or(name).to_owned(),
            exclusive,
            kernel,
            group: Group::new(name, &shape, pes),
            next: Cell::new(0),
            left: Cell::new((count, cause)),
            ended: ended.clone(),
        });
        let spawn = |pe: &PeId| {
            let taking = programs.clone().take(*pe, cause);
            self.sim().spawn(programs.group.name_on(*pe), taking)
        };
        let _taking: Vec<_> = pes.iter().map(spawn).collect();
        ended.wait().await
    }
}

impl<K, F> Programs<K>
where
    K: Fn(Tl) -> F + 'static,
    F: Future<Output = Result<(), KernelError>> + 'static,
{
    /// One PE takes programs until none is left (GRD-1).
    async fn take(self: Rc<Self>, pe: PeId, mut cause: Cause) {
        let world = &self.host.world;
        let semaphore = self.exclusive.then(|| world.turn_on(pe));
        let _turn = match &semaphore {
            Some(semaphore) => Some(semaphore.acquire().await),
            None => None,
        };
        while self.next.get() < self.group.size() {
            let number = self.next.replace(self.next.get() + 1);
            let program = Program::new(world.clone(), pe, &self.name, number, self.group.clone());
            let program = program.labelled(&self.label);
            program.caused_by(&cause.path());
            let program = if self.exclusive { program } else { program.in_background() };
            let tl = Tl::new(program);
            let kernel = Box::pin((self.kernel)(tl.clone()));
            match run_kernel(world.clone(), pe, tl, kernel).await {
                Ok(path) => cause = Cause::of(path),
                Err(error) => return self.fail(error),
            }
            self.finish_one(cause);
        }
    }

    fn fail(&self, error: RunError) {
        if !self.ended.is_set() {
            self.ended.set(Err(error));
        }
    }

    fn finish_one(&self, cause: Cause) {
        let (before, latest) = self.left.get();
        let later = latest.later(cause);
        self.left.set((before - 1, later));
        if before == 1 && !self.ended.is_set() {
            self.ended.set(Ok(later));
        }
    }
}
