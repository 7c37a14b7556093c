//! Messages from rank to rank (DST-4).

use super::{assert_usable, bare, nap, number, quad};
use phalanx_sim::{DType, Time};
use phalanx_torch::{Error, distributed as dist, multiprocessing::spawn};

#[test]
fn dst_4_a_message_arrives_and_says_where_from() {
    for len in [0, 1, 7, 4096, 100_000] {
        let results = spawn(&mut quad(), 3, move |rank, cx| async move {
            dist::init_process_group(&cx)?;
            let x = cx.full([len], f64::from(number(rank)), DType::F16)?;
            match rank {
                0 => dist::send(&cx, &x, 2, 5, None).await.map(|()| None),
                2 => {
                    let source = dist::recv(&cx, &x, 0, 5, None).await?;
                    assert_eq!(x.to_vec().await?, vec![0.0; len]);
                    Ok(source)
                }
                _ => Ok(None),
            }
        });
        assert_eq!(results.unwrap(), [None, None, Some(0)]);
    }
}

#[test]
fn dst_4_ranks_that_send_to_each_other_before_they_receive_do_not_block() {
    // Far more than the queues hold.
    let results =
        spawn(&mut bare(2, "defaults: { n_slots: 1, slot_size: 64 }"), 2, |rank, cx| async move {
            dist::init_process_group(&cx)?;
            let (x, y) = (
                cx.full([5_000], f64::from(number(rank)), DType::F32)?,
                cx.zeros([5_000], DType::F32)?,
            );
            dist::send(&cx, &x, 1 - rank, 0, None).await?;
            dist::recv(&cx, &y, 1 - rank, 0, None).await?;
            let busy = nap(&cx, &x, Time::us(1));
            busy.wait().await?;
            y.to_vec().await
        });
    assert_eq!(results.unwrap(), [vec![1.0; 5_000], vec![0.0; 5_000]]);
}

#[test]
fn dst_4_hst_3_a_message_that_has_not_come_holds_up_no_kernel() {
    spawn(&mut bare(2, ""), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let (x, y) = (cx.zeros([8], DType::F32)?, cx.full([8], 3.0, DType::F32)?);
        if rank == 0 {
            let work = dist::irecv(&cx, &x, 1, 0, None)?;
            nap(&cx, &y, Time::us(1)).wait().await?;
            assert!(cx.now() < Time::us(10) && !work.is_completed().await);
            work.wait().await?;
            assert_eq!(x.to_vec().await?, [3.0; 8]);
            assert!(cx.now() > Time::us(50));
            return Ok(());
        }
        cx.sleep(Time::us(50)).await;
        dist::send(&cx, &y, 0, 0, None).await
    })
    .unwrap();
}

