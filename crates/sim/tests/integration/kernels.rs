//! Operations of kernels equal the slow reference, bit for bit.

use crate::support::{Outcome, bare, computed};
use phalanx_sim::kernel::{KernelError, Mask, Shape, Tile, Tl, View};
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::memory::Region;
use phalanx_sim::spec::GridSpec;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::reference::Array;
use phalanx_sim::value::{Binary, Compare, DType, Reduce, Unary, Value};
use proptest::prelude::*;

pub(crate) fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

/// Generates mostly ordinary numbers, and some special ones.
pub(crate) fn numbers(len: usize) -> impl Strategy<Value = Vec<f32>> {
    let number = prop_oneof![
        4 => (-64i8..64).prop_map(|x| f32::from(x) / 4.0),
        2 => any::<f32>(),
        1 => prop::sample::select(vec![0.0, -0.0, f32::NAN, f32::INFINITY, 65_520.0, 1e-7]),
    ];
    prop::collection::vec(number, len..=len)
}

/// A shape, and for each of two operands the dimensions that are 1.
fn stretched() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    prop::collection::vec((1..5usize, 0..4u8), 1..4).prop_map(|dims| {
        let left = dims.iter().map(|(dim, side)| if *side == 1 { 1 } else { *dim });
        let right = dims.iter().map(|(dim, side)| if *side == 2 { 1 } else { *dim });
        (left.collect(), right.collect())
    })
}

