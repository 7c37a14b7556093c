//! Memory that workers share, while tasks run. The promises of memory and tensors alone are tested beside their code.

use crate::callables::{PROGRAM, UNTIL_TOLD};
use phalanx_runtime::{Call, DType, Error, Worker};

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
