//! The command line.

mod sweep;

pub(crate) use sweep::{CacheArgs, CacheCommand, SweepArgs, SweepCommand, SweepRunArgs};

use crate::shards::Shards;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use phalanx_sim::config::DEFAULT_PRESET;
use phalanx_torch::ccl::Channels;
use std::ffi::OsString;
use std::path::PathBuf;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXAMPLES: &str = "\
Examples:
  phalanx run gemm                                  a matrix product on the default machine
  phalanx run ring --machine octo-ring -p bytes=4MiB --trace ring.pftrace
  phalanx ccl all_reduce -b 1K -e 1M -a all         which algorithm is fastest, by size
  phalanx node multi-chip-add                       four chips in four processes, and a check
  phalanx sweep run ring -p bytes=1..64MiB:x4       one workload at many points, on all cores
  phalanx triton softmax.py                         a script with Triton kernels, without a GPU
  phalanx machines                                  the machines there are

Exit codes: 0 fine, 1 a run that failed or a file that cannot be written, 2 bad input";

const RUN_EXAMPLES: &str = "\
Examples:
  phalanx run                                       the workloads and their parameters
  phalanx run gemm -p m=2048 -p dtype=bf16          a larger product, of another type
  phalanx run ring --set system.sips.count=8        on eight SIPs instead of four
  phalanx run ping --json | jq .simulated_ps        one number out of the report";

const CCL_EXAMPLES: &str = "\
Examples:
  phalanx ccl all_reduce                            1 KiB to 64 MiB with the algorithm that is fastest
  phalanx ccl all_reduce -b 1K -e 1M -a all         all algorithms, and which wins where
  phalanx ccl all_gather -d f16 --check --machine torus-16";

const TRITON_EXAMPLES: &str = "\
Examples:
  phalanx triton softmax.py                         on eight H100, and where the time of each kernel went
  phalanx triton matmul.py --machine hgx-a100 --data off -- --size 4096
  PHALANX_PYTHON=.venv/bin/python phalanx triton matmul.py --json | jq .simulated_ps";

const VALIDATE_EXAMPLES: &str = "\
Examples:
  phalanx validate --machine quad-sip all_reduce.log        the output of nccl-tests beside the simulation
  phalanx validate --machine quad-sip mine.csv --op all_gather --ranks 4 --svg errors.svg";

const FIT_EXAMPLES: &str = "\
Examples:
  phalanx fit --machine mine.yaml all_reduce.log -o fitted.yaml     the figures that `sources:` marks `fitted`
  phalanx fit --machine mine.yaml mine.csv --op all_gather --json";

const NODE_EXAMPLES: &str = "\
Examples:
  phalanx node list                                 the workloads and their parameters
  phalanx node multi-chip-add --chips 2 --threads   two chips, as threads of one process
  phalanx node ffn-tp -p repeats=5 --trace ffn.pftrace
  phalanx node doctor                               whether this host can run workers";

/// Runs multi-chip accelerator programs on machines that have no accelerator
#[derive(Debug, Parser)]
#[command(name = "phalanx", version, styles = STYLES, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// When to use colours (auto: on a terminal, unless `NO_COLOR` is set)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, global = true)]
    pub(crate) color: Color,
    /// Neither use nor keep results of earlier runs
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workload on a machine, or list the workloads
    Run(RunArgs),
    /// Measure a collective over sizes and algorithms, in the table of nccl-tests
    Ccl(CclArgs),
    /// Run a workload at many points: machines, their figures, parameters
    Sweep(SweepArgs),
    /// Drive simulated chips, each a process of its own, with graphs of tasks
    Node(NodeArgs),
    /// Run a Python script whose Triton kernels run on a machine
    Triton(TritonArgs),
    /// Lay measured times beside simulated ones
    Validate(ValidateArgs),
    /// Fit the figures of a machine that are marked `fitted` to measured times
    Fit(FitArgs),
    /// List the machines that come with the program, or show one
    Machines(MachinesArgs),
    /// Check machine files without running anything
    Check(CheckArgs),
    /// Show or clear the results that are kept between runs
    Cache(CacheArgs),
    /// Check whether this host has what some commands need
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

impl Command {
    /// True if stdout is for a program to read.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Ccl(args) => args.json,
            Self::Node(args) => args.json,
            Self::Triton(args) => args.json,
            Self::Validate(args) => args.json,
            Self::Fit(args) => args.json,
            Self::Machines(args) => args.json,
            Self::Cache(args) => args.json,
            Self::Sweep(SweepArgs { command: SweepCommand::Run(args) }) => args.json,
            Self::Doctor(args) => args.json,
            Self::Check(_) | Self::Completions(_) => false,
        }
    }
}

