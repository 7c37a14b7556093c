//! Values against the slow, readable reference: random graphs, every type, every odd length.
#![expect(clippy::many_single_char_names, reason = "the letters of the textbook")]

use phalanx_sim::value::reference::Array;
use phalanx_sim::value::{Binary, Buffer, Compare, DType, Evaluator, Inline, Reduce, Unary, Value};
use proptest::prelude::*;

/// A value and its reference.
#[derive(Clone)]
struct Pair(Value, Array);

impl Pair {
    fn check(&self) {
        assert_eq!(Array::of(&self.0), self.1, "VAL-2: {:?} differs from the reference", self.0);
    }
}

/// A stream of random decisions.
struct Dice(Vec<u16>, usize);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        usize::from(self.0[self.1 % self.0.len()].wrapping_mul(40_503).rotate_left(7)) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Returns random numbers, some of them special.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn number(dice: &mut Dice) -> f32 {
    const AWKWARD: [f32; 14] = [
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        65504.0,
        65520.0,
        6e-8,
        -3e-5,
        1e-40,
        3.4e38,
        2_147_483_648.0,
        16_777_217.0,
        1.0 / 3.0,
    ];
    match dice.below(8) {
        0 => dice.pick(&AWKWARD),
        1 => dice.below(5) as f32,
        _ => (dice.below(40_001) as f32 - 20_000.0) / 311.0,
    }
}

/// Returns numbers of any bits.
fn bits(dice: &mut Dice, dtype: DType, len: usize) -> Pair {
    let mut word = || (0..4).fold(0_u64, |bits, _| bits << 16 | dice.below(1 << 16) as u64);
    let words: Vec<u8> = (0..len).flat_map(|_| word().to_le_bytes()).collect();
    let value = Value::from_buffer(Buffer::from_bytes(dtype, &words[..len * dtype.size()]));
    Pair(value.clone(), Array::of(&value))
}

fn input(dice: &mut Dice, dtype: DType, len: usize) -> Pair {
    if dice.below(4) == 0 {
        return bits(dice, dtype, len);
    }
    if dice.below(6) == 0 {
        let x = number(dice);
        return Pair(Value::full(dtype, len, f64::from(x)), Array::new(dtype, &vec![x; len]));
    }
    let elements: Vec<f32> = (0..len).map(|_| number(dice)).collect();
    Pair(Value::from_f32(dtype, &elements), Array::new(dtype, &elements))
}

/// Returns a pair of the same type and length as `a`.
fn alike(dice: &mut Dice, pairs: &[Pair], a: &Pair) -> Pair {
    let same = |p: &&Pair| p.0.dtype() == a.0.dtype() && p.0.len() == a.0.len();
    let found: Vec<&Pair> = pairs.iter().filter(same).collect();
    if dice.below(3) == 0 {
        return input(dice, a.0.dtype(), a.0.len());
    }
    found[dice.below(found.len())].clone()
}

/// Adds one random operation on the existing values.
fn grow(dice: &mut Dice, pairs: &[Pair]) -> Pair {
    let a = pairs[dice.below(pairs.len())].clone();
    let (len, dtype) = (a.0.len(), dice.pick(&DType::ALL));
    match dice.below(13) {
        12 => {
            let (b, c) = (alike(dice, pairs, &a), alike(dice, pairs, &a));
            Pair(Value::fma(&a.0, &b.0, &c.0), Array::fma(&a.1, &b.1, &c.1))
        }
        0 => input(dice, dtype, len),
        1 | 2 => {
            let ops: Vec<_> = Unary::ALL.into_iter().filter(|op| op.takes(a.0.dtype())).collect();
            let op = dice.pick(&ops);
            Pair(Value::unary(op, &a.0), Array::unary(op, &a.1))
        }
        3..=6 => {
            let ops: Vec<_> = Binary::ALL.into_iter().filter(|op| op.takes(a.0.dtype())).collect();
            let (op, b) = (dice.pick(&ops), alike(dice, pairs, &a));
            let (a, b) = if dice.below(2) == 0 { (a, b) } else { (b, a) };
            Pair(Value::binary(op, &a.0, &b.0), Array::binary(op, &a.1, &b.1))
        }
        7 => {
            let (op, b) = (dice.pick(&Compare::ALL), alike(dice, pairs, &a));
            let (x, y) = match dice.below(2) {
                0 => (Value::compare(op, &a.0, &b.0), Array::compare(op, &a.1, &b.1)),
                _ => (Value::predicate(op, &a.0, &b.0), Array::predicate(op, &a.1, &b.1)),
            };
            let c = alike(dice, pairs, &a);
            Pair(Value::select(&x, &c.0, &a.0), Array::select(&y, &c.1, &a.1))
        }
        8 => Pair(a.0.cast(dtype), a.1.cast(dtype)),
        9 => {
            let start = dice.below(len + 1);
            let n = dice.below(len - start + 1);
            Pair(a.0.slice(start, n), a.1.slice(start, n))
        }
        10 => {
            let cut = dice.below(len + 1);
            let b = alike(dice, pairs, &a);
            let values = [a.0.slice(0, cut), b.0.clone(), a.0.slice(cut, len - cut)];
            let arrays = [a.1.slice(0, cut), b.1.clone(), a.1.slice(cut, len - cut)];
            Pair(Value::concat(&values), Array::concat(&arrays))
        }
        _ => shaped(dice, pairs, &a),
    }
}

