//! Numbers as people read them.

pub(crate) use phalanx_sim::report::figures::time;

/// Returns `1 SIP`, `4 SIPs`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
