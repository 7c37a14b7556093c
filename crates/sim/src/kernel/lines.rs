//! Time and bytes by line of a kernel's source.
//!
//! - **LIN-1 (whole).** The times of the lines of a kernel add up to the stall stacks of its programs.
//! - **LIN-2 (traced).** A recorded run notes each stretch of a program's time with its line: the stretches of a line add up to
//!   its time.
//! - **LIN-3 (path).** Each stretch of the critical path belongs to the line that asked for the operation it leads to; the times of the
//!   lines, and the time outside of kernels with lines, add up to the path.

use super::{Program, Tl};
use crate::machine::Transfer;
use crate::record::LineTotal;
use std::cell::RefCell;
use std::rc::Rc;

/// The source lines of a kernel.
#[derive(Debug)]
pub struct Lines {
    /// The kernel.
    pub kernel: String,
    /// File and line, and the text there, by number.
    pub lines: Vec<(String, String)>,
}

/// The totals of the lines of a kernel on one SIP.
pub(crate) type LineTotals = Rc<RefCell<Vec<LineTotal>>>;

/// The lines that a program follows: their number on its SIP, and their totals.
pub(crate) struct Followed {
    pub(crate) table: u32,
    pub(crate) totals: LineTotals,
}

impl Tl {
    /// Accounts for the program's time by lines of its source, from now on: see [`Tl::at_line`].
    ///
    /// ```
    /// use phalanx_sim::kernel::Lines;
    /// use phalanx_sim::{MachineSpec, machine::{Machine, Options}, Time};
    /// use std::rc::Rc;
    /// let mut machine = Machine::new(MachineSpec::preset("bare").unwrap(), Options::default());
    /// let place = |line: &str, text: &str| (format!("nap.py:{line}"), text.to_owned());
    /// let lines = vec![place("1", "rest()"), place("2", "sleep()")];
    /// let lines = Rc::new(Lines { kernel: "nap".to_owned(), lines });
    /// machine.launch(0, "nap", &machine.pes(0), move |tl| {
    ///     tl.follow(&lines);
    ///     async move {
    ///         tl.at_line(1);
    ///         tl.compute(Time::ns(5)).await;
    ///         Ok(())
    ///     }
    /// });
    /// let report = machine.run().unwrap();
    /// assert_eq!((report.lines[0].text.as_str(), report.lines[0].stack.total()), ("sleep()", Time::ns(5)));
    /// ```
    pub fn follow(&self, lines: &Rc<Lines>) {
        let program = self.program();
        let (table, totals) = {
            let sip = &mut *program.world().sips[program.pe().sip as usize].borrow_mut();
            sip.record.lines_of(lines)
        };
        program.follow(Followed { table, totals });
    }

    /// Says at which line of its source the program is, by its number in [`Lines`].
    #[inline]
    pub fn at_line(&self, line: u32) {
        self.program().set_line(line);
    }
}

impl Program {
    /// Counts an operation for the program's line; its step of the critical path is the next one.
    #[inline]
    pub(super) fn count_operation(&self, bytes: u64) {
        if self.has_lines() {
            self.count_and_mark(bytes);
        }
    }

    #[inline(never)]
    fn count_and_mark(&self, bytes: u64) {
        self.on_line(|total, mark| {
            total.count(bytes);
            let sip = &mut *self.world().sips[self.pe().sip as usize].borrow_mut();
            sip.record.steps_mut().mark_next(mark);
        });
    }

