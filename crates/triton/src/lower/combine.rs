//! The regions of reductions and scans.

use super::{Frame, Lower, Lowered};
use crate::combine::{Combine, Number, Step};
use crate::ir::{Attribute, Operation, ValueId};
use crate::number::{Arith, Comparison};
use crate::program::Function;
use crate::types::{Element, Scalar};
use std::collections::BTreeMap;

impl Lower<'_> {
    /// Reads how a reduction or a scan combines two groups of numbers.
    pub(super) fn combination(&self, operation: &Operation, frame: &Frame<'_>) -> Lowered<Combine> {
        let blocks = operation.regions.first().map(|region| region.blocks.as_slice());
        let Some([block]) = blocks else {
            return Err(
                self.error(operation, "the combination must be one block, without branches")
            );
        };
        let mut known: BTreeMap<ValueId, usize> = BTreeMap::new();
        for (at, argument) in block.arguments.iter().enumerate() {
            known.insert(*argument, at);
        }
        let width = operation.operands.len();
        if block.arguments.len() != 2 * width {
            return Err(self.error(operation, "the combination takes two groups of numbers"));
        }
        let mut combine = Combine { width, steps: Vec::new(), results: Vec::new() };
        for inner in &block.operations {
            take_constants(inner, frame, &mut known, &mut combine);
            let at = |number: usize| -> Lowered<usize> {
                let value = inner.operands.get(number);
                value.and_then(|value| known.get(value).copied()).ok_or_else(|| {
                    self.error(
                        inner,
                        "the combination uses a value from outside; pass it as an operand",
                    )
                })
            };
            if matches!(inner.name.as_str(), "tt.reduce.return" | "tt.scan.return") {
                combine.results = (0..inner.operands.len()).map(at).collect::<Lowered<_>>()?;
                break;
            }
            let step = self.step(inner, frame, &at)?;
            if let Some(result) = inner.results.first() {
                known.insert(*result, 2 * width + combine.steps.len());
            }
            combine.steps.push(step);
        }
        if combine.results.len() != width {
            return Err(self.error(operation, "the combination returns another number of values"));
        }
        Ok(combine)
    }

    fn step(
        &self,
        inner: &Operation,
        frame: &Frame<'_>,
        at: &dyn Fn(usize) -> Lowered<usize>,
    ) -> Lowered<Step> {
        let (taken, given) =
            (scalar_of(frame, inner.operands.first()), scalar_of(frame, inner.results.first()));
        let name = inner.name.as_str();
        if let Some(arith) = Arith::of_name(name) {
            return Ok(Step::Arith(arith, at(0)?, at(1)?, given));
        }
        if let Some(function) = Function::of_name(name) {
            return Ok(Step::Function(function, at(0)?, given));
        }
        Ok(match name {
            "arith.constant" => Step::Constant(constant(inner, given)),
            "arith.cmpi" | "arith.cmpf" => {
                let word = inner.words.first().map_or("", String::as_str);
                let Some(comparison) = Comparison::of_name(word) else {
                    return Err(self.error(inner, format!("no comparison `{word}`")));
                };
                Step::Compare(comparison, at(0)?, at(1)?, taken)
            }
            "arith.select" => Step::Select(at(0)?, at(1)?, at(2)?),
            "arith.extf" | "arith.truncf" | "arith.extsi" | "arith.trunci" | "arith.sitofp"
            | "arith.fptosi" => Step::Cast(at(0)?, given),
            _ => return Err(self.error(inner, "not supported inside a reduction or a scan")),
        })
    }
}

/// Adds the constants from outside that an operation uses.
fn take_constants(
    inner: &Operation,
    frame: &Frame<'_>,
    known: &mut BTreeMap<ValueId, usize>,
    combine: &mut Combine,
) {
    for value in &inner.operands {
        let maker = frame.makers[*value as usize];
        if let (None, Some(maker)) = (known.get(value), maker)
            && maker.name == "arith.constant"
        {
            known.insert(*value, 2 * combine.width + combine.steps.len());
            let number = constant(maker, scalar_of(frame, Some(value)));
            combine.steps.push(Step::Constant(number));
        }
    }
}

fn scalar_of(frame: &Frame<'_>, value: Option<&ValueId>) -> Scalar {
    match value.map(|value| frame.kind(*value).element()) {
        Some(Element::Number(scalar) | Element::Pointer(scalar)) => scalar,
        None => Scalar::Int(64),
    }
}

/// Returns the number of a constant.
fn constant(operation: &Operation, scalar: Scalar) -> Number {
    match operation.attribute("value") {
        Some(Attribute::Float(number)) => Number::Float(*number),
        Some(Attribute::Bits(bits)) if scalar.is_float() => {
            Number::Float(super::operations::float_of(*bits, scalar))
        }
        _ => Number::Whole(operation.int("value").unwrap_or(0)),
    }
}
