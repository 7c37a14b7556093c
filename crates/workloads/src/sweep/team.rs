//! The processes that share the points of a sweep.

use std::fmt;
use std::str::FromStr;

/// A fixed share of the points: every `of`-th point from `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of this share, from 0.
    pub index: usize,
    /// The number of shares.
    pub of: usize,
}

/// A text that names no share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareError(pub String);

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a share is `I/N` with I from 0 to N-1, as in `0/4`: `{}`", self.0)
    }
}

impl std::error::Error for ShareError {}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let pair = text.split_once('/');
        let pair = pair
            .and_then(|(index, of)| Some((index.trim().parse().ok()?, of.trim().parse().ok()?)));
        let share = pair.map(|(index, of)| Self { index, of });
        share.filter(|share| share.index < share.of).ok_or_else(|| ShareError(text.to_owned()))
    }
}

/// The way in which processes share the points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Team {
    /// One process runs all points.
    Alone,
    /// This process runs a fixed share.
    Share(Share),
    /// This process is one of several that `mpirun` or `srun` has started; they claim points one by one.
    Member {
        /// The number of this process.
        rank: usize,
        /// The number of processes.
        size: usize,
        /// The name of the job, the same for all its processes, and for no other job.
        job: String,
    },
}

/// The variables of a launcher: the number of this process, the number of processes, the name of the job.
const LAUNCHERS: [[&str; 3]; 3] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"],
    ["PMI_RANK", "PMI_SIZE", "PMI_ID"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"],
];

impl Team {
    /// Reads the team from the environment: Open MPI, MPICH, `srun`, or an array of Slurm jobs.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| variable(name)?.trim().parse::<usize>().ok();
        for [rank, size, job] in LAUNCHERS {
            if let (Some(rank), Some(size)) = (number(rank), number(size))
                && size > 1
                && rank < size
            {
                let parts = [variable("SLURM_JOB_ID"), variable(job)];
                let job = parts.into_iter().flatten().collect::<Vec<_>>().join("-");
                return Self::Member { rank, size, job };
            }
        }
        let array = || {
            let (task, first) = (number("SLURM_ARRAY_TASK_ID")?, number("SLURM_ARRAY_TASK_MIN")?);
            let of = number("SLURM_ARRAY_TASK_COUNT")?;
            let step = number("SLURM_ARRAY_TASK_STEP").unwrap_or(1).max(1);
            let index = task.checked_sub(first)? / step;
            (index < of).then_some(Self::Share(Share { index, of }))
        };
        array().unwrap_or(Self::Alone)
    }

    /// True if this process may run the point of this number.
    pub(super) fn may_run(&self, index: usize) -> bool {
        match self {
            Self::Share(shard) => index % shard.of == shard.index,
            Self::Alone | Self::Member { .. } => true,
        }
    }

    /// True if this process gives the row of this point.
    pub fn gives(&self, index: usize) -> bool {
        match self {
            Self::Member { rank, .. } => *rank == 0,
            Self::Alone | Self::Share(_) => self.may_run(index),
        }
    }

    /// Returns a name that tells the processes of the team apart.
    pub fn who(&self) -> String {
        match self {
            Self::Alone => "all".to_owned(),
            Self::Share(Share { index, of }) => format!("{index}-of-{of}"),
            Self::Member { rank, .. } => format!("rank-{rank}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(variables: &[(&str, &str)]) -> Team {
        Team::from_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn launchers_are_recognised() {
        assert_eq!(team(&[]), Team::Alone);
        let mpi =
            [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_NAMESPACE", "7")];
        assert_eq!(team(&mpi), Team::Member { rank: 1, size: 4, job: "7".to_owned() });
        let one = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")];
        assert_eq!(team(&one), Team::Alone);
        let array = [
            ("SLURM_ARRAY_TASK_ID", "7"),
            ("SLURM_ARRAY_TASK_MIN", "3"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
        ];
        assert_eq!(team(&array), Team::Share(Share { index: 2, of: 3 }));
    }

    #[test]
    fn shares_are_read_and_disjoint() {
        assert_eq!("1/3".parse(), Ok(Share { index: 1, of: 3 }));
        for wrong in ["", "3/3", "1", "a/b", "-1/2", "0/0"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        let shares: Vec<Team> = (0..3).map(|index| Team::Share(Share { index, of: 3 })).collect();
        for index in 0..20 {
            assert_eq!(shares.iter().filter(|team| team.may_run(index)).count(), 1);
        }
    }
}
