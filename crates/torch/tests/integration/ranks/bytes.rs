//! Requests on views: those that share a byte keep their order, the others run side by side.

use super::{machine, number, quad};
use phalanx_sim::kernel::{Tl, View};
use phalanx_sim::machine::Options;
use phalanx_sim::topology::PeId;
use phalanx_sim::{DType, Time};
use phalanx_torch::multiprocessing::spawn;
use phalanx_torch::{Arg, Args, Context, Error, Grid, Handle, Rank, Tensor, distributed as dist};
use proptest::prelude::*;

const ROWS: usize = 4;
const COLUMNS: usize = 6;

/// A block of one of two matrices, seen as it is or transposed.
#[derive(Clone, Copy, Debug)]
struct Block {
    matrix: usize,
    rows: (usize, usize),
    columns: (usize, usize),
    turned: bool,
}

impl Block {
    fn view(&self, matrices: &[Tensor]) -> Result<Tensor, Error> {
        let (rows, columns) = (self.rows, self.columns);
        let block = matrices[self.matrix].narrow(0, rows.0, rows.1)?;
        let block = block.narrow(1, columns.0, columns.1)?;
        if self.turned { block.transpose(0, 1) } else { Ok(block) }
    }

    /// The elements of its matrix, in the order of the view.
    fn elements(&self) -> Vec<usize> {
        let (rows, columns) = (self.rows, self.columns);
        let at = |row: usize, column: usize| (rows.0 + row) * COLUMNS + columns.0 + column;
        if self.turned {
            (0..columns.1).flat_map(|c| (0..rows.1).map(move |r| at(r, c))).collect()
        } else {
            (0..rows.1).flat_map(|r| (0..columns.1).map(move |c| at(r, c))).collect()
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Fill(Block, u8),
    /// Copies to a block of the same shape.
    Copy(Block, usize),
    /// Doubles a block, after a while, on one of the PEs.
    Double(Block, u64, u16),
    Read(Block),
}

fn block() -> impl Strategy<Value = Block> {
    let extent = |most: usize| (0..most).prop_flat_map(move |from| (Just(from), 1..=most - from));
    (0..2_usize, extent(ROWS), extent(COLUMNS), any::<bool>())
        .prop_map(|(matrix, rows, columns, turned)| Block { matrix, rows, columns, turned })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (block(), 1..20_u8).prop_map(|(block, number)| Step::Fill(block, number)),
        (block(), 0..2_usize).prop_map(|(block, matrix)| Step::Copy(block, matrix)),
        (block(), 0..9_000_u64, 0..4_u16)
            .prop_map(|(block, wait, pe)| Step::Double(block, wait, pe)),
        block().prop_map(Step::Read),
    ]
}

/// One step after another, on plain numbers: what each read sees, and what is there in the end.
fn oracle(steps: &[Step]) -> Vec<Vec<f32>> {
    let mut matrices = [0.0, 1.0].map(|number| vec![number; ROWS * COLUMNS]);
    let mut seen = Vec::new();
    for step in steps {
        match *step {
            Step::Fill(block, filled) => block
                .elements()
                .into_iter()
                .for_each(|at| matrices[block.matrix][at] = f32::from(filled)),
            Step::Copy(block, from) => {
                let read: Vec<f32> =
                    block.elements().iter().map(|at| matrices[from][*at]).collect();
                for (at, number) in block.elements().into_iter().zip(read) {
                    matrices[block.matrix][at] = number;
                }
            }
            Step::Double(block, ..) => block.elements().into_iter().for_each(|at| {
                matrices[block.matrix][at] = matrices[block.matrix][at] * 2.0 % 512.0;
            }),
            Step::Read(block) => {
                let matrix = &matrices[block.matrix];
                seen.push(block.elements().iter().map(|at| matrix[*at]).collect());
            }
        }
    }
    seen.extend(matrices);
    seen
}

fn double(cx: &Rank, x: &Tensor, wait: u64, pe: u16) -> Result<Handle, Error> {
    let kernel = move |tl: Tl, args: Args| async move {
        let view = args.view(0)?;
        let x = tl.load(&view).await?;
        tl.compute(Time::ns(wait)).await;
        let twice = tl.add(&x, &x).await?;
        let mut rest = Vec::new();
        for index in 0..twice.shape().elements() {
            rest.push(tl.item(&twice, index)? % 512.0);
        }
        // Element by element, so that a request that begins too early sees half of it.
        let (dims, strides) = (view.shape.dims(), view.strides.dims());
        for (index, number) in rest.into_iter().enumerate() {
            let at = index / dims[1] * strides[0] + index % dims[1] * strides[1];
            let address = view.address + (at * view.dtype.size()) as u64;
            let place =
                View { address, shape: [1, 1].into(), strides: [1, 1].into(), ..view.clone() };
            let number = tl.full(view.dtype, [1, 1], number)?;
            tl.store(&place, &number).await?;
        }
        Ok(())
    };
    let on = Grid::On(vec![PeId { sip: 0, cube: 0, pe }]);
    cx.launch("double", on, &[Arg::write(x)], kernel)
}

async fn play(cx: Rank, steps: Vec<Step>) -> Result<Vec<Vec<f32>>, Error> {
    let matrices: Result<Vec<Tensor>, Error> =
        (0..2).map(|n| cx.full([ROWS, COLUMNS], f64::from(number(n)), DType::F32)).collect();
    let matrices = matrices?;
    let mut seen = Vec::new();
    for step in steps {
        match step {
            Step::Fill(block, filled) => drop(block.view(&matrices)?.fill_(f64::from(filled))?),
            Step::Copy(block, from) => {
                let source = Block { matrix: from, ..block }.view(&matrices)?;
                block.view(&matrices)?.copy_(&source)?;
            }
            Step::Double(block, wait, pe) => {
                double(&cx, &block.view(&matrices)?, wait, pe)?;
            }
            Step::Read(block) => seen.push(block.view(&matrices)?.to_vec().await?),
        }
    }
    for matrix in matrices {
        seen.push(matrix.to_vec().await?);
    }
    Ok(seen)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn req_1_views_take_effect_in_program_order(steps in prop::collection::vec(step(), 1..14)) {
        let expected = oracle(&steps);
        let read = quad().run(move |cx| play(cx, steps.clone()));
        prop_assert_eq!(read.unwrap(), expected);
    }
}

/// The time of naps of 100 us on parts of one tensor, each on a PE of its own.
fn time_of(parts: impl Fn(&Tensor) -> Result<Vec<Tensor>, Error> + Copy + 'static) -> Time {
    let done = quad().run(move |cx| async move {
        let x = cx.zeros([8, 8], DType::F32)?;
        x.ready().await?;
        let before = cx.now();
        for (pe, part) in (0_u16..).zip(parts(&x)?) {
            let on = Grid::On(vec![PeId { sip: 0, cube: 0, pe }]);
            let kernel = |tl: Tl, _| async move {
                tl.compute(Time::us(100)).await;
                Ok(())
            };
            cx.launch("nap", on, &[Arg::write(&part)], kernel)?;
        }
        cx.synchronize().await?;
        Ok(cx.now() - before)
    });
    done.unwrap()
}

#[test]
fn req_1_requests_on_disjoint_views_run_side_by_side() {
    let side_by_side = Time::us(100)..Time::us(110);
    let halves = time_of(|x| x.chunk(2, 0));
    assert!(side_by_side.contains(&halves), "rows: {halves}");
    let columns = time_of(|x| x.chunk(4, 1));
    assert!(
        side_by_side.contains(&columns),
        "columns, whose bytes lie between each other: {columns}"
    );
    let crossed = time_of(|x| Ok(vec![x.narrow(0, 2, 1)?, x.narrow(1, 2, 1)?]));
    assert!((Time::us(200)..Time::us(210)).contains(&crossed), "they share an element: {crossed}");
    let whole = time_of(|x| Ok(vec![x.narrow(0, 0, 4)?, x.clone(), x.narrow(0, 4, 4)?]));
    assert!(
        (Time::us(300)..Time::us(310)).contains(&whole),
        "all of it between two halves: {whole}"
    );
}

/// The time of a step of data-parallel training: each layer's gradient is computed, and reduced while the next is computed.
fn step_time(flat: bool) -> Time {
    const LAYERS: usize = 8;
    const LEN: usize = 1 << 16;
    let mut context = Context::new(machine("quad-sip", &[]), Options::default());
    let times = spawn(&mut context, 4, move |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let gradients = if flat {
            cx.full([LAYERS * LEN], f64::from(number(rank)), DType::F16)?.chunk(LAYERS, 0)?
        } else {
            let one = |_| cx.full([LEN], f64::from(number(rank)), DType::F16);
            (0..LAYERS).map(one).collect::<Result<_, _>>()?
        };
        cx.synchronize().await?;
        dist::barrier(&cx, None).await?;
        let before = cx.now();
        let mut works = Vec::new();
        for gradient in &gradients {
            let kernel = |tl: Tl, args: Args| async move {
                tl.compute(Time::us(20)).await;
                let ones = tl.full(DType::F16, [64], 1.0)?;
                let place = View { shape: 64.into(), ..args.view(0)? };
                tl.store(&place, &ones).await
            };
            let on =
                Grid::On(vec![PeId { cube: 1, ..PeId::first(u32::try_from(rank).expect("few")) }]);
            cx.launch("backward", on, &[Arg::write(gradient)], kernel)?;
            works.push(dist::all_reduce_async(&cx, gradient, dist::ReduceOp::Sum, None)?);
        }
        for work in works {
            work.wait().await?;
        }
        Ok(cx.now() - before)
    });
    times.unwrap().into_iter().max().expect("four ranks")
}

#[test]
fn req_1_a_step_over_one_flat_buffer_takes_the_time_of_separate_tensors() {
    let (flat, separate) = (step_time(true), step_time(false));
    assert_eq!(flat, separate);
}
