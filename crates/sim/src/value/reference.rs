//! The slow and readable reference implementation, against which every fast path is tested.
//!
//! An [`Array`] holds every element exactly: whole numbers as `i128`, floats as `f64`. Every operation is computed at
//! once, one element at a time, in the order that VAL-2 of [`super`] promises. Whole numbers are computed without bounds
//! and then wrapped to their type.

use super::{Binary, Compare, DType, F8e4m3, F8e5m2, Reduce, Unary, Value, bf16, f16};

/// An element, exactly.
#[derive(Clone, Copy, Debug)]
pub enum Exact {
    /// A float.
    Float(f64),
    /// A whole number.
    Whole(i128),
}

use Exact::{Float, Whole};

/// Two elements are equal if they have the same bits; all NaNs are equal.
impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Float(a), Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            (Whole(a), Whole(b)) => a == b,
            _ => false,
        }
    }
}

impl Exact {
    /// Returns the number as an `f64`.
    #[expect(clippy::cast_precision_loss, reason = "asked for")]
    pub fn to_f64(self) -> f64 {
        match self {
            Float(x) => x,
            Whole(x) => x as f64,
        }
    }

    fn whole(self) -> i128 {
        match self {
            Whole(x) => x,
            Float(x) => unreachable!("{x} is no whole number"),
        }
    }

    fn is_zero(self) -> bool {
        matches!(self, Whole(0)) || self.to_f64() == 0.0
    }
}

/// Elements of one type, computed at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of the elements.
    pub dtype: DType,
    /// The elements, each exactly representable in `dtype`.
    pub elements: Vec<Exact>,
}

fn bits(dtype: DType) -> u32 {
    if dtype == DType::Bool { 1 } else { 8 * u32::try_from(dtype.size()).expect("small") }
}

fn is_signed(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64)
}

/// Returns the lower bits of a whole number as a number of `dtype`.
fn wrapped(dtype: DType, x: i128) -> Exact {
    let range = 1 << bits(dtype);
    let low = x.rem_euclid(range);
    Whole(if is_signed(dtype) && low >= range / 2 { low - range } else { low })
}

/// Returns the smallest and the largest number of `dtype`.
fn limits(dtype: DType) -> (i128, i128) {
    let range = 1 << bits(dtype);
    if is_signed(dtype) { (-range / 2, range / 2 - 1) } else { (0, range - 1) }
}

#[expect(clippy::cast_possible_truncation, reason = "elements are exactly representable")]
fn float(x: Exact) -> f32 {
    x.to_f64() as f32
}

/// Returns the element of `dtype` that a float becomes.
#[expect(clippy::cast_possible_truncation, reason = "rounding and truncation are documented")]
fn element(dtype: DType, x: f64) -> Exact {
    Float(match dtype {
        DType::F64 => x,
        DType::F32 => f64::from(x as f32),
        DType::F16 => nearest_half(x, 0x7c00, |bits| f16::from_bits(bits).to_f32()),
        DType::Bf16 => nearest_half(x, 0x7f80, |bits| bf16::from_bits(bits).to_f32()),
        DType::F8e4m3 => nearest(x, |bits| F8e4m3::from_bits(bits).to_f32()),
        DType::F8e5m2 => nearest(x, |bits| F8e5m2::from_bits(bits).to_f32()),
        DType::Bool => return Whole(i128::from(x != 0.0)),
        whole => return Whole((x as i128).clamp(limits(whole).0, limits(whole).1)),
    })
}

/// Returns the 16-bit float nearest to `x`, the even one of two. Infinity is as far away as the power of two after the largest number.
fn nearest_half(x: f64, infinity: u16, up: fn(u16) -> f32) -> f64 {
    if x.is_nan() {
        return x;
    }
    let last_power = infinity - (1 << infinity.trailing_zeros());
    let size = |bits: u16| {
        if bits == infinity { 2.0 * f64::from(up(last_power)) } else { f64::from(up(bits)) }
    };
    let (mut below, mut above) = (0, infinity);
    while above - below > 1 {
        let middle = below.midpoint(above);
        if size(middle) <= x.abs() {
            below = middle;
        } else {
            above = middle;
        }
    }
    let distance = |bits: u16| (size(bits) - x.abs()).abs();
    let order = distance(below).total_cmp(&distance(above)).then((below % 2).cmp(&(above % 2)));
    f64::from(up(if order.is_le() { below } else { above })).copysign(x)
}

