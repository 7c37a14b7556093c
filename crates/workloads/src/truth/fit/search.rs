//! The search for the figures with the least error.

use super::super::figures::Value;
use super::super::linear::{Square, solve};
use super::model::{Model, State, weight};

/// Most rounds of damped steps.
const ROUNDS: usize = 8;
/// Most rounds in which figures move one by one.
const SINGLE_ROUNDS: usize = 6;
/// A round that gains less than this part of the error is the last.
const GAIN: f64 = 2e-3;
/// The factor by which a figure is changed for a derivative.
const PROBE: f64 = 1.06;
/// No step changes a figure by more than this factor.
const LONGEST: f64 = 2.0;
/// Dampings that are tried, relative to the diagonal.
const DAMPINGS: [f64; 5] = [1e-3, 1e-2, 0.1, 1.0, 10.0];

/// The state with the least error that is found from `state` on; never one with a larger error (FIT-3).
pub(super) fn run(model: &Model<'_>, mut state: State) -> State {
    for _ in 0..ROUNDS {
        let next = step(model, &state);
        let Some(next) = next.filter(|next| gains(next, &state)) else { break };
        state = next;
    }
    let mut factor = 1.15_f64;
    for _ in 0..SINGLE_ROUNDS {
        let next = one_by_one(model, &state, factor);
        if gains(&next, &state) {
            state = next;
        } else {
            factor = factor.powf(0.4);
        }
    }
    state
}

fn gains(next: &State, state: &State) -> bool {
    next.objective < state.objective * (1.0 - GAIN)
}

/// The derivatives of all residuals by the logarithm of each figure; a figure that cannot move, and a whole number, has zeros.
pub(super) fn jacobian(model: &Model<'_>, state: &State) -> Vec<Vec<f64>> {
    let column = |figure: usize| {
        let still = vec![0.0; state.residuals.len()];
        if state.values[figure].is_count {
            return still;
        }
        let probes = [PROBE, 1.0 / PROBE, LONGEST];
        let moved = probes.into_iter().find_map(|factor| {
            let values = with(model, state, figure, state.values[figure].number * factor)?;
            model.at(values, Some(state))
        });
        let Some(moved) = moved else { return still };
        let ratio = (moved.values[figure].number / state.values[figure].number).ln();
        let pairs = moved.residuals.iter().zip(&state.residuals);
        pairs.map(|(one, other)| (one - other) / ratio).collect()
    };
    (0..state.values.len()).map(column).collect()
}

/// The values with another number for a figure; none if that is not allowed, or the same.
fn with(model: &Model<'_>, state: &State, figure: usize, number: f64) -> Option<Vec<Value>> {
    let mut values = state.values.clone();
    values[figure] = values[figure].with(number.min(model.most(figure)));
    let moved = values[figure].number > 0.0 && values[figure].text() != state.values[figure].text();
    moved.then_some(values)
}

/// The best of the damped steps.
fn step(model: &Model<'_>, state: &State) -> Option<State> {
    let columns = jacobian(model, state);
    let weights: Vec<f64> = state.residuals.iter().map(|residual| weight(*residual)).collect();
    let product = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).zip(&weights).map(|((one, other), weight)| one * other * weight).sum()
    };
    let normal: Square = columns
        .iter()
        .map(|one| columns.iter().map(|other| product(one, other)).collect())
        .collect();
    let slope: Vec<f64> = columns.iter().map(|column| -product(column, &state.residuals)).collect();
    let largest = (0..normal.len()).map(|at| normal[at][at]).fold(0.0, f64::max);
    let best = DAMPINGS.into_iter().filter_map(|damping| {
        let mut damped = normal.clone();
        for (at, row) in damped.iter_mut().enumerate() {
            row[at] += damping * row[at] + 1e-4 * largest + 1e-12;
        }
        let moved = moved(model, state, &solve(&damped, &slope)?)?;
        model.at(moved, Some(state))
    });
    let best = best.min_by(|one, other| one.objective.total_cmp(&other.objective))?;
    model.at(best.values, None)
}

/// The values after a step in logarithms, cut where it is too long; none if nothing moves.
fn moved(model: &Model<'_>, state: &State, step: &[f64]) -> Option<Vec<Value>> {
    let longest = LONGEST.ln();
    let values = state.values.iter().zip(step).enumerate().map(|(figure, (value, step))| {
        let number = value.number * step.clamp(-longest, longest).exp();
        if value.is_count { value.clone() } else { value.with(number.min(model.most(figure))) }
    });
    let values: Vec<Value> = values.collect();
    let good = values.iter().all(|value| value.number > 0.0);
    (good && values != state.values).then_some(values)
}

/// Moves each figure up or down where that helps.
fn one_by_one(model: &Model<'_>, state: &State, factor: f64) -> State {
    let mut best = state.clone();
    for figure in 0..best.values.len() {
        let number = best.values[figure].number;
        let numbers = if best.values[figure].is_count {
            vec![(number / 2.0).floor(), number - 1.0, number + 1.0, number * 2.0]
        } else {
            vec![number * factor, number / factor]
        };
        for number in numbers.into_iter().filter(|number| *number > 0.0) {
            let next = with(model, &best, figure, number).and_then(|values| model.at(values, None));
            if let Some(next) = next.filter(|next| next.objective < best.objective) {
                best = next;
            }
        }
    }
    best
}
