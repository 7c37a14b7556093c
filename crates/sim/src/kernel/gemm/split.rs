//! A matrix product by a plan: blocks in an order that shares operands in a cache, and k in several parts.
//!
//! A *unit* is one block of the output and one part of k. The programs take the units in turn. With one part, a unit stores its block of the
//! output. With several parts, a unit stores its sums in f32 (i32 for i32) to memory of its own, in as many strips of rows as there are
//! parts; after a barrier, the unit of part `p` adds strip `p` of all parts, in ascending order, and stores it.
//!
//! - **GEM-1 (any plan).** Every plan gives `c = a · b`; the order of additions depends on the plan alone.

use super::{Gemm, GemmPlan, Operand, block};
use crate::kernel::{KernelError, Loading, Mask, Tile, Tl, View};
use crate::memory::Region;
use crate::value::DType;
use std::collections::VecDeque;

/// `c = a · b` by a plan. The programs of one launch share the units of the tiles that the launch owns.
#[derive(Clone, Copy, Debug)]
pub struct SplitGemm {
    /// The operands; tile, buffers and share come from the fields below.
    pub gemm: Gemm,
    /// The blocks.
    pub plan: GemmPlan,
    /// Index of the launch, and number of launches that divide the output tiles.
    pub launch: (usize, usize),
    /// Memory for the sums of the parts: [`SplitGemm::sums`] elements. Unused if k is in one part.
    pub sums: Option<Region>,
}

/// One block of the output and one part of k.
#[derive(Clone, Copy)]
struct Unit {
    row: usize,
    column: usize,
    part: usize,
    /// Position of the block among all blocks.
    tile: usize,
}

impl SplitGemm {
    /// Returns the number of elements that the sums of all parts take; 0 if k is in one part.
    pub fn sums(dims: [usize; 3], plan: &GemmPlan) -> usize {
        let ([m, n, _], [tm, tn, _]) = (dims, plan.tile);
        let tiles = m.div_ceil(tm) * n.div_ceil(tn);
        if plan.split_k == 1 { 0 } else { tiles * plan.split_k * tm * tn }
    }

    /// Computes this program's units.
    pub async fn run(&self, tl: &Tl) -> Result<(), KernelError> {
        let mine = self.units(tl.program_id(), tl.num_programs());
        let mut loads = Loads { product: self, mine: &mine, unit: 0, step: 0 };
        let depth = self.plan.buffers.max(1) as usize - 1;
        let mut coming: VecDeque<Loading<(Tile, Tile)>> = VecDeque::with_capacity(depth + 1);
        for unit in &mine {
            let mut sum: Option<Tile> = None;
            for _ in self.steps(unit.part) {
                while coming.len() < depth.max(1) {
                    let Some(load) = loads.next(tl) else { break };
                    coming.push_back(load);
                }
                let Some(load) = coming.pop_front() else { break };
                let (left, right) = load.await?;
                if depth > 0
                    && let Some(load) = loads.next(tl)
                {
                    coming.push_back(load);
                }
                sum = Some(tl.accumulate(&left, &right, sum).await?);
            }
            let sum = sum.ok_or_else(|| KernelError::Other("a part of k is empty".into()))?;
            if self.plan.split_k == 1 {
                self.store(tl, unit, sum).await?;
            } else {
                self.store_strips(tl, unit, &sum).await?;
            }
        }
        if self.plan.split_k > 1 {
            tl.barrier().await;
            for unit in &mine {
                self.add_strips(tl, unit).await?;
            }
        }
        Ok(())
    }

    /// Returns the units of one of `programs` programs.
    fn units(&self, program: usize, programs: usize) -> Vec<Unit> {
        let (launch, launches) = self.launch;
        let order = self.plan.order(self.gemm.dims);
        let own: Vec<usize> = (launch..order.tiles()).step_by(launches).collect();
        let count = own.len() * self.plan.split_k;
        let unit = |number: usize| {
            let tile = own[number % own.len()];
            let (row, column) = order.place(tile);
            Unit { row, column, part: number / own.len(), tile }
        };
        (program..count).step_by(programs).map(unit).collect()
    }

    /// Returns the steps over k of a part.
    fn steps(&self, part: usize) -> std::ops::Range<usize> {
        let steps = self.gemm.dims[2].div_ceil(self.plan.tile[2]);
        let parts = self.plan.split_k;
        part * steps / parts..(part + 1) * steps / parts
    }

