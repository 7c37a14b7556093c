//! The slow and readable reference implementation, against which every fast path is tested.
//!
//! An [`Array`] holds every element as an `f64`, which represents all four element types exactly. Every operation is
//! computed at once, one element at a time, in the order that VAL-2 of [`super`] promises.

use super::{Binary, Compare, DType, Reduce, Unary, Value, bf16, f16};

/// Elements of one type, computed at once.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of the elements.
    pub dtype: DType,
    /// The elements, each exactly representable in `dtype`.
    pub elements: Vec<f64>,
}

/// Two arrays are equal if every element has the same bits; all NaNs are equal.
impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        let bits = |x: &f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
        self.dtype == other.dtype
            && self.elements.iter().map(bits).eq(other.elements.iter().map(bits))
    }
}

/// Returns the element of `dtype` nearest to `x`.
#[expect(clippy::cast_possible_truncation, reason = "truncation of floats to i32 is documented")]
fn element(dtype: DType, x: f32) -> f64 {
    match dtype {
        DType::F32 => f64::from(x),
        DType::F16 => f64::from(f16::from_f32(x)),
        DType::Bf16 => f64::from(bf16::from_f32(x)),
        DType::I32 => f64::from(x as i32),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "elements are exactly representable")]
fn float(x: f64) -> f32 {
    x as f32
}

#[expect(clippy::cast_possible_truncation, reason = "elements are exactly representable")]
fn integer(x: f64) -> i32 {
    x as i32
}

impl Array {
    /// Creates an array of the elements of `value`.
    pub fn of(value: &Value) -> Self {
        let elements = (0..value.len()).map(|i| value.get(i)).collect();
        Self { dtype: value.dtype(), elements }
    }

    /// Creates an array of `elements` rounded to `dtype`.
    pub fn new(dtype: DType, elements: &[f32]) -> Self {
        Self { dtype, elements: elements.iter().map(|&x| element(dtype, x)).collect() }
    }

    fn with(&self, elements: Vec<f64>) -> Self {
        Self { dtype: self.dtype, elements }
    }

    /// As [`Value::slice`].
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        self.with(self.elements[start..start + len].to_vec())
    }

    /// As [`Value::concat`].
    pub fn concat(pieces: &[Self]) -> Self {
        let elements = pieces.iter().flat_map(|piece| piece.elements.iter().copied());
        pieces[0].with(elements.collect())
    }

    /// As [`Value::strided`].
    #[must_use]
    pub fn strided(&self, offset: usize, shape: &[usize], strides: &[usize]) -> Self {
        let mut at = vec![offset];
        for (&n, &stride) in shape.iter().zip(strides) {
            at = at.iter().flat_map(|from| (0..n).map(move |i| from + i * stride)).collect();
        }
        self.with(at.into_iter().map(|i| self.elements[i]).collect())
    }

    /// As [`Value::unary`].
    pub fn unary(op: Unary, a: &Self) -> Self {
        let apply = |&x: &f64| match a.dtype {
            DType::I32 => f64::from(op.apply_i32(integer(x))),
            dtype => element(dtype, op.apply(float(x))),
        };
        a.with(a.elements.iter().map(apply).collect())
    }

    /// As [`Value::binary`].
    pub fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        let apply = |(&x, &y): (&f64, &f64)| match a.dtype {
            DType::I32 => f64::from(op.apply_i32(integer(x), integer(y))),
            dtype => element(dtype, op.apply(float(x), float(y))),
        };
        a.with(a.elements.iter().zip(&b.elements).map(apply).collect())
    }

    /// As [`Value::compare`].
    pub fn compare(op: Compare, a: &Self, b: &Self) -> Self {
        let pairs = a.elements.iter().zip(&b.elements);
        let elements = pairs.map(|(x, y)| f64::from(u8::from(op.holds(*x, *y)))).collect();
        Self { dtype: DType::I32, elements }
    }

    /// As [`Value::select`].
    pub fn select(condition: &Self, a: &Self, b: &Self) -> Self {
        let choose = |i: usize| if condition.elements[i] == 0.0 { b } else { a }.elements[i];
        a.with((0..a.elements.len()).map(choose).collect())
    }

    /// As [`Value::cast`].
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        if dtype == self.dtype {
            return self.clone();
        }
        Self { dtype, elements: self.elements.iter().map(|&x| element(dtype, float(x))).collect() }
    }

    /// As [`Value::reduce`].
    pub fn reduce(how: Reduce, a: &Self, outer: usize, axis: usize, inner: usize) -> Self {
        let mut elements = Vec::new();
        for o in 0..outer {
            for i in 0..inner {
                let along = (0..axis).map(|x| a.elements[(o * axis + x) * inner + i]);
                elements.push(a.reduce_one(how, along));
            }
        }
        a.with(elements)
    }

    fn reduce_one(&self, how: Reduce, along: impl Iterator<Item = f64>) -> f64 {
        let op = how.binary();
        match self.dtype {
            DType::I32 => {
                let sum = along.fold(how.start_i32(), |sum, x| op.apply_i32(sum, integer(x)));
                f64::from(sum)
            }
            dtype => element(dtype, along.fold(how.start(), |sum, x| op.apply(sum, float(x)))),
        }
    }

    /// As [`Value::dot`].
    #[expect(clippy::many_single_char_names, reason = "the letters of the textbook")]
    pub fn dot(a: &Self, b: &Self, [m, n, k]: [usize; 3], acc: Option<&Self>) -> Self {
        let dtype = if a.dtype.is_float() { DType::F32 } else { DType::I32 };
        let mut c = acc.map_or_else(|| vec![0.0; m * n], |acc| acc.elements.clone());
        for i in 0..m {
            for j in 0..n {
                for p in 0..k {
                    let (x, y) = (a.elements[i * k + p], b.elements[p * n + j]);
                    c[i * n + j] = fused(dtype, x, y, c[i * n + j]);
                }
            }
        }
        Self { dtype, elements: c }
    }
}

/// Computes `x * y + sum` with one rounding.
fn fused(dtype: DType, x: f64, y: f64, sum: f64) -> f64 {
    if dtype == DType::I32 {
        return f64::from(integer(sum).wrapping_add(integer(x).wrapping_mul(integer(y))));
    }
    f64::from(float(x).mul_add(float(y), float(sum)))
}
