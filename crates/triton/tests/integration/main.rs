//! Kernels that Triton compiled, run on simulated machines.

mod kernels;
mod product;
mod rust_product;

use phalanx_sim::machine::Options;
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::{Context, Error, Rank, multiprocessing};

/// Runs a program on one rank of a machine; returns its result and the simulated time.
fn on<T, F>(machine: &str, options: Options, program: impl Fn(Rank) -> F + 'static) -> (T, Time)
where
    T: 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    let mut context = context(machine, options);
    let results = multiprocessing::spawn(&mut context, 1, move |_, rank| program(rank));
    let result = results.unwrap_or_else(|error| panic!("{error}")).remove(0);
    (result, context.machine().now())
}

/// Runs a program that fails; returns the words of its error.
fn failure<F>(machine: &str, options: Options, program: impl Fn(Rank) -> F + 'static) -> String
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    let mut context = context(machine, options);
    let results = multiprocessing::spawn(&mut context, 1, move |_, rank| program(rank));
    results.map(|_| ()).unwrap_err().to_string()
}

fn context(machine: &str, options: Options) -> Context {
    Context::new(MachineSpec::preset(machine).unwrap(), options)
}
