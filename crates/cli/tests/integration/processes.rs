//! A program without MPI that `mpirun` has started several times.
#![cfg(not(feature = "mpi"))]

use crate::phalanx;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn one_run_in_several_processes_says_how_to_build_with_mpi() {
    for [rank, size] in [["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"], ["PMI_RANK", "PMI_SIZE"]]
    {
        for words in [&["run", "ring"][..], &["ccl", "all_reduce", "-e", "1K"]] {
            let first = phalanx().args(words).envs([(rank, "0"), (size, "4")]).output();
            let first = first.expect("the program starts");
            let said = text(&first.stderr);
            assert_eq!((first.status.code(), text(&first.stdout)), (Some(1), String::new()));
            assert!(said.contains("one run in 4 processes needs MPI"), "{said}");
            assert!(said.contains("`cargo build --release --features mpi`"), "{said}");
            let other = phalanx().args(words).envs([(rank, "3"), (size, "4")]).output();
            let other = other.expect("the program starts");
            assert_eq!((text(&other.stdout), text(&other.stderr)), (String::new(), String::new()));
        }
    }
    let one = phalanx().args(["run", "ring"]).envs([("PMI_RANK", "0"), ("PMI_SIZE", "1")]).output();
    assert!(one.expect("the program starts").status.success(), "one process is alone");
    let list = phalanx().arg("run").envs([("PMI_RANK", "0"), ("PMI_SIZE", "2")]).output();
    assert!(list.expect("the program starts").status.success(), "a list is no run");
}

#[test]
fn the_doctor_says_that_mpi_is_missing() {
    let ended = phalanx().args(["doctor", "mpi"]).output().expect("the program starts");
    let said = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.starts_with("phalanx      missing  this program was built without MPI"), "{said}");
}
