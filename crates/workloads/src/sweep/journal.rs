//! The journal of a sweep: rows that are done, in a directory that outlives the program.
//!
//! Every process has a file of its own in the directory and appends a line for each row; all files are read. A line that a crash has cut is
//! no row. Claims are files that one process alone can create, in a directory for each job.

use super::Team;
use phalanx_sim::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A journal that is open.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    own: File,
    rows: BTreeMap<String, Result<Time, String>>,
}

/// A journal that cannot be read or written.
#[derive(Debug)]
pub struct JournalError {
    /// The file or directory.
    pub path: PathBuf,
    /// The error of the system.
    pub error: io::Error,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the journal `{}`: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for JournalError {}

/// One line of a file.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    simulated_ps: Option<u64>,
    error: Option<String>,
}

impl Line {
    fn outcome(self) -> Option<(String, Result<Time, String>)> {
        let outcome = match (self.simulated_ps, self.error) {
            (Some(ps), None) => Ok(Time::ps(ps)),
            (None, Some(error)) => Err(error),
            _ => return None,
        };
        Some((self.key, outcome))
    }
}

impl Journal {
    /// Opens the journal in a directory, which is made if it is missing. `who` tells processes with one directory apart.
    pub fn open(directory: &Path, who: &str) -> Result<Self, JournalError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| JournalError { path, error }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let path = directory.join(format!("{who}-{}.jsonl", std::process::id()));
        let own =
            OpenOptions::new().create(true).append(true).open(&path).map_err(failed(&path))?;
        let mut journal = Self { directory: directory.to_owned(), own, rows: BTreeMap::new() };
        journal.refresh()?;
        Ok(journal)
    }

    /// Reads the rows of all processes.
    pub(crate) fn refresh(&mut self) -> Result<(), JournalError> {
        let failed = |error| JournalError { path: self.directory.clone(), error };
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension() != Some(OsStr::new("jsonl")) {
                continue;
            }
            // A file that another process has just removed has no rows any more.
            let Ok(bytes) = fs::read(&path) else { continue };
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let Some(line) = line.strip_suffix(b"\n") else { continue };
                let line = serde_json::from_slice::<Line>(line).ok().and_then(Line::outcome);
                self.rows.extend(line);
            }
        }
        Ok(())
    }

    /// Returns the row of this content, if it is done.
    pub fn row(&self, key: &str) -> Option<&Result<Time, String>> {
        self.rows.get(key)
    }

    /// Keeps a row.
    pub fn keep(&mut self, key: &str, outcome: &Result<Time, String>) -> Result<(), JournalError> {
        let (simulated_ps, error) = match outcome {
            Ok(time) => (Some(time.as_ps()), None),
            Err(error) => (None, Some(error.clone())),
        };
        let line = Line { key: key.to_owned(), simulated_ps, error };
        let write = || -> io::Result<()> {
            let text = serde_json::to_string(&line)? + "\n";
            // One write: a reader sees the whole line or a part without its end.
            (&self.own).write_all(text.as_bytes())
        };
        write().map_err(|error| JournalError { path: self.directory.clone(), error })?;
        self.rows.insert(key.to_owned(), outcome.clone());
        Ok(())
    }

    /// The directory of the claims of a job.
    pub(super) fn claims(&self, job: &str) -> PathBuf {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let job: String = job.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        self.directory.join(format!("claims-{job}"))
    }

    /// Closes the journal for one process of `team`. With `remove` the rows are needed no longer: the directory goes as soon as every
    /// process of the team has closed the journal (SWE-5). Only process 0 of a team decides that.
    pub fn close(self, team: &Team, remove: bool) -> Result<(), JournalError> {
        // Another process may remove the same directory: what is gone needs no removal.
        let gone = |directory: &Path| drop(fs::remove_dir_all(directory));
        let Team::Member { rank, size, job } = team else {
            if remove {
                gone(&self.directory);
            }
            return Ok(());
        };
        let claims = self.claims(job);
        if *rank == 0 && remove {
            claim(&claims, NOT_NEEDED)?;
        }
        self.mark(job, Mark::Closed, *rank)?;
        // The last process to close clears up: no other opens the journal, or writes there, any more.
        if self.is_marked(job, Mark::Closed, 0..*size) {
            gone(if claims.join(NOT_NEEDED).exists() { &self.directory } else { &claims });
        }
        Ok(())
    }

    /// Tells the other processes of a job how far this process is.
    pub(super) fn mark(&self, job: &str, mark: Mark, rank: usize) -> Result<(), JournalError> {
        claim(&self.claims(job), &mark.of(rank)).map(drop)
    }

    /// True if all these processes of a job are so far.
    pub(super) fn is_marked(&self, job: &str, mark: Mark, mut ranks: Range<usize>) -> bool {
        let claims = self.claims(job);
        ranks.all(|rank| claims.join(mark.of(rank)).exists())
    }
}

/// A file by which a process of a job tells the others how far it is.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    /// The process runs no more points.
    Done,
    /// The process does not use the journal any more.
    Closed,
}

impl Mark {
    /// The name of the file of one process.
    fn of(self, rank: usize) -> String {
        match self {
            Self::Done => format!("done-{rank}"),
            Self::Closed => format!("closed-{rank}"),
        }
    }
}

/// The file by which process 0 says that the rows are needed no longer.
const NOT_NEEDED: &str = "not-needed";

/// Creates a file that only one process can create; true if this process has.
pub(super) fn claim(directory: &Path, name: &str) -> Result<bool, JournalError> {
    let path = directory.join(name);
    let failed = |error| JournalError { path: path.clone(), error };
    fs::create_dir_all(directory).map_err(failed)?;
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}
