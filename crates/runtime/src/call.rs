//! A task as a graph's code writes it down.

use crate::callable::Callable;
use crate::domain::Domain;
use crate::tensor::Argument;
use phalanx_engine::{TaskId, Time};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// A task to submit: its callable, its arguments, its order.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of the callable.
    pub(crate) name: &'static str,
    pub(crate) arguments: SmallVec<[Argument; 4]>,
    pub(crate) scalars: SmallVec<[u64; 2]>,
    rare: Option<Box<Rare>>,
    pub(crate) priority: u8,
    pub(crate) is_collective: bool,
    pub(crate) is_unordered: bool,
    pub(crate) is_idempotent: bool,
}

/// Parts that few calls have; other calls stay small without them.
#[derive(Clone, Debug)]
pub(crate) struct Rare {
    pub(crate) blob: Vec<u8>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) after: Vec<TaskId>,
    pub(crate) expected: Time,
    pub(crate) name: Option<Arc<str>>,
}

static NONE: Rare = Rare {
    blob: Vec::new(),
    domains: Vec::new(),
    after: Vec::new(),
    expected: Time(0),
    name: None,
};

impl Call {
    /// Creates a call without arguments.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call that was just written is slow to move")]
    pub fn new(callable: &Callable) -> Self {
        Self {
            name: callable.name,
            arguments: SmallVec::new(),
            scalars: SmallVec::new(),
            rare: None,
            priority: 0,
            is_collective: callable.is_collective,
            is_unordered: false,
            is_idempotent: false,
        }
    }

    /// Returns the parts that few calls have.
    #[inline]
    pub(crate) fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&NONE)
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(|| Box::new(NONE.clone()))
    }

    /// Adds arguments behind those it has: `.args([a.input(), b.output()])`.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call that was just written is slow to move")]
    pub fn args(mut self, arguments: impl IntoIterator<Item = Argument>) -> Self {
        for argument in arguments {
            self.push(argument);
        }
        self
    }

    /// Adds an argument behind those it has; for loops, where [`Call::args`] does not fit.
    #[inline]
    pub fn push(&mut self, argument: Argument) {
        self.arguments.push(argument);
    }

    /// Adds a scalar behind those it has.
    #[must_use]
    #[inline]
    pub fn scalar(mut self, number: u64) -> Self {
        self.scalars.push(number);
        self
    }

    /// Adds a real number as a scalar behind those it has.
    #[must_use]
    pub fn real(self, number: f64) -> Self {
        self.scalar(number.to_bits())
    }

    /// Adds bytes, which are copied; large data belongs into a tensor.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.rare_mut().blob.extend_from_slice(bytes);
        self
    }

    /// Makes the task wait for the end of these tasks.
    #[must_use]
    pub fn after(mut self, tasks: &[TaskId]) -> Self {
        self.rare_mut().after.extend_from_slice(tasks);
        self
    }

    /// Sets the priority: the task starts ahead of ready tasks with a lower one.
    #[must_use]
    pub fn priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Leaves out inferred dependencies: the task waits only for [`Call::after`].
    #[must_use]
    pub fn unordered(self) -> Self {
        Self { is_unordered: true, ..self }
    }

    /// Lets the task run again from the beginning if its worker is lost; see [`crate::Builder::restart`].
    #[must_use]
    pub fn idempotent(self) -> Self {
        Self { is_idempotent: true, ..self }
    }

    /// Gives the task a name, which errors, stalls and timelines show beside that of its callable: `softmax 3`.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.rare_mut().name = Some(name.into());
        self
    }

    /// Sets the expected length of the task; it is not reported as stuck before that.
    #[must_use]
    pub fn expected(mut self, expected: Duration) -> Self {
        self.rare_mut().expected = Time(u64::try_from(expected.as_nanos()).unwrap_or(u64::MAX));
        self
    }
}
