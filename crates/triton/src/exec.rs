//! The executor: one `async` kernel that runs any program on the operations of [`Tl`].
//!
//! Numbers, addresses and masks that are known ([`Index`](crate::index::Index)) are computed at once and take no time. Tiles are operations of the PE: a
//! load or a computation is issued where it stands and awaited where its tile is first used. An operation whose tiles are there is issued
//! without a future of its own (`exec/ready.rs`), and what is the same in all programs of a launch is computed by the first.
//!
//! - **TEX-1 (as written).** A kernel computes what its operations say, element by element.
//! - **TEX-2 (place).** An error names the line of the kernel's source and the program.
//! - **TEX-3 (bounded).** A program that passes its limit of rounds of loops fails.
//! - **TEX-4 (ahead).** Loads of a loop that writes nothing are issued up to `num_stages` rounds ahead.
//! - **TEX-5 (interruptible).** An interrupt of the run ends a program in a loop that takes no simulated time.

mod access;
mod native;
mod places;
mod product;
mod ready;
mod shapes;
mod tiles;
mod values;

pub(crate) use access::Space;
pub(crate) use values::{Descriptor, Val};

use crate::program::{Instruction, NONE, Op, Program, Reg, RegType};
use phalanx_sim::kernel::{KernelError, Lines, Tl};
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::rc::Rc;
use values::{Data, Slot};

/// The state that all programs of a launch share.
pub(crate) struct Call {
    pub(crate) program: Rc<Program>,
    /// The arguments, as their registers begin.
    pub(crate) arguments: Vec<Val>,
    pub(crate) space: Space,
    pub(crate) num_stages: usize,
    /// The source lines, if the report tells of them.
    pub(crate) lines: Option<Rc<Lines>>,
    /// The most rounds of loops of one program.
    pub(crate) limit: u64,
    /// The registers after the instructions that give the same in all programs, from the first program on.
    pub(crate) shared: OnceCell<Vec<Val>>,
}

impl Call {
    /// Returns the registers at the beginning of a program, and the instruction to begin with.
    fn begin(&self) -> (Vec<Val>, usize) {
        if let Some(registers) = self.shared.get() {
            return (registers.clone(), self.program.shared);
        }
        let mut registers = vec![Val::None; self.program.types.len()];
        for (parameter, value) in self.program.parameters.iter().zip(&self.arguments) {
            registers[parameter.reg as usize] = value.clone();
        }
        (registers, 0)
    }
}

/// One running program.
struct Run {
    call: Rc<Call>,
    tl: Tl,
    registers: Vec<Val>,
    queues: Vec<VecDeque<Data>>,
    rounds: u64,
}

/// The place where a program goes on.
enum Next {
    /// At the next instruction.
    Follows,
    /// At this instruction.
    At(usize),
    /// The operation needs tiles.
    Tiles,
    /// The operation needs this tile first, and is then tried again.
    Waits(Rc<Slot>),
    End,
}

/// Rounds of loops between two looks for an interrupt.
const ROUNDS: u64 = 1024;

/// Runs one program.
pub(crate) async fn run(call: Rc<Call>, tl: Tl) -> Result<(), KernelError> {
    let program = call.program.clone();
    let (registers, mut at) = call.begin();
    let queues = (0..program.queues).map(|_| VecDeque::new()).collect();
    if let Some(lines) = &call.lines {
        tl.follow(lines);
    }
    let mut run = Run { call, tl, registers, queues, rounds: 0 };
    if at == 0 {
        at = run.begin();
    }
    while let Some(instruction) = program.code.get(at) {
        at += 1;
        run.tl.at_line(instruction.line);
        let next = match run.native(instruction) {
            Ok(Next::Tiles) => run.at_once(instruction),
            other => other,
        };
        match next {
            Ok(Next::Follows) => {}
            Ok(Next::At(place)) => at = place,
            Ok(Next::End) => break,
            Ok(waits) => match run.later(instruction, waits).await {
                Ok(None) => {}
                Ok(Some(place)) => at = place,
                Err(error) => return Err(run.located(&error, instruction)),
            },
            Err(error) => return Err(run.located(&error, instruction)),
        }
    }
    Ok(())
}

impl Run {
    fn kind(&self, reg: Reg) -> &RegType {
        &self.call.program.types[reg as usize]
    }

    /// Performs what gives the same in all programs, and keeps the registers for the others; returns the instruction to go on with.
    fn begin(&mut self) -> usize {
        let program = self.call.program.clone();
        for (at, instruction) in program.code.iter().enumerate().take(program.shared) {
            if !matches!(self.native(instruction), Ok(Next::Follows)) {
                return at;
            }
        }
        // The first program alone begins at the beginning.
        self.call.shared.get_or_init(|| self.registers.clone());
        program.shared
    }

    /// Takes operand `number`; its register is empty afterwards if this is its last use (LOW-2).
    fn operand(&mut self, instruction: &Instruction, number: usize) -> Val {
        let register = &mut self.registers[instruction.args[number] as usize];
        if instruction.dies >> number & 1 == 1 {
            return std::mem::take(register);
        }
        register.clone()
    }

    /// Reads operand `number` and leaves it in place.
    fn look(&self, instruction: &Instruction, number: usize) -> &Val {
        &self.registers[instruction.args[number] as usize]
    }

    /// Empties the registers of operands that are not used afterwards.
    fn release(&mut self, instruction: &Instruction) {
        for (number, reg) in instruction.args.iter().enumerate() {
            if instruction.dies >> number & 1 == 1 {
                self.registers[*reg as usize] = Val::None;
            }
        }
    }

    /// Performs an instruction that could not be issued at once; returns where the program goes on if that is not the next instruction.
    async fn later(
        &mut self,
        instruction: &Instruction,
        mut tried: Next,
    ) -> Result<Option<usize>, KernelError> {
        while let Next::Waits(slot) = tried {
            slot.wait().await?;
            tried = self.at_once(instruction)?;
        }
        match tried {
            Next::Tiles => self.on_tiles(instruction).await,
            _ => Ok(None),
        }
    }

    fn set(&mut self, reg: Reg, value: Val) {
        if reg != NONE {
            self.registers[reg as usize] = value;
        }
    }

    /// Adds source line and program to an error (TEX-2).
    #[cold]
    fn located(&self, error: &KernelError, instruction: &Instruction) -> KernelError {
        let ids = [0, 1, 2].map(|axis| self.tl.program_id_along(axis).to_string());
        let line = self.call.program.lines[instruction.line as usize].as_ref();
        let line = line.map_or_else(String::new, |line| format!("{line}: "));
        let what = match &instruction.op {
            Op::Load { .. } | Op::Ahead { .. } => "load: ",
            Op::Store { .. } => "store: ",
            _ => "",
        };
        KernelError::Other(format!("{line}program ({}): {what}{error}", ids.join(", ")))
    }

    /// Counts a round of a loop (TEX-3), and looks for an interrupt (TEX-5).
    fn count_round(&mut self) -> Result<(), Box<KernelError>> {
        self.rounds += 1;
        if self.rounds > self.call.limit {
            return Err(Box::new(KernelError::Other(format!(
                "more than {} rounds of loops: the limit (`step_limit`) of one program",
                self.call.limit
            ))));
        }
        if self.rounds.is_multiple_of(ROUNDS) {
            self.tl.check_interrupt().map_err(Box::new)?;
        }
        Ok(())
    }
}
