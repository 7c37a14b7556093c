//! The closed forms of links, slots, the bounded-slot ring and GEMM, through the command line.

use crate::json;

fn simulated_ps(workload: &str, more: &[&str]) -> u64 {
    let words = [&["run", workload, "--machine", "bare", "--data", "off"], more].concat();
    json(&words)["simulated_ps"].as_u64().expect("a number")
}

#[test]
fn links() {
    assert_eq!(simulated_ps("ping", &["-p", "bytes=64KiB"]), 1_012_000);
    assert_eq!(simulated_ps("ping", &["-p", "bytes=4KiB", "-p", "messages=8"]), 756_000);
    assert_eq!(simulated_ps("ping", &["-p", "bytes=64KiB", "-p", "to=3"]), 3_036_000);
    let chunks = ["-p", "bytes=64KiB", "-p", "to=3", "-p", "chunk=4 KiB"];
    assert_eq!(simulated_ps("ping", &chunks), 2_076_000);
}

#[test]
fn slots_and_credits() {
    for (slots, ps) in [(1, 71_692_000), (4, 17_932_000), (9, 8_692_000), (16, 8_692_000)] {
        let slots = format!("n_slots={slots}");
        let words = ["-p", "chunks=64", "-p", "slot_size=16KiB", "-p", &slots];
        assert_eq!(simulated_ps("queue", &words), ps, "{slots}");
    }
}

#[test]
fn rings() {
    let stepwise = ["-p", "bytes=1MiB", "-p", "slot_size=128KiB", "-p", "n_slots=2"];
    assert_eq!(simulated_ps("ring", &stepwise), 23_128_000);
    for (ranks, ps) in [(4, 439_180_000), (16, 549_004_000), (64, 576_460_000)] {
        let ranks = format!("system.sips.count={ranks}");
        assert_eq!(simulated_ps("ring", &["-p", "bytes=16MiB", "--set", &ranks]), ps, "{ranks}");
    }
}

#[test]
fn gemm_on_one_pe() {
    for (bandwidth, ps) in [(256, 262_928_000), (64, 627_912_000)] {
        let dma = format!("pe.dma={{bandwidth: {bandwidth} GB/s, latency: 200 ns}}");
        assert_eq!(simulated_ps("gemm", &["-p", "pes=1", "--set", &dma]), ps, "{dma}");
    }
}
