//! The points of a sweep: all combinations, a sample of them, or a file of points.

use super::axis::Axis;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde_json::{Map, Value};
use std::fmt;

/// One point: a machine, figures of it, and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The machine, by its position.
    pub machine: usize,
    /// Names and values. A name with a dot is a figure of the machine.
    pub settings: Vec<(String, String)>,
}

/// The most points of a sweep.
pub const MOST: usize = 10_000_000;

/// A list of points that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointsError {
    /// The line of the file, from 1; `None` if no line is wrong.
    pub line: Option<usize>,
    /// The problem.
    pub problem: String,
}

impl PointsError {
    fn new(problem: impl Into<String>) -> Self {
        Self { line: None, problem: problem.into() }
    }

    fn at(line: usize, problem: impl Into<String>) -> Self {
        Self { line: Some(line), problem: problem.into() }
    }
}

impl fmt::Display for PointsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for PointsError {}

impl Point {
    /// The figures of the machine.
    pub(super) fn overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs().filter(|(name, _)| name.contains('.'))
    }

    /// The parameters of the workload.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs().filter(|(name, _)| !name.contains('.'))
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of a name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The number of settings that differ from another point's.
    pub(super) fn differences(&self, other: &Self) -> usize {
        let pairs = self.settings.iter().zip(&other.settings);
        usize::from(self.machine != other.machine) + pairs.filter(|(one, two)| one != two).count()
    }
}

/// All combinations; the last axis changes fastest.
pub(super) fn grid(machines: usize, axes: &[Axis]) -> Result<Vec<Point>, PointsError> {
    for (at, axis) in axes.iter().enumerate() {
        if axes[..at].iter().any(|other| other.name == axis.name) {
            return Err(PointsError::new(format!("`{}` is varied twice", axis.name)));
        }
    }
    let mut sizes = axes.iter().map(|axis| axis.values.len());
    let count = sizes.try_fold(machines, usize::checked_mul);
    let count = count.filter(|count| *count <= MOST);
    let count = count.ok_or_else(|| PointsError::new(format!("more than {MOST} points")))?;
    Ok((0..count).map(|index| combination(index, axes)).collect())
}

/// The combination of this number.
fn combination(mut index: usize, axes: &[Axis]) -> Point {
    let mut settings = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        let value = &axis.values[index % axis.values.len()];
        settings.push((axis.name.clone(), value.clone()));
        index /= axis.values.len();
    }
    settings.reverse();
    Point { machine: index, settings }
}

/// Draws `count` of the points, in their order. The same seed draws the same points.
pub fn sample(points: Vec<Point>, count: usize, seed: u64) -> Vec<Point> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (mut left, mut wanted) = (points.len() as u64, count as u64);
    let drawn = points.into_iter().filter(|_| {
        // Each point is drawn with the chance that is left: every choice of `count` points is equally likely.
        let is_drawn = random.next_u64() % left.max(1) < wanted;
        left -= 1;
        wanted -= u64::from(is_drawn);
        is_drawn
    });
    drawn.collect()
}

/// Reads points: CSV with a line of names, or JSON with one object a line. Names are those of axes, or `machine` with the name of
/// one of `machines`.
pub fn read_points(text: &str, machines: &[String]) -> Result<Vec<Point>, PointsError> {
    let first = text.lines().find(|line| !line.trim().is_empty());
    match first {
        Some(line) if line.trim_start().starts_with('{') => objects(text, machines),
        Some(_) => table(text, machines),
        None => Err(PointsError::new(
            "there is no point: expected CSV with a line of names, or JSON lines",
        )),
    }
}

/// The lines that are not empty, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
}

fn objects(text: &str, machines: &[String]) -> Result<Vec<Point>, PointsError> {
    let mut points = Vec::new();
    for (number, line) in lines(text) {
        let object: Map<String, Value> = serde_json::from_str(line)
            .map_err(|error| PointsError::at(number, format!("expected a JSON object: {error}")))?;
        let mut settings = Vec::new();
        for (name, value) in object {
            let value = match value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                other => {
                    let problem = format!("`{name}` is a text or a number, not `{other}`");
                    return Err(PointsError::at(number, problem));
                }
            };
            settings.push((name, value));
        }
        points.push(point(number, settings, machines)?);
    }
    Ok(points)
}

