//! Elements in their own type, in both directions, and reads of views.

use super::{machine, number, quad};
use phalanx_sim::machine::Options;
use phalanx_sim::value::{Buffer, f16};
use phalanx_sim::{DType, Time, Value};
use phalanx_torch::{Context, DpPolicy, Error, Rank, Tensor};
use proptest::prelude::*;

/// A buffer of these bits, so that NaNs with payloads and both zeros take part.
fn of_bits(dtype: DType, bits: &[u32]) -> Buffer {
    let wide = bits.iter().map(|bits| u64::from(*bits) << 32 | u64::from(*bits));
    let bytes = wide.flat_map(|bits| bits.to_le_bytes().into_iter().take(dtype.size()));
    Buffer::from_bytes(dtype, &bytes.collect::<Vec<u8>>())
}

/// The bits of a buffer.
fn bits_of(buffer: &Buffer) -> Vec<Vec<u8>> {
    buffer.view().bytes().chunks(buffer.dtype().size()).map(<[u8]>::to_vec).collect()
}

#[test]
fn res_1_resident_elements_take_no_time() {
    for dtype in DType::ALL {
        let (first, second) = (of_bits(dtype, &[1, 2, 3, 4]), of_bits(dtype, &[5, 6, 7, 8]));
        let expected = bits_of(&second);
        let got = quad().run(move |cx| {
            let (first, second) =
                (Value::from_buffer(first.clone()), Value::from_buffer(second.clone()));
            async move {
                let x = cx.resident_value([4], &first)?;
                let before = x.peek()?;
                x.place(&second)?;
                let after = x.peek()?;
                assert_eq!(cx.now(), Time::ZERO);
                let word = x.narrow(0, 1, 2)?.peek().unwrap_err().to_string();
                assert!(word.contains("a part of its storage"), "{word}");
                let back = x.to_buffer().await?;
                assert!(cx.now() > Time::ZERO);
                Ok((before, after, back))
            }
        });
        let (before, after, back) = got.unwrap();
        let bits = |value: &Value| (0..4).map(|i| value.get(i).to_bits()).collect::<Vec<_>>();
        assert_eq!(bits_of(&back), expected);
        assert_eq!(bits(&after), bits(&Value::from_buffer(back)));
        assert_eq!(bits(&before), bits(&Value::from_buffer(of_bits(dtype, &[1, 2, 3, 4]))));
    }
}

#[test]
fn buffers_come_back_bit_by_bit() {
    let bits: Vec<u32> = [0, 0x8000_8000, 0x7fc0_7e01, 0xffff_fc00, 0x0001_0001, 0x3f80_3c00]
        .into_iter()
        .chain((0..58).map(|i| i * 0x0123_4567))
        .collect();
    for dtype in DType::ALL {
        let (given, expected) = (bits.clone(), bits_of(&of_bits(dtype, &bits)));
        let read = quad().run(move |cx| {
            let buffer = of_bits(dtype, &given);
            async move {
                let x = cx.from_buffer(buffer.clone(), [4, 16])?;
                let back = x.to_buffer().await?;
                x.narrow(1, 3, 2)?.write_buffer(of_bits(dtype, &[7; 8]))?;
                let y = cx.empty([4, 16], dtype)?;
                y.write_buffer(buffer)?;
                Ok((back, x.to_buffer().await?, y.to_buffer().await?))
            }
        });
        let (back, changed, written) = read.unwrap();
        let seven = bits_of(&of_bits(dtype, &[7])).swap_remove(0);
        assert_eq!((back.dtype(), bits_of(&back)), (dtype, expected.clone()));
        assert_eq!(bits_of(&written), expected);
        for (place, (now, before)) in bits_of(&changed).into_iter().zip(expected).enumerate() {
            let wanted = if (3..5).contains(&(place % 16)) { seven.clone() } else { before };
            assert_eq!(now, wanted, "{dtype} {place}");
        }
    }
}

#[test]
fn buffers_of_the_wrong_length_or_type_are_refused() {
    let refused = quad().run(|cx| async move {
        let one = cx.from_buffer(Buffer::I32(vec![1, 2, 3]), [2, 2]).unwrap_err();
        let x = cx.zeros([4], DType::F16)?;
        let two = x.write_buffer(Buffer::F32(vec![0.0; 4])).err();
        let three = x.write_buffer(Buffer::F16(vec![f16::ONE; 5])).err();
        Ok([Some(one), two, three].map(|error| error.map(|error| error.to_string())))
    });
    let words = [
        "i32[2, 2] takes other than 3 numbers",
        "write_buffer: f16[4] cannot take f32",
        "f16[4] takes other than 5 numbers",
    ];
    assert_eq!(refused.unwrap(), words.map(|words| Some(words.to_owned())));
}

/// The time of one read on a machine whose host link takes 1 ns for a byte, and nothing else costs time.
fn time_of_read(
    read: impl AsyncFn(&Rank, Tensor) -> Result<Vec<f32>, Error> + Copy + 'static,
    policy: DpPolicy,
) -> (Vec<f32>, Time) {
    let set = ["system.host.link.bandwidth=1GB/s"];
    let mut context = Context::new(machine("bare", &set), Options::default());
    let done = context.run(move |cx| async move {
        let x = cx.placed(policy).resident([64, 32], DType::F32, number)?;
        x.ready().await?;
        let before = cx.now();
        let numbers = read(&cx, x).await?;
        Ok((numbers, cx.now() - before))
    });
    done.unwrap()
}

