//! Measured and simulated times as curves, in SVG.

use super::compare::{Compared, ComparedPoint};
use super::table::Subject;
use std::fmt::Write;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 360.0;
/// Room for the axes of a panel: left, top, right, bottom.
const MARGIN: [f64; 4] = [70.0, 44.0, 20.0, 46.0];
/// Panels side by side.
const ACROSS: usize = 2;

/// Draws every table: measured points, and a curve of simulated times. Both axes are logarithmic.
pub fn svg(tables: &[Compared]) -> String {
    let rows = tables.len().div_ceil(ACROSS).max(1);
    let across = tables.len().clamp(1, ACROSS);
    let (width, height) = (WIDTH * count(across), HEIGHT * count(rows));
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (at, table) in tables.iter().enumerate() {
        let (x, y) = (WIDTH * count(at % ACROSS), HEIGHT * count(at / ACROSS));
        let _ = writeln!(text, "<g transform=\"translate({x:.0} {y:.0})\">");
        panel(&mut text, table);
        text.push_str("</g>\n");
    }
    text + "</svg>\n"
}

#[expect(clippy::cast_precision_loss, reason = "few panels")]
fn count(number: usize) -> f64 {
    number as f64
}

/// A logarithmic axis from `least` to `most`, on `from` to `to`.
pub(crate) struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    pub(crate) fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values {
            (least, most) = (least.min(value), most.max(value));
        }
        let (least, most) = if least < most { (least, most) } else { (least / 2.0, least * 2.0) };
        Self { least: least / 1.15, most: most * 1.15, from, to }
    }

    pub(crate) fn place(&self, value: f64) -> f64 {
        let part = (value / self.least).ln() / (self.most / self.least).ln();
        self.from + part * (self.to - self.from)
    }

    /// Powers of `base` on the axis, at most eight.
    pub(crate) fn marks(&self, base: f64) -> Vec<f64> {
        let powers = (0..400).map(|power| base.powi(power - 200));
        let all: Vec<f64> =
            powers.filter(|mark| *mark >= self.least && *mark <= self.most).collect();
        let step = all.len().div_ceil(8).max(1);
        all.into_iter().step_by(step).collect()
    }
}

fn panel(text: &mut String, compared: &Compared) {
    let table = &compared.table;
    let [left, top, right, bottom] = MARGIN;
    let mut points: Vec<&ComparedPoint> = compared.points.iter().collect();
    points.sort_by(|one, other| one.point.size.extent().total_cmp(&other.point.size.extent()));
    let sizes = points.iter().map(|point| point.point.size.extent());
    let x = Axis::new(sizes, left, WIDTH - right);
    let times = points.iter().flat_map(|point| [point.point.measured_us, point.simulated.us()]);
    let y = Axis::new(times, HEIGHT - bottom, top);
    let summary = compared.summary();
    let _ = writeln!(
        text,
        "<text x=\"{left}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{}</text>\n\
         <text x=\"{left}\" y=\"34\" fill=\"#555\">{}: mean error {:.1} %, worst {:.1} %</text>",
        escape(&table.heading()),
        escape(&table.file),
        100.0 * summary.mean,
        100.0 * summary.worst,
    );
    let is_gemm = table.subject == Subject::Gemm;
    axes(text, &x, &y, is_gemm);
    let at = |size: f64, time: f64| (x.place(size), y.place(time));
    // The sizes of matrix products have no order along a curve.
    if !is_gemm {
        let places = points.iter().map(|point| at(point.point.size.extent(), point.simulated.us()));
        let line: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#d95f02\" stroke-width=\"1.5\"/>",
            line.join(" ")
        );
    }
    for point in points {
        let size = point.point.size.extent();
        let ((px, simulated), (_, measured)) =
            (at(size, point.simulated.us()), at(size, point.point.measured_us));
        let _ = writeln!(
            text,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"5\" height=\"5\" fill=\"#d95f02\"/>\
             <circle cx=\"{px:.1}\" cy=\"{measured:.1}\" r=\"3\" fill=\"none\" stroke=\"#1b6ca8\" stroke-width=\"1.5\">\
             <title>{}: measured {:.2} us, simulated {:.2} us, {:+.1} %</title></circle>",
            px - 2.5,
            simulated - 2.5,
            point.point.size,
            point.point.measured_us,
            point.simulated.us(),
            100.0 * point.error,
        );
    }
}

fn axes(text: &mut String, x: &Axis, y: &Axis, is_gemm: bool) {
    let [left, top, right, bottom] = MARGIN;
    let (end, floor) = (WIDTH - right, HEIGHT - bottom);
    for mark in x.marks(if is_gemm { 10.0 } else { 2.0 }) {
        let at = x.place(mark);
        let name = if is_gemm { format!("{mark:.0e}") } else { bytes(mark) };
        let _ = writeln!(
            text,
            "<line x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{floor}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{name}</text>",
            floor + 15.0
        );
    }
    for mark in y.marks(10.0) {
        let at = y.place(mark);
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{mark} us</text>",
            left - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        text,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{:.0}\" height=\"{:.0}\" fill=\"none\" stroke=\"#888\"/>\n\
         <circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"none\" stroke=\"#1b6ca8\" stroke-width=\"1.5\"/>\
         <text x=\"{}\" y=\"{}\">measured</text>\
         <rect x=\"{}\" y=\"{}\" width=\"5\" height=\"5\" fill=\"#d95f02\"/>\
         <text x=\"{}\" y=\"{}\">simulated</text>",
        end - left,
        floor - top,
        left + 14.0,
        top + 14.0,
        left + 22.0,
        top + 18.0,
        left + 11.5,
        top + 27.5,
        left + 22.0,
        top + 34.0,
    );
}

/// Bytes in binary units: `64K`.
fn bytes(bytes: f64) -> String {
    let units = [("G", 1_073_741_824.0), ("M", 1_048_576.0), ("K", 1024.0)];
    match units.into_iter().find(|(_, factor)| bytes >= *factor) {
        Some((unit, factor)) => format!("{:.0}{unit}", bytes / factor),
        None => format!("{bytes:.0}"),
    }
}

/// Text without the characters that XML has a meaning for, or refuses.
pub(crate) fn escape(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain.fold(String::new(), |mut escaped, c| {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
        escaped
    })
}
