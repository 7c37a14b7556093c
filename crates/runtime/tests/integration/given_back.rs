//! Tensors whose memory was given back, and is another task's.

use crate::in_place::{Watched, kinds};
use phalanx_runtime::*;

/// Every way to read or write a tensor of 64 numbers, from outside: what each says.
fn touch(worker: &Worker, tensor: &Tensor) -> [Result<(), Error>; 4] {
    [
        worker.read::<u64>(tensor).map(drop),
        worker.read_unordered::<u64>(tensor).map(drop),
        worker.write(tensor, &[0xbadu64; 64]),
        worker.write_unordered(tensor, &[0xbadu64; 64]),
    ]
}

fn check_refused(worker: &Worker, tensor: &Tensor) {
    for (at, result) in touch(worker, tensor).into_iter().enumerate() {
        let words = result.expect_err("WRK-5").to_string();
        assert!(words.contains("the memory of this tensor was given back"), "{at}: {words}");
        assert!(words.contains("take `tensor` of the worker"), "{at}: {words}");
    }
}

#[test]
fn wrk_5_what_a_graph_allocated_is_refused_after_its_run() {
    for builder in kinds() {
        let worker = builder.init().expect("a worker");
        let mut kept = None;
        let run = worker.run("before", |graph| {
            kept = Some(graph.alloc(DType::I64, &[64])?);
            Ok(())
        });
        run.expect("it ends");
        let kept = kept.expect("a tensor");
        check_refused(&worker, &kept);
        let watched = Watched::begin(&worker, |graph| Ok(graph.alloc(DType::I64, &[64])?.in_out()));
        check_refused(&worker, &kept);
        watched.end().expect("WRK-5: nobody wrote its memory");
        let again = worker.run("after", |graph| {
            let call = Call::new(&crate::callables::NOTHING).args([kept.in_out()]);
            let words = graph.submit_sub(&call).expect_err("as a submission is").to_string();
            assert!(words.contains("no such buffer any more"), "{words}");
            Ok(())
        });
        again.expect("it ends");
        worker.close().expect("all leave");
    }
}

#[test]
fn wrk_5_what_a_scope_allocated_is_refused_while_its_run_goes_on() {
    for builder in kinds() {
        let worker = builder.init().expect("a worker");
        let mut kept = None;
        let watched = Watched::begin(&worker, |graph| {
            graph.scope("inner", |graph| {
                kept = Some(graph.alloc(DType::I64, &[64])?);
                Ok::<(), Error>(())
            })?;
            let kept = kept.as_ref().expect("a tensor");
            let next = graph.alloc(DType::I64, &[64])?;
            check_refused(&worker, kept);
            Ok(next.in_out())
        });
        check_refused(&worker, kept.as_ref().expect("a tensor"));
        watched.end().expect("WRK-5: nobody wrote its memory");
        worker.close().expect("all leave");
    }
}

#[test]
fn wrk_5_what_a_scope_holds_is_in_use() {
    let [threads, _] = kinds();
    let worker = threads.init().expect("a worker");
    let run = worker.run("open", |graph| {
        let tensor = graph.alloc(DType::I64, &[64])?;
        let [read, read_unordered, write, write_unordered] = touch(&worker, &tensor);
        assert!(matches!((read, write), (Err(Error::InUse), Err(Error::InUse))));
        read_unordered?;
        write_unordered?;
        assert_eq!(worker.read_unordered::<u64>(&tensor)?, [0xbad; 64], "no task has it yet");
        Ok(())
    });
    run.expect("it ends");
}
