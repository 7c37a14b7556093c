//! The class of every operation, which decides its cost, and its name in logs.

use crate::spec::VectorClass;
use crate::value::{Binary, Unary};

/// Returns the name of an operation, and the class of its cost.
pub(super) fn binary_label(operation: Binary) -> (&'static str, VectorClass) {
    match operation {
        Binary::Add => ("add", VectorClass::Add),
        Binary::Sub => ("sub", VectorClass::Add),
        Binary::Mul => ("mul", VectorClass::Add),
        Binary::Div => ("div", VectorClass::Divide),
        Binary::Max | Binary::MaxNum => ("max", VectorClass::Add),
        Binary::Min | Binary::MinNum => ("min", VectorClass::Add),
        Binary::Rem => ("rem", VectorClass::Divide),
        Binary::FloorDiv => ("floor_div", VectorClass::Divide),
        Binary::FloorRem => ("floor_rem", VectorClass::Divide),
        Binary::Pow => ("pow", VectorClass::Exp),
        Binary::And => ("and", VectorClass::Add),
        Binary::Or => ("or", VectorClass::Add),
        Binary::Xor => ("xor", VectorClass::Add),
        Binary::Shl => ("shl", VectorClass::Add),
        Binary::Shr => ("shr", VectorClass::Add),
        Binary::MulHi => ("mul_hi", VectorClass::Add),
    }
}

/// Returns the name of a function, and the class of its cost.
pub(super) fn unary_label(operation: Unary) -> (&'static str, VectorClass) {
    match operation {
        Unary::Exp => ("exp", VectorClass::Exp),
        Unary::Exp2 => ("exp2", VectorClass::Exp),
        Unary::Log => ("log", VectorClass::Exp),
        Unary::Log2 => ("log2", VectorClass::Exp),
        Unary::Sqrt => ("sqrt", VectorClass::Divide),
        Unary::Rsqrt => ("rsqrt", VectorClass::Divide),
        Unary::Sin => ("sin", VectorClass::Exp),
        Unary::Cos => ("cos", VectorClass::Exp),
        Unary::Erf => ("erf", VectorClass::Exp),
        Unary::Floor => ("floor", VectorClass::Add),
        Unary::Ceil => ("ceil", VectorClass::Add),
        Unary::Not => ("not", VectorClass::Add),
        Unary::Tanh | Unary::Sigmoid | Unary::Gelu => ("map", VectorClass::Exp),
        Unary::Recip => ("map", VectorClass::Divide),
        Unary::Neg | Unary::Abs | Unary::Relu => ("map", VectorClass::Add),
    }
}