/// Adds an operation on rows and columns.
fn shaped(dice: &mut Dice, pairs: &[Pair], a: &Pair) -> Pair {
    let len = a.0.len();
    let rows = (1..=len.max(1)).filter(|r| len.is_multiple_of(*r)).collect::<Vec<_>>();
    let m = dice.pick(&rows);
    let n = len / m;
    match dice.below(3) {
        0 => Pair(a.0.strided(0, &[n, m], &[1, n]), a.1.strided(0, &[n, m], &[1, n])),
        1 => {
            let all: Vec<_> =
                Reduce::ALL.into_iter().filter(|how| how.takes(a.0.dtype())).collect();
            let how = dice.pick(&all);
            let (outer, axis, inner) = if dice.below(2) == 0 { (m, n, 1) } else { (1, m, n) };
            let (x, y) = (&a.0, &a.1);
            Pair(
                Value::reduce(how, x, outer, axis, inner),
                Array::reduce(how, y, outer, axis, inner),
            )
        }
        _ => {
            // (m*n) times (n*m), added to a value of fitting size.
            let b = alike(dice, pairs, a);
            let (mut x, mut y) = (None, None);
            for _ in 0..=dice.below(3) {
                let value = Value::dot(&a.0, &b.0, [m, m, n], x.as_ref());
                let array = Array::dot(&a.1, &b.1, [m, m, n], y.as_ref());
                (x, y) = (Some(value), Some(array));
            }
            Pair(x.expect("at least one"), y.expect("at least one"))
        }
    }
}

