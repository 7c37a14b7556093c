//! One dimension of a sweep: `NAME=VALUES`.
//!
//! Values are a list, `1024,4096`, or a range with its step, `64..512GB/s:x2` (times two) or `1..9:+2` (plus two). Both ends of a
//! range have the unit of the last one.

use std::fmt;

/// A name and its values. A name with a dot is a figure of the machine, as in `--set`; others are parameters of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The name.
    pub name: String,
    /// The values, at least one.
    pub values: Vec<String>,
}

/// A text that is no axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisError {
    /// The text.
    pub text: String,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for AxisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.text, self.problem)
    }
}

impl std::error::Error for AxisError {}

/// The most values of one axis.
const MOST: usize = 100_000;

impl Axis {
    /// Reads `NAME=VALUES`.
    pub fn parse(text: &str) -> Result<Self, AxisError> {
        let error = |problem: String| AxisError { text: text.to_owned(), problem };
        let (name, values) = text
            .split_once('=')
            .map(|(name, values)| (name.trim(), values.trim()))
            .filter(|(name, values)| !name.is_empty() && !values.is_empty())
            .ok_or_else(|| error("a dimension is `NAME=VALUES`".to_owned()))?;
        let mut all = Vec::new();
        for item in values.split(',').map(str::trim) {
            match item.split_once("..") {
                _ if item.is_empty() => return Err(error("a value is empty".to_owned())),
                Some((from, rest)) => all.extend(range(from, rest).map_err(error)?),
                None => all.push(item.to_owned()),
            }
        }
        if let Some(twice) = all.iter().enumerate().find(|(at, value)| all[..*at].contains(value)) {
            return Err(error(format!("the value `{}` is there twice", twice.1)));
        }
        Ok(Self { name: name.to_owned(), values: all })
    }
}

/// The step of a range.
#[derive(Clone, Copy)]
enum Step {
    Plus(f64),
    Times(f64),
}

/// The values from `from` to the end that `rest` names, both included.
fn range(from: &str, rest: &str) -> Result<Vec<String>, String> {
    let no_step = || "a range has a step: `64..512GB/s:x2` or `1..9:+2`".to_owned();
    let (to, step) = rest.rsplit_once(':').ok_or_else(no_step)?;
    let step = step.trim();
    let amount = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let step = match (step.strip_prefix('x'), step.strip_prefix('+')) {
        (Some(factor), _) => Step::Times(amount(factor).ok_or_else(no_step)?),
        (_, Some(difference)) => Step::Plus(amount(difference).ok_or_else(no_step)?),
        _ => return Err(no_step()),
    };
    let (least, own_unit) = number(from)?;
    let (most, unit) = number(to)?;
    if !own_unit.is_empty() && own_unit != unit {
        return Err(format!("the ends of a range have one unit: `{own_unit}` is not `{unit}`"));
    }
    let leads_on = match step {
        Step::Plus(difference) => difference > 0.0,
        Step::Times(factor) => factor > 1.0 && least > 0.0,
    };
    if !leads_on || least > most {
        return Err("a range goes up: `:x2` needs a start above 0, `:+1` a step above 0".to_owned());
    }
    let values = steps(least, most, step)?;
    Ok(values.into_iter().map(|value| format!("{value}{unit}")).collect())
}

/// The numbers of a range. A number is computed from the first one, so that errors of rounding do not add up.
fn steps(least: f64, most: f64, step: Step) -> Result<Vec<f64>, String> {
    let mut values = Vec::new();
    // A last value that misses the end by rounding alone is the end.
    let end = most * (1.0 + 1e-9);
    for count in 0.. {
        let value = match step {
            Step::Plus(difference) => least + difference * f64::from(count),
            Step::Times(factor) => least * factor.powi(count),
        };
        if value > end {
            break;
        }
        if values.len() == MOST {
            return Err(format!("a range has at most {MOST} values"));
        }
        values.push(rounded(value));
    }
    Ok(values)
}

/// A number with twelve significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// A number and the unit behind it.
fn number(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number = text[..end].parse::<f64>();
    let number =
        number.map_err(|_| format!("an end of a range is a number and a unit: `{text}`"))?;
    let unit = text[end..].trim();
    if unit.contains(|c: char| c.is_ascii_digit()) {
        return Err(format!("an end of a range is a number and a unit: `{text}`"));
    }
    Ok((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).map_or_else(|error| vec![error.to_string()], |axis| axis.values)
    }

    #[test]
    fn lists_and_ranges_are_read() {
        assert_eq!(values("hidden=1024, 4096"), ["1024", "4096"]);
        assert_eq!(values("a.b=64..512GB/s:x2"), ["64GB/s", "128GB/s", "256GB/s", "512GB/s"]);
        assert_eq!(values("a=64GB/s..100 GB/s:x1.5"), ["64GB/s", "96GB/s"]);
        assert_eq!(values("n=1..9:+4,16"), ["1", "5", "9", "16"]);
        assert_eq!(values("n=0.1..0.3:+0.1"), ["0.1", "0.2", "0.3"]);
    }

    #[test]
    fn mistakes_are_explained() {
        let cases = [
            ("hidden", "a dimension is `NAME=VALUES`"),
            ("=4", "a dimension is `NAME=VALUES`"),
            ("n=1,,2", "a value is empty"),
            ("n=1..8", "a range has a step"),
            ("n=1..8:2", "a range has a step"),
            ("n=8..1:x2", "a range goes up"),
            ("n=0..8:x2", "a range goes up"),
            ("n=1ns..8us:x2", "the ends of a range have one unit"),
            ("n=a..8:x2", "an end of a range is a number and a unit"),
            ("n=1,1", "twice"),
            ("n=1..1e9:+0.001", "an end of a range"),
            ("n=1..1000000000:+0.5", "at most"),
        ];
        for (text, problem) in cases {
            let error = Axis::parse(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}", list in "[a-z.]{1,4}=[0-9.x+:,GB/s]{0,24}") {
            let _ = Axis::parse(&text);
            let _ = Axis::parse(&list);
        }
    }
}
