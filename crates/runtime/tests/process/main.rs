//! Workers that are processes.

#[path = "../fixture/callables.rs"]
mod callables;

use callables::*;
use phalanx_runtime::{Builder, Call, DType, Error, Worker};

fn builder() -> Builder {
    Worker::builder(&PROGRAM).program_path(env!("CARGO_BIN_EXE_phalanx-runtime-fixture"))
}

#[test]
fn sub_workers_run_a_graph_and_leave() -> Result<(), Error> {
    let worker = builder().sub_workers(2).init()?;
    println!("{}", worker.startup());
    let tensors = [worker.tensor(DType::F32, &[1024])?, worker.tensor(DType::F32, &[1024])?];
    let sum = worker.tensor(DType::F32, &[1024])?;
    worker.write(&tensors[0], &[1.0f32; 1024])?;
    worker.write(&tensors[1], &[2.0f32; 1024])?;
    worker.run("sums", |graph| {
        for row in (0..1024).step_by(128) {
            let part = |tensor: &phalanx_runtime::Tensor| tensor.rows(row, row + 128);
            let (a, b) = (part(&tensors[0])?, part(&tensors[1])?);
            let call = Call::new(&ADD).args([part(&sum)?.output(), a.input(), b.input()]);
            graph.submit_sub(&call)?;
        }
        Ok(())
    })?;
    assert_eq!(worker.read::<f32>(&sum)?, [3.0; 1024]);
    worker.close()
}
