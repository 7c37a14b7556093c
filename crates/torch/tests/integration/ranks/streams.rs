//! Streams and events.

use super::{bare, failing, nap, quad};
use phalanx_sim::kernel::Tl;
use phalanx_sim::topology::PeId;
use phalanx_sim::{DType, Time};
use phalanx_torch::multiprocessing::spawn;
use phalanx_torch::{Arg, Error, Event, Grid, Handle, Rank, Tensor, distributed as dist};
use std::cell::RefCell;
use std::rc::Rc;

/// Keeps a PE of its own busy.
fn busy(cx: &Rank, tensor: &Tensor, pe: u16, span: Time) -> Handle {
    let kernel = move |tl: Tl, _| async move {
        tl.compute(span).await;
        Ok(())
    };
    let on = Grid::On(vec![PeId { sip: 0, cube: 0, pe }]);
    cx.launch("busy", on, &[Arg::write(tensor)], kernel).expect("a grid")
}

#[test]
fn str_1_requests_on_a_stream_begin_one_after_another() {
    let times = quad().run(|cx| async move {
        let (x, y) = (cx.zeros([8], DType::F32)?, cx.zeros([8], DType::F32)?);
        cx.synchronize().await?;
        let mut times = Vec::new();
        for streams in 0..3 {
            let (one, other) = (cx.stream("one"), cx.stream("other"));
            let before = cx.now();
            if streams == 0 {
                busy(&cx, &x, 0, Time::us(10));
                busy(&cx, &y, 1, Time::us(10));
            } else {
                let second = if streams == 1 { &one } else { &other };
                one.run(|| busy(&cx, &x, 0, Time::us(10)));
                let _on = second.enter();
                busy(&cx, &y, 1, Time::us(10));
            }
            cx.synchronize().await?;
            times.push(cx.now() - before);
        }
        Ok(times)
    });
    let times = times.unwrap();
    assert_eq!(times[0], times[2], "STR-1: two streams do not wait for each other");
    assert!(times[1] >= Time::us(20) && times[0] < Time::us(15), "STR-1: {times:?}");
}

#[test]
fn str_1_making_memory_known_takes_no_part() {
    let done = quad().run(|cx| async move {
        let x = cx.zeros([8], DType::F32)?;
        let stream = cx.stream("compute");
        let long = stream.run(|| nap(&cx, &x, Time::us(50)));
        let on = stream.enter();
        let y = cx.empty([8], DType::F32)?;
        drop(on);
        y.fill_(1.0)?.wait().await?;
        Ok(long.is_over())
    });
    assert!(!done.unwrap(), "STR-1: only the fill would have waited");
}

#[test]
fn str_2_a_stream_waits_for_the_event_of_another_and_the_host_for_none() {
    let done = quad().run(|cx| async move {
        let tensors: Result<Vec<Tensor>, Error> =
            (0..3).map(|_| cx.zeros([8], DType::F32)).collect();
        let tensors = tensors?;
        cx.synchronize().await?;
        let (compute, copies) = (cx.stream("compute"), cx.stream("copies"));
        assert!(compute.record().is_over(), "nothing is on it");
        let before = cx.now();
        let first = compute.run(|| busy(&cx, &tensors[0], 0, Time::us(10)));
        let event = compute.record();
        let second = compute.run(|| busy(&cx, &tensors[1], 0, Time::us(30)));
        copies.wait(&event);
        let third = copies.run(|| busy(&cx, &tensors[2], 1, Time::us(1)));
        assert_eq!(cx.now(), before, "STR-2: the host waits for nothing");
        assert!(!event.is_over() && format!("{compute:?}") == "stream `compute` of rank 0");
        event.wait().await?;
        assert!(first.is_over() && !third.is_over(), "STR-2");
        third.wait().await?;
        assert!(!second.is_over(), "STR-2: the event was recorded before it");
        let at = cx.now() - before;
        compute.synchronize().await?;
        assert!(second.is_over());
        // An event of a request, or of a work, and one that holds nothing.
        copies.wait(&second.event());
        copies.wait(&Event::default());
        copies.run(|| busy(&cx, &tensors[0], 1, Time::us(1))).wait().await?;
        Ok(at)
    });
    let at = done.unwrap();
    assert!(at > Time::us(11) && at < Time::us(20), "{at}");
}

