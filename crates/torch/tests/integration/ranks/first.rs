use super::bare;
use phalanx_sim::{DType, Time};
use phalanx_torch::{distributed as dist, multiprocessing};

#[test]
fn a_ring_all_reduce_takes_what_the_formula_says() {
    let mut context = bare(8, "defaults: { algorithm: ring, slot_size: 1 MiB }");
    let ends = multiprocessing::spawn(&mut context, 8, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        #[expect(clippy::cast_precision_loss, reason = "few ranks")]
        let x = cx.full([1 << 18], rank as f64, DType::F32)?;
        let start = cx.now();
        dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await?;
        let took = cx.now() - start;
        assert_eq!(x.to_vec().await?, vec![28.0; 1 << 18]);
        Ok(took)
    });
    assert_eq!(ends.unwrap(), vec![Time::ns(23_128); 8]);
}
