//! Channels and streams: strided segments, every direction of a grid, and trees that share no link.

use super::order::{back, round};
use super::{Case, machine_for, torus};
use crate::ranks::machine;
use phalanx_sim::MachineSpec;
use phalanx_sim::ipcq::{BufferKind, EdgeSpec};
use phalanx_sim::value::DType;
use phalanx_torch::ccl::{Algorithm, Channels, Operation, ReduceOp};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// `bare` with `ranks` SIPs of four PEs.
fn with_pes(ranks: usize) -> MachineSpec {
    let pes = "cube.pes={rows: 2, columns: 2, link: {bandwidth: unlimited, latency: 0 ns}}";
    machine("bare", &[pes, &format!("system.sips.count={ranks}")])
}

/// A grid of SIPs, open or with rings.
fn grid(rows: usize, columns: usize, wraps: bool) -> MachineSpec {
    let spec = torus(rows, columns);
    if wraps { spec } else { spec.with("system.sips.topology=mesh_2d").unwrap() }
}

#[test]
fn chn_1_every_operation_runs_over_channels() {
    for operation in Operation::ALL {
        for algorithm in Algorithm::ALL {
            let (ranks, members) = (5, [0, 1, 2, 3, 4]);
            let spec = with_pes(ranks);
            if algorithm.check(operation, &spec, &members).is_err() {
                continue;
            }
            for channels in [Channels::ONE, Channels::Number(3), Channels::All] {
                // Fewer elements than channels, a few each, and several slots each.
                for elements in [0, 2, 7, 150] {
                    for root in if operation.has_root() { 0..ranks } else { 0..1 } {
                        let case = Case::new(operation, algorithm.name, ranks, elements);
                        let case = Case { channels: Some(channels), root, ..case };
                        case.check(&spec);
                        Case { apart: true, ..case }.check(&spec);
                    }
                }
            }
        }
    }
}

#[test]
fn multi_ring_on_every_shape_of_grid() {
    let multi = Algorithm::find("multi_ring").unwrap();
    for (rows, columns) in [(1, 4), (4, 1), (2, 2), (2, 3), (3, 3), (2, 5), (4, 4)] {
        for wraps in [true, false] {
            let spec = grid(rows, columns, wraps);
            for &operation in multi.operations {
                for elements in [1, 6, 97] {
                    let case = Case::new(operation, "multi_ring", rows * columns, elements);
                    for root in if operation.has_root() { [0, rows * columns - 1] } else { [0, 0] }
                    {
                        Case { root, ..case.clone() }.check(&spec);
                    }
                }
            }
        }
    }
}

#[test]
fn ccl_1_multi_ring_combines_along_lines_in_the_order_that_is_stated() {
    // Four streams of equal parts: x first and y first, each up and down.
    let (side, len) = (4, 64 * 4);
    let case = Case::new(Operation::AllReduce, "multi_ring", side * side, len);
    let case = Case { exact: false, ..case };
    let inputs: Vec<Vec<f32>> = (0..side * side).map(|rank| case.input(rank)).collect();
    let wanted: Vec<u32> = (0..len)
        .map(|at| {
            let (stream, rank) = (at * 4 / len, at % (len / 4) / (len / 4 / side / side));
            let (row, column) = (rank / side, rank % side);
            let turn = |x: &[f32], owner| {
                if stream.is_multiple_of(2) { round(x, owner) } else { back(x, owner) }
            };
            let x = |row: usize, column: usize| inputs[row * side + column][at];
            let sum = if stream < 2 {
                let rows: Vec<f32> = (0..side)
                    .map(|row| {
                        turn(&(0..side).map(|column| x(row, column)).collect::<Vec<_>>(), column)
                    })
                    .collect();
                turn(&rows, row)
            } else {
                let columns: Vec<f32> = (0..side)
                    .map(|column| {
                        turn(&(0..side).map(|row| x(row, column)).collect::<Vec<_>>(), row)
                    })
                    .collect();
                turn(&columns, column)
            };
            sum.to_bits()
        })
        .collect();
    for (rank, value) in case.run(&torus(side, side)).1.iter().enumerate() {
        let got: Vec<u32> = value.to_f32().into_iter().map(f32::to_bits).collect();
        assert_eq!(got, wanted, "CCL-1: rank {rank}");
    }
}

fn edges() -> impl Strategy<Value = EdgeSpec> {
    let kinds = select(vec![BufferKind::Tcm, BufferKind::Hbm]);
    (1..6u32, 4..200u64, kinds).prop_map(|(n_slots, slot_size, buffer_kind)| EdgeSpec {
        n_slots,
        slot_size,
        buffer_kind,
        ..EdgeSpec::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn chn_1_any_channels_of_any_collective_give_what_they_should(
        operation in select(Operation::ALL.to_vec()),
        which in any::<Index>(),
        (ranks, root) in (1..9usize, any::<Index>()),
        elements in 0..200usize,
        (combine, dtype) in (
            select(vec![ReduceOp::Sum, ReduceOp::Max, ReduceOp::Avg]),
            select(vec![DType::F32, DType::F16]),
        ),
        edge in edges(),
        channels in select(vec![Channels::ONE, Channels::Number(2), Channels::Number(3), Channels::All]),
        tcm in select(vec!["unlimited", "4 KiB"]),
    ) {
        let spec = with_pes(ranks).with(&format!("pe.tcm.capacity={tcm}")).unwrap();
        let members: Vec<u32> = (0..u32::try_from(ranks).unwrap()).collect();
        let able: Vec<&Algorithm> = Algorithm::ALL
            .iter()
            .filter(|algorithm| algorithm.check(operation, &spec, &members).is_ok())
            .collect();
        let case = Case::new(operation, able[which.index(able.len())].name, ranks, elements);
        let combine = if combine == ReduceOp::Avg && ranks != 4 { ReduceOp::Sum } else { combine };
        let root = root.index(ranks);
        Case { root, combine, dtype, edge, channels: Some(channels), ..case }.check(&spec);
    }

    #[test]
    fn any_grid_gives_what_it_should(
        (rows, columns) in (1..5usize, 1..6usize),
        wraps in any::<bool>(),
        which in any::<Index>(),
        root in any::<Index>(),
        elements in 0..120usize,
        edge in edges(),
        tcm in select(vec!["unlimited", "4 KiB"]),
    ) {
        let operations = Algorithm::find("multi_ring").unwrap().operations;
        let operation = operations[which.index(operations.len())];
        let spec = grid(rows, columns, wraps).with(&format!("pe.tcm.capacity={tcm}")).unwrap();
        let ranks = rows * columns;
        let case = Case::new(operation, "multi_ring", ranks, elements);
        Case { root: root.index(ranks), edge, ..case }.check(&spec);
    }
}

#[test]
fn a_group_of_some_of_a_grid_is_refused() {
    let multi = Algorithm::find("multi_ring").unwrap();
    let why = multi.check(Operation::AllGather, &torus(2, 2), &[0, 1, 2]).unwrap_err();
    assert_eq!(why, "`multi_ring` needs a group of all 4 SIPs of the grid in their order");
    let why = multi.check(Operation::AllGather, &machine_for("torus_2d", 4), &[1, 0, 2, 3]);
    assert!(why.is_err());
    assert!(multi.check(Operation::AllGather, &with_pes(6), &[1, 3, 4]).is_ok(), "any of a ring");
}
