//! Sweeps of workloads: the same rows whatever runs them.

use phalanx_workloads::sweep::{Axis, Journal, MachineText, Point, Row, Share, Sweep, Team, svg};
use phalanx_workloads::{find, sweep};
use std::path::{Path, PathBuf};

fn ring(axes: &[&str]) -> Sweep {
    let machines = ["bare", "pair"].map(|name| MachineText::preset(name).unwrap());
    let mut sweep = Sweep::new(find("ring").unwrap(), machines.to_vec());
    sweep.axes = axes.iter().map(|text| Axis::parse(text).unwrap()).collect();
    sweep
}

fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn lines(sweep: &Sweep, rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.json(sweep)).collect()
}

/// A sweep with points that fail among points that do not.
fn mixed() -> (Sweep, Vec<Point>) {
    let sweep = ring(&["system.sips.link.bandwidth=64..256GB/s:x2", "bytes=64KiB,3,1MiB"]);
    let points = sweep.grid().unwrap();
    (sweep, points)
}

#[test]
fn swe_1_rows_do_not_depend_on_threads_or_shares() {
    let (sweep, points) = mixed();
    let one = sweep.run(&points, 1);
    assert_eq!(one.len(), 18);
    assert_eq!(lines(&sweep, &one), lines(&sweep, &sweep.run(&points, 3)));
    let mut shared: Vec<(usize, Row)> = Vec::new();
    for index in 0..3 {
        let team = Team::Share(Share { index, of: 3 });
        let mut given = (0..points.len()).filter(|at| team.gives(*at));
        sweep
            .run_with(&points, 1, None, &team, &mut |row| {
                shared.push((given.next().expect("a row of this share"), row.clone()));
            })
            .unwrap();
    }
    shared.sort_by_key(|(at, _)| *at);
    let shared: Vec<Row> = shared.into_iter().map(|(_, row)| row).collect();
    assert_eq!(lines(&sweep, &one), lines(&sweep, &shared));
}

#[test]
fn swe_2_a_point_that_cannot_run_is_a_row_with_its_error() {
    let (sweep, points) = mixed();
    let rows = sweep.run(&points, 2);
    let failed: Vec<&Row> = rows.iter().filter(|row| row.outcome.is_err()).collect();
    assert_eq!(failed.len(), 6);
    for row in failed {
        assert_eq!(row.point.value("bytes"), Some("3"));
        assert!(row.json(&sweep).contains("\"simulated_ps\": null, \"error\": \""));
    }
}

#[test]
fn swe_3_a_row_of_the_journal_is_not_run_again() {
    let (sweep, points) = mixed();
    let path = directory("swe-3");
    let fresh = sweep.run(&points, 2);
    // A journal that says something else shows that it is believed, and that only what is missing is run.
    let mut journal = Journal::open(&path, "test").unwrap();
    journal.keep(&sweep.key(&points[4]), &Ok(phalanx_sim::Time::ps(7))).unwrap();
    // The end of a line is missing, as after a crash.
    std::fs::write(path.join("cut.jsonl"), format!("{{\"key\": \"{}\"", sweep.key(&points[0])))
        .unwrap();
    let mut again = Vec::new();
    let mut tell = |row: &Row| again.push(row.clone());
    sweep.run_with(&points, 2, Some(&mut journal), &Team::Alone, &mut tell).unwrap();
    assert_eq!(again[4].time(), Some(phalanx_sim::Time::ps(7)));
    again[4] = fresh[4].clone();
    assert_eq!(again, fresh);
    let kept = Journal::open(&path, "later").unwrap();
    assert!(points.iter().all(|point| kept.row(&sweep.key(point)).is_some()));
    // Another content is another row.
    let other = Sweep { data: true, ..sweep.clone() };
    assert!(kept.row(&other.key(&points[0])).is_none());
    kept.close(&Team::Alone, true).unwrap();
    assert!(!path.exists());
}

