//! The pool: same bits on any number of threads, bounded, and never a hang.

use phalanx_sim::machine::Options;
use phalanx_sim::value::{Binary, DType, Evaluator, Inline, Reduce, Unary, Value};
use phalanx_sim::{MachineSpec, kernel::View};
use phalanx_torch::{Arg, Context, Grid, Pool};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

/// A hundred values that share operands, as a collective or a product in tiles records them.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn workload(dtype: DType, seed: usize) -> Vec<Value> {
    let input = |i: usize| -> Value {
        let element = |x: usize| ((x * 7919 + i * 104_729 + seed * 31) % 2003) as f32 / 97.0 - 9.0;
        Value::from_f32(dtype, &(0..64 * 64).map(element).collect::<Vec<_>>())
    };
    let ranks: Vec<Value> = (0..8).map(input).collect();
    let shared = Value::unary(Unary::Sigmoid, &Value::binary(Binary::Add, &ranks[0], &ranks[1]));
    let mut out = Vec::new();
    for s in 0..64 {
        let part = |r: usize| ranks[(s + r) % 8].slice(s * 64, 64);
        out.push((1..8).fold(part(0), |sum, r| Value::binary(Binary::Add, &sum, &part(r))));
    }
    for rank in &ranks {
        let scaled = Value::binary(Binary::Mul, &shared, rank);
        let wide = (0..4).fold(None, |sum: Option<Value>, k| {
            let tile = |v: &Value| v.strided(k * 16, &[64, 16], &[64, 1]);
            let b = scaled.slice(k * 1024, 1024);
            Some(Value::dot(&tile(rank), &b, [64, 64, 16], sum.as_ref()))
        });
        out.push(wide.expect("four"));
        out.push(Value::reduce(Reduce::Sum, &scaled, 64, 64, 1));
    }
    out.push(Value::concat(&out[..64]));
    out
}

fn bytes(values: &[Value]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.elements().bytes().to_vec()).collect()
}

#[test]
fn pool_1_any_number_of_threads_gives_the_same_bits() {
    for dtype in DType::ALL {
        let truth = workload(dtype, 0);
        Inline.force(&truth);
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads);
            let values = workload(dtype, 0);
            pool.force(&values);
            assert!(values.iter().all(Value::is_ready), "POOL-1: ready on return");
            assert_eq!(bytes(&values), bytes(&truth), "POOL-1: {dtype} on {threads} threads");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Started, forced and looked at in any mixture.
    #[test]
    fn pool_1_start_changes_nothing(
        seed in 0_usize..1000,
        dtype in prop::sample::select(DType::ALL.to_vec()),
        threads in 1_usize..5,
        started in prop::collection::vec(0_usize..81, 0..60),
    ) {
        let pool = Pool::new(threads);
        let (truth, values) = (workload(dtype, seed), workload(dtype, seed));
        for i in started {
            pool.start(&values[i]);
        }
        pool.force(&values[..40]);
        prop_assert_eq!(bytes(&values), bytes(&truth));
    }
}

#[test]
fn pool_2_more_than_the_backlog_may_be_started() {
    let pool = Pool::new(2);
    let one = Value::from_i32(&[1; 4096]);
    let start = |i: usize| {
        let sum = (0..i % 7).fold(one.clone(), |sum, _| Value::binary(Binary::Add, &sum, &one));
        pool.start(&sum);
        sum
    };
    let values: Vec<Value> = (0..Pool::BACKLOG * 8).map(start).collect();
    pool.force(&values);
    for (i, value) in values.iter().enumerate() {
        assert_eq!(value.to_i32()[4095], i32::try_from(i % 7).expect("small") + 1, "POOL-2");
    }
}

#[test]
fn pool_3_dropping_joins_and_leaves_values_usable() {
    let values = workload(DType::F16, 3);
    let pool = Pool::new(3);
    for value in &values {
        pool.start(value);
    }
    drop(pool);
    assert_eq!(bytes(&values), bytes(&workload(DType::F16, 3)), "POOL-3");
}