/// Returns the finite 8-bit float nearest to `x`, the even one of two: one of the two neighbours.
fn nearest(x: f64, up: fn(u8) -> f32) -> f64 {
    if x.is_nan() {
        return x;
    }
    let (mut below, mut above) = (0_u8, 0x7f_u8);
    while !up(above).is_finite() {
        above -= 1;
    }
    let largest = f64::from(up(above));
    let size = x.abs().min(largest);
    // Positive floats are in the order of their bits.
    while above - below > 1 {
        let middle = below.midpoint(above);
        if f64::from(up(middle)) <= size {
            below = middle;
        } else {
            above = middle;
        }
    }
    let distance = |bits: u8| (f64::from(up(bits)) - size).abs();
    let order = distance(below).total_cmp(&distance(above)).then((below % 2).cmp(&(above % 2)));
    f64::from(up(if order.is_le() { below } else { above })).copysign(x)
}

/// Applies `op` to whole numbers without bounds.
fn whole_binary(dtype: DType, op: Binary, a: i128, b: i128) -> i128 {
    let far = !(0..i128::from(bits(dtype))).contains(&b);
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::Max | Binary::MaxNum => a.max(b),
        Binary::Min | Binary::MinNum => a.min(b),
        Binary::Div | Binary::Rem | Binary::FloorDiv | Binary::FloorRem if b == 0 => 0,
        Binary::Div => a / b,
        Binary::Rem => a % b,
        Binary::FloorDiv => {
            (a - a.rem_euclid(b) - if b < 0 && a.rem_euclid(b) != 0 { b } else { 0 }) / b
        }
        Binary::FloorRem => a - b * whole_binary(dtype, Binary::FloorDiv, a, b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl => {
            if far {
                0
            } else {
                a << b
            }
        }
        Binary::Shr => {
            if far {
                a >> 127
            } else {
                a >> b
            }
        }
        Binary::MulHi if a > 0 && b > 0 => {
            let product = a.unsigned_abs() * b.unsigned_abs();
            i128::try_from(product >> bits(dtype)).expect("half of the bits")
        }
        Binary::MulHi => (a * b) >> bits(dtype),
        Binary::Pow => power(dtype, a, b),
    }
}

