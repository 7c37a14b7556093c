//! The bounded-slot ring all-reduce of the peers bench on nexosim, one thread.
//!
//! ```text
//!            chunk                 chunk
//!   rank 0 ─────────► rank 1 ─────────► … ─────────► rank 0
//!          ◄─────────        ◄─────────   ◄─────────
//!            credit                credit
//! ```
//!
//! One model a rank. A delay is an event that the model schedules on itself; the wire is a busy-until time, not a model
//! of its own, which would cost another message a hop.

use std::time::{Duration, Instant};

use nexosim::Message;
use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::Output;
use nexosim::simulation::{Mailbox, SimInit, SimulationError};
use nexosim::time::MonotonicTime;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const BYTES: u64 = 16 << 20; // per rank
const SLOT: u64 = 16 << 10;
const SLOTS: u64 = 4;
const SERIALISATION: Duration = Duration::from_nanos(SLOT / 128);
const REDUCTION: Duration = Duration::from_nanos(SLOT / 512);
const LATENCY: Duration = Duration::from_nanos(500);
const CREDIT_LATENCY: Duration = Duration::from_nanos(500);

/// The cut of the vector for a number of ranks.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Shape {
    ranks: u64,
    /// Chunks in one step.
    chunks: u64,
}

impl Shape {
    fn new(ranks: u64) -> Self {
        Self { ranks, chunks: BYTES / (ranks * SLOT) }
    }

    /// Chunks a rank sends while reducing; it sends as many again while gathering.
    fn reducing(self) -> u64 {
        (self.ranks - 1) * self.chunks
    }

    fn hops(self) -> u64 {
        self.ranks * 2 * self.reducing()
    }
}

/// One chunk over one link: its number among all that its sender sends.
#[derive(Clone, Copy, Message, Serialize, Deserialize)]
struct Chunk(u64);

/// A slot that is free again.
#[derive(Clone, Copy, Message, Serialize, Deserialize)]
struct Credit;

/// One rank of the ring.
#[derive(Serialize, Deserialize)]
struct Rank {
    /// Chunks that reach the next rank -- output port.
    chunk_out: Output<Chunk>,
    /// Credits that reach the previous rank -- output port.
    credit_out: Output<Credit>,

    shape: Shape,
    sent: u64,
    ready: u64,
    credits: u64,
    wire_free: MonotonicTime,
    vector_free: MonotonicTime,
}

#[Model]
impl Rank {
    fn new(shape: Shape) -> Self {
        Self {
            chunk_out: Output::default(),
            credit_out: Output::default(),
            shape,
            sent: 0,
            ready: 0,
            credits: SLOTS,
            wire_free: MonotonicTime::EPOCH,
            vector_free: MonotonicTime::EPOCH,
        }
    }

    #[nexosim(init)]
    #[expect(clippy::unused_async, reason = "nexosim awaits `init`")]
    async fn init(&mut self, cx: &Context<Self>) {
        self.send_ready(cx);
    }

    /// A chunk from the previous rank -- input port.
    fn chunk_in(&mut self, chunk: Chunk, cx: &Context<Self>) {
        if chunk.0 < self.shape.reducing() {
            self.vector_free = self.vector_free.max(cx.time()) + REDUCTION;
            cx.schedule_event(self.vector_free, schedulable!(Self::reduced), ()).unwrap();
        } else {
            self.chunk_ready(cx);
        }
    }

    /// A credit from the next rank -- input port.
    fn credit_in(&mut self, _: Credit, cx: &Context<Self>) {
        self.credits += 1;
        self.send_ready(cx);
    }

    /// Hands chunks to the wire while the next one is ready and a slot is free.
    fn send_ready(&mut self, cx: &Context<Self>) {
        let available = (self.shape.chunks + self.ready).min(2 * self.shape.reducing());
        while self.sent < available && self.credits > 0 {
            self.credits -= 1;
            self.wire_free = self.wire_free.max(cx.time()) + SERIALISATION;
            let arrival = self.wire_free + LATENCY;
            cx.schedule_event(arrival, schedulable!(Self::arrive), Chunk(self.sent)).unwrap();
            self.sent += 1;
        }
    }

    /// One more chunk may be sent on; its slot is free one credit latency later.
    fn chunk_ready(&mut self, cx: &Context<Self>) {
        self.ready += 1;
        cx.schedule_event(CREDIT_LATENCY, schedulable!(Self::give_back), ()).unwrap();
        self.send_ready(cx);
    }

    #[nexosim(schedulable)]
    async fn arrive(&mut self, chunk: Chunk) {
        self.chunk_out.send(chunk).await;
    }

    #[nexosim(schedulable)]
    fn reduced(&mut self, (): (), cx: &Context<Self>) {
        self.chunk_ready(cx);
    }

    #[nexosim(schedulable)]
    async fn give_back(&mut self) {
        self.credit_out.send(Credit).await;
    }
}

/// Connects the ranks in a ring and runs them until nothing is scheduled; returns nanoseconds.
fn simulate(shape: Shape) -> Result<u128, SimulationError> {
    let count = usize::try_from(shape.ranks).expect("the number of ranks fits");
    let mailboxes: Vec<_> = (0..count).map(|_| Mailbox::new()).collect();
    let mut ranks: Vec<_> = (0..count).map(|_| Rank::new(shape)).collect();
    for (number, rank) in ranks.iter_mut().enumerate() {
        rank.chunk_out.connect(Rank::chunk_in, &mailboxes[(number + 1) % count]);
        rank.credit_out.connect(Rank::credit_in, &mailboxes[(number + count - 1) % count]);
    }
    let mut bench = SimInit::with_num_threads(1);
    for (number, (rank, mailbox)) in ranks.into_iter().zip(mailboxes).enumerate() {
        bench = bench.add_model(rank, mailbox, &format!("rank {number}"));
    }
    let mut simulation = bench.init(MonotonicTime::EPOCH)?;
    simulation.run()?;
    Ok(simulation.time().duration_since(MonotonicTime::EPOCH).as_nanos())
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).expect("below 1e9"))
        .as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let ranks = arguments.next().ok_or("usage: nexosim-ring RANKS [REPEAT]")?.parse()?;
    let repeat: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    if ranks < 2 || !BYTES.is_multiple_of(ranks * SLOT) || repeat == 0 {
        return Err(format!("ranks must be at least 2 and divide {}: {ranks}", BYTES / SLOT).into());
    }
    let shape = Shape::new(ranks);
    let (mut simulated, mut cpu, mut wall) = (0, Vec::new(), Vec::new());
    for _ in 0..repeat {
        let (cpu_start, wall_start) = (cpu_seconds(), Instant::now());
        simulated = simulate(shape)?;
        cpu.push(cpu_seconds() - cpu_start);
        wall.push(wall_start.elapsed().as_secs_f64());
    }
    println!(
        r#"{{"simulated_ns": {simulated}, "cpu_s": {}, "wall_s": {}, "hops": {}}}"#,
        median(cpu),
        median(wall),
        shape.hops()
    );
    Ok(())
}
