//! Workers inside workers, before they are: who they inherit from and what their levels are called.

use super::{Budgets, Builder, Isolation, settings};
use crate::error::Error;

/// The lowest level of a worker that has workers.
const LOWEST: u32 = 3;

impl Builder {
    /// Has `count` workers of the level below, each as `describe` makes them; they are as isolated and as patient as
    /// this one if it does not say otherwise.
    ///
    /// ```
    /// use phalanx_runtime::*;
    ///
    /// fn fill(task: &mut Task<'_>) -> Result<(), Failure> {
    ///     let value = task.real(0)?;
    ///     task.argument(0)?.slice_mut::<f64>()?.fill(value);
    ///     Ok(())
    /// }
    ///
    /// /// What a worker in the middle does: one task for each of its own chips.
    /// fn spread(graph: &mut Orchestrator<'_>, task: &mut Task<'_>) -> Result<(), Failure> {
    ///     let data = task.tensor(0)?;
    ///     for chip in 0..graph.chips() {
    ///         let part = data.rows(u64::from(chip) * 4, u64::from(chip) * 4 + 4)?;
    ///         let call = Call::new(&FILL).args([part.output()]).real(task.real(0)?);
    ///         graph.submit_next_level(Target::Chip(chip), &call)?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// const FILL: Callable = register!(fill);
    /// const SPREAD: Callable = register!(graph spread);
    /// static PROGRAM: Program = Program::new(&[FILL, SPREAD]);
    ///
    /// let pod = Worker::builder(&PROGRAM).threads().level(4).workers(2, |node| node.chips(2));
    /// let pod = pod.init()?;
    /// let data = pod.tensor(DType::F64, &[16])?;
    /// pod.run("both nodes", |graph| {
    ///     for (node, rows) in [(0, data.rows(0, 8)?), (1, data.rows(8, 16)?)] {
    ///         let call = Call::new(&SPREAD).args([rows.output()]).real(f64::from(node) + 1.0);
    ///         graph.submit_next_level(Target::Worker(node), &call)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(pod.read::<f64>(&data)?, [[1.0; 8], [2.0; 8]].concat());
    /// pod.close()?;
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn workers(mut self, count: u32, describe: impl Fn(Self) -> Self) -> Self {
        for _ in 0..count {
            self.workers.push(describe(Self::new(self.program)));
        }
        self
    }

    /// Returns the number of workers of the next level.
    pub(crate) fn next_level(&self) -> u32 {
        self.chips.saturating_add(u32::try_from(self.workers.len()).unwrap_or(u32::MAX))
    }

    /// Returns the isolation of its workers.
    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation.unwrap_or(Isolation::Process)
    }

    /// Returns the number of its level.
    pub(crate) fn height(&self) -> u32 {
        let above = self.workers.iter().map(|child| child.height().saturating_add(1)).max();
        self.level.or(above).unwrap_or(LOWEST)
    }

    /// Says to all workers inside what they inherit, or what is wrong with them.
    pub(crate) fn inherit_settings(&mut self, depth: usize) -> Result<(), Error> {
        let (level, isolation, budgets) = (self.height(), self.isolation(), self.budgets);
        // A child must have ended its own before it is ended.
        let close = self.close / 4 * 3;
        let setting = self.setting.clone();
        self.level = Some(level);
        let wrong = |words: String| Err(Error::Setting(words));
        if level < LOWEST {
            return wrong(format!(
                "a worker that has workers is of level {LOWEST} or above: {level}"
            ));
        }
        if depth > settings::MAX_DEPTH {
            let most = settings::MAX_DEPTH;
            return wrong(format!("workers are at most {most} deep inside workers"));
        }
        if self.chips > 0 && !self.workers.is_empty() {
            return wrong(
                "a worker has chips or workers, not both: give the chips to its workers".into(),
            );
        }
        for child in &mut self.workers {
            child.isolation.get_or_insert(isolation);
            child.close = child.close.min(close);
            if child.setting.is_empty() {
                child.setting.clone_from(&setting);
            }
            if child.budgets == Budgets::default() {
                child.budgets = budgets;
            }
            let its = *child.level.get_or_insert(level - 1);
            if its != level - 1 {
                return wrong(format!(
                    "a worker of level {level} cannot have workers of level {its}"
                ));
            }
            child.inherit_settings(depth + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, Worker};

    static PROGRAM: Program = Program::new(&[]);

    #[test]
    fn lvl_6_levels_are_labels_that_fit() {
        let mut top = Worker::builder(&PROGRAM)
            .workers(2, |four| four.workers(1, |three| three.chips(2).threads()).sub_workers(1));
        top.budgets.harness += std::time::Duration::from_nanos(1);
        top.inherit_settings(0).expect("LVL-6");
        assert_eq!(top.level, Some(5), "LVL-6: counted from the bottom");
        let middle = &top.workers[1];
        assert_eq!((middle.level, middle.isolation), (Some(4), Some(Isolation::Process)));
        let bottom = &middle.workers[0];
        assert_eq!((bottom.level, bottom.isolation), (Some(3), Some(Isolation::Thread)));
        assert!(bottom.close < middle.close && middle.close < top.close, "the inner first");
        assert_eq!(bottom.budgets, top.budgets, "it is inherited");
        let mut high = Worker::builder(&PROGRAM).workers(1, |child| child.chips(1)).level(9);
        high.inherit_settings(0).expect("LVL-6");
        assert_eq!(high.workers[0].level, Some(8), "LVL-6");
        let wrong = [
            Worker::builder(&PROGRAM).workers(1, |child| child.chips(1)).level(3),
            Worker::builder(&PROGRAM).workers(1, |child| child.chips(1).level(5)).level(4),
            Worker::builder(&PROGRAM).workers(1, |child| child.chips(1)).chips(1),
            Worker::builder(&PROGRAM).level(2),
        ];
        for mut wrong in wrong {
            assert!(wrong.inherit_settings(0).is_err(), "LVL-6: {wrong:?}");
        }
    }
}
