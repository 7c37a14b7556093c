//! `ping`: messages from one SIP to another, back to back, with slots enough that credits never matter.

use super::capacity::{self, PlannedTensor};
use super::check::{Check, numbers};
use super::parameters::{Default, Parameter, ParameterKind, Settings};
use super::{Outcome, Setup, Workload, WorkloadError};
use phalanx_sim::ipcq::{BufferKind, EdgeSpec};
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{Bytes, Capacity, MachineSpec};
use phalanx_torch::limits::{MOST_CHUNKS, MOST_MESSAGE, ParameterError};
use std::cell::RefCell;
use std::rc::Rc;

pub(super) const WORKLOAD: Workload = Workload {
    name: "ping",
    summary: "messages from one SIP to another, back to back",
    parameters: &[
        Parameter {
            name: "from",
            help: "the sending SIP",
            kind: ParameterKind::Sip,
            default: Default::Text("0"),
        },
        Parameter {
            name: "to",
            help: "the receiving SIP",
            kind: ParameterKind::Sip,
            default: Default::Text("1"),
        },
        Parameter {
            name: "bytes",
            help: "the size of a message",
            kind: ParameterKind::Bytes { least: 0, most: MOST_MESSAGE, multiple: 2 },
            default: Default::Text("64 KiB"),
        },
        Parameter {
            name: "messages",
            help: "how many",
            kind: ParameterKind::Count { least: 1, most: 1_000_000 },
            default: Default::Text("1"),
        },
        Parameter {
            name: "chunk",
            help: "the unit in which a message moves from hop to hop (0: whole)",
            kind: ParameterKind::Bytes { least: 0, most: MOST_MESSAGE, multiple: 1 },
            default: Default::Text("0"),
        },
        super::parameters::SEED,
    ],
    knobs: &["chunk"],
    one_sip: false,
    run,
};

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let Setup { machine: spec, options, .. } = setup;
    let (from, to) = ends(&spec, settings)?;
    check_chunks(settings)?;
    let elements = settings.size("bytes") / 2;
    let edge = edge(&spec, settings);
    let (messages, seed) = (settings.size("messages"), settings.count("seed"));
    let data = options.data;
    let mut machine = Machine::new(spec, options);
    let message = PlannedTensor { sip: from.sip, cube: 0, dtype: DType::F16, elements };
    // In f32 as made, in f16 as sent, in f32 as compared.
    capacity::check(&machine, [message], data.then(|| capacity::bytes(elements, 4 + 2 + 4)))?;
    let payload = if data { numbers(seed, 0, 0, elements, 8) } else { Vec::new() };
    let value = if data {
        Value::from_f32(DType::F16, &payload)
    } else {
        Value::zeros(DType::F16, elements)
    };
    let source = machine.resident(from.sip, 0, value)?;
    machine.launch(from.sip, "ping", &[from], move |tl| send(tl, to, edge, source, messages));
    let got: Got = Rc::default();
    let sink = got.clone();
    machine.launch(to.sip, "ping", &[to], move |tl| {
        receive(tl, from, edge, elements, messages, sink.clone())
    });
    let report = machine.run()?;
    Ok(Outcome::new(report, data.then(|| compare(&got, &payload))))
}

type Got = Rc<RefCell<Vec<Value>>>;

/// Compares the received messages with the sent one.
fn compare(got: &Got, payload: &[f32]) -> Check {
    let mut check = Check::EMPTY;
    for value in &*got.borrow() {
        check = check.and(&value.to_f32(), payload.iter().copied());
    }
    check
}

async fn send(
    tl: Tl,
    to: PeId,
    edge: EdgeSpec,
    source: Region,
    messages: usize,
) -> Result<(), KernelError> {
    let sender = tl.sender(to, edge)?;
    let tile = tl.load(&phalanx_sim::kernel::View::of(&source)).await?;
    let mut last = None;
    for _ in 0..messages {
        last = Some(tl.send(&sender, &tile));
    }
    if let Some(sending) = last {
        sending.await;
    }
    Ok(())
}

async fn receive(
    tl: Tl,
    from: PeId,
    edge: EdgeSpec,
    elements: usize,
    messages: usize,
    got: Got,
) -> Result<(), KernelError> {
    let receiver = tl.receiver(from, edge)?;
    for message in 0..messages {
        let tile = tl.recv(&receiver, DType::F16, elements).await?;
        if message < COMPARED {
            got.borrow_mut().extend(tile.value());
        }
    }
    Ok(())
}

/// Most messages that are compared.
const COMPARED: usize = 64;

fn ends(spec: &MachineSpec, settings: &Settings) -> Result<(PeId, PeId), ParameterError> {
    let end = |name: &str| settings.sip(name, spec).map(PeId::first);
    let (from, to) = (end("from")?, end("to")?);
    if from == to {
        let message = format!("parameter `to`: sip{} cannot send to itself", to.sip);
        return Err(ParameterError::new(message, "`from` and `to` must differ"));
    }
    Ok((from, to))
}

/// Refuses chunks so small that messages have too many of them.
fn check_chunks(settings: &Settings) -> Result<(), ParameterError> {
    let (bytes, chunk) = (settings.count("bytes"), settings.count("chunk"));
    let chunks = bytes.checked_div(chunk).unwrap_or(1).saturating_mul(settings.count("messages"));
    if chunks <= MOST_CHUNKS {
        return Ok(());
    }
    let message = format!("parameter `chunk`: {chunks} chunks are too many");
    Err(ParameterError::new(
        message,
        format!("allowed: at most {MOST_CHUNKS} chunks in all, or 0 for whole messages"),
    ))
}

/// A queue with one slot for each message; in scratch memory if the slots fit there, in HBM otherwise.
fn edge(spec: &MachineSpec, settings: &Settings) -> EdgeSpec {
    let (bytes, messages) = (settings.count("bytes"), settings.count("messages"));
    let n_slots = u32::try_from(messages).unwrap_or(u32::MAX);
    let fits = match spec.tcm {
        Capacity::Unlimited => true,
        Capacity::Limited(Bytes(capacity)) => bytes.saturating_mul(messages) <= capacity / 2,
    };
    EdgeSpec {
        n_slots,
        slot_size: bytes.max(2),
        buffer_kind: if fits { BufferKind::Tcm } else { BufferKind::Hbm },
        vc_chunk_size: settings.count("chunk"),
        ..EdgeSpec::default()
    }
}
