//! Limits of sizes, and of the memory of this host.
//!
//! - **LIM-1 (refused early).** Numbers and buffers beyond what the host can spare are refused before memory is taken for them.

use std::{fmt, fs};

/// No tensor of a workload is larger.
pub const MOST_BYTES: u64 = 1 << 40;
/// No message is larger, so that a tile holds it.
pub const MOST_MESSAGE: u64 = 4 << 30;
/// A message moves in no more chunks, a vector in no more slots: each costs memory while it is under way.
pub const MOST_CHUNKS: u64 = 1 << 20;

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    /// What is wrong, with the name and the value.
    pub message: String,
    /// What is allowed.
    pub help: String,
}

impl ParameterError {
    /// An error with a message and a help line.
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
    check_host(needed, budget())
}

/// Refuses buffers of `needed` bytes, which processes share, if they do not fit on this host.
pub fn check_shared(needed: u64) -> Result<(), ParameterError> {
    let budget = budget();
    if needed <= budget {
        return Ok(());
    }
    let (needed, budget) = (needed.div_ceil(GIB), budget / GIB);
    let message = format!(
        "the buffers of this run do not fit on this host: {needed} GiB needed, {budget} GiB to spare"
    );
    Err(ParameterError::new(message, "use smaller parameters or fewer chips"))
}

fn check_host(needed: u64, budget: u64) -> Result<(), ParameterError> {
    if needed <= budget {
        return Ok(());
    }
    let (needed, budget) = (needed.div_ceil(GIB), budget / GIB);
    let message = format!(
        "the numbers of this run do not fit on this host: {needed} GiB needed, {budget} GiB to spare"
    );
    Err(ParameterError::new(message, "`--data off` gives the same simulated time without numbers"))
}

const GIB: u64 = 1 << 30;

/// How many bytes numbers may take: three quarters of what is available, for the rest of the program needs some too.
fn budget() -> u64 {
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    available.map_or(UNKNOWN, |bytes| bytes / 4 * 3)
}

/// What numbers may take on a host that does not say what it has.
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
        assert_eq!(check_host(8 * GIB, 8 * GIB), Ok(()));
        let error = check_host(8 * GIB + 1, 8 * GIB).unwrap_err();
        let message =
            "the numbers of this run do not fit on this host: 9 GiB needed, 8 GiB to spare";
        assert_eq!(error.message, message);
        assert!(error.help.contains("`--data off`"));
    }
}
