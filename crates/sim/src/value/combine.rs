//! Reductions and scans by a program: the combination of two groups of elements into one, as a list of small steps.
//!
//! A group has one element of each operand: an operand alone, or a number and its index. The program sees the group so
//! far (*left*) and the next group (*right*), and gives the group of both.
//!
//! ```
//! use phalanx_sim::value::{Axes, Combine, Compare, DType, Value};
//! // The larger number and its index; of equal numbers the left.
//! let mut larger = Combine::new(&[DType::F32, DType::I32]);
//! let (number, index) = ([larger.left(0), larger.right(0)], [larger.left(1), larger.right(1)]);
//! let keep = larger.compare(Compare::Ge, number[0], number[1]).unwrap();
//! let number = larger.select(keep, number[0], number[1]).unwrap();
//! let index = larger.select(keep, index[0], index[1]).unwrap();
//! larger.finish(&[number, index]).unwrap();
//! let numbers = Value::from_f32(DType::F32, &[3.0, 7.0, 7.0, 1.0]);
//! let found = Value::combine(&larger.into(), &[numbers, Value::arange(DType::I32, 0, 4)], Axes::row(4));
//! assert_eq!((found[0].to_f32(), found[1].to_i32()), (vec![7.0], vec![1]));
//! ```
//!
//! - **COMB-1 (ascending).** The first group is the start; the others are combined with it one by one, by ascending index
//!   (descending for a reversed scan), the group so far always on the left.
//! - **COMB-2 (typed).** A program is checked as it is built; running it cannot fail.
//! - **COMB-3 (rounded).** Every step gives an element of its type, so floats of fewer bits round at each step.

use super::buffer::{Buffer, Scalar};
use super::convert;
use super::element::Element;
use super::number::Number;
use super::{Axes, Binary, Compare, DType, Unary, Value};
use crate::with_element;

/// An element of a [`Combine`] program: an input or the result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(usize);

/// The error of a step whose operands do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CombineError(String);

/// A program that combines two groups of elements into one.
#[derive(Clone, Debug)]
pub struct Combine {
    /// The type of every register: left, right, then one for each step.
    types: Vec<DType>,
    /// Number of elements of a group.
    width: usize,
    steps: Vec<Step>,
    results: Vec<usize>,
}

/// One step on the bits of registers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Constant(u64),
    Unary(fn(Unary, u64) -> u64, Unary, usize),
    Binary(fn(Binary, u64, u64) -> u64, Binary, [usize; 2]),
    Compare(fn(Compare, u64, u64) -> u64, Compare, [usize; 2]),
    Fma(fn(u64, u64, u64) -> u64, [usize; 3]),
    Select([usize; 3]),
    Cast(DType, DType, usize),
    Copy(usize),
}

fn unary_bits<T: Number>(op: Unary, a: u64) -> u64 {
    T::unary(op, T::from_bits64(a)).bits()
}

fn binary_bits<T: Number>(op: Binary, a: u64, b: u64) -> u64 {
    T::binary(op, T::from_bits64(a), T::from_bits64(b)).bits()
}

fn compare_bits<T: Number>(op: Compare, a: u64, b: u64) -> u64 {
    u64::from(op.holds(T::from_bits64(a), T::from_bits64(b)))
}

fn fma_bits<T: Number>(a: u64, b: u64, c: u64) -> u64 {
    T::fma(T::from_bits64(a), T::from_bits64(b), T::from_bits64(c)).bits()
}

impl Combine {
    /// Creates a program for groups of elements of these types. Its result is the left group until it is
    /// [finished](Self::finish).
    pub fn new(types: &[DType]) -> Self {
        let width = types.len();
        let types = types.iter().chain(types).copied().collect();
        Self { types, width, steps: Vec::new(), results: (0..width).collect() }
    }

