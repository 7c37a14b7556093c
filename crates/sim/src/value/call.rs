//! Operations that see more than one element at a time: takes, gathers, scans, sorts, arguments of extremes, random bits.
//!
//! - **CALL-1 (stable).** A sort is stable and total: `-0.0` before `0.0`, NaNs last in either direction.
//! - **CALL-2 (first).** The index of an extreme is the first of equals; a NaN counts as the extreme.
//! - **CALL-3 (scan).** Element `i` of a scan is the reduction of the elements up to `i` (from `i` on, if reversed), in that
//!   order; floats of fewer bits accumulate in `f32`, and each result is rounded once.
//! - **CALL-4 (Philox).** Random bits are those of Philox 4x32: a function of seed and counter, and of nothing else.

use super::atomic::Updates;
use super::buffer::Buffer;
use super::combine::{self, Combine};
use super::element::Element;
use super::node::Op;
use super::number::Number;
use super::{DType, Reduce, Slice, Value, convert};
use crate::with_element;
use std::cmp::Ordering;
use std::sync::Arc;

/// A shape seen from one of its axes: `outer` blocks of `axis` rows of `inner` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    /// The product of the dimensions before the axis.
    pub outer: usize,
    /// The length of the axis.
    pub axis: usize,
    /// The product of the dimensions after the axis.
    pub inner: usize,
}

impl Axes {
    /// Returns the only axis of `len` elements.
    pub fn row(len: usize) -> Self {
        Self { outer: 1, axis: len, inner: 1 }
    }

    /// Returns the axes of a shape, seen from `axis`.
    ///
    /// # Panics
    ///
    /// If there is no such axis.
    pub fn of(dims: &[usize], axis: usize) -> Self {
        let (outer, inner) = (dims[..axis].iter().product(), dims[axis + 1..].iter().product());
        Self { outer, axis: dims[axis], inner }
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.outer * self.axis * self.inner
    }

    /// Returns the elements of each line along the axis: their first place; they are `inner` apart.
    fn lines(self) -> impl Iterator<Item = usize> {
        (0..self.outer)
            .flat_map(move |o| (0..self.inner).map(move |i| o * self.axis * self.inner + i))
    }
}

/// An operation on whole values.
#[derive(Clone)]
pub(crate) enum Call {
    /// The elements at these places.
    Take(Arc<[usize]>),
    /// For each element of an index, the element of the source at this index along the axis; the source's axes.
    Gather(Axes),
    Scan {
        how: Reduce,
        axes: Axes,
        reverse: bool,
    },
    /// The index of the largest element along the axis, or of the smallest.
    Arg {
        largest: bool,
        axes: Axes,
    },
    Sort {
        axes: Axes,
        descending: bool,
    },
    /// The bits of all results; of a scan, and of a reversed one.
    Combine {
        program: Arc<Combine>,
        axes: Axes,
        scan: Option<bool>,
    },
    /// Four random words for each counter, first words first.
    Philox {
        seed: u64,
        rounds: u32,
    },
    /// The number of elements equal to each of the first whole numbers.
    Histogram(usize),
    /// Updates of the first operand by the others.
    Update(Updates),
}

impl Call {
    /// Computes the result from ready operands.
    pub(super) fn compute(&self, operands: &[Value]) -> Buffer {
        let source = operands[0].ready_elements();
        match self {
            Self::Take(places) => with_element!(source.dtype(), T => {
                let source = source.of::<T>();
                T::buffer(places.iter().map(|place| source[*place]).collect())
            }),
            Self::Gather(axes) => gather(source, &operands[1], *axes),
            Self::Scan { how, axes, reverse } => with_element!(source.dtype(), T => {
                T::buffer(scan::<T>(source.of(), *how, *axes, *reverse))
            }),
            Self::Arg { largest, axes } => with_element!(source.dtype(), T => {
                i32::buffer(extremes::<T>(source.of(), *axes, *largest))
            }),
            Self::Sort { axes, descending } => with_element!(source.dtype(), T => {
                T::buffer(sorted::<T>(source.of(), *axes, *descending))
            }),
            Self::Combine { program, axes, scan } => combine::run(program, operands, *axes, *scan),
            Self::Philox { seed, rounds } => {
                u32::buffer(philox(&operands[0].to_i64(), *seed, *rounds))
            }
            Self::Update(updates) => updates.compute(operands),
            Self::Histogram(bins) => i32::buffer(histogram(&operands[0].to_i64(), *bins)),
        }
    }
}

