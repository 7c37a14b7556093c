//! Any bytes as a task message: the decoder refuses them, or encoding the decoded task gives the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_runtime::message::{DecodeBuffers, Step, decode_task};

fuzz_target!(|bytes: &[u8]| {
    let mut buffers = DecodeBuffers::default();
    match decode_task(bytes, &mut buffers) {
        Ok(received) => assert_eq!(received.encode(), bytes, "MSG-2"),
        Err(error) => assert!(!error.to_string().is_empty(), "MSG-2"),
    }
    if let Some(number) = bytes.first_chunk::<8>() {
        let step = Step::decode(u64::from_le_bytes(*number));
        assert_eq!(Step::decode(step.encode()), step, "MSG-1");
    }
});
