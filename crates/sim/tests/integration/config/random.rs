//! Random machines and mutilated files.

use phalanx_sim::config::{
    MachineView, Override, parse_machine, parse_machine_with, presets, to_yaml,
};
use phalanx_sim::spec::{
    CacheSpec, DmaSpec, Efficiency, FigureSource, Forwarding, GemmSpec, GridSpec, HbmSpec,
    InSwitchSpec, LevelSpec, LinkSpec, MachineSpec, NumberType, Origin, SipsSpec, Topology,
    VectorClass, VectorCosts, WireSpec,
};
use phalanx_sim::{Bytes, Capacity, Rate, Time};
use proptest::prelude::*;

fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![
        1 => Just(Rate::UNLIMITED),
        4 => (1_u64..1_000, 0_u32..16).prop_map(|(n, zeros)| Rate::per_second(n * 10_u64.pow(zeros)).unwrap()),
        4 => (1_u64..).prop_map(|n| Rate::per_second(n).unwrap()),
    ]
}

fn capacities() -> impl Strategy<Value = Capacity> {
    let limited =
        (1_u64..1 << 16, 0_u32..16).prop_map(|(n, shift)| Capacity::Limited(Bytes(n << shift)));
    prop_oneof![Just(Capacity::Unlimited), limited]
}

fn wires(least: u64) -> impl Strategy<Value = WireSpec> {
    (rates(), least..10_000_000)
        .prop_map(|(bandwidth, ps)| WireSpec { bandwidth, latency: Time::ps(ps) })
}

fn grids() -> impl Strategy<Value = GridSpec> {
    (1_u32..9, 1_u32..9, wires(0)).prop_map(|(rows, columns, link)| GridSpec {
        rows,
        columns,
        link,
    })
}

fn links(least: u64) -> impl Strategy<Value = LinkSpec> {
    (wires(least), 1..=1_000_000_u32, 1..=1_024_u32).prop_map(|(wire, millionths, lanes)| {
        LinkSpec { efficiency: Efficiency::millionths(millionths).unwrap(), lanes, ..wire.into() }
    })
}

fn in_switch() -> impl Strategy<Value = Option<InSwitchSpec>> {
    let cost = (1..=1_000_000_u32, 0_u64..10_000_000).prop_map(|(millionths, ps)| InSwitchSpec {
        efficiency: Efficiency::millionths(millionths).unwrap(),
        start: Time::ps(ps),
    });
    prop::option::of(cost)
}

/// The numbers of a level: its count, topology, link, NICs, way to them, oversubscription, and the skills of its switch.
type RawLevel =
    ((u32, u8), LinkSpec, u32, Option<WireSpec>, u32, (Option<InSwitchSpec>, Option<InSwitchSpec>));

fn raw_levels() -> impl Strategy<Value = Vec<RawLevel>> {
    let pcie = prop::option::of(wires(1));
    let level =
        ((1..5_u32, 0..4_u8), links(1_000), 1..4_u32, pcie, 1..5_u32, (in_switch(), in_switch()));
    prop::collection::vec(level, 0..3)
}

fn levels(mut part: u32, raw: Vec<RawLevel>) -> Vec<LevelSpec> {
    let mut levels = Vec::new();
    for (name, ((side, kind), link, share, pcie, ratio, (multicast, reduction))) in
        ["node", "super_pod"].into_iter().zip(raw)
    {
        let (count, topology) = match kind {
            0 => (side, Topology::FullyConnected),
            1 => (2 * side, Topology::Torus2d { rows: side, columns: 2 }),
            2 => (6 * side, Topology::Mesh3d { layers: side, rows: 2, columns: 3 }),
            _ => (side, Topology::Switch),
        };
        // Every grid of cubes and PEs must fit.
        if part * count > 255 {
            break;
        }
        let switched = topology == Topology::Switch;
        levels.push(LevelSpec {
            name: name.to_owned(),
            count,
            topology,
            link,
            nics: if part.is_multiple_of(share) { part / share } else { part },
            pcie,
            oversubscription: if switched { ratio } else { 1 },
            multicast: multicast.filter(|_| switched),
            reduction: reduction.filter(|_| switched),
        });
        part *= count;
    }
    levels
}

fn sips() -> impl Strategy<Value = SipsSpec> {
    let modes = prop::sample::select(Forwarding::ALL.to_vec());
    (1_u32..16, 1_u32..16, 0..6, links(1), modes).prop_map(
        |(rows, columns, kind, link, forwarding)| {
            let topology = match kind {
                0 => Topology::Ring1d,
                1 => Topology::Switch,
                2 => Topology::FullyConnected,
                3 => Topology::Mesh2d { rows, columns },
                4 => Topology::Torus3d { layers: 1, rows, columns },
                _ => Topology::Torus2d { rows, columns },
            };
            SipsSpec { forwarding, ..SipsSpec::new(rows * columns, topology, link) }
        },
    )
}

fn efficiencies() -> impl Strategy<Value = Efficiency> {
    prop_oneof![
        Just(Efficiency::FULL),
        (1..=Efficiency::UNITS).prop_map(|part| Efficiency::millionths(part).unwrap())
    ]
}