/// True if `--json` is among words that could not be parsed as a whole.
pub(crate) fn json_is_typed(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--json")
}

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The workload to run; without it, the workloads are listed
    pub(crate) workload: Option<String>,
    /// A machine's name, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_PRESET)]
    pub(crate) machine: String,
    /// Override a part of the machine, as in `system.sips.count=8`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Set a parameter of the workload, as in `bytes=64KiB`
    #[arg(short, long = "param", value_name = "NAME=VALUE", requires = "workload")]
    pub(crate) parameters: Vec<String>,
    /// Compute numbers, or times only: the simulated time is the same
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub(crate) data: Switch,
    /// Set-up of collectives (default: `PHALANX_CCL`, then `./ccl.yaml`, then built in)
    #[arg(long, value_name = "FILE")]
    pub(crate) ccl: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a timeline for Perfetto (`.pftrace`) or any viewer of Chrome traces (`.json`)
    #[arg(long, value_name = "FILE", requires = "workload")]
    pub(crate) trace: Option<PathBuf>,
    /// Write every operation as a line of text; `-` is stdout, and moves the report to stderr
    #[arg(long, value_name = "FILE", requires = "workload")]
    pub(crate) op_log: Option<PathBuf>,
    /// Cut the report to a named range of the program, from its first begin to its last end; files keep the whole run
    #[arg(long, value_name = "NAME", requires = "workload")]
    pub(crate) range: Option<String>,
    /// Look for changes that make the run faster, by simulating each (default: for runs of up to 20000
    /// events)
    #[arg(long, value_enum)]
    pub(crate) advice: Option<Switch>,
    /// Threads that compute numbers (default: one for each core); results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// Threads that simulate, each a part of the SIPs, or `auto`; results do not depend on it
    #[arg(long, value_name = "N|auto", default_value = "1", value_parser = clap::value_parser!(Shards))]
    pub(crate) shards: Shards,
}

#[derive(Debug, Args)]
#[command(after_help = CCL_EXAMPLES)]
pub(crate) struct CclArgs {
    /// The operation: `all_reduce`, `reduce_scatter`, `all_gather`, `broadcast`, `reduce`, `scatter`,
    /// `gather`, `all_to_all`
    pub(crate) operation: String,
    /// The smallest size, as in `1K` or `4 MiB` (default: 1K)
    #[arg(short = 'b', long = "minbytes", value_name = "MIN")]
    pub(crate) least: Option<String>,
    /// The largest size (default: 64M)
    #[arg(short = 'e', long = "maxbytes", value_name = "MAX")]
    pub(crate) most: Option<String>,
    /// From one size to the next by this factor (default: 2)
    #[arg(short = 'f', long = "stepfactor", value_name = "FACTOR", conflicts_with = "step")]
    pub(crate) factor: Option<u64>,
    /// From one size to the next by so many bytes
    #[arg(short = 'i', long = "stepbytes", value_name = "STEP")]
    pub(crate) step: Option<String>,
    /// An algorithm, `auto`, or `all` to compare those that fit (default: as configured)
    #[arg(short = 'a', long, value_name = "ALGO|all")]
    pub(crate) algorithm: Option<String>,
    /// PEs of each SIP that carry a part of the vector: a number, or `all` (default: as configured)
    #[arg(long, value_name = "N|all", value_parser = clap::value_parser!(Channels))]
    pub(crate) channels: Option<Channels>,
    /// The type of elements: f32, f16, bf16, i32
    #[arg(short = 'd', long = "datatype", value_name = "DTYPE", default_value = "f32")]
    pub(crate) dtype: String,
    /// The operation that combines numbers: sum, prod, min, max, avg
    #[arg(short = 'o', long = "op", value_name = "REDOP", default_value = "sum")]
    pub(crate) combine: String,
    /// A machine's name, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_PRESET)]
    pub(crate) machine: String,
    /// Override a part of the machine, as in `system.sips.count=8`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Set-up of collectives (default: `PHALANX_CCL`, then `./ccl.yaml`, then built in)
    #[arg(long, value_name = "FILE")]
    pub(crate) ccl: Option<PathBuf>,
    /// Compute the numbers, and compare every element with one computed another way
    #[arg(long)]
    pub(crate) check: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Threads that simulate, each a part of the SIPs, or `auto`; results do not depend on it
    #[arg(long, value_name = "N|auto", default_value = "1", value_parser = clap::value_parser!(Shards))]
    pub(crate) shards: Shards,
}