/// `a^b`; a negative power is a fraction, truncated.
fn power(dtype: DType, a: i128, b: i128) -> i128 {
    match (a, b) {
        (1, ..0) => 1,
        (-1, ..0) => {
            if b % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => 0,
        _ => {
            // Squares of wrapped numbers: the power is that of the binary digits of b.
            let wrap = |x: i128| wrapped(dtype, x).whole();
            let (mut result, mut square) = (1_i128, a);
            for digit in 0..64 {
                if b >> digit & 1 == 1 {
                    result = wrap(result.wrapping_mul(square));
                }
                square = wrap(square.wrapping_mul(square));
            }
            result
        }
    }
}

impl Array {
    /// Creates an array of the elements of `value`.
    pub fn of(value: &Value) -> Self {
        let dtype = value.dtype();
        let at = |i| match dtype {
            _ if dtype.is_float() => Float(value.get(i)),
            _ if is_signed(dtype) => Whole(value.get_i64(i).into()),
            _ => Whole(value.get_i64(i).cast_unsigned().into()),
        };
        Self { dtype, elements: (0..value.len()).map(at).collect() }
    }

    /// Creates an array of `elements` rounded to `dtype`.
    pub fn new(dtype: DType, elements: &[f32]) -> Self {
        let elements = elements.iter().map(|&x| element(dtype, f64::from(x)));
        Self { dtype, elements: elements.collect() }
    }

    fn with(&self, elements: Vec<Exact>) -> Self {
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
        a.with(a.elements.iter().map(|x| apply_unary(a.dtype, op, *x)).collect())
    }

    /// As [`Value::binary`].
    pub fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        let pairs = a.elements.iter().zip(&b.elements);
        a.with(pairs.map(|(x, y)| apply(a.dtype, op, *x, *y)).collect())
    }

    /// As [`Value::compare`].
    pub fn compare(op: Compare, a: &Self, b: &Self) -> Self {
        let holds = |(x, y): (&Exact, &Exact)| match (*x, *y) {
            (Whole(x), Whole(y)) => op.holds(x, y),
            (x, y) => op.holds(x.to_f64(), y.to_f64()),
        };
        let pairs = a.elements.iter().zip(&b.elements);
        let elements = pairs.map(|pair| Whole(holds(pair).into())).collect();
        Self { dtype: DType::I32, elements }
    }

    /// As [`Value::predicate`].
    pub fn predicate(op: Compare, a: &Self, b: &Self) -> Self {
        Self { dtype: DType::Bool, ..Self::compare(op, a, b) }
    }

    /// As [`Value::select`].
    pub fn select(condition: &Self, a: &Self, b: &Self) -> Self {
        let choose = |i: usize| if condition.elements[i].is_zero() { b } else { a }.elements[i];
        a.with((0..a.elements.len()).map(choose).collect())
    }

    /// As [`Value::fma`].
    pub fn fma(a: &Self, b: &Self, c: &Self) -> Self {
        let at = |i: usize| fused(a.dtype, a.elements[i], b.elements[i], c.elements[i]);
        a.with((0..a.elements.len()).map(at).collect())
    }

    /// As [`Value::cast`].
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "CONV-4")]
        let convert = |x: &Exact| match *x {
            Whole(x) if dtype == DType::Bool => Whole(i128::from(x != 0)),
            Whole(x) if !dtype.is_float() => wrapped(dtype, x),
            Whole(x) if dtype == DType::F64 => Float(x as f64),
            Whole(x) => element(dtype, f64::from(x as f32)),
            Float(x) => element(dtype, x),
        };
        if dtype == self.dtype {
            return self.clone();
        }
        Self { dtype, elements: self.elements.iter().map(convert).collect() }
    }

    /// As [`Value::reduce`].
    pub fn reduce(how: Reduce, a: &Self, outer: usize, axis: usize, inner: usize) -> Self {
        let mut elements = Vec::new();
        for o in 0..outer {
            for i in 0..inner {
                let along = (0..axis).map(|x| a.elements[(o * axis + x) * inner + i]);
                elements.push(reduce_one(a.dtype, how, along));
            }
        }
        a.with(elements)
    }

    /// As [`Value::dot`].
    #[expect(clippy::many_single_char_names, reason = "the letters of the textbook")]
    pub fn dot(a: &Self, b: &Self, [m, n, k]: [usize; 3], acc: Option<&Self>) -> Self {
        let dtype = a.dtype.product();
        let zero = if dtype.is_float() { Float(0.0) } else { Whole(0) };
        let mut c = acc.map_or_else(|| vec![zero; m * n], |acc| acc.elements.clone());
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

/// Applies an operation to one element.
fn apply_unary(dtype: DType, op: Unary, x: Exact) -> Exact {
    match (x, op) {
        (Whole(x), Unary::Neg) => wrapped(dtype, -x),
        (Whole(x), Unary::Abs) => wrapped(dtype, x.abs()),
        (Whole(x), Unary::Relu) => Whole(x.max(0)),
        (Whole(x), Unary::Not) => wrapped(dtype, -1 - x),
        (Whole(x), Unary::Floor | Unary::Ceil) => Whole(x),
        // One bit is computed as a byte.
        #[expect(clippy::cast_precision_loss, reason = "OPS-1: by way of f32")]
        (Whole(x), _) if dtype == DType::Bool => {
            wrapped(dtype, element(DType::U8, f64::from(op.apply(x as f32))).whole())
        }
        #[expect(clippy::cast_precision_loss, reason = "OPS-1: by way of f32")]
        (Whole(x), _) => element(dtype, f64::from(op.apply(x as f32))),
        (Float(x), _) if dtype == DType::F64 => Float(op.apply_f64(x)),
        (x, _) => element(dtype, f64::from(op.apply(float(x)))),
    }
}

/// Applies an operation to two elements.
fn apply(dtype: DType, op: Binary, x: Exact, y: Exact) -> Exact {
    match (x, y) {
        (Whole(x), Whole(y)) => {
            // One bit is computed as a byte.
            let size = if dtype == DType::Bool { DType::U8 } else { dtype };
            wrapped(dtype, whole_binary(size, op, x, y))
        }
        (x, y) if dtype == DType::F64 => Float(op.apply_f64(x.to_f64(), y.to_f64())),
        (x, y) => element(dtype, f64::from(op.apply(float(x), float(y)))),
    }
}

fn reduce_one(dtype: DType, how: Reduce, along: impl Iterator<Item = Exact>) -> Exact {
    let wide = match dtype {
        DType::F64 => DType::F64,
        _ if dtype.is_float() => DType::F32,
        _ => dtype,
    };
    let start = match how {
        _ if dtype.is_float() => Float(how.start().into()),
        Reduce::Sum | Reduce::Or | Reduce::Xor => Whole(0),
        Reduce::Prod => Whole(1),
        Reduce::And => wrapped(dtype, -1),
        Reduce::Max | Reduce::MaxNum => Whole(limits(dtype).0),
        Reduce::Min | Reduce::MinNum => Whole(limits(dtype).1),
    };
    let sum = along.fold(start, |sum, x| apply(wide, how.binary(), sum, x));
    match sum {
        Float(sum) => element(dtype, sum),
        whole @ Whole(_) => whole,
    }
}

/// Computes `x * y + sum` with one rounding to the type of computation, and one to `dtype`.
fn fused(dtype: DType, x: Exact, y: Exact, sum: Exact) -> Exact {
    match (x, y, sum) {
        (Whole(x), Whole(y), Whole(sum)) => {
            wrapped(dtype, wrapped(dtype, x.wrapping_mul(y)).whole() + sum)
        }
        (Float(x), Float(y), Float(sum)) if dtype == DType::F64 => Float(x.mul_add(y, sum)),
        (x, y, sum) => element(dtype, f64::from(float(x).mul_add(float(y), float(sum)))),
    }
}