#[test]
fn pool_3_many_callers_together() {
    let pool = Pool::new(3);
    let (values, truth) = (workload(DType::F32, 5), bytes(&workload(DType::F32, 5)));
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for turn in 0..4 {
            let (pool, values, truth, barrier) = (&pool, &values, &truth, &barrier);
            scope.spawn(move || {
                let mut mine = values.clone();
                mine.rotate_left(turn * 20);
                barrier.wait();
                pool.force(&mine);
                mine.rotate_right(turn * 20);
                assert_eq!(&bytes(&mine), truth, "POOL-3");
            });
        }
    });
}

#[test]
fn pool_3_nothing_to_do_returns() {
    let pool = Pool::new(2);
    pool.force(&[]);
    let ready = Value::from_i32(&[1]);
    pool.start(&ready);
    pool.force(&[ready.clone(), ready]);
}

#[test]
fn pool_3_a_panic_reaches_whoever_forces_and_nobody_else() {
    // More elements than any address space has bytes: allocating panics.
    let hopeless = || Value::unary(Unary::Neg, &Value::zeros(DType::F32, 1 << 61));
    let pool = Pool::new(3);
    for _ in 0..5 {
        let mut values = workload(DType::F32, 7);
        values.insert(10, hopeless());
        pool.start(&values[10]);
        let force = std::panic::AssertUnwindSafe(|| pool.force(&values));
        assert!(std::panic::catch_unwind(force).is_err(), "POOL-3: the panic goes on");
        values.remove(10);
        pool.force(&values);
        assert_eq!(bytes(&values), bytes(&workload(DType::F32, 7)), "POOL-3: workers live on");
    }
}

#[test]
fn pool_4_a_caller_that_stops_leaves_the_rest_for_later() {
    for threads in [1, 3] {
        let pool = Pool::new(threads);
        let values = workload(DType::F32, threads);
        let asked = std::cell::Cell::new(0);
        let goes_on = || asked.replace(asked.get() + 1) < 2;
        // Other threads may be done before the caller is asked.
        let is_done = pool.force_while(&values, &goes_on);
        assert!(!is_done || threads > 1, "POOL-4: {threads} threads");
        assert!(!is_done || values.iter().all(Value::is_ready), "POOL-4: done is done");
        let asked_after = asked.get();
        assert!(values.iter().any(|value| !value.is_ready()) || threads > 1, "POOL-4");
        assert!(pool.force_while(&values, &|| true) && values.iter().all(Value::is_ready));
        assert_eq!(asked.get(), asked_after, "POOL-4: a caller is not asked again");
    }
}

/// An evaluator that interrupts the run as soon as somebody waits for numbers.
struct Interrupting {
    pool: Pool,
    interrupts: Arc<AtomicBool>,
}

impl Evaluator for Interrupting {
    fn force_while(&self, values: &[Value], goes_on: &dyn Fn() -> bool) -> bool {
        self.interrupts.store(true, Ordering::Relaxed);
        self.pool.force_while(values, goes_on)
    }

    fn start(&self, value: &Value) {
        self.pool.start(value);
    }
}

#[test]
fn pool_4_an_interrupt_ends_the_computation_of_numbers_that_a_program_waits_for() {
    let interrupts = Arc::new(AtomicBool::new(false));
    let asked = interrupts.clone();
    let evaluator = Interrupting { pool: Pool::new(2), interrupts: interrupts.clone() };
    let options = Options {
        evaluator: Arc::new(evaluator),
        interrupt: Some(Arc::new(move || asked.load(Ordering::Relaxed))),
        ..Options::default()
    };
    let mut context = Context::new(MachineSpec::preset("pair").unwrap(), options);
    let read = context.run(|cx| async move {
        let x = cx.full([64], 1.5, DType::F32)?;
        cx.launch("double", Grid::Pes(1), &[Arg::write(&x)], |tl, args| async move {
            let place = View::of(&args.region(0)?);
            let tile = tl.load(&place).await?;
            tl.store(&place, &tl.add(&tile, &tile).await?).await
        })?;
        x.to_vec().await
    });
    let error = read.expect_err("POOL-4: interrupted").to_string();
    assert!(error.contains("interrupted"), "POOL-4: {error}");
}
