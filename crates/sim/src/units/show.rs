//! Printing of quantities that read back as the same value (UNIT-2).

use std::cmp::Reverse;

use crate::spec::Efficiency;
use crate::time::{Bandwidth, Capacity, Rate, Time};

use super::{QuantityKind, UNLIMITED};

/// Formats a bandwidth in the unit with the shortest text: `128 GB/s`, `500 MiB/s`, `unlimited`.
pub fn show_bandwidth(bandwidth: Bandwidth) -> String {
    limited(bandwidth.as_per_second(), QuantityKind::Bandwidth)
}

/// Formats a compute rate: `8.192 TFLOP/s`, `unlimited`.
pub fn show_rate(rate: Rate) -> String {
    limited(rate.as_per_second(), QuantityKind::Rate)
}

/// Formats a time in the unit with the shortest text: `1 us`, `1.5 ns`, `0 ns`.
pub fn show_time(time: Time) -> String {
    if time == Time::ZERO { "0 ns".to_owned() } else { shortest(time.as_ps(), QuantityKind::Time) }
}

/// Formats a capacity: `2 MiB`, `unlimited`.
pub fn show_capacity(capacity: Capacity) -> String {
    match capacity {
        Capacity::Unlimited => UNLIMITED.to_owned(),
        Capacity::Limited(bytes) => bytes.to_string(),
    }
}

/// Formats an efficiency: `0.85`, `1`.
pub fn show_efficiency(efficiency: Efficiency) -> String {
    let (whole, part) = (
        efficiency.as_millionths() / Efficiency::UNITS,
        efficiency.as_millionths() % Efficiency::UNITS,
    );
    let text = format!("{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn limited(value: Option<u64>, kind: QuantityKind) -> String {
    value.map_or_else(|| UNLIMITED.to_owned(), |value| shortest(value, kind))
}

/// Formats `value` in the unit with at most three decimals and the fewest digits; the larger of equal units.
fn shortest(value: u64, kind: QuantityKind) -> String {
    let units = kind.units().iter().filter(|unit| unit.listed);
    let exact = units.filter_map(|unit| Some((decimal(value, unit.factor)?, unit)));
    let digits = |number: &str| number.bytes().filter(u8::is_ascii_digit).count();
    let best = exact.min_by_key(|(number, unit)| (digits(number), Reverse(unit.factor)));
    let (number, unit) = best.expect("UNIT-2: the smallest unit of a kind is one");
    format!("{number} {}", unit.name)
}

/// Formats `value / factor`, if that is at least one and exact with three decimals.
fn decimal(value: u64, factor: u64) -> Option<String> {
    let thousandths = u128::from(value % factor) * 1_000;
    if value < factor || thousandths % u128::from(factor) != 0 {
        return None;
    }
    let decimals = format!("{:03}", thousandths / u128::from(factor));
    let text = format!("{}.{decimals}", value / factor);
    Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}
