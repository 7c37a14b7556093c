//! Figures of a machine file that are fitted: their values as numbers, and the file with other values.

use phalanx_sim::config::{Figure, FigureText, MachineView, figure_texts};
use phalanx_sim::spec::{MachineSpec, Origin};

/// The value of a figure: a number and its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The number.
    pub number: f64,
    /// The unit, with the white space before it; may be empty.
    pub unit: String,
    /// True if only whole numbers are allowed.
    pub is_count: bool,
}

impl Value {
    /// Reads `4.6 us`, `0.8` or `16`; none for words, zero and `unlimited`.
    pub fn read(figure: &FigureText) -> Option<Self> {
        let text = figure.value.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let number: f64 = digits.parse().ok()?;
        let is_count = unit.is_empty() && !digits.contains('.') && !is_fraction(&figure.path);
        (number > 0.0).then(|| Self { number, unit: unit.to_owned(), is_count })
    }

    /// Returns the same figure with another number, of four digits that matter.
    #[must_use]
    pub fn with(&self, number: f64) -> Self {
        Self { number: self.text_of(number).parse().unwrap_or(number), ..self.clone() }
    }

    /// Returns the text in a machine file.
    pub fn text(&self) -> String {
        format!("{}{}", self.text_of(self.number), self.unit)
    }

    fn text_of(&self, number: f64) -> String {
        if self.is_count {
            return format!("{:.0}", number.max(1.0));
        }
        let mut digits = 3_i32;
        let mut rest = number;
        while rest >= 10.0 {
            (rest, digits) = (rest / 10.0, digits - 1);
        }
        while rest < 1.0 && digits < 12 {
            (rest, digits) = (rest * 10.0, digits + 1);
        }
        let most = match self.unit.trim() {
            "ps" | "B/s" | "B" | "FLOP/s" => 0,
            "ns" | "KB/s" | "KB" => 3,
            "" => 4,
            _ => 6,
        };
        let decimals = usize::try_from(digits.clamp(0, most)).unwrap_or(0);
        let text = format!("{number:.decimals$}");
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    }
}

/// True for a figure that is a part of one.
pub(super) fn is_fraction(path: &str) -> bool {
    path.ends_with("efficiency")
}

/// Returns the figures that `machine` marks as fitted, in the order of its file `text`, each with its value; a figure
/// whose value is no number above zero has none.
pub fn fitted(machine: &MachineSpec, text: &str) -> Vec<(FigureText, Option<Value>)> {
    let known = MachineView::new(machine).figures();
    let is_fitted = |figure: &Figure| figure.source.as_deref() == Some(Origin::FITTED);
    let marked = |figure: &FigureText| {
        known.iter().any(|known| known.path == figure.path && is_fitted(known))
    };
    let figures = figure_texts(text).into_iter().filter(marked);
    figures.map(|figure| (figure.clone(), Value::read(&figure))).collect()
}

/// The text with other values of figures; everything else stays as it was.
pub(super) fn replaced(text: &str, values: &[(&FigureText, &Value)]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by_key(|(figure, _)| figure.range.start);
    let (mut changed, mut from) = (String::new(), 0);
    for (figure, value) in sorted {
        changed.push_str(&text[from..figure.range.start]);
        changed.push_str(&value.text());
        from = figure.range.end;
    }
    changed + &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(path: &str, value: &str) -> FigureText {
        FigureText { path: path.to_owned(), value: value.to_owned(), range: 0..value.len() }
    }

    #[test]
    fn values_are_read_and_written_with_their_unit() {
        let latency = Value::read(&figure("pe.dma.latency", "4.6 us")).unwrap();
        assert_eq!((latency.number, latency.text().as_str()), (4.6, "4.6 us"));
        assert_eq!(latency.with(0.123_456).text(), "0.1235 us");
        assert_eq!(latency.with(1234.56).text(), "1235 us");
        let short = Value::read(&figure("pe.dma.latency", "500 ps")).unwrap();
        assert_eq!(short.with(12.34).text(), "12 ps", "no half picosecond");
        let channels = Value::read(&figure("collectives.channels", "16")).unwrap();
        assert_eq!((channels.is_count, channels.with(11.6).text().as_str()), (true, "12"));
        let part = Value::read(&figure("pe.gemm.efficiency", "1")).unwrap();
        assert_eq!((part.is_count, part.with(0.812_34).text().as_str()), (false, "0.8123"));
        for word in ["unlimited", "0 ns", "switch", ""] {
            assert_eq!(Value::read(&figure("a", word)), None, "{word}");
        }
    }

    #[test]
    fn only_values_change_in_the_text() {
        let text = "pe: { dma: { latency: 50 ns } }  # fast\nsip: { width: '7' }\n";
        let figures = figure_texts(text);
        let values: Vec<Value> =
            figures.iter().map(|figure| Value::read(figure).unwrap()).collect();
        let changed = [values[0].with(62.5), values[1].with(9.0)];
        let pairs = [(&figures[1], &changed[1]), (&figures[0], &changed[0])];
        let expected = "pe: { dma: { latency: 62.5 ns } }  # fast\nsip: { width: 9 }\n";
        assert_eq!(replaced(text, &pairs), expected);
    }
}
