//! Graphs among the other requests of a rank.

use super::*;
use crate::support::nap as launch_nap;

#[test]
fn grf_9_a_graph_comes_after_what_was_asked_before_and_before_what_is_asked_later() {
    let mut context = quad();
    let numbers = context.run(|cx| async move {
        let (x, y) = (cx.full([64, 64], 1.0, DType::F32)?, matrix(&cx, 64, 64)?);
        launch_nap(&cx, &x, Time::us(5));
        let before = cx.now();
        let graph = cx.graph("middle", GraphOptions::default())?;
        graph.submit(KernelTask::new("increment", increment).input(&x).output(&y)).await?;
        assert!(cx.now() >= before + Time::us(5), "GRF-9: naming waits for the launch");
        let read = cx.launch(
            "after",
            Grid::Pes(1),
            &[phalanx_torch::Arg::read(&y)],
            |tl, args| async move {
                let tile = tl.load(&args.view(0)?).await?;
                assert!(
                    (tl.item(&tile, 0)? - 2.0).abs() < 1e-9,
                    "GRF-9: what is asked later sees the graph's numbers"
                );
                Ok(())
            },
        )?;
        assert!(!read.is_over());
        graph.finish().await?;
        read.wait().await?;
        y.to_vec().await
    });
    assert_eq!(numbers.expect("numbers"), vec![2.0; 64 * 64], "GRF-9");
}

#[test]
fn grf_9_a_tensor_whose_writer_failed_cannot_be_named() {
    let text = chip().run(|cx| async move {
        let x = matrix(&cx, 1, 4)?;
        let launched = crate::support::failing(&cx, &x);
        let graph = cx.graph("late", free(1))?;
        let text = graph.submit(nap(1).input(&x)).await.expect_err("x failed").to_string();
        assert!(launched.wait().await.is_err());
        graph.submit(nap(1)).await?;
        graph.finish().await?;
        Ok(text)
    });
    let text = text.expect("the rest goes on");
    assert!(text.contains("was not begun: kernel `failing` on sip0.cube0.pe0 failed"), "{text}");
}

#[test]
fn reading_a_tensor_of_a_graph_that_is_open_is_a_deadlock_that_says_finish() {
    let error = chip()
        .run(|cx| async move {
            let x = matrix(&cx, 1, 4)?;
            let graph = cx.graph("open", free(1))?;
            graph.submit(nap(1).output(&x)).await?;
            x.to_vec().await?;
            graph.finish().await?;
            Ok(())
        })
        .expect_err("a deadlock");
    let text = error.to_string();
    assert!(text.contains("the end of graph `open`, which `finish` waits for"), "{text}");
}

#[test]
fn each_task_costs_a_launch_command_or_what_the_chip_takes() {
    let time = |dispatch, depth| {
        let took = quad().run(move |cx| async move {
            let options =
                GraphOptions { pes: Grid::Pes(1), dispatch, depth, ..GraphOptions::default() };
            let graph = cx.graph("cost", options)?;
            submit_all(&graph, (0..4).map(|_| nap(100))).await?;
            Ok(graph.finish().await?.simulated())
        });
        took.expect("four naps")
    };
    // 64 bytes at 64 GB/s and 1 us of latency, four times in turn.
    assert_eq!(time(Dispatch::Command, 1), Time::ns(4 * 1101));
    // With two at a PE every second command is hidden behind the first.
    assert!(time(Dispatch::Command, 2) < Time::ns(3 * 1101));
    assert_eq!(time(Dispatch::OnChip(Time::ns(20)), 1), Time::ns(4 * 120));
    assert_eq!(time(Dispatch::OnChip(Time::ZERO), 1), Time::ns(400));
}

#[test]
fn tasks_can_be_kept_to_the_pes_of_a_cube() {
    let pes = quad().run(|cx| async move {
        let options =
            GraphOptions { pools: phalanx_device::graph::Pools::Cubes, ..GraphOptions::default() };
        let graph = cx.graph("cubes", options)?;
        for cube in 0..4 {
            graph.submit(nap(10).target(phalanx_device::graph::TaskTarget::Cube(cube))).await?;
        }
        let text = graph.submit(nap(10)).await.expect_err("no pool of all").to_string();
        assert!(text.ends_with("place it on a cube, or use `Pools::Whole`"), "{text}");
        let outcome = graph.finish().await?;
        Ok(outcome.tasks().iter().map(|task| task.pes[0].cube).collect::<Vec<_>>())
    });
    assert_eq!(pes.expect("cubes"), [0, 1, 2, 3]);
}
