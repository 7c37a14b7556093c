//! Tiles in other shapes, and operations along an axis, against the plain words of what they do.

use crate::kernels::{dtypes, numbers};
use crate::support::{bare, computed};
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Tile, Tl, View};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::reference::{Array, Exact};
use phalanx_sim::value::{Axes, Binary, Combine, DType, Reduce, Unary, Value};
use proptest::prelude::*;
use std::sync::Arc;

fn product(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Returns the index of element `at` of a shape.
fn index(dims: &[usize], mut at: usize) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for axis in (0..dims.len()).rev() {
        (index[axis], at) = (at % dims[axis], at / dims[axis]);
    }
    index
}

/// Returns the number of the element at an index.
fn place(dims: &[usize], index: &[usize]) -> usize {
    dims.iter().zip(index).fold(0, |at, (dim, i)| at * dim + i)
}

async fn load(tl: &Tl, region: &Region, shape: &[usize]) -> Result<Tile, KernelError> {
    tl.load(&View::of(region)).await?.reshape(shape)
}

async fn save(tl: &Tl, out: &Region, tile: Tile) -> Result<(), KernelError> {
    tl.store(&View::of(out), &tile.reshape(out.elements)?).await
}

/// An array and its shape.
fn tiles() -> impl Strategy<Value = (DType, Vec<usize>, Vec<f32>)> {
    (dtypes(), prop::collection::vec(1..5usize, 1..4)).prop_flat_map(|(dtype, dims)| {
        numbers(product(&dims)).prop_map(move |data| (dtype, dims.clone(), data))
    })
}

