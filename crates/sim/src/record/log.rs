//! Lists that grow while a run goes on, and that reports share.

use super::NameId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A list that reports share.
pub(crate) type Shared<T> = Arc<Vec<T>>;

/// A list that grows: entries wait in `new` until a report asks for all.
pub(super) struct Log<T> {
    new: Vec<T>,
    shared: Shared<T>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { new: Vec::new(), shared: Arc::default() }
    }
}

impl<T> Log<T> {
    /// Returns a list that another shard has shared.
    pub(super) fn of(shared: Shared<T>) -> Self {
        Self { new: Vec::new(), shared }
    }
}

impl<T: Clone> Log<T> {
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        self.new.push(entry);
    }

    /// Returns all entries (REC-4). The first call copies none.
    pub(super) fn share(&mut self) -> Shared<T> {
        if self.shared.is_empty() {
            self.shared = Arc::new(std::mem::take(&mut self.new));
        } else if !self.new.is_empty() {
            Arc::make_mut(&mut self.shared).append(&mut self.new);
        }
        self.shared.clone()
    }
}

/// Names with numbers.
#[derive(Default)]
pub(super) struct Names {
    numbers: BTreeMap<String, NameId>,
    list: Log<String>,
}

impl Names {
    /// Returns the number of a name; a new name gets the next one.
    pub(super) fn number(&mut self, name: &str) -> NameId {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let next = u32::try_from(self.numbers.len()).expect("fewer names than operations");
        self.numbers.insert(name.to_owned(), NameId(next));
        self.list.push(name.to_owned());
        NameId(next)
    }

    /// Replaces all names by those of another shard, which is to be read only.
    pub(super) fn put(&mut self, names: Shared<String>) {
        self.list = Log::of(names);
    }

    pub(super) fn share(&mut self) -> Shared<String> {
        self.list.share()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rec_4_a_list_is_shared_again_with_what_came_after() {
        let mut log = Log::default();
        log.push(1);
        let first = log.share();
        assert_eq!((&*first, &*log.share()), (&vec![1], &vec![1]), "REC-4");
        log.push(2);
        assert_eq!((&*log.share(), &*log.share()), (&vec![1, 2], &vec![1, 2]), "REC-4");
        assert_eq!(*first, [1], "REC-4: a report does not change");
    }

    #[test]
    fn equal_names_have_one_number() {
        let mut names = Names::default();
        let numbers = ["a", "b", "a"].map(|name| names.number(name).0);
        assert_eq!(numbers, [0, 1, 0]);
        assert_eq!(*names.share(), ["a", "b"]);
    }
}
