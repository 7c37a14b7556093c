//! The numbering of ranks on a grid of several kinds of parallelism.
//!
//! Every rank has one coordinate for each kind, and the coordinate of the first kind of the order varies fastest. A group of
//! some kinds is a set of ranks whose coordinates of all other kinds are equal.

use crate::error::Error;

/// The kinds and their sizes, fastest-varying first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankGrid {
    axes: Vec<(&'static str, usize)>,
}

/// Every kind that an order can name.
const KINDS: [&str; 5] = ["tp", "cp", "ep", "dp", "pp"];

impl RankGrid {
    /// Makes the grid of these sizes in an order such as `tp-cp-ep-dp-pp`, fastest-varying first. Kinds that the order
    /// leaves out must have size 1.
    pub fn new(sizes: &[(&str, usize)], order: &str) -> Result<Self, Error> {
        let order = order.to_lowercase();
        let mut axes: Vec<(&'static str, usize)> = Vec::new();
        let size_of =
            |kind: &str| sizes.iter().find(|(name, _)| *name == kind).map_or(1, |(_, size)| *size);
        for name in order.split('-') {
            let Some(kind) = KINDS.into_iter().find(|kind| *kind == name) else {
                let known = KINDS.join(", ");
                return Err(Error::argument(format!(
                    "the order ({order}) names `{name}`; there are {known}"
                )));
            };
            if axes.iter().any(|(other, _)| *other == kind) {
                return Err(Error::argument(format!("the order ({order}) names `{kind}` twice")));
            }
            axes.push((kind, size_of(kind)));
        }
        for kind in KINDS {
            let size = size_of(kind);
            if axes.iter().any(|(other, _)| *other == kind) {
                continue;
            }
            if size != 1 {
                return Err(Error::argument(format!(
                    "The size of ({kind}) is ({size}), but you haven't specified the order ({order})."
                )));
            }
            axes.push((kind, 1));
        }
        Ok(Self { axes })
    }

    /// Returns the groups of some kinds, such as `tp` or `tp-pp`: each in ascending order, and in the order of their
    /// first ranks.
    pub fn groups(&self, kinds: &str) -> Vec<Vec<usize>> {
        let inside = |kind: &str| kinds.split('-').any(|name| name == kind);
        let (mut within, mut between, mut stride) = (vec![0], vec![0], 1);
        for (kind, size) in &self.axes {
            let side = if inside(kind) { &mut within } else { &mut between };
            // A slower coordinate repeats everything that the faster ones reach.
            *side =
                (0..*size).flat_map(|at| side.iter().map(move |rank| rank + at * stride)).collect();
            stride *= size;
        }
        between
            .into_iter()
            .map(|first| within.iter().map(|further| first + further).collect())
            .collect()
    }
}