fn gather(source: Slice<'_>, index: &Value, axes: Axes) -> Buffer {
    let Axes { outer, axis, inner } = axes;
    let index = index.to_i64();
    let along = index.len() / (outer * inner).max(1);
    with_element!(source.dtype(), T => {
        let source = source.of::<T>();
        let element = |(at, i): (usize, &i64)| {
            let (o, rest) = (at / (along * inner), at % inner);
            let place = usize::try_from(*i).ok().filter(|i| *i < axis);
            place.map_or_else(T::default, |i| source[(o * axis + i) * inner + rest])
        };
        T::buffer(index.iter().enumerate().map(element).collect())
    })
}

fn scan<T: Number>(source: &[T], how: Reduce, axes: Axes, reverse: bool) -> Vec<T> {
    let mut out = source.to_vec();
    for first in axes.lines() {
        let mut sum = <T::Sum as Number>::start(how);
        for step in 0..axes.axis {
            let at = first + if reverse { axes.axis - 1 - step } else { step } * axes.inner;
            sum = <T::Sum as Number>::binary(how.binary(), sum, source[at].to_sum());
            out[at] = T::from_sum(sum);
        }
    }
    out
}

/// The total order of elements: NaNs last, `-0.0` before `0.0`.
fn total<T: Number>(a: T, b: T) -> Ordering {
    match (is_nan(a), is_nan(b)) {
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal).then_with(|| {
            let negative = |x: T| T::DTYPE.is_float() && x.to_f64().is_sign_negative();
            negative(b).cmp(&negative(a))
        }),
        (a, b) => a.cmp(&b),
    }
}

#[expect(clippy::eq_op, reason = "a NaN does not equal itself")]
fn is_nan<T: Number>(x: T) -> bool {
    x != x
}

fn sorted<T: Number>(source: &[T], axes: Axes, descending: bool) -> Vec<T> {
    let mut out = source.to_vec();
    let mut line = Vec::with_capacity(axes.axis);
    for first in axes.lines() {
        line.clear();
        line.extend((0..axes.axis).map(|a| source[first + a * axes.inner]));
        line.sort_by(|a, b| {
            let turned = descending && !is_nan(*a) && !is_nan(*b);
            if turned { total(*b, *a) } else { total(*a, *b) }
        });
        for (a, x) in line.iter().enumerate() {
            out[first + a * axes.inner] = *x;
        }
    }
    out
}

fn extremes<T: Number>(source: &[T], axes: Axes, largest: bool) -> Vec<i32> {
    let beats = |x: T, best: T| match (is_nan(x), is_nan(best)) {
        (_, true) => false,
        (true, false) => true,
        _ if largest => x > best,
        _ => x < best,
    };
    let index = |first: usize| {
        let at = |a: usize| source[first + a * axes.inner];
        let best = (1..axes.axis).fold(0, |best, a| if beats(at(a), at(best)) { a } else { best });
        i32::try_from(best).unwrap_or(i32::MAX)
    };
    axes.lines().map(index).collect()
}

