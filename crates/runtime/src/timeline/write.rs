//! A timeline as a trace: the parent with its runs, and each worker with its tasks.

use super::{RunSpan, TaskSpan, Timeline};
use phalanx_trace::{Slice, TrackId, Writer};
use std::io;

impl Timeline {
    /// Writes it as a trace whose time begins with the first thing that happened.
    ///
    /// A task is called what its callable is, behind a name of its own if it has one: `softmax 3 (softmax)`.
    /// Runs are tracks of the parent, with the building of their graph inside; runs that overlap get a track each.
    pub fn write<W: io::Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        let runs = self.runs.iter().map(|run| run.begun);
        let first = runs.chain(self.tasks.iter().map(|task| task.begun)).min().unwrap_or(0);
        let clock = |nanoseconds: u64| nanoseconds.saturating_sub(first).saturating_mul(1_000);
        self.write_runs(writer, clock)?;
        for (index, name) in self.workers.iter().enumerate() {
            let mut own: Vec<&TaskSpan> =
                self.tasks.iter().filter(|task| task.worker == index).collect();
            own.sort_by_key(|task| (task.begun, task.ended));
            let track = writer.track(name, None)?;
            let mut free = 0;
            for task in own {
                // Neighbours may share a nanosecond.
                let begun = clock(task.begun).max(free);
                free = clock(task.ended).max(begun);
                let last = task.callable.rsplit("::").next().unwrap_or(task.callable);
                let name = match &task.name {
                    Some(name) => writer.name(&format!("{name} ({last})")),
                    None => writer.name(last),
                };
                writer.slice(&Slice::new(track, name, begun, free))?;
            }
        }
        Ok(())
    }

    fn write_runs<W: io::Write>(
        &self,
        writer: &mut Writer<W>,
        clock: impl Fn(u64) -> u64,
    ) -> io::Result<()> {
        let parent = writer.track("parent", None)?;
        // The time at which each track of runs is free again.
        let mut tracks: Vec<(TrackId, u64)> = Vec::new();
        for run in &self.runs {
            let ended = self.end_of(run);
            let known = tracks.iter().position(|(_, free)| *free <= run.begun);
            let at = known.unwrap_or(tracks.len());
            if at == tracks.len() {
                let name = format!("runs {}", at + 1);
                tracks.push((writer.track(&name, Some(parent))?, 0));
            }
            let (track, free) = &mut tracks[at];
            *free = ended;
            let begun = clock(run.begun);
            let label = writer.name(run.label);
            writer.slice(&Slice::new(*track, label, begun, clock(ended)))?;
            let label = writer.name("build");
            writer.slice(&Slice::new(*track, label, begun, clock(run.built.min(ended))))?;
        }
        Ok(())
    }

    /// Returns the end of a run, or the last known time of it.
    fn end_of(&self, run: &RunSpan) -> u64 {
        let own = self.tasks.iter().filter(|task| task.run == run.run);
        run.ended.or(own.map(|task| task.ended).max()).unwrap_or(run.built).max(run.built)
    }
}
