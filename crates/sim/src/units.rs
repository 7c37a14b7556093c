//! Quantities in text: `128 GB/s`, `8.192 TFLOP/s`, `1.5 ns`, `2 MiB`, `unlimited`.
//!
//! - **UNIT-1 (exact).** A quantity is read in whole numbers, never through a float: a quantity without an exact
//!   representation (half a picosecond, a third of a byte) is refused, not rounded.
//! - **UNIT-2 (round trip).** A printed quantity reads back as the same value.
//! - **UNIT-3 (helpful).** The error of a refused quantity lists the allowed units, and a spelling suggestion if any.
//!
//! `KB`, `MB`, `GB` are powers of 1000; `KiB`, `MiB`, `GiB` are powers of 1024. A number of bytes may have no unit, or a
//! bare `K`, `M`, `G`, which are powers of 1024 as in common benchmark programs.

use crate::spec::Efficiency;
use crate::spelling::suggestion;
use crate::time::{Bandwidth, Bytes, Capacity, Rate, Time};

mod error;
mod number;
mod show;

pub use error::QuantityError;
pub use show::{show_bandwidth, show_capacity, show_efficiency, show_rate, show_time};

use error::{Reason, refuse, shorten};
use number::Number;

/// Parses a bandwidth, such as `128 GB/s` or `unlimited`; never zero.
///
/// ```
/// use phalanx_sim::{Rate, units};
/// assert_eq!(units::parse_bandwidth("1.5 GB/s"), Ok(Rate::per_second(1_500_000_000).unwrap()));
/// assert_eq!(units::parse_bandwidth("unlimited"), Ok(Rate::UNLIMITED));
/// assert_eq!(
///     units::parse_bandwidth("128 GBps").unwrap_err().help().unwrap(),
///     "did you mean `GB/s`? allowed units: B/s, KB/s, MB/s, GB/s, TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s, or `unlimited`"
/// );
/// ```
pub fn parse_bandwidth(text: &str) -> Result<Bandwidth, QuantityError> {
    rate(text, QuantityKind::Bandwidth)
}

/// Parses a compute rate, such as `8.192 TFLOP/s` or `unlimited`; never zero.
pub fn parse_rate(text: &str) -> Result<Rate, QuantityError> {
    rate(text, QuantityKind::Rate)
}

/// Parses a time, such as `500 ns`, `1 us`, `0 ns`.
pub fn parse_time(text: &str) -> Result<Time, QuantityError> {
    Ok(Time::ps(whole(text, QuantityKind::Time)?))
}

/// Parses a number of bytes, such as `16 KB`, `2 MiB`, `64K` or `512`.
pub fn parse_bytes(text: &str) -> Result<Bytes, QuantityError> {
    Ok(Bytes(whole(text, QuantityKind::Bytes)?))
}

/// Parses a capacity: a number of bytes that is not zero, or `unlimited`.
pub fn parse_capacity(text: &str) -> Result<Capacity, QuantityError> {
    if text.trim() == UNLIMITED {
        return Ok(Capacity::Unlimited);
    }
    let bytes = whole(text, QuantityKind::Capacity)?;
    if bytes == 0 {
        refuse(text, QuantityKind::Capacity, Reason::Zero)
    } else {
        Ok(Capacity::Limited(Bytes(bytes)))
    }
}

/// Parses a whole number without a unit, zero included.
pub fn parse_count(text: &str) -> Result<u64, QuantityError> {
    whole(text, QuantityKind::Count)
}

/// Parses a part of a whole, as in `0.85`: more than zero, at most one, at most six decimals.
pub fn parse_efficiency(text: &str) -> Result<Efficiency, QuantityError> {
    let millionths = whole(text, QuantityKind::Efficiency)?;
    let reason = if millionths == 0 { Reason::Zero } else { Reason::TooLarge };
    let found = u32::try_from(millionths).ok().and_then(Efficiency::millionths);
    found.map_or_else(|| refuse(text, QuantityKind::Efficiency, reason), Ok)
}