/// Philox 4x32: each round multiplies two words of the counter and mixes the upper halves with the others and the key.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "halves of words")]
fn philox(counters: &[i64], seed: u64, rounds: u32) -> Vec<u32> {
    let n = counters.len();
    let mut out = vec![0; 4 * n];
    for (i, counter) in counters.iter().enumerate() {
        let mut c = [*counter as u32, (*counter as u64 >> 32) as u32, 0, 0];
        let mut key = [seed as u32, (seed >> 32) as u32];
        for _ in 0..rounds {
            let left = u64::from(c[0]) * 0xD251_1F53;
            let right = u64::from(c[2]) * 0xCD9E_8D57;
            c = [
                (right >> 32) as u32 ^ c[1] ^ key[0],
                right as u32,
                (left >> 32) as u32 ^ c[3] ^ key[1],
                left as u32,
            ];
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        (0..4).for_each(|word| out[word * n + i] = c[word]);
    }
    out
}

fn histogram(numbers: &[i64], bins: usize) -> Vec<i32> {
    let mut counts = vec![0; bins];
    for number in numbers {
        if let Some(count) = usize::try_from(*number).ok().and_then(|bin| counts.get_mut(bin)) {
            *count += 1;
        }
    }
    counts
}

/// Recording of operations on whole values.
impl Value {
    fn call(dtype: DType, len: usize, call: Call, operands: Vec<Self>) -> Self {
        Self::record(dtype, len, Op::Call(Box::new((call, operands))))
    }

    pub(super) fn updated(dtype: DType, len: usize, updates: Updates, operands: Vec<Self>) -> Self {
        Self::call(dtype, len, Call::Update(updates), operands)
    }

    /// Creates `start`, `start + 1`, and so on, wrapped to `dtype`.
    pub fn arange(dtype: DType, start: i64, len: usize) -> Self {
        let numbers = (0..len as u64).map(|i| start.wrapping_add(i.cast_signed()));
        let numbers = Self::from_vec(numbers.collect::<Vec<i64>>());
        Self::from_buffer(convert::buffer(numbers.elements(), dtype))
    }

    /// Records the elements at `places`, in this order.
    ///
    /// # Panics
    ///
    /// If a place lies outside the value.
    #[must_use]
    pub fn take(&self, places: Vec<usize>) -> Self {
        assert!(places.iter().all(|place| *place < self.len), "VAL-6: places of {}", self.len);
        let len = places.len();
        Self::call(self.dtype(), len, Call::Take(places.into()), vec![self.clone()])
    }

    /// Records, for each element of `index`, the element of this value at that index along the axis and at the same
    /// place in the other dimensions. `index` has the same dimensions but for the axis. An index outside the axis gives 0.
    ///
    /// # Panics
    ///
    /// If lengths do not fit, or the index is not of a whole type.
    #[must_use]
    pub fn gather(&self, axes: Axes, index: &Self) -> Self {
        assert_eq!(self.len, axes.elements(), "VAL-6: shape of a gather");
        let line = axes.outer * axes.inner;
        assert!(index.len.is_multiple_of(line.max(1)), "VAL-6: index of a gather");
        assert!(!index.dtype().is_float(), "VAL-6: an index is whole");
        Self::call(self.dtype(), index.len, Call::Gather(axes), vec![self.clone(), index.clone()])
    }

    /// Records the reduction of all elements along the axis up to each element (CALL-3).
    ///
    /// # Panics
    ///
    /// If the length does not fit, or the reduction does not take elements of this type.
    pub fn scan(how: Reduce, a: &Self, axes: Axes, reverse: bool) -> Self {
        assert!(how.takes(a.dtype()), "VAL-6: {how:?} of {}", a.dtype());
        assert_eq!(a.len, axes.elements(), "VAL-6: shape of a scan");
        Self::call(a.dtype(), a.len, Call::Scan { how, axes, reverse }, vec![a.clone()])
    }

    /// Records the index of the largest (or smallest) element along the axis, as `i32` (CALL-2).
    ///
    /// # Panics
    ///
    /// If the length does not fit, or the axis is empty.
    pub(crate) fn arg_extreme(a: &Self, axes: Axes, largest: bool) -> Self {
        assert_eq!(a.len, axes.elements(), "VAL-6: shape of a reduction");
        assert!(axes.axis > 0, "VAL-6: the extreme of nothing");
        let len = axes.outer * axes.inner;
        Self::call(DType::I32, len, Call::Arg { largest, axes }, vec![a.clone()])
    }

    /// Records a sort along the axis (CALL-1).
    ///
    /// # Panics
    ///
    /// If the length does not fit.
    pub fn sort(a: &Self, axes: Axes, descending: bool) -> Self {
        assert_eq!(a.len, axes.elements(), "VAL-6: shape of a sort");
        Self::call(a.dtype(), a.len, Call::Sort { axes, descending }, vec![a.clone()])
    }

    /// Records a reduction along the axis by a program; one result for each operand.
    ///
    /// # Panics
    ///
    /// If types or lengths do not fit, or the axis is empty.
    pub fn combine(program: &Arc<Combine>, operands: &[Self], axes: Axes) -> Vec<Self> {
        Self::combined(program, operands, axes, None)
    }

    /// Records a scan along the axis by a program; one result for each operand.
    ///
    /// # Panics
    ///
    /// If types or lengths do not fit, or the axis is empty.
    pub fn combine_scan(
        program: &Arc<Combine>,
        operands: &[Self],
        axes: Axes,
        reverse: bool,
    ) -> Vec<Self> {
        Self::combined(program, operands, axes, Some(reverse))
    }

    fn combined(
        program: &Arc<Combine>,
        operands: &[Self],
        axes: Axes,
        scan: Option<bool>,
    ) -> Vec<Self> {
        let fits = operands.iter().map(Self::dtype).eq(program.types().iter().copied());
        assert!(fits, "VAL-6: operands of a combination");
        let whole = operands.iter().all(|operand| operand.len == axes.elements());
        assert!(whole && axes.axis > 0, "VAL-6: shape of a combination");
        let len = if scan.is_some() { axes.elements() } else { axes.outer * axes.inner };
        let call = Call::Combine { program: Arc::clone(program), axes, scan };
        let bits = Self::call(DType::U64, operands.len() * len, call, operands.to_vec());
        let result = |(i, dtype): (usize, &DType)| bits.slice(i * len, len).bits_as(*dtype);
        program.types().iter().enumerate().map(result).collect()
    }

    /// The elements of `dtype` whose bits are these `u64`s.
    fn bits_as(&self, dtype: DType) -> Self {
        let words = match dtype.size() {
            1 => self.cast(DType::U8),
            2 => self.cast(DType::U16),
            4 => self.cast(DType::U32),
            _ => self.clone(),
        };
        if dtype == DType::Bool { words.cast(dtype) } else { words.bitcast(dtype) }
    }

    /// Records four random `u32`s for each counter (a whole number): Philox 4x32 with this seed (CALL-4).
    pub(crate) fn philox(seed: u64, counters: &Self, rounds: u32) -> [Self; 4] {
        let n = counters.len;
        let call = Call::Philox { seed, rounds };
        let words = Self::call(DType::U32, 4 * n, call, vec![counters.clone()]);
        [0, 1, 2, 3].map(|word| words.slice(word * n, n))
    }

    /// Records how many elements equal each of the whole numbers below `bins`, as `i32`.
    pub fn histogram(a: &Self, bins: usize) -> Self {
        Self::call(DType::I32, bins, Call::Histogram(bins), vec![a.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(numbers: &[f32]) -> Value {
        Value::from_f32(DType::F32, numbers)
    }

    #[test]
    fn call_1_sorts_are_total() {
        let mixed = floats(&[f32::NAN, 0.0, -1.0, -0.0, 7.0, f32::NEG_INFINITY]);
        let bits =
            |value: Value| value.to_f32().into_iter().map(|x| x.to_string()).collect::<Vec<_>>();
        let up = bits(Value::sort(&mixed, Axes::row(6), false));
        assert_eq!(up, ["-inf", "-1", "-0", "0", "7", "NaN"], "CALL-1");
        let down = bits(Value::sort(&mixed, Axes::row(6), true));
        assert_eq!(down, ["7", "0", "-0", "-1", "-inf", "NaN"], "CALL-1");
        let columns =
            Value::sort(&Value::from_i32(&[3, 1, 2, 9, 0, 4]), Axes::of(&[3, 2], 0), false);
        assert_eq!(columns.to_i32(), [0, 1, 2, 4, 3, 9], "CALL-1: along the first axis");
    }

    #[test]
    fn call_2_the_first_of_equals() {
        let axes = Axes::row(5);
        let best = |numbers: &[f32; 5], largest| {
            Value::arg_extreme(&floats(numbers), axes, largest).to_i32()[0]
        };
        assert_eq!(best(&[1.0, 3.0, 3.0, 0.0, 0.0], true), 1, "CALL-2");
        assert_eq!(best(&[1.0, 3.0, 3.0, 0.0, 0.0], false), 3, "CALL-2");
        assert_eq!(best(&[1.0, 3.0, f32::NAN, f32::NAN, 0.0], false), 2, "CALL-2: a NaN");
    }

    #[test]
    fn call_3_scans_round_once() {
        let ones = Value::full(DType::F16, 4096, 1.0);
        let sums = Value::scan(Reduce::Sum, &ones, Axes::row(4096), false);
        assert_eq!(
            sums.get(4095).to_bits(),
            4096_f64.to_bits(),
            "CALL-3: f16 alone would stop at 2048"
        );
        let whole = Value::scan(Reduce::Prod, &Value::from_i32(&[2, 3, 4]), Axes::row(3), true);
        assert_eq!(whole.to_i32(), [24, 12, 4], "CALL-3: from the end");
    }

    /// Known answers of the authors of Philox, 10 rounds: all zeros, and digits of pi.
    #[test]
    fn call_4_philox_gives_the_known_answers() {
        let zeros = philox(&[0], 0, 10);
        assert_eq!(zeros, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8], "CALL-4");
        let ones = philox(&[-1], u64::MAX, 10);
        assert_ne!(ones, philox(&[-1], u64::MAX, 9), "CALL-4: rounds matter");
    }

    #[test]
    fn comb_1_the_left_group_is_the_start() {
        let mut program = Combine::new(&[DType::F32]);
        let difference = program
            .binary(super::super::Binary::Sub, program.left(0), program.right(0))
            .expect("typed");
        program.finish(&[difference]).expect("typed");
        let program = Arc::new(program);
        let numbers = floats(&[10.0, 1.0, 2.0]);
        assert_eq!(
            Value::combine(&program, std::slice::from_ref(&numbers), Axes::row(3))[0].to_f32(),
            [7.0],
            "COMB-1"
        );
        let scan = Value::combine_scan(&program, &[numbers], Axes::row(3), true);
        assert_eq!(scan[0].to_f32(), [-9.0, 1.0, 2.0], "COMB-1: from the end");
    }

    #[test]
    fn comb_2_programs_are_typed() {
        let mut program = Combine::new(&[DType::F32, DType::I32]);
        let (x, i) = (program.left(0), program.left(1));
        let error = program.binary(super::super::Binary::Add, x, i).unwrap_err();
        assert_eq!(error.to_string(), "Add takes one type, not f32 and i32", "COMB-2");
        assert!(
            program.binary(super::super::Binary::And, x, x).is_err(),
            "COMB-2: bits of a float"
        );
        assert!(
            program.finish(&[i, x]).is_err() && program.bitcast(x, DType::F64).is_err(),
            "COMB-2"
        );
    }

    #[test]
    fn comb_3_every_step_rounds() {
        let mut program = Combine::new(&[DType::F16]);
        let sum = program
            .binary(super::super::Binary::Add, program.left(0), program.right(0))
            .expect("typed");
        program.finish(&[sum]).expect("typed");
        let ones = Value::full(DType::F16, 4096, 1.0);
        let sum = Value::combine(&Arc::new(program), &[ones], Axes::row(4096));
        assert_eq!(sum[0].to_f32(), [2048.0], "COMB-3: 2048 + 1 is no f16");
    }
}
