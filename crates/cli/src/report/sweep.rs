//! A sweep as the table of nccl-tests, with the algorithm, what bound it and its share of the links' bound at the end of each
//! row, and as JSON.

use phalanx_sim::Time;
use phalanx_sim::names::Names;
use phalanx_sim::value::DType;
use phalanx_torch::ccl::sweep::{Figures, Measured, Sweep};
use std::fmt::Write;

/// The subject of a table.
pub(crate) struct Heading<'a> {
    pub(crate) sweep: &'a Sweep,
    pub(crate) sizes: &'a [u64],
    pub(crate) check: bool,
}

/// Makes the lines.
pub(crate) struct Table<'a>(Heading<'a>);

impl<'a> Table<'a> {
    pub(crate) const fn new(heading: Heading<'a>) -> Self {
        Self(heading)
    }

    /// Everything above the first row.
    pub(crate) fn heading(&self) -> String {
        let Heading { sweep, sizes, check } = &self.0;
        let (least, most) = (sizes.first().unwrap_or(&0), sizes.last().unwrap_or(&0));
        let mut text = format!(
            "# phalanx version {}\n# Collective test starting: {}\n\
             # machine {} ranks {} minBytes {least} maxBytes {most} iters: 1 validation: {}\n#\n# Using devices\n",
            env!("CARGO_PKG_VERSION"),
            sweep.operation,
            sweep.machine.name,
            sweep.ranks(),
            u8::from(*check),
        );
        let names = Names::new(&sweep.machine);
        for rank in (0..).take(sweep.ranks().min(DEVICES)) {
            let (machine, address) = (&sweep.machine.name, names.address(rank));
            let _ = writeln!(text, "#  Rank {rank:2} on {machine:>10} device {rank:2} [{address}]");
        }
        if sweep.ranks() > DEVICES {
            let _ = writeln!(text, "#  and {} more", sweep.ranks() - DEVICES);
        }
        let blank = "";
        let _ = writeln!(
            text,
            "#\n# {blank:>10}  {blank:>12}  {blank:>8}  {blank:>6}  {blank:>6}           out-of-place                       in-place          "
        );
        let both = |time: &str, algbw: &str, busbw: &str, wrong: &str| {
            format!("  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}").repeat(2)
        };
        let _ = writeln!(
            text,
            "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}  {:<18}  {:<7}  % of bound",
            "size",
            "count",
            "type",
            "redop",
            "root",
            both("time", "algbw", "busbw", "#wrong"),
            "algorithm",
            "bound"
        );
        let _ = writeln!(
            text,
            "# {:>10}  {:>12}  {blank:>8}  {blank:>6}  {blank:>6}{}",
            "(B)",
            "(elements)",
            both("(us)", "(GB/s)", "(GB/s)", "")
        );
        text
    }

    /// One row.
    pub(crate) fn row(&self, row: &Measured) -> String {
        let sweep = self.0.sweep;
        let redop = if sweep.operation.combines() { sweep.combine.name() } else { "none" };
        let root = if sweep.operation.has_root() { "0" } else { "-1" };
        format!(
            "{:>12}  {:>12}  {:>8}  {redop:>6}  {root:>6}{}{}  {:<18}  {:<7}  {:>10}\n",
            row.bytes,
            row.count,
            type_name(sweep.dtype),
            figures(&row.out_of_place),
            figures(&row.in_place),
            row.algorithm,
            row.bound.name(),
            row.percent_of_bound()
                .map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}")),
        )
    }

    /// Number of wrong elements in a row.
    pub(crate) fn wrong_in(row: &Measured) -> u64 {
        row.out_of_place.wrong.unwrap_or(0) + row.in_place.wrong.unwrap_or(0)
    }

    /// Everything below the last row.
    pub(crate) fn ending(
        &self,
        rows: &[Measured],
        unfit: &[(String, String)],
        compared: bool,
    ) -> String {
        let wrong: u64 = rows.iter().map(Self::wrong_in).sum();
        let verdict = if wrong == 0 { "OK" } else { "FAILED" };
        let mut text = format!("# {:<20} : {wrong} {verdict}\n", "Out of bounds values");
        let _ = writeln!(text, "# {:<20} : {}", "Avg bus bandwidth", short(average(rows)));
        for (name, reason) in unfit {
            let _ = writeln!(text, "# left out: {name}: {reason}");
        }
        if compared {
            for (from, to, name) in winners(rows) {
                let sizes = if from == to { format!("{from}") } else { format!("{from} to {to}") };
                let _ = writeln!(text, "# fastest at {sizes} B: {name}");
            }
        }
        let _ = writeln!(text, "#\n# Collective test concluded: {}", self.0.sweep.operation);
        text
    }

    pub(crate) fn json(rows: &[Measured]) -> JsonTable<'_> {
        JsonTable { rows: rows.iter().map(JsonRow::new).collect() }
    }
}

