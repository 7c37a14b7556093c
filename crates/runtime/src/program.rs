//! All callables of a program, the same in each of its processes.

use crate::bootstrap::BootstrapFunction;
use crate::callable::Callable;
use sha2::{Digest as _, Sha256};

/// The callables of a program, in an order that is the same in all its processes.
///
/// ```
/// use phalanx_runtime::{Failure, Program, Task, register};
///
/// fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// static PROGRAM: Program = Program::new(&[register!(nothing)]);
/// assert_eq!(PROGRAM.callables().len(), 1);
/// ```
#[derive(Debug)]
pub struct Program {
    callables: &'static [Callable],
    bootstrap: Option<BootstrapFunction>,
}

/// An error of a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Two of its callables have one name.
    #[error("two callables are called `{0}`: names must differ")]
    SameName(&'static str),
    /// A callable is none of its.
    #[error("`{name}` is not registered in this program{}", near(*.like))]
    Unknown {
        /// Its name.
        name: &'static str,
        /// One that is registered and has nearly that name.
        like: Option<&'static str>,
    },
}

fn near(like: Option<&str>) -> String {
    like.map_or_else(String::new, |like| format!("; did you mean `{like}`?"))
}

impl Program {
    /// A program with these callables.
    pub const fn new(callables: &'static [Callable]) -> Self {
        Self { callables, bootstrap: None }
    }

    /// Each chip sets itself up with this before anything is sent to it; see [`crate::Bootstrap`].
    #[must_use]
    pub const fn chip(self, bootstrap: BootstrapFunction) -> Self {
        Self { bootstrap: Some(bootstrap), ..self }
    }

    /// Returns the bootstrap of chips, if there is one.
    pub(crate) fn bootstrap(&self) -> Option<BootstrapFunction> {
        self.bootstrap
    }

    /// Its callables.
    pub fn callables(&self) -> &'static [Callable] {
        self.callables
    }

    /// Returns a hash of all digests in order.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for callable in self.callables {
            hash.update(callable.digest().0);
        }
        hash.finalize().into()
    }

    /// Refuses callables that cannot be told apart.
    pub fn check(&self) -> Result<(), ProgramError> {
        let mut names: Vec<&str> = self.callables.iter().map(Callable::name).collect();
        names.sort_unstable();
        let same = names.windows(2).find(|pair| pair[0] == pair[1]);
        same.map_or(Ok(()), |pair| {
            let callable = self.callables.iter().find(|callable| callable.name == pair[0]);
            Err(ProgramError::SameName(callable.map_or("", Callable::name)))
        })
    }

    /// The place of the callable of this name.
    #[inline]
    pub(crate) fn position(&self, name: &'static str) -> Result<u32, ProgramError> {
        // Mostly it is the very same name; comparing letters is for those from another crate.
        let is_same = |one: &Callable| std::ptr::eq(one.name, name);
        let at = self.callables.iter().position(is_same).and_then(|at| u32::try_from(at).ok());
        at.map_or_else(|| self.position_by_letters(name), Ok)
    }

    #[inline(never)]
    fn position_by_letters(&self, name: &'static str) -> Result<u32, ProgramError> {
        let at = self.callables.iter().position(|one| one.name == name);
        let at = at.and_then(|at| u32::try_from(at).ok());
        at.ok_or_else(|| {
            let last = name.rsplit("::").next();
            let like = self.callables.iter().map(Callable::name);
            let like = like.into_iter().find(|name| name.rsplit("::").next() == last);
            ProgramError::Unknown { name, like }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, Task};

    #[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
    fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
        Ok(())
    }

    #[test]
    fn cal_1_two_callables_of_one_name_are_refused() {
        const ONE: Callable = Callable::new("one", nothing);
        const TWO: Callable = Callable::new("two", nothing);
        static TWICE: Program = Program::new(&[ONE, TWO, ONE]);
        static APART: Program = Program::new(&[ONE, TWO]);
        assert_eq!(TWICE.check(), Err(ProgramError::SameName("one")));
        assert_eq!(APART.check(), Ok(()));
    }

    #[test]
    fn a_callable_of_another_module_is_suggested() {
        static PROGRAM: Program = Program::new(&[Callable::new("a::one", nothing)]);
        let error = PROGRAM.position("b::one").expect_err("not there");
        assert!(error.to_string().contains("did you mean `a::one`?"), "{error}");
    }
}
