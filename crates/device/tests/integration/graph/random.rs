//! Random graphs of elementwise tasks over random tiles, against the same tasks one after the other.

use super::*;
use phalanx_device::graph::Tag;
use phalanx_sim::value::Binary;
use proptest::prelude::*;

const ROWS: usize = 6;
const COLUMNS: usize = 5;

/// A rectangle of one of the matrices.
#[derive(Clone, Copy, Debug)]
struct Area {
    matrix: usize,
    row: usize,
    column: usize,
}

/// `to = to op from`, on rectangles of one size.
#[derive(Clone, Debug)]
struct Step {
    size: (usize, usize),
    from: Area,
    to: Area,
    is_product: bool,
    nanoseconds: u64,
}

fn steps() -> impl Strategy<Value = Step> {
    let size = (1..=3_usize, 1..=3_usize);
    size.prop_flat_map(|(rows, columns)| {
        let area = (0..3_usize, 0..=ROWS - rows, 0..=COLUMNS - columns)
            .prop_map(|(matrix, row, column)| Area { matrix, row, column });
        (area.clone(), area, any::<bool>(), 0..200_u64).prop_map(
            move |(from, to, is_product, nanoseconds)| Step {
                size: (rows, columns),
                from,
                to,
                is_product,
                nanoseconds,
            },
        )
    })
}

impl Step {
    /// True if a task could say that: one argument may not be part of memory that the other writes.
    fn is_sound(&self) -> bool {
        let apart = |a: usize, b: usize, len: usize| a.abs_diff(b) >= len;
        self.from.matrix != self.to.matrix
            || apart(self.from.row, self.to.row, self.size.0)
            || apart(self.from.column, self.to.column, self.size.1)
    }

    fn apply(&self, matrices: &mut [Vec<f32>; 3]) {
        for row in 0..self.size.0 {
            for column in 0..self.size.1 {
                let at = |area: Area| (area.row + row) * COLUMNS + area.column + column;
                let from = matrices[self.from.matrix][at(self.from)];
                let to = &mut matrices[self.to.matrix][at(self.to)];
                *to = if self.is_product { *to * from } else { *to + from };
            }
        }
    }

    fn view(&self, area: Area, matrices: &[Tensor; 3]) -> Result<Tensor, Error> {
        let rows = matrices[area.matrix].narrow(0, area.row, self.size.0)?;
        rows.narrow(1, area.column, self.size.1)
    }

    fn task(&self, matrices: &[Tensor; 3]) -> Result<KernelTask, Error> {
        let operation = if self.is_product { Binary::Mul } else { Binary::Add };
        let span = Time::ns(self.nanoseconds);
        let kernel = move |tl: Tl, args: Args| async move {
            let (to, from) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
            tl.compute(span).await;
            let result = tl.binary(operation, &to, &from).await?;
            tl.store(&args.view(0)?, &result).await
        };
        let to = self.view(self.to, matrices)?;
        Ok(KernelTask::new("step", kernel)
            .arg(&to, Tag::InOut)
            .input(&self.view(self.from, matrices)?))
    }
}

fn start(matrix: usize) -> Vec<f32> {
    (0..ROWS * COLUMNS).map(|at| crate::support::number((at * 7 + matrix * 3) % 11) - 5.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn grf_2_random_graphs_have_the_numbers_of_their_tasks_in_order(
        steps in prop::collection::vec(steps(), 1..24),
        pes in 1..=4_usize,
        slots in 1..=8_u32,
        depth in 1..=2_usize,
    ) {
        let steps: Vec<Step> = steps.into_iter().filter(Step::is_sound).collect();
        let mut expected = [start(0), start(1), start(2)];
        for step in &steps {
            step.apply(&mut expected);
        }
        let options = GraphOptions { slots, depth, ..free(pes) };
        let got = chip().run(move |cx| {
            let (steps, options) = (steps.clone(), options.clone());
            async move {
                let [a, b, c] = [0, 1, 2].map(|matrix| {
                    cx.from_slice(&start(matrix), [ROWS, COLUMNS], DType::F32)
                });
                let matrices = [a?, b?, c?];
                let graph = cx.graph("random", options)?;
                for step in &steps {
                    graph.submit(step.task(&matrices)?).await?;
                }
                graph.finish().await?;
                let [a, b, c] = &matrices;
                Ok([a.to_vec().await?, b.to_vec().await?, c.to_vec().await?])
            }
        });
        prop_assert_eq!(got.expect("a random graph"), expected, "GRF-2");
    }
}