#[test]
fn ten_1_reading_a_view_moves_the_bytes_of_the_view() {
    let one = DpPolicy::default();
    let command = Time::ns(64);
    let (numbers, whole) = time_of_read(async |_, x| x.to_vec().await, one);
    assert_eq!((numbers.len(), whole), (2048, command + Time::ns(4 * 2048)));
    let (numbers, rows) = time_of_read(async |_, x| x.narrow(0, 3, 2)?.to_vec().await, one);
    assert_eq!(numbers, (96..160).map(number).collect::<Vec<_>>());
    assert_eq!(rows, command + Time::ns(4 * 64), "two rows");
    let column = async |_: &Rank, x: Tensor| x.select(1, 5)?.to_vec().await;
    let (numbers, column) = time_of_read(column, one);
    assert_eq!(numbers, (0..64).map(|i| number(i * 32 + 5)).collect::<Vec<_>>());
    assert_eq!(column, command + Time::ns(4 * 64), "a column");
    let (numbers, turned) = time_of_read(async |_, x| x.transpose(0, 1)?.to_vec().await, one);
    assert_eq!((numbers[1], turned), (32.0, whole), "all, in another order");
}

#[test]
fn ten_1_ten_2_reading_a_view_of_a_cut_tensor_asks_only_the_shards_that_hold_it() {
    let set = ["cube.pes.columns=2", "sip.cubes.rows=2", "sip.cubes.columns=2"];
    let mut context = Context::new(machine("quad-sip", &set), Options::default());
    let policy =
        DpPolicy { num_pes: 2, pe: phalanx_torch::Spread::ColumnWise, ..DpPolicy::row_wise(4) };
    let read = context.run(move |cx| async move {
        let x = cx.placed(policy).resident([8, 6], DType::F32, number)?;
        let (corner, turned) = (x.narrow(0, 1, 4)?.narrow(1, 2, 3)?, x.transpose(0, 1)?);
        let (whole, part) = (x.to_vec().await?, corner.to_vec().await?);
        Ok((whole, part, turned.to_vec().await?, x.narrow(0, 8, 0)?.to_vec().await?))
    });
    let (whole, part, turned, nothing) = read.unwrap();
    assert_eq!(whole, (0..48).map(number).collect::<Vec<_>>());
    let corner = (1..5).flat_map(|row| (2..5).map(move |column| number(row * 6 + column)));
    assert_eq!(part, corner.collect::<Vec<_>>());
    let columns = (0..6).flat_map(|column| (0..8).map(move |row| number(row * 6 + column)));
    assert_eq!(turned, columns.collect::<Vec<_>>());
    assert!(nothing.is_empty());
}

/// The index in the view before, of an index in the view after a step.
type Back = Box<dyn Fn(Vec<usize>) -> Vec<usize>>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn views_read_as_numpy_would(
        rows in 1..6usize, columns in 1..6usize, steps in prop::collection::vec((0..4u8, 0..6usize, 0..6usize), 0..4),
    ) {
        let read = quad().run(move |cx| {
            let steps = steps.clone();
            async move {
                let numbers: Vec<f32> = (0..rows * columns * 2).map(number).collect();
                let x = cx.from_slice(&numbers, [rows, columns, 2], DType::F32)?;
                let mut view = x;
                let mut model: Vec<usize> = (0..numbers.len()).collect();
                for (what, a, b) in steps {
                    let shape = view.shape().to_vec();
                    if shape.is_empty() || view.numel() == 0 { break }
                    let (dim, other) = (a % shape.len(), b % shape.len());
                    let index = |number: usize, shape: &[usize]| {
                        let mut rest = number;
                        let mut at = vec![0; shape.len()];
                        for axis in (0..shape.len()).rev() { at[axis] = rest % shape[axis]; rest /= shape[axis]; }
                        at
                    };
                    let flat = |at: &[usize], shape: &[usize]| at.iter().zip(shape).fold(0, |sum, (i, n)| sum * n + i);
                    let (next, old): (Tensor, Back) = match what {
                        0 => (view.transpose(dim, other)?, Box::new(move |mut at| { at.swap(dim, other); at })),
                        1 => {
                            let start = b % shape[dim];
                            (view.narrow(dim, start, shape[dim] - start)?, Box::new(move |mut at| { at[dim] += start; at }))
                        }
                        _ => {
                            let picked = b % shape[dim];
                            (view.select(dim, picked)?, Box::new(move |mut at| { at.insert(dim, picked); at }))
                        }
                    };
                    model = (0..next.numel()).map(|i| model[flat(&old(index(i, next.shape())), &shape)]).collect();
                    view = next;
                }
                let wanted: Vec<f32> = model.iter().map(|i| number(*i)).collect();
                Ok((view.to_vec().await?, wanted))
            }
        });
        let (got, wanted) = read.unwrap();
        prop_assert_eq!(got, wanted);
    }
}