/// Computes one operation on a tile, and gives its elements.
fn of_one<F>(
    (dtype, dims, data): (DType, Vec<usize>, Vec<f32>),
    result: (DType, usize),
    operation: impl Fn(Tl, Tile) -> F + Clone + 'static,
) -> Array
where
    F: Future<Output = Result<Tile, KernelError>> + 'static,
{
    let before = Value::zeros(result.0, result.1);
    computed(&[Value::from_f32(dtype, &data)], &before, move |tl, from, out| {
        let (dims, operation) = (dims.clone(), operation.clone());
        async move {
            let tile = load(&tl, &from[0], &dims).await?;
            let result = operation(tl.clone(), tile).await?;
            save(&tl, &out, result).await
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn shp_1_dimensions_are_permuted(tile in tiles(), seed in any::<u64>()) {
        let (dtype, dims, data) = tile.clone();
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.rotate_left((seed % 3) as usize % dims.len());
        if seed % 2 == 0 {
            order.reverse();
        }
        let turned: Vec<usize> = order.iter().map(|axis| dims[*axis]).collect();
        let array = Array::new(dtype, &data);
        let element = |at| {
            let there = index(&turned, at);
            let mut here = vec![0; dims.len()];
            order.iter().zip(there).for_each(|(axis, i)| here[*axis] = i);
            array.elements[place(&dims, &here)]
        };
        let expected = Array { dtype, elements: (0..data.len()).map(element).collect() };
        let got = of_one(tile, (dtype, data.len()), move |tl, tile| {
            let order = order.clone();
            async move { tl.permute(&tile, &order).await }
        });
        prop_assert_eq!(got, expected, "SHP-1");
    }

    #[test]
    fn shp_1_tiles_are_flipped_joined_and_split(tile in tiles(), axis: prop::sample::Index) {
        let (dtype, dims, data) = tile.clone();
        let axis = axis.index(dims.len());
        let array = Array::new(dtype, &data);
        let flipped = |at| {
            let mut here = index(&dims, at);
            here[axis] = dims[axis] - 1 - here[axis];
            array.elements[place(&dims, &here)]
        };
        let expected = Array { dtype, elements: (0..data.len()).map(flipped).collect() };
        // Joined with its mirror image and split again: the second half is the image.
        let got = of_one(tile, (dtype, data.len()), move |tl, tile| async move {
            let image = tl.flip(&tile, axis).await?;
            let joined = tl.join(&tile, &image).await?;
            let (_, image) = tl.split(&joined).await?;
            Ok(image)
        });
        prop_assert_eq!(got, expected, "SHP-1");
    }

    #[test]
    fn shp_1_tiles_are_put_one_after_the_other(tile in tiles(), axis: prop::sample::Index) {
        let (dtype, dims, data) = tile.clone();
        let axis = axis.index(dims.len());
        let array = Array::new(dtype, &data);
        let mut long = dims.clone();
        long[axis] *= 2;
        let element = |at| {
            let mut here = index(&long, at);
            here[axis] %= dims[axis];
            array.elements[place(&dims, &here)]
        };
        let expected = Array { dtype, elements: (0..2 * data.len()).map(element).collect() };
        let got = of_one(tile, (dtype, 2 * data.len()), move |tl, tile| async move {
            tl.cat(&tile, &tile, axis).await
        });
        prop_assert_eq!(got, expected, "SHP-1");
    }

    #[test]
    fn shp_1_elements_are_gathered(
        tile in tiles(), axis: prop::sample::Index, rolls in prop::collection::vec(-1..6i32, 64), long in 1..5usize,
    ) {
        let (dtype, dims, data) = tile.clone();
        let axis = axis.index(dims.len());
        let mut shape = dims.clone();
        shape[axis] = long;
        let places = rolls[..product(&shape)].to_vec();
        let array = Array::new(dtype, &data);
        let zero = Array::new(dtype, &[0.0]).elements[0];
        let element = |at: usize| {
            let mut here = index(&shape, at);
            match usize::try_from(places[at]) {
                Ok(i) if i < dims[axis] => {
                    here[axis] = i;
                    array.elements[place(&dims, &here)]
                }
                _ => zero,
            }
        };
        let expected = Array { dtype, elements: (0..places.len()).map(element).collect() };
        let inputs = [Value::from_f32(dtype, &data), Value::from_i32(&places)];
        let got = computed(&inputs, &Value::zeros(dtype, places.len()), move |tl, from, out| {
            let (dims, shape) = (dims.clone(), shape.clone());
            async move {
                let tile = load(&tl, &from[0], &dims).await?;
                let index = load(&tl, &from[1], &shape).await?;
                save(&tl, &out, tl.gather(&tile, &index, axis).await?).await
            }
        });
        prop_assert_eq!(got, expected, "SHP-1");
    }

    #[test]
    fn whl_1_scans_are_reductions_of_ever_more(
        tile in tiles(), axis: prop::sample::Index, how in prop::sample::select(Reduce::ALL.to_vec()), reverse: bool,
    ) {
        let (dtype, dims, data) = tile.clone();
        prop_assume!(how.takes(dtype));
        let axis = axis.index(dims.len());
        let array = Array::new(dtype, &data);
        let element = |at| {
            let here = index(&dims, at);
            let range: Vec<usize> = if reverse {
                (here[axis]..dims[axis]).rev().collect()
            } else {
                (0..=here[axis]).collect()
            };
            let line: Vec<Exact> = range.into_iter().map(|i| {
                let mut here = here.clone();
                here[axis] = i;
                array.elements[place(&dims, &here)]
            }).collect();
            let n = line.len();
            Array::reduce(how, &Array { dtype, elements: line }, 1, n, 1).elements[0]
        };
        let expected = Array { dtype, elements: (0..data.len()).map(element).collect() };
        let got = of_one(tile, (dtype, data.len()), move |tl, tile| async move {
            tl.scan(how, &tile, axis, reverse).await
        });
        prop_assert_eq!(got, expected, "WHL-1");
    }

    /// A program of one step is the reduction of that step, and rounds after each.
    #[test]
    fn whl_1_programs_combine_in_order(
        tile in tiles(), axis: prop::sample::Index, op in prop::sample::select(Binary::ALL.to_vec()), scan: bool,
    ) {
        let (dtype, dims, data) = tile.clone();
        prop_assume!(op.takes(dtype));
        let axis = axis.index(dims.len());
        let lines = Axes::of(&dims, axis);
        let array = Array::new(dtype, &data);
        let at = |o: usize, a: usize, i: usize| (o * lines.axis + a) * lines.inner + i;
        let one = |x: Exact, y: Exact| {
            let [x, y] = [x, y].map(|x| Array { dtype, elements: vec![x] });
            Array::binary(op, &x, &y).elements[0]
        };
        let mut sums = array.elements.clone();
        for o in 0..lines.outer {
            for i in 0..lines.inner {
                for a in 1..lines.axis {
                    sums[at(o, a, i)] = one(sums[at(o, a - 1, i)], array.elements[at(o, a, i)]);
                }
            }
        }
        let ends = (0..lines.outer).flat_map(|o| (0..lines.inner).map(move |i| (o, i)));
        let last: Vec<Exact> = ends.map(|(o, i)| sums[at(o, lines.axis - 1, i)]).collect();
        let expected = Array { dtype, elements: if scan { sums } else { last } };
        let mut program = Combine::new(&[dtype]);
        let both = program.binary(op, program.left(0), program.right(0)).unwrap();
        program.finish(&[both]).unwrap();
        let program = Arc::new(program);
        let got = of_one(tile, (dtype, expected.elements.len()), move |tl, tile| {
            let program = program.clone();
            async move {
                let mut all = if scan {
                    tl.combine_scan(&program, &[&tile], axis, false).await?
                } else {
                    tl.combine(&program, &[&tile], axis).await?
                };
                Ok(all.swap_remove(0))
            }
        });
        prop_assert_eq!(got, expected, "WHL-1");
    }

    #[test]
    fn whl_1_sorts_keep_all_elements_in_order(tile in tiles(), descending: bool) {
        let (dtype, dims, data) = tile.clone();
        let axis = dims.len() - 1;
        let (n, array) = (dims[axis], Array::new(dtype, &data));
        let mut elements = array.elements;
        let key = |x: &Exact| match *x {
            Exact::Whole(x) => (false, x, 0.0),
            Exact::Float(x) => (x.is_nan(), 0, if x.is_nan() { 0.0 } else { x }),
        };
        for line in elements.chunks_mut(n) {
            line.sort_by(|a, b| {
                let ((nan, i, x), (other_nan, j, y)) = (key(a), key(b));
                let up = i.cmp(&j).then(x.total_cmp(&y));
                nan.cmp(&other_nan).then(if descending { up.reverse() } else { up })
            });
        }
        let got = of_one(tile, (dtype, data.len()), move |tl, tile| async move {
            tl.sort(&tile, axis, descending).await
        });
        prop_assert_eq!(got, Array { dtype, elements }, "WHL-1");
    }

    #[test]
    fn broadcast_operands_of_three(tile in tiles(), number in -9..9i8) {
        let (dtype, _, data) = tile.clone();
        let array = Array::new(dtype, &data);
        let scalar = Array::new(dtype, &vec![f32::from(number); data.len()]);
        let expected = Array::fma(&array, &scalar, &array);
        let got = of_one(tile, (dtype, data.len()), move |tl, tile| async move {
            let scalar = tl.full(tile.dtype(), [], f64::from(number))?;
            tl.fma(&tile, &scalar, &tile).await
        });
        prop_assert_eq!(got, expected);
    }
}

/// Runs a kernel on one PE that returns numbers.
fn numbers_of<F>(kernel: impl Fn(Tl) -> F + 'static) -> Vec<f64>
where
    F: Future<Output = Result<Tile, KernelError>> + 'static,
{
    let mut machine = Machine::new(bare(), Options::default());
    let (send, receive) = std::sync::mpsc::channel();
    machine.launch(0, "numbers", &[PeId::first(0)], move |tl| {
        let (send, work) = (send.clone(), kernel(tl.clone()));
        async move {
            let value = work.await?.value().expect("data is on");
            send.send(value.to_f64()).expect("received");
            Ok(())
        }
    });
    machine.run().unwrap();
    receive.recv().expect("sent")
}

#[test]
fn whl_1_extremes_histograms_and_the_largest() {
    let found = numbers_of(|tl| async move {
        let row = tl.arange(DType::I64, -2, 6).await?;
        let square = tl.mul(&row, &row).await?;
        let two = tl.reshaped(&square, [2, 4]).await?;
        let (most, least) = (tl.argmax(&two, 1).await?, tl.argmin(&two, 1).await?);
        tl.cat(&most, &least, 0).await
    });
    assert_eq!(found, [0.0, 3.0, 2.0, 0.0], "WHL-1: 4 1 0 1 and 4 9 16 25");
    let counts = numbers_of(|tl| async move {
        let row = tl.arange(DType::I32, 0, 10).await?;
        let three = tl.full(DType::I32, [], 3.0)?;
        let rest = tl.binary(Binary::FloorRem, &row, &three).await?;
        tl.histogram(&rest, 4).await
    });
    assert_eq!(counts, [4.0, 3.0, 3.0, 0.0], "WHL-1");
    let largest = numbers_of(|tl| async move {
        let row = tl.arange(DType::F16, 0, 8).await?;
        tl.topk(&tl.reshaped(&row, [2, 4]).await?, 2).await
    });
    assert_eq!(largest, [3.0, 2.0, 7.0, 6.0], "WHL-1");
    let all = numbers_of(|tl| async move {
        let row = tl.arange(DType::U8, 250, 260).await?;
        tl.reduce_all(Reduce::Max, &row).await
    });
    assert_eq!(all, [255.0], "WHL-1: wraps at 256");
}

/// The first words of Triton's generator for the seed 42, and what its `rand` makes of them.
#[test]
fn whl_1_random_numbers_are_those_of_triton() {
    let words = numbers_of(|tl| async move {
        let offsets = tl.arange(DType::I32, 0, 3).await?;
        tl.randint(42, &offsets).await
    });
    let uniform = numbers_of(|tl| async move {
        let offsets = tl.arange(DType::I32, 0, 3).await?;
        tl.rand(42, &offsets).await
    });
    for (word, uniform) in words.iter().zip(uniform) {
        let folded = if *word < 0.0 { -1.0 - word } else { *word };
        #[expect(clippy::cast_possible_truncation, reason = "f32 is the type")]
        let expected = folded as f32 * 4.656_612_7e-10_f32;
        assert_eq!(uniform.to_bits(), f64::from(expected).to_bits(), "WHL-1");
        assert!((0.0..1.0).contains(&uniform));
    }
    let normal = numbers_of(|tl| async move {
        let offsets = tl.arange(DType::I64, 0, 4096).await?;
        tl.randn(7, &offsets).await
    });
    let mean = normal.iter().sum::<f64>() / 4096.0;
    let variance = normal.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4096.0;
    assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.07, "{mean} {variance}");
}

/// Every operation is charged by its class.
#[test]
fn operations_cost_what_their_class_costs() {
    let span =
        |add: u32, divide: u32, operation: fn(Tl, Tile) -> phalanx_sim::kernel::Computing| {
            let mut spec = MachineSpec::preset("bare").unwrap();
            spec.vector_costs.0 = [add, 1, divide, 1];
            let mut machine = Machine::new(spec, Options::default());
            machine.launch(0, "one", &[PeId::first(0)], move |tl| async move {
                let tile = tl.full(DType::I32, 1024, 3.0)?;
                operation(tl.clone(), tile).await.map(drop)
            });
            machine.run().unwrap().simulated
        };
    let xor: fn(Tl, Tile) -> _ = |tl, tile| tl.binary(Binary::Xor, &tile, &tile);
    let rem: fn(Tl, Tile) -> _ = |tl, tile| tl.binary(Binary::Rem, &tile, &tile);
    let flip: fn(Tl, Tile) -> _ = |tl, tile| tl.flip(&tile, 0);
    let sort: fn(Tl, Tile) -> _ = |tl, tile| tl.sort(&tile, 0, false);
    assert_eq!(span(1, 1, xor), span(1, 1, rem));
    assert_eq!(span(1, 4, xor), span(1, 1, xor));
    assert_eq!(span(4, 1, xor), span(1, 4, rem));
    assert_eq!(span(1, 1, flip), span(1, 1, xor));
    assert_eq!(span(1, 1, sort), span(55, 1, xor), "ten times eleven, halved");
}

#[test]
fn what_does_not_fit_is_said() {
    let refused = |operation: fn(&Tl, &Tile, &Tile) -> phalanx_sim::kernel::Computing| {
        let mut machine = Machine::new(bare(), Options::default());
        machine.launch(0, "wrong", &[PeId::first(0)], move |tl| async move {
            let (x, i) = (tl.zeros(DType::F32, [2, 3])?, tl.zeros(DType::I32, [2, 4])?);
            operation(&tl, &x, &i).await.map(drop)
        });
        machine.run().unwrap_err().to_string()
    };
    let says = |text: &str, words: &str| assert!(text.contains(words), "{text}");
    says(&refused(|tl, x, _| tl.binary(Binary::Xor, x, x)), "bits are those of whole numbers");
    says(&refused(|tl, x, _| tl.unary(Unary::Not, x)), "bits are those of whole numbers");
    says(&refused(|tl, x, _| tl.permute(x, &[0, 0])), "each dimension once");
    says(&refused(|tl, x, _| tl.broadcast_to(x, [2, 6])), "dimension 1 is 3 and 6");
    says(&refused(|tl, x, i| tl.gather(i, x, 1)), "an index is a whole number");
    says(&refused(|tl, x, _| tl.flip(x, 2)), "it has 2 dimensions");
    says(&refused(|tl, x, i| tl.cat(x, i, 1)), "their types differ");
    says(&refused(|tl, x, _| tl.topk(x, 4)), "the last dimension has 3");
    says(&refused(|tl, x, _| tl.bitcast(x, DType::F64)), "a type of the same size");
    says(&refused(|tl, _, _| tl.arange(DType::I32, 3, 1)), "a range goes up");
    says(&refused(|tl, x, _| tl.select(x, x, x)), "the condition must be i32 or bool");
}

/// Products of 8-bit types take the machine's rate for them; without one, where others are listed, they are refused.
#[test]
fn products_need_a_rate_of_their_type() {
    let dot = |preset: &str, dtype: DType, tf32: bool| {
        let mut machine = Machine::new(MachineSpec::preset(preset).unwrap(), Options::default());
        machine.launch(0, "product", &[PeId::first(0)], move |tl| async move {
            let tile = tl.full(dtype, [64, 64], 1.0)?;
            let made =
                if tf32 { tl.dot_tf32(&tile, &tile, None) } else { tl.dot(&tile, &tile, None) };
            made.await.map(drop)
        });
        machine.run().map(|report| report.simulated).map_err(|error| error.to_string())
    };
    let [f16, f8, i8] =
        [DType::F16, DType::F8e4m3, DType::I8].map(|dtype| dot("hgx-h100", dtype, false).unwrap());
    assert!(f8 < f16 && i8 == f8, "{f8} for 8 bits, {f16} for 16");
    let [plain, fast] = [false, true].map(|tf32| dot("hgx-h100", DType::F32, tf32).unwrap());
    assert!(fast < plain, "{fast} for tf32, {plain} for f32");
    let text = dot("hgx-a100", DType::F8e5m2, false).unwrap_err();
    assert!(
        text.contains("no rate for fp8 (f8e5m2): `pe.gemm.rates` lists f32, tf32, i8"),
        "{text}"
    );
    assert!(dot("bare", DType::F8e5m2, false).is_ok(), "one rate for all types");
    let text = dot("hgx-h100", DType::F16, true).unwrap_err();
    assert!(text.contains("tf32 is a way to multiply f32"), "{text}");
}
