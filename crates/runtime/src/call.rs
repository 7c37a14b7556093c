//! A task as a graph's code writes it down.

use crate::callable::Callable;
use crate::domain::Domain;
use crate::tensor::Argument;
use phalanx_engine::{TaskId, Time};
use std::time::Duration;

/// What to call, with what, and after what.
#[derive(Clone, Debug)]
pub struct Call {
    pub(crate) callable: Callable,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) scalars: Vec<u64>,
    pub(crate) blob: Vec<u8>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) after: Vec<TaskId>,
    pub(crate) priority: u8,
    pub(crate) is_unordered: bool,
    pub(crate) is_idempotent: bool,
    pub(crate) expected: Time,
}

impl Call {
    /// A call without arguments.
    pub fn new(callable: &Callable) -> Self {
        Self {
            callable: *callable,
            arguments: Vec::new(),
            scalars: Vec::new(),
            blob: Vec::new(),
            domains: Vec::new(),
            after: Vec::new(),
            priority: 0,
            is_unordered: false,
            is_idempotent: false,
            expected: Time(0),
        }
    }

    /// With these arguments, behind those it has: `.args([a.input(), b.output()])`.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = Argument>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// With a number, behind those it has.
    #[must_use]
    pub fn scalar(mut self, number: u64) -> Self {
        self.scalars.push(number);
        self
    }

    /// With a real number, behind the numbers it has.
    #[must_use]
    pub fn real(self, number: f64) -> Self {
        self.scalar(number.to_bits())
    }

    /// With bytes of its own, copied; large data belongs into a tensor.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.blob.extend_from_slice(bytes);
        self
    }

    /// Not before these tasks have ended.
    #[must_use]
    pub fn after(mut self, tasks: &[TaskId]) -> Self {
        self.after.extend_from_slice(tasks);
        self
    }

    /// Ahead of ready tasks with a lower one.
    #[must_use]
    pub fn priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Without inferred dependencies: it waits only for [`Call::after`].
    #[must_use]
    pub fn unordered(self) -> Self {
        Self { is_unordered: true, ..self }
    }

    /// May run again from the beginning if its worker is lost half-way; see [`crate::Builder::restart`].
    #[must_use]
    pub fn idempotent(self) -> Self {
        Self { is_idempotent: true, ..self }
    }

    /// Takes about this long; it is not taken for stuck before that.
    #[must_use]
    pub fn expected(self, expected: Duration) -> Self {
        Self { expected: Time(u64::try_from(expected.as_nanos()).unwrap_or(u64::MAX)), ..self }
    }
}
