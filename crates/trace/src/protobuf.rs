//! The little of the protobuf wire format that a trace needs.
//!
//! Two ways to build a message: [`Message`], of any size and shape, for data that is written once per track or name;
//! [`Packet`], of a fixed size and without allocation, for data that is written once per slice.

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

/// A message of any size.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn uint(mut self, field: u32, value: u64) -> Self {
        self.key(field, VARINT);
        push_varint(&mut self.0, value);
        self
    }

    pub(crate) fn text(mut self, field: u32, text: &str) -> Self {
        self.delimited(field, text.as_bytes());
        self
    }

    pub(crate) fn message(mut self, field: u32, inner: &Self) -> Self {
        self.delimited(field, &inner.0);
        self
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        push_varint(&mut self.0, u64::from(field << 3 | wire_type));
    }

    fn delimited(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, LENGTH_DELIMITED);
        push_varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// The buffer in which packets are built. An index of eight bits, and eight bytes after it, are always within.
pub(crate) type Scratch = [u8; 256 + 8];

/// A message of less than 128 bytes, so that every length in it is one byte and can be set last.
///
/// It is written for the compiler: no index can be out of bounds, so no check is left, and `len`
/// is apart from the bytes, so it stays in a register.
pub(crate) struct Packet<'a> {
    bytes: &'a mut Scratch,
    len: u8,
}

/// The position of a length that is still to be set.
#[must_use]
pub(crate) struct Hole(u8);

impl<'a> Packet<'a> {
    pub(crate) fn new(bytes: &'a mut Scratch) -> Self {
        Self { bytes, len: 0 }
    }

    /// Appends the packet to `out`.
    #[inline]
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + usize::from(self.len);
        // A copy of known size is a few instructions, one of unknown size a call.
        if self.len <= 64 {
            out.extend_from_slice(&self.bytes[..64]);
            out.truncate(end);
        } else {
            out.extend_from_slice(&self.bytes[..usize::from(self.len)]);
        }
    }

    #[inline]
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.len = put_varint(self.bytes, self.len, value);
    }

    #[inline]
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        let at = usize::from(self.len);
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self.len = self.len.wrapping_add(8);
    }

    /// Begins a message within this one; [`Packet::close`] ends it.
    #[inline]
    pub(crate) fn open(&mut self, field: u32) -> Hole {
        self.key(field, LENGTH_DELIMITED);
        self.len = self.len.wrapping_add(1);
        Hole(self.len)
    }

    #[inline]
    pub(crate) fn close(&mut self, hole: &Hole) {
        self.bytes[usize::from(hole.0.wrapping_sub(1))] = self.len.wrapping_sub(hole.0);
    }

    #[inline]
    fn key(&mut self, field: u32, wire_type: u32) {
        self.len = put_varint(self.bytes, self.len, u64::from(field << 3 | wire_type));
    }
}

#[inline]
fn put_varint(bytes: &mut Scratch, mut at: u8, mut value: u64) -> u8 {
    while value >= 0x80 {
        bytes[usize::from(at)] = value.to_le_bytes()[0] | 0x80;
        at = at.wrapping_add(1);
        value >>= 7;
    }
    bytes[usize::from(at)] = value.to_le_bytes()[0];
    at.wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_and_a_message_of_the_same_fields_are_the_same_bytes() {
        for value in [0, 1, 127, 128, 300, 1 << 35, u64::MAX] {
            let message = Message::default().message(11, &Message::default().uint(30, value));
            let (mut scratch, mut out) = ([0xff; 264], vec![1]);
            let mut packet = Packet::new(&mut scratch);
            let hole = packet.open(11);
            packet.uint(30, value);
            packet.close(&hole);
            packet.append_to(&mut out);
            assert_eq!(out[1..], *message.as_bytes(), "{value}");
        }
    }

    #[test]
    fn varints_are_those_of_the_specification() {
        let message = Message::default().uint(1, 150).text(2, "testing");
        assert_eq!(message.as_bytes(), b"\x08\x96\x01\x12\x07testing");
    }
}
