//! Loads, stores and atomic operations at lists of elements.

use crate::kernels::dtypes;
use crate::support::{bare, computed};
use phalanx_sim::MachineSpec;
use phalanx_sim::Time;
use phalanx_sim::kernel::{Places, Tl, View};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::spec::GridSpec;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::reference::{Array, Exact};
use phalanx_sim::value::{Atomic, Binary, DType, Value};
use proptest::prelude::*;

/// Small numbers that every type holds.
fn counting(len: usize) -> Vec<f32> {
    (0..len).map(|i| f32::from(u8::try_from(i * 7 % 13).expect("small"))).collect()
}

/// A list of places below `len`, and a mask.
fn lists() -> impl Strategy<Value = (usize, Vec<i64>, Vec<bool>)> {
    (1..40usize).prop_flat_map(|len| {
        let places = prop::collection::vec(0..i64::try_from(len).expect("small"), 1..30);
        (Just(len), places).prop_flat_map(|(len, places)| {
            let mask = prop::collection::vec(any::<bool>(), places.len());
            (Just(len), Just(places), mask)
        })
    })
}

fn at(place: i64) -> usize {
    usize::try_from(place).expect("not negative")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn plc_1_lists_are_loaded((len, list, mask) in lists(), dtype in dtypes(), pieces: bool) {
        let (data, other) = (counting(len), Array::new(dtype, &[1.0]).elements[0]);
        let array = Array::new(dtype, &data);
        let element = |(place, is): (&i64, &bool)| if *is { array.elements[at(*place)] } else { other };
        let expected = Array { dtype, elements: list.iter().zip(&mask).map(element).collect() };
        let got = computed(&[Value::from_f32(dtype, &data)], &Value::zeros(dtype, list.len()), move |tl, from, out| {
            let places = Places::of(&from[0], list.len(), list.clone()).masked(mask.clone());
            async move {
                if pieces {
                    // The same elements again, in pieces of their own.
                    let middle = View::dense(&from[0], len / 2, 1);
                    let tile = tl.load(&middle).await?;
                    tl.store(&middle, &tile).await?;
                }
                let other = tl.full(dtype, out.elements, 1.0)?;
                let tile = tl.load_at_or(&places, &other).await?;
                tl.store(&View::of(&out), &tile).await
            }
        });
        prop_assert_eq!(got, expected, "PLC-1");
    }

    #[test]
    fn plc_1_the_last_store_stays((len, list, mask) in lists(), dtype in dtypes()) {
        let data = counting(list.len());
        let (array, mut expected) = (Array::new(dtype, &data), Array::new(dtype, &vec![1.0; len]));
        for (i, place) in list.iter().enumerate().filter(|(i, _)| mask[*i]) {
            expected.elements[at(*place)] = array.elements[i];
        }
        let got = computed(&[Value::from_f32(dtype, &data)], &Value::full(dtype, len, 1.0), move |tl, from, out| {
            let places = Places::of(&out, list.len(), list.clone()).masked(mask.clone());
            async move {
                let tile = tl.load(&View::of(&from[0])).await?;
                tl.store_at(&places, &tile).await
            }
        });
        prop_assert_eq!(got, expected, "PLC-1");
    }

    #[test]
    fn plc_1_updates_see_those_before(
        (len, list, mask) in lists(), dtype in dtypes(), operation in prop::sample::select(Atomic::ALL.to_vec()),
    ) {
        prop_assume!(operation.takes(dtype));
        let data = counting(list.len());
        let one = |x: f32| Array::new(dtype, &[x]).elements[0];
        let (array, mut memory) = (Array::new(dtype, &data), vec![one(1.0); len]);
        let mut found = vec![one(0.0); list.len()];
        for (i, place) in list.iter().enumerate().filter(|(i, _)| mask[*i]) {
            let (now, given) = (memory[at(*place)], array.elements[i]);
            found[i] = now;
            memory[at(*place)] = after(dtype, operation, now, given);
        }
        let expected = Array { dtype, elements: memory.into_iter().chain(found).collect() };
        let before = Value::full(dtype, len + list.len(), 1.0);
        let got = computed(&[Value::from_f32(dtype, &data)], &before, move |tl, from, out| {
            let places = Places::of(&out, list.len(), list.clone()).masked(mask.clone());
            async move {
                let tile = tl.load(&View::of(&from[0])).await?;
                let found = match operation {
                    Atomic::CompareAndSwap => {
                        let ones = tl.full(dtype, tile.shape(), 1.0)?;
                        tl.atomic_cas(&places, &ones, &tile).await?
                    }
                    _ => tl.atomic(operation, &places, &tile).await?,
                };
                tl.store(&View::dense(&out, len, tile.shape().elements()), &found).await
            }
        });
        prop_assert_eq!(got, expected, "PLC-1");
    }
}

/// The element after an operation; a swap expects 1.
fn after(dtype: DType, operation: Atomic, now: Exact, given: Exact) -> Exact {
    let [x, y] = [now, given].map(|x| Array { dtype, elements: vec![x] });
    let binary = |op| Array::binary(op, &x, &y).elements[0];
    match operation {
        Atomic::Add => binary(Binary::Add),
        Atomic::Max => binary(Binary::Max),
        Atomic::Min => binary(Binary::Min),
        Atomic::And => binary(Binary::And),
        Atomic::Or => binary(Binary::Or),
        Atomic::Xor => binary(Binary::Xor),
        Atomic::Exchange => given,
        Atomic::CompareAndSwap => {
            if now == Array::new(dtype, &[1.0]).elements[0] {
                given
            } else {
                now
            }
        }
    }
}

