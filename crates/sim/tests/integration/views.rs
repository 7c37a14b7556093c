//! Loads and stores with strides and masks access exactly the right elements.

use crate::kernels::dtypes;
use crate::support::computed;
use phalanx_sim::kernel::{Mask, Shape, View};
use phalanx_sim::value::reference::Array;
use phalanx_sim::value::{DType, Value};
use proptest::prelude::*;
use std::rc::Rc;

/// Elements of a region of `len`: shape, strides, start and mask.
#[derive(Clone, Debug)]
struct Pattern {
    dims: Vec<usize>,
    strides: Vec<usize>,
    start: usize,
    len: usize,
    mask: Which,
}

#[derive(Clone, Debug)]
enum Which {
    All,
    Below(Vec<usize>),
    Each(Vec<bool>),
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let axes = prop::collection::vec((0..5usize, 0..7usize, 0..6usize), 1..5);
    let each = prop::collection::vec(any::<bool>(), 625);
    (axes, 0..3u8, each, 0..4usize, 0..4usize).prop_map(|(axes, which, each, start, beyond)| {
        let dims: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
        let strides: Vec<usize> = axes.iter().map(|axis| axis.1).collect();
        let elements = dims.iter().product();
        let mask = match which {
            0 => Which::All,
            1 => Which::Below(axes.iter().map(|axis| axis.2).collect()),
            _ => Which::Each(each[..elements].to_vec()),
        };
        let mut pattern = Pattern { dims, strides, start, len: 0, mask };
        let reach = pattern.indices().iter().flatten().max().map_or(start, |last| last + 1);
        pattern.len = reach + beyond;
        pattern
    })
}

impl Pattern {
    /// Returns the index of each element in row-major order; `None` if masked.
    fn indices(&self) -> Vec<Option<usize>> {
        let elements: usize = self.dims.iter().product();
        (0..elements).map(|number| self.index(number)).collect()
    }

    fn index(&self, number: usize) -> Option<usize> {
        let (mut rest, mut at, mut inside) = (number, self.start, true);
        for axis in (0..self.dims.len()).rev() {
            let index = rest % self.dims[axis];
            rest /= self.dims[axis];
            at += index * self.strides[axis];
            inside &= match &self.mask {
                Which::Below(bounds) => index < bounds[axis],
                _ => true,
            };
        }
        inside &= match &self.mask {
            Which::Each(each) => each[number],
            _ => true,
        };
        inside.then_some(at)
    }

    fn view(&self, region: &phalanx_sim::memory::Region) -> View {
        let mask = match &self.mask {
            Which::All => Mask::All,
            Which::Below(bounds) => Mask::Below(Box::new(Shape::from(bounds.as_slice()))),
            Which::Each(each) => Mask::Each(Rc::from(each.as_slice())),
        };
        View::strided(region, self.start, self.dims.as_slice(), self.strides.as_slice())
            .masked(mask)
    }
}

/// `first, first + 1, ...`: exact in every type.
fn counting(dtype: DType, first: i16, len: usize) -> (Value, Array) {
    let numbers: Vec<f32> = (first..).take(len).map(f32::from).collect();
    (Value::from_f32(dtype, &numbers), Array::new(dtype, &numbers))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_load_gathers_what_its_view_says(pattern in patterns(), dtype in dtypes(), other in -9i8..9) {
        let (input, array) = counting(dtype, 1, pattern.len);
        let indices = pattern.indices();
        let masked = Array::new(dtype, &[f32::from(other)]).elements[0];
        let element = |index: &Option<usize>| index.map_or(masked, |at| array.elements[at]);
        let expected = Array { dtype, elements: indices.iter().map(element).collect() };
        let before = Value::zeros(dtype, indices.len());
        let got = computed(&[input], &before, move |tl, from, out| {
            let view = pattern.view(&from[0]);
            async move {
                let tile = tl.load_or(&view, f64::from(other)).await?;
                tl.store(&View::of(&out), &tile.reshape(out.elements)?).await
            }
        });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn a_load_over_a_tile_keeps_the_masked_elements_of_the_tile(pattern in patterns(), dtype in dtypes()) {
        let indices = pattern.indices();
        let (input, array) = counting(dtype, 1, pattern.len);
        let (other, others) = counting(dtype, -200, indices.len());
        let element = |(number, index): (usize, &Option<usize>)| {
            index.map_or(others.elements[number], |at| array.elements[at])
        };
        let expected = Array { dtype, elements: indices.iter().enumerate().map(element).collect() };
        let before = Value::zeros(dtype, indices.len());
        let got = computed(&[input, other], &before, move |tl, from, out| {
            let (view, dims) = (pattern.view(&from[0]), pattern.dims.clone());
            async move {
                let other = tl.load(&View::of(&from[1])).await?.reshape(dims.as_slice())?;
                let tile = tl.load_over(&view, &other).await?;
                tl.store(&View::of(&out), &tile.reshape(out.elements)?).await
            }
        });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn a_store_scatters_to_its_view_and_leaves_the_rest_alone(pattern in patterns(), dtype in dtypes()) {
        let indices = pattern.indices();
        let (input, array) = counting(dtype, 1, indices.len());
        let (before, mut expected) = counting(dtype, -200, pattern.len);
        for (number, index) in indices.iter().enumerate().filter_map(|(n, index)| Some((n, (*index)?))) {
            expected.elements[index] = array.elements[number];
        }
        let got = computed(&[input], &before, move |tl, from, out| {
            let (view, dims) = (pattern.view(&out), pattern.dims.clone());
            async move {
                let tile = tl.load(&View::of(&from[0])).await?.reshape(dims.as_slice())?;
                tl.store(&view, &tile).await
            }
        });
        prop_assert_eq!(got, expected);
    }
}