fn table(text: &str, machines: &[String]) -> Result<Vec<Point>, PointsError> {
    let mut rows = lines(text);
    let names: Vec<&str> =
        rows.next().map(|(_, line)| line.split(',').map(str::trim).collect()).unwrap_or_default();
    let mut points = Vec::new();
    for (number, line) in rows {
        let values: Vec<&str> = line.split(',').map(str::trim).collect();
        if values.len() != names.len() {
            let problem = format!("{} values for {} names", values.len(), names.len());
            return Err(PointsError::at(number, problem));
        }
        let pairs = names.iter().zip(values);
        let settings = pairs.map(|(name, value)| ((*name).to_owned(), value.to_owned())).collect();
        points.push(point(number, settings, machines)?);
    }
    Ok(points)
}

fn point(
    line: usize,
    settings: Vec<(String, String)>,
    machines: &[String],
) -> Result<Point, PointsError> {
    let mut point = Point { machine: 0, settings: Vec::new() };
    for (name, value) in settings {
        if name.is_empty() || value.is_empty() {
            return Err(PointsError::at(line, "a name or a value is empty"));
        }
        if name == "machine" {
            let known = machines.iter().position(|machine| *machine == value);
            let problem = || format!("`{value}` is none of the machines: {}", machines.join(", "));
            point.machine = known.ok_or_else(|| PointsError::at(line, problem()))?;
        } else if point.value(&name).is_some() {
            return Err(PointsError::at(line, format!("`{name}` is there twice")));
        } else {
            point.settings.push((name, value));
        }
    }
    Ok(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(texts: &[&str]) -> Vec<Axis> {
        texts.iter().map(|text| Axis::parse(text).unwrap()).collect()
    }

    #[test]
    fn the_last_axis_changes_fastest() {
        let points = grid(2, &axes(&["a=1,2", "b=x,y,z"])).unwrap();
        assert_eq!(points.len(), 12);
        let texts: Vec<String> = points
            .iter()
            .map(|point| format!("{}{}{}", point.machine, point.settings[0].1, point.settings[1].1))
            .collect();
        assert_eq!(texts[..4], ["01x", "01y", "01z", "02x"]);
        assert_eq!(texts[11], "12z");
    }

    #[test]
    fn a_sample_keeps_the_order_and_has_the_wanted_size() {
        let points = grid(1, &axes(&["a=1..100:+1"])).unwrap();
        let drawn = sample(points.clone(), 10, 7);
        assert_eq!(drawn.len(), 10);
        assert_eq!(drawn, sample(points.clone(), 10, 7));
        assert_ne!(drawn, sample(points.clone(), 10, 8));
        let places: Vec<usize> =
            drawn.iter().map(|one| points.iter().position(|point| point == one).unwrap()).collect();
        assert!(places.is_sorted());
        assert_eq!(sample(points.clone(), 1000, 1), points);
    }

    #[test]
    fn points_are_read_from_csv_and_json_alike() {
        let machines = ["pair".to_owned(), "bare".to_owned()];
        let csv = "machine,bytes\nbare, 16KiB\npair,32KiB\n";
        let json = "{\"machine\": \"bare\", \"bytes\": \"16KiB\"}\n\n{\"machine\": \"pair\", \"bytes\": \"32KiB\"}\n";
        let points = read_points(csv, &machines).unwrap();
        assert_eq!(points, read_points(json, &machines).unwrap());
        assert_eq!((points[0].machine, points[0].value("bytes")), (1, Some("16KiB")));
    }

    #[test]
    fn wrong_files_of_points_name_the_line() {
        let machines = ["pair".to_owned()];
        let cases = [
            ("", "there is no point"),
            ("a,b\n1\n", "line 2: 1 values for 2 names"),
            ("{\"a\": [1]}", "line 1: `a` is a text or a number"),
            ("{\"a\": 1}\nnothing", "line 2: expected a JSON object"),
            ("machine\nother\n", "line 2: `other` is none of the machines: pair"),
            ("a,a\n1,2\n", "line 2: `a` is there twice"),
        ];
        for (text, problem) in cases {
            let error = read_points(text, &machines).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