    /// Returns element `i` of the group so far.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    pub fn left(&self, i: usize) -> Register {
        assert!(i < self.width, "COMB-2: element {i} of {}", self.width);
        Register(i)
    }

    /// Returns element `i` of the next group.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    pub fn right(&self, i: usize) -> Register {
        assert!(i < self.width, "COMB-2: element {i} of {}", self.width);
        Register(self.width + i)
    }

    /// Returns the type of a register.
    pub fn dtype(&self, register: Register) -> DType {
        self.types[register.0]
    }

    /// Returns the types of a group.
    pub fn types(&self) -> &[DType] {
        &self.types[..self.width]
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True if there is no step.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn step(&mut self, dtype: DType, step: Step) -> Register {
        self.types.push(dtype);
        self.steps.push(step);
        Register(self.types.len() - 1)
    }

    /// Adds a constant, rounded as by [`Value::full`].
    pub fn constant(&mut self, dtype: DType, number: f64) -> Register {
        self.step(dtype, Step::Constant(Scalar::new(dtype, number).bits()))
    }

    /// Adds an operation on one element.
    pub fn unary(&mut self, op: Unary, a: Register) -> Result<Register, CombineError> {
        let dtype = self.dtype(a);
        if !op.takes(dtype) {
            return Err(CombineError(format!("{op:?} takes no {dtype}")));
        }
        let run = with_element!(dtype, T => unary_bits::<T> as fn(Unary, u64) -> u64);
        Ok(self.step(dtype, Step::Unary(run, op, a.0)))
    }

    /// Adds an operation on two elements of one type.
    pub fn binary(
        &mut self,
        op: Binary,
        a: Register,
        b: Register,
    ) -> Result<Register, CombineError> {
        let dtype = self.same(&format!("{op:?}"), a, b)?;
        if !op.takes(dtype) {
            return Err(CombineError(format!("{op:?} takes no {dtype}")));
        }
        let run = with_element!(dtype, T => binary_bits::<T> as fn(Binary, u64, u64) -> u64);
        Ok(self.step(dtype, Step::Binary(run, op, [a.0, b.0])))
    }

    /// Adds a comparison, which gives a `bool`.
    pub fn compare(
        &mut self,
        op: Compare,
        a: Register,
        b: Register,
    ) -> Result<Register, CombineError> {
        let dtype = self.same(&format!("{op:?}"), a, b)?;
        let run = with_element!(dtype, T => compare_bits::<T> as fn(Compare, u64, u64) -> u64);
        Ok(self.step(DType::Bool, Step::Compare(run, op, [a.0, b.0])))
    }

    /// Adds a choice: `a` if the condition, a whole number, is not 0, otherwise `b`.
    pub fn select(
        &mut self,
        condition: Register,
        a: Register,
        b: Register,
    ) -> Result<Register, CombineError> {
        let dtype = self.same("select", a, b)?;
        if self.dtype(condition).is_float() {
            let found = self.dtype(condition);
            return Err(CombineError(format!(
                "select takes a whole number as condition, not {found}"
            )));
        }
        Ok(self.step(dtype, Step::Select([condition.0, a.0, b.0])))
    }

    /// Adds `a * b + c`.
    pub fn fma(&mut self, a: Register, b: Register, c: Register) -> Result<Register, CombineError> {
        let dtype = self.same("fma", a, b)?;
        self.same("fma", a, c)?;
        let run = with_element!(dtype, T => fma_bits::<T> as fn(u64, u64, u64) -> u64);
        Ok(self.step(dtype, Step::Fma(run, [a.0, b.0, c.0])))
    }

    /// Adds a conversion, as [`Value::cast`].
    pub fn cast(&mut self, a: Register, dtype: DType) -> Register {
        self.step(dtype, Step::Cast(self.dtype(a), dtype, a.0))
    }

    /// Adds the same bits as another type of the same size, as [`Value::bitcast`].
    pub fn bitcast(&mut self, a: Register, dtype: DType) -> Result<Register, CombineError> {
        let from = self.dtype(a);
        if from.size() != dtype.size() || dtype == DType::Bool && from != dtype {
            return Err(CombineError(format!("bits of {from} are no {dtype}")));
        }
        Ok(self.step(dtype, Step::Copy(a.0)))
    }

    /// Sets the results: one for each element of a group, of its type.
    pub fn finish(&mut self, results: &[Register]) -> Result<(), CombineError> {
        let found: Vec<DType> = results.iter().map(|result| self.dtype(*result)).collect();
        if found != self.types() {
            let wanted = self.types();
            return Err(CombineError(format!(
                "the results are {found:?}, the operands {wanted:?}"
            )));
        }
        self.results = results.iter().map(|result| result.0).collect();
        Ok(())
    }

    fn same(&self, what: &str, a: Register, b: Register) -> Result<DType, CombineError> {
        match (self.dtype(a), self.dtype(b)) {
            (x, y) if x == y => Ok(x),
            (x, y) => Err(CombineError(format!("{what} takes one type, not {x} and {y}"))),
        }
    }

    /// Combines the right group into the left; `registers` begins with both.
    fn run(&self, registers: &mut [u64]) {
        for (step, to) in self.steps.iter().zip(2 * self.width..) {
            registers[to] = match *step {
                Step::Constant(bits) => bits,
                Step::Unary(run, op, a) => run(op, registers[a]),
                Step::Binary(run, op, [a, b]) => run(op, registers[a], registers[b]),
                Step::Compare(run, op, [a, b]) => run(op, registers[a], registers[b]),
                Step::Fma(run, [a, b, c]) => run(registers[a], registers[b], registers[c]),
                Step::Select([c, a, b]) => registers[if registers[c] == 0 { b } else { a }],
                Step::Cast(from, to, a) => {
                    convert::scalar(Scalar::from_bits(from, registers[a]), to).bits()
                }
                Step::Copy(a) => registers[a],
            };
        }
        // A result may be an element of the left group itself: none is overwritten before all are read.
        let results: Vec<u64> = self.results.iter().map(|result| registers[*result]).collect();
        registers[..self.width].copy_from_slice(&results);
    }
}

/// The bits of elements, above them zeros.
fn bits_of(value: &Value) -> Vec<u64> {
    let elements = value.ready_elements();
    with_element!(elements.dtype(), T => elements.of::<T>().iter().map(|x| x.bits()).collect())
}

/// Computes the bits of all results, one operand after the other: of each row, or of each element of a scan.
pub(super) fn run(program: &Combine, operands: &[Value], axes: Axes, scan: Option<bool>) -> Buffer {
    let Axes { outer, axis, inner } = axes;
    let (width, operands) = (program.width, operands.iter().map(bits_of).collect::<Vec<_>>());
    let len = if scan.is_some() { outer * axis * inner } else { outer * inner };
    let mut out = vec![0; width * len];
    let mut registers = vec![0; program.types.len()];
    for row in 0..outer * inner {
        let at = |a: usize| (row / inner * axis + a) * inner + row % inner;
        for step in 0..axis {
            let place = at(if scan == Some(true) { axis - 1 - step } else { step });
            let to = if step == 0 { 0 } else { width };
            for (register, bits) in registers[to..to + width].iter_mut().zip(&operands) {
                *register = bits[place];
            }
            if step > 0 {
                program.run(&mut registers);
            }
            if scan.is_some() {
                (0..width).for_each(|i| out[i * len + place] = registers[i]);
            }
        }
        if scan.is_none() {
            (0..width).for_each(|i| out[i * len + row] = registers[i]);
        }
    }
    u64::buffer(out)
}
