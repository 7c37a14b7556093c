//! What a ring promises.

use super::*;
use crate::shm::{Region, Segment};

fn ring(capacity: usize, largest: usize) -> (Sender, Receiver, Segment) {
    let segment = Segment::create("test", footprint(capacity)).expect("a segment");
    let region = Region::new(&segment, 0, footprint(capacity)).expect("a region");
    let sender = Sender::new(region.clone(), largest).expect("a sender");
    (sender, Receiver::new(region, largest).expect("a receiver"), segment)
}

#[test]
fn rng_1_messages_arrive_in_order_after_publish() {
    let (mut sender, mut receiver, _) = ring(256, 1000);
    let mut got = Vec::new();
    for number in 0..100_u8 {
        sender.push(&[number], &[1, 2, 3]).expect("room");
        assert_eq!(receiver.next(&mut got), Ok(false));
        assert!(sender.publish());
        assert!(!sender.publish());
        assert_eq!(receiver.next(&mut got), Ok(true));
        assert_eq!(got, [number, 1, 2, 3]);
        receiver.release();
    }
}