impl<'a> JsonRow<'a> {
    fn new(row: &'a Measured) -> Self {
        Self {
            bytes: row.bytes,
            algorithm: &row.algorithm,
            time_ps: row.out_of_place.time.as_ps(),
            algbw_gbps: row.out_of_place.algbw,
            busbw_gbps: row.out_of_place.busbw,
            bound: row.bound.name(),
            percent_of_bound: row.percent_of_bound(),
            wrong: row.out_of_place.wrong,
            count: row.count,
            in_place: JsonInPlace {
                time_ps: row.in_place.time.as_ps(),
                algbw_gbps: row.in_place.algbw,
                busbw_gbps: row.in_place.busbw,
                wrong: row.in_place.wrong,
            },
        }
    }
}

/// Number of devices in the list.
const DEVICES: usize = 16;

#[derive(serde::Serialize)]
pub(crate) struct JsonTable<'a> {
    rows: Vec<JsonRow<'a>>,
}

#[derive(serde::Serialize)]
struct JsonRow<'a> {
    bytes: u64,
    algorithm: &'a str,
    time_ps: u64,
    algbw_gbps: f64,
    busbw_gbps: f64,
    bound: &'static str,
    /// The least time that the links allow, in per cent of the time; null if they set no limit.
    percent_of_bound: Option<f64>,
    /// Null without a check.
    wrong: Option<u64>,
    count: usize,
    in_place: JsonInPlace,
}

#[derive(serde::Serialize)]
struct JsonInPlace {
    time_ps: u64,
    algbw_gbps: f64,
    busbw_gbps: f64,
    wrong: Option<u64>,
}

/// The names that nccl-tests has for types.
fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F16 => "half",
        DType::Bf16 => "bfloat16",
        DType::I32 => "int32",
        other => other.name(),
    }
}

fn figures(figures: &Figures) -> String {
    let wrong = figures.wrong.map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string());
    format!(
        "  {}  {}  {}  {wrong:>6}",
        fit(microseconds(figures.time), 7),
        fit(figures.algbw, 6),
        fit(figures.busbw, 6)
    )
}

#[expect(clippy::cast_precision_loss, reason = "a time is read, not added up")]
fn microseconds(time: Time) -> f64 {
    time.as_ps() as f64 / 1e6
}

/// As many decimals as fit, two at most.
fn fit(value: f64, width: usize) -> String {
    let digits = format!("{:.0}", value.trunc()).len();
    match digits {
        _ if digits + 3 <= width => format!("{value:width$.2}"),
        _ if digits + 2 <= width => format!("{value:width$.1}"),
        _ if digits <= width => format!("{value:width$.0}"),
        _ => format!("{:>width$}", format!("{value:.0e}")),
    }
}

/// Like `%g`: six digits that matter.
fn short(value: f64) -> String {
    let digits = format!("{:.0}", value.trunc().abs()).len();
    let text = format!("{value:.*}", 6_usize.saturating_sub(digits));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// The plain mean of all bus bandwidths.
fn average(rows: &[Measured]) -> f64 {
    let all = rows.iter().flat_map(|row| [row.out_of_place.busbw, row.in_place.busbw]);
    #[expect(clippy::cast_precision_loss, reason = "few rows")]
    let count = (rows.len() * 2).max(1) as f64;
    all.sum::<f64>() / count
}

/// The fastest algorithm, by range of sizes.
fn winners(rows: &[Measured]) -> Vec<(u64, u64, String)> {
    let mut winners: Vec<(u64, u64, String)> = Vec::new();
    for size in rows.chunk_by(|one, other| one.bytes == other.bytes) {
        let Some(best) = size.iter().min_by_key(|row| row.out_of_place.time) else { continue };
        match winners.last_mut() {
            Some((_, to, name)) if *name == best.algorithm => *to = best.bytes,
            _ => winners.push((best.bytes, best.bytes, best.algorithm.clone())),
        }
    }
    winners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_as_many_decimals_as_fit() {
        assert_eq!(fit(12.345, 7), "  12.35");
        assert_eq!(fit(12_345.67, 7), "12345.7");
        assert_eq!(fit(1_234_567.8, 7), "1234568");
        assert_eq!(fit(123_456_789.0, 7), "    1e8");
        assert_eq!(fit(0.0, 6), "  0.00");
    }

    #[test]
    fn averages_read_like_those_of_nccl_tests() {
        assert_eq!(short(12.5), "12.5");
        assert_eq!(short(0.0), "0");
        assert_eq!(short(123_456.789), "123457");
    }
}
