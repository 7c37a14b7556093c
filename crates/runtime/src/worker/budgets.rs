//! Time limits of a worker.

use crate::error::Error;
use phalanx_engine::{Ladder, Time};
use std::time::Duration;

/// Longest limit: the most nanoseconds that travel to a child. As good as for ever.
pub(super) const LONGEST: Duration = Duration::from_nanos(u64::MAX);

/// Time limits of a worker, from the inside out. An inner limit must fire before the limits around it.
///
/// ```
/// use phalanx_runtime::Budgets;
/// use std::time::Duration;
///
/// let patient = Budgets { operation: Duration::from_secs(48), ..Budgets::default() };
/// assert_eq!(patient.progress, Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Longest time in which nothing runs and nothing changes.
    pub progress: Duration,
    /// Longest time in which a worker that has a task shows no progress.
    pub operation: Duration,
    /// Longest wait for a run.
    pub wait: Duration,
    /// Longest time until all workers are ready.
    pub startup: Duration,
    /// Longest life of the program around the worker.
    pub harness: Duration,
    /// Least time between `progress` and `wait`.
    pub guard: Duration,
}

/// 10, 45, 50, 300 and 600 seconds, and a guard of 1.5.
impl Default for Budgets {
    fn default() -> Self {
        Self::of(&Ladder::default())
    }
}

impl Budgets {
    /// The limits in nanoseconds, in the order of the fields.
    pub(super) fn nanoseconds(&self) -> [u64; 6] {
        let Self { progress, operation, wait, startup, harness, guard } = *self;
        [progress, operation, wait, startup, harness, guard].map(nanoseconds)
    }

    /// Reads what [`Budgets::nanoseconds`] returned.
    pub(super) fn from_nanoseconds(limits: [u64; 6]) -> Self {
        let [progress, operation, wait, startup, harness, guard] = limits.map(Duration::from_nanos);
        Self { progress, operation, wait, startup, harness, guard }
    }

    /// Checks that inner limits fire first.
    pub(super) fn check(&self) -> Result<phalanx_engine::Budgets, Error> {
        let [progress, operation, wait, startup, harness, guard] = self.nanoseconds().map(Time);
        let ladder = Ladder { progress, operation, wait, startup, harness, guard };
        ladder.build().map_err(|inverted| {
            let ((inner, shorter), (outer, longer)) = (inverted.inner, inverted.outer);
            let [shorter, longer] = [shorter, longer].map(|time| Duration::from_nanos(time.0));
            Error::Setting(format!(
                "`{inner}` must fire before `{outer}`: {shorter:?} is not below {longer:?}"
            ))
        })
    }

    fn of(ladder: &Ladder) -> Self {
        let Ladder { progress, operation, wait, startup, harness, guard } = *ladder;
        let limits = [progress, operation, wait, startup, harness, guard].map(|time| time.0);
        Self::from_nanoseconds(limits)
    }
}

fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_same_in_nanoseconds() {
        let limits = Budgets { wait: Duration::MAX, ..Budgets::default() };
        let same = Budgets::from_nanoseconds(limits.nanoseconds());
        assert_eq!(same, Budgets { wait: LONGEST, ..limits });
        assert!(Budgets::default().check().is_ok());
        let error = limits.check().expect_err("`startup` is around `wait`").to_string();
        assert!(error.starts_with("`wait` must fire before `startup`: "), "{error}");
        assert!(error.ends_with(" is not below 300s"), "{error}");
    }
}
