//! Sizes, tokens, routes and the plain reference of a mixture of experts.

use super::rounded;
use crate::node::allreduce_window::OVERHEAD;
use crate::{Settings, number};
use phalanx_sim::value::bf16;

/// The sizes of the problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) ranks: usize,
    pub(super) tokens: usize,
    pub(super) top: usize,
    pub(super) hidden: usize,
    /// Experts on each chip.
    pub(super) experts: usize,
}

/// The tokens of one rank and their routes.
pub(super) struct Tokens {
    /// The elements, row by row.
    pub(super) x: Vec<bf16>,
    /// The experts of each token, counted over all chips.
    pub(super) routes: Vec<i32>,
    /// The weight of each route.
    pub(super) weights: Vec<f32>,
}

impl Plan {
    pub(super) fn new(settings: &Settings, chips: u32) -> Self {
        let [tokens, top, hidden, experts] =
            ["tokens", "top", "hidden", "experts"].map(|name| settings.size(name));
        Self { ranks: chips as usize, tokens, top, hidden, experts }
    }

    /// Most rows that a chip can receive: every token may choose as many of its experts as possible.
    pub(super) fn rows(&self) -> usize {
        self.ranks * self.tokens * self.top.min(self.experts)
    }

    /// The bytes of a window's buffers.
    pub(super) fn window(&self) -> u64 {
        let (rows, hidden) = (self.rows() as u64, self.hidden as u64);
        let counts = (self.ranks * self.ranks * self.experts) as u64;
        let back = (self.tokens * self.top) as u64 * hidden;
        4 * counts + rows * (2 * hidden + 12) + 2 * back
    }

    /// The bytes of all tensors and windows.
    pub(super) fn bytes(&self) -> u64 {
        let (rows, tokens, hidden) = (self.rows() as u64, self.tokens as u64, self.hidden as u64);
        let own = rows * (4 * hidden + 12) + tokens * (4 * hidden + 8 * self.top as u64);
        let small = 4 * self.experts as u64 + OVERHEAD * (self.ranks as u64 + 12);
        (self.window() + own + small) * self.ranks as u64
    }

    /// The tokens of a rank: a function of seed and rank alone.
    pub(super) fn tokens_of(&self, seed: u64, rank: usize) -> Tokens {
        let stream = rank as u64 * 8;
        let fraction =
            |stream: u64, index: usize| number(seed, stream, index as u64, 9999) / 9999.0;
        let x = (0..self.tokens * self.hidden).map(|at| bf16::from_f32(fraction(stream, at)));
        let slots = self.tokens * self.top;
        let weight = |at: usize| (fraction(stream + 1, at).abs() + 0.01) / 1.01;
        Tokens {
            x: x.collect(),
            routes: (0..self.tokens).flat_map(|token| self.routes(seed, rank, token)).collect(),
            weights: (0..slots).map(weight).collect(),
        }
    }

    /// The experts of a token, pseudo-random and all different.
    fn routes(&self, seed: u64, rank: usize, token: usize) -> Vec<i32> {
        let all = self.experts * self.ranks;
        let place = |expert: usize| {
            let index = (token * all + expert) as u64;
            let [high, low] =
                [2, 3].map(|side| number(seed, rank as u64 * 8 + side, index, 32_767));
            (high.to_bits(), low.to_bits(), expert)
        };
        let mut experts: Vec<usize> = (0..all).collect();
        experts.sort_by_key(|expert| place(*expert));
        experts.iter().take(self.top).map(|expert| i32::try_from(*expert).unwrap_or(0)).collect()
    }

    /// A token's row.
    pub(super) fn row<'a>(&self, x: &'a [bf16], token: usize) -> &'a [bf16] {
        &x[token * self.hidden..(token + 1) * self.hidden]
    }

    /// The sender and token of each row on this chip, in the order of the rows.
    pub(super) fn arrivals(&self, ranks: &[&Tokens], chip: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for expert in chip * self.experts..(chip + 1) * self.experts {
            for (from, tokens) in ranks.iter().enumerate() {
                let slots = (0..).zip(&tokens.routes);
                let own = slots.filter(|(_, route)| usize::try_from(**route) == Ok(expert));
                found.extend(own.map(|(slot, _): (usize, _)| (from, slot / self.top)));
            }
        }
        found
    }

    /// The sum of a token's row times each of its weights, in f64, rounded once.
    pub(super) fn reference(&self, tokens: &Tokens) -> Vec<bf16> {
        let total = |token: usize| -> f64 {
            let slots = token * self.top..(token + 1) * self.top;
            tokens.weights[slots].iter().map(|weight| f64::from(*weight)).sum()
        };
        let rows = tokens.x.chunks(self.hidden).enumerate();
        rows.flat_map(|(token, row)| {
            let total = total(token);
            row.iter().map(move |x| rounded(f64::from(*x) * total))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { ranks: 3, tokens: 5, top: 4, hidden: 7, experts: 2 };

    #[test]
    fn tokens_choose_different_experts_and_every_row_arrives_once() {
        let all: Vec<Tokens> = (0..3).map(|rank| PLAN.tokens_of(9, rank)).collect();
        for tokens in &all {
            for routes in tokens.routes.chunks(PLAN.top) {
                let mut sorted = routes.to_vec();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), PLAN.top);
                assert!(sorted.iter().all(|expert| (0..6).contains(expert)));
            }
        }
        let all: Vec<&Tokens> = all.iter().collect();
        let arrived: Vec<usize> = (0..3).map(|chip| PLAN.arrivals(&all, chip).len()).collect();
        assert_eq!(arrived.iter().sum::<usize>(), 3 * 5 * 4);
        assert!(arrived.iter().all(|count| *count <= PLAN.rows()));
    }
}
