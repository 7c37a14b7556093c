//! Round trips, and bytes that nobody has written.

use super::*;
use crate::machine::{Crossing, RunError, SipNotes};
use crate::value::{Binary, DType, Unary, Value};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads as every kind of thing that crosses; each gives a value or an error.
fn read_as_all(bytes: &[u8]) {
    fn read<T: Portable>(bytes: &[u8]) {
        if let Ok(value) = from_bytes::<T>(bytes) {
            assert_eq!(to_bytes(&value), bytes, "POR-1: one form");
        }
    }
    read::<crate::exchange::Standing>(bytes);
    read::<Crossing>(bytes);
    read::<Vec<crate::exchange::Parcel>>(bytes);
    read::<RunError>(bytes);
    read::<Vec<SipNotes>>(bytes);
    read::<Vec<(usize, Result<Option<Vec<u8>>, String>)>>(bytes);
    // Of `bool`, every byte but 0 is true: the form is not the only one.
    drop(from_bytes::<Value>(bytes));
    drop(from_bytes::<BTreeMap<u32, String>>(bytes));
}

fn crossing(value: Option<Value>) -> Vec<u8> {
    let mut message = crate::ipcq::Message { value, bytes: 7, flow: 3, ..Default::default() };
    message.following = 2;
    let topic: Option<Arc<str>> = Some("a topic".into());
    to_bytes(&Crossing::Message { edge: 5, message, topic, arrival: None })
}

proptest! {
    #[test]
    fn por_1_numbers_texts_and_lists_read_back(
        list in prop::collection::vec((any::<u64>(), any::<Option<i32>>(), ".*"), 0..20),
        flag in any::<bool>(),
        bits in any::<u32>(),
    ) {
        let value = (list, flag, f32::from_bits(bits).to_bits());
        prop_assert_eq!(from_bytes::<(Vec<(u64, Option<i32>, String)>, bool, u32)>(&to_bytes(&value)), Ok(value));
    }

    #[test]
    fn por_1_values_of_every_type_read_back_bit_for_bit(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        number in 0..DType::ALL.len(),
        fill in any::<bool>(),
    ) {
        let dtype = DType::ALL[number];
        let value = if fill {
            Value::full(dtype, bytes.len() * 1000, f64::from(bytes.first().copied().unwrap_or(0) % 2))
        } else {
            Value::from_buffer(crate::value::Buffer::from_bytes(dtype, &bytes))
        };
        let read: Value = from_bytes(&to_bytes(&value)).unwrap();
        prop_assert_eq!((read.dtype(), read.len()), (value.dtype(), value.len()));
        prop_assert_eq!(read.elements().bytes(), value.elements().bytes(), "POR-1");
    }

    #[test]
    fn por_2_any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_as_all(&bytes);
    }

    #[test]
    fn por_2_changed_bytes_are_read_or_refused(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let value = Value::from_f32(DType::F16, &[1.0, 2.0, 3.0]);
        let mut bytes = crossing(Some(value));
        prop_assert!(from_bytes::<Crossing>(&bytes).is_ok());
        let short = bytes[..cut.index(bytes.len())].to_vec();
        prop_assert!(from_bytes::<Crossing>(&short).is_err(), "POR-2: a part is no whole");
        let at = at.index(bytes.len());
        bytes[at] = byte;
        read_as_all(&bytes);
    }
}

#[test]
fn por_1_a_recorded_value_crosses_as_its_numbers() {
    let a = Value::from_f32(DType::F32, &[1.0, -2.0]);
    let sum = Value::unary(Unary::Neg, &Value::binary(Binary::Add, &a, &a));
    let read: Value = from_bytes(&to_bytes(&sum)).unwrap();
    assert_eq!((read.is_ready(), read.to_f32()), (true, vec![-2.0, 4.0]), "POR-1");
}

#[test]
fn por_2_long_lengths_and_deep_boxes_are_refused() {
    let long = to_bytes(&u64::MAX);
    assert!(from_bytes::<Vec<u64>>(&long).is_err(), "POR-2");
    assert!(from_bytes::<String>(&long).is_err(), "POR-2");
    assert!(from_bytes::<Value>(&[&[0][..], &long, &[0]].concat()).is_err(), "POR-2");
    assert!(from_bytes::<Chain>(&[&[1; 60][..], &[0]].concat()).is_ok(), "POR-2");
    assert!(from_bytes::<Chain>(&vec![1; 1_000_000]).is_err(), "POR-2");
}

/// A list in boxes.
struct Chain(Option<Box<Chain>>);
crate::portable!(tuple Chain);
