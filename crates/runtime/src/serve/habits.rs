//! Callables whose tasks were short on this worker.
//!
//! - **HAB-1 (sure).** A callable is known to be short after its last sixteen tasks here were; one long task ends that.

use super::LONG_NANOSECONDS;

/// Short tasks in a row that make a callable one that is known to be short.
const SURE: u8 = 16;

/// Number of short tasks of each callable since its last long one.
#[derive(Debug, Default)]
pub(super) struct Habits(Vec<u8>);

impl Habits {
    /// True if `callable` is known to be short.
    #[inline]
    pub(super) fn is_short(&self, callable: u32) -> bool {
        self.0.get(callable as usize).is_some_and(|count| *count >= SURE)
    }

    /// A task of `callable`, one of so many, took so long.
    #[inline]
    pub(super) fn note(&mut self, callable: u32, callables: usize, nanoseconds: u64) {
        if self.0.len() != callables {
            self.0.resize(callables, 0);
        }
        if let Some(count) = self.0.get_mut(callable as usize) {
            let is_short = nanoseconds < LONG_NANOSECONDS;
            *count = if is_short { count.saturating_add(1) } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hab_1_sixteen_short_tasks_in_a_row_make_a_callable_short_and_one_long_task_ends_it() {
        let mut habits = Habits::default();
        for _ in 0..SURE {
            assert!(!habits.is_short(1), "HAB-1: not known yet");
            habits.note(1, 3, 100);
        }
        (0..300).for_each(|_| habits.note(1, 3, 100));
        assert!(habits.is_short(1) && !habits.is_short(0), "HAB-1");
        habits.note(1, 3, LONG_NANOSECONDS);
        assert!(!habits.is_short(1), "HAB-1: it was long");
        habits.note(7, 3, 100);
        assert!(!habits.is_short(7), "HAB-1: it is not registered");
    }
}
