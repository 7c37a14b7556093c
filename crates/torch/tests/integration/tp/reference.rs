//! The same mathematics in plain code, without ranks.

use super::rounded;

/// `x W^T` of `[m, k]` and `[n, k]` in f32, k ascending with fused multiply-add.
pub(crate) fn product(x: &[f32], w: &[f32], k: usize) -> Vec<f32> {
    let dot = |row: &[f32], feature: &[f32]| {
        row.iter().zip(feature).fold(0.0_f32, |sum, (a, b)| a.mul_add(*b, sum))
    };
    x.chunks(k).flat_map(|row| w.chunks(k).map(move |feature| dot(row, feature))).collect()
}

/// Columns `from..to` of a matrix of `width` columns.
pub(crate) fn columns(x: &[f32], width: usize, from: usize, to: usize) -> Vec<f32> {
    x.chunks(width).flat_map(|row| row[from..to].to_vec()).collect()
}

/// The sum that a ring all-reduce gives: segment `s` is `((x[s+1] + x[s+2]) + ..) + x[s]`, rounded after each.
pub(crate) fn ring_sum(parts: &[Vec<f32>]) -> Vec<f32> {
    let (ranks, len) = (parts.len(), parts[0].len());
    let mut sum = Vec::new();
    for segment in 0..ranks {
        let range = len * segment / ranks..len * (segment + 1) / ranks;
        let mut total = parts[(segment + 1) % ranks][range.clone()].to_vec();
        for step in 2..=ranks {
            let next = &parts[(segment + step) % ranks][range.clone()];
            total = rounded(total.iter().zip(next).map(|(a, b)| a + b).collect());
        }
        sum.extend(total);
    }
    sum
}

/// Asserts that all numbers are within `tolerance` of the expected ones.
pub(crate) fn close(got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance, "element {index}: {got}, not {want}");
    }
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
}

/// A matrix in f64.
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) numbers: Vec<f64>,
}

impl Matrix {
    pub(crate) fn new(columns: usize, numbers: &[f32]) -> Self {
        let numbers: Vec<f64> = numbers.iter().map(|number| f64::from(*number)).collect();
        Self { rows: numbers.len() / columns, columns, numbers }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.numbers[row * self.columns + column]
    }

    fn of(rows: usize, columns: usize, number: impl Fn(usize, usize) -> f64) -> Self {
        let numbers =
            (0..rows * columns).map(|index| number(index / columns, index % columns)).collect();
        Self { rows, columns, numbers }
    }

    /// `self W^T`.
    pub(crate) fn linear(&self, w: &Self) -> Self {
        Self::of(self.rows, w.rows, |row, feature| {
            (0..self.columns).map(|k| self.at(row, k) * w.at(feature, k)).sum()
        })
    }

    pub(crate) fn gelu(&self) -> Self {
        Self::of(self.rows, self.columns, |row, column| gelu(self.at(row, column)))
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        Self::of(self.rows, self.columns, |row, column| {
            self.at(row, column) + other.at(row, column)
        })
    }

    pub(crate) fn norm(&self) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let width = self.columns as f64;
        let mean = |row| (0..self.columns).map(|c| self.at(row, c)).sum::<f64>() / width;
        let variance = |row| {
            let mean = mean(row);
            (0..self.columns).map(|c| (self.at(row, c) - mean).powi(2)).sum::<f64>() / width
        };
        Self::of(self.rows, self.columns, |row, column| {
            (self.at(row, column) - mean(row)) / (variance(row) + 1e-5).sqrt()
        })
    }

    /// Attention of `heads` heads over `[position, sequence]` tokens, from `[head, q | k | v, width]` columns.
    pub(crate) fn attention(&self, heads: usize, sequences: usize, causal: bool) -> Self {
        let width = self.columns / heads / 3;
        let length = self.rows / sequences;
        let at = |position: usize, sequence: usize, head: usize, part: usize, c: usize| {
            self.at(position * sequences + sequence, (head * 3 + part) * width + c)
        };
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let scale = 1.0 / (width as f64).sqrt();
        Self::of(self.rows, heads * width, |row, column| {
            let (position, sequence) = (row / sequences, row % sequences);
            let (head, c) = (column / width, column % width);
            let seen = if causal { position + 1 } else { length };
            let weight = |other: usize| {
                let score: f64 = (0..width)
                    .map(|c| at(position, sequence, head, 0, c) * at(other, sequence, head, 1, c))
                    .sum();
                (score * scale).exp()
            };
            let weights: Vec<f64> = (0..seen).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            let value = |other: usize| weights[other] * at(other, sequence, head, 2, c);
            (0..seen).map(value).sum::<f64>() / sum
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "compared with a tolerance")]
    pub(crate) fn to_f32(&self) -> Vec<f32> {
        self.numbers.iter().map(|number| *number as f32).collect()
    }
}
