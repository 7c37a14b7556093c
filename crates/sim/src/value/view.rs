//! Views of elements: slices, joins and strides.
//!
//! A slice is part of the [`Value`] handle and costs nothing; joins and strides are recorded, and copied once at
//! evaluation.

use super::buffer::Buffer;
use super::node::{Op, Strided};
use super::{Element, Value};
use crate::with_element;
use std::sync::Arc;

impl Value {
    /// Returns `len` elements from `start`, without a copy.
    ///
    /// # Panics
    ///
    /// If the range does not lie inside the value.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        let inside = start.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "VAL-6: elements {start}+{len} of {}", self.len);
        if let Some(scalar) = self.node.fill.filter(|_| len < self.len) {
            return Self::filled(scalar, self.dtype(), len);
        }
        Self { node: Arc::clone(&self.node), start: self.start + start, len }
    }

    /// Joins the elements of all `pieces`. Adjacent slices of one value are joined without a copy.
    ///
    /// # Panics
    ///
    /// If there is no piece, or types differ.
    pub fn concat(pieces: &[Self]) -> Self {
        let first = pieces.first().expect("VAL-6: at least one piece");
        let dtype = first.dtype();
        assert!(pieces.iter().all(|p| p.dtype() == dtype), "VAL-6: pieces of one type");
        let mut joined: Vec<Self> = Vec::with_capacity(pieces.len());
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            if !joined.last_mut().is_some_and(|last| last.absorbs(piece)) {
                joined.push(piece.clone());
            }
        }
        match joined.len() {
            0 => first.slice(0, 0),
            1 => joined.swap_remove(0),
            _ => {
                let len = joined.iter().map(Self::len).sum();
                Self::record(dtype, len, Op::Concat(joined.into()))
            }
        }
    }

    /// Extends this piece by `next` if `next` is adjacent in the same value or has the same fill; true if it did.
    fn absorbs(&mut self, next: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.node.fill, next.node.fill) {
            if a.same_bits(b) {
                *self = Self::filled(a, self.dtype(), self.len + next.len);
                return true;
            }
            return false;
        }
        let follows = Arc::ptr_eq(&self.node, &next.node) && self.start + self.len == next.start;
        if follows {
            self.len += next.len;
        }
        follows
    }

    /// Returns the elements at `offset + sum(index * stride)`, with indices in row-major order of `shape`; a stride of 0
    /// repeats elements.
    ///
    /// # Panics
    ///
    /// If `shape` and `strides` differ in length, or an element lies outside the value.
    #[must_use]
    pub fn strided(&self, offset: usize, shape: &[usize], strides: &[usize]) -> Self {
        assert_eq!(shape.len(), strides.len(), "VAL-6: a stride for each dimension");
        let len = shape.iter().product();
        if len == 0 {
            return self.slice(0, 0);
        }
        let reach = |(n, stride): (&usize, &usize)| (n - 1) * stride;
        let last = offset + shape.iter().zip(strides).map(reach).sum::<usize>();
        assert!(last < self.len, "VAL-6: element {last} of {}", self.len);
        if let Some(scalar) = self.node.fill {
            return Self::filled(scalar, self.dtype(), len);
        }
        let (shape, strides) = simplified(shape, strides);
        match (&shape[..], &strides[..]) {
            ([], []) => self.slice(offset, 1),
            ([_], [1]) => self.slice(offset, len),
            _ => {
                let view = Strided { source: self.clone(), offset, shape, strides };
                Self::record(self.dtype(), len, Op::Strided(Box::new(view)))
            }
        }
    }

    /// Returns the parts of a join that are not ready and may be computed independently; otherwise the value itself, or
    /// nothing if it is ready.
    pub fn pending_parts(&self) -> Vec<Self> {
        match self.node.op() {
            None if self.is_ready() => Vec::new(),
            Some(Op::Concat(pieces)) => pieces.iter().filter(|p| !p.is_ready()).cloned().collect(),
            _ => vec![self.clone()],
        }
    }
}

/// Returns the same pattern without dimensions of one element, and with contiguous dimensions merged.
fn simplified(shape: &[usize], strides: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut out: (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (&n, &stride) in shape.iter().zip(strides).filter(|(n, _)| **n != 1) {
        match (out.0.last_mut(), out.1.last_mut()) {
            (Some(rows), Some(outer)) if *outer == n * stride => {
                *rows *= n;
                *outer = stride;
            }
            _ => {
                out.0.push(n);
                out.1.push(stride);
            }
        }
    }
    out
}

/// Joins the elements of `pieces`, which are ready or fills.
pub(super) fn join(pieces: &[Value]) -> Buffer {
    let len = pieces.iter().map(Value::len).sum();
    let mut buffer = Buffer::with_capacity(pieces[0].dtype(), len);
    for piece in pieces {
        match piece.node.fill.filter(|_| !piece.is_ready()) {
            Some(scalar) => buffer.extend(Buffer::filled(scalar, piece.len).view()),
            None => buffer.extend(piece.ready_elements()),
        }
    }
    buffer
}

/// The elements of a pattern over a ready value.
pub(super) fn gather(view: &Strided) -> Buffer {
    let source = view.source.ready_elements();
    with_element!(source.dtype(), T => gather_typed::<T>(view, source.of()))
}

fn gather_typed<T: Element>(view: &Strided, source: &[T]) -> Buffer {
    let dims = view.shape.len();
    let (n, stride) = (view.shape[dims - 1], view.strides[dims - 1]);
    let mut out = Vec::with_capacity(view.shape.iter().product());
    let mut index = vec![0; dims - 1];
    let mut offset = view.offset;
    loop {
        match stride {
            1 => out.extend_from_slice(&source[offset..offset + n]),
            0 => out.extend(std::iter::repeat_n(source[offset], n)),
            _ => out.extend(source[offset..].iter().step_by(stride).take(n)),
        }
        if !advance(view, &mut index, &mut offset) {
            return T::buffer(out);
        }
    }
}

/// Advances `index` over all but the last dimension; false after the last row.
fn advance(view: &Strided, index: &mut [usize], offset: &mut usize) -> bool {
    for d in (0..index.len()).rev() {
        index[d] += 1;
        *offset += view.strides[d];
        if index[d] < view.shape[d] {
            return true;
        }
        *offset -= index[d] * view.strides[d];
        index[d] = 0;
    }
    false
}
