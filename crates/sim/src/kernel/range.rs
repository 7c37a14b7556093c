//! Named ranges of kernels.

use super::{Program, Tl};
use crate::record::{Gap, Owner, RangeSpan};
use crate::time::Time;
use std::rc::Rc;

/// A named range of a kernel, from [`Tl::range`] until the value is dropped.
#[must_use = "a range ends when it is dropped: bind it to a name such as `_range`"]
pub struct KernelRange {
    program: Rc<Program>,
    name: String,
    from: Time,
}

impl Tl {
    /// Opens a named range, which traces show and reports add up by name.
    ///
    /// ```
    /// use phalanx_sim::{MachineSpec, machine::{Machine, Options}, Time};
    /// let mut machine = Machine::new(MachineSpec::preset("bare").unwrap(), Options::default());
    /// machine.launch(0, "nap", &machine.pes(0), |tl| async move {
    ///     let _range = tl.range("warm up");
    ///     tl.compute(Time::ns(5)).await;
    ///     Ok(())
    /// });
    /// let report = machine.run().unwrap();
    /// assert_eq!((report.ranges[0].name.as_str(), report.ranges[0].total), ("warm up", Time::ns(5)));
    /// ```
    pub fn range(&self, name: impl Into<String>) -> KernelRange {
        KernelRange { program: self.program.clone(), name: name.into(), from: self.now() }
    }
}

impl Drop for KernelRange {
    fn drop(&mut self) {
        let (to, pe) = (self.program.sim().now(), self.program.pe());
        let mut path = self.program.path();
        path.advance(to, Gap::Dependency);
        let (owner, name) = (Owner::Kernel(pe), std::mem::take(&mut self.name));
        let span = RangeSpan { owner, name, from: self.from, to };
        self.program.world().sips[pe.sip as usize].borrow_mut().record.ranges.add(span, path);
    }
}
