//! A simulated chip of a node, hosted by a chip process.
//!
//! ```text
//!   parent                            process of chip 2
//!   graph ── task, tensors ─────────► callable(task)
//!                                        │ SimChip::launch: copies the arguments in
//!                                        ▼
//!                                     SIP 2 of the machine, on a thread of its own
//!                                        │ copies the declared outputs back
//!   Finished::simulated ◄── ending ──────┘ and adds the time that passed on the chip's clock
//! ```
//!
//! A program names [`SimChip::bootstrap`] as the bootstrap of its chips; [`SimChip::setting`] tells the worker the machine.
//! Each chip process then simulates one SIP of that machine, from the start of the process to its end. The number of the SIP
//! is the number of the device. Memory that a task has [kept](Board::keep) stays for later tasks, and the chip's clock goes
//! on. Callables run programs on the chip:
//!
//! ```
//! use phalanx_runtime::{Call, Callable, DType, Failure, Program, Target, Task, Worker, register};
//! use phalanx_device::SimChip;
//! use phalanx_torch::Grid;
//! use phalanx_sim::MachineSpec;
//!
//! /// `c = a + b`: inputs are copied in, outputs are copied back.
//! fn add(task: &mut Task<'_>) -> Result<(), Failure> {
//!     SimChip::launch(task, "add", Grid::Pes(1), |tl, args| async move {
//!         let (a, b) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
//!         let sum = tl.add(&a, &b).await?;
//!         tl.store(&args.view(2)?, &sum).await
//!     })
//! }
//!
//! const ADD: Callable = register!(add);
//! static PROGRAM: Program = Program::new(&[ADD]).chip(SimChip::bootstrap);
//!
//! let machine = MachineSpec::preset("pair").unwrap();
//! // Without `threads`, each chip is a process: then `main` begins with `PROGRAM.serve_if_child()`.
//! let worker = Worker::builder(&PROGRAM).threads().chips(2).setting(SimChip::setting(&machine)).init()?;
//! let tensor = || worker.tensor(DType::F32, &[256]);
//! let (a, b, c) = (tensor()?, tensor()?, tensor()?);
//! worker.write(&a, &[1.0f32; 256])?;
//! worker.write(&b, &[2.0f32; 256])?;
//! let finished = worker.run("sum", |graph| {
//!     let call = Call::new(&ADD).args([a.input(), b.input(), c.output()]);
//!     graph.submit_next_level(Target::Chip(1), &call)?;
//!     Ok(())
//! })?;
//! assert_eq!(worker.read::<f32>(&c)?, [3.0; 256]);
//! // Picoseconds: the arguments cross the host link, the kernel loads, adds and stores, the sum comes back.
//! assert_eq!(finished.simulated, 4_564_000);
//! # Ok::<(), phalanx_runtime::Error>(())
//! ```
//!
//! - **CHP-1 (right).** The arguments of a finished task hold the numbers of the kernel, bit for bit, for every type that a
//!   chip has, in threads and in processes alike.
//! - **CHP-2 (as declared).** An input is copied in and never back; an output is copied back and never in; an argument that
//!   is both is copied both ways. An output that the program did not write fails the task.
//! - **CHP-3 (time).** The simulated time of a task is the time that passed on its chip's clock, from the first argument that
//!   crosses the host link to the last that has come back. The load of the host does not change it.
//! - **CHP-4 (lives on).** A chip outlives its tasks: a later task finds the tensors that an earlier one kept. A task that
//!   fails, panics or deadlocks harms no other task.
//! - **CHP-5 (moves).** A task reports progress while its chip computes numbers: the watchdog does not take it for stuck.

mod board;
mod thread;
mod transfer;

pub use board::Board;
pub use transfer::Operand;

use crate::graph::{GraphOptions, OpenGraph, Outcome, TaskGraph};
use phalanx_runtime::{Access, Bootstrap, Data, Failure, Task};
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::{MachineSpec, config};
use phalanx_torch::Error;
use phalanx_torch::{Arg, Args, Grid};
use std::any::Any;
use thread::{ChipThread, Completed};

/// A simulated chip; see the [module](self).
pub struct SimChip {
    device_id: u32,
    thread: ChipThread,
}

impl SimChip {
    /// SIP `device_id` of a machine.
    pub(crate) fn new(machine: &MachineSpec, device_id: u32) -> Result<Self, Failure> {
        let count = machine.devices();
        if device_id >= count {
            return Err(Failure::new(format!(
                "there is no device {device_id}: `{}` has {count} SIPs, counted from 0; set system.sips.count",
                machine.name
            )));
        }
        let thread = ChipThread::start(machine.clone(), device_id)?;
        Ok(Self { device_id, thread })
    }