#[test]
fn dst_4_messages_of_a_tag_come_in_order_and_tags_do_not_mix() {
    spawn(&mut quad(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let make = |value: u8| cx.full([3000], f64::from(value), DType::F32);
        if rank == 0 {
            let mut works = Vec::new();
            for (value, tag) in [(1, 0), (2, 1), (3, 0), (4, 1), (5, 1023)] {
                works.push(dist::isend(&cx, &make(value)?, 1, tag, None)?);
            }
            for work in &works {
                work.wait().await?;
            }
            return Ok(());
        }
        let mut received = Vec::new();
        for tag in [1023, 1, 0, 0, 1] {
            let into = make(0)?;
            received.push((dist::irecv(&cx, &into, 0, tag, None)?, into));
        }
        let mut values = Vec::new();
        for (work, into) in received.iter().rev() {
            work.wait().await?;
            assert_eq!(work.source_rank(), Some(0));
            let numbers = into.to_vec().await?;
            assert!(numbers.iter().all(|n| n.to_bits() == numbers[0].to_bits()));
            values.push(numbers[0]);
        }
        assert_eq!(values, [4.0, 3.0, 1.0, 2.0, 5.0]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn dst_4_a_tensor_may_be_written_when_its_send_is_over() {
    let results = spawn(&mut quad(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([50_000], 1.0, DType::F32)?;
        if rank == 0 {
            dist::isend(&cx, &x, 1, 0, None)?.wait().await?;
            x.fill_(9.0)?.wait().await?;
            return Ok(1.0);
        }
        cx.sleep(Time::us(100)).await;
        dist::recv(&cx, &x, 0, 0, None).await?;
        Ok(x.to_vec().await?.into_iter().fold(0.0, f32::max))
    });
    assert_eq!(results.unwrap(), [1.0, 1.0]);
}

#[test]
fn dst_4_messages_of_a_group_are_between_ranks_of_the_world() {
    let results = spawn(&mut quad(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let odd = dist::new_group(&cx, &[3, 1])?;
        let x = cx.full([4], f64::from(number(rank)), DType::I32)?;
        if rank == 1 {
            dist::send(&cx, &x, 3, 0, Some(&odd)).await?;
        } else {
            let source = dist::recv(&cx, &x, 1, 0, Some(&odd)).await?;
            assert_eq!(source, (rank == 3).then_some(1));
        }
        x.to_vec_i32().await
    });
    assert_eq!(results.unwrap(), [[0; 4], [1; 4], [2; 4], [1; 4]]);
}

#[test]
fn dst_4_messages_and_collectives_do_not_mix() {
    let results = spawn(&mut quad(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([1000], 1.0, DType::F32)?;
        let (mine, theirs) =
            (cx.full([1000], f64::from(number(rank)), DType::F32)?, cx.zeros([1000], DType::F32)?);
        let coming = dist::irecv(&cx, &theirs, (rank + 3) % 4, 0, None)?;
        let sum = dist::all_reduce_async(&cx, &x, dist::ReduceOp::Sum, None)?;
        dist::send(&cx, &mine, (rank + 1) % 4, 0, None).await?;
        sum.wait().await?;
        coming.wait().await?;
        Ok((x.to_vec().await?[999], theirs.to_vec().await?[999]))
    });
    assert_eq!(results.unwrap(), [(4.0, 3.0), (4.0, 0.0), (4.0, 1.0), (4.0, 2.0)]);
}

#[test]
fn dst_2_ccl_2_a_message_of_another_size_or_type_shows_both_sides() {
    let mut context = quad();
    for (len, dtype, words) in [
        (8, DType::F32, "f32[8]"),
        (4, DType::F16, "f16[4]"),
        (0, DType::F32, "f32[0]"),
        (2, DType::I32, "i32[2]"),
    ] {
        let error = spawn(&mut context, 2, move |rank, cx| async move {
            dist::init_process_group(&cx)?;
            if rank == 0 {
                return dist::send(&cx, &cx.zeros([4], DType::F32)?, 1, 0, None).await;
            }
            dist::recv(&cx, &cx.zeros([len], dtype)?, 0, 0, None).await.map(drop)
        });
        let error = error.unwrap_err();
        assert!(matches!(error.errors[&1], Error::Mismatch(_)));
        assert_eq!(
            error.to_string(),
            format!(
                "[rank 1] the ranks do not do the same:\n\
                 [rank 1]   rank 1 is in a message from rank 0 to rank 1 with tag 0 in the world: {words}\n\
                 [rank 1]   rank 0 is in a message from rank 0 to rank 1 with tag 0 in the world: f32[4]"
            )
        );
        assert_usable(&mut context);
    }
}

#[test]
fn dst_4_a_message_that_nobody_receives_is_an_error() {
    let mut context = quad();
    let error = spawn(&mut context, 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        if rank == 0 {
            dist::send(&cx, &cx.zeros([4], DType::F32)?, 1, 0, None).await?;
        }
        Ok(())
    });
    let text = error.unwrap_err().to_string();
    assert_eq!(
        text,
        "[rank 0] rank 0 sent rank 1 a message with tag 0 in the world that nobody received"
    );
    assert_usable(&mut context);
}
