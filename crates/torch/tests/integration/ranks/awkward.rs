//! Programs that ask for awkward things: overlapping copies, views, failures that were seen, tensors that outlive
//! their program.

use super::machine;
use phalanx_sim::DType;
use phalanx_sim::kernel::KernelError;
use phalanx_sim::machine::Options;
use phalanx_torch::{Arg, Context, Grid, Tensor, multiprocessing};
use std::cell::RefCell;
use std::rc::Rc;

fn quad() -> Context {
    Context::new(machine("quad-sip", &[]), Options::default())
}

/// Tensors kept from one program for the next, by rank.
type Kept = Rc<RefCell<Vec<Option<Tensor>>>>;

fn nothing_kept() -> Kept {
    Rc::new(RefCell::new(vec![None; 4]))
}

#[test]
fn a_copy_onto_itself_reads_everything_before_it_writes() {
    quad()
        .run(|cx| async move {
            let n = 1_usize << 18;
            let x = cx.arange(0.0, 262_144.0, 1.0, DType::F32)?;
            x.narrow(0, 1, n - 1)?.copy_(&x.narrow(0, 0, n - 1)?)?;
            let shifted = x.to_vec().await?;
            #[expect(clippy::cast_precision_loss, reason = "below 2^24")]
            let right: Vec<f32> = (0..n).map(|index| index.saturating_sub(1) as f32).collect();
            assert!(shifted == right);
            let y = cx.arange(0.0, 65_536.0, 1.0, DType::F32)?.reshape([256, 256])?;
            y.copy_(&y.transpose(0, 1)?)?;
            assert_eq!(y.to_vec().await?[1..3], [256.0, 512.0]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_view_is_filled_alone_and_whole_numbers_stay_whole() {
    quad()
        .run(|cx| async move {
            let x = cx.zeros([4], DType::F32)?;
            x.narrow(0, 0, 2)?.fill_(5.0)?;
            assert_eq!(x.to_vec().await?, [5.0, 5.0, 0.0, 0.0]);
            let whole = cx.arange(16_777_216.0, 16_777_220.0, 1.0, DType::I32)?;
            assert_eq!(whole.to_vec_i32().await?, [16_777_216, 16_777_217, 16_777_218, 16_777_219]);
            let before = cx.now();
            whole.to_vec_i32().await?;
            let once = cx.now() - before;
            whole.to_vec().await?;
            assert_eq!(cx.now() - before, once + once, "read once, as any other");
            assert!(x.reshape([usize::MAX / 2 + 2, 4]).is_err());
            assert_eq!(cx.zeros([0, usize::MAX, usize::MAX], DType::F32)?.numel(), 0);
            Ok(())
        })
        .unwrap();
}

#[test]
fn req_3_a_failed_reader_poisons_nobody_and_an_overwrite_heals() {
    quad()
        .run(|cx| async move {
            let x = cx.zeros([4], DType::F32)?;
            let fails = |_, _| async { Err(KernelError::Other("boom".into())) };
            for arg in [Arg::read(&x), Arg::write(&x)] {
                let handle = cx.launch("k", Grid::Pes(1), &[arg], fails)?;
                assert!(handle.wait().await.is_err());
                x.fill_(2.0)?;
                assert_eq!(x.to_vec().await?, [2.0; 4], "REQ-3");
            }
            for _ in 0..2 {
                cx.launch("k", Grid::Pes(1), &[Arg::read(&x)], fails)?;
            }
            assert!(cx.synchronize().await.is_err(), "the first of two");
            cx.synchronize().await.expect("both have been seen");
            Ok(())
        })
        .unwrap();
}

#[test]
fn mps_2_a_failure_on_a_tensor_of_an_earlier_program_is_reported() {
    let (mut context, kept) = (quad(), nothing_kept());
    let keep = kept.clone();
    context
        .run(move |cx| {
            let keep = keep.clone();
            async move {
                keep.borrow_mut()[0] = Some(cx.zeros([4], DType::F32)?);
                Ok(())
            }
        })
        .unwrap();
    let failed = context.run(move |cx| {
        let x = kept.borrow()[0].clone().expect("kept");
        async move {
            x.copy_(&cx.empty([4], DType::F32)?)?;
            Ok(())
        }
    });
    let error = failed.unwrap_err();
    assert!(error.errors[&0].to_string().contains("never written"), "MPS-2: {error}");
}

#[test]
fn mps_3_tensors_of_a_cancelled_program_can_be_written_again() {
    let (mut context, kept) = (quad(), nothing_kept());
    let keep = kept.clone();
    multiprocessing::spawn(&mut context, 4, move |rank, cx| {
        let keep = keep.clone();
        async move {
            let x = cx.zeros([1 << 20], DType::F32)?;
            x.ready().await?;
            x.copy_(&cx.full([1 << 20], 1.0, DType::F32)?)?;
            keep.borrow_mut()[rank] = Some(x);
            if rank == 2 { Err("enough".into()) } else { Ok(()) }
        }
    })
    .unwrap_err();
    multiprocessing::spawn(&mut context, 4, move |rank, _| {
        let x = kept.borrow()[rank].clone().expect("kept");
        async move {
            let error = x.to_vec().await.unwrap_err().to_string();
            assert!(error.contains("was cancelled with its program"), "{error}");
            x.fill_(3.0)?;
            assert_eq!(x.to_vec().await?[..2], [3.0, 3.0], "MPS-3");
            Ok(())
        }
    })
    .unwrap();
}

#[test]
fn a_kernel_is_given_tensors_of_its_own_rank_only() {
    let (mut context, kept) = (quad(), nothing_kept());
    let error = multiprocessing::spawn(&mut context, 2, move |rank, cx| {
        let kept = kept.clone();
        async move {
            if rank == 0 {
                kept.borrow_mut()[0] = Some(cx.zeros([4], DType::F32)?);
                return Ok(());
            }
            let theirs = kept.borrow()[0].clone().expect("rank 0 goes first");
            cx.launch("k", Grid::Pes(1), &[Arg::read(&theirs)], |_, _| async { Ok(()) })?;
            Ok(())
        }
    })
    .unwrap_err();
    assert!(error.errors[&1].to_string().contains("its own tensors only"), "{error}");
}
