//! A sign of life on stderr while a run takes long; nothing where stderr is no terminal.

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
        let bar = ProgressBar::new_spinner().with_style(style.with_key("late", late));
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
