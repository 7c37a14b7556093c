//! Random scenarios. Numbers are drawn first and interpreted afterwards, so that a failing scenario shrinks well.

use super::script::{HostScript, Order, Piece, Queue, Scenario, Script, Step};
use crate::support::bare;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::spec::{
    CacheSpec, DmaSpec, Efficiency, Forwarding, GridSpec, HbmSpec, LevelSpec, LinkSpec, SipsSpec,
    Topology, WireSpec,
};
use phalanx_sim::topology::PeId;
use phalanx_sim::{Bandwidth, Bytes, Capacity, MachineSpec, Time};
use proptest::prelude::*;

/// The numbers of a wire: is its bandwidth limited, is its latency above zero, and both quantities.
type RawWire = (u8, u8, u64, u64);

fn raw_wires() -> impl Strategy<Value = RawWire> {
    (0..4u8, 0..3u8, 0..100_000_000_000u64, 0..60_000u64)
}

/// Returns a wire. Round quantities make equal times likely, other quantities make them rare.
fn wire((limited, delayed, rate, latency): RawWire, is_round: bool) -> WireSpec {
    let rate = if is_round { 1_000_000_000 << (rate % 4) } else { 1_000_000_000 + rate };
    let latency = if is_round { latency % 5 * 8_000 } else { latency };
    WireSpec {
        bandwidth: if limited == 0 {
            Bandwidth::UNLIMITED
        } else {
            Bandwidth::per_second(rate).unwrap()
        },
        latency: if delayed == 0 { Time::ZERO } else { Time::ps(latency) },
    }
}

/// Draws the numbers of rows and columns of a mesh; few meshes are large.
fn sizes() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![20 => (1..4u32, 1..4u32), 1 => (1..17u32, 1..17u32)]
}

fn topologies() -> impl Strategy<Value = (u32, Topology)> {
    (1..4u32, 1..3u32, 1..7u32, 0..7u8).prop_map(|(a, b, count, kind)| match kind {
        0 => (count, Topology::Ring1d),
        1 => (count, Topology::FullyConnected),
        2 => (count, Topology::Switch),
        3 => (a * b, Topology::Mesh2d { rows: b, columns: a }),
        4 => (a * b * 2, Topology::Mesh3d { layers: a, rows: 2, columns: b }),
        5 => (a * b * 2, Topology::Torus3d { layers: 2, rows: b, columns: a }),
        _ => (a * b, Topology::Torus2d { rows: b, columns: a }),
    })
}

/// Draws machines of every topology, with quantities that make equal times rare.
pub(crate) fn machines() -> impl Strategy<Value = MachineSpec> {
    machines_with(false)
}

/// Draws machines of every topology, with quantities that make equal times likely.
pub(crate) fn round_machines() -> impl Strategy<Value = MachineSpec> {
    machines_with(true)
}

/// The numbers of a level: count and topology, its link and the way to its NICs, a divisor, oversubscription and lanes.
type RawLevel = ((u32, Topology), RawWire, Option<RawWire>, u32, u32, u32);

fn raw_levels() -> impl Strategy<Value = RawLevel> {
    let pcie = prop::option::of(raw_wires());
    (topologies(), raw_wires(), pcie, 1..4u32, 1..4u32, 1..3u32)
}

/// Returns the levels above a group of `part` SIPs, of at most 40 SIPs in all.
fn levels_of(mut part: u32, raw: Vec<RawLevel>, is_round: bool) -> Vec<LevelSpec> {
    let mut levels = Vec::new();
    for (name, ((count, topology), link, pcie, divisor, ratio, lanes)) in
        ["node", "pod"].into_iter().zip(raw)
    {
        if part * count > 40 {
            break;
        }
        let shared = if part.is_multiple_of(divisor) { divisor } else { 1 };
        let delayed = |raw| {
            let wire = wire(raw, is_round);
            WireSpec { latency: wire.latency.max(Time::ns(1)), ..wire }
        };
        let switched = topology == Topology::Switch;
        levels.push(LevelSpec {
            name: name.to_owned(),
            count,
            topology,
            link: LinkSpec { lanes, ..delayed(link).into() },
            nics: part / shared,
            pcie: pcie.map(delayed),
            oversubscription: if switched { ratio } else { 1 },
            multicast: None,
            reduction: None,
        });
        part *= count;
    }
    levels
}

/// The numbers of a memory: a cache with a capacity in quarters of 1 KiB, requests under way, the burst, and the efficiency of
/// the stack.
type RawMemory = (Option<(RawWire, u64)>, u32, u64, Efficiency);

