//! Reading the elements of a tensor: an await.

use super::Tensor;
use crate::error::Error;
use crate::placement::Shard;
use crate::request::{Access, RequestSpec};
use phalanx_sim::value::{Buffer, DType, Element, Value};
use std::cell::RefCell;
use std::rc::Rc;

impl Tensor {
    /// Reads its elements, row by row (TEN-1).
    pub async fn to_vec(&self) -> Result<Vec<f32>, Error> {
        if self.dtype() == DType::I32 {
            let whole = self.to_vec_i32().await?;
            #[expect(clippy::cast_precision_loss, reason = "asked for as f32")]
            return Ok(whole.into_iter().map(|number| number as f32).collect());
        }
        self.fetch(Value::to_f32).await
    }

    /// Reads its i32 elements, row by row.
    pub async fn to_vec_i32(&self) -> Result<Vec<i32>, Error> {
        if self.dtype() != DType::I32 {
            return Err(Error::argument(format!("{} holds no i32: use `to_vec`", self.describe())));
        }
        self.fetch(Value::to_i32).await
    }

    /// Reads its elements in their type, row by row.
    pub async fn to_buffer(&self) -> Result<Buffer, Error> {
        Ok(match self.dtype() {
            DType::F32 => Buffer::F32(self.fetch(elements).await?),
            DType::F16 => Buffer::F16(self.fetch(elements).await?),
            DType::Bf16 => Buffer::Bf16(self.fetch(elements).await?),
            DType::I32 => Buffer::I32(self.fetch(elements).await?),
        })
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
        if self.dtype() == DType::I32 {
            return Ok(f64::from(self.to_vec_i32().await?[0]));
        }
        Ok(f64::from(self.to_vec().await?[0]))
    }

    /// Reads its elements and writes the first eight as text.
    pub async fn show(&self) -> Result<String, Error> {
        let numbers = self.to_vec().await?;
        let shown: Vec<String> = numbers.iter().take(8).map(ToString::to_string).collect();
        let more = if numbers.len() > 8 { ", ..." } else { "" };
        Ok(format!("{} [{}{more}]", self.describe(), shown.join(", ")))
    }

    /// Reads the shards of the storage and picks the tensor's elements.
    async fn fetch<T: Copy + Default + PartialEq + Into<f64> + 'static>(
        &self,
        numbers: impl Fn(&Value) -> Vec<T>,
    ) -> Result<Vec<T>, Error> {
        let shards = self.read_shards().await?;
        if !self.rank.has_data() {
            return Err(Error::NoData(format!("{self:?}")));
        }
        let values: Vec<Value> = shards.iter().map(|(_, value)| value.clone()).collect();
        self.rank.host().evaluator().force(&values);
        let all = self.assemble(&shards, numbers)?;
        Ok(self.elements().map(|index| all[index]).collect())
    }

    /// The whole storage, from all of its shards (TEN-2).
    fn assemble<T: Copy + Default + PartialEq + Into<f64>>(
        &self,
        shards: &[(usize, Value)],
        numbers: impl Fn(&Value) -> Vec<T>,
    ) -> Result<Vec<T>, Error> {
        let width = self.storage.columns;
        let mut all = vec![T::default(); self.storage.rows * width];
        let mut holder: Vec<u32> = vec![u32::MAX; all.len()];
        for (number, value) in shards {
            let shard = &self.storage.shards[*number];
            let mut held = numbers(value).into_iter();
            for row in shard.rows.clone() {
                for column in shard.columns.clone() {
                    let (index, got) = (row * width + column, held.next().unwrap_or_default());
                    let first = std::mem::replace(&mut holder[index], narrow(*number));
                    if first == u32::MAX {
                        all[index] = got;
                    } else if !same(all[index], got) {
                        let first = &self.storage.shards[first as usize];
                        return Err(self.differ(index, (first, all[index]), (shard, got)));
                    }
                }
            }
        }
        Ok(all)
    }

    #[cold]
    fn differ<T: Into<f64>>(&self, index: usize, one: (&Shard, T), other: (&Shard, T)) -> Error {
        Error::ReplicasDiffer {
            tensor: format!("{self:?}"),
            index,
            first: (one.0.pe.to_string(), one.1.into()),
            second: (other.0.pe.to_string(), other.1.into()),
        }
    }

    /// Reads all shards of the storage.
    async fn read_shards(&self) -> Result<Vec<(usize, Value)>, Error> {
        let asked = RequestSpec {
            what: "read",
            subject: format!("{self:?}"),
            touches: &[(&self.storage, Access::Read)],
            after: Vec::new(),
        };
        let (host, storage) = (self.rank.host().clone(), self.storage.clone());
        let found = Rc::new(RefCell::new(Vec::new()));
        let results = found.clone();
        let handle = self.rank.request(asked, move |cause| async move {
            let mut cause = cause;
            for (number, shard) in storage.shards.iter().enumerate() {
                let (value, led) = host.read(&shard.region, 0, shard.elements(), cause).await?;
                cause = led;
                results.borrow_mut().extend(value.map(|value| (number, value)));
            }
            Ok(cause)
        });
        handle.wait().await?;
        Ok(found.take())
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

/// The elements of a value of type `T`.
fn elements<T: Element>(value: &Value) -> Vec<T> {
    T::slice(value.elements()).to_vec()
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("fewer shards than PEs")
}

/// True if the two are equal, or both NaN.
fn same<T: Copy + PartialEq + Into<f64>>(one: T, other: T) -> bool {
    one == other || (one.into().is_nan() && other.into().is_nan())
}
