//! The memory of steps, which the machines of a thread use one after the other: memory that was used before costs no page
//! faults.

use super::path::Step;
use std::cell::RefCell;

/// Most steps for which a thread keeps memory: 32 MiB, those of a machine with default options.
const MOST: usize = 1 << 20;

thread_local! {
    static SPARE: RefCell<Vec<Vec<Step>>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty list with room for `steps` steps.
pub(super) fn take(steps: usize) -> Vec<Step> {
    if steps == 0 {
        return Vec::new();
    }
    let found = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        let fitting = spare.iter().rposition(|list| list.capacity() >= steps)?;
        Some(spare.swap_remove(fitting))
    });
    // Reserved memory costs nothing until it is written, and growing would copy every step several times.
    found.ok().flatten().unwrap_or_else(|| Vec::with_capacity(steps))
}

/// Keeps the memory of a list, unless there is much already.
pub(super) fn give(mut list: Vec<Step>) {
    list.clear();
    if list.capacity() == 0 {
        return;
    }
    // A thread that ends has no list any more.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        let kept: usize = spare.iter().map(Vec::capacity).sum();
        if kept + list.capacity() <= MOST {
            spare.push(list);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        SPARE.with(|spare| spare.borrow().iter().map(Vec::capacity).sum())
    }

    #[test]
    fn a_list_is_used_again_if_it_is_long_enough() {
        let list = take(100);
        let (room, memory) = (list.capacity(), list.as_ptr());
        give(list);
        assert_eq!(kept(), room);
        let longer = take(room + 1);
        assert_ne!(longer.as_ptr(), memory);
        let again = take(50);
        assert_eq!((again.as_ptr(), again.len(), kept()), (memory, 0, 0));
    }

    #[test]
    fn a_thread_keeps_a_bounded_number_of_steps() {
        let lists: Vec<_> = (0..5).map(|_| take(MOST / 4)).collect();
        lists.into_iter().for_each(give);
        give(Vec::new());
        assert_eq!(kept(), MOST);
    }
}
