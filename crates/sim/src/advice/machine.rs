//! The values of a machine that advice tries.

use crate::spec::{LevelSpec, LinkSpec, MachineSpec};
use crate::stall::Kind;
use crate::time::{Rate, Time};
use crate::units::{show_bandwidth, show_rate, show_time};
use std::borrow::Cow;

/// A value of a machine.
pub(super) struct MachineValue {
    /// The path in machine files.
    pub(super) path: Cow<'static, str>,
    /// The kinds of time that a faster value can shorten.
    kinds: &'static [Kind],
    quantity: Quantity,
}

/// A value that every machine has.
#[derive(Clone, Copy)]
struct KnownValue {
    path: &'static str,
    kinds: &'static [Kind],
    quantity: fn(&MachineSpec) -> Quantity,
}

/// A rate or a latency.
#[derive(Clone, Copy)]
enum Quantity {
    Bandwidth(Rate),
    Rate(Rate),
    Latency(Time),
}

use Quantity::{Bandwidth, Latency};

/// Waits for a program that has not begun are waits for its launch over the host link.
const HOST: &[Kind] = &[Kind::Link, Kind::Dependency];
const HOST_LATENCY: &[Kind] = &[Kind::Latency, Kind::Link, Kind::Dependency];
/// A credit takes the way of a message back.
const LINK: &[Kind] = &[Kind::Link, Kind::Credit];
const COMPUTE: &[Kind] = &[Kind::Compute];
// A message takes the DMA, the meshes and the memory of its slots on its way.
const DMA: &[Kind] = &[Kind::Dma, Kind::Link];
const HBM: &[Kind] = &[Kind::Hbm, Kind::Link];
const MESH: &[Kind] = &[Kind::Mesh, Kind::Link];
const LATENCY: &[Kind] = &[Kind::Latency, Kind::Link];

const fn value(
    path: &'static str,
    kinds: &'static [Kind],
    quantity: fn(&MachineSpec) -> Quantity,
) -> KnownValue {
    KnownValue { path, kinds, quantity }
}

const VALUES: [KnownValue; 14] = [
    value("pe.gemm.rate", COMPUTE, |spec| Quantity::Rate(spec.gemm.rate)),
    value("pe.vector.bandwidth", COMPUTE, |spec| Bandwidth(spec.vector)),
    value("pe.dma.bandwidth", DMA, |spec| Bandwidth(spec.dma.bandwidth)),
    value("pe.dma.latency", LATENCY, |spec| Latency(spec.dma.latency)),
    value("cube.hbm.bandwidth", HBM, |spec| Bandwidth(spec.hbm.bandwidth)),
    value("cube.hbm.latency", LATENCY, |spec| Latency(spec.hbm.latency)),
    value("cube.pes.link.bandwidth", MESH, |spec| Bandwidth(spec.pes.link.bandwidth)),
    value("cube.pes.link.latency", LATENCY, |spec| Latency(spec.pes.link.latency)),
    value("sip.cubes.link.bandwidth", MESH, |spec| Bandwidth(spec.cubes.link.bandwidth)),
    value("sip.cubes.link.latency", LATENCY, |spec| Latency(spec.cubes.link.latency)),
    value("system.sips.link.bandwidth", LINK, |spec| Bandwidth(spec.sips.link.bandwidth)),
    value("system.sips.link.latency", LINK, |spec| Latency(spec.sips.link.latency)),
    value("system.host.link.bandwidth", HOST, |spec| Bandwidth(spec.host.bandwidth)),
    value("system.host.link.latency", HOST_LATENCY, |spec| Latency(spec.host.latency)),
];

/// Returns all values of a machine: those that every machine has, and the links of its levels.
pub(super) fn values(machine: &MachineSpec) -> impl Iterator<Item = MachineValue> {
    let known = VALUES.into_iter().map(|KnownValue { path, kinds, quantity }| MachineValue {
        path: path.into(),
        kinds,
        quantity: quantity(machine),
    });
    let of_level = |level: &LevelSpec| {
        let value = |key: &str, quantity| {
            let path = format!("system.levels.{}.link.{key}", level.name).into();
            MachineValue { path, kinds: LINK, quantity }
        };
        let LinkSpec { bandwidth, latency, .. } = level.link;
        [value("bandwidth", Bandwidth(bandwidth)), value("latency", Latency(latency))]
    };
    known.chain(machine.levels.iter().flat_map(of_level))
}

impl MachineValue {
    /// True if a faster value can shorten time of one of these kinds.
    pub(super) fn shortens(&self, kinds: &[Kind]) -> bool {
        self.kinds.iter().any(|kind| kinds.contains(kind))
    }

    /// Returns the value and one twice as fast, as texts of a machine file; `None` if the value costs nothing.
    pub(super) fn twice_as_fast(&self) -> Option<(String, String)> {
        match self.quantity {
            Quantity::Bandwidth(rate) => Some((show_bandwidth(rate), show_bandwidth(twice(rate)?))),
            Quantity::Rate(rate) => Some((show_rate(rate), show_rate(twice(rate)?))),
            Quantity::Latency(Time::ZERO) => None,
            Quantity::Latency(time) => {
                Some((show_time(time), show_time(Time::ps(time.as_ps() / 2))))
            }
        }
    }
}

fn twice(rate: Rate) -> Option<Rate> {
    Rate::per_second(rate.as_per_second()?.checked_mul(2)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::presets;

    #[test]
    fn adv_2_every_kind_of_time_has_values_that_are_tried() {
        let bare = MachineSpec::preset("bare").unwrap();
        for kind in Kind::ALL {
            let tried = values(&bare).filter(|value| value.shortens(&[kind]));
            assert!(tried.count() > 0, "ADV-2: {kind}");
        }
    }

    #[test]
    fn a_value_is_read_from_its_own_path() {
        for preset in presets() {
            let level = "system.levels=[{name: node, count: 2, topology: switch, link: {bandwidth: 9 GB/s, latency: 8 us}}]";
            // A figure that is set loses its source.
            let preset = MachineSpec::preset(preset.name).unwrap().with(level).unwrap();
            let spec = MachineSpec { sources: Vec::new(), ..preset };
            for (number, value) in values(&spec).enumerate() {
                let Some((from, to)) = value.twice_as_fast() else { continue };
                assert_eq!(spec.with(&format!("{}={from}", value.path)).unwrap(), spec);
                let faster = spec.with(&format!("{}={to}", value.path)).unwrap();
                assert_ne!(faster, spec, "{}", value.path);
                let again = values(&faster).nth(number).and_then(|value| value.twice_as_fast());
                let again = again.map(|(from, _)| from);
                assert!(again.is_none_or(|again| again == to), "{}", value.path);
            }
        }
    }

    #[test]
    fn a_value_that_costs_nothing_is_not_tried() {
        let bare = MachineSpec::preset("bare").unwrap();
        let tried: Vec<_> = values(&bare)
            .filter(|value| value.twice_as_fast().is_some())
            .map(|value| value.path)
            .collect();
        let costs = [
            "pe.gemm.rate",
            "pe.vector.bandwidth",
            "system.sips.link.bandwidth",
            "system.sips.link.latency",
        ];
        assert_eq!(tried, costs);
    }
}
