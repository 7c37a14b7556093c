//! Arithmetic on single numbers, as the operations of a kernel define it.

use crate::types::Scalar;

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arith {
    Add,
    Sub,
    Mul,
    DivS,
    DivU,
    RemS,
    RemU,
    CeilDivS,
    FloorDivS,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    Shl,
    ShrS,
    ShrU,
    MulHiU,
    MulHiS,
    AddF,
    SubF,
    MulF,
    DivF,
    RemF,
    MaxNum,
    MinNum,
    Maximum,
    Minimum,
    Pow,
}

impl Arith {
    /// Returns the operation of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "arith.addi" => Self::Add,
            "arith.subi" => Self::Sub,
            "arith.muli" => Self::Mul,
            "arith.divsi" => Self::DivS,
            "arith.divui" => Self::DivU,
            "arith.remsi" => Self::RemS,
            "arith.remui" => Self::RemU,
            "arith.ceildivsi" => Self::CeilDivS,
            "arith.floordivsi" => Self::FloorDivS,
            "arith.minsi" => Self::MinS,
            "arith.minui" => Self::MinU,
            "arith.maxsi" => Self::MaxS,
            "arith.maxui" => Self::MaxU,
            "arith.andi" => Self::And,
            "arith.ori" => Self::Or,
            "arith.xori" => Self::Xor,
            "arith.shli" => Self::Shl,
            "arith.shrsi" => Self::ShrS,
            "arith.shrui" => Self::ShrU,
            "tt.mulhiui" => Self::MulHiU,
            "arith.addf" => Self::AddF,
            "arith.subf" => Self::SubF,
            "arith.mulf" => Self::MulF,
            "arith.divf" | "tt.precise_divf" => Self::DivF,
            "arith.remf" => Self::RemF,
            "arith.maxnumf" => Self::MaxNum,
            "arith.minnumf" => Self::MinNum,
            "arith.maximumf" => Self::Maximum,
            "arith.minimumf" => Self::Minimum,
            "math.powf" => Self::Pow,
            _ => return None,
        })
    }

    /// True for operations on floats.
    pub(crate) fn is_float(self) -> bool {
        matches!(
            self,
            Self::AddF
                | Self::SubF
                | Self::MulF
                | Self::DivF
                | Self::RemF
                | Self::MaxNum
                | Self::MinNum
                | Self::Maximum
                | Self::Minimum
                | Self::Pow
        )
    }

    /// True if the operation takes its operands as numbers without sign.
    pub(crate) fn is_unsigned(self) -> bool {
        matches!(
            self,
            Self::DivU | Self::RemU | Self::MinU | Self::MaxU | Self::ShrU | Self::MulHiU
        )
    }
}

/// Returns the lowest `bits` of an integer with the sign that they have; one bit is 0 or 1.
pub(crate) fn wrap(number: i64, bits: u8) -> i64 {
    match bits {
        0 | 64.. => number,
        1 => number & 1,
        _ => {
            let unused = 64 - u32::from(bits);
            number << unused >> unused
        }
    }
}

/// Returns the lowest `bits` of an integer as a number without sign.
#[expect(clippy::cast_sign_loss, reason = "the bits are meant")]
pub(crate) fn unsigned(number: i64, bits: u8) -> u64 {
    match bits {
        0 | 64.. => number as u64,
        _ => number as u64 & ((1 << bits) - 1),
    }
}

