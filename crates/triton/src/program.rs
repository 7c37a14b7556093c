//! The compact form of a kernel, which the executor runs: instructions over registers, without names.

use crate::combine::Combine;
use crate::error::SourceLine;
use crate::number::{Arith, Comparison};
use crate::types::{Element, Extent, Scalar, Type};
use std::rc::Rc;

/// The number of a register.
pub(crate) type Reg = u32;

/// No register.
pub(crate) const NONE: Reg = u32::MAX;

/// The kind of a register's value.
#[derive(Clone, Debug)]
pub(crate) struct RegType {
    pub(crate) extent: Extent,
    /// The extent of one element that stands for all.
    pub(crate) ones: Extent,
    pub(crate) element: Element,
    /// True for one number, false for a tensor.
    pub(crate) is_one: bool,
}

impl RegType {
    pub(crate) fn of(kind: &Type) -> Self {
        let is_one = matches!(kind, Type::One(_));
        let (extent, ones) = (kind.extent().into(), vec![1; kind.extent().len()].into());
        Self { extent, ones, element: kind.element(), is_one }
    }

    /// Returns the type of the numbers; of addresses that of an integer of 64 bits.
    pub(crate) fn scalar(&self) -> Scalar {
        match self.element {
            Element::Number(scalar) => scalar,
            Element::Pointer(_) => Scalar::Int(64),
        }
    }

    /// Returns the bits of its integers.
    pub(crate) fn bits(&self) -> u8 {
        match self.scalar() {
            Scalar::Int(bits) => bits,
            _ => 64,
        }
    }

    /// Returns the type that a pointer points to.
    pub(crate) fn pointee(&self) -> Scalar {
        match self.element {
            Element::Number(scalar) | Element::Pointer(scalar) => scalar,
        }
    }
}

/// A constant.
#[derive(Clone, Debug)]
pub(crate) enum Constant {
    Whole(i64),
    Float(f64),
    /// The elements of a tensor of different integers.
    List(Rc<[i64]>),
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Exp,
    Exp2,
    Log,
    Log2,
    Sqrt,
    Rsqrt,
    Erf,
    Sin,
    Cos,
    Tanh,
    Floor,
    Ceil,
    Abs,
    Neg,
}

/// A conversion of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Between integers, with sign or without.
    Whole { is_unsigned: bool },
    /// Integer to float.
    FromWhole { is_unsigned: bool },
    /// Float to integer.
    ToWhole { is_unsigned: bool },
    /// Between floats.
    Float,
}

/// An atomic change of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Max,
    Min,
    MaxUnsigned,
    MinUnsigned,
    And,
    Or,
    Xor,
    Exchange,
}

/// The effect of an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Constant(Constant),
    ProgramId(u8),
    Programs(u8),
    Range(i64),
    Arith(Arith),
    Compare(Comparison),
    Function(Function),
    Convert(Conversion),
    Select,
    Fma,
    Splat,
    Broadcast,
    Expand(usize),
    Reshape,
    Transpose(Rc<[usize]>),
    AddPointer,
    /// The same bits as another type.
    Bitcast,
    /// Address, then mask, then what masked elements read as.
    Load {
        has_mask: bool,
        has_other: bool,
    },
    /// As a load, ahead of its use; the tile goes to this queue.
    Ahead {
        queue: usize,
        has_mask: bool,
        has_other: bool,
    },
    /// As `Ahead` for a block of a descriptor.
    DescriptorAhead {
        queue: usize,
        order: Option<Rc<[usize]>>,
    },
    /// Takes the first tile of a queue.
    Pop(usize),
    /// 1 if fewer loads than allowed are ahead in this queue.
    HasRoom {
        queue: usize,
        stages: Option<usize>,
    },
    /// Address, tile, then mask.
    Store {
        has_mask: bool,
    },
    Dot,
    Reduce {
        axis: usize,
        combine: Rc<Combine>,
    },
    Scan {
        axis: usize,
        is_reverse: bool,
        combine: Rc<Combine>,
    },
    Change {
        change: Change,
        has_mask: bool,
    },
    CompareExchange,
    /// Base, `rank` lengths, `rank` strides.
    Descriptor {
        rank: usize,
    },
    DescriptorLoad {
        order: Option<Rc<[usize]>>,
    },
    DescriptorStore,
    DescriptorChange(Change),
    Join,
    Split,
    Cat,
    Gather {
        axis: usize,
    },
    Histogram,
    Print {
        text: Rc<str>,
    },
    Assert {
        text: Rc<str>,
    },
    Move,
    Jump(usize),
    /// Goes to the first place if the condition is not 0, else to the second.
    Branch(usize, usize),
    /// The end of a round of a loop: counts against the limit.
    Round,
    Drop,
    Return,
}

impl Op {
    /// True if each element of the result comes from the same element of every operand.
    pub(crate) fn is_element_wise(&self) -> bool {
        matches!(
            self,
            Self::Arith(_)
                | Self::Compare(_)
                | Self::Function(_)
                | Self::Convert(_)
                | Self::Select
                | Self::Fma
                | Self::Bitcast
        )
    }

    /// True if it must be performed even if nobody uses its results.
    pub(crate) fn has_effect(&self) -> bool {
        matches!(
            self,
            Self::Store { .. }
                | Self::Change { .. }
                | Self::CompareExchange
                | Self::DescriptorStore
                | Self::DescriptorChange(_)
                | Self::Ahead { .. }
                | Self::DescriptorAhead { .. }
                | Self::Pop(_)
                | Self::Print { .. }
                | Self::Assert { .. }
                | Self::Jump(_)
                | Self::Branch(..)
                | Self::Round
                | Self::Return
        )
    }

    /// True if it writes memory through its first operand.
    pub(crate) fn writes(&self) -> bool {
        matches!(
            self,
            Self::Store { .. }
                | Self::Change { .. }
                | Self::CompareExchange
                | Self::DescriptorStore
                | Self::DescriptorChange(_)
        )
    }
}

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) op: Op,
    /// The register of the result, or `NONE`.
    pub(crate) to: Reg,
    /// The registers of further results, or `NONE`.
    pub(crate) also: Box<[Reg]>,
    pub(crate) args: Box<[Reg]>,
    /// Bit `i`: operand `i` is not used afterwards.
    pub(crate) dies: u32,
    /// Index of its source line.
    pub(crate) line: u32,
}

impl Instruction {
    /// Returns the registers of all results; some may be `NONE`.
    pub(crate) fn results(&self) -> impl Iterator<Item = Reg> {
        std::iter::once(self.to).chain(self.also.iter().copied())
    }
}

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) reg: Reg,
    pub(crate) is_written: bool,
}

/// A kernel, ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) code: Vec<Instruction>,
    /// The number of instructions at the beginning whose results are the same in all programs of a launch.
    pub(crate) shared: usize,
    pub(crate) types: Vec<RegType>,
    /// The source lines of instructions; the first is that of the kernel itself.
    pub(crate) lines: Vec<Option<SourceLine>>,
    /// The number of queues of loads ahead.
    pub(crate) queues: usize,
    pub(crate) uses_pointers_from_memory: bool,
}
