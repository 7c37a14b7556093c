//! Limits of sizes, and of the memory of this host.
//!
//! - **LIM-1 (refused early).** Numbers and buffers that do not fit into the host's memory are refused before they are
//!   allocated.

use std::{fmt, fs};

/// Largest tensor of a workload, in bytes.
pub const MOST_BYTES: u64 = 1 << 40;
/// Largest message, in bytes: a tile holds it.
pub const MOST_MESSAGE: u64 = 4 << 30;
/// Most chunks of a message and slots of a vector: each costs memory while it is in flight.
pub const MOST_CHUNKS: u64 = 1 << 20;

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    /// The error, with the name and the value.
    pub message: String,
    /// The allowed values.
    pub help: String,
}

impl ParameterError {
    /// Makes an error with a message and a help line.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ParameterError {}

/// Refuses numbers of `needed` bytes if they do not fit on this host.
pub fn check_numbers(needed: u64) -> Result<(), ParameterError> {
    check("numbers", needed, budget(), "`--data off` gives the same simulated time without numbers")
}

/// Refuses buffers of `needed` bytes, which processes share, if they do not fit on this host.
pub fn check_shared(needed: u64) -> Result<(), ParameterError> {
    check("buffers", needed, budget(), "use smaller parameters or fewer chips")
}

fn check(what: &str, needed: u64, budget: u64, help: &str) -> Result<(), ParameterError> {
    if needed <= budget {
        return Ok(());
    }
    let (needed, budget) = (needed.div_ceil(GIB), budget / GIB);
    let message = format!(
        "the {what} of this run do not fit on this host: {needed} GiB needed, {budget} GiB to spare"
    );
    Err(ParameterError::new(message, help))
}

const GIB: u64 = 1 << 30;

/// The bytes that numbers may take: three quarters of the available memory; the rest is for the program.
fn budget() -> u64 {
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    available.map_or(UNKNOWN, |bytes| bytes / 4 * 3)
}

/// The bytes that numbers may take on a host without `/proc/meminfo`.
const UNKNOWN: u64 = 8 * GIB;

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_available_memory_is_read() {
        let text = "MemTotal:  65 kB\nMemAvailable:   23837540 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(23_837_540 * 1024));
        assert_eq!(available("MemTotal: 65 kB\n"), None);
        assert_eq!(available("MemAvailable: lots\n"), None);
        assert_eq!(available(&format!("MemAvailable: {} kB\n", u64::MAX)), None);
    }

    #[test]
    fn lim_1_numbers_beyond_the_budget_are_refused() {
        assert_eq!(check("numbers", 8 * GIB, 8 * GIB, "less"), Ok(()));
        let error = check("numbers", 8 * GIB + 1, 8 * GIB, "less").unwrap_err();
        let message =
            "the numbers of this run do not fit on this host: 9 GiB needed, 8 GiB to spare";
        assert_eq!(error.message, message);
        assert_eq!(error.help, "less");
        let help = |checked: Result<(), ParameterError>| checked.unwrap_err().help;
        assert!(help(check_numbers(u64::MAX)).contains("`--data off`"), "LIM-1");
        assert!(help(check_shared(u64::MAX)).contains("fewer chips"), "LIM-1");
    }
}
