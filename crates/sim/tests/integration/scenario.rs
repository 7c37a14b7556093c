//! Random machines with random messages, for the promises that hold for all traffic.

use crate::support::{Outcome, bare, wire};
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::kernel::{Tl, View};
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::memory::Region;
use phalanx_sim::report::Report;
use phalanx_sim::spec::{Efficiency, Forwarding, GridSpec, HbmSpec, SipsSpec, Topology, WireSpec};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{Capacity, MachineSpec, Time};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// A machine, and flows between pairs of its PEs; each PE is in at most one flow.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) spec: MachineSpec,
    pub(crate) flows: Vec<Flow>,
}

/// Messages from one PE to another, with their numbers of elements.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) from: PeId,
    pub(crate) to: PeId,
    pub(crate) edge: EdgeSpec,
    pub(crate) messages: Vec<usize>,
    /// Time the receiver works on each message.
    pub(crate) consume: Time,
    /// True if the sender waits for each message to leave before it loads the next.
    pub(crate) waits: bool,
}

pub(crate) fn scenarios() -> impl Strategy<Value = Scenario> {
    (machines(), prop::collection::vec(flows(), 1..5), any::<u64>()).prop_map(
        |(spec, mut flows, seed)| {
            let mut pes = shuffled(&spec, seed);
            flows.truncate(pes.len() / 2);
            for flow in &mut flows {
                (flow.from, flow.to) = (pes.pop().unwrap(), pes.pop().unwrap());
            }
            Scenario { spec, flows }
        },
    )
}

fn shuffled(spec: &MachineSpec, seed: u64) -> Vec<PeId> {
    let machine = Machine::new(spec.clone(), Options::default());
    let mut pes: Vec<PeId> = (0..spec.sips.count).flat_map(|sip| machine.pes(sip)).collect();
    pes.sort_by_key(|pe| {
        let number = u64::from(pe.sip) << 32 | u64::from(pe.cube) << 16 | u64::from(pe.pe);
        (number ^ seed)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93)
    });
    pes
}

pub(crate) fn topologies() -> impl Strategy<Value = (u32, Topology)> {
    (1..4u32, 1..4u32, 0..5u8).prop_map(|(rows, columns, kind)| match kind {
        0 => (rows * columns + 1, Topology::Ring1d),
        1 => (rows * columns + 1, Topology::FullyConnected),
        2 => (rows * columns + 1, Topology::Switch),
        3 => (rows * (columns + 1), Topology::Mesh2d { rows, columns: columns + 1 }),
        _ => (rows * (columns + 1), Topology::Torus2d { rows, columns: columns + 1 }),
    })
}

/// Generates a wire that takes no time, or one with a bandwidth and a latency.
fn wires() -> impl Strategy<Value = WireSpec> {
    prop_oneof![Just(WireSpec::FREE), (1..64u64, 0..40u64).prop_map(|(b, a)| wire(b, a))]
}

fn grids(link: WireSpec) -> impl Strategy<Value = GridSpec> {
    (1..3u32, 1..3u32).prop_map(move |(rows, columns)| GridSpec { rows, columns, link })
}

fn machines() -> impl Strategy<Value = MachineSpec> {
    let inside = (wires(), wires()).prop_flat_map(|(cubes, pes)| (grids(cubes), grids(pes)));
    (topologies(), (1..64u64, 1..300u64), inside, wires(), wires(), wires()).prop_map(
        |((count, topology), (b, a), (cubes, pes), dma, hbm, host)| {
            let hbm = HbmSpec {
                capacity: Capacity::Unlimited,
                bandwidth: hbm.bandwidth,
                latency: hbm.latency,
                efficiency: Efficiency::FULL,
            };
            let dma = dma.into();
            let forwarding = Forwarding::ALL[usize::from(a % 3 == 0)];
            let sips = SipsSpec { forwarding, ..SipsSpec::new(count, topology, wire(b, a)) };
            MachineSpec { sips, cubes, pes, hbm, dma, host, ..bare() }
        },
    )
}