fn memories() -> impl Strategy<Value = RawMemory> {
    let cache = prop_oneof![2 => Just(None), 1 => (raw_wires(), 1..24u64).prop_map(Some)];
    let outstanding = prop_oneof![2 => Just(1), 1 => 2..5u32];
    let burst = prop::sample::select(vec![0, 0, 0, 32, 64]);
    let efficiency = prop_oneof![3 => Just(1_000_000), 1 => 100_000..1_000_000u32];
    let efficiency = efficiency.prop_map(|part| Efficiency::millionths(part).unwrap());
    (cache, outstanding, burst, efficiency)
}

fn machines_with(is_round: bool) -> impl Strategy<Value = MachineSpec> {
    let wires = prop::array::uniform6(raw_wires());
    let modes = prop::sample::select(Forwarding::ALL.to_vec());
    let levels = prop_oneof![
        3 => Just(Vec::new()),
        2 => prop::collection::vec(raw_levels(), 1..3),
    ];
    (topologies(), levels, modes, sizes(), (1..4u32, 1..3u32), wires, memories()).prop_map(
        move |((count, topology), levels, forwarding, pes, cubes, wires, memories)| {
            let (cache, outstanding, burst, efficiency) = memories;
            let [link, host, cube, pe, hbm, dma] = wires.map(|raw| wire(raw, is_round));
            let grid = |(rows, columns), link| GridSpec { rows, columns, link };
            // CFG-3: a link between SIPs has a latency.
            let link = WireSpec { latency: link.latency.max(Time::ns(1)), ..link };
            let hbm = HbmSpec {
                capacity: Capacity::Unlimited,
                bandwidth: hbm.bandwidth,
                latency: hbm.latency,
                efficiency,
            };
            let dma = DmaSpec { outstanding, burst, ..dma.into() };
            let cache = cache.map(|(raw, kib)| {
                let WireSpec { bandwidth, latency } = wire(raw, is_round);
                let capacity = Capacity::Limited(Bytes(kib * 256));
                CacheSpec { capacity, bandwidth, latency }
            });
            let sips = SipsSpec { forwarding, ..SipsSpec::new(count, topology, link) };
            let (cubes, pes) = (grid(cubes, cube), grid(pes, pe));
            let levels = levels_of(count, levels, is_round);
            MachineSpec { sips, levels, host, cubes, cache, pes, hbm, dma, ..bare() }
        },
    )
}

fn edges() -> impl Strategy<Value = EdgeSpec> {
    let backpressure = prop_oneof![
        3 => Just(Backpressure::Sleep),
        1 => (1..200u64).prop_map(|period| Backpressure::Poll(Time::ns(period)))
    ];
    let kind = prop::sample::select(vec![BufferKind::Tcm, BufferKind::Hbm]);
    let chunk = prop_oneof![Just(0), 100..900u64];
    let credit = prop::sample::select(vec![0, 0, 8, 64]);
    (1..4u32, 50..600u64, kind, backpressure, chunk, credit).prop_map(
        |(n_slots, words, buffer_kind, backpressure, chunk, credit)| EdgeSpec {
            n_slots,
            slot_size: words * 4,
            buffer_kind,
            backpressure,
            vc_chunk_size: chunk,
            ipcq_credit_size_bytes: credit,
            ..EdgeSpec::default()
        },
    )
}

/// The numbers of one action: its kind, a script, two cubes, two sizes, a time, and whether to wait.
type RawAction = (u8, usize, [u16; 2], [u64; 2], u64, bool);

fn actions() -> impl Strategy<Value = RawAction> {
    // Whole multiples of 16 bytes and nothing at all are likely, so that equal times are.
    let size = prop_oneof![8 => 1..700u64, 3 => (1..8u64).prop_map(|n| n * 8), 1 => Just(0)];
    let sizes = prop::array::uniform2(size);
    (0..9u8, 0..64usize, prop::array::uniform2(0..64u16), sizes, 0..200u64, any::<bool>())
}

/// The numbers of a queue: its two scripts, and its settings.
type RawQueue = (usize, usize, EdgeSpec);

/// The numbers of a program of a host: its SIP; kind, cube, size and time of each order.
type RawHost = (u32, Vec<(u8, u16, u64, u64)>);

fn hosts() -> impl Strategy<Value = RawHost> {
    (0..64u32, prop::collection::vec((0..4u8, 0..64u16, 1..700u64, 0..200u64), 1..6))
}

