//! Figures that the points cannot tell apart.

use super::super::linear::{Square, eigen};
use super::model::{Model, State};
use super::search::jacobian;

/// Something that points cannot tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// The points do not depend on the figure.
    NoEffect(String),
    /// Only a combination of the figures is fixed: they can change together without a change of the error.
    Together(Vec<String>),
}

/// A figure whose change by a tenth changes no point by more than a thousandth has no effect.
const EFFECT: f64 = 0.01;
/// Directions with a smaller part of the effect than this cannot be told apart.
const SINGULAR: f64 = 0.02;
/// The part of a direction that makes a figure one of it.
const PART: f64 = 0.3;

/// Returns the figures of `model` that its points cannot tell apart, near `state`.
pub(super) fn find(model: &Model<'_>, state: &State) -> Vec<Unclear> {
    let columns = jacobian(model, state);
    let name = |figure: usize| model.figures[figure].0.path.clone();
    let (mut unclear, mut seen) = (Vec::new(), Vec::new());
    for (figure, column) in columns.iter().enumerate() {
        if state.values[figure].is_count {
            continue;
        }
        if column.iter().all(|effect| effect.abs() < EFFECT) {
            unclear.push(Unclear::NoEffect(name(figure)));
        } else {
            seen.push(figure);
        }
    }
    let chosen: Vec<&[f64]> = seen.iter().map(|figure| columns[*figure].as_slice()).collect();
    let groups = alike(&chosen).into_iter();
    let named = |group: Vec<usize>| group.into_iter().map(|at| name(seen[at])).collect();
    unclear.extend(groups.map(|group| Unclear::Together(named(group))));
    unclear
}

/// Groups of columns that are nearly dependent.
fn alike(columns: &[&[f64]]) -> Vec<Vec<usize>> {
    let length = |column: &[f64]| column.iter().map(|x| x * x).sum::<f64>().sqrt();
    let product = |one: &[f64], other: &[f64]| -> f64 {
        let sum: f64 = one.iter().zip(other).map(|(one, other)| one * other).sum();
        sum / (length(one) * length(other))
    };
    let matrix: Square = columns
        .iter()
        .map(|one| columns.iter().map(|other| product(one, other)).collect())
        .collect();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (value, vector) in eigen(&matrix) {
        let members: Vec<usize> = (0..vector.len()).filter(|at| vector[*at].abs() > PART).collect();
        if value > SINGULAR || members.len() < 2 {
            continue;
        }
        match groups.iter_mut().find(|group| group.iter().any(|at| members.contains(at))) {
            Some(group) => {
                group.extend(members);
                group.sort_unstable();
                group.dedup();
            }
            None => groups.push(members),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_move_together_are_one_group() {
        let (a, b, c) = ([1.0, 2.0, 3.0, 4.0], [2.0, 4.1, 6.0, 8.0], [1.0, -1.0, 1.0, -1.0]);
        assert_eq!(alike(&[&a, &c, &b]), [vec![0, 2]]);
        assert_eq!(alike(&[&a, &c]), Vec::<Vec<usize>>::new());
    }
}
