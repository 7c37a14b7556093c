//! Memory that workers share: buffers, tensors, and the lock of the node that hands them out.

use crate::callables::{NOTHING, PROGRAM, UNTIL_TOLD};
use phalanx_runtime::{Builder, Call, DType, Error, Worker};

/// Bytes of memory of each worker here.
const MEMORY: u64 = 1 << 16;

/// As many bytes as a worker has memory.
fn filled(byte: u8) -> Vec<u8> {
    vec![byte; 1 << 16]
}

fn threads() -> Builder {
    Worker::builder(&PROGRAM).threads().memory(MEMORY).ring(16, 1 << 12).sub_workers(1)
}

#[test]
fn mem_1_live_buffers_do_not_overlap() -> Result<(), Error> {
    let worker = threads().init()?;
    let mut live = Vec::new();
    for number in 0u8..60 {
        let length = 1 + u64::from(number) * 97 % 1024;
        let tensor = worker.tensor(DType::U8, &[length])?;
        worker.write(&tensor, &vec![number; usize::try_from(length).expect("small")])?;
        live.push((tensor, number));
        if number % 3 == 0 {
            live.swap_remove(usize::from(number) / 2);
        }
    }
    for (tensor, number) in &live {
        let found = worker.read::<u8>(tensor)?;
        assert!(found.iter().all(|byte| byte == number), "MEM-1: {number}: {found:?}");
    }
    Ok(())
}

#[test]
fn mem_1_memory_is_not_used_again_while_a_task_may_touch_it() -> Result<(), Error> {
    let worker = threads().init()?;
    let flag = worker.tensor(DType::I64, &[1])?;
    let most = [MEMORY - 4096];
    let data = worker.tensor(DType::U8, &most)?;
    let run = worker.submit("touches it", |graph| {
        let call = Call::new(&UNTIL_TOLD).args([flag.no_dep(), data.in_out()]);
        Ok(graph.submit_sub(&call).map(drop)?)
    })?;
    drop(data);
    assert!(matches!(worker.tensor(DType::U8, &most), Err(Error::NoMemory(_))), "MEM-1");
    worker.write_unordered(&flag, &[1u64])?;
    run.wait()?;
    drop(run);
    worker.tensor(DType::U8, &most).expect("MEM-1: nobody names it any more");
    Ok(())
}

#[test]
fn mem_2_new_buffers_are_zero() -> Result<(), Error> {
    let worker = threads().init()?;
    for _ in 0..3 {
        let tensor = worker.tensor(DType::U8, &[MEMORY])?;
        assert!(worker.read::<u8>(&tensor)?.iter().all(|byte| *byte == 0), "MEM-2");
        worker.write(&tensor, &filled(7))?;
    }
    Ok(())
}

#[test]
fn mem_3_a_request_that_does_not_fit_says_what_is_free() -> Result<(), Error> {
    let worker = threads().init()?;
    let pieces = [(); 4].map(|()| worker.tensor(DType::U8, &[MEMORY / 4]));
    let [first, second, third, fourth] = pieces;
    let kept = (second?, fourth?);
    drop((first?, third?));
    let refused = worker.tensor(DType::U8, &[MEMORY]).expect_err("half of it is taken");
    let words = refused.to_string();
    for part in [
        "65536 bytes do not fit",
        "32768 are free",
        "16384 of them in one piece",
        "`memory` (65536)",
    ] {
        assert!(words.contains(part), "MEM-3: {part}: {words}");
    }
    drop(kept);
    Ok(())
}

#[test]
fn ten_1_a_tensor_that_leaves_its_buffer_cannot_be_made() -> Result<(), Error> {
    let worker = threads().init()?;
    let tensor = worker.tensor(DType::F32, &[4, 4])?;
    let buffer = tensor.buffer();
    assert!(buffer.tensor(0, DType::F32, &[16]).is_ok(), "TEN-1: all of it");
    assert!(buffer.strided(60, DType::F32, &[1, 1], &[7, 9]).is_ok(), "TEN-1: the last element");
    for (start, shape, strides) in [
        (0, &[17][..], &[1][..]),
        (4, &[16], &[1]),
        (64, &[1], &[1]),
        (2, &[1], &[1]),
        (0, &[4, 4], &[5, 1]),
        (0, &[2], &[u64::MAX]),
        (0, &[u64::MAX], &[1]),
        (0, &[u64::MAX, u64::MAX], &[1, 1]),
        (u64::MAX - 3, &[1], &[1]),
    ] {
        let made = buffer.strided(start, DType::F32, shape, strides);
        assert!(made.is_err(), "TEN-1: byte {start}, {shape:?}, {strides:?}");
    }
    assert!(tensor.rows(2, 5).is_err() && tensor.rows(3, 2).is_err(), "TEN-1");
    Ok(())
}

#[test]
fn ten_2_a_buffer_lives_while_a_part_of_it_is_named() -> Result<(), Error> {
    let worker = threads().init()?;
    let tensor = worker.tensor(DType::U8, &[MEMORY])?;
    let part = tensor.rows(10, 12)?;
    worker.write(&tensor, &filled(9))?;
    drop(tensor);
    assert!(worker.tensor(DType::U8, &[1]).is_err(), "TEN-2: a part is still named");
    assert_eq!(worker.read::<u8>(&part)?, [9, 9], "TEN-2");
    drop(part);
    assert!(worker.tensor(DType::U8, &[MEMORY]).is_ok(), "TEN-2: nothing names it any more");
    Ok(())
}

#[test]
fn node_2_a_task_that_runs_and_a_caller_that_sleeps_keep_nobody_out() -> Result<(), Error> {
    let worker = threads().init()?;
    let flag = worker.tensor(DType::I64, &[1])?;
    let submit =
        |call: &Call| worker.submit("one task", |graph| Ok(graph.submit_sub(call).map(drop)?));
    let first = submit(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
    let second = submit(&Call::new(&NOTHING))?;
    std::thread::scope(|scope| {
        let waiters = [&first, &second].map(|run| scope.spawn(|| run.wait().map(drop)));
        // Each of these needs the lock of the node. The test hangs if a sleeper or the task holds it.
        for _ in 0..1000 {
            worker.tensor(DType::U8, &[64])?;
            std::thread::yield_now();
        }
        worker.write_unordered(&flag, &[1u64])?;
        for waiter in waiters {
            waiter.join().expect("no panic").expect("NODE-2");
        }
        Ok(())
    })
}
