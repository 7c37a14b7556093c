//! A sign of life on stderr while a run takes long; nothing where stderr is no terminal.

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::time::Duration;

/// Shows itself after a second, and is gone when dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(what: &str) -> Self {
        let message = format!("running {what}");
        let late = move |state: &ProgressState, out: &mut dyn Write| {
            if state.elapsed() >= Duration::from_secs(1) {
                // A line that cannot be drawn is missed by nobody.
                let _ = write!(out, "{message}, {} s", state.elapsed().as_secs());
            }
        };
        let style = ProgressStyle::with_template("{late}").expect("a template that is a constant");
        let bar = ProgressBar::new_spinner().with_style(style.with_key("late", late));
        bar.enable_steady_tick(Duration::from_millis(250));
        Self(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