/// The word for no limit.
pub const UNLIMITED: &str = "unlimited";

/// The expected kind of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityKind {
    /// Bytes a second.
    Bandwidth,
    /// Floating-point operations a second.
    Rate,
    /// A span of time.
    Time,
    /// A number of bytes.
    Bytes,
    /// A number of bytes, or no limit.
    Capacity,
    /// A whole number.
    Count,
    /// A part of a whole.
    Efficiency,
}

const KINDS: [QuantityKind; 4] =
    [QuantityKind::Bandwidth, QuantityKind::Rate, QuantityKind::Time, QuantityKind::Bytes];

impl QuantityKind {
    /// Returns the name with its article: `a bandwidth`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "a bandwidth",
            Self::Rate => "a compute rate",
            Self::Time => "a time",
            Self::Bytes => "a number of bytes",
            Self::Capacity => "a capacity",
            Self::Count => "a whole number",
            Self::Efficiency => "an efficiency",
        }
    }

    /// Returns the allowed units in words.
    pub fn allowed(self) -> String {
        let units: Vec<&str> =
            self.units().iter().filter(|unit| unit.listed).map(|unit| unit.name).collect();
        let units = units.join(", ");
        match self {
            Self::Bandwidth | Self::Rate => format!("allowed units: {units}, or `{UNLIMITED}`"),
            Self::Capacity => format!("allowed units: {units}, none for bytes, or `{UNLIMITED}`"),
            Self::Bytes => format!("allowed units: {units}, or none for bytes"),
            Self::Time => format!("allowed units: {units}"),
            Self::Count => "allowed: digits only, as in `8`".to_owned(),
            Self::Efficiency => "allowed: more than 0, at most 1, as in `0.85`".to_owned(),
        }
    }

    /// Returns the smallest unit in words.
    const fn grain(self) -> &'static str {
        match self {
            Self::Bandwidth => "bytes a second",
            Self::Rate => "operations a second",
            Self::Time => "picoseconds",
            Self::Bytes | Self::Capacity => "bytes",
            Self::Count => "things",
            Self::Efficiency => "millionths",
        }
    }

    const fn units(self) -> &'static [Unit] {
        match self {
            Self::Bandwidth => BANDWIDTH,
            Self::Rate => RATE,
            Self::Time => TIME,
            Self::Bytes | Self::Capacity => BYTES,
            Self::Count | Self::Efficiency => &[],
        }
    }

    /// True if a number without a unit is allowed.
    const fn takes_bare_number(self) -> bool {
        matches!(self, Self::Bytes | Self::Capacity | Self::Count | Self::Efficiency)
    }

    const fn takes_unlimited(self) -> bool {
        matches!(self, Self::Bandwidth | Self::Rate | Self::Capacity)
    }
}

struct Unit {
    name: &'static str,
    factor: u64,
    /// True for the main spelling, which messages list and printing uses; false for an alternative spelling.
    listed: bool,
}

const fn unit(name: &'static str, factor: u64) -> Unit {
    Unit { name, factor, listed: true }
}

const fn spelling(name: &'static str, factor: u64) -> Unit {
    Unit { name, factor, listed: false }
}

const KILO: u64 = 1_000;
const MEGA: u64 = 1_000 * KILO;
const GIGA: u64 = 1_000 * MEGA;
const TERA: u64 = 1_000 * GIGA;
const PETA: u64 = 1_000 * TERA;

const BANDWIDTH: &[Unit] = &[
    unit("B/s", 1),
    unit("KB/s", KILO),
    unit("MB/s", MEGA),
    unit("GB/s", GIGA),
    unit("TB/s", TERA),
    unit("PB/s", PETA),
    unit("KiB/s", 1 << 10),
    unit("MiB/s", 1 << 20),
    unit("GiB/s", 1 << 30),
    unit("TiB/s", 1 << 40),
    spelling("kB/s", KILO),
];