fn host(spec: &MachineSpec, (sip, orders): RawHost) -> HostScript {
    let cubes = u16::try_from(spec.cubes.count()).unwrap();
    let order = |(kind, cube, size, time): (u8, u16, u64, u64)| {
        let piece = Piece { cube: cube % cubes, bytes: size * 2 };
        match kind {
            0 => Order::Pause(Time::ps(time * 333)),
            1 => Order::Write(piece),
            2 => Order::Fill(piece),
            _ => Order::Read(piece),
        }
    };
    HostScript { sip: sip % spec.devices(), orders: orders.into_iter().map(order).collect() }
}

/// The largest size of a scenario.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    scripts: usize,
    queues: usize,
    actions: usize,
}

/// Small enough to be understood.
pub(crate) const FEW: Crowd = Crowd { scripts: 8, queues: 6, actions: 40 };
/// Large enough for long queues at every wire.
pub(crate) const MANY: Crowd = Crowd { scripts: 24, queues: 20, actions: 400 };

/// Draws a scenario for a machine of `machines`.
pub(crate) fn scenarios(
    machines: impl Strategy<Value = MachineSpec>,
    crowd: Crowd,
) -> impl Strategy<Value = Scenario> {
    let pes = prop::collection::vec((0..64u32, 0..64u16, 0..256u16), 1..crowd.scripts);
    let queues = prop::collection::vec((0..64usize, 0..64usize, edges()), 0..crowd.queues);
    let actions = prop::collection::vec(actions(), 0..crowd.actions);
    let hosts = prop::collection::vec(hosts(), 0..3);
    (machines, pes, queues, actions, hosts, any::<bool>()).prop_map(
        |(spec, pes, queues, actions, hosts, apart)| {
            let scripts = place(&spec, &pes);
            let queues = connect(&scripts, &queues);
            let hosts = hosts.into_iter().map(|raw| host(&spec, raw)).collect();
            let mut scenario = Scenario { spec, queues, scripts, hosts, apart };
            for action in actions {
                act(&mut scenario, action);
            }
            scenario
        },
    )
}

/// Returns empty scripts, on different PEs.
fn place(spec: &MachineSpec, raw: &[(u32, u16, u16)]) -> Vec<Script> {
    let narrow = |count: u32| u16::try_from(count).unwrap();
    let (cubes, per_cube) = (narrow(spec.cubes.count()), narrow(spec.pes.count()));
    let mut scripts: Vec<Script> = Vec::new();
    for (sip, cube, pe) in raw {
        let pe = PeId { sip: sip % spec.devices(), cube: cube % cubes, pe: pe % per_cube };
        if scripts.iter().all(|script| script.pe != pe) {
            scripts.push(Script { pe, steps: Vec::new() });
        }
    }
    scripts
}

/// Returns the queues between different PEs.
fn connect(scripts: &[Script], raw: &[RawQueue]) -> Vec<Queue> {
    let pe = |number: usize| scripts[number % scripts.len()].pe;
    let queue = |(from, to, edge): &RawQueue| Queue { from: pe(*from), to: pe(*to), edge: *edge };
    raw.iter().map(queue).filter(|queue| queue.from != queue.to).collect()
}

/// Adds an action to the scripts of a scenario. A message is added to both of its ends at once, so that each step waits
/// only for steps added before: there is no deadlock.
fn act(scenario: &mut Scenario, (kind, number, cubes, sizes, time, waits): RawAction) {
    let cube_count = u16::try_from(scenario.spec.cubes.count()).unwrap();
    let number = number % scenario.scripts.len();
    let own = scenario.scripts[number].pe.cube;
    // Two of three pieces are in the own cube.
    let cube = |raw: u16| if raw.is_multiple_of(3) { raw % cube_count } else { own };
    // An access of no bytes touches no cube.
    let piece = |index: usize| Piece { cube: cube(cubes[index]), bytes: sizes[index].max(1) * 2 };
    let time = Time::ps(if time.is_multiple_of(2) { time * 1000 } else { time * 333 });
    let step = match kind {
        0 => Step::Compute(time),
        1 | 2 => Step::Load { piece: piece(0), waits },
        3 => Step::Pair { pieces: [piece(0), piece(1)], waits },
        4 => Step::Store { piece: piece(0), waits },
        5 => Step::Await,
        _ => return send(scenario, usize::from(cubes[0]), sizes[0] * 2, time, waits),
    };
    scenario.scripts[number].steps.push(step);
}

fn send(scenario: &mut Scenario, queue: usize, bytes: u64, hold: Time, waits: bool) {
    let Some(queue) = queue.checked_rem(scenario.queues.len()) else { return };
    let Queue { from, to, .. } = scenario.queues[queue];
    for script in &mut scenario.scripts {
        if script.pe == from {
            script.steps.push(Step::Send { queue, bytes, waits });
        } else if script.pe == to {
            script.steps.push(Step::Receive { queue, bytes, hold });
        }
    }
}
