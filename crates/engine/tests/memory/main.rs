//! The cost of tasks in memory and in steps, as counts that are the same on every machine. A program of its own, as its
//! allocator counts.

mod patterns;

use patterns::{Driver, PATTERNS, Pattern};

/// Allocations of `tasks` more tasks of a run that has had some, so that each buffer was used a few times.
fn allocations(pattern: Pattern, tasks: u64) -> u64 {
    let mut driver = Driver::new(1024);
    driver.submit(pattern, 200_000);
    allocation_counter::measure(|| driver.submit(pattern, tasks)).count_total
}

#[test]
fn the_counter_counts() {
    let info = allocation_counter::measure(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!((info.count_total, info.bytes_total), (1, 100));
}

#[test]
fn eng_3_in_steady_state_a_task_allocates_nothing() {
    for pattern in PATTERNS {
        assert_eq!(allocations(pattern, 20_000), 0, "{pattern:?}");
    }
}

#[test]
fn b_45_memory_is_flat_over_many_runs_of_an_engine_that_is_never_idle() {
    let mut driver = Driver::new(256);
    let mut some_runs = || {
        for pattern in PATTERNS.into_iter().cycle().take(30) {
            driver.submit(pattern, 2000);
            driver.next_run();
        }
    };
    some_runs();
    some_runs();
    let grown = allocation_counter::measure(some_runs).bytes_current;
    assert_eq!(grown, 0, "bytes more after 60000 tasks than before");
}

/// Says that this is the child of the test below.
const CHILD: &str = "PHALANX_ENGINE_MEMORY_CHILD";

/// In a process of its own, so that nothing else counts.
#[test]
fn ring_1_a_million_tasks_against_a_full_ring_need_little_memory() {
    if std::env::var_os(CHILD).is_some() {
        return a_million_tasks();
    }
    let itself = std::env::current_exe().expect("this program");
    let name = "ring_1_a_million_tasks_against_a_full_ring_need_little_memory";
    let child = std::process::Command::new(itself).args(["--exact", name]).env(CHILD, "1").output();
    let output = child.expect("a child");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn a_million_tasks() {
    let info = allocation_counter::measure(|| {
        let mut driver = Driver::new(1024);
        for _ in 0..10 {
            driver.submit(Pattern::Stencil, 100_000);
            assert!(driver.stats().tasks <= 1024 && driver.stats().accesses <= 4 * 1024);
        }
        assert!(driver.blocked > 900, "the ring was full {} times", driver.blocked);
        driver.finish();
        let left = driver.stats();
        assert_eq!((left.tasks, left.accesses, left.regions, left.queued), (0, 0, 0, 0));
    });
    assert!(info.bytes_max < 16 << 20, "{} bytes at a time", info.bytes_max);
    let most = resident();
    assert!(most < 64 << 20, "{most} bytes of the process");
}

/// The most bytes that this process ever had in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

/// Steps for each of `tasks` tasks after as many as `before`, in hundredths.
fn steps(pattern: Pattern, slots: u32, before: u64, tasks: u64) -> u64 {
    let mut driver = Driver::new(slots);
    driver.submit(pattern, before);
    let begun = driver.stats().visits;
    driver.submit(pattern, tasks);
    (driver.stats().visits - begun) * 100 / tasks
}

#[test]
fn tm_6_a_task_costs_the_same_however_many_came_before() {
    for pattern in PATTERNS {
        let (early, late) =
            (steps(pattern, 1024, 65_536, 16_384), steps(pattern, 1024, 393_216, 16_384));
        assert!(late <= early + early / 20, "{pattern:?}: {early} then {late}");
    }
}

#[test]
fn tm_6_a_task_costs_no_more_than_a_logarithm_of_live_tasks() {
    // Slices meet the more the more there are; for them, see below.
    for pattern in &PATTERNS[..5] {
        let pattern = *pattern;
        let (few, many) =
            (steps(pattern, 64, 1024, 16_384), steps(pattern, 16_384, 65_536, 131_072));
        assert!(many <= 2 * few, "{pattern:?}: {few} with 64 live tasks, {many} with 16384");
    }
}

#[test]
fn tm_6_a_view_costs_no_more_than_a_logarithm_of_the_views_of_its_buffer() {
    let cost = |views: u64| {
        let mut driver = Driver::new(u32::try_from(views).expect("small") + 1);
        driver.submit_slices(views);
        let begun = driver.stats().visits;
        assert_eq!(driver.stats().regions as u64, views);
        driver.read_slices(views);
        driver.finish();
        (driver.stats().visits - begun) / views
    };
    // Looking up, entering and leaving: a few paths of a tree, each of about 1.4 log2 steps.
    for (views, most) in [(100, 60), (1000, 90), (10_000, 120), (100_000, 150)] {
        let cost = cost(views);
        assert!(cost <= most, "{cost} steps for each of {views} views");
    }
}
