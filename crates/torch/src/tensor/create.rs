//! Making tensors: memory is reserved at once; requests write it.

use super::{Storage, Tensor, dense};
use crate::error::{Error, describe};
use crate::placement::{DpPolicy, Shard};
use crate::rank::Rank;
use crate::request::{Access, MAP, Order, RequestSpec, Subject, Touch};
use phalanx_sim::value::{Buffer, DType, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// A maker of tensors with one placement.
pub struct Placed<'a> {
    rank: &'a Rank,
    policy: DpPolicy,
}

impl Rank {
    /// Makes tensors placed by `policy`.
    pub fn placed(&self, policy: DpPolicy) -> Placed<'_> {
        Placed { rank: self, policy }
    }

    fn here(&self) -> Placed<'_> {
        self.placed(DpPolicy::default())
    }

    /// Makes a tensor without initial elements.
    pub fn empty(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<Tensor, Error> {
        self.here().empty(shape, dtype)
    }

    /// Makes a tensor full of zeros.
    pub fn zeros(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<Tensor, Error> {
        self.here().zeros(shape, dtype)
    }

    /// Makes a tensor filled with one number.
    pub fn full(
        &self,
        shape: impl AsRef<[usize]>,
        number: f64,
        dtype: DType,
    ) -> Result<Tensor, Error> {
        self.here().full(shape, number, dtype)
    }

    /// Makes a tensor of these numbers, rounded to its type, row by row.
    pub fn from_slice(
        &self,
        numbers: &[f32],
        shape: impl AsRef<[usize]>,
        dtype: DType,
    ) -> Result<Tensor, Error> {
        self.here().from_slice(numbers, shape, dtype)
    }

    /// Makes a tensor of the elements of a buffer, row by row, in the type of the buffer.
    pub fn from_buffer(
        &self,
        elements: Buffer,
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor, Error> {
        self.here().from_buffer(elements, shape)
    }

    /// Makes a tensor of `start`, `start + step`, ... up to `end`, which is excluded.
    pub fn arange(&self, start: f64, end: f64, step: f64, dtype: DType) -> Result<Tensor, Error> {
        self.here().arange(start, end, step, dtype)
    }

    /// Makes a tensor of random numbers between 0 and 1.
    pub fn rand(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<Tensor, Error> {
        self.here().rand(shape, dtype)
    }

    /// Makes a tensor of random numbers with mean 0 and variance 1.
    pub fn randn(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<Tensor, Error> {
        self.here().randn(shape, dtype)
    }
}

impl Placed<'_> {
    /// Makes a tensor without initial elements.
    pub fn empty(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<Tensor, Error> {
        let shape = shape.as_ref();
        let elements = shape.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
        let Some(elements) = elements.filter(|elements| *elements <= MOST_ELEMENTS) else {
            return Err(Error::argument(format!(
                "{} is too large: a tensor has at most {MOST_ELEMENTS} elements",
                describe(dtype, shape)
            )));
        };
        self.policy.check(self.rank.machine())?;
        let columns = shape.last().copied().unwrap_or(1);
        let rows = elements.checked_div(columns).unwrap_or(0);
        let storage = self.reserve(dtype, rows, columns)?;
        let tensor = Tensor {
            rank: self.rank.clone(),
            storage: Rc::new(storage),
            dtype,
            shape: shape.into(),
            strides: dense(shape).into(),
            offset: 0,
        };
        tensor.map();
        Ok(tensor)
    }

    fn reserve(&self, dtype: DType, rows: usize, columns: usize) -> Result<Storage, Error> {
        let host = self.rank.host();
        // The storage owns each shard at once, so that a failure half way frees them.
        let mut storage = Storage {
            number: self.rank.next_request(),
            shards: Vec::new(),
            rows,
            columns,
            policy: self.policy,
            order: RefCell::new(Order::default()),
            host: host.clone(),
        };
        for block in self.policy.blocks(host.sip(), rows, columns) {
            let elements = block.rows.len() * block.columns.len();
            let region = host.reserve(block.pe.cube, dtype, elements)?;
            let (pe, rows, columns) = (block.pe, block.rows, block.columns);
            storage.shards.push(Shard { pe, rows, columns, region });
        }
        Ok(storage)
    }

    /// Makes a tensor full of zeros.
    pub fn zeros(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<Tensor, Error> {
        self.full(shape, 0.0, dtype)
    }

    /// Makes a tensor filled with one number.
    pub fn full(
        &self,
        shape: impl AsRef<[usize]>,
        number: f64,
        dtype: DType,
    ) -> Result<Tensor, Error> {
        let tensor = self.empty(shape, dtype)?;
        tensor.fill_(number)?;
        Ok(tensor)
    }

    /// Makes a tensor of these numbers, rounded to its type, row by row.
    pub fn from_slice(
        &self,
        numbers: &[f32],
        shape: impl AsRef<[usize]>,
        dtype: DType,
    ) -> Result<Tensor, Error> {
        let shape = shape.as_ref();
        check_count(numbers.len(), dtype, shape)?;
        self.of_value(shape, dtype, || rounded(dtype, numbers))
    }

    /// Makes a tensor of whole numbers.
    pub fn from_i32(&self, numbers: &[i32], shape: impl AsRef<[usize]>) -> Result<Tensor, Error> {
        let shape = shape.as_ref();
        check_count(numbers.len(), DType::I32, shape)?;
        self.of_value(shape, DType::I32, || Value::from_i32(numbers))
    }

    /// Makes a tensor of the elements of a buffer, row by row, in the type of the buffer; the elements are not copied
    /// on this host.
    ///
    /// ```
    /// use phalanx_sim::{MachineSpec, machine::Options, value::{Buffer, f16}};
    /// use phalanx_torch::Context;
    /// let mut context = Context::new(MachineSpec::preset("pair").unwrap(), Options::default());
    /// let halves = Buffer::F16([1.0, 2.0, 3.0, 4.0].map(f16::from_f32).to_vec());
    /// let row = context.run(move |cx| {
    ///     let halves = halves.clone();
    ///     async move { cx.from_buffer(halves, [2, 2])?.select(0, 1)?.to_buffer().await }
    /// });
    /// assert_eq!(row.unwrap(), Buffer::F16([3.0, 4.0].map(f16::from_f32).to_vec()));
    /// ```
    pub fn from_buffer(
        &self,
        elements: Buffer,
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor, Error> {
        let (shape, dtype) = (shape.as_ref(), elements.dtype());
        check_count(elements.len(), dtype, shape)?;
        self.of_value(shape, dtype, || Value::from_buffer(elements))
    }

    /// Makes a tensor whose element `i`, row by row, is `number(i)`; `number` is called only if the run computes
    /// numbers.
    pub fn from_fn(
        &self,
        shape: impl AsRef<[usize]>,
        dtype: DType,
        number: impl Fn(usize) -> f32,
    ) -> Result<Tensor, Error> {
        let shape = shape.as_ref();
        let count = shape.iter().product();
        self.of_value(shape, dtype, || {
            rounded(dtype, &(0..count).map(number).collect::<Vec<f32>>())
        })
    }

    /// Makes a tensor of a value; `value` is called only if the run computes numbers.
    pub fn of_value(
        &self,
        shape: &[usize],
        dtype: DType,
        value: impl FnOnce() -> Value,
    ) -> Result<Tensor, Error> {
        let tensor = self.empty(shape, dtype)?;
        let value = self.rank.has_data().then(value);
        tensor.write_(value);
        Ok(tensor)
    }

    /// Makes a tensor whose elements are in memory before the program begins: making it takes no simulated time.
    /// Element `i`, row by row, is `number(i)`; `number` is called only if the run computes numbers.
    pub fn resident(
        &self,
        shape: impl AsRef<[usize]>,
        dtype: DType,
        number: impl Fn(usize) -> f32,
    ) -> Result<Tensor, Error> {
        let tensor = self.empty(shape, dtype)?;
        if self.rank.has_data() {
            let numbers: Vec<f32> = (0..tensor.numel()).map(number).collect();
            let value = rounded(dtype, &numbers);
            for shard in tensor.shards() {
                let piece = piece_of(&value, shard, tensor.storage.columns);
                self.rank.host().place(&shard.region, piece)?;
            }
        }
        Ok(tensor)
    }

    /// `start`, `start + step`, ... up to `end`, which is excluded.
    fn arange(&self, start: f64, end: f64, step: f64, dtype: DType) -> Result<Tensor, Error> {
        let count = (end - start) / step;
        if !count.is_finite() || step == 0.0 {
            return Err(Error::argument(format!(
                "arange: {start} to {end} by {step} is no finite row of numbers"
            )));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked by `empty`"
        )]
        let count = count.ceil().max(0.0) as usize;
        self.of_value(&[count], dtype, || {
            #[expect(clippy::cast_precision_loss, reason = "as many as a tensor has elements")]
            let numbers = (0..count).map(|index| start + step * index as f64);
            if dtype == DType::F64 || !dtype.is_float() {
                return Value::from_vec(numbers.collect::<Vec<f64>>()).cast(dtype);
            }
            #[expect(clippy::cast_possible_truncation, reason = "meant to round")]
            let numbers: Vec<f32> = numbers.map(|number| number as f32).collect();
            rounded(dtype, &numbers)
        })
    }

    /// Random numbers between 0 and 1.
    fn rand(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<Tensor, Error> {
        self.drawn(shape.as_ref(), dtype, crate::random::Generator::uniform)
    }

    /// Random numbers with mean 0 and variance 1.
    fn randn(&self, shape: impl AsRef<[usize]>, dtype: DType) -> Result<Tensor, Error> {
        self.drawn(shape.as_ref(), dtype, crate::random::Generator::normal)
    }

    fn drawn(
        &self,
        shape: &[usize],
        dtype: DType,
        draw: impl Fn(&mut crate::random::Generator) -> f32,
    ) -> Result<Tensor, Error> {
        self.of_value(shape, dtype, || {
            let generator = &mut *self.rank.generator().borrow_mut();
            let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| draw(generator)).collect();
            rounded(dtype, &numbers)
        })
    }
}

/// Most elements of a tensor: no product of sizes overflows.
const MOST_ELEMENTS: usize = 1 << 40;

fn check_count(numbers: usize, dtype: DType, shape: &[usize]) -> Result<(), Error> {
    let wanted = shape.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
    if wanted == Some(numbers) {
        return Ok(());
    }
    Err(Error::argument(format!("{} takes other than {numbers} numbers", describe(dtype, shape))))
}

/// Numbers rounded to a type.
pub(crate) fn rounded(dtype: DType, numbers: &[f32]) -> Value {
    Value::from_f32(dtype, numbers)
}

impl Tensor {
    fn subject(&self) -> Subject {
        Subject::Tensor(self.words())
    }

    /// Maps the storage in the SIP's MMU.
    fn map(&self) {
        let asked = RequestSpec {
            what: MAP,
            subject: self.subject(),
            touches: &[Touch::storage_of(self, Access::Write)],
            after: Vec::new(),
        };
        let host = self.rank.host().clone();
        self.rank.request(asked, move |cause| async move { Ok(host.command("map", cause).await) });
    }

    /// Sets every element to one number.
    pub fn fill_(&self, number: f64) -> Result<crate::request::Handle, Error> {
        if !self.is_whole() {
            return self.copy_(&self.rank.full(self.shape(), number, self.dtype())?);
        }
        let asked = RequestSpec {
            what: "fill",
            subject: self.subject(),
            touches: &[Touch::of(self, Access::Overwrite)],
            after: Vec::new(),
        };
        let (host, storage, dtype) = (self.rank.host().clone(), self.storage.clone(), self.dtype());
        Ok(self.rank.request(asked, move |cause| async move {
            let mut cause = cause;
            for shard in &storage.shards {
                let value = host.has_data().then(|| Value::full(dtype, shard.elements(), number));
                cause = host.fill(&shard.region, value, cause).await?;
            }
            Ok(cause)
        }))
    }

    /// Writes the elements of a buffer of the tensor's type, row by row.
    pub fn write_buffer(&self, elements: Buffer) -> Result<crate::request::Handle, Error> {
        if elements.dtype() != self.dtype() {
            let words =
                format!("write_buffer: {} cannot take {}", self.describe(), elements.dtype());
            return Err(Error::argument(words));
        }
        check_count(elements.len(), self.dtype(), self.shape())?;
        if self.is_whole() {
            return Ok(self.write_(self.rank.has_data().then(|| Value::from_buffer(elements))));
        }
        self.copy_(&self.rank.from_buffer(elements, self.shape())?)
    }

    /// Writes a value of its type, the whole tensor row by row, over the host link.
    pub fn write_value(&self, value: Value) -> Result<crate::request::Handle, Error> {
        if value.dtype() != self.dtype() || !self.is_whole() {
            let words = format!("write_value: {} cannot take {}", self.describe(), value.dtype());
            return Err(Error::argument(words));
        }
        check_count(value.len(), self.dtype(), self.shape())?;
        Ok(self.write_(self.rank.has_data().then_some(value)))
    }

    /// Writes a value, the whole tensor row by row, to every shard.
    pub(crate) fn write_(&self, value: Option<Value>) -> crate::request::Handle {
        let asked = RequestSpec {
            what: "write",
            subject: self.subject(),
            touches: &[Touch::of(self, Access::Overwrite)],
            after: Vec::new(),
        };
        let (host, storage) = (self.rank.host().clone(), self.storage.clone());
        self.rank.request(asked, move |cause| async move {
            let mut cause = cause;
            for shard in &storage.shards {
                let piece = value.as_ref().map(|value| piece_of(value, shard, storage.columns));
                cause = host.write(&shard.region, 0, piece, shard.elements(), cause).await?;
            }
            Ok(cause)
        })
    }
}

/// The part of a matrix of `width` columns that a shard holds.
pub(super) fn piece_of(value: &Value, shard: &Shard, width: usize) -> Value {
    if shard.elements() == value.len() {
        return value.clone();
    }
    let start = shard.rows.start * width + shard.columns.start;
    value.strided(start, &[shard.rows.len(), shard.columns.len()], &[width, 1])
}
