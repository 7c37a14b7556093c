//! The variables by which a launcher such as `mpirun` tells a process that it is one of several.

/// The variables of launchers: the number of this process, the number of processes.
const LAUNCHERS: [[&str; 2]; 2] =
    [["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"], ["PMI_RANK", "PMI_SIZE"]];

/// Returns the number of this process and the number of processes, if the environment says that there are several.
pub fn started(variable: impl Fn(&str) -> Option<String>) -> Option<(usize, usize)> {
    let number = |name: &str| variable(name)?.trim().parse::<usize>().ok();
    let pairs =
        LAUNCHERS.into_iter().filter_map(|[rank, size]| Some((number(rank)?, number(size)?)));
    pairs.into_iter().find(|(rank, size)| *size > 1 && rank < size)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_number_from_open_mpi_and_mpich() {
        let of = |pairs: &[(&str, &str)]| {
            started(|name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(
            of(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")]),
            Some((2, 4))
        );
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "3")]), Some((0, 3)));
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        assert_eq!(of(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")]), None);
    }
}
