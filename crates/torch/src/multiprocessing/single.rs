//! A program with a single rank on any SIP: the program of one chip process.

use super::{SpawnError, conclude, start};
use crate::context::Context;
use crate::error::Error;
use crate::rank::Rank;
use std::rc::Rc;

/// Runs `program` as the rank of this SIP; the other ranks do nothing.
pub fn run_on_sip<T, P, F>(context: &mut Context, sip: usize, program: P) -> Result<T, SpawnError>
where
    T: 'static,
    P: Fn(Rank) -> F + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    let members = [context.rank(sip, context.default_ranks())];
    let program = Rc::new(move |_, rank| program(rank));
    let processes = vec![start(context, &members[0], program)];
    let ended = context.machine.drive();
    let results = conclude(context, &members, processes, ended)?;
    Ok(results.into_iter().next().expect("MPS-1: one rank, one result"))
}
