//! Requests: their order, and what happens behind one that failed.

use super::{failing, quad};
use phalanx_sim::kernel::Tl;
use phalanx_sim::{DType, Time};
use phalanx_torch::{Arg, Args, Error, Grid, Rank, Tensor};
use proptest::prelude::*;
use std::rc::Rc;

#[derive(Clone, Copy, Debug)]
enum Step {
    Fill(usize, u8),
    Copy(usize, usize),
    /// The first becomes the sum of the others, after a while, on one of the PEs.
    Add(usize, usize, usize, u64, usize),
    Read(usize),
}

const TENSORS: usize = 4;
const LEN: usize = 5;

fn step() -> impl Strategy<Value = Step> {
    let tensor = || 0..TENSORS;
    prop_oneof![
        (tensor(), 0..20_u8).prop_map(|(x, number)| Step::Fill(x, number)),
        (tensor(), tensor()).prop_map(|(to, from)| Step::Copy(to, from)),
        (tensor(), tensor(), tensor(), 0..9_000_u64, 1..4_usize)
            .prop_map(|(to, a, b, wait, pes)| Step::Add(to, a, b, wait, pes)),
        tensor().prop_map(Step::Read),
    ]
}

/// One step after another, on plain numbers: what each read sees, and what is there in the end.
fn oracle(steps: &[Step]) -> Vec<f32> {
    let mut tensors = [0.0_f32, 1.0, 2.0, 3.0];
    let mut seen = Vec::new();
    for step in steps {
        match *step {
            Step::Fill(x, number) => tensors[x] = f32::from(number),
            Step::Copy(to, from) => tensors[to] = tensors[from],
            Step::Add(to, a, b, ..) => tensors[to] = (tensors[a] + tensors[b]) % 1024.0,
            Step::Read(x) => seen.push(tensors[x]),
        }
    }
    seen.extend(tensors);
    seen
}

fn add(cx: &Rank, [to, a, b]: [&Tensor; 3], wait: u64, pes: usize) -> Result<(), Error> {
    let args = [Arg::read(a), Arg::read(b), Arg::write(to)];
    let kernel = move |tl: Tl, args: Args| async move {
        // Every program takes its time; the last one does the work.
        tl.compute(Time::ns(wait / (tl.program_id() as u64 + 1))).await;
        tl.barrier().await;
        if tl.program_id() + 1 < tl.num_programs() {
            return Ok(());
        }
        let (x, y) = (tl.load(&args.view(0)?).await?, tl.load(&args.view(1)?).await?);
        let sum = tl.add(&x, &y).await?;
        let whole = tl.item(&sum, 0)? % 1024.0;
        let out = tl.full(DType::F32, LEN, whole)?;
        tl.store(&args.view(2)?, &out).await
    };
    cx.launch("add", Grid::Pes(pes), &args, kernel).map(drop)
}

async fn execute(cx: &Rank, steps: &[Step]) -> Result<Vec<f32>, Error> {
    let make = |number: usize| cx.full([LEN], f64::from(super::number(number)), DType::F32);
    let tensors: Vec<Tensor> = (0..TENSORS).map(make).collect::<Result<_, _>>()?;
    let mut seen = Vec::new();
    for step in steps {
        match *step {
            Step::Fill(x, number) => drop(tensors[x].fill_(f64::from(number))?),
            Step::Copy(to, from) => drop(tensors[to].copy_(&tensors[from])?),
            Step::Add(to, a, b, wait, pes) => {
                add(cx, [&tensors[to], &tensors[a], &tensors[b]], wait, pes)?;
            }
            Step::Read(x) => seen.push(tensors[x].to_vec().await?),
        }
    }
    for tensor in &tensors {
        seen.push(tensor.to_vec().await?);
    }
    assert!(seen.iter().all(|numbers| numbers.iter().all(|n| n.to_bits() == numbers[0].to_bits())));
    Ok(seen.into_iter().map(|numbers| numbers[0]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn req_1_requests_take_effect_in_program_order(steps in prop::collection::vec(step(), 1..40)) {
        let wanted = oracle(&steps);
        let steps: Rc<[Step]> = steps.into();
        let seen = quad().run(move |cx| {
            let steps = steps.clone();
            async move { execute(&cx, &steps).await }
        });
        prop_assert_eq!(seen.unwrap(), wanted, "REQ-1");
    }
}

#[test]
fn req_1_requests_that_touch_different_tensors_do_not_wait_for_each_other() {
    quad()
        .run(|cx| async move {
            let pes = cx.machine().pes.count() as usize;
            assert!(pes > 1);
            let (x, y) = (cx.zeros([8], DType::F32)?, cx.zeros([8], DType::F32)?);
            super::nap(&cx, &x, Time::us(1000));
            y.fill_(2.0)?.wait().await?;
            assert!(cx.now() < Time::us(100), "REQ-1");
            Ok(())
        })
        .unwrap();
}

#[test]
fn req_3_what_comes_after_a_failure_is_not_begun() {
    let error = quad().run(|cx| async move {
        let (x, y) = (cx.zeros([8], DType::F32)?, cx.zeros([8], DType::F32)?);
        let failed = failing(&cx, &x).wait().await.unwrap_err();
        let error = y.copy_(&x)?.wait().await.unwrap_err();
        assert_eq!(*error.root(), failed, "REQ-3");
        let behind = y.to_vec().await.unwrap_err();
        assert_eq!(*behind.root(), failed, "REQ-3: the first one, however far behind");
        Err::<(), _>(behind)
    });
    let error = error.unwrap_err();
    assert_eq!(
        error.errors[&0].to_string(),
        "read tensor #3 f32[8] of rank 0 was not begun: kernel `failing` on sip0.cube0.pe0 failed at 2102.032 ns: no luck"
    );
}

#[test]
fn a_kernel_that_panics_fails_like_any_other() {
    let mut context = quad();
    for early in [true, false] {
        let error = context.run(move |cx| async move {
            let x = cx.zeros([8], DType::F32)?;
            let kernel = move |tl: Tl, args: Args| {
                if early {
                    let _ = args.tensor(7);
                }
                async move {
                    tl.compute(Time::ns(5)).await;
                    let _ = args.tensor(7);
                    Ok(())
                }
            };
            cx.launch("wild", Grid::Pes(2), &[Arg::write(&x)], kernel)?.wait().await
        });
        let text = error.unwrap_err().to_string();
        assert!(text.contains("kernel `wild` on sip0.cube0.pe0 failed"), "{text}");
        assert!(text.contains("panicked: index out of bounds"), "{text}");
    }
    super::assert_usable(&mut context);
}

#[test]
fn t2_scratch_of_a_later_kernel_never_changes_an_earlier_result() {
    let numbers = quad().run(|cx| async move {
        let mut outs = Vec::new();
        for round in 0..6_u8 {
            let out = cx.empty([64], DType::F32)?;
            let kernel = move |tl: Tl, args: Args| async move {
                let one = tl.full(DType::F32, 64, f64::from(round))?;
                let sum = tl.add(&one, &one).await?;
                // Still on its way when the next kernel takes over the scratch memory.
                drop(tl.store(&args.view(0)?, &sum));
                Ok(())
            };
            cx.launch("fill", Grid::Pes(1), &[Arg::write(&out)], kernel)?;
            outs.push(out);
        }
        let mut numbers = Vec::new();
        for out in &outs {
            numbers.push(out.to_vec().await?[63]);
        }
        Ok(numbers)
    });
    assert_eq!(numbers.unwrap(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
}