const RATE: &[Unit] = &[
    unit("FLOP/s", 1),
    unit("KFLOP/s", KILO),
    unit("MFLOP/s", MEGA),
    unit("GFLOP/s", GIGA),
    unit("TFLOP/s", TERA),
    unit("PFLOP/s", PETA),
];

const TIME: &[Unit] = &[
    unit("ps", 1),
    unit("ns", KILO),
    unit("us", MEGA),
    unit("ms", GIGA),
    unit("s", TERA),
    spelling("\u{b5}s", MEGA),
    spelling("\u{3bc}s", MEGA),
];

const BYTES: &[Unit] = &[
    unit("B", 1),
    unit("KB", KILO),
    unit("MB", MEGA),
    unit("GB", GIGA),
    unit("TB", TERA),
    unit("KiB", 1 << 10),
    unit("MiB", 1 << 20),
    unit("GiB", 1 << 30),
    unit("TiB", 1 << 40),
    spelling("kB", KILO),
    spelling("K", 1 << 10),
    spelling("M", 1 << 20),
    spelling("G", 1 << 30),
    spelling("T", 1 << 40),
];

fn rate(text: &str, kind: QuantityKind) -> Result<Rate, QuantityError> {
    if text.trim() == UNLIMITED {
        return Ok(Rate::UNLIMITED);
    }
    Rate::per_second(whole(text, kind)?).map_or_else(|| refuse(text, kind, Reason::Zero), Ok)
}

fn whole(text: &str, kind: QuantityKind) -> Result<u64, QuantityError> {
    read(text.trim(), kind).or_else(|reason| refuse(text, kind, reason))
}

fn read(text: &str, kind: QuantityKind) -> Result<u64, Reason> {
    let number = Number::split(text)?;
    let factor = factor(number.unit, kind)?;
    number.times(factor)
}

fn factor(unit: &str, kind: QuantityKind) -> Result<u64, Reason> {
    if unit.is_empty() {
        return match kind {
            QuantityKind::Efficiency => Ok(Efficiency::UNITS.into()),
            _ if kind.takes_bare_number() => Ok(1),
            _ => Err(Reason::MissingUnit),
        };
    }
    if let Some(known) = kind.units().iter().find(|known| known.name == unit) {
        return Ok(known.factor);
    }
    Err(wrong_unit(unit, kind))
}

fn wrong_unit(unit: &str, kind: QuantityKind) -> Reason {
    let is_of =
        |kind: &QuantityKind| kind.units().iter().any(|known| known.name == unit && known.listed);
    match KINDS.into_iter().find(is_of) {
        Some(found) if kind != QuantityKind::Count => Reason::WrongKind { found },
        _ => Reason::UnknownUnit { unit: shorten(unit), suggestion: suggested_unit(unit, kind) },
    }
}

/// Returns the unit closest to a misspelt one: `GBps`, `Gb/s`, `gb/sec`, `TFLOPS`, `usec`, `mib`.
fn suggested_unit(unit: &str, kind: QuantityKind) -> Option<&'static str> {
    let listed = || kind.units().iter().filter(|unit| unit.listed).map(|unit| unit.name);
    let plain = simplify(unit);
    listed().find(|name| simplify(name) == plain).or_else(|| suggestion(unit, listed()))
}

/// Returns the unit in lower case, without the marks in which spellings of the same unit differ.
fn simplify(unit: &str) -> String {
    let lower = unit.trim().to_lowercase().replace("/sec", "/s").replace("per second", "/s");
    let lower = lower.strip_suffix("onds").unwrap_or(&lower);
    let lower = lower.strip_suffix("ec").unwrap_or(lower);
    let lower = lower.replace("bit", "b").replace("bytes", "b").replace("byte", "b");
    lower.replace("bps", "bs").replace("/s", "s").replace(' ', "")
}

#[cfg(test)]
mod tests;
