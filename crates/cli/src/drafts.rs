//! Files that are being written: each has a name of its own until it is complete, and none outlives the program.
//!
//! Interrupting (Ctrl-C, `kill`) removes them and exits as shells expect, with 128 plus the number of the signal.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Files to remove when the program is interrupted. Files appear and go away under the lock, so that nobody is
/// interrupted in between.
static DRAFTS: Mutex<Drafts> = Mutex::new(Drafts { made: 0, paths: Vec::new() });

struct Drafts {
    /// Tells the drafts of one process apart; their names do not depend on the target's, which may be as long as
    /// allowed.
    made: u32,
    paths: Vec<PathBuf>,
}

fn lock() -> MutexGuard<'static, Drafts> {
    // Paths are whole at any time.
    DRAFTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that goes away unless it is put in the place of another.
pub(crate) struct Draft {
    path: PathBuf,
    pub(crate) file: File,
}

impl Draft {
    /// A new file beside `target`.
    pub(crate) fn beside(target: &Path) -> io::Result<Self> {
        watch();
        let mut drafts = lock();
        let name = format!(".phalanx-{}-{}.part", std::process::id(), drafts.made);
        let path = target.with_file_name(name);
        let file = File::create(&path)?;
        drafts.made += 1;
        drafts.paths.push(path.clone());
        Ok(Self { path, file })
    }

    /// Puts it in the place of `target`, whose permissions it takes over.
    pub(crate) fn replace(self, target: &Path) -> io::Result<()> {
        if let Ok(before) = fs::metadata(target) {
            fs::set_permissions(&self.path, before.permissions())?;
        }
        let _drafts = lock();
        fs::rename(&self.path, target)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let mut drafts = lock();
        drafts.paths.retain(|path| *path != self.path);
        // It is not there any more if it was put in place.
        let _ = fs::remove_file(&self.path);
    }
}

/// Begins to wait for interrupts, once.
fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        #[cfg(unix)]
        interrupts();
    });
}

#[cfg(unix)]
fn interrupts() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    // Without it an interrupt ends the program as ever, and may leave a draft behind.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            // Held to the end: no draft appears any more.
            let drafts = lock();
            for path in &drafts.paths {
                let _ = fs::remove_file(path);
            }
            std::process::exit(128 + signal);
        }
    };
    let _ = std::thread::Builder::new().name("phalanx-interrupts".to_owned()).spawn(wait);
}