    /// Stores a block of the output; the accumulators are free when it is stored.
    async fn store(&self, tl: &Tl, unit: &Unit, sum: Tile) -> Result<(), KernelError> {
        let ([tm, tn, _], [m, n, _]) = (self.plan.tile, self.gemm.dims);
        let dtype = self.gemm.c.region.dtype;
        // The matrix engine rounds its output: no vector time.
        let value = sum.value().map(|value| value.cast(dtype));
        let rounded =
            Tile::in_scratch(tl.program(), dtype, [tm, tn].into(), value, "a rounded product")?;
        let view = block(&self.gemm.c, (unit.row * tm, unit.column * tn), [tm, tn], [m, n]);
        let storing = tl.store(&view, &rounded);
        storing.await
    }

    /// Returns the rows of a strip, as the first row in the block and a number of rows inside the matrix.
    fn strip(&self, unit: &Unit, strip: usize) -> (usize, usize) {
        let (tm, parts) = (self.plan.tile[0], self.plan.split_k);
        let (first, end) = (strip * tm / parts, (strip + 1) * tm / parts);
        let inside = self.gemm.dims[0].saturating_sub(unit.row * tm);
        (first, end.min(inside).saturating_sub(first))
    }

    /// Returns the view of a strip in the memory of a part, if it has rows.
    fn strip_view(&self, unit: &Unit, part: usize, strip: usize) -> Option<View> {
        let ([tm, tn, _], [_, n, _]) = (self.plan.tile, self.gemm.dims);
        let (first, rows) = self.strip(unit, strip);
        if rows == 0 {
            return None;
        }
        let sums = self.sums.as_ref()?;
        let at = ((unit.tile * self.plan.split_k + part) * tm + first) * tn;
        let view = View::strided(sums, at, [rows, tn], [tn, 1]);
        let columns = tn.min(n - unit.column * tn);
        Some(if columns == tn { view } else { view.masked(Mask::below([rows, columns])) })
    }

    /// Stores the sums of a part, strip by strip.
    async fn store_strips(&self, tl: &Tl, unit: &Unit, sum: &Tile) -> Result<(), KernelError> {
        let tn = self.plan.tile[1];
        let mut storing = Vec::new();
        for strip in 0..self.plan.split_k {
            let Some(view) = self.strip_view(unit, unit.part, strip) else { continue };
            let (first, rows) = self.strip(unit, strip);
            let value = sum.value().map(|value| value.slice(first * tn, rows * tn));
            let part =
                Tile::in_scratch(tl.program(), sum.dtype(), [rows, tn].into(), value, "a strip")?;
            storing.push(tl.store(&view, &part));
        }
        for storing in storing {
            storing.await?;
        }
        Ok(())
    }

    /// Adds one strip of all parts, and stores it to the output.
    async fn add_strips(&self, tl: &Tl, unit: &Unit) -> Result<(), KernelError> {
        let ([tm, tn, _], [m, n, _]) = (self.plan.tile, self.gemm.dims);
        let (first, rows) = self.strip(unit, unit.part);
        if rows == 0 {
            return Ok(());
        }
        let views =
            (0..self.plan.split_k).filter_map(|part| self.strip_view(unit, part, unit.part));
        let loads: Vec<_> = views.map(|view| tl.load(&view)).collect();
        let mut sum: Option<Tile> = None;
        for load in loads {
            let part = load.await?;
            sum = Some(match sum {
                Some(sum) => tl.add(&sum, &part).await?,
                None => part,
            });
        }
        let Some(sum) = sum else { return Ok(()) };
        let dtype = self.gemm.c.region.dtype;
        let value = sum.value().map(|value| value.cast(dtype));
        let rounded =
            Tile::in_scratch(tl.program(), dtype, [rows, tn].into(), value, "a rounded product")?;
        let corner = (unit.row * tm + first, unit.column * tn);
        tl.store(&block(&self.gemm.c, corner, [rows, tn], [m, n]), &rounded).await
    }

    /// Returns the element type of the sums of parts.
    pub fn sum_type(dtype: DType) -> DType {
        dtype.product()
    }
}

/// The loads of a program, in order.
struct Loads<'a> {
    product: &'a SplitGemm,
    mine: &'a [Unit],
    unit: usize,
    step: usize,
}

impl Loads<'_> {
    /// Issues the next load, if there is one.
    fn next(&mut self, tl: &Tl) -> Option<Loading<(Tile, Tile)>> {
        let Unit { row, column, part, .. } = *self.mine.get(self.unit)?;
        let product = self.product;
        let steps = product.steps(part);
        let step = steps.start + self.step;
        let ([m, n, k], [tm, tn, tk]) = (product.gemm.dims, product.plan.tile);
        let operands: [&Operand; 2] = [&product.gemm.a, &product.gemm.b];
        let left = block(operands[0], (row * tm, step * tk), [tm, tk], [m, k]);
        let right = block(operands[1], (step * tk, column * tn), [tk, tn], [k, n]);
        self.step += 1;
        if step + 1 == steps.end {
            (self.unit, self.step) = (self.unit + 1, 0);
        }
        Some(tl.load_pair(&left, &right))
    }
}