fn graph(dice: &mut Dice, steps: usize, len: usize) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = DType::ALL.iter().map(|d| input(dice, *d, len)).collect();
    for _ in 0..steps {
        let next = grow(dice, &pairs);
        if next.0.len() <= 5000 {
            pairs.push(next);
        }
    }
    pairs
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![0_usize..40, Just(64), 100_usize..300, Just(2047), Just(2048), Just(2049)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// VAL-2 and VAL-3: any graph, evaluated in any order, keeping or dropping the rest after each evaluation.
    #[test]
    fn val_2_random_graphs_equal_the_reference(
        rolls in prop::collection::vec(any::<u16>(), 300..400),
        steps in 1_usize..40,
        len in length(),
    ) {
        let mut dice = Dice(rolls, 0);
        let mut pairs = graph(&mut dice, steps, len);
        while !pairs.is_empty() {
            let pair = pairs.swap_remove(dice.below(pairs.len()));
            pair.check();
        }
    }

    /// VAL-2: only the end of a graph is kept, so that all of it fuses.
    #[test]
    fn val_2_fused_graphs_equal_the_reference(
        rolls in prop::collection::vec(any::<u16>(), 300..400),
        steps in 1_usize..60,
        len in length(),
    ) {
        let mut dice = Dice(rolls, 0);
        let last = graph(&mut dice, steps, len).pop().expect("inputs at least");
        last.check();
    }

    /// VAL-2: slices of a value equal the value, whether computed before or after.
    #[test]
    fn val_2_pieces_equal_the_whole(
        rolls in prop::collection::vec(any::<u16>(), 300..400),
        len in length(),
        pieces in 1_usize..9,
    ) {
        let mut dice = Dice(rolls, 0);
        let Pair(value, array) = graph(&mut dice, 12, len).pop().expect("inputs at least");
        let (n, mut parts) = (value.len(), Vec::new());
        for i in 0..pieces {
            let (from, to) = (n * i / pieces, n * (i + 1) / pieces);
            parts.push(Value::unary(Unary::Neg, &value.slice(from, to - from)));
        }
        Inline.force(&parts);
        let joined = Value::unary(Unary::Neg, &Value::concat(&parts));
        let twice = Array::unary(Unary::Neg, &Array::unary(Unary::Neg, &array));
        prop_assert_eq!(Array::of(&joined), twice);
    }

    /// VAL-2: long chains over leaves, which are added several at a time.
    #[test]
    fn val_2_chains_are_added_in_order(
        rolls in prop::collection::vec(any::<u16>(), 300..400),
        links in 1_usize..20,
        len in length(),
    ) {
        let mut dice = Dice(rolls, 0);
        for dtype in DType::ALL {
            let mut sum = input(&mut dice, dtype, len);
            for _ in 0..links {
                let op = dice.pick(&[Binary::Add, Binary::Add, Binary::Add, Binary::Add, Binary::Sub]);
                let b = input(&mut dice, dtype, len);
                let value = Value::binary(op, &sum.0, &b.0);
                sum = Pair(value, Array::binary(op, &sum.1, &b.1));
            }
            sum.check();
        }
    }

    /// VAL-2: a selection whose operands are computed in any order.
    #[test]
    fn val_2_choices_keep_their_operands_apart(
        rolls in prop::collection::vec(any::<u16>(), 100..200),
        depths in prop::array::uniform3(0_usize..4),
        len in length(),
    ) {
        let mut dice = Dice(rolls, 0);
        let operands = [(DType::I32, depths[0]), (DType::F16, depths[1]), (DType::F16, depths[2])];
        let [c, a, b] = operands.map(|(dtype, depth)| {
            (0..depth).fold(input(&mut dice, dtype, len), |x, _| {
                Pair(Value::unary(Unary::Abs, &x.0), Array::unary(Unary::Abs, &x.1))
            })
        });
        let truth = Array::select(&c.1, &a.1, &b.1);
        let value = Value::select(&c.0, &a.0, &b.0);
        drop((a, b, c));
        Pair(value, truth).check();
    }

    /// DOT-1: products of every shape, in blocks or not.
    #[test]
    fn dot_1_any_shape_equals_the_reference(
        m in 0_usize..40,
        n in 0_usize..70,
        k in prop_oneof![0_usize..40, 250_usize..270],
        rolls in prop::collection::vec(any::<u16>(), 50..60),
        links in 1_usize..4,
    ) {
        let mut dice = Dice(rolls, 0);
        for _ in 0..4 {
            let dtype = dice.pick(&DType::ALL);
            let wide = dtype.product();
            let mut sum = input(&mut dice, wide, m * n);
            for _ in 0..links {
                let (a, b) = (input(&mut dice, dtype, m * k), input(&mut dice, dtype, k * n));
                let value = Value::dot(&a.0, &b.0, [m, n, k], Some(&sum.0));
                sum = Pair(value, Array::dot(&a.1, &b.1, [m, n, k], Some(&sum.1)));
            }
            sum.check();
        }
    }
}

fn ramp(len: usize) -> Vec<f32> {
    (0..len).map(|i| f32::from(u16::try_from(i * 7 % 251).expect("small")) / 16.0 - 7.0).collect()
}

#[test]
fn dot_1_blocks_of_rows_and_columns() {
    let [m, n, k] = [131, 530, 17];
    let (a, b) = (ramp(m * k), ramp(k * n));
    let value = Value::dot(
        &Value::from_f32(DType::F16, &a),
        &Value::from_f32(DType::F16, &b),
        [m, n, k],
        None,
    );
    let (a, b) = (Array::new(DType::F16, &a), Array::new(DType::F16, &b));
    assert_eq!(Array::of(&value), Array::dot(&a, &b, [m, n, k], None), "DOT-1");
}

#[test]
fn dot_3_tiles_are_read_in_place() {
    let (n, t) = (24, 8);
    let elements = ramp(n * n);
    let (a, b) = (Value::from_f32(DType::Bf16, &elements), Array::new(DType::Bf16, &elements));
    let (mut x, mut y) = (None, None);
    for p in 0..n / t {
        let (left, right) = (t * n + p * t, p * t * n + 2 * t);
        let tile = |at| a.strided(at, &[t, t], &[n, 1]);
        let truth = |at| b.strided(at, &[t, t], &[n, 1]);
        x = Some(Value::dot(&tile(left), &tile(right), [t; 3], x.as_ref()));
        y = Some(Array::dot(&truth(left), &truth(right), [t; 3], y.as_ref()));
    }
    assert_eq!(Array::of(&x.expect("three")), y.expect("three"), "DOT-3");
}

#[test]
fn val_1_looking_changes_nothing() {
    let a = Value::from_f32(DType::F32, &ramp(5000));
    let sum = Value::binary(Binary::Add, &a, &a);
    let part = sum.slice(10, 20);
    let (before, copy) = (sum.to_f32(), sum.clone());
    let more = Value::binary(Binary::Mul, &part, &part);
    more.to_f32();
    assert_eq!(before, sum.to_f32(), "VAL-1");
    assert_eq!(before[10..30], part.to_f32(), "VAL-1");
    assert_eq!(before, copy.to_f32(), "VAL-1");
    assert_eq!(a.to_f32(), ramp(5000), "VAL-1");
}