    /// Counts a load or a store for the program's line.
    #[inline]
    pub(super) fn count_transfer(&self, transfer: &Transfer) {
        self.on_line(|total, mark| {
            total.count(transfer.bytes());
            transfer.set_line(mark);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::View;
    use crate::machine::{Machine, Options};
    use crate::record::{PathPart, Resource};
    use crate::stall::Kind;
    use crate::value::{DType, Value};
    use crate::{MachineSpec, Time};

    #[test]
    fn lin_2_traces_show_the_time_of_each_line() {
        let spec = MachineSpec::preset("quad-sip").unwrap();
        let mut machine = Machine::new(spec, Options { record: true, ..Options::default() });
        let place = |line: &str, text: &str| (format!("nap.py:{line}"), text.to_owned());
        let lines = vec![place("1", "  rest()"), place("2", "sleep()"), place("3", "wake()")];
        let lines = Rc::new(Lines { kernel: "nap".to_owned(), lines });
        let pes = machine.pes(0);
        machine.launch(0, "nap", &pes[..2], move |tl| {
            tl.follow(&lines);
            async move {
                tl.compute(Time::ns(5)).await;
                tl.at_line(1);
                tl.compute(Time::ns(7)).await;
                tl.compute(Time::ns(9)).await;
                Ok(())
            }
        });
        let report = machine.run().unwrap();
        let log = &report.ops[0];
        let of = |name: &str| {
            let ops = log.iter().filter(|op| op.label == "line" && log.label(op) == name);
            ops.map(|op| (op.end - op.start).as_ps()).sum::<u64>()
        };
        assert_eq!((of("nap.py:1 rest()"), of("nap.py:2 sleep()")), (10_000, 32_000), "LIN-2");
        let total: u64 = report.lines.iter().map(|line| line.stack.total().as_ps()).sum();
        assert_eq!(total, 42_000, "LIN-2: as in the report");
    }

    #[test]
    fn lin_3_the_critical_path_goes_through_lines() {
        let spec = MachineSpec::preset("quad-sip").unwrap();
        let run = |record, steps| {
            let options = Options { record, steps, critical_path: true, ..Options::default() };
            let mut machine = Machine::new(spec.clone(), options);
            let pes = machine.pes(0);
            let region = machine.resident(0, 0, Value::zeros(DType::F32, 4096)).unwrap();
            let lines = (0..4).map(|line| (format!("k.py:{line}"), format!("line {line}")));
            let lines = Rc::new(Lines { kernel: "k".to_owned(), lines: lines.collect() });
            machine.launch(0, "k", &pes[..2], move |tl| {
                tl.follow(&lines);
                async move {
                    for _ in 0..50 {
                        tl.at_line(1);
                        let load = tl.load(&View::of(&region));
                        tl.at_line(2);
                        let tile = load.await?;
                        let sum = tl.add(&tile, &tile).await?;
                        tl.at_line(3);
                        tl.store(&View::of(&region), &sum).await?;
                    }
                    Ok(())
                }
            });
            machine.run().unwrap()
        };
        let whole = run(true, 1 << 20);
        let path = &whole.critical_path;
        let of = |line: &str| path.lines.iter().find(|found| found.place == line).unwrap();
        let total: u64 = path.lines.iter().map(|line| line.time.as_ps()).sum();
        let is_outside = |part: &&PathPart| matches!(part.resource, Resource::Host(_));
        let outside: u64 = path.parts.iter().filter(is_outside).map(|part| part.time.as_ps()).sum();
        assert_eq!(total + outside, path.spent.total().as_ps(), "LIN-3: {whole}");
        assert_eq!(of("k.py:2").spent.get(Kind::Compute), path.spent.get(Kind::Compute), "LIN-3");
        assert!(of("k.py:1").spent.get(Kind::Compute) == Time::ZERO, "LIN-3: the line that asked");
        assert!(of("k.py:1").time > Time::ZERO && of("k.py:3").time > Time::ZERO, "LIN-3");
        assert!(whole.to_string().contains("through line"), "LIN-3: {whole}");
        let folded = run(false, 16);
        let times = |report: &crate::report::Report| {
            report
                .critical_path
                .lines
                .iter()
                .map(|line| (line.place.clone(), line.time, line.steps))
                .collect::<Vec<_>>()
        };
        assert!(folded.critical_path.kept < path.kept, "LIN-3: steps were folded");
        assert_eq!(times(&folded), times(&whole), "LIN-3: folding changes no line");
    }

    #[test]
    fn lin_1_lines_add_up_to_the_stalls_of_their_programs() {
        let spec = MachineSpec::preset("quad-sip").unwrap();
        let mut machine = Machine::new(spec, Options::default());
        let pes = machine.pes(0);
        let region = machine.resident(0, 0, Value::zeros(DType::F32, 4096)).unwrap();
        let lines = (0..3).map(|line| (format!("k.py:{line}"), format!("line {line}"))).collect();
        let lines = Rc::new(Lines { kernel: "k".to_owned(), lines });
        machine.launch(0, "k", &pes[..2], move |tl| {
            tl.follow(&lines);
            async move {
                let load = tl.load(&View::of(&region));
                tl.at_line(1);
                let tile = load.await?;
                tl.at_line(2);
                let sum = tl.add(&tile, &tile).await?;
                tl.store(&View::of(&region), &sum).await
            }
        });
        let report = machine.run().unwrap();
        for kind in Kind::ALL {
            let of_lines: u64 = report.lines.iter().map(|line| line.stack.get(kind).as_ps()).sum();
            let of_pes: u64 = report.stalls.iter().map(|pe| pe.stack.get(kind).as_ps()).sum();
            assert_eq!(of_lines, of_pes, "LIN-1: {kind}");
        }
        let line = |number: &str| report.lines.iter().find(|line| line.place == number).unwrap();
        assert_eq!((line("k.py:0").operations, line("k.py:0").bytes), (2, 2 * 4096 * 4), "LIN-1");
        assert!(line("k.py:1").stack.total() > Time::ZERO, "LIN-1");
        assert!(report.to_string().contains("line 2"), "LIN-1: {report}");
    }
}