/// All PEs take numbers from one counter: each gets another, and none is left out.
#[test]
fn plc_2_a_counter_gives_every_number_once() {
    let mut spec = bare();
    spec.pes = GridSpec { rows: 4, columns: 4, ..spec.pes };
    let mut machine = Machine::new(spec, Options::default());
    let counter = machine.resident(0, 0, Value::zeros(DType::I32, 1)).unwrap();
    let out = machine.resident(0, 0, Value::zeros(DType::I32, 32)).unwrap();
    machine.launch(0, "ticket", &machine.pes(0), move |tl| async move {
        let one = tl.full(DType::I32, 1, 1.0)?;
        for _ in 0..2 {
            let ticket = tl.atomic(Atomic::Add, &Places::of(&counter, 1, [0]), &one).await?;
            let places = tl.places(&out, &ticket)?;
            tl.store_at(&places, &one).await?;
        }
        Ok(())
    });
    machine.run().unwrap();
    assert_eq!(machine.read(&counter).unwrap().unwrap().to_i32(), [32], "PLC-2");
    assert_eq!(machine.read(&out).unwrap().unwrap().to_i32(), [1; 32], "PLC-2");
}

/// A lock by compare-and-swap keeps programs apart.
#[test]
fn plc_2_a_lock_keeps_programs_apart() {
    // Memory takes time here: where it takes none, a kernel that spins never lets another one run.
    let mut machine = Machine::new(MachineSpec::preset("quad-sip").unwrap(), Options::default());
    let lock = machine.resident(0, 0, Value::zeros(DType::I32, 1)).unwrap();
    let sum = machine.resident(0, 0, Value::zeros(DType::F32, 8)).unwrap();
    machine.launch(0, "locked", &machine.pes(0), move |tl| async move {
        let (zero, one) = (tl.full(DType::I32, 1, 0.0)?, tl.full(DType::I32, 1, 1.0)?);
        let place = Places::of(&lock, 1, [0]);
        loop {
            let before = tl.atomic_cas(&place, &zero, &one).await?;
            if tl.item(&before, 0)? == 0.0 {
                break;
            }
        }
        let tile = tl.load(&View::of(&sum)).await?;
        let more = tl.add(&tile, &tl.full(DType::F32, 8, 1.0)?).await?;
        tl.store(&View::of(&sum), &more).await?;
        tl.atomic(Atomic::Exchange, &place, &zero).await.map(drop)
    });
    machine.run().unwrap();
    let programs = f32::from(u8::try_from(machine.pes(0).len()).unwrap());
    assert_eq!(machine.read(&sum).unwrap().unwrap().to_f32(), [programs; 8], "PLC-2");
}

fn refused(list: &'static [i64]) -> String {
    let mut machine = Machine::new(bare(), Options::default());
    let region = machine.resident(0, 0, Value::zeros(DType::F32, 8)).unwrap();
    machine.launch(0, "wrong", &[PeId::first(0)], move |tl| async move {
        tl.load_at(&Places::of(&region, list.len(), list), 0.0).await.map(drop)
    });
    machine.run().unwrap_err().to_string()
}

#[test]
fn plc_3_places_outside_are_errors() {
    const FAR: [&[i64]; 4] = [&[i64::MIN, i64::MAX], &[i64::MIN], &[i64::MAX], &[1 << 62]];
    let text = refused(&[1, 9]);
    assert!(text.contains("address 0x1024 of sip0 is not mapped"), "PLC-3: {text}");
    let text = refused(&[1, -3]);
    assert!(text.contains("address 0xff4 of sip0 is not mapped"), "PLC-3: {text}");
    for list in FAR {
        let text = refused(list);
        assert!(text.contains("is not mapped"), "PLC-3: {text}");
    }
}

/// With bursts, each run of neighbours takes whole bursts, as in a view; atomic operations take one each.
#[test]
fn runs_of_neighbours_cost_bursts() {
    let time = |list: Vec<i64>, atomic: bool| -> Time {
        let mut spec = MachineSpec::preset("hgx-h100").unwrap();
        spec.cache = None;
        let mut machine = Machine::new(spec, Options::default());
        let region = machine.resident(0, 0, Value::zeros(DType::F32, 65536)).unwrap();
        machine.launch(0, "list", &[PeId::first(0)], move |tl: Tl| {
            let places = Places::of(&region, list.len(), list.clone());
            async move {
                if atomic {
                    let ones = tl.full(DType::F32, places.shape, 1.0)?;
                    return tl.atomic(Atomic::Add, &places, &ones).await.map(drop);
                }
                tl.load_at(&places, 0.0).await.map(drop)
            }
        });
        machine.run().unwrap().simulated
    };
    let dense: Vec<i64> = (0..1024).collect();
    let apart: Vec<i64> = (0..1024).map(|i| i * 64).collect();
    let (near, far) = (time(dense.clone(), false), time(apart, false));
    assert!(far > near, "{far} for elements apart, {near} for neighbours");
    assert_eq!(time(dense, true), far, "an atomic operation takes a burst for each element");
}
