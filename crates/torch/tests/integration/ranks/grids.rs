//! Grids: chosen PEs, more programs than PEs, and arguments that are only read.

use super::{machine, quad};
use phalanx_sim::kernel::{Tl, View};
use phalanx_sim::machine::Options;
use phalanx_sim::topology::PeId;
use phalanx_sim::{DType, Time};
use phalanx_torch::{Arg, Context, Error, Grid, Rank, Tensor};
use std::cell::RefCell;
use std::rc::Rc;

/// A program as it ran: its number, its numbers along the axes, its PE, its begin and its end.
type Ran = (usize, [usize; 3], PeId, [Time; 2]);

/// Runs a kernel that computes for so long on a grid of a SIP of eight PEs; its programs in the order of their ends.
fn run(grid: Grid, span: impl Fn(usize) -> Time + Copy + 'static) -> Result<Vec<Ran>, Error> {
    let set = ["cube.pes.rows=2", "cube.pes.columns=2", "sip.cubes.rows=1", "sip.cubes.columns=2"];
    let mut context = Context::new(machine("pair", &set), Options::default());
    let ran = Rc::new(RefCell::new(Vec::new()));
    let noted = ran.clone();
    let done = context.run(move |cx| {
        let (grid, ran) = (grid.clone(), noted.clone());
        async move {
            let kernel = move |tl: Tl, _| {
                let ran = ran.clone();
                async move {
                    let from = tl.now();
                    tl.compute(span(tl.program_id())).await;
                    let along = [0, 1, 2].map(|axis| tl.program_id_along(axis));
                    let times = [from, tl.now()];
                    ran.borrow_mut().push((tl.program_id(), along, tl.pe(), times));
                    Ok(())
                }
            };
            cx.launch("grid", grid, &[], kernel)?.wait().await
        }
    });
    match done {
        Ok(()) => Ok(ran.take()),
        Err(mut failed) => Err(failed.errors.remove(&0).expect("rank 0")),
    }
}

fn pe(cube: u16, pe: u16) -> PeId {
    PeId { sip: 0, cube, pe }
}

#[test]
fn programs_run_on_the_chosen_pes_in_their_order() {
    let chosen = vec![pe(1, 3), pe(0, 2), pe(1, 0)];
    let mut ran = run(Grid::On(chosen.clone()), |_| Time::ns(5)).unwrap();
    ran.sort_unstable_by_key(|ran| ran.0);
    assert_eq!(ran.iter().map(|ran| ran.2).collect::<Vec<_>>(), chosen);
    let start = ran[0].3[0];
    assert!(ran.iter().all(|ran| ran.3 == [start, start + Time::ns(5)]), "they start together");
}

#[test]
fn pes_that_a_rank_does_not_have_are_refused() {
    let refused = |grid: Grid| run(grid, |_| Time::ns(1)).unwrap_err().to_string();
    assert_eq!(
        refused(Grid::On(vec![PeId::first(1)])),
        "grid on sip1.cube0.pe0: it is not a PE of rank 0, which has those of sip0"
    );
    assert_eq!(
        refused(Grid::On(vec![pe(0, 4)])),
        "grid of sip0.cube0.pe4: a SIP of `pair` has 2 cubes of 4 PEs"
    );
    assert_eq!(
        refused(Grid::On(Vec::new())),
        "grid of no PEs: a SIP of `pair` has 2 cubes of 4 PEs"
    );
    assert_eq!(
        refused(Grid::On(vec![pe(0, 1), pe(1, 1), pe(0, 1)])),
        "grid on sip0.cube0.pe1: it is named twice; `Grid::programs` runs more programs than PEs"
    );
    for axes in [vec![], vec![4, 0], vec![1, 2, 3, 4], vec![usize::MAX, 2]] {
        let text = refused(Grid::programs(&axes));
        let words = "a grid has one to three axes, each of at least one program";
        assert_eq!(text, format!("grid of {axes:?} programs: {words}"));
    }
}

