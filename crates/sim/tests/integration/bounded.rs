//! Memory is bounded: a long run keeps no more than a short one.

use crate::support::{Outcome, bare, pair, receive_sizes, solo, without_data};
use phalanx_sim::Time;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{Tl, View};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Value};
use std::process::Command;

/// Environment variable of a process that runs a single test.
const APART: &str = "PHALANX_TEST_APART";

/// Runs the test called `name` in a process of its own, without the memory of other tests.
fn apart(name: &str, body: impl FnOnce()) {
    if std::env::var_os(APART).is_some() {
        return body();
    }
    let test = format!("bounded::{name}");
    let arguments = ["--exact", &test, "--nocapture"];
    let child = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .env(APART, "1")
        .output()
        .unwrap();
    let said = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(child.status.success() && said[0].contains("1 passed"), "{}", said.concat());
}

/// Returns the bytes of this process that no file backs, swapped out or not, if the system reports them.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let kib = |name: &str| line(name)?.trim().trim_end_matches(" kB").parse::<u64>().ok();
    ["RssAnon:", "VmSwap:"].iter().filter_map(|name| kib(name)).sum::<u64>() * 1024
}

/// Runs `program` and returns the bytes that remain and the bytes that were added.
fn grown(program: impl FnOnce()) -> u64 {
    let before = resident();
    program();
    resident().saturating_sub(before)
}

const MIB: u64 = 1 << 20;
const ROUNDS: usize = 100_000;

async fn add_up(tl: Tl, region: Region) -> Outcome {
    let mut deepest = 0;
    for _ in 0..ROUNDS {
        let tile = tl.load(&View::of(&region)).await?;
        let sum = tl.add(&tile, &tl.full(DType::F32, region.elements, 1.0)?).await?;
        deepest = deepest.max(sum.value().map_or(0, |value| value.depth()));
        tl.store(&View::of(&region), &sum).await?;
    }
    assert!(deepest <= Value::DEEP + 2, "{deepest}");
    Ok(())
}

#[test]
fn a_long_loop_over_one_region_does_not_grow() {
    apart("a_long_loop_over_one_region_does_not_grow", || {
        let mut machine = Machine::new(bare(), Options::default());
        let region = machine.zeros(0, 0, DType::F32, 64).unwrap();
        machine.launch(0, "loop", &[PeId::first(0)], move |tl| add_up(tl, region));
        let growth = grown(|| drop(machine.run().unwrap()));
        assert!(growth < 24 * MIB, "{growth} bytes");
        assert!(
            machine.read(&region).unwrap().unwrap().to_f32().iter().all(|x| *x == ROUNDS as f32)
        );
    });
}

/// Transposes a 4 by 4 matrix again and again, without computing anything.
async fn transpose(tl: Tl, region: Region) -> Outcome {
    for _ in 0..ROUNDS {
        let tile = tl.load(&View::strided(&region, 0, [4, 4], [1, 4])).await?;
        assert!(tile.value().map_or(0, |value| value.depth()) <= Value::DEEP + 2);
        tl.store(&View::of(&region), &tile.reshape(16)?).await?;
    }
    Ok(())
}

#[test]
fn a_long_loop_that_only_moves_does_not_grow() {
    apart("a_long_loop_that_only_moves_does_not_grow", || {
        let mut machine = Machine::new(bare(), Options::default());
        let region = crate::support::counting(&machine, 0, 0, 16);
        machine.launch(0, "turn", &[PeId::first(0)], move |tl| transpose(tl, region));
        let growth = grown(|| drop(machine.run().unwrap()));
        assert!(growth < 24 * MIB, "{growth} bytes");
        let numbers: Vec<f32> = (0..16u8).map(f32::from).collect();
        assert_eq!(machine.read(&region).unwrap().unwrap().to_f32(), numbers);
    });
}

#[test]
fn a_long_queue_run_does_not_grow() {
    apart("a_long_queue_run_does_not_grow", || {
        let edge = EdgeSpec { slot_size: 64, ..EdgeSpec::default() };
        let (from, to) = (PeId::first(0), PeId::first(3));
        let growth = grown(|| {
            let report = pair(
                bare(),
                without_data(),
                (from, to),
                (
                    move |tl: Tl| async move {
                        let (sender, tile) = (tl.sender(to, edge)?, tl.zeros(DType::F32, 16)?);
                        for _ in 0..ROUNDS {
                            tl.send(&sender, &tile).await;
                        }
                        Ok(())
                    },
                    move |tl| receive_sizes(tl, from, edge, vec![64; ROUNDS], Time::ZERO),
                ),
            );
            assert_eq!(report.unwrap().edges[0].messages, ROUNDS as u64);
        });
        assert!(growth < 24 * MIB, "{growth} bytes");
    });
}

#[test]
fn mem_5_freed_regions_give_their_memory_back() {
    apart("mem_5_freed_regions_give_their_memory_back", || {
        let machine = Machine::new(bare(), Options::default());
        let growth = grown(|| {
            for _ in 0..200 {
                let region = machine
                    .resident(0, 0, Value::from_f32(DType::F32, &vec![1.0; 1 << 20]))
                    .unwrap();
                machine.free(&region);
            }
        });
        assert!(growth < 64 * MIB, "MEM-5: {growth} bytes of 800 MiB");
    });
}

#[test]
fn tiles_that_nobody_reaches_are_freed() {
    apart("tiles_that_nobody_reaches_are_freed", || {
        let growth = grown(|| {
            let run = solo(bare(), Options::default(), |tl| async move {
                for _ in 0..200 {
                    let tile = tl.full(DType::F32, 1 << 20, 2.0)?;
                    let square = tl.mul(&tile, &tile).await?;
                    assert_eq!(tl.item(&square, 77)?, 4.0);
                }
                Ok(())
            });
            drop(run.unwrap());
        });
        assert!(growth < 64 * MIB, "{growth} bytes of 800 MiB");
    });
}
