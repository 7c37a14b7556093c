//! The one way to write to the terminal: data to stdout, everything else to stderr (CLI-2).
//!
//! Text is styled always; the streams take the colours out where nobody would see them.

use crate::failure::Failure;
use owo_colors::OwoColorize;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// True in a process that is not the one that prints (MPI-1).
static IS_SILENT: AtomicBool = AtomicBool::new(false);
/// The last error that this process printed.
static LAST_WORDS: Mutex<String> = Mutex::new(String::new());

/// Writes nothing from now on: another process prints.
pub(crate) fn be_silent() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// True if another process prints.
pub(crate) fn is_silent() -> bool {
    IS_SILENT.load(Ordering::Relaxed)
}

/// Returns the failure that was said last, in words.
#[cfg(feature = "mpi")]
pub(crate) fn last_words() -> String {
    LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Writes data.
pub(crate) fn data(text: &str) -> io::Result<()> {
    if is_silent() { Ok(()) } else { write(&mut anstream::stdout(), text) }
}

/// Writes what is not data.
pub(crate) fn note(text: &str) -> io::Result<()> {
    if is_silent() { Ok(()) } else { write(&mut anstream::stderr(), text) }
}

fn write(stream: &mut dyn Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Writes data as JSON, with a newline at the end.
pub(crate) fn json<T: Serialize>(data_of: &T) -> io::Result<()> {
    let text = serde_json::to_string_pretty(data_of).map_err(io::Error::other)?;
    data(&(text + "\n"))
}

/// Says what went wrong, with `json` also where a program would look for it.
pub(crate) fn failure(failure: &Failure, json_too: bool) -> ExitCode {
    *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = failure.to_string();
    // Nothing is left to be done about a stream that is closed.
    let _ = note(&describe(failure));
    if json_too {
        let _ = failure_json(failure);
    }
    ExitCode::from(failure.kind.exit_code())
}

/// Says what went wrong where a program would look for it.
pub(crate) fn failure_json(failure: &Failure) -> io::Result<()> {
    json(&ErrorView::of(failure))
}

fn describe(failure: &Failure) -> String {
    let error = match failure.pictures() {
        Some(pictures) => pictures + "\n",
        None => format!("{} {failure}\n", "error:".red().bold()),
    };
    match &failure.hint {
        Some(hint) => format!("{error}\n{} {hint}\n", "hint:".cyan().bold()),
        None => error,
    }
}

#[derive(Serialize)]
struct ErrorView {
    error: ErrorFields,
}

#[derive(Serialize)]
struct ErrorFields {
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl ErrorView {
    fn of(failure: &Failure) -> Self {
        let (kind, hint) = (failure.kind.name(), failure.hint.clone());
        Self { error: ErrorFields { kind, message: failure.to_string(), hint } }
    }
}
