//! The plan of a matrix product: block sizes, parts of k, and the order of blocks.
//!
//! [`GemmPlan::fastest`] estimates the time of some plans from the figures of the machine, and takes the fastest.

use crate::spec::MachineSpec;
use crate::time::{Capacity, Rate};
use crate::value::DType;

/// Block sizes, parts of k, and order of the blocks of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmPlan {
    /// The `m, n, k` of a block.
    pub tile: [usize; 3],
    /// Number of parts of k, each computed by itself: at most the number of steps over k.
    pub split_k: usize,
    /// Number of operand buffers: one less is loaded ahead.
    pub buffers: u32,
    /// Number of rows of blocks that are computed together, column by column: programs that run at one time then share
    /// operands. With 1, blocks are computed row by row.
    pub rows_together: usize,
}

/// The order of the blocks of an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockOrder {
    rows: usize,
    columns: usize,
    together: usize,
}

impl BlockOrder {
    pub(super) fn tiles(&self) -> usize {
        self.rows * self.columns
    }

    /// Returns the row and the column of a block.
    pub(super) fn place(&self, tile: usize) -> (usize, usize) {
        let in_group = self.together * self.columns;
        let first = tile / in_group * self.together;
        let rows = self.together.min(self.rows - first);
        (first + tile % in_group % rows, tile % in_group / rows)
    }
}

impl GemmPlan {
    pub(super) fn order(&self, [m, n, _]: [usize; 3]) -> BlockOrder {
        let (rows, columns) = (m.div_ceil(self.tile[0]), n.div_ceil(self.tile[1]));
        BlockOrder { rows, columns, together: self.rows_together.clamp(1, rows.max(1)) }
    }

    /// Returns the row and the column of each block, in the order in which launches share them.
    pub fn places(&self, dims: [usize; 3]) -> impl Iterator<Item = (usize, usize)> {
        let order = self.order(dims);
        (0..order.tiles()).map(move |tile| order.place(tile))
    }
}

/// The sides of blocks that are tried, rounded up to tiles of the matrix engine.
const SIDES: [[usize; 2]; 9] = [
    [128, 256],
    [256, 128],
    [128, 128],
    [64, 256],
    [64, 128],
    [64, 64],
    [256, 256],
    [512, 512],
    [1024, 1024],
];
/// The parts of k that are tried.
const PARTS: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];
/// The step over k, rounded up to tiles of the matrix engine.
const STEP: usize = 64;

/// The costs of a machine, in seconds.
struct Costs {
    pes: f64,
    /// Seconds an operation, a byte of DMA, of cache and of memory.
    operation: f64,
    dma: f64,
    cache: f64,
    hbm: f64,
    vector: f64,
    /// Latency of a load that misses, of a load that hits, and of a store.
    load: f64,
    hit: f64,
    store: f64,
}

/// A product that [`GemmPlan::fastest`] plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmProblem {
    /// The `m, n, k` of the product.
    pub dims: [usize; 3],
    /// The element type of the operands.
    pub dtype: DType,
    /// Number of PEs that compute it.
    pub pes: usize,
    /// Maximum number of operand buffers.
    pub buffers: u32,
    /// The `m, n, k` of a block, if the plan has to use it.
    pub tile: Option<[usize; 3]>,
    /// Number of parts of k, if the plan has to use it.
    pub split_k: Option<usize>,
}

/// A product, and the bytes of scratch memory of a PE.
struct Problem<'a> {
    product: &'a GemmProblem,
    room: usize,
}

/// Returns the bytes of scratch memory.
fn room(spec: &MachineSpec) -> usize {
    match spec.tcm {
        Capacity::Unlimited => usize::MAX,
        Capacity::Limited(bytes) => usize::try_from(bytes.0).unwrap_or(usize::MAX),
    }
}

impl GemmPlan {
    /// Returns the plan with the shortest estimate for a product.
    pub fn fastest(spec: &MachineSpec, product: &GemmProblem) -> Self {
        let problem = Problem { product, room: room(spec) };
        let costs = Costs::new(spec, product.dtype, product.pes);
        let mut best: Option<(f64, Self)> = None;
        for tile in problem.tiles(spec) {
            let steps = product.dims[2].div_ceil(tile[2]);
            for split_k in product.split_k.map_or(PARTS.to_vec(), |parts| vec![parts]) {
                if split_k > steps.max(1) && best.is_some() {
                    continue;
                }
                let plan = problem.plan(tile, split_k.min(steps.max(1)));
                let estimate = costs.estimate(product, &plan);
                if best.as_ref().is_none_or(|(least, _)| estimate < *least) {
                    best = Some((estimate, plan));
                }
            }
        }
        best.map_or_else(
            || problem.plan(spec.gemm.tile.map(|side| side as usize), 1),
            |best| best.1,
        )
    }
}

