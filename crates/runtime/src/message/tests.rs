use super::*;
use proptest::prelude::*;

fn place() -> impl Strategy<Value = Place> {
    let layout = (0u8..=7, prop::collection::vec((1u64..9, 1u64..9), 0..=MAX_RANK), any::<bool>());
    let layout = layout.prop_map(|(dtype, axes, is_strided)| {
        let shape: Vec<u64> = axes.iter().map(|(count, _)| *count).collect();
        let dtype = DType::from_byte(dtype).expect("one of eight");
        let dense = Layout::dense(dtype, &shape).expect("small");
        if !is_strided {
            return dense;
        }
        let strides: Vec<u64> = axes.iter().map(|(_, stride)| *stride).collect();
        Layout::strided(dtype, &shape, &strides).expect("small")
    });
    (any::<u8>(), 0u8..4, any::<(u64, u32)>(), any::<u64>(), layout).prop_map(
        |(memory, access, buffer, offset, layout)| {
            let access = Access::from_byte(access).expect("one of four");
            Place { memory, access, buffer, offset, layout }
        },
    )
}

proptest! {
    #[test]
    fn msg_1_a_task_comes_out_as_it_went_in(
        callable: u32, digest: u32, run: u64, members in 1u16..9,
        given in prop::collection::vec(place(), 0..7),
        numbers in prop::collection::vec(any::<u64>(), 0..7),
        blob in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let order = Order { callable, digest, run, member: members - 1, members };
        let mut bytes = Vec::new();
        encode_task(&mut bytes, &order, &given, &numbers, &blob);
        let (mut places, mut scalars) = (Vec::new(), Vec::new());
        let received = decode_task(&bytes, &mut places, &mut scalars).expect("MSG-1");
        prop_assert_eq!(received, Received { order, blob: &blob });
        prop_assert_eq!((places, scalars), (given, numbers));
    }

    #[test]
    fn msg_1_an_ending_comes_out_as_it_went_in(dispatch: u64, begun: u64, nanoseconds: u64, picoseconds: u64) {
        for verdict in [Verdict::Done, Verdict::Failed, Verdict::Skipped] {
            let ended = Ended { dispatch, verdict, begun, nanoseconds, picoseconds };
            let mut bytes = ended.encode().to_vec();
            bytes.extend_from_slice(b"words");
            prop_assert_eq!(Ended::decode(&bytes), Ok((ended, &b"words"[..])));
        }
    }

    #[test]
    fn msg_2_any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_task(&bytes, &mut Vec::new(), &mut Vec::new());
        let _ = Ended::decode(&bytes);
    }

    #[test]
    fn msg_2_a_message_that_was_cut_is_refused(given in prop::collection::vec(place(), 1..4), cut in 1usize..30) {
        let order = Order { members: 1, ..Order::default() };
        let mut bytes = Vec::new();
        encode_task(&mut bytes, &order, &given, &[], &[]);
        let cut = bytes.len().saturating_sub(cut);
        prop_assert!(decode_task(&bytes[..cut], &mut Vec::new(), &mut Vec::new()).is_err());
    }
}
