//! The memories and engines of a machine file: cache, HBM, DMA, matrix engine, vector engine.

use crate::spec::{CacheSpec, DmaSpec, GemmSpec, HbmSpec, NumberType, VectorClass, VectorCosts};
use crate::time::{Bandwidth, Capacity, Rate};
use crate::units;

use super::error::Finding;
use super::machine::{MOST, latency};
use super::reader::{Found, Reader, Section, describe};
use super::yaml::Value;

/// The most requests of a channel under way.
const MOST_OUTSTANDING: u64 = 1 << 16;
/// The longest burst.
const LONGEST_BURST: u64 = 1 << 20;
/// The highest cost of a class of vector operations.
const HIGHEST_COST: u64 = 1 << 16;

/// The cache of a SIP, if it has one that is without error.
pub(super) fn cache(r: &mut Reader, sip: &Section<'_>) -> Option<CacheSpec> {
    if !sip.has("cache") {
        return None;
    }
    let section = r.section(sip, "cache")?;
    let capacity = r.quantity(&section, "capacity", units::parse_capacity);
    let bandwidth = r.quantity(&section, "bandwidth", units::parse_bandwidth);
    let latency = latency(r, &section);
    let (capacity, bandwidth, latency) = (capacity?.value, bandwidth?.value, latency?.value);
    Some(CacheSpec { capacity, bandwidth, latency })
}

pub(super) fn hbm(r: &mut Reader, cube: &Section<'_>) -> Option<Found<HbmSpec>> {
    let section = r.section(cube, "hbm")?;
    let capacity = r.quantity(&section, "capacity", units::parse_capacity);
    let bandwidth = r.quantity(&section, "bandwidth", units::parse_bandwidth);
    let latency = latency(r, &section);
    let efficiency = r.efficiency(&section, "efficiency");
    let Found { value: capacity, location } = capacity?;
    let (bandwidth, latency) = (bandwidth?.value, latency?.value);
    Some(Found { value: HbmSpec { capacity, bandwidth, latency, efficiency }, location })
}

/// The parts of a PE.
pub(super) struct PeParts {
    pub(super) tcm: Found<Capacity>,
    pub(super) dma: DmaSpec,
    pub(super) gemm: GemmSpec,
    pub(super) vector: Bandwidth,
    pub(super) vector_costs: VectorCosts,
}

pub(super) fn pe(r: &mut Reader, file: &Section<'_>) -> Option<PeParts> {
    let pe = r.section(file, "pe")?;
    let tcm =
        r.section(&pe, "tcm").and_then(|tcm| r.quantity(&tcm, "capacity", units::parse_capacity));
    let dma = dma(r, &pe);
    let gemm = gemm(r, &pe);
    let vector = vector(r, &pe);
    let (vector, vector_costs) = vector?;
    Some(PeParts { tcm: tcm?, dma: dma?, gemm: gemm?, vector, vector_costs })
}

fn dma(r: &mut Reader, pe: &Section<'_>) -> Option<DmaSpec> {
    let section = r.section(pe, "dma")?;
    let bandwidth = r.quantity(&section, "bandwidth", units::parse_bandwidth);
    let latency = latency(r, &section);
    let outstanding = r.count(&section, "outstanding", 1..=MOST_OUTSTANDING);
    let burst = r.bytes(&section, "burst", 1..=LONGEST_BURST);
    let outstanding = outstanding.and_then(|found| u32::try_from(found.value).ok()).unwrap_or(1);
    let burst = burst.map_or(0, |found| found.value);
    Some(DmaSpec { bandwidth: bandwidth?.value, latency: latency?.value, outstanding, burst })
}

fn gemm(r: &mut Reader, pe: &Section<'_>) -> Option<GemmSpec> {
    let section = r.section(pe, "gemm")?;
    let rate = r.quantity(&section, "rate", units::parse_rate);
    let tile = tile(r, &section);
    let efficiency = r.efficiency(&section, "efficiency");
    let rates = rates(r, &section);
    Some(GemmSpec { rate: rate?.value, tile: tile?, efficiency, rates: rates? })
}

/// The rates by type.
fn rates(r: &mut Reader, gemm: &Section<'_>) -> Option<[Option<Rate>; NumberType::ALL.len()]> {
    let mut rates = [None; NumberType::ALL.len()];
    if !gemm.has("rates") {
        return Some(rates);
    }
    let section = r.section(gemm, "rates")?;
    for (rate, number) in rates.iter_mut().zip(NumberType::ALL) {
        if section.has(number.name()) {
            let found = r.quantity(&section, number.name(), units::parse_rate);
            *rate = found.map(|found| found.value);
        }
    }
    Some(rates)
}

fn vector(r: &mut Reader, pe: &Section<'_>) -> Option<(Bandwidth, VectorCosts)> {
    let section = r.section(pe, "vector")?;
    let bandwidth = r.quantity(&section, "bandwidth", units::parse_bandwidth);
    let mut costs = VectorCosts::default();
    if section.has("costs") {
        let section = r.section(&section, "costs")?;
        for (cost, class) in costs.0.iter_mut().zip(VectorClass::ALL) {
            let found = r.count(&section, class.name(), 1..=HIGHEST_COST);
            *cost = found.and_then(|found| u32::try_from(found.value).ok()).unwrap_or(1);
        }
    }
    Some((bandwidth?.value, costs))
}

/// `[m, n, k]`.
fn tile(r: &mut Reader, gemm: &Section<'_>) -> Option<[u32; 3]> {
    let (node, key) = r.node(gemm, "tile")?;
    let path = gemm.path_of("tile");
    let sides = match &node.value {
        Value::Sequence(sides) if sides.len() == 3 => sides,
        _ => {
            let found = if let Value::Sequence(sides) = &node.value {
                format!("{} numbers", sides.len())
            } else {
                describe(node).to_owned()
            };
            let location =
                if node.location.start == node.location.end { key } else { node.location };
            return r.report(
                Finding::new(location, format!("`{path}` must be three numbers, found {found}"))
                    .label("not `[m, n, k]`")
                    .help("as in `[128, 128, 128]`"),
            );
        }
    };
    let sides: Vec<_> = sides.iter().map(|side| r.parse_number(side, key, &path, MOST)).collect();
    Some([sides[0]?.value, sides[1]?.value, sides[2]?.value])
}