impl Problem<'_> {
    fn plan(&self, tile: [usize; 3], split_k: usize) -> GemmPlan {
        let buffers = u32::try_from(self.buffers_of(tile)).unwrap_or(u32::MAX);
        let buffers = buffers.clamp(1, self.product.buffers.max(1));
        GemmPlan { tile, split_k, buffers, rows_together: self.rows_together(tile) }
    }

    /// Returns the number of operand buffers that fit into scratch memory beside the sums, and the rounded sums while they
    /// are stored.
    fn buffers_of(&self, [m, n, k]: [usize; 3]) -> usize {
        let size = self.product.dtype.size();
        self.room.saturating_sub(m * n * (4 + size)) / (size * k * (m + n)).max(1)
    }

    /// Returns the rows of blocks for which the blocks that run at one time read the fewest bytes.
    fn rows_together(&self, [tm, tn, _]: [usize; 3]) -> usize {
        let rows = self.product.dims[0].div_ceil(tm).max(1);
        let bytes = |together: usize| together * tm + self.product.pes.div_ceil(together) * tn;
        (1..=rows.min(self.product.pes)).min_by_key(|together| bytes(*together)).unwrap_or(1)
    }

    /// Returns the blocks that are tried: those whose operands and sums fit into scratch memory.
    fn tiles(&self, spec: &MachineSpec) -> Vec<[usize; 3]> {
        if let Some(tile) = self.product.tile {
            return vec![tile];
        }
        let engine = spec.gemm.tile.map(|side| side as usize);
        let k = STEP.min(self.product.dims[2]).next_multiple_of(engine[2]);
        let mut tiles = Vec::new();
        for [m, n] in SIDES {
            let tile = [m.next_multiple_of(engine[0]), n.next_multiple_of(engine[1]), k];
            if self.buffers_of(tile) >= 2 && !tiles.contains(&tile) {
                tiles.push(tile);
            }
        }
        if tiles.is_empty() {
            tiles.push(engine);
        }
        tiles
    }
}

/// Seconds of one unit of a rate; 0 if it is unlimited.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn seconds(rate: Rate) -> f64 {
    rate.as_per_second().map_or(0.0, |rate| 1.0 / rate as f64)
}

impl Costs {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn new(spec: &MachineSpec, dtype: DType, pes: usize) -> Self {
        let span = |time: crate::time::Time| time.as_ps() as f64 * 1e-12;
        let cubes = pes.div_ceil(spec.pes.count() as usize).max(1) as f64;
        let hbm = spec.hbm.wire();
        let cache = spec.cache.map_or(0.0, |cache| span(cache.latency));
        let (dma, memory) = (span(spec.dma.latency), span(hbm.latency));
        Self {
            pes: pes as f64,
            operation: seconds(spec.gemm.rate_of(dtype)),
            dma: seconds(spec.dma.bandwidth),
            cache: spec.cache.map_or(0.0, |cache| seconds(cache.bandwidth)) / cubes,
            hbm: seconds(hbm.bandwidth) / cubes,
            vector: seconds(spec.vector),
            load: dma + cache + memory,
            hit: if spec.cache.is_some() { dma + cache } else { dma + memory },
            store: if spec.cache.is_some() { dma + cache } else { dma + memory },
        }
    }

    /// Returns the estimated time of a product by a plan, in seconds.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn estimate(&self, product: &GemmProblem, plan: &GemmPlan) -> f64 {
        let [m, n, k] = product.dims.map(|side| side as f64);
        let ([tm, tn, tk], size) = (plan.tile.map(|side| side as f64), product.dtype.size() as f64);
        let parts = plan.split_k as f64;
        let depth = ((k / tk).ceil() / parts).ceil() * tk;
        let units = (m / tm).ceil() * (n / tn).ceil() * parts;
        let waves = (units / self.pes).ceil();
        let running = units.min(self.pes);
        let (rows, columns) = (tm.min(m), tn.min(n));
        let loaded = (rows + columns) * depth.min(k) * size;
        let step = (rows + columns) * tk.min(k) * size;
        let computing = 2.0 * tm * tn * depth * self.operation;
        let mut loading = (loaded * self.dma).max(loaded * running * self.cache);
        if waves < 2.0 {
            // A wave that begins without operands has its latencies to hide.
            let ahead = f64::from(plan.buffers.max(2) - 1) * step;
            loading = loading.max(loaded / ahead * self.load);
        }
        let stored = rows * columns * if plan.split_k == 1 { size } else { 4.0 };
        let storing = self.store + (stored * self.dma).max(stored * running * self.cache);
        let first = self.load + (step * self.dma).max(step * running * self.hbm);
        let bytes = (m * k + k * n + m * n) * size;
        let last = 2.0 * tm * tn * tk.min(depth) * self.operation;
        let pe = first + waves * (computing.max(loading) + storing);
        let memory = self.load + bytes * self.hbm + last + storing;
        let mut time = pe.max(memory);
        if plan.split_k > 1 {
            let strip = rows * columns * 4.0;
            let adding = strip * (self.dma + self.vector) + self.store + stored / parts * self.dma;
            time += self.hit + waves * adding;
        }
        time
    }
}