    /// Sets a chip up, for [`Program::chip`](phalanx_runtime::Program::chip). The machine comes from the worker's setting; an
    /// empty setting means the default preset.
    pub fn bootstrap(chip: &mut Bootstrap<'_>) -> Result<Box<dyn Any + Send>, Failure> {
        let machine = machine_of(chip.setting())?;
        let device = Self::new(&machine, chip.device_id())?;
        chip.device_ctx(u64::from(device.device_id));
        Ok(Box::new(device))
    }

    /// Returns the setting of a worker whose chips are those of `machine`, for
    /// [`Builder::setting`](phalanx_runtime::Builder::setting).
    pub fn setting(machine: &MachineSpec) -> Vec<u8> {
        config::to_yaml(machine).into_bytes()
    }

    /// Runs `kernel` once on each PE of `grid`, with the arguments of the task.
    pub fn launch<K, F>(
        task: &mut Task<'_>,
        name: &'static str,
        grid: Grid,
        kernel: K,
    ) -> Result<(), Failure>
    where
        K: Fn(Tl, Args) -> F + Send + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        Self::run(task, async move |board| board.launch(name, grid, kernel)?.wait().await)
    }

    /// Runs a task graph on the chip and returns its outcome; `build` submits tasks over the tensors of the board.
    pub fn graph<P>(
        task: &mut Task<'_>,
        name: &'static str,
        options: GraphOptions,
        build: P,
    ) -> Result<Outcome, Failure>
    where
        P: AsyncFnOnce(&TaskGraph, &Board) -> Result<(), Error> + Send + 'static,
    {
        Self::run(task, async move |board| {
            let graph = board.rank().graph(name, options)?;
            build(&graph, board).await?;
            graph.finish().await
        })
    }

    /// Runs a program on the chip, with all arguments of the task on its board.
    pub fn run<T, P>(task: &mut Task<'_>, program: P) -> Result<T, Failure>
    where
        T: Send + 'static,
        P: AsyncFnOnce(&Board) -> Result<T, Error> + Send + 'static,
    {
        let arguments = (0..task.argument_count()).map(|index| task.argument(index));
        let mut data = arguments.collect::<Result<Vec<Data<'_>>, Failure>>()?;
        let operands =
            data.iter_mut().enumerate().map(|(index, data)| Operand::argument(index, data));
        let operands = operands.collect::<Result<Vec<Operand<'_>>, Failure>>()?;
        Self::run_on(task, operands, program)
    }

    /// Runs a program on the chip with these operands instead of the task's arguments.
    pub fn run_on<T, P>(
        task: &mut Task<'_>,
        operands: Vec<Operand<'_>>,
        program: P,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        P: AsyncFnOnce(&Board) -> Result<T, Error> + Send + 'static,
    {
        let (staged, mut back): (Vec<_>, Vec<_>) = operands.into_iter().map(Operand::split).unzip();
        let pending = task.device::<Self>()?.thread.start_program(staged, program);
        let Completed { value, written, took } = pending.wait(|| task.progress())?;
        for (index, elements) in written {
            if let Some(back) = back[index].take() {
                back(&elements)?;
            }
        }
        task.simulated(took.as_ps());
        Ok(value)
    }

    /// Runs `kernel` once on each PE of `grid`, with these operands as arguments.
    pub fn launch_on<K, F>(
        task: &mut Task<'_>,
        operands: Vec<Operand<'_>>,
        name: &'static str,
        grid: Grid,
        kernel: K,
    ) -> Result<(), Failure>
    where
        K: Fn(Tl, Args) -> F + Send + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        let program = async move |board: &Board| board.launch(name, grid, kernel)?.wait().await;
        Self::run_on(task, operands, program)
    }
}

impl Board {
    /// Runs `kernel` once on each PE of `grid`, with the board's tensors as arguments.
    pub fn launch<K, F>(
        &self,
        name: &str,
        grid: Grid,
        kernel: K,
    ) -> Result<phalanx_torch::Handle, Error>
    where
        K: Fn(Tl, Args) -> F + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        let arg = |(tensor, access): (_, Access)| match access {
            Access::Read => Arg::read(tensor),
            Access::Write | Access::ReadWrite | Access::Unordered => Arg::write(tensor),
        };
        let args: Vec<Arg> = self.arguments().map(arg).collect();
        self.rank().launch(name, grid, &args, kernel)
    }
}

/// The machine in a worker's setting.
fn machine_of(setting: &[u8]) -> Result<MachineSpec, Failure> {
    let default = || config::preset(config::DEFAULT_PRESET).map_or("", |preset| preset.text);
    let text = std::str::from_utf8(setting)?;
    let text = if text.is_empty() { default() } else { text };
    config::parse_machine("the worker's setting", text).map_err(|errors| {
        let lines = errors.errors().iter().map(|error| {
            format!("{}:{}:{}: {}", error.file(), error.line(), error.column(), error.message())
        });
        Failure::new(lines.collect::<Vec<_>>().join("\n"))
    })
}