fn caches() -> impl Strategy<Value = Option<CacheSpec>> {
    let cache = (capacities(), wires(0)).prop_map(|(capacity, wire)| CacheSpec {
        capacity,
        bandwidth: wire.bandwidth,
        latency: wire.latency,
    });
    prop::option::of(cache)
}

fn channels() -> impl Strategy<Value = DmaSpec> {
    let burst = prop_oneof![Just(0), 1..=1_u64 << 20];
    (wires(0), 1..=65_536_u32, burst).prop_map(|(wire, outstanding, burst)| DmaSpec {
        outstanding,
        burst,
        ..wire.into()
    })
}

fn engines() -> impl Strategy<Value = GemmSpec> {
    let tiles = [1_u32..=65_536, 1..=65_536, 1..=65_536];
    let of_types = prop::array::uniform6(prop::option::of(rates()));
    const { assert!(NumberType::ALL.len() == 6) };
    (rates(), tiles, efficiencies(), of_types)
        .prop_map(|(rate, tile, efficiency, rates)| GemmSpec { rate, tile, efficiency, rates })
}

fn machines() -> impl Strategy<Value = MachineSpec> {
    let texts = ("null|[a-zA-Z0-9][a-zA-Z0-9._-]{0,19}", "\\PC{0,30}");
    let costs = [1_u32..9, 1..9, 1..9, 1..65_537];
    const { assert!(VectorClass::ALL.len() == 4) };
    let engines = (engines(), costs.prop_map(VectorCosts), rates(), capacities(), channels());
    let memory = (capacities(), rates(), 0_u64..1_000_000, efficiencies(), caches());
    let grids = (grids(), grids());
    (texts, sips(), raw_levels(), wires(0), grids, memory, engines).prop_map(
        |(texts, sips, raw, host, (cubes, pes), memory, engines)| {
            let levels = levels(sips.count, raw);
            let hbm = HbmSpec {
                capacity: memory.0,
                bandwidth: memory.1,
                latency: Time::ps(memory.2),
                efficiency: memory.3,
            };
            let (name, description) = (texts.0, texts.1.trim().to_owned());
            MachineSpec {
                name,
                description,
                sips,
                levels,
                host,
                launch: Time::ZERO,
                cubes,
                cache: memory.4,
                pes,
                hbm,
                tcm: engines.3,
                dma: engines.4,
                gemm: engines.0,
                vector: engines.2,
                vector_costs: engines.1,
                collectives: None,
                sources: Vec::new(),
            }
        },
    )
}

/// Cuts, repeats and replaces: what an editor, a merge or a bad disk do to a file.
fn mutilate(text: &str, edits: &[(usize, usize, String)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, length, put) in edits {
        let start = at % (chars.len() + 1);
        let end = (start + length).min(chars.len());
        chars.splice(start..end, put.chars());
    }
    chars.into_iter().collect()
}

proptest! {
    #[test]
    fn print_1_any_machine_reads_back(spec in machines(), sources in prop::collection::vec((any::<prop::sample::Index>(), "fitted|\\PC{1,30}"), 0..4)) {
        let mut spec = spec;
        let figures = MachineView::new(&spec).figures();
        for (figure, text) in sources {
            let (figure, text) = (&figure.get(&figures).path, text.trim());
            if !text.is_empty() && spec.sources.iter().all(|known| known.figure != *figure) {
                spec.sources.push(FigureSource { figure: figure.clone(), origin: Origin::from_text(text) });
            }
        }
        let text = to_yaml(&spec);
        match parse_machine("printed", &text) {
            Ok(again) => prop_assert_eq!(again, spec, "PRINT-1"),
            Err(errors) => prop_assert!(false, "{}\n{}", errors, text),
        }
    }

    #[test]
    fn cfg_4_any_mutilated_file_is_read_or_refused(
        which in 0..presets().len(),
        edits in prop::collection::vec((any::<usize>(), 0_usize..12, "[-{}\\[\\],:#&*!|>%@`\"' \t\n\r0-9a-z]{0,4}|\\PC{0,2}"), 1..5),
    ) {
        let text = mutilate(presets()[which].text, &edits);
        match parse_machine("mutilated", &text) {
            Ok(spec) => prop_assert_eq!(parse_machine("printed", &to_yaml(&spec)), Ok(spec), "CFG-4"),
            Err(errors) => {
                let positions: Vec<_> = errors.errors().iter().map(|error| (error.line(), error.column())).collect();
                prop_assert!(positions.is_sorted(), "CFG-2: {:?}", positions);
                prop_assert!(errors.to_string().contains("mutilated:") && errors.render(true).contains("mutilated:"));
            }
        }
    }

    #[test]
    fn cfg_4_any_text_is_read_or_refused(text in "(?s).{0,200}") {
        if let Err(errors) = parse_machine("any", &text) {
            prop_assert!(!errors.to_string().is_empty());
        }
    }

    #[test]
    fn cfg_4_any_override_is_read_or_refused(text in "[a-z.]{0,20}=.{0,20}|(system.sips.count|pe.dma|pe.gemm.tile|cube)=.{0,20}") {
        match Override::parse(&text).and_then(|over| parse_machine_with("quad-sip", presets()[1].text, &[over])) {
            Ok(spec) => prop_assert_eq!(parse_machine("printed", &to_yaml(&spec)), Ok(spec)),
            Err(errors) => prop_assert!(!errors.to_string().is_empty()),
        }
    }
}