#[test]
fn str_3_a_failure_does_not_poison_what_comes_behind_it_on_the_stream() {
    let done = quad().run(|cx| async move {
        let (x, y) = (cx.zeros([8], DType::F32)?, cx.zeros([8], DType::F32)?);
        let stream = cx.stream("compute");
        let (bad, good) = stream.run(|| (failing(&cx, &x), nap(&cx, &y, Time::us(1))));
        good.wait().await?;
        Ok(bad.is_over() && bad.wait().await.is_err() && x.ready().await.is_err())
    });
    assert!(done.unwrap(), "STR-3");
}

/// The steps of a pipeline schedule: forward or backward, of a microbatch.
type Schedule = fn(stage: usize, stages: usize, batches: usize) -> Vec<(bool, usize)>;

fn gpipe(_: usize, _: usize, batches: usize) -> Vec<(bool, usize)> {
    let forward = (0..batches).map(|batch| (true, batch));
    forward.chain((0..batches).map(|batch| (false, batch))).collect()
}

fn one_forward_one_backward(stage: usize, stages: usize, batches: usize) -> Vec<(bool, usize)> {
    let ahead = (stages - stage).min(batches);
    let mut steps: Vec<_> = (0..ahead).map(|batch| (true, batch)).collect();
    for batch in 0..batches {
        steps.push((false, batch));
        if batch + ahead < batches {
            steps.push((true, batch + ahead));
        }
    }
    steps
}

/// Issues a pipeline of three stages without waiting; the order in which each stage has run its steps, and the time.
fn pipeline(schedule: Schedule, with_stream: bool) -> (Vec<Vec<(bool, usize)>>, Time) {
    const STAGES: usize = 3;
    const BATCHES: usize = 5;
    let mut context = bare(STAGES, "");
    let orders = spawn(&mut context, STAGES, move |stage, cx| async move {
        dist::init_process_group(&cx)?;
        let stream = cx.stream("compute");
        let ran = Rc::new(RefCell::new(Vec::new()));
        let mut works = Vec::new();
        for (forward, batch) in schedule(stage, STAGES, BATCHES) {
            let x = cx.zeros([64], DType::F32)?;
            let tag = u32::try_from(2 * batch + usize::from(forward)).expect("few");
            let from = if forward { stage.checked_sub(1) } else { Some(stage + 1) };
            if let Some(from) = from.filter(|from| *from < STAGES) {
                works.push(dist::irecv(&cx, &x, from, tag, None)?);
            }
            let noted = ran.clone();
            let kernel = move |tl: Tl, _| {
                let ran = noted.clone();
                async move {
                    ran.borrow_mut().push((forward, batch));
                    tl.compute(Time::us(if forward { 10 } else { 20 })).await;
                    Ok(())
                }
            };
            let on = with_stream.then(|| stream.enter());
            cx.launch("step", Grid::Pes(1), &[Arg::write(&x)], kernel)?;
            drop(on);
            let to = if forward { Some(stage + 1) } else { stage.checked_sub(1) };
            if let Some(to) = to.filter(|to| *to < STAGES) {
                works.push(dist::isend(&cx, &x, to, tag, None)?);
            }
        }
        for work in works {
            work.wait().await?;
        }
        cx.synchronize().await?;
        Ok(ran.take())
    });
    (orders.unwrap(), context.now())
}

#[test]
fn str_1_one_f_one_b_and_gpipe_differ_when_nobody_waits() {
    let schedules: [Schedule; 2] = [gpipe, one_forward_one_backward];
    for schedule in schedules {
        let (orders, time) = pipeline(schedule, true);
        for (stage, order) in orders.iter().enumerate() {
            assert_eq!(*order, schedule(stage, 3, 5), "STR-1: stage {stage} keeps its schedule");
        }
        assert_eq!(pipeline(schedule, true), (orders, time), "twice the same");
    }
    let orders = schedules.map(|schedule| pipeline(schedule, true).0);
    assert_ne!(orders[0], orders[1]);
    // Without streams the chip does what is ready first, whatever the program meant.
    let loose = pipeline(gpipe, false).0;
    assert_ne!(loose, orders[0], "it does not keep the order of GPipe");
}
