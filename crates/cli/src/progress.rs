//! A sign of life on stderr while a run takes long; nothing where stderr is no terminal.

use crate::printer;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Shows itself after a second, and is gone when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// The present activity, if one was given.
    doing: Arc<Mutex<String>>,
}

impl Progress {
    pub(crate) fn start(what: &str) -> Self {
        let message = format!("running {what}");
        let doing = Arc::new(Mutex::new(String::new()));
        let told = Arc::clone(&doing);
        let late = move |state: &ProgressState, out: &mut dyn Write| {
            if state.elapsed() >= Duration::from_secs(1) {
                let doing = told.lock().map_or_else(|_| String::new(), |doing| doing.clone());
                // A line that cannot be drawn is missed by nobody.
                let _ = write!(out, "{message}{doing}, {} s", state.elapsed().as_secs());
            }
        };
        let style = ProgressStyle::with_template("{late}").expect("a template that is a constant");
        let bar =
            if printer::is_silent() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let bar = bar.with_style(style.with_key("late", late));
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, doing }
    }

    /// Says what is being done.
    pub(crate) fn tell(&self, doing: &str) {
        if let Ok(mut told) = self.doing.lock() {
            *told = format!(": {doing}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The progress of many equal pieces of work, with the time that is left.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn start(all: u64, noun: &'static str) -> Self {
        let template = "{bar:30} {pos} of {len} {msg}, {eta} left";
        let style = ProgressStyle::with_template(template).expect("a template that is a constant");
        Self(ProgressBar::new(all).with_style(style).with_message(noun))
    }

    /// One piece is done.
    pub(crate) fn advance(&self) {
        self.0.inc(1);
    }

    /// Does something on the terminal without the bar.
    pub(crate) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.0.suspend(act)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
