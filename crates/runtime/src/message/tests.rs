use super::*;
use crate::domain::roster::{LINE, Member, Part, Roster};
use crate::tensor::{Access, DType, Layout, MAX_RANK};
use proptest::prelude::*;
use std::sync::Arc;

fn argument() -> impl Strategy<Value = ArgumentDescriptor> {
    let layout = (0u8..=7, prop::collection::vec((0u64..9, 1u64..9), 0..=MAX_RANK), any::<bool>());
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
            ArgumentDescriptor { memory, access, buffer, offset, layout }
        },
    )
}

/// A domain whose windows follow each other in some order, and a rank of it.
fn membership() -> impl Strategy<Value = Membership> {
    let parts = prop::collection::vec((0u8..=7, prop::collection::vec(0u64..9, 0..3)), 0..4);
    let order = (1usize..6).prop_flat_map(|ranks| (Just(ranks), 0..ranks, any::<bool>()));
    (any::<u64>(), any::<u8>(), 0u32..4, order, parts).prop_map(
        |(id, memory, signals, (ranks, rank, is_turned), parts)| {
            let mut data = 0;
            let part = |(number, (dtype, shape)): (usize, (u8, Vec<u64>))| {
                let dtype = DType::from_byte(dtype).expect("one of eight");
                let layout = Layout::dense(dtype, &shape).expect("small");
                let part = Part { name: format!("part {number}"), offset: data, layout };
                data += layout.extent.next_multiple_of(LINE);
                part
            };
            let parts = parts.into_iter().enumerate().map(part).collect();
            let name = format!("domain {id}");
            let (members, notices) = (Vec::new(), 1 << 30);
            let mut roster = Roster { id, name, memory, notices, data, signals, members, parts };
            for at in 0..ranks as u64 {
                let at = if is_turned { ranks as u64 - at } else { at };
                let window = at * (1 << 20);
                roster.members.push(Member { chip: u32::try_from(at).unwrap_or(0), window });
            }
            Membership { rank, roster: Arc::new(roster) }
        },
    )
}

#[test]
fn msg_2_a_tensor_of_nothing_has_one_encoding() {
    for shape in [&[0, 2][..], &[2, 0], &[3, 2, 0], &[3, 0, 2], &[0, 0], &[0]] {
        let layout = Layout::dense(DType::F32, shape).expect("small");
        assert!(layout.is_dense() && layout.extent == 0, "MSG-2: {shape:?}: {layout:?}");
        let strided = Layout::strided(DType::F32, shape, layout.strides()).expect("small");
        assert_eq!(strided, layout, "MSG-2: {shape:?}");
    }
}

proptest! {
    #[test]
    fn msg_1_a_task_comes_out_as_it_went_in(
        callable in prop_oneof![0..4u32, 0..1u32 << 31], digest: u32, run: u64,
        members in prop_oneof![Just(1u16), 1u16..9],
        given in prop::collection::vec(argument(), 0..7),
        numbers in prop::collection::vec(any::<u64>(), 0..7),
        taken in prop::collection::vec(membership(), 0..3),
        blob in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let order = Order { callable, digest, run, member: members - 1, members };
        let mut bytes = Vec::new();
        encode_task(&mut bytes, &order, given.iter().copied(), &numbers, &taken, &blob);
        let mut buffers = DecodeBuffers::default();
        let received = decode_task(&bytes, &mut buffers).expect("MSG-1");
        prop_assert_eq!((received.order, received.blob), (order, &blob[..]));
        let arguments: Vec<ArgumentDescriptor> = received.arguments.iter().collect();
        let scalars: Vec<u64> = (0..).map_while(|at| received.scalars.get(at)).collect();
        prop_assert_eq!((arguments, scalars, received.memberships), (given, numbers, &taken[..]));
    }

    #[test]
    fn msg_1_what_is_sent_comes_out_as_it_went_in(
        dispatch in 0..1u64 << 63, behind in prop::collection::vec(any::<u64>(), 0..5), message in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let head = Sent::head(dispatch, &behind);
        let bytes = [bytemuck::cast_slice(&head), &message].concat();
        let sent = Sent::read(&bytes).expect("MSG-1");
        prop_assert_eq!((sent.dispatch, sent.message), (dispatch, &message[..]));
        prop_assert!(sent.behind().eq(behind), "MSG-1");
    }

    #[test]
    fn msg_2_any_bytes_are_sent_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Some(sent) = Sent::read(&bytes) {
            let behind: Vec<u64> = sent.behind().collect();
            let head = Sent::head(sent.dispatch, &behind);
            let again = [bytemuck::cast_slice(&head), sent.message].concat();
            prop_assert_eq!(&again, &bytes, "MSG-2");
            let _ = sent.callable();
        }
    }

    #[test]
    fn msg_1_an_ending_comes_out_as_it_went_in(
        dispatch in 0..1u64 << 62, begun: u64, nanoseconds: u64, picoseconds: u64,
    ) {
        for verdict in [Verdict::Done, Verdict::Failed, Verdict::Skipped] {
            let ended = Ended { dispatch, verdict, begun, nanoseconds, picoseconds };
            let bytes = [bytemuck::cast_slice(&ended.encode()), &b"words"[..]].concat();
            prop_assert_eq!(Ended::decode(&bytes), Ok((ended, &b"words"[..])));
        }
    }

    #[test]
    fn msg_2_any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_task(&bytes, &mut DecodeBuffers::default());
        let _ = Ended::decode(&bytes);
    }

    #[test]
    fn msg_2_a_message_that_was_cut_is_refused(
        given in prop::collection::vec(argument(), 1..4),
        taken in prop::collection::vec(membership(), 0..3),
        cut in 1usize..30,
    ) {
        let order = Order { members: 1, ..Order::default() };
        let mut bytes = Vec::new();
        encode_task(&mut bytes, &order, given.iter().copied(), &[], &taken, &[]);
        let cut = bytes.len().saturating_sub(cut);
        prop_assert!(decode_task(&bytes[..cut], &mut DecodeBuffers::default()).is_err());
    }

    #[test]
    fn msg_2_a_task_that_was_changed_is_refused_or_means_what_it_says(
        given in prop::collection::vec(argument(), 0..3),
        taken in prop::collection::vec(membership(), 0..2),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let order = Order { members: 1, ..Order::default() };
        let mut bytes = Vec::new();
        encode_task(&mut bytes, &order, given.into_iter(), &[7], &taken, &[1, 2]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut buffers = DecodeBuffers::default();
        if let Ok(received) = decode_task(&bytes, &mut buffers) {
            prop_assert_eq!(received.encode(), bytes, "MSG-2");
        }
    }

    #[test]
    fn msg_1_a_step_comes_out_as_it_went_in(domain in 0u32..1 << 24, rank in 0u8..64, cell in 0u32..4096) {
        for step in [Step::Idle, Step::Running, Step::Waits { domain, rank, cell }] {
            prop_assert_eq!(Step::decode(step.encode()), step);
        }
    }

    #[test]
    fn msg_2_any_number_is_a_step(number: u64) {
        let _ = Step::decode(number);
    }
}