fn product(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Returns the broadcast shape, and `array` of shape `own` broadcast to it.
fn stretch(array: &Array, own: &[usize], other: &[usize]) -> (Vec<usize>, Array) {
    let whole: Vec<usize> = own.iter().zip(other).map(|(a, b)| *a.max(b)).collect();
    let strides: Vec<usize> = (0..own.len())
        .map(|axis| if own[axis] == 1 { 0 } else { product(&own[axis + 1..]) })
        .collect();
    let stretched = array.strided(0, &whole, &strides);
    (whole, stretched)
}

async fn load(tl: &Tl, region: &Region, shape: &[usize]) -> Result<Tile, KernelError> {
    tl.load(&View::of(region)).await?.reshape(shape)
}

async fn save(tl: &Tl, out: &Region, tile: Tile) -> Outcome {
    tl.store(&View::of(out), &tile.reshape(out.elements)?).await
}

/// Two tiles of compatible shapes, and operations on them.
fn pairs() -> impl Strategy<Value = (DType, [Vec<usize>; 2], [Vec<f32>; 2])> {
    (dtypes(), stretched()).prop_flat_map(|(dtype, (left, right))| {
        let data = (numbers(product(&left)), numbers(product(&right)));
        data.prop_map(move |(a, b)| (dtype, [left.clone(), right.clone()], [a, b]))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn elementwise_operations_equal_the_reference(
        (dtype, shapes, data) in pairs(),
        binary in prop::sample::select(Binary::ALL.to_vec()),
        unary in prop::sample::select(Unary::ALL.to_vec()),
    ) {
        prop_assume!(binary.takes(dtype) && unary.takes(dtype));
        let (a, b) = (Array::new(dtype, &data[0]), Array::new(dtype, &data[1]));
        let (whole, x) = stretch(&a, &shapes[0], &shapes[1]);
        let (_, y) = stretch(&b, &shapes[1], &shapes[0]);
        let expected = Array::unary(unary, &Array::binary(binary, &x, &y));
        let inputs = data.map(|numbers| Value::from_f32(dtype, &numbers));
        let got = computed(&inputs, &Value::zeros(dtype, product(&whole)), move |tl, from, out| {
            let [left, right] = shapes.clone();
            async move {
                let (x, y) = (load(&tl, &from[0], &left).await?, load(&tl, &from[1], &right).await?);
                let both = tl.binary(binary, &x, &y).await?;
                save(&tl, &out, tl.unary(unary, &both).await?).await
            }
        });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn compare_and_select_equal_the_reference(
        (dtype, shapes, data) in pairs(),
        question in prop::sample::select(Compare::ALL.to_vec()),
        as_bool: bool,
    ) {
        let (a, b) = (Array::new(dtype, &data[0]), Array::new(dtype, &data[1]));
        let (whole, x) = stretch(&a, &shapes[0], &shapes[1]);
        let (_, y) = stretch(&b, &shapes[1], &shapes[0]);
        let expected = Array::select(&Array::compare(question, &x, &y), &x, &y);
        let inputs = data.map(|numbers| Value::from_f32(dtype, &numbers));
        let got = computed(&inputs, &Value::zeros(dtype, product(&whole)), move |tl, from, out| {
            let [left, right] = shapes.clone();
            async move {
                let (x, y) = (load(&tl, &from[0], &left).await?, load(&tl, &from[1], &right).await?);
                let condition = if as_bool {
                    tl.predicate(question, &x, &y).await?
                } else {
                    tl.compare(question, &x, &y).await?
                };
                save(&tl, &out, tl.select(&condition, &x, &y).await?).await
            }
        });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn reductions_over_any_axis_equal_the_reference(
        dims in prop::collection::vec(1..6usize, 1..5),
        dtype in dtypes(),
        how in prop::sample::select(Reduce::ALL.to_vec()),
        axis: prop::sample::Index,
        seed in numbers(625),
    ) {
        prop_assume!(how.takes(dtype));
        let axis = axis.index(dims.len());
        let data = &seed[..product(&dims)];
        let (outer, inner) = (product(&dims[..axis]), product(&dims[axis + 1..]));
        let expected = Array::reduce(how, &Array::new(dtype, data), outer, dims[axis], inner);
        let before = Value::zeros(dtype, outer * inner);
        let got = computed(&[Value::from_f32(dtype, data)], &before, move |tl, from, out| {
            let dims = dims.clone();
            async move {
                let tile = load(&tl, &from[0], &dims).await?;
                save(&tl, &out, tl.reduce(how, &tile, axis).await?).await
            }
        });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn casts_equal_the_reference(from in dtypes(), to in dtypes(), data in numbers(37)) {
        let expected = Array::new(from, &data).cast(to);
        let got = computed(&[Value::from_f32(from, &data)], &Value::zeros(to, 37), move |tl, regions, out| async move {
            let tile = load(&tl, &regions[0], &[37]).await?;
            save(&tl, &out, tl.cast(&tile, to).await?).await
        });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn products_with_and_without_accumulator_equal_the_reference(
        dims in prop::array::uniform3(1..9usize),
        dtype in dtypes(),
        with: bool,
        seed in numbers(192),
    ) {
        let [m, n, k] = dims;
        let sum = dtype.product();
        let data = [&seed[..m * k], &seed[64..64 + k * n], &seed[128..128 + m * n]];
        let types = [dtype, dtype, sum];
        let arrays: Vec<_> = types.iter().zip(data).map(|(dtype, data)| Array::new(*dtype, data)).collect();
        let expected = Array::dot(&arrays[0], &arrays[1], dims, with.then_some(&arrays[2]));
        let inputs: Vec<_> = types.iter().zip(data).map(|(dtype, data)| Value::from_f32(*dtype, data)).collect();
        let got = computed(&inputs, &Value::zeros(sum, m * n), move |tl, from, out| async move {
            let (a, b) = (load(&tl, &from[0], &[m, k]).await?, load(&tl, &from[1], &[k, n]).await?);
            let accumulator = load(&tl, &from[2], &[m, n]).await?;
            save(&tl, &out, tl.dot(&a, &b, with.then_some(&accumulator)).await?).await
        });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn a_batch_of_products_equals_one_product_after_another(
        (batch, dims) in (1..4usize, prop::array::uniform3(1..5usize)),
        dtype in dtypes(),
        with: bool,
        seed in numbers(192),
    ) {
        let [m, n, k] = dims;
        let (sum, lengths) = (dtype.product(), [m * k, k * n, m * n]);
        let types = [dtype, dtype, sum];
        let data = [0, 1, 2].map(|at| &seed[64 * at..64 * at + batch * lengths[at]]);
        let arrays: Vec<_> = types.iter().zip(data).map(|(dtype, data)| Array::new(*dtype, data)).collect();
        let part = |at: usize, of: usize| arrays[of].slice(at * lengths[of], lengths[of]);
        let products: Vec<Array> = (0..batch)
            .map(|at| Array::dot(&part(at, 0), &part(at, 1), dims, with.then_some(&part(at, 2))))
            .collect();
        let expected = Array::concat(&products);
        let inputs: Vec<_> = types.iter().zip(data).map(|(dtype, data)| Value::from_f32(*dtype, data)).collect();
        let got = computed(&inputs, &Value::zeros(sum, batch * m * n), move |tl, from, out| async move {
            let (a, b) = (load(&tl, &from[0], &[batch, m, k]).await?, load(&tl, &from[1], &[batch, k, n]).await?);
            let accumulator = load(&tl, &from[2], &[batch, m, n]).await?;
            save(&tl, &out, tl.dot(&a, &b, with.then_some(&accumulator)).await?).await
        });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn programs_share_a_vector_out_without_gap_or_overlap(
        rows in 1..4u32, columns in 1..4u32, data in (1..200usize).prop_flat_map(numbers), dtype in dtypes(),
    ) {
        let mut spec = bare();
        spec.pes = GridSpec { rows, columns, ..spec.pes };
        let mut machine = Machine::new(spec, Options::default());
        let from = machine.resident(0, 0, Value::from_f32(dtype, &data)).unwrap();
        // Strict mode: an unwritten element is an error.
        let out = machine.empty(0, 0, dtype, data.len()).unwrap();
        machine.launch(0, "double", &machine.pes(0), move |tl| async move {
            let (start, len) = tl.share(from.elements);
            let tile = tl.load(&View::dense(&from, start, len)).await?;
            tl.store(&View::dense(&out, start, len), &tl.add(&tile, &tile).await?).await
        });
        machine.run().unwrap();
        let array = Array::new(dtype, &data);
        let expected = Array::binary(Binary::Add, &array, &array);
        prop_assert_eq!(Array::of(&machine.read(&out).unwrap().unwrap()), expected);
    }
}

/// Returns the error of a kernel over an f32 and an i32 tile.
fn refused<F>(kernel: impl Fn(Tl, Tile, Tile) -> F + 'static) -> String
where
    F: Future<Output = Result<Tile, KernelError>> + 'static,
{
    let mut machine = Machine::new(bare(), Options::default());
    machine.launch(0, "wrong", &[PeId::first(0)], move |tl| {
        let tiles = (tl.zeros(DType::F32, [2, 3]).unwrap(), tl.zeros(DType::I32, [2, 3]).unwrap());
        let work = kernel(tl, tiles.0, tiles.1);
        async move { work.await.map(drop) }
    });
    match machine.run() {
        Err(RunError::Kernel { error, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tiles_that_do_not_fit_are_refused_by_name() {
    let add = refused(|tl, x, y| async move { tl.add(&x, &y).await });
    assert_eq!(add, "add: f32[2, 3] does not fit i32[2, 3]: their types differ");
    let dot = refused(|tl, x, _| async move { tl.dot(&x, &x, None).await });
    assert_eq!(
        dot,
        "dot: f32[2, 3] does not fit f32[2, 3]: dimension 1 of the left is 3, dimension 0 of the right is 2"
    );
    let flat = refused(|tl, x, _| async move { tl.dot(&x, &tl.zeros(DType::F32, 3)?, None).await });
    assert_eq!(
        flat,
        "dot: f32[2, 3] does not fit f32[3]: a product takes two matrices, or two equal numbers of matrices"
    );
    let sum = refused(|tl, x, _| async move {
        let (right, sum) = (tl.zeros(DType::F32, [3, 4])?, tl.zeros(DType::F32, [4, 2])?);
        tl.dot(&x, &right, Some(&sum)).await
    });
    let words = "dot: f32[2, 3] does not fit accumulator f32[4, 2]: the product is f32[2, 4]";
    assert_eq!(sum, words);
    let mul = refused(|tl, x, _| async move { tl.mul(&x, &tl.zeros(DType::F32, [1, 4])?).await });
    assert_eq!(mul, "mul: f32[2, 3] does not fit f32[1, 4]: dimension 1 is 3 and 4");
    let max = refused(|tl, x, _| async move { tl.maximum(&x, &tl.zeros(DType::F32, [6])?).await });
    let words = "max: f32[2, 3] does not fit f32[6]: one has 2 dimensions, the other 1";
    assert_eq!(max, words);
    let select = refused(|tl, x, _| async move { tl.select(&x, &x, &x).await });
    assert_eq!(
        select,
        "select: f32[2, 3] ? f32[2, 3] does not fit f32[2, 3]: the condition must be i32 or bool"
    );
    let axis = refused(|tl, x, _| async move { tl.sum(&x, 2).await });
    assert_eq!(axis, "reduce: axis 2 does not fit f32[2, 3]: it has 2 dimensions");
    let reshape = refused(|_, x, _| async move { x.reshape([7]) });
    assert_eq!(reshape, "reshape: [2, 3] does not fit [7]: 6 and 7 elements");
    let item = refused(|tl, x, _| async move { tl.item(&x, 6).map(|_| x) });
    assert_eq!(item, "item: index 6 does not fit 6 elements");
}

#[test]
fn views_whose_mask_or_strides_have_another_shape_are_refused() {
    let load = |make: fn(&Region) -> View| {
        refused(move |tl, x, _| async move {
            let at = Region { sip: 0, cube: 0, address: 0x1000, dtype: DType::F32, elements: 64 };
            drop(x);
            tl.load(&make(&at)).await
        })
    };
    let mask = load(|at| View::strided(at, 0, [4, 4], [8, 1]).masked(Mask::below([3, 3, 3])));
    let words = "view: a mask of 3 dimensions [3, 3, 3] does not fit a view of 2 dimensions [4, 4]";
    assert_eq!(mask, words);
    let one = load(|at| View::dense(at, 0, 4).masked(Mask::Each([true; 3].into())));
    let words = "view: a mask of 3 elements does not fit a view of 4 elements [4]";
    assert_eq!(one, words);
    let strides = load(|at| View::strided(at, 0, [4, 4], [1]));
    assert_eq!(strides, "view: 1 stride [1] does not fit a view of 2 dimensions [4, 4]");
    let store = refused(|tl, x, _| async move {
        let at = Region { sip: 0, cube: 0, address: 0x1000, dtype: DType::F32, elements: 64 };
        tl.store(&View::strided(&at, 0, [2, 4], [8, 1]), &x).await.map(|()| x)
    });
    assert_eq!(store, "store: f32[2, 3] does not fit f32[2, 4]: dimension 1 is 3 and 4");
}

#[test]
fn krn_6_the_error_of_an_operation_names_the_line_that_asked_for_it() {
    type Asks = fn(&Tl, &Tile) -> Result<(), KernelError>;
    let first = line!();
    let asks: [Asks; 4] = [
        |tl, x| tl.reserve(1 << 40).map(|_| drop(x.value())),
        |tl, x| tl.item(x, 99).map(drop),
        |tl, x| tl.full(DType::F32, [1 << 20, 1 << 20], 1.0).map(|_| drop(x.value())),
        |tl, _| tl.sender(tl.pe(), phalanx_sim::ipcq::EdgeSpec::default()).map(drop),
    ];
    let mut spec = bare();
    spec.tcm = phalanx_sim::Capacity::Limited(phalanx_sim::Bytes(1 << 20));
    for (number, ask) in asks.into_iter().enumerate() {
        let mut machine = Machine::new(spec.clone(), Options::default());
        machine.launch(0, "wrong", &[PeId::first(0)], move |tl| async move {
            let x = tl.zeros(DType::F32, [2, 3])?;
            // An error that the kernel has handled is not the one that it fails with.
            drop(tl.dot(&x, &x, None).await);
            ask(&tl, &x)
        });
        let Err(RunError::Kernel { line: Some(line), .. }) = machine.run() else { panic!("KRN-6") };
        let number = u32::try_from(number).expect("few");
        assert_eq!((line.file(), line.line()), (file!(), first + 2 + number), "KRN-6");
    }
    let mut machine = Machine::new(spec, Options::default());
    machine.launch(0, "wrong", &[PeId::first(0)], move |tl| async move {
        let x = tl.zeros(DType::F32, [2, 3])?;
        tl.dot(&x, &x, None).await.map(drop)
    });
    let text = machine.run().unwrap_err().to_string();
    let line = format!(" ({}:{})", file!(), line!() - 3);
    assert!(text.ends_with(&line), "KRN-6: {text}");
    let own = refused(|tl, x, _| async move {
        drop(tl.item(&x, 7));
        Err(KernelError::Other("its own".into()))
    });
    assert_eq!(own, "its own", "KRN-6: an error of the kernel's own has no line");
}

#[test]
fn a_kernel_reads_a_number_and_branches_on_it() {
    let input = Value::from_f32(DType::F16, &[2.0, 40.0]);
    let got = computed(&[input], &Value::zeros(DType::F16, 1), |tl, from, out| async move {
        let sum = tl.sum(&load(&tl, &from[0], &[2]).await?, 0).await?;
        let answer = if tl.item(&sum, 0)? > 41.0 { 1.0 } else { -1.0 };
        save(&tl, &out, tl.full(DType::F16, Shape::from(1), answer)?).await
    });
    assert_eq!(got, Array::new(DType::F16, &[1.0]));
}

#[test]
fn a_kernel_that_reads_a_number_without_data_is_told_so() {
    let error = crate::support::solo(bare(), crate::support::without_data(), |tl| async move {
        tl.item(&tl.zeros(DType::F32, 1)?, 0).map(drop)
    });
    let text = error.unwrap_err().to_string();
    assert_eq!(
        text,
        format!(
            "kernel `solo` on sip0.cube0.pe0 failed at 0 ns: the kernel reads a number, and this run computes none \
             (data is off) ({}:{})",
            file!(),
            line!() - 9
        )
    );
}