#[test]
fn val_3_every_operation_rounds() {
    let one = Value::full(DType::F16, 3, 2048.0);
    let tiny = Value::full(DType::F16, 3, 1.0);
    // 2048 + 1 ties to even in f16: only rounding each time stays at 2048.
    let sum = (0..10).fold(one, |sum, _| Value::binary(Binary::Add, &sum, &tiny));
    assert_eq!(sum.to_f32(), [2048.0; 3], "VAL-3");
    // A reduction rounds once.
    let mut elements = vec![1.0; 11];
    elements[0] = 2048.0;
    let sum = Value::reduce(Reduce::Sum, &Value::from_f32(DType::F16, &elements), 1, 11, 1);
    assert_eq!(sum.to_f32(), [2058.0], "VAL-3");
}

#[test]
fn val_6_mistakes_are_found_when_recorded() {
    let caught = |f: fn() -> Value| std::panic::catch_unwind(f).is_err();
    let zeros = Value::zeros;
    assert!(caught(|| Value::binary(
        Binary::Add,
        &Value::zeros(DType::F32, 2),
        &Value::zeros(DType::F16, 2)
    )));
    assert!(caught(|| Value::binary(
        Binary::Add,
        &Value::zeros(DType::F32, 2),
        &Value::zeros(DType::F32, 3)
    )));
    assert!(caught(|| Value::zeros(DType::F32, 2).slice(1, 2)));
    assert!(caught(|| Value::zeros(DType::F32, 2).slice(usize::MAX, 2)));
    assert!(caught(|| Value::zeros(DType::F32, 9).strided(2, &[3, 3], &[3, 1])));
    assert!(caught(|| Value::concat(&[])));
    assert!(caught(|| Value::dot(
        &Value::zeros(DType::F32, 6),
        &Value::zeros(DType::F32, 6),
        [2, 2, 2],
        None
    )));
    assert!(zeros(DType::I32, 0).is_empty());
}

#[test]
fn val_8_slices_and_fills_cost_nothing() {
    // A terabyte each: there is no such memory.
    let zeros = Value::zeros(DType::F32, 1 << 38);
    let part = zeros.slice(1 << 37, 1 << 30).slice(5, 3);
    assert_eq!(part.to_f32(), [0.0; 3], "VAL-8");
    let joined = Value::concat(&[zeros.slice(0, 1 << 37), zeros.slice(0, 1 << 36)]);
    assert_eq!((joined.len(), joined.depth()), ((1 << 37) + (1 << 36), 0), "VAL-8");
    let wide = Value::full(DType::F32, 1, 2.0).strided(0, &[1 << 37], &[0]);
    assert_eq!(wide.get((1 << 37) - 1).to_bits(), 2_f64.to_bits(), "VAL-8");
    let a = Value::from_i32(&[1, 2, 3, 4]);
    let again = Value::concat(&[a.slice(0, 1), a.slice(1, 2), a.slice(3, 1)]);
    assert!(again.is_ready(), "VAL-8: neighbours join without copying");
    assert!(a.strided(1, &[1, 3], &[9, 1]).is_ready(), "VAL-8: a contiguous pattern is a slice");
}

#[test]
fn depth_counts_operations_until_ready() {
    let a = Value::from_i32(&[1]);
    let b = Value::unary(Unary::Neg, &a);
    let c = Value::binary(Binary::Add, &b, &a);
    assert_eq!((a.depth(), b.depth(), c.depth()), (0, 1, 2));
    Inline.force(std::slice::from_ref(&c));
    assert_eq!((c.depth(), c.to_i32()), (0, vec![0]));
}

#[test]
fn val_6_bits_are_read_as_another_type() {
    let floats = Value::from_f32(DType::F32, &[1.0, -0.0, f32::INFINITY]);
    let bits = Value::unary(Unary::Neg, &Value::unary(Unary::Neg, &floats)).bitcast(DType::U32);
    assert_eq!(bits.to_i64(), [0x3f80_0000, 0x8000_0000, 0x7f80_0000]);
    assert_eq!(
        Value::full(DType::I64, 2, -1.0).bitcast(DType::U64).get(0).to_bits(),
        2_f64.powi(64).to_bits()
    );
    let one = Value::full_whole(DType::I32, 3, 1);
    let more = Value::binary(Binary::Add, &bits.bitcast(DType::I32), &one).bitcast(DType::F32);
    assert_eq!(more.to_f32()[0].to_bits(), 0x3f80_0001);
}
