//! `moe-dispatch`: a mixture of experts that are spread over chips.
//!
//! ```text
//!   dispatch (all ranks together)                   expert        combine (all ranks together)
//!   histogram ► publish counts ► prefix sums ►      y = x · w     rows go back ► sum of the `top` rows
//!   push rows, weights, origins ► stage out                       of each token
//! ```
//!
//! Rows on an expert's chip are sorted by expert, then by sender, then by token: every rank computes the place of its rows
//! from the counts of all ranks, and pushes them there. A stage depends on the one before because it reads its outputs.

mod callables;
mod plan;

pub(super) use callables::{COMBINE, DISPATCH, EXPERT};

use super::harness::Harness;
use super::{Chips, NodeError, REPEATS, SPOIL, Workload};
use crate::{Default, Parameter, ParameterError, ParameterKind, SEED, Settings};
use phalanx_runtime::{Call, DType, DomainSpec, Failure, Orchestrator, Target, Tensor};
use phalanx_sim::value::bf16;
use plan::{Plan, Tokens};

const fn count(
    name: &'static str,
    help: &'static str,
    most: u64,
    usual: &'static str,
) -> Parameter {
    let kind = ParameterKind::Count { least: 1, most };
    Parameter { name, help, kind, default: Default::Text(usual) }
}

pub(super) const WORKLOAD: Workload = Workload {
    name: "moe-dispatch",
    summary: "tokens go to the chips of their experts and back: counts, prefix sums, payload, combine",
    parameters: &[
        count("tokens", "how many tokens each chip has", 1 << 12, "128"),
        count("top", "how many experts each token has", 64, "6"),
        count("hidden", "how many bf16 numbers a token has", 1 << 14, "4096"),
        count("experts", "how many experts each chip has", 1 << 10, "16"),
        REPEATS,
        SEED,
        SPOIL,
    ],
    chips: Chips::From(2, 2),
    bytes,
    run,
};

fn bytes(settings: &Settings, chips: u32) -> Result<u64, ParameterError> {
    let plan = Plan::new(settings, chips);
    let (top, all) = (plan.top, plan.experts * plan.ranks);
    if top > all {
        let message = format!("parameter `top`: {top} experts of {all} cannot be chosen");
        let help = "use a smaller `top`, more `experts` or more chips";
        return Err(ParameterError::new(message, help));
    }
    Ok(plan.bytes())
}

/// The tolerance of an output: a rounding of each row, and one of their sum.
const STEPS: u32 = 2;

/// The tensors of one rank: inputs, intermediate results, output.
struct Rank {
    tokens: Tokens,
    x: Tensor,
    routes: Tensor,
    weights: Tensor,
    counts: Tensor,
    rows: Tensor,
    row_weights: Tensor,
    origins: Tensor,
    y: Tensor,
    out: Tensor,
}

impl Rank {
    fn new(harness: &Harness<'_>, plan: &Plan, rank: usize) -> Result<Self, NodeError> {
        let Plan { tokens, top, hidden, experts, .. } = *plan;
        let room = plan.rows();
        let own = plan.tokens_of(harness.settings.count("seed"), rank);
        Ok(Self {
            x: harness.tensor(DType::BF16, &[tokens, hidden], &own.x)?,
            routes: harness.tensor(DType::I32, &[tokens, top], &own.routes)?,
            weights: harness.tensor(DType::F32, &[tokens, top], &own.weights)?,
            tokens: own,
            counts: harness.empty(DType::I32, &[experts])?,
            rows: harness.empty(DType::BF16, &[room, hidden])?,
            row_weights: harness.empty(DType::F32, &[room])?,
            origins: harness.empty(DType::I32, &[room, 2])?,
            y: harness.empty(DType::BF16, &[room, hidden])?,
            out: harness.empty(DType::BF16, &[tokens, hidden])?,
        })
    }
}

fn run(harness: &mut Harness<'_>) -> Result<(), NodeError> {
    let plan = Plan::new(harness.settings, harness.chips);
    let ranks = (0..plan.ranks).map(|rank| Rank::new(harness, &plan, rank));
    let ranks = ranks.collect::<Result<Vec<Rank>, NodeError>>()?;
    harness.repeat("moe-dispatch", |graph| submit(graph, &plan, &ranks))?;
    let tokens: Vec<&Tokens> = ranks.iter().map(|rank| &rank.tokens).collect();
    for (number, rank) in ranks.iter().enumerate() {
        let arrived = plan.arrivals(&tokens, number);
        let used = arrived.len() as u64;
        let row = |(from, token): &(usize, usize)| plan.row(&tokens[*from].x, *token).to_vec();
        let expected = arrived.iter().flat_map(row);
        let what = format!("the rows that chip {number} was sent");
        harness.compare_steps(&what, &rank.rows.rows(0, used)?, expected, 0)?;
        let what = format!("the output of chip {number}");
        harness.compare_steps(&what, &rank.out, plan.reference(&rank.tokens), STEPS)?;
    }
    Ok(())
}

fn submit(graph: &mut Orchestrator<'_>, plan: &Plan, ranks: &[Rank]) -> Result<(), Failure> {
    let chips: Vec<u32> = (0..u32::try_from(ranks.len())?).collect();
    let Plan { tokens, top, hidden, experts, .. } = *plan;
    let [rows, hidden, all] = [plan.rows(), hidden, experts * plan.ranks].map(|n| n as u64);
    let (slots, senders) = ((tokens * top) as u64, plan.ranks as u64);
    let domain = graph.allocate_domain(&DomainSpec {
        name: "experts",
        chips: &chips,
        window: plan.window(),
        buffers: &[
            ("counts", DType::I32, &[senders, all]),
            ("rows", DType::BF16, &[rows, hidden]),
            ("weights", DType::F32, &[rows]),
            ("origins", DType::I32, &[rows, 2]),
            ("back", DType::BF16, &[slots, hidden]),
        ],
        signals: 3,
    })?;
    let dispatch = |(chip, rank): (&u32, &Rank)| {
        let given = [rank.x.input(), rank.routes.input(), rank.weights.input()];
        let staged = [
            rank.counts.output(),
            rank.rows.output(),
            rank.row_weights.output(),
            rank.origins.output(),
        ];
        (*chip, Call::new(&DISPATCH).domain(&domain).args(given).args(staged))
    };
    graph.submit_next_level_group(&chips.iter().zip(ranks).map(dispatch).collect::<Vec<_>>())?;
    for (chip, rank) in chips.iter().zip(ranks) {
        let given = [rank.counts.input(), rank.rows.input(), rank.row_weights.input()];
        let call = Call::new(&EXPERT).args(given).args([rank.y.output()]);
        graph.submit_next_level(Target::Chip(*chip), &call)?;
    }
    let combine = |(chip, rank): (&u32, &Rank)| {
        let given = [rank.counts.input(), rank.origins.input(), rank.y.input()];
        (*chip, Call::new(&COMBINE).domain(&domain).args(given).args([rank.out.output()]))
    };
    graph.submit_next_level_group(&chips.iter().zip(ranks).map(combine).collect::<Vec<_>>())?;
    Ok(())
}

/// A number rounded to bf16.
fn rounded(number: f64) -> bf16 {
    bf16::from_f64(number)
}
