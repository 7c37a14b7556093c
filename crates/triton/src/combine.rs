//! The code of a reduction or a scan: how two groups of numbers become one.

use crate::number::{Arith, Comparison, float, round, whole};
use crate::program::Function;
use crate::types::Scalar;

/// One number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Whole(i64),
    Float(f64),
}

impl Number {
    pub(crate) fn whole(self) -> i64 {
        match self {
            Self::Whole(number) => number,
            #[expect(clippy::cast_possible_truncation, reason = "integers are not floats here")]
            Self::Float(number) => number as i64,
        }
    }

    pub(crate) fn float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "floats are not integers here")]
            Self::Whole(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// One step of a combination: operands are numbers of earlier steps; the first are the two groups.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Constant(Number),
    Arith(Arith, usize, usize, Scalar),
    Compare(Comparison, usize, usize, Scalar),
    Select(usize, usize, usize),
    Function(Function, usize, Scalar),
    Cast(usize, Scalar),
}

/// A combination of two groups of `width` numbers.
#[derive(Clone, Debug)]
pub(crate) struct Combine {
    pub(crate) width: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) results: Vec<usize>,
}

impl Combine {
    /// Returns the operation, if the combination is a single operation.
    pub(crate) fn simple(&self) -> Option<Arith> {
        match (self.width, self.steps.as_slice(), self.results.as_slice()) {
            (1, [Step::Arith(arith, a, b, _)], [2]) if (*a, *b) == (0, 1) || (*a, *b) == (1, 0) => {
                Some(*arith)
            }
            _ => None,
        }
    }

    /// Combines `left` and `right`; the result is in `left`.
    pub(crate) fn apply(&self, left: &mut [Number], right: &[Number], scratch: &mut Vec<Number>) {
        scratch.clear();
        scratch.extend_from_slice(left);
        scratch.extend_from_slice(right);
        for step in &self.steps {
            let number = self.step(*step, scratch);
            scratch.push(number);
        }
        for (to, from) in left.iter_mut().zip(&self.results) {
            *to = scratch[*from];
        }
    }

    #[expect(clippy::unused_self, reason = "one step of this")]
    fn step(&self, step: Step, at: &[Number]) -> Number {
        let bits = |scalar: Scalar| if let Scalar::Int(bits) = scalar { bits } else { 64 };
        match step {
            Step::Constant(number) => number,
            Step::Arith(arith, a, b, scalar) if arith.is_float() => {
                Number::Float(float(arith, at[a].float(), at[b].float(), scalar))
            }
            Step::Arith(arith, a, b, scalar) => {
                Number::Whole(whole(arith, at[a].whole(), at[b].whole(), bits(scalar)))
            }
            Step::Compare(comparison, a, b, scalar) if scalar.is_float() => {
                Number::Whole(comparison.of_float(at[a].float(), at[b].float()).into())
            }
            Step::Compare(comparison, a, b, scalar) => {
                let (a, b) = (at[a].whole(), at[b].whole());
                Number::Whole(comparison.of_whole(a, b, bits(scalar)).into())
            }
            Step::Select(condition, a, b) => {
                if at[condition].whole() != 0 {
                    at[a]
                } else {
                    at[b]
                }
            }
            Step::Function(function, a, scalar) => {
                Number::Float(crate::function::apply(function, at[a].float(), scalar))
            }
            Step::Cast(a, scalar) => match (at[a], scalar) {
                (Number::Whole(number), Scalar::Int(bits)) => {
                    Number::Whole(crate::number::wrap(number, bits))
                }
                (Number::Float(number), Scalar::Int(bits)) => {
                    #[expect(clippy::cast_possible_truncation, reason = "truncated")]
                    let whole = number as i64;
                    Number::Whole(crate::number::wrap(whole, bits))
                }
                (number, scalar) => Number::Float(round(number.float(), scalar)),
            },
        }
    }
}
