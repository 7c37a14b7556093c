//! Ranks whose split sizes do not agree: the cause of a message that is too long, too short, or missing.

use super::SpawnError;
use crate::distributed::SplitCall;
use crate::error::Error;

/// The error of two ranks that are in one all-to-all and do not agree on the rows between them, if the failure can come
/// from that: the receiver, and the rows of both.
pub(super) fn disagreement(
    calls: &[(usize, SplitCall)],
    failure: &SpawnError,
) -> Option<(usize, Error)> {
    let can_come_from_it =
        |error: &Error| matches!(error.root(), Error::Run(_) | Error::Mismatch(_));
    if !failure.errors.values().all(can_come_from_it) || failure.interrupted.is_some() {
        return None;
    }
    let mut found = Vec::new();
    for (from, one) in calls {
        for (to, other) in calls {
            if (one.group, one.sequence) == (other.group, other.sequence)
                && let Some(error) = compare((*from, one), (*to, other))
            {
                found.push((one.sequence, *to, error));
            }
        }
    }
    // The oldest disagreement is the cause of the others.
    found.into_iter().min_by_key(|(sequence, ..)| *sequence).map(|(_, rank, error)| (rank, error))
}

/// Compares the rows that one rank sends with those that another expects from it.
fn compare(
    (sender, out): (usize, &SplitCall),
    (receiver, back): (usize, &SplitCall),
) -> Option<Error> {
    let place = |rank: usize| out.members.iter().position(|member| *member == rank);
    let (sends, expects) =
        (*out.rows.sent.get(place(receiver)?)?, *back.rows.received.get(place(sender)?)?);
    let noun = if sends == 1 { "row" } else { "rows" };
    (sends != expects).then(|| {
        Error::argument(format!(
            "all_to_all: rank {sender} sends {sends} {noun} to rank {receiver}, which expects {expects}"
        ))
    })
}
