//! Reading the elements of a tensor: an await. A read moves the bytes of the tensor's own elements, not those of its storage.

use super::Tensor;
use crate::error::Error;
use crate::placement::Shard;
use crate::request::{Access, RequestSpec, Subject, Touch};
use phalanx_sim::machine::Selection;
use phalanx_sim::value::{Buffer, DType, Element, Value};
use phalanx_sim::with_element;
use std::cell::RefCell;
use std::rc::Rc;

impl Tensor {
    /// Reads its elements, row by row (TEN-1).
    pub async fn to_vec(&self) -> Result<Vec<f32>, Error> {
        Ok(self.to_value().await?.to_f32())
    }

    /// Reads its i32 elements, row by row.
    pub async fn to_vec_i32(&self) -> Result<Vec<i32>, Error> {
        if self.dtype() != DType::I32 {
            return Err(Error::argument(format!("{} holds no i32: use `to_vec`", self.describe())));
        }
        Ok(self.to_value().await?.to_i32())
    }

    /// Reads its elements in their type, row by row.
    pub async fn to_buffer(&self) -> Result<Buffer, Error> {
        let value = self.to_value().await?;
        Ok(value.elements().to_buffer())
    }

    /// Reads its elements, row by row, as a computed value: [`Value::elements`] lends them without a copy.
    pub async fn to_value(&self) -> Result<Value, Error> {
        let plan = self.reads();
        let values = self.read_parts(&plan).await?;
        self.assemble(&plan, values)
    }

    /// The elements of a whole tensor that is cut into shards, as they are now.
    pub(super) fn peek_shards(&self) -> Result<Value, Error> {
        let plan = self.reads();
        let mut values = Vec::new();
        for read in &plan {
            values.extend(self.rank.host().peek(&self.storage.shards[read.shard].region)?);
        }
        self.assemble(&plan, values)
    }

    /// The elements of the tensor, computed, from those of its shards.
    fn assemble(&self, plan: &[ShardRead], values: Vec<Value>) -> Result<Value, Error> {
        if !self.rank.has_data() {
            return Err(Error::NoData(format!("{self:?}")));
        }
        self.rank.host().force(&values)?;
        with_element!(self.dtype(), T => self.put_together::<T>(plan, values))
    }

    /// Reads its only element.
    pub async fn item(&self) -> Result<f64, Error> {
        if self.numel() != 1 {
            return Err(Error::argument(format!(
                "item: {} has {} elements, not one",
                self.describe(),
                self.numel()
            )));
        }
        Ok(self.to_value().await?.get(0))
    }

    /// Reads its elements and writes the first eight as text.
    pub async fn show(&self) -> Result<String, Error> {
        let numbers = self.to_vec().await?;
        let shown: Vec<String> = numbers.iter().take(8).map(ToString::to_string).collect();
        let more = if numbers.len() > 8 { ", ..." } else { "" };
        Ok(format!("{} [{}{more}]", self.describe(), shown.join(", ")))
    }

    /// The reads of a tensor: one for each shard that holds some of its elements.
    fn reads(&self) -> Vec<ShardRead> {
        let shards = self.storage.shards.iter().enumerate();
        if self.region().is_ok() {
            let (start, shape, strides) =
                (self.storage_offset(), self.shape().to_vec(), self.strides().to_vec());
            let selected = vec![Selection { start, shape, strides }];
            return shards
                .map(|(shard, _)| ShardRead {
                    shard,
                    selected: selected.clone(),
                    places: Places::All,
                })
                .collect();
        }
        if self.is_whole() {
            let whole = |shard: &Shard| vec![Selection::dense(0, shard.elements())];
            return shards
                .map(|(number, shard)| ShardRead {
                    shard: number,
                    selected: whole(shard),
                    places: Places::Block,
                })
                .collect();
        }
        let reads = shards.map(|(number, shard)| self.read_of(number, shard));
        reads.filter(|read| !read.selected.is_empty()).collect()
    }

    /// The elements of the tensor that a shard of a cut storage holds.
    fn read_of(&self, number: usize, shard: &Shard) -> ShardRead {
        let (mut selected, mut places): (Vec<Selection>, Vec<usize>) = Default::default();
        let width = self.storage.columns;
        for (place, element) in self.elements().enumerate() {
            let (row, column) = (element / width, element % width);
            if !shard.rows.contains(&row) || !shard.columns.contains(&column) {
                continue;
            }
            let at = shard.at(row, column);
            match selected.last_mut() {
                Some(run) if run.start + run.shape[0] == at => run.shape[0] += 1,
                _ => selected.push(Selection::dense(at, 1)),
            }
            places.push(place);
        }
        ShardRead { shard: number, selected, places: Places::Of(places) }
    }

