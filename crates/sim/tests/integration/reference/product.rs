//! A scenario in the product, by its public interface.

use super::programs::ELEMENT;
use super::script::{HostScript, Order, Piece, Scenario, Step, Times};
use crate::support::{Outcome, without_data};
use phalanx_sim::Time;
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::kernel::{Loading, Receiver, Sender, Sending, Storing, Tile, Tl, View};
use phalanx_sim::machine::{Cause, Host, Machine, Options};
use phalanx_sim::memory::Region;
use phalanx_sim::report::Report;
use phalanx_sim::value::DType;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Runs a scenario in the product; the SIPs take their turns in `partition_order`.
pub(crate) fn run(scenario: &Scenario, partition_order: PartitionOrder) -> Times {
    run_with(scenario, Options { partition_order, ..without_data() }).0
}

/// Runs a scenario in the product with some options; returns the report as well.
pub(crate) fn run_with(scenario: &Scenario, options: Options) -> (Times, Report) {
    let mut machine = Machine::new(scenario.spec.clone(), options);
    let shared = Rc::new(Shared {
        scenario: scenario.clone(),
        memory: regions(&machine, scenario),
        ends: RefCell::new(vec![Vec::new(); scenario.scripts.len()]),
        host_ends: RefCell::new(vec![Vec::new(); scenario.hosts.len()]),
    });
    for (sip, numbers) in scenario.launches() {
        let pes: Vec<_> = numbers.iter().map(|number| scenario.scripts[*number].pe).collect();
        let shared = shared.clone();
        machine.launch(sip, "script", &pes, move |tl| {
            let number = numbers[tl.program_id()];
            Player::play(tl, shared.clone(), number)
        });
    }
    for number in 0..scenario.hosts.len() {
        spawn_host(&mut machine, &shared, number);
    }
    let report = machine.run().unwrap_or_else(|error| panic!("{error}"));
    let (steps, orders) = (shared.ends.take(), shared.host_ends.take());
    (Times { steps, orders, simulated: report.simulated }, report)
}

/// Starts a program of a host.
fn spawn_host(machine: &mut Machine, shared: &Rc<Shared>, number: usize) {
    let (shared, sip) = (shared.clone(), shared.scenario.hosts[number].sip);
    let host = machine.host(sip);
    let program = async move {
        for order in &shared.scenario.hosts[number].orders {
            obey(&host, &shared.memory, *order).await;
            shared.host_ends.borrow_mut()[number].push(host.sim().now());
        }
    };
    machine.spawn(sip, "host program", program).detach();
}

async fn obey(host: &Host, memory: &Memory, order: Order) {
    let (cause, piece) = match order {
        Order::Pause(time) => return host.sim().sleep(time).await,
        Order::Write(piece) | Order::Fill(piece) | Order::Read(piece) => (Cause::default(), piece),
    };
    let whole = &memory[&(host.sip(), piece.cube)];
    let count = elements(piece.bytes);
    match order {
        Order::Write(_) => host.write(whole, 0, None, count, cause).await.map(drop),
        Order::Fill(_) => {
            host.fill(&Region { elements: count, ..*whole }, None, cause).await.map(drop)
        }
        _ => host.read(whole, 0, count, cause).await.map(drop),
    }
    .unwrap();
}

/// The memory of each cube that scripts use.
type Memory = BTreeMap<(u32, u16), Region>;

struct Shared {
    scenario: Scenario,
    memory: Memory,
    ends: RefCell<Vec<Vec<Time>>>,
    host_ends: RefCell<Vec<Vec<Time>>>,
}

/// Returns the pieces of memory of a step.
fn pieces(step: &Step) -> Vec<Piece> {
    match step {
        Step::Load { piece, .. } | Step::Store { piece, .. } => vec![*piece],
        Step::Pair { pieces, .. } => pieces.to_vec(),
        _ => Vec::new(),
    }
}

fn elements(bytes: u64) -> usize {
    usize::try_from(bytes / ELEMENT).unwrap()
}

