//! The words of `phalanx sweep` and `phalanx cache`.

use super::Switch;
use clap::{Args, Subcommand};
use phalanx_sim::config::DEFAULT_PRESET;
use phalanx_workloads::sweep::Share;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  phalanx sweep run ring --machine bare -p bytes=1..64MiB:x4
  phalanx sweep run tp-mlp --set system.sips.link.bandwidth=64..512GB/s:x2 -p hidden=1024,4096 --plot mlp.svg
  phalanx sweep run gemm --points points.csv --json -o gemm.jsonl     finished points are not run again
  phalanx sweep run gemm -p m=128..4096:x2 --shard 0/4 -o gemm.jsonl  a share of the points, for an array of jobs
  mpirun -n 4 phalanx sweep run gemm -p m=128..4096:x2                four processes share the points

Values are a list (`1024,4096`) or a range (`64..512GB/s:x2`, `1..9:+2`).";

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(subcommand)]
    pub(crate) command: SweepCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SweepCommand {
    /// Run a workload at every point
    Run(SweepRunArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SweepRunArgs {
    /// The workload to run
    pub(crate) workload: String,
    /// A machine's name, or a machine file; several are separated by commas
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',', default_value = DEFAULT_PRESET)]
    pub(crate) machine: Vec<String>,
    /// Vary or override a figure of the machine, as in `system.sips.count=4,8`
    #[arg(long = "set", value_name = "PATH=VALUES")]
    pub(crate) overrides: Vec<String>,
    /// Vary or set a parameter of the workload, as in `bytes=1..64MiB:x4`
    #[arg(short, long = "param", value_name = "NAME=VALUES")]
    pub(crate) parameters: Vec<String>,
    /// A file of points instead of all combinations: CSV with a line of names, or JSON lines; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) points: Option<PathBuf>,
    /// Only so many of the points, drawn at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: Option<u64>,
    /// The seed of the sample; the same seed draws the same points
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sample")]
    pub(crate) seed: u64,
    /// Compute numbers and compare them with a reference
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub(crate) data: Switch,
    /// Set-up of collectives (default: `PHALANX_CCL`, then `./ccl.yaml`, then built in)
    #[arg(long, value_name = "FILE")]
    pub(crate) ccl: Option<PathBuf>,
    /// Points that run at the same time (default: one for each core); results do not depend on it
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Only the points of this share, as in `0/4` (default: as an array of Slurm jobs says)
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Share>,
    /// Write the rows: `.jsonl` or `.csv`. Unfinished, they are kept beside it; shares write it when all are done
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Draw the times
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON lines
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV
    #[arg(long)]
    pub(crate) csv: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) command: Option<CacheCommand>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Remove all results that are kept
    Clear,
}