pub(crate) fn edges() -> impl Strategy<Value = EdgeSpec> {
    let backpressure = prop_oneof![
        Just(Backpressure::Sleep),
        (1..200u64).prop_map(|period| Backpressure::Poll(Time::ns(period)))
    ];
    let kind = prop::sample::select(vec![BufferKind::Tcm, BufferKind::Hbm]);
    (1..5u32, 1..20u64, kind, backpressure, 0..40u64, prop::sample::select(vec![0, 0, 8, 64]))
        .prop_map(|(n_slots, words, buffer_kind, backpressure, chunk, credit)| EdgeSpec {
            n_slots,
            slot_size: words * 4,
            buffer_kind,
            backpressure,
            vc_chunk_size: chunk,
            ipcq_credit_size_bytes: credit,
            ..EdgeSpec::default()
        })
}

fn flows() -> impl Strategy<Value = Flow> {
    let messages = prop::collection::vec(0..40usize, 0..12);
    (edges(), messages, 0..80u64, any::<bool>()).prop_map(|(edge, messages, consume, waits)| {
        let (from, to) = (PeId::first(0), PeId::first(0));
        Flow { from, to, edge, messages, consume: Time::ns(consume), waits }
    })
}

/// The received messages of each flow.
pub(crate) type Received = Vec<Vec<Option<Value>>>;

impl Scenario {
    pub(crate) fn run(&self, options: Options) -> (Result<Report, RunError>, Received) {
        let (mut machine, received) = self.build(options);
        let report = machine.run();
        drop(machine);
        (report, received.take())
    }

    /// Returns the machine with all programs launched, and the place for what they receive.
    pub(crate) fn build(&self, options: Options) -> (Machine, Rc<RefCell<Received>>) {
        let mut machine = Machine::new(self.spec.clone(), options);
        let received: Rc<RefCell<Received>> =
            Rc::new(RefCell::new(vec![Vec::new(); self.flows.len()]));
        for (number, flow) in self.flows.iter().enumerate() {
            let source = crate::support::counting(&machine, flow.from.sip, flow.from.cube, 60);
            let (sending, receiving, sink) = (flow.clone(), flow.clone(), received.clone());
            machine.launch(flow.from.sip, "send", &[flow.from], move |tl| {
                sending.clone().send(tl, source)
            });
            machine.launch(flow.to.sip, "receive", &[flow.to], move |tl| {
                receiving.clone().receive(tl, number, sink.clone())
            });
        }
        (machine, received)
    }
}

impl Flow {
    async fn send(self, tl: Tl, source: Region) -> Outcome {
        let sender = tl.sender(self.to, self.edge)?;
        for (number, len) in self.messages.into_iter().enumerate() {
            let tile = tl.load(&View::dense(&source, number, len)).await?;
            let sending = tl.send(&sender, &tile);
            if self.waits {
                sending.await;
            }
        }
        Ok(())
    }

    async fn receive(self, tl: Tl, number: usize, sink: Rc<RefCell<Received>>) -> Outcome {
        let receiver = tl.receiver(self.from, self.edge)?;
        for len in self.messages {
            let tile = tl.recv(&receiver, DType::F32, len).await?;
            tl.compute(self.consume).await;
            sink.borrow_mut()[number].push(tile.value());
        }
        Ok(())
    }

    /// Returns the elements of message `number`.
    pub(crate) fn contents(&self, number: usize) -> Vec<f32> {
        (number..number + self.messages[number]).map(|x| x as f32).collect()
    }

    /// Returns the number of slots of all messages.
    pub(crate) fn slots(&self) -> u64 {
        let slots = |len: &usize| (*len as u64 * 4).div_ceil(self.edge.slot_size).max(1);
        self.messages.iter().map(slots).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.messages.iter().map(|len| *len as u64 * 4).sum()
    }
}
