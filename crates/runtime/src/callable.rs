//! Functions that workers run, known by name in every process of the program.
//!
//! The same program runs on both sides, so a callable is a place in a list; its digest tells when two programs that
//! should be the same are not.
//!
//! - **CAL-1 (by name).** Two callables of one name are refused before anything is started.
//! - **CAL-2 (digest).** A worker whose callables differ from its parent's is refused, and the report names the first that
//!   differs.

use crate::failure::Failure;
use crate::orchestrator::Orchestrator;
use crate::task::Task;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A function that a worker runs as a task.
pub type Function = fn(&mut Task<'_>) -> Result<(), Failure>;

/// A function that a worker with workers of its own runs as a task: it builds a graph for them.
pub type Orchestration = fn(&mut Orchestrator<'_>, &mut Task<'_>) -> Result<(), Failure>;

/// The function of a callable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// Runs in the worker's process.
    Function(Function),
    /// Runs a graph on the worker's own workers.
    Orchestration(Orchestration),
}

/// A function with a name; made by [`crate::register!`].
#[derive(Clone, Copy)]
pub struct Callable {
    pub(crate) name: &'static str,
    pub(crate) version: u32,
    pub(crate) is_collective: bool,
    pub(crate) body: Body,
}

impl fmt::Debug for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callable({})", self.name)
    }
}

impl Callable {
    /// A function under the name `name`.
    pub const fn new(name: &'static str, function: Function) -> Self {
        Self { name, version: 1, is_collective: false, body: Body::Function(function) }
    }

    /// A graph under the name `name`, for workers that have workers.
    pub const fn orchestration(name: &'static str, orchestration: Orchestration) -> Self {
        Self { name, version: 1, is_collective: false, body: Body::Orchestration(orchestration) }
    }

    /// Another version: programs that do not have the same one do not work together.
    #[must_use]
    pub const fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// It meets its peers while it runs: it can only be submitted as a group.
    #[must_use]
    pub const fn collective(self) -> Self {
        Self { is_collective: true, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a hash of its name, kind and version.
    pub fn digest(&self) -> Digest {
        let kind: u8 = match self.body {
            Body::Function(_) => 1,
            Body::Orchestration(_) => 2,
        };
        let mut hash = Sha256::new();
        hash.update(b"phalanx callable 1\0");
        hash.update([kind, u8::from(self.is_collective)]);
        hash.update(self.version.to_le_bytes());
        hash.update(u64::try_from(self.name.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(self.name.as_bytes());
        Digest(hash.finalize().into())
    }
}

/// SHA-256 of what a callable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Its first bytes, which go with every task.
    pub fn prefix(&self) -> u32 {
        u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Makes a [`Callable`] of a function: `register!(add)` is called `add` of its module.
#[macro_export]
macro_rules! register {
    ($function:path) => {
        $crate::Callable::new(concat!(module_path!(), "::", stringify!($function)), $function)
    };
    (graph $function:path) => {
        $crate::Callable::orchestration(
            concat!(module_path!(), "::", stringify!($function)),
            $function,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
    fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
        Ok(())
    }

    #[test]
    fn cal_2_every_part_of_a_callable_is_in_its_digest() {
        let one = register!(nothing);
        assert_eq!(one.name(), "phalanx_runtime::callable::tests::nothing");
        let others = [Callable::new("nothing", nothing), one.version(2), one.collective()];
        for other in others {
            assert_ne!(one.digest(), other.digest());
        }
        assert_eq!(one.digest(), register!(nothing).digest());
    }
}
