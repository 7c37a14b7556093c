//! Values as bytes: a fill stays one (VAL-8), everything else is computed. Elements have the order of bytes of the host: all processes of a
//! run are of one architecture, as the link makes sure.

use super::buffer::Scalar;
use super::{Buffer, DType, Value};
use crate::portable::{Malformed, Portable, Reader};

crate::portable!(enum DType {
    0 => F32, 1 => F16, 2 => Bf16, 3 => I32, 4 => F64, 5 => I64, 6 => I16, 7 => I8, 8 => U64, 9 => U32, 10 => U16, 11 => U8,
    12 => Bool, 13 => F8e4m3, 14 => F8e5m2,
});

impl Portable for Value {
    fn put(&self, to: &mut Vec<u8>) {
        self.dtype().put(to);
        self.len.put(to);
        let fill = self.node.fill;
        fill.map(Scalar::bits).put(to);
        if fill.is_none() {
            to.extend_from_slice(self.elements().bytes());
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (dtype, len) = (DType::take(from)?, usize::take(from)?);
        if let Some(bits) = <Option<u64> as Portable>::take(from)? {
            return Ok(Self::filled(Scalar::from_bits(dtype, bits), dtype, len));
        }
        let size = len.checked_mul(dtype.size()).ok_or(Malformed("a value that is too long"))?;
        Ok(Self::from_buffer(Buffer::from_bytes(dtype, from.bytes(size)?)))
    }
}