#[test]
fn grd_1_free_pes_take_the_next_program() {
    // Program 0 takes long: the other PEs take all others.
    let span = |program: usize| if program == 0 { Time::us(9) } else { Time::us(1) };
    let grid = Grid::programs([3, 2, 2]).over(Grid::Pes(3));
    let mut ran = run(grid, span).unwrap();
    ran.sort_unstable_by_key(|ran| ran.0);
    let start = ran[0].3[0];
    let mut free = [(start, 0), (start, 1), (start, 2)];
    for (number, along, on, times) in ran {
        assert_eq!(
            along,
            [number % 3, number / 3 % 2, number / 6],
            "the first axis is the fastest"
        );
        // The slow way: the PE that is free first, the lowest of those.
        free.sort_unstable();
        let expected = [free[0].0, free[0].0 + span(number)];
        assert_eq!((on.pe, times), (free[0].1, expected), "GRD-1: program {number}");
        free[0].0 = expected[1];
    }
}

#[test]
fn a_grid_of_one_program_for_each_pe_takes_the_time_of_a_plain_one() {
    let grids = [Grid::Pes(6), Grid::programs([6]).over(Grid::Pes(6)), Grid::programs([2, 3])];
    let mut ran: Vec<_> =
        grids.into_iter().map(|grid| run(grid, |n| Time::ns(n as u64)).unwrap()).collect();
    let axes: Vec<_> = ran[2].iter().map(|ran| ran.1).collect();
    assert_eq!(axes[5], [1, 2, 0]);
    ran.iter_mut().flatten().for_each(|ran| ran.1 = [0; 3]);
    assert!(ran[0] == ran[1] && ran[0] == ran[2]);
}

#[test]
fn hst_2_a_program_that_fails_ends_its_grid() {
    let error = quad().run(|cx| async move {
        let x = cx.zeros([4], DType::F32)?;
        let kernel = |tl: Tl, _| async move {
            tl.compute(Time::us(1)).await;
            if tl.program_id() == 50 {
                Err(phalanx_sim::Foreign::new("fifty", ()).into())
            } else {
                Ok(())
            }
        };
        let grid = Grid::programs([1000]).over(Grid::Pes(2));
        let ended = cx.launch("many", grid, &[Arg::write(&x)], kernel)?.wait().await;
        // The PEs are free again.
        let after = cx.launch("after", Grid::Pes(2), &[], |_, _| async { Ok(()) })?;
        after.wait().await?;
        Ok((ended.unwrap_err().to_string(), cx.now() < Time::us(40)))
    });
    let (text, soon) = error.unwrap();
    assert!(text.contains("kernel `many`") && text.ends_with("fifty") && soon, "{text}");
}

#[test]
fn a_barrier_of_more_programs_than_pes_is_a_deadlock_that_says_why() {
    let error = quad().run(|cx| async move {
        let kernel = |tl: Tl, _| async move {
            tl.barrier().await;
            Ok(())
        };
        cx.launch("meet", Grid::programs([5]).over(Grid::Pes(2)), &[], kernel)?.wait().await
    });
    let text = error.unwrap_err().to_string();
    let words =
        "a barrier of `meet` that 2 of 5 programs have reached, and the launch has 2 PEs only";
    assert!(text.contains(words), "{text}");
}

/// Launches a kernel that stores to its first argument.
async fn store(cx: &Rank, args: &[Arg]) -> Result<(), Error> {
    let kernel = |tl: Tl, args: phalanx_torch::Args| async move {
        let ones = tl.full(DType::F32, [2], 1.0)?;
        tl.store(&View::dense(&args.region(0)?, 2, 2), &ones).await
    };
    cx.launch("store", Grid::Pes(1), args, kernel)?.wait().await
}

#[test]
fn krn_5_a_store_to_an_argument_that_is_read_is_an_error() {
    let done = quad().run(|cx| async move {
        let (x, y) = (cx.zeros([8], DType::F32)?, cx.zeros([8], DType::F32)?);
        let lost = cx.zeros([8], DType::F32)?;
        let refused = store(&cx, &[Arg::read(&x), Arg::write(&lost)]).await.unwrap_err();
        store(&cx, &[Arg::write(&x), Arg::read(&y)]).await?;
        // Both: the kernel reads one part and writes another.
        let (one, other) = (x.narrow(0, 0, 4)?, x.narrow(0, 4, 4)?);
        store(&cx, &[Arg::read(&one), Arg::write(&other)]).await?;
        let numbers: Result<Vec<f32>, Error> = Tensor::to_vec(&x).await;
        Ok((refused.to_string(), numbers?))
    });
    let (refused, numbers) = done.unwrap();
    let words = "is in argument 0, which the launch declares as read; declare it as written (";
    assert!(refused.contains("kernel `store`") && refused.contains(words), "KRN-5: {refused}");
    assert_eq!(numbers, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], "KRN-5");
}
