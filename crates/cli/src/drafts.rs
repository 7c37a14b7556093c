//! Files that are being written: each has a name of its own until it is complete, and none outlives the program.
//!
//! Interrupting (Ctrl-C, `kill`, a terminal that is closed) removes them and exits as shells expect, with 128 plus the number
//! of the signal. A signal that the program was started to ignore (`nohup`) is still ignored.

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
    use signal_hook::iterator::Signals;
    // Without it an interrupt ends the program as ever, and may leave a draft behind.
    let Ok(mut signals) = Signals::new(heeded()) else { return };
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

/// The signals that end the program, without those that it was started to ignore.
#[cfg(unix)]
fn heeded() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    match fs::read_to_string("/proc/self/status").ok().as_deref().and_then(ignored) {
        Some(mask) => {
            let all = [SIGHUP, SIGINT, SIGTERM].into_iter();
            all.filter(|signal| mask >> (signal - 1) & 1 == 0).collect()
        }
        // SIGHUP is the one that programs are started to ignore.
        None => vec![SIGINT, SIGTERM],
    }
}

/// The mask of ignored signals in the text of `/proc/self/status`: signal 1 is the lowest bit.
#[cfg(unix)]
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
