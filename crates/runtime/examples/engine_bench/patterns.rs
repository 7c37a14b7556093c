//! Which task touches what.

/// The data a task touches: the first it writes, the others it reads; of a chain it does both.
pub struct Task {
    pub data: Vec<usize>,
}

/// The five patterns with `count` tasks each.
pub fn patterns(count: usize) -> Vec<(&'static str, Vec<Task>)> {
    let task = |data: Vec<usize>| Task { data };
    let independent = (0..count).map(|at| task(vec![at]));
    let chain = (0..count).map(|_| task(vec![0]));
    let side = count.isqrt().max(1);
    let wavefront = (0..count).map(|at| {
        let left = (at % side > 0).then(|| at - 1);
        task(std::iter::once(at).chain(left).chain(at.checked_sub(side)).collect())
    });
    let mut seed = 1u64;
    let random = (0..count).map(|at| {
        let mut producers: Vec<usize> =
            (0..3.min(at)).map(|_| at - 1 - draw(&mut seed, at.min(256))).collect();
        producers.sort_unstable();
        producers.dedup();
        task(std::iter::once(at).chain(producers).collect())
    });
    vec![
        ("independent", independent.collect()),
        ("chain", chain.collect()),
        ("stencil", stencil(count, 64)),
        ("wavefront", wavefront.collect()),
        ("random", random.collect()),
    ]
}

fn draw(seed: &mut u64, below: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or_default() % below.max(1)
}

/// Two rows of `width` data: each task reads three neighbours in one and writes the other.
pub fn stencil(count: usize, width: usize) -> Vec<Task> {
    let tasks = (0..count).map(|at| {
        let (step, cell) = (at / width, at % width);
        let (from, to) = (step % 2 * width, (step + 1) % 2 * width);
        let read = cell.saturating_sub(1)..(cell + 2).min(width);
        Task { data: std::iter::once(to + cell).chain(read.map(|cell| from + cell)).collect() }
    });
    tasks.collect()
}
