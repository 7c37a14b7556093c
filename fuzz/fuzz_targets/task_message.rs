//! A task message that anybody may have made: it is refused, or it is what an encoder makes of what was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_runtime::message::{Step, decode_task, encode_task};

fuzz_target!(|bytes: &[u8]| {
    let (mut places, mut scalars, mut seats) = (Vec::new(), Vec::new(), Vec::new());
    match decode_task(bytes, &mut places, &mut scalars, &mut seats) {
        Ok(received) => {
            let mut again = Vec::new();
            let places = places.into_iter();
            encode_task(&mut again, &received.order, places, &scalars, &seats, received.blob);
            assert_eq!(again, bytes, "MSG-2");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "MSG-2"),
    }
    if let Some(number) = bytes.first_chunk::<8>() {
        let step = Step::decode(u64::from_le_bytes(*number));
        assert_eq!(Step::decode(step.encode()), step, "MSG-1");
    }
});
