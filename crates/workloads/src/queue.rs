//! `queue`: slot after slot from SIP 0 to SIP 1 through a bounded queue with credits.

use super::capacity::{self, PlannedTensor};
use super::check::{Check, numbers};
use super::parameters::{Default, Parameter, ParameterKind, SEED, Settings};
use super::{Outcome, Setup, Workload, WorkloadError};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{KernelError, Tl, View};
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{Time, units};
use phalanx_torch::limits::{MOST_MESSAGE, ParameterError};
use std::cell::RefCell;
use std::rc::Rc;

pub(super) const WORKLOAD: Workload = Workload {
    name: "queue",
    summary: "slot after slot from sip0 to sip1 through a bounded queue with credits",
    parameters: &[
        Parameter {
            name: "chunks",
            help: "how many slots are sent",
            kind: ParameterKind::Count { least: 1, most: 100_000_000 },
            default: Default::Text("64"),
        },
        SLOT_SIZE,
        N_SLOTS,
        Parameter {
            name: "consume",
            help: "how long the receiver works on each",
            kind: ParameterKind::Time,
            default: Default::Text("0 ns"),
        },
        SEED,
    ],
    knobs: &["n_slots"],
    one_sip: false,
    run,
};

/// The size of a slot.
pub(super) const SLOT_SIZE: Parameter = Parameter {
    name: "slot_size",
    help: "the size of a slot",
    kind: ParameterKind::Bytes { least: 4, most: MOST_MESSAGE, multiple: 4 },
    default: Default::Text("16 KiB"),
};

/// The number of slots.
pub(super) const N_SLOTS: Parameter = Parameter {
    name: "n_slots",
    help: "how many slots the receiver has",
    kind: ParameterKind::Count { least: 1, most: 1 << 20 },
    default: Default::Text("4"),
};

/// The edge that `slot_size` and `n_slots` describe.
pub(super) fn edge(settings: &Settings) -> EdgeSpec {
    let n_slots = u32::try_from(settings.count("n_slots")).expect("within the parameter's range");
    EdgeSpec { n_slots, slot_size: settings.count("slot_size"), ..EdgeSpec::default() }
}

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let Setup { machine: spec, options, .. } = setup;
    if spec.devices() < 2 {
        let message = format!("`queue` needs two SIPs, `{}` has one", spec.name);
        return Err(ParameterError::new(
            message,
            "use a machine with more SIPs, or `--set system.sips.count=2`",
        )
        .into());
    }
    let elements = settings.size("slot_size") / 4;
    let stream = Stream { edge: edge(settings), chunks: settings.size("chunks"), elements };
    let consume = settings.time("consume");
    check_time(settings)?;
    let data = options.data;
    let mut machine = Machine::new(spec, options);
    let len = elements + WINDOW;
    let window = PlannedTensor { sip: 0, cube: 0, dtype: DType::F32, elements: len };
    // As made, as sent, as compared.
    capacity::check(&machine, [window], data.then(|| capacity::bytes(len, 3 * 4)))?;
    let seed = settings.count("seed");
    let payload = if data { numbers(seed, 0, 0, len, 1000) } else { Vec::new() };
    let value =
        if data { Value::from_vec_f32(payload.clone()) } else { Value::zeros(DType::F32, len) };
    let source = machine.resident(0, 0, value)?;
    let (from, to) = (PeId::first(0), PeId::first(1));
    machine.launch(0, "queue", &[from], move |tl| send(tl, to, stream, source));
    let got: Got = Rc::default();
    let sink = got.clone();
    machine.launch(1, "queue", &[to], move |tl| receive(tl, from, stream, consume, sink.clone()));
    let report = machine.run()?;
    Ok(Outcome::new(report, data.then(|| compare(&got, &payload))))
}

/// Refuses times that overflow: the time of all chunks, and the time in use of all slots, added up.
fn check_time(settings: &Settings) -> Result<(), ParameterError> {
    let (chunks, n_slots) = (settings.count("chunks"), settings.count("n_slots"));
    let (consume, most) =
        (settings.time("consume"), LONGEST.as_ps() / (chunks * n_slots.min(chunks)));
    if consume.as_ps() <= most {
        return Ok(());
    }
    let consume = units::show_time(consume);
    let message = format!("parameter `consume`: {chunks} chunks take too long at {consume} each");
    let help = format!("allowed: at most {}", units::show_time(Time::ps(most)));
    Err(ParameterError::new(message, help))
}

/// More than half of all simulated time.
const LONGEST: Time = Time::us(10_000_000_000_000);

/// Chunk `j` is `slot_size` bytes of the source from element `j % WINDOW` on: neighbours differ, so that the order in
/// which they arrive is checked too.
const WINDOW: usize = 64;
/// Most chunks that are compared.
const COMPARED: usize = 256;

type Got = Rc<RefCell<Vec<Value>>>;

/// The queue and the chunks that cross it.
#[derive(Clone, Copy)]
struct Stream {
    edge: EdgeSpec,
    chunks: usize,
    /// Elements of a chunk.
    elements: usize,
}

async fn send(tl: Tl, to: PeId, stream: Stream, source: Region) -> Result<(), KernelError> {
    let sender = tl.sender(to, stream.edge)?;
    for chunk in 0..stream.chunks {
        let tile = tl.load(&View::dense(&source, chunk % WINDOW, stream.elements)).await?;
        tl.send(&sender, &tile).await;
    }
    Ok(())
}

async fn receive(
    tl: Tl,
    from: PeId,
    stream: Stream,
    consume: Time,
    got: Got,
) -> Result<(), KernelError> {
    let receiver = tl.receiver(from, stream.edge)?;
    for chunk in 0..stream.chunks {
        let tile = tl.recv(&receiver, DType::F32, stream.elements).await?;
        tl.compute(consume).await;
        if chunk < COMPARED {
            got.borrow_mut().extend(tile.value());
        }
    }
    Ok(())
}

fn compare(got: &Got, payload: &[f32]) -> Check {
    let mut check = Check::EMPTY;
    for (chunk, value) in got.borrow().iter().enumerate() {
        check = check.and(&value.to_f32(), payload[chunk % WINDOW..].iter().copied());
    }
    check
}
