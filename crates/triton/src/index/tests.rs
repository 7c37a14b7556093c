use super::*;
use crate::number::{Arith, Comparison, Relation, whole};
use proptest::prelude::*;

const EXTENT: [usize; 2] = [4, 6];

proptest! {
    #[test]
    fn idx_1_what_compares_alike_is_what_each_element_gives(
        left in index(), number in -70..70_i64, relation in 0..6_usize, is_unsigned in any::<bool>(),
    ) {
        let relation = [
            Relation::Eq, Relation::Ne, Relation::Lt, Relation::Le, Relation::Gt, Relation::Ge,
        ][relation];
        let comparison = Comparison { relation, is_unsigned };
        if let Some(holds) = alike(comparison, &left, number, &EXTENT) {
            let list = left.list(&EXTENT);
            let is_so = |left: &i64| comparison.of_whole(*left, number, 32) == holds;
            prop_assert!(list.iter().all(is_so), "IDX-1");
            let compared = compare(comparison, &left, &Index::splat(number), &EXTENT, 32);
            prop_assert_eq!(compared, Index::splat(holds.into()), "IDX-1: in the same form");
        }
    }
}

/// Index tensors as kernels make them.
fn index() -> impl Strategy<Value = Index> {
    let affine = |base: std::ops::Range<i64>| {
        (base, -7..8_i64, -3..4_i64).prop_map(|(base, row, column)| {
            let mut strides = [0; AXES];
            (strides[0], strides[1]) = (row, column);
            Index::Affine(base, strides)
        })
    };
    prop_oneof![
        affine(-20..60),
        affine(2_147_483_600..2_147_483_647),
        (-9..40_i64).prop_map(Index::splat),
        prop::collection::vec(-50..50_i64, 24).prop_map(|list| Index::List(list.into())),
    ]
}

fn mask() -> impl Strategy<Value = Index> {
    prop_oneof![
        (0..2_i64).prop_map(Index::splat),
        (0..4_i64, 0..5_i64, 0..6_i64, 0..7_i64).prop_map(|(a, b, c, d)| {
            let (mut low, mut high) = ([0; AXES], [1; AXES]);
            (low[0], high[0], low[1], high[1]) = (a, b, c, d);
            Index::Box(low, high)
        }),
        prop::collection::vec(0..2_i64, 24).prop_map(|list| Index::List(list.into())),
    ]
}

const OPERATIONS: [Arith; 20] = [
    Arith::Add,
    Arith::Sub,
    Arith::Mul,
    Arith::DivS,
    Arith::DivU,
    Arith::RemS,
    Arith::RemU,
    Arith::FloorDivS,
    Arith::MinS,
    Arith::MinU,
    Arith::MaxS,
    Arith::MaxU,
    Arith::And,
    Arith::Or,
    Arith::Xor,
    Arith::Shl,
    Arith::ShrS,
    Arith::ShrU,
    Arith::MulHiU,
    Arith::CeilDivS,
];

proptest! {
    #[test]
    fn idx_1_arithmetic_gives_the_numbers_of_single_elements(a in index(), b in index(), which in 0..20usize, is_wide in any::<bool>()) {
        let bits = if is_wide { 64 } else { 32 };
        let (a, b) = (a.fitted(&EXTENT, bits), b.fitted(&EXTENT, bits));
        let result = arith(OPERATIONS[which], &a, &b, &EXTENT, bits);
        let (left, right) = (a.list(&EXTENT), b.list(&EXTENT));
        let expected: Vec<i64> = left.iter().zip(right.iter()).map(|(a, b)| whole(OPERATIONS[which], *a, *b, bits)).collect();
        prop_assert_eq!(&*result.list(&EXTENT), &expected[..], "IDX-1: {:?} of {:?} and {:?}", OPERATIONS[which], a, b);
    }

    #[test]
    fn idx_1_comparisons_and_masks_give_the_bits_of_single_elements(a in index(), b in index(), m in mask(), other in mask(), word in "(s|u)(lt|le|gt|ge)|eq|ne") {
        let (a, b) = (a.fitted(&EXTENT, 32), b.fitted(&EXTENT, 32));
        let comparison = Comparison::of_name(&word).unwrap();
        let result = compare(comparison, &a, &b, &EXTENT, 32).list(&EXTENT);
        for (at, (a, b)) in a.list(&EXTENT).iter().zip(b.list(&EXTENT).iter()).enumerate() {
            prop_assert_eq!(result[at] != 0, comparison.of_whole(*a, *b, 32), "IDX-1: {}", word);
        }
        for operation in [Arith::And, Arith::Or, Arith::Xor] {
            let result = arith(operation, &m, &other, &EXTENT, 1).list(&EXTENT);
            let pairs = m.list(&EXTENT);
            for (at, (a, b)) in pairs.iter().zip(other.list(&EXTENT).iter()).enumerate() {
                prop_assert_eq!(result[at], whole(operation, *a, *b, 1), "IDX-1: {:?}", operation);
            }
        }
        let chosen = Index::select(&m, &a, &b, &EXTENT).list(&EXTENT);
        let (left, right) = (a.list(&EXTENT), b.list(&EXTENT));
        for (at, bit) in m.list(&EXTENT).iter().enumerate() {
            prop_assert_eq!(chosen[at], if *bit != 0 { left[at] } else { right[at] }, "IDX-1");
        }
    }

    #[test]
    fn idx_1_shapes_move_no_element_to_a_wrong_place(a in prop_oneof![index(), mask()]) {
        let list = a.list(&EXTENT);
        let turned = transpose(&a, &EXTENT, &[1, 0]).list(&[6, 4]);
        prop_assert!((0..24).all(|at| turned[at] == list[at % 4 * 6 + at / 4]), "IDX-1");
        prop_assert_eq!(reshape(&a, &EXTENT, &[2, 12]).list(&[2, 12]), list.clone(), "IDX-1");
        let wide = expand(&a, &EXTENT, 1);
        prop_assert_eq!(wide.list(&[4, 1, 6]), list.clone(), "IDX-1");
        let stretched = broadcast(&wide, &[4, 1, 6], &[4, 3, 6]).list(&[4, 3, 6]);
        prop_assert!((0..72).all(|at| stretched[at] == list[at / 18 * 6 + at % 6]), "IDX-1");
    }
}

#[test]
fn idx_2_indices_of_a_grouped_product_stay_affine() {
    let extent = [32];
    let range = Index::range(0);
    let rows = arith(Arith::Add, &Index::splat(96), &range, &extent, 32);
    let wrapped = arith(Arith::RemS, &rows, &Index::splat(128), &extent, 32);
    assert_eq!(wrapped, rows, "IDX-2");
    let scaled = arith(Arith::Mul, &Index::splat(512), &wrapped, &extent, 32);
    assert!(matches!(scaled, Index::Affine(49152, [512, ..])), "IDX-2: {scaled:?}");
    let mask = compare(Comparison::of_name("slt").unwrap(), &rows, &Index::splat(100), &extent, 32);
    assert!(matches!(mask, Index::Box([0, ..], [4, ..])), "IDX-2: {mask:?}");
    let quotient = arith(Arith::DivS, &range, &Index::splat(64), &extent, 32);
    assert_eq!(quotient, Index::splat(0), "IDX-2");
}
