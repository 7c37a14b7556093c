//! Memory that workers share, while tasks run. The promises of memory and tensors alone are tested beside their code.

use crate::callables::{PROGRAM, UNTIL_TOLD};
use phalanx_runtime::{Call, Callable, DType, DataError, Error, Failure, Program, Task, Worker};

/// Bytes of memory of the worker.
const MEMORY: u64 = 1 << 16;

#[test]
fn mem_1_memory_is_not_used_again_while_a_task_may_touch_it() -> Result<(), Error> {
    let worker = Worker::builder(&PROGRAM).threads().memory(MEMORY).ring(16, 1 << 12);
    let worker = worker.sub_workers(1).init()?;
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

/// Adds 1 to every byte of the first argument, of two bytes each, and does so with the second where it can.
fn count_bytes_up(task: &mut Task<'_>) -> Result<(), Failure> {
    let [mut dense, mut gaps] = task.arguments()?;
    let bytes = dense.read_elements::<u8>()?;
    let fewer = dense.write_elements(&bytes[1..]);
    assert!(matches!(fewer, Err(DataError::Count { given: 11, wanted: 12, .. })), "{fewer:?}");
    dense.write_elements(&bytes.iter().map(|byte| byte + 1).collect::<Vec<_>>())?;
    let (read, written) = (gaps.read_elements::<u8>(), gaps.write_elements(&[0u8; 8]));
    assert!(matches!(read, Err(DataError::Element { bytes: 4, wanted: 1, .. })), "{read:?}");
    assert!(matches!(written, Err(DataError::Element { .. })), "{written:?}");
    Ok(())
}

const COUNT_BYTES_UP: Callable = Callable::new("memory::count_bytes_up", count_bytes_up);
static BYTES_PROGRAM: Program = Program::new(&[COUNT_BYTES_UP]);

#[test]
fn elements_without_gaps_are_read_and_written_as_all_their_bytes() -> Result<(), Error> {
    let worker = Worker::builder(&BYTES_PROGRAM).threads().sub_workers(1).memory(MEMORY).init()?;
    let dense = worker.tensor(DType::F16, &[2, 3])?;
    let gaps = worker.tensor(DType::F32, &[4])?.buffer().strided(0, DType::F32, &[2], &[2])?;
    let before: Vec<u8> = (0..12).collect();
    worker.write(&dense, &before)?;
    // In place, and copied because it has no order.
    worker.call(&Call::new(&COUNT_BYTES_UP).args([dense.in_out(), gaps.in_out()]))?;
    worker.call(&Call::new(&COUNT_BYTES_UP).args([dense.no_dep(), gaps.no_dep()]))?;
    assert_eq!(worker.read::<u8>(&dense)?, (2..14).collect::<Vec<u8>>());
    worker.close()
}
