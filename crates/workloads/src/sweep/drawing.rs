//! A sweep as curves, in SVG: the first axis with several values from left to right, a curve for each choice of the others.

use super::{Row, Sweep};
use crate::truth::drawing::{Axis, escape};
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
/// Room around the curves: left, top, right, bottom.
const MARGIN: [f64; 4] = [80.0, 40.0, 220.0, 60.0];
const COLOURS: [&str; 8] =
    ["#1b6ca8", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#666666"];

/// Draws the rows that have a time.
pub fn svg(sweep: &Sweep, rows: &[Row]) -> String {
    let [left, top, right, bottom] = MARGIN;
    let along = axis_across(rows);
    let (values, curves) = curves(sweep, rows, along.as_deref());
    let times = curves.iter().flat_map(|curve| curve.places.values().copied());
    let y = Axis::new(times.chain(curves.is_empty().then_some(1.0)), HEIGHT - bottom, top);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"22\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
        escape(&format!("{}: simulated time", sweep.workload.name)),
    );
    let (end, floor) = (WIDTH - right, HEIGHT - bottom);
    let x = |at: usize| left + (end - left) * (count(at) + 0.5) / count(values.len().max(1));
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
    let step = values.len().div_ceil(12).max(1);
    for (at, value) in values.iter().enumerate().step_by(step) {
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            x(at),
            floor + 16.0,
            escape(value)
        );
    }
    let name = along.unwrap_or_default();
    let _ = writeln!(
        text,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\n\
         <rect x=\"{left}\" y=\"{top}\" width=\"{:.0}\" height=\"{:.0}\" fill=\"none\" stroke=\"#888\"/>",
        f64::midpoint(left, end),
        floor + 40.0,
        escape(&name),
        end - left,
        floor - top,
    );
    for (number, curve) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let places: Vec<(f64, f64)> =
            curve.places.iter().map(|(at, time)| (x(*at), y.place(*time))).collect();
        draw(&mut text, curve, &places, colour, (end + 14.0, top + 14.0 + 16.0 * count(number)));
    }
    text + "</svg>\n"
}

/// Draws one curve, and its name at `legend`.
fn draw(text: &mut String, curve: &Curve, places: &[(f64, f64)], colour: &str, legend: (f64, f64)) {
    let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
        line.join(" ")
    );
    for ((x, y), time) in places.iter().zip(curve.places.values()) {
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{time:.3} us</title></circle>"
        );
    }
    let (x, y) = legend;
    let _ = writeln!(
        text,
        "<circle cx=\"{x:.0}\" cy=\"{:.0}\" r=\"3\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{y:.0}\">{}</text>",
        y - 4.0,
        x + 8.0,
        escape(&curve.name)
    );
}

/// One curve: times in microseconds by the position of their value.
struct Curve {
    name: String,
    places: BTreeMap<usize, f64>,
}

#[expect(clippy::cast_precision_loss, reason = "few values")]
fn count(number: usize) -> f64 {
    number as f64
}

/// The first name whose value differs between points.
fn axis_across(rows: &[Row]) -> Option<String> {
    let first = &rows.first()?.point;
    let differs =
        |name: &&String| rows.iter().any(|row| row.point.value(name) != first.value(name));
    first.settings.iter().map(|(name, _)| name).find(differs).cloned()
}

/// The values from left to right, and the curves, in the order of the rows.
#[expect(clippy::cast_precision_loss, reason = "a time is drawn, not added up")]
fn curves(sweep: &Sweep, rows: &[Row], along: Option<&str>) -> (Vec<String>, Vec<Curve>) {
    let (mut values, mut curves): (Vec<String>, Vec<Curve>) = (Vec::new(), Vec::new());
    for row in rows {
        let value = along.and_then(|name| row.point.value(name)).unwrap_or_default();
        let at = values.iter().position(|known| known == value).unwrap_or_else(|| {
            values.push(value.to_owned());
            values.len() - 1
        });
        let Some(time) = row.time() else { continue };
        let others = row.point.settings.iter().filter(|(name, _)| Some(name.as_str()) != along);
        let others = others.map(|(name, value)| format!("{}={value}", short(name)));
        let machine = sweep.machine_name(&row.point).map(str::to_owned);
        let name = machine.into_iter().chain(others).collect::<Vec<_>>().join(" ");
        let place = (at, time.as_ps() as f64 / 1e6);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.places.extend([place]),
            None => curves.push(Curve { name, places: BTreeMap::from([place]) }),
        }
    }
    (values, curves)
}

/// The last part of a dotted name.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
