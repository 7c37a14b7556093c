//! Machines and runs that tests share.

use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::memory::Region;
use phalanx_sim::report::Report;
use phalanx_sim::spec::WireSpec;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::reference::Array;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{Bandwidth, Bytes, Capacity, MachineSpec, Time};
use std::rc::Rc;

pub(crate) type Outcome = Result<(), KernelError>;

/// Returns eight SIPs on a ring, in which only links (128 GB/s, 500 ns) and engines take time.
pub(crate) fn bare() -> MachineSpec {
    MachineSpec::preset("bare").unwrap()
}

/// Returns four SIPs of four cubes of eight PEs, in which every part takes time.
pub(crate) fn quad() -> MachineSpec {
    MachineSpec::preset("quad-sip").unwrap()
}

/// Returns a wire with a bandwidth in bytes per nanosecond and a latency in nanoseconds.
pub(crate) fn wire(bytes_per_ns: u64, latency: u64) -> WireSpec {
    WireSpec { bandwidth: rate(bytes_per_ns), latency: Time::ns(latency) }
}

pub(crate) fn rate(bytes_per_ns: u64) -> Bandwidth {
    Bandwidth::per_second(bytes_per_ns * 1_000_000_000).unwrap()
}

pub(crate) fn limited(bytes: u64) -> Capacity {
    Capacity::Limited(Bytes(bytes))
}

pub(crate) fn without_data() -> Options {
    Options { data: false, critical_path: true, ..Options::default() }
}

/// Data, and the critical path.
pub(crate) fn with_path() -> Options {
    Options { critical_path: true, ..Options::default() }
}

pub(crate) fn recorded() -> Options {
    Options { record: true, ..Options::default() }
}

/// Runs one kernel on the first PE of the first SIP.
pub(crate) fn solo<F, K>(spec: MachineSpec, options: Options, kernel: K) -> Result<Report, RunError>
where
    K: Fn(Tl) -> F + 'static,
    F: Future<Output = Outcome> + 'static,
{
    let mut machine = Machine::new(spec, options);
    machine.launch(0, "solo", &[PeId::first(0)], kernel);
    machine.run()
}

/// Runs one kernel on one PE over `inputs` and a region filled with `before`; returns the new content of the region.
pub(crate) fn computed<F, K>(inputs: &[Value], before: &Value, kernel: K) -> Array
where
    K: Fn(Tl, Rc<[Region]>, Region) -> F + 'static,
    F: Future<Output = Outcome> + 'static,
{
    let mut machine = Machine::new(bare(), Options::default());
    let region = |value: &Value| machine.resident(0, 0, value.clone()).unwrap();
    let (regions, out) = (inputs.iter().map(region).collect::<Rc<[_]>>(), region(before));
    machine.launch(0, "kernel", &[PeId::first(0)], move |tl| kernel(tl, regions.clone(), out));
    machine.run().unwrap_or_else(|error| panic!("{error}"));
    Array::of(&machine.read(&out).unwrap().unwrap())
}

/// Maps a region with the elements `0, 1, 2, ...`.
pub(crate) fn counting(machine: &Machine, sip: u32, cube: u16, len: u16) -> Region {
    let numbers: Vec<f32> = (0..len).map(f32::from).collect();
    machine.resident(sip, cube, Value::from_f32(DType::F32, &numbers)).unwrap()
}

pub(crate) const fn pe(sip: u32, cube: u16, pe: u16) -> PeId {
    PeId { sip, cube, pe }
}

/// Runs one kernel on each of two PEs.
pub(crate) fn pair<S, R, FS, FR>(
    spec: MachineSpec,
    options: Options,
    (from, to): (PeId, PeId),
    (sender, receiver): (S, R),
) -> Result<Report, RunError>
where
    S: Fn(Tl) -> FS + 'static,
    R: Fn(Tl) -> FR + 'static,
    FS: Future<Output = Outcome> + 'static,
    FR: Future<Output = Outcome> + 'static,
{
    let mut machine = Machine::new(spec, options);
    machine.launch(from.sip, "sender", &[from], sender);
    machine.launch(to.sip, "receiver", &[to], receiver);
    machine.run()
}

/// Sends zeros of `sizes` bytes, one after the other.
pub(crate) async fn send_sizes(tl: Tl, to: PeId, edge: EdgeSpec, sizes: Vec<usize>) -> Outcome {
    let sender = tl.sender(to, edge)?;
    for bytes in sizes {
        drop(tl.send(&sender, &tl.zeros(DType::F32, bytes / 4)?));
    }
    Ok(())
}

/// Receives messages of `sizes` bytes and works on each for `consume`.
pub(crate) async fn receive_sizes(
    tl: Tl,
    from: PeId,
    edge: EdgeSpec,
    sizes: Vec<usize>,
    consume: Time,
) -> Outcome {
    let receiver = tl.receiver(from, edge)?;
    for bytes in sizes {
        let _tile = tl.recv(&receiver, DType::F32, bytes / 4).await?;
        tl.compute(consume).await;
    }
    Ok(())
}

/// Runs flows of messages between PEs, each `(from, to, sizes)`, no two on one PE.
pub(crate) fn traffic(
    spec: &MachineSpec,
    edge: EdgeSpec,
    flows: &[(PeId, PeId, &[usize])],
) -> Report {
    traffic_with(with_path(), spec, edge, flows)
}

/// The same with other options.
pub(crate) fn traffic_with(
    options: Options,
    spec: &MachineSpec,
    edge: EdgeSpec,
    flows: &[(PeId, PeId, &[usize])],
) -> Report {
    let mut machine = Machine::new(spec.clone(), options);
    for &(from, to, sizes) in flows {
        let (out, into) = (sizes.to_vec(), sizes.to_vec());
        machine.launch(from.sip, "send", &[from], move |tl| send_sizes(tl, to, edge, out.clone()));
        machine.launch(to.sip, "receive", &[to], move |tl| {
            receive_sizes(tl, from, edge, into.clone(), Time::ZERO)
        });
    }
    machine.run().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns an edge with so many slots that no message waits for a credit.
pub(crate) fn roomy() -> EdgeSpec {
    EdgeSpec { n_slots: 64, slot_size: 1 << 20, ..EdgeSpec::default() }
}
