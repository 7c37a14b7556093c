//! Caches, DMA engines, and the rates and costs of a PE's engines.

use super::{Efficiency, WireSpec};
use crate::time::{Bandwidth, Capacity, Rate, Time};
use crate::value::DType;

/// The cache that all PEs of a SIP share: it keeps the blocks that were read or written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// Capacity.
    pub capacity: Capacity,
    /// Shared by all who use it.
    pub bandwidth: Bandwidth,
    /// Of one access.
    pub latency: Time,
}

impl CacheSpec {
    /// Returns the cache as a wire.
    pub const fn wire(&self) -> WireSpec {
        WireSpec { bandwidth: self.bandwidth, latency: self.latency }
    }
}

/// The DMA engine of a PE: one channel for loads, one for stores and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaSpec {
    /// Bytes a second of each channel.
    pub bandwidth: Bandwidth,
    /// From a request to its first byte.
    pub latency: Time,
    /// Requests of a channel that may be under way at once. With one, a request starts when the request before has ended;
    /// with more, a channel is busy for the bytes of a request alone.
    pub outstanding: u32,
    /// Bytes that memory moves at once: a run of adjacent elements takes whole bursts. Zero: a run takes its own bytes.
    pub burst: u64,
}

impl DmaSpec {
    /// A DMA engine that costs nothing.
    pub const FREE: Self = Self::new(WireSpec::FREE);

    /// Returns a DMA engine with one request at a time, and without bursts.
    pub const fn new(wire: WireSpec) -> Self {
        Self { bandwidth: wire.bandwidth, latency: wire.latency, outstanding: 1, burst: 0 }
    }

    /// Returns a channel as a wire.
    pub const fn wire(&self) -> WireSpec {
        WireSpec { bandwidth: self.bandwidth, latency: self.latency }
    }
}

impl From<WireSpec> for DmaSpec {
    fn from(wire: WireSpec) -> Self {
        Self::new(wire)
    }
}

/// One memory stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HbmSpec {
    /// Capacity.
    pub capacity: Capacity,
    /// Shared by all who use it.
    pub bandwidth: Bandwidth,
    /// Of one access.
    pub latency: Time,
    /// The part of the bandwidth that data can have.
    pub efficiency: Efficiency,
}

impl HbmSpec {
    /// Returns the wire that data sees: the efficiency is taken off.
    pub fn wire(&self) -> WireSpec {
        WireSpec { bandwidth: self.efficiency.of(self.bandwidth), latency: self.latency }
    }
}

/// One matrix engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmSpec {
    /// Floating-point operations a second, of types without a rate of their own.
    pub rate: Rate,
    /// The `m, n, k` it works in; a smaller piece costs a whole one.
    pub tile: [u32; 3],
    /// The part of the rate that a product reaches.
    pub efficiency: Efficiency,
    /// The rate of each type of [`NumberType::ALL`], where it differs.
    pub rates: [Option<Rate>; NumberType::ALL.len()],
}

impl GemmSpec {
    /// Returns an engine with one rate for all types, which it reaches.
    pub const fn new(rate: Rate, tile: [u32; 3]) -> Self {
        let rates = [None; NumberType::ALL.len()];
        Self { rate, tile, efficiency: Efficiency::FULL, rates }
    }

    /// Returns the kind of number that the engine cannot multiply: one of 8 bits, if the engine lists rates and has none
    /// for it.
    pub fn lacks(&self, dtype: DType) -> Option<NumberType> {
        let number = NumberType::of(dtype).filter(|_| dtype.size() == 1)?;
        let listed = self.rates.iter().any(Option::is_some);
        (listed && self.rates[number as usize].is_none()).then_some(number)
    }

    /// Returns the names of the types with a rate of their own.
    pub fn listed(&self) -> Vec<&'static str> {
        let has_rate = |number: &NumberType| self.rates[*number as usize].is_some();
        NumberType::ALL.into_iter().filter(has_rate).map(NumberType::name).collect()
    }

    /// Returns the rate that products of a type reach.
    pub(crate) fn rate_of(&self, dtype: DType) -> Rate {
        let own = NumberType::of(dtype).and_then(|number| self.rates[number as usize]);
        self.efficiency.of(own.unwrap_or(self.rate))
    }
}

/// A type of number that matrix engines have rates for. Kernels compute with some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// 32 bits.
    F32,
    /// 19 bits of 32.
    Tf32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// 8 bits, floating point.
    Fp8,
    /// 8 bits, whole numbers.
    I8,
}

impl NumberType {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 6] = [Self::F32, Self::Tf32, Self::F16, Self::Bf16, Self::Fp8, Self::I8];

    /// Returns the name in machine files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::I8 => "i8",
        }
    }

    /// Returns the number type of values of this type; `None` if there is none.
    pub const fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 => Some(Self::F32),
            DType::F16 => Some(Self::F16),
            DType::Bf16 => Some(Self::Bf16),
            DType::F8e4m3 | DType::F8e5m2 => Some(Self::Fp8),
            DType::I8 | DType::U8 => Some(Self::I8),
            _ => None,
        }
    }
}

/// A class of vector operations that cost the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorClass {
    /// Additions, products, comparisons, selections, conversions.
    Add,
    /// Exponentials, logarithms and other functions of one number.
    Exp,
    /// Quotients and roots.
    Divide,
    /// Reductions along an axis.
    Reduce,
}

impl VectorClass {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 4] = [Self::Add, Self::Exp, Self::Divide, Self::Reduce];

    /// Returns the name in machine files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Exp => "exp",
            Self::Divide => "divide",
            Self::Reduce => "reduce",
        }
    }
}

/// The factor on the bytes of an operation, for each class of [`VectorClass::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorCosts(pub [u32; VectorClass::ALL.len()]);

impl Default for VectorCosts {
    fn default() -> Self {
        Self([1; VectorClass::ALL.len()])
    }
}

impl VectorCosts {
    /// Returns the cost of a class.
    pub const fn of(&self, class: VectorClass) -> u32 {
        self.0[class as usize]
    }
}