#[derive(Debug, Args)]
#[command(after_help = NODE_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct NodeArgs {
    /// The workload to run; without it, the workloads are listed
    pub(crate) workload: Option<String>,
    /// Number of chips, each one SIP of the machine (default: as the workload says)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) chips: Option<u32>,
    /// Number of workers without a device
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) sub_workers: u32,
    /// A machine's name, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_PRESET)]
    pub(crate) machine: String,
    /// Override a part of the machine, as in `system.sips.count=8`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Set a parameter of the workload, as in `repeats=5`
    #[arg(short, long = "param", value_name = "NAME=VALUE", requires = "workload")]
    pub(crate) parameters: Vec<String>,
    /// Workers are threads of this process, not processes
    #[arg(long)]
    pub(crate) threads: bool,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Write what ran when, in all processes, for Perfetto (`.pftrace`) or any viewer of Chrome traces (`.json`)
    #[arg(long, value_name = "FILE", requires = "workload")]
    pub(crate) trace: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<NodeCommand>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the workloads
    List,
    /// Check whether this host can run workers, and what to change if it cannot
    Doctor,
}

#[derive(Debug, Args)]
#[command(after_help = VALIDATE_EXAMPLES)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    /// Override a part of the machine, as in `system.sips.count=8`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Draw measured and simulated times
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = FIT_EXAMPLES)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    /// Write the machine file with the fitted figures; `-` is stdout, and moves the report to stderr
    #[arg(short, long = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measurements, and the machine to compare with.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Files of measurements: output of nccl-tests or rccl-tests, or CSV; `-` is stdin
    #[arg(required = true, value_name = "TABLE")]
    pub(crate) files: Vec<PathBuf>,
    /// A machine's name, or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_PRESET)]
    pub(crate) machine: String,
    /// Only rows of this operation, as in `all_reduce` or `gemm`; says it where a file does not
    #[arg(long, value_name = "OP")]
    pub(crate) op: Option<String>,
    /// Only rows of this number of ranks; says it where a file does not
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) ranks: Option<u32>,
    /// Only rows of this type, as in `half` or `f16`; says it where a file does not
    #[arg(long, value_name = "DTYPE")]
    pub(crate) dtype: Option<String>,
    /// Only rows of this system, where a file has a column `system`
    #[arg(long, value_name = "NAME")]
    pub(crate) system: Option<String>,
    /// Set-up of collectives (default: `PHALANX_CCL`, then `./ccl.yaml`, then built in)
    #[arg(long, value_name = "FILE")]
    pub(crate) ccl: Option<PathBuf>,
    /// Threads that simulate (default: one for each core); results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct MachinesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<MachinesCommand>,
    /// Show every figure of a machine, and where it is from
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) show: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachinesCommand {
    /// Print a machine file
    Show {
        /// A machine's name, or a machine file
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = TRITON_EXAMPLES)]
pub(crate) struct TritonArgs {
    /// The script; `python3`, or the interpreter that `PHALANX_PYTHON` names, runs it
    pub(crate) script: PathBuf,
    /// Arguments of the script; those that begin with a dash come after `--`
    #[arg(value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
    /// A machine's name, or a machine file; kernels run on one of its SIPs
    #[arg(long, value_name = "NAME|FILE", default_value = "hgx-h100")]
    pub(crate) machine: String,
    /// Compute numbers, or times only: the simulated time is the same
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub(crate) data: Switch,
    /// Print JSON; what the script prints goes to stderr
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Machine files; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// Makes it the choice of every stream. `mpirun` gives a process a terminal also where its own output is none, so
    /// the process cannot know whether a person reads its output.
    pub(crate) fn apply(self, is_launched: bool) {
        let choice = match self {
            Self::Auto if is_launched => anstream::ColorChoice::Never,
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_help_names_the_length_of_runs_that_get_advice() {
        let mut command = Cli::command();
        let run = command.find_subcommand_mut("run").expect("a command");
        let help = run.render_long_help().to_string();
        assert!(help.contains(&phalanx_workloads::SHORT.to_string()), "{help}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    pub(crate) command: DoctorCommand,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum DoctorCommand {
    /// The programs that one run in several processes needs: `mpirun -n 4 phalanx run ..`
    Mpi,
}
