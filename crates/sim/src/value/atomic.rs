//! Operations that replace elements in place: what atomic memory operations compute.

use super::buffer::Buffer;
use super::element::Element;
use super::number::Number;
use super::{Binary, DType, Value};
use crate::with_element;
use std::sync::Arc;

/// An operation that replaces an element by a function of it and an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// The sum.
    Add,
    /// The maximum; a NaN goes on.
    Max,
    /// The minimum; a NaN goes on.
    Min,
    /// Bits of both.
    And,
    /// Bits of either.
    Or,
    /// Bits of one.
    Xor,
    /// The operand.
    Exchange,
    /// The second operand, if the element has the bits of the first.
    CompareAndSwap,
}

impl Atomic {
    /// Every operation, in declaration order.
    pub const ALL: [Self; 8] = [
        Self::Add,
        Self::Max,
        Self::Min,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Exchange,
        Self::CompareAndSwap,
    ];

    /// Returns the name, as in `tl`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "atomic_add",
            Self::Max => "atomic_max",
            Self::Min => "atomic_min",
            Self::And => "atomic_and",
            Self::Or => "atomic_or",
            Self::Xor => "atomic_xor",
            Self::Exchange => "atomic_xchg",
            Self::CompareAndSwap => "atomic_cas",
        }
    }

    fn binary(self) -> Option<Binary> {
        match self {
            Self::Add => Some(Binary::Add),
            Self::Max => Some(Binary::Max),
            Self::Min => Some(Binary::Min),
            Self::And => Some(Binary::And),
            Self::Or => Some(Binary::Or),
            Self::Xor => Some(Binary::Xor),
            Self::Exchange | Self::CompareAndSwap => None,
        }
    }

    /// True if the operation is defined for elements of this type.
    pub fn takes(self, dtype: DType) -> bool {
        self.binary().is_none_or(|binary| binary.takes(dtype))
    }

    /// Returns the element after the operation.
    fn apply<T: Number>(self, now: T, operands: &[T]) -> T {
        match (self, operands, self.binary()) {
            (_, [operand, ..], Some(binary)) => T::binary(binary, now, *operand),
            (Self::CompareAndSwap, [expected, new], _) if now.bits() == expected.bits() => *new,
            (Self::Exchange, [operand, ..], _) => *operand,
            _ => now,
        }
    }
}

/// Updates of elements: `(element of the operands, place)`, one after the other.
#[derive(Clone)]
pub(crate) struct Updates {
    pub(super) operation: Atomic,
    pub(super) elements: Arc<[(usize, usize)]>,
}

impl Updates {
    /// Computes the elements afterwards, and after them what each update found; 0 where there was none.
    pub(super) fn compute(&self, operands: &[Value]) -> Buffer {
        let now = operands[0].ready_elements();
        with_element!(now.dtype(), T => {
            let mut out = now.of::<T>().to_vec();
            let (len, count) = (out.len(), operands[1].len());
            out.resize(len + count, T::default());
            let operands: Vec<&[T]> = operands[1..].iter().map(|operand| operand.ready_elements().of()).collect();
            for (at, place) in &*self.elements {
                let given: Vec<T> = operands.iter().map(|operand| operand[*at]).collect();
                let before = out[*place];
                out[len + at] = before;
                out[*place] = self.operation.apply(before, &given);
            }
            T::buffer(out)
        })
    }
}

impl Value {
    /// Records updates of `now`: for each `(element, place)`, in order, the element at `place` is replaced by the
    /// operation of it and that element of the operands. Gives the elements afterwards, and what each update found.
    ///
    /// # Panics
    ///
    /// If types or lengths do not fit.
    pub fn atomic(
        operation: Atomic,
        now: &Self,
        operands: &[Self],
        elements: &[(usize, usize)],
    ) -> (Self, Self) {
        let count = if operation == Atomic::CompareAndSwap { 2 } else { 1 };
        assert_eq!(operands.len(), count, "VAL-6: operands of {}", operation.name());
        assert!(operation.takes(now.dtype()), "VAL-6: {operation:?} of {}", now.dtype());
        let n = operands[0].len();
        let alike = |operand: &Self| operand.dtype() == now.dtype() && operand.len() == n;
        assert!(operands.iter().all(alike), "VAL-6: operands of one type and length");
        let inside = |(at, place): &(usize, usize)| *at < n && *place < now.len();
        assert!(elements.iter().all(inside), "VAL-6: places of {}", now.len());
        let updates = Updates { operation, elements: elements.into() };
        let all = [std::slice::from_ref(now), operands].concat();
        let both = Self::updated(now.dtype(), now.len() + n, updates, all);
        (both.slice(0, now.len()), both.slice(now.len(), n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_update_sees_those_before() {
        let now = Value::from_i32(&[10, 20]);
        let (after, found) = Value::atomic(
            Atomic::Add,
            &now,
            &[Value::from_i32(&[1, 2, 3, 4])],
            &[(0, 1), (1, 0), (3, 1)],
        );
        assert_eq!((after.to_i32(), found.to_i32()), (vec![12, 25], vec![20, 10, 0, 21]));
        let swap = [Value::from_i32(&[10, 10]), Value::from_i32(&[7, 8])];
        let (after, found) = Value::atomic(Atomic::CompareAndSwap, &now, &swap, &[(0, 0), (1, 0)]);
        assert_eq!((after.to_i32(), found.to_i32()), (vec![7, 20], vec![10, 7]));
    }
}
