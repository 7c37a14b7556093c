//! One SIP that stands for all SIPs of a group (MIR-1).

use crate::support::{Outcome, bare, quad, without_data};
use phalanx_sim::exchange::{Exchange, Mirror, Symmetry};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::Tl;
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::spec::{SipsSpec, Topology};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// The partners of a rank: it sends to the first and receives from the second.
type Partners = fn(rank: u32, ranks: u32, round: u32) -> (u32, u32);

fn next(rank: u32, ranks: u32, _: u32) -> (u32, u32) {
    ((rank + 1) % ranks, (rank + ranks - 1) % ranks)
}

fn pair(rank: u32, _: u32, round: u32) -> (u32, u32) {
    let partner = rank ^ (1 << (round % 2));
    (partner, partner)
}

async fn talk(tl: Tl, ranks: u32, partners: Partners, edge: EdgeSpec) -> Outcome {
    let (rank, pe) = (tl.pe().sip, |sip| PeId::first(sip));
    let mut ends = Vec::new();
    for round in 0..2 {
        let (to, from) = partners(rank, ranks, round);
        ends.push((tl.sender_on(pe(to), round, edge)?, tl.receiver_on(pe(from), round, edge)?));
    }
    for _ in 0..6 {
        let mut tile = tl.zeros(DType::F32, 96)?;
        for (to, _) in &ends {
            drop(tl.send(to, &tile));
        }
        for (_, from) in &ends {
            let got = tl.recv(from, DType::F32, 96).await?;
            tile = tl.add(&tile, &got).await?;
        }
    }
    Ok(())
}

/// Runs the program on all SIPs that a machine simulates; returns the end of each, and whether there was a tie.
fn run(spec: &MachineSpec, partners: Partners, options: Options) -> (BTreeMap<u32, Time>, bool) {
    let mut machine = Machine::new(spec.clone(), options);
    let (ranks, ends) = (spec.devices(), Rc::new(RefCell::new(BTreeMap::new())));
    let edge = EdgeSpec { n_slots: 2, slot_size: 128, ..EdgeSpec::default() };
    for sip in (0..ranks).filter(|sip| machine.owns(*sip)).collect::<Vec<_>>() {
        let ends = ends.clone();
        machine.launch(sip, "talk", &[PeId::first(sip)], move |tl| {
            let ends = ends.clone();
            async move {
                talk(tl.clone(), ranks, partners, edge).await?;
                ends.borrow_mut().insert(tl.pe().sip, tl.now());
                Ok(())
            }
        });
    }
    let _ = machine.advance_while(|_| true).unwrap();
    (ends.take(), machine.has_ties())
}

fn mirrored(spec: &MachineSpec, symmetry: Symmetry) -> Option<Options> {
    let members: Vec<u32> = (0..spec.devices()).collect();
    let mirror: Arc<dyn Exchange> = Arc::new(Mirror::new(spec, &members, symmetry)?);
    Some(Options { exchange: Some(mirror), ..without_data() })
}

fn machines() -> Vec<MachineSpec> {
    let with = |spec: MachineSpec, count, topology| {
        let link = spec.sips.link;
        MachineSpec {
            sips: SipsSpec { link, ..SipsSpec::new(count, topology, link.wire()) },
            ..spec
        }
    };
    let all = [4, 8].into_iter().flat_map(|count| {
        [Topology::Switch, Topology::FullyConnected]
            .into_iter()
            .flat_map(move |topology| [bare(), quad()].map(|spec| with(spec, count, topology)))
    });
    all.collect()
}

#[test]
fn mir_1_one_sip_does_what_it_does_among_all() {
    let mut shown = 0;
    for spec in machines() {
        for (partners, symmetry) in
            [(next as Partners, Symmetry::Cyclic), (pair, Symmetry::Hypercube)]
        {
            let (all, _) = run(&spec, partners, without_data());
            let (one, has_ties) = run(&spec, partners, mirrored(&spec, symmetry).unwrap());
            if has_ties {
                continue;
            }
            shown += 1;
            assert_eq!(one.len(), 1, "MIR-1: one SIP is simulated");
            assert!(one[&0] > Time::ZERO);
            assert!(all.values().all(|end| *end == one[&0]), "MIR-1: {all:?} and {one:?}");
        }
    }
    assert!(shown > 0, "MIR-1: nothing was shown");
}

#[test]
fn mir_1_a_tie_is_found() {
    // The messages of two partners meet on some of these machines.
    let is_tied =
        |spec: &MachineSpec| run(spec, pair, mirrored(spec, Symmetry::Hypercube).unwrap()).1;
    assert!(machines().iter().any(is_tied), "MIR-1");
    let (_, has_ties) = run(&machines()[0], pair, without_data());
    assert!(!has_ties, "only a mirror looks for ties");
}

#[test]
fn mir_1_machines_that_tell_sips_apart_have_no_mirror() {
    let ring = bare();
    assert!(mirrored(&ring, Symmetry::Cyclic).is_none(), "MIR-1: distances differ");
    let switch = &machines()[0];
    assert!(Mirror::new(switch, &[1, 2], Symmetry::Cyclic).is_none(), "MIR-1: without SIP 0");
    assert!(Mirror::new(switch, &[0, 1, 2], Symmetry::Hypercube).is_none(), "MIR-1: no cube");
    assert!(Mirror::new(switch, &[0, 0], Symmetry::Cyclic).is_none(), "MIR-1: twice");
    assert!(Mirror::new(switch, &[0, 99], Symmetry::Cyclic).is_none(), "MIR-1: no such SIP");
    assert!(Mirror::new(switch, &[0, 3], Symmetry::Cyclic).is_some());
}