/// Maps memory that is as large as the largest piece in each cube.
fn regions(machine: &Machine, scenario: &Scenario) -> Memory {
    let mut sizes: BTreeMap<(u32, u16), u64> = BTreeMap::new();
    let mut use_piece = |sip: u32, piece: Piece| {
        let size = sizes.entry((sip, piece.cube)).or_default();
        *size = piece.bytes.max(*size);
    };
    for script in &scenario.scripts {
        for piece in script.steps.iter().flat_map(pieces) {
            use_piece(script.pe.sip, piece);
        }
    }
    for HostScript { sip, orders } in &scenario.hosts {
        for order in orders {
            if let Order::Write(piece) | Order::Fill(piece) | Order::Read(piece) = order {
                use_piece(*sip, *piece);
            }
        }
    }
    let map = |((sip, cube), bytes)| {
        ((sip, cube), machine.zeros(sip, cube, DType::F16, elements(bytes)).unwrap())
    };
    sizes.into_iter().map(map).collect()
}

/// An operation that no step has waited for.
enum Open {
    Load(Loading<Tile>),
    Pair(Loading<(Tile, Tile)>),
    Store(Storing),
    Send(Sending),
}

impl Open {
    async fn end(self) -> Outcome {
        match self {
            Self::Load(load) => load.await.map(drop),
            Self::Pair(load) => load.await.map(drop),
            Self::Store(store) => store.await,
            Self::Send(send) => {
                send.await;
                Ok(())
            }
        }
    }
}

/// A kernel that runs one script.
struct Player {
    tl: Tl,
    shared: Rc<Shared>,
    senders: BTreeMap<usize, Sender>,
    receivers: BTreeMap<usize, Receiver>,
    open: VecDeque<Open>,
}

impl Player {
    async fn play(tl: Tl, shared: Rc<Shared>, number: usize) -> Outcome {
        let (mut senders, mut receivers) = (BTreeMap::new(), BTreeMap::new());
        for (channel, queue) in (0..).zip(&shared.scenario.queues) {
            if queue.from == tl.pe() {
                let sender = tl.sender_on(queue.to, channel, queue.edge)?;
                senders.insert(channel as usize, sender);
            } else if queue.to == tl.pe() {
                let receiver = tl.receiver_on(queue.from, channel, queue.edge)?;
                receivers.insert(channel as usize, receiver);
            }
        }
        let open = VecDeque::new();
        let mut player = Self { tl, shared, senders, receivers, open };
        let steps = player.shared.scenario.scripts[number].steps.clone();
        for step in steps {
            player.step(step).await?;
            player.shared.ends.borrow_mut()[number].push(player.tl.now());
        }
        Ok(())
    }

    fn view(&self, piece: Piece) -> View {
        let region = &self.shared.memory[&(self.tl.pe().sip, piece.cube)];
        View::dense(region, 0, elements(piece.bytes))
    }

    fn tile(&self, bytes: u64) -> Result<Tile, phalanx_sim::kernel::KernelError> {
        self.tl.zeros(DType::F16, elements(bytes))
    }

    async fn step(&mut self, step: Step) -> Outcome {
        let (open, waits) = match step {
            Step::Compute(time) => {
                self.tl.compute(time).await;
                return Ok(());
            }
            Step::Load { piece, waits } => (Open::Load(self.tl.load(&self.view(piece))), waits),
            Step::Pair { pieces: [left, right], waits } => {
                (Open::Pair(self.tl.load_pair(&self.view(left), &self.view(right))), waits)
            }
            Step::Store { piece, waits } => {
                let tile = self.tile(piece.bytes)?;
                (Open::Store(self.tl.store(&self.view(piece), &tile)), waits)
            }
            Step::Send { queue, bytes, waits } => {
                let tile = self.tile(bytes)?;
                (Open::Send(self.tl.send(&self.senders[&queue], &tile)), waits)
            }
            Step::Receive { queue, bytes, hold } => {
                let receiver = &self.receivers[&queue];
                let tile = self.tl.recv(receiver, DType::F16, elements(bytes)).await?;
                self.tl.compute(hold).await;
                drop(tile);
                return Ok(());
            }
            Step::Await => match self.open.pop_front() {
                Some(open) => (open, true),
                None => return Ok(()),
            },
        };
        if waits {
            return open.end().await;
        }
        self.open.push_back(open);
        Ok(())
    }
}
