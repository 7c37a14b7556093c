//! Random machines and mutilated files.

use phalanx_sim::config::{Override, parse_machine, parse_machine_with, presets, to_yaml};
use phalanx_sim::spec::{
    CacheSpec, DmaSpec, Efficiency, Forwarding, GemmSpec, GridSpec, HbmSpec, MachineSpec,
    NumberType, SipsSpec, Topology, VectorClass, VectorCosts, WireSpec,
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

fn sips() -> impl Strategy<Value = SipsSpec> {
    let modes = prop::sample::select(Forwarding::ALL.to_vec());
    (1_u32..16, 1_u32..16, 0..5, wires(1), modes).prop_map(
        |(rows, columns, kind, link, forwarding)| {
            let topology = match kind {
                0 => Topology::Ring1d,
                1 => Topology::Switch,
                2 => Topology::FullyConnected,
                3 => Topology::Mesh2d { rows, columns },
                _ => Topology::Torus2d { rows, columns },
            };
            SipsSpec { count: rows * columns, topology, link, forwarding }
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
    (texts, sips(), wires(0), grids(), grids(), memory, engines).prop_map(
        |(texts, sips, host, cubes, pes, memory, engines)| {
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
                host,
                cubes,
                cache: memory.4,
                pes,
                hbm,
                tcm: engines.3,
                dma: engines.4,
                gemm: engines.0,
                vector: engines.2,
                vector_costs: engines.1,
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
    fn print_1_any_machine_reads_back(spec in machines()) {
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