/// Computes an operation on integers of `bits` bits; a division by zero gives 0.
#[expect(clippy::cast_possible_wrap, reason = "the bits are meant")]
pub(crate) fn whole(operation: Arith, a: i64, b: i64, bits: u8) -> i64 {
    let (ua, ub) = (unsigned(a, bits), unsigned(b, bits));
    let width = u64::from(bits.min(64));
    let result = match operation {
        Arith::Add => a.wrapping_add(b),
        Arith::Sub => a.wrapping_sub(b),
        Arith::Mul => a.wrapping_mul(b),
        Arith::DivS => a.checked_div(b).unwrap_or(if b == -1 { a } else { 0 }),
        Arith::RemS => a.checked_rem(b).unwrap_or(0),
        Arith::CeilDivS => {
            divided(a, b) + i64::from(b != 0 && a % b.max(1) != 0 && (a < 0) == (b < 0))
        }
        Arith::FloorDivS => a.checked_div_euclid(b).unwrap_or(0),
        Arith::DivU => ua.checked_div(ub).unwrap_or(0) as i64,
        Arith::RemU => ua.checked_rem(ub).unwrap_or(0) as i64,
        Arith::MinS => a.min(b),
        Arith::MaxS => a.max(b),
        Arith::MinU => ua.min(ub) as i64,
        Arith::MaxU => ua.max(ub) as i64,
        Arith::And => a & b,
        Arith::Or => a | b,
        Arith::Xor => a ^ b,
        Arith::Shl if ub < width => a.wrapping_shl(small(ub)),
        Arith::ShrS => a >> small(ub.min(63)),
        Arith::ShrU if ub < width => (ua >> small(ub)) as i64,
        Arith::MulHiU => high(u128::from(ua) * u128::from(ub), bits),
        Arith::MulHiS => high((i128::from(a) * i128::from(b)).cast_unsigned(), bits),
        _ => 0,
    };
    wrap(result, bits)
}

fn divided(a: i64, b: i64) -> i64 {
    a.checked_div(b).unwrap_or(0)
}

#[expect(clippy::cast_possible_truncation, reason = "below 64")]
fn small(shift: u64) -> u32 {
    shift as u32
}

/// Returns the upper half of a product of `bits` bits each.
#[expect(clippy::cast_possible_truncation, reason = "the upper half")]
fn high(product: u128, bits: u8) -> i64 {
    ((product >> bits) as u64).cast_signed()
}

/// Rounds a number to a float type.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
pub(crate) fn round(number: f64, scalar: Scalar) -> f64 {
    use phalanx_sim::value::{bf16, f16};
    match scalar {
        Scalar::F64 | Scalar::Int(_) => number,
        Scalar::F16 => f16::from_f32(number as f32).to_f64(),
        Scalar::BF16 => bf16::from_f32(number as f32).to_f64(),
        _ => f64::from(number as f32),
    }
}

/// Computes an operation on floats of a type.
pub(crate) fn float(operation: Arith, a: f64, b: f64, scalar: Scalar) -> f64 {
    let result = match operation {
        Arith::AddF => a + b,
        Arith::SubF => a - b,
        Arith::MulF => a * b,
        Arith::DivF => a / b,
        Arith::RemF => a % b,
        Arith::MaxNum => a.max(b),
        Arith::MinNum => a.min(b),
        Arith::Maximum => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.max(b)
            }
        }
        Arith::Minimum => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.min(b)
            }
        }
        Arith::Pow => a.powf(b),
        _ => f64::NAN,
    };
    round(result, scalar)
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) relation: Relation,
    /// For integers: without sign. For floats: true of a NaN.
    pub(crate) is_unsigned: bool,
}

impl Comparison {
    /// Returns the comparison of this name: `slt`, `ult`, `oeq`, `une`.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (first, rest) = name.split_at_checked(1)?;
        let is_unsigned = first == "u";
        let relation = match (name, rest) {
            ("eq", _) => return Some(Self { relation: Relation::Eq, is_unsigned: false }),
            ("ne", _) => return Some(Self { relation: Relation::Ne, is_unsigned: false }),
            (_, "lt") => Relation::Lt,
            (_, "le") => Relation::Le,
            (_, "gt") => Relation::Gt,
            (_, "ge") => Relation::Ge,
            (_, "eq") => Relation::Eq,
            (_, "ne") => Relation::Ne,
            _ => return None,
        };
        Some(Self { relation, is_unsigned })
    }

    fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self.relation {
            Relation::Eq => a == b,
            Relation::Ne => a != b,
            Relation::Lt => a < b,
            Relation::Le => a <= b,
            Relation::Gt => a > b,
            Relation::Ge => a >= b,
        }
    }

    /// Compares integers of `bits` bits.
    pub(crate) fn of_whole(self, a: i64, b: i64, bits: u8) -> bool {
        if self.is_unsigned {
            self.holds(&unsigned(a, bits), &unsigned(b, bits))
        } else {
            self.holds(&a, &b)
        }
    }

    /// Compares floats.
    pub(crate) fn of_float(self, a: f64, b: f64) -> bool {
        if a.is_nan() || b.is_nan() { self.is_unsigned } else { self.holds(&a, &b) }
    }
}