    /// Reads the selected elements of the shards.
    async fn read_parts(&self, plan: &[ShardRead]) -> Result<Vec<Value>, Error> {
        let asked = RequestSpec {
            what: "read",
            subject: Subject::Tensor(self.words()),
            touches: &[Touch::of(self, Access::Read)],
            after: Vec::new(),
        };
        let (host, storage) = (self.rank.host().clone(), self.storage.clone());
        let found = Rc::new(RefCell::new(Vec::new()));
        let (results, plan) = (found.clone(), plan.to_vec());
        let handle = self.rank.request(asked, move |cause| async move {
            let mut cause = cause;
            for ShardRead { shard, selected, .. } in plan {
                let region = &storage.shards[shard].region;
                let (value, led) = host.read_all(region, &selected, cause).await?;
                cause = led;
                results.borrow_mut().extend(value);
            }
            Ok(cause)
        });
        handle.wait().await?;
        Ok(found.take())
    }

    /// The elements of the tensor, from what its shards hold (TEN-2).
    fn put_together<T>(&self, plan: &[ShardRead], values: Vec<Value>) -> Result<Value, Error>
    where
        T: Element,
    {
        if plan.iter().all(|read| matches!(read.places, Places::All)) {
            return self.first_of::<T>(values);
        }
        let mut all = vec![T::default(); self.numel()];
        let mut holder = vec![usize::MAX; all.len()];
        for (read, value) in plan.iter().zip(values) {
            for (place, got) in self.places(read).zip(value.elements().of::<T>()) {
                let first = std::mem::replace(&mut holder[place], read.shard);
                if first == usize::MAX {
                    all[place] = *got;
                } else if !same(all[place], *got) {
                    return Err(self.differ(place, (first, all[place]), (read.shard, *got)));
                }
            }
        }
        Ok(Value::from_vec(all))
    }

    /// The places in the tensor of the elements that a shard holds.
    fn places<'a>(&'a self, read: &'a ShardRead) -> Box<dyn Iterator<Item = usize> + 'a> {
        let (shard, width) = (&self.storage.shards[read.shard], self.storage.columns);
        match &read.places {
            Places::All => Box::new(0..self.numel()),
            Places::Of(places) => Box::new(places.iter().copied()),
            Places::Block => Box::new(shard.rows.clone().flat_map(move |row| {
                shard.columns.clone().map(move |column| row * width + column)
            })),
        }
    }

    /// The first of several copies, which must be equal.
    fn first_of<T>(&self, copies: Vec<Value>) -> Result<Value, Error>
    where
        T: Element,
    {
        let mut copies = copies.into_iter().enumerate();
        let Some((_, first)) = copies.next() else { return Ok(Value::zeros(self.dtype(), 0)) };
        for (shard, copy) in copies {
            let (one, other) = (first.elements().of::<T>(), copy.elements().of::<T>());
            if let Some(place) = (0..one.len()).find(|place| !same(one[*place], other[*place])) {
                return Err(self.differ(place, (0, one[place]), (shard, other[place])));
            }
        }
        Ok(first)
    }

    /// The error of two shards that hold different numbers for element `place` of the tensor.
    #[cold]
    fn differ<T: Element>(&self, place: usize, one: (usize, T), other: (usize, T)) -> Error {
        let number = |element: T| Value::from_vec(vec![element]).get(0);
        let pe = |shard: usize| self.storage.shards[shard].pe.to_string();
        Error::ReplicasDiffer {
            tensor: format!("{self:?}"),
            index: self.elements().nth(place).unwrap_or(place),
            first: (pe(one.0), number(one.1)),
            second: (pe(other.0), number(other.1)),
        }
    }

    /// The elements of the storage that the tensor views, in its order.
    fn elements(&self) -> impl Iterator<Item = usize> + '_ {
        let shape = self.shape();
        (0..self.numel()).map(move |number| {
            let (mut rest, mut at) = (number, self.storage_offset());
            for axis in (0..shape.len()).rev() {
                at += rest % shape[axis] * self.strides()[axis];
                rest /= shape[axis];
            }
            at
        })
    }
}

/// The elements of a tensor that one shard holds.
#[derive(Clone)]
struct ShardRead {
    shard: usize,
    selected: Vec<Selection>,
    places: Places,
}

/// The places in the tensor of the elements that a shard holds.
#[derive(Clone)]
enum Places {
    /// All, in order: the shard is a copy of the storage.
    All,
    /// The block of the shard: the tensor is the storage.
    Block,
    /// These.
    Of(Vec<usize>),
}

/// True if the two are equal, or both NaN.
#[expect(clippy::eq_op, reason = "a NaN does not equal itself")]
fn same<T: Element>(one: T, other: T) -> bool {
    one == other || (one != one && other != other)
}
