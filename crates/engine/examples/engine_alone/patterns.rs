//! The data that each task of a pattern touches.

/// The data that tasks touch, one task after the other: the first of each it writes, the others it reads; of a chain it
/// does both.
#[derive(Default)]
pub(crate) struct Tasks {
    data: Vec<u32>,
    /// The end of each task's part of `data`.
    ends: Vec<u32>,
}

impl Tasks {
    /// One more task.
    pub(crate) fn add(&mut self, data: impl IntoIterator<Item = usize>) {
        let number = |count: usize| u32::try_from(count).expect("a small number");
        self.data.extend(data.into_iter().map(number));
        self.ends.push(number(self.data.len()));
    }

    /// The data that each task touches.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let task = &self.data[begin as usize..*end as usize];
            begin = *end;
            task
        })
    }

    /// Returns the number of tasks.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }
}

/// The five patterns with `count` tasks each.
pub(crate) fn patterns(count: usize) -> Vec<(&'static str, Tasks)> {
    let side = count.isqrt().max(1);
    let mut seed = 1u64;
    let mut patterns = ["independent", "chain", "stencil", "wavefront", "random"]
        .map(|name| (name, Tasks::default()));
    let [independent, chain, stencil, wavefront, random] = &mut patterns;
    for at in 0..count {
        independent.1.add([at]);
        chain.1.add([0]);
        stencil.1.add(cell_of(at, 64));
        let left = (at % side > 0).then(|| at - 1);
        wavefront.1.add(std::iter::once(at).chain(left).chain(at.checked_sub(side)));
        let mut producers: Vec<usize> =
            (0..3.min(at)).map(|_| at - 1 - draw(&mut seed, at.min(256))).collect();
        producers.sort_unstable();
        producers.dedup();
        random.1.add(std::iter::once(at).chain(producers));
    }
    patterns.into()
}

fn draw(seed: &mut u64, below: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or_default() % below.max(1)
}

/// Adds the data of task `at` of a stencil, which reads three neighbours in one row of `width` data and writes to the other.
pub(crate) fn cell_of(at: usize, width: usize) -> impl Iterator<Item = usize> {
    let (step, cell) = (at / width, at % width);
    let (from, to) = (step % 2 * width, (step + 1) % 2 * width);
    let read = cell.saturating_sub(1)..(cell + 2).min(width);
    std::iter::once(to + cell).chain(read.map(move |cell| from + cell))
}