/// One process of a team that shares the mixed sweep in `path`: its journal, still open, and the rows that it gives.
fn member(path: &Path, team: &Team) -> (Journal, Vec<Row>) {
    let (sweep, points) = mixed();
    let mut journal = Journal::open(path, &team.who()).unwrap();
    let mut rows = Vec::new();
    let mut tell = |row: &Row| rows.push(row.clone());
    sweep.run_with(&points, 1, Some(&mut journal), team, &mut tell).unwrap();
    (journal, rows)
}

#[test]
fn swe_4_processes_that_claim_run_each_point_once() {
    let (sweep, points) = mixed();
    let path = directory("swe-4");
    let team = |rank| Team::Member { rank, size: 3, job: "one".to_owned() };
    // Three members beside each other, as three processes are: each with a journal of its own over one directory.
    let member = |rank: usize| member(&path, &team(rank)).1;
    let rows = std::thread::scope(|scope| {
        let others = [1, 2].map(|rank| scope.spawn(move || member(rank)));
        let first = member(0);
        for other in others {
            assert!(other.join().unwrap().is_empty(), "only process 0 gives rows");
        }
        first
    });
    assert_eq!(rows, sweep.run(&points, 1));
    let written: usize = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .map(|path| std::fs::read_to_string(path).unwrap().lines().count())
        .sum();
    assert_eq!(written, points.len());
}

#[test]
fn swe_5_a_process_that_comes_late_finds_all_rows() {
    let (sweep, points) = mixed();
    for remove in [true, false] {
        let path = directory("swe-5");
        let team = |rank| Team::Member { rank, size: 2, job: "one".to_owned() };
        let member = |rank: usize| {
            let (journal, rows) = member(&path, &team(rank));
            journal.close(&team(rank), remove && rank == 0).unwrap();
            rows
        };
        assert_eq!(member(0), sweep.run(&points, 1));
        let late = Journal::open(&path, "a look").unwrap();
        assert!(points.iter().all(|point| late.row(&sweep.key(point)).is_some()), "SWE-5");
        drop(late);
        assert!(member(1).is_empty());
        assert_eq!(path.exists(), !remove, "SWE-5: the last process removes the directory");
        assert!(!path.join("claims-one").exists(), "SWE-5: nobody claims any more");
    }
}

#[test]
fn swe_5_the_directory_stays_until_the_last_process_closes() {
    let team = |rank| Team::Member { rank, size: 3, job: "one".to_owned() };
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let path = directory("swe-5-order");
        let mut journals = [1, 2, 0].map(|rank| (rank, Some(member(&path, &team(rank)).0)));
        for (closed, rank) in order.into_iter().enumerate() {
            assert!(path.exists(), "SWE-5: {closed} of {order:?} have closed");
            let journal = journals.iter_mut().find(|(one, _)| *one == rank).unwrap();
            journal.1.take().unwrap().close(&team(rank), rank == 0).unwrap();
        }
        assert!(!path.exists(), "SWE-5: {order:?}");
    }
}

#[test]
fn a_mistake_in_all_values_of_an_axis_is_found_before_the_sweep() {
    let sweep = ring(&["bytes=64KiB", "slots=1,2"]);
    let error = sweep.check(&sweep.grid().unwrap()).unwrap_err().to_string();
    assert!(error.contains("unknown parameter `slots`"), "{error}");
    let sweep = ring(&["system.sips.lnk.bandwidth=64GB/s,128GB/s"]);
    let error = sweep.check(&sweep.grid().unwrap()).unwrap_err().to_string();
    assert!(error.contains("lnk"), "{error}");
    let (sweep, points) = mixed();
    sweep.check(&points).unwrap();
}

#[test]
fn a_drawing_has_a_curve_for_each_choice() {
    let (sweep, points) = mixed();
    let text = svg(&sweep, &sweep.run(&points, 2));
    assert_eq!(text.matches("<polyline").count(), 4);
    assert!(text.contains("64GB/s") && text.contains("bare bytes=1MiB"), "{text}");
    assert!(svg(&sweep, &[]).contains("</svg>"));
    assert_eq!(sweep::CODE.len(), 16);
}
