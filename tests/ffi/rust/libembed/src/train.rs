// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{expect_len, product, refuse, Result};
use crate::lookup::Element;
use crate::table::sized;
use crate::{Context, Head, LookupOptions, LossOptions, OptimizerOptions, Source, StepOptions, Table, TableMut};
use libembed_sys as sys;
use std::ptr::{self, NonNull};

/// The gradient of a table: sparse (only rows that got some) or dense (every row, and a head's bias).
pub struct Grad {
    raw: NonNull<sys::embed_grad>,
    dim: i64,
}
unsafe impl Send for Grad {}
unsafe impl Sync for Grad {}

impl Drop for Grad {
    fn drop(&mut self) {
        unsafe { sys::embed_grad_release(self.raw.as_ptr()) }
    }
}

impl Grad {
    fn made(ctx: &mut Context, status: sys::embed_status, raw: *mut sys::embed_grad, dim: i64) -> Result<Grad> {
        ctx.check(status)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Grad { raw, dim }),
            None => refuse("the library gave no gradient".to_string()),
        }
    }
    /// No rows yet.
    pub fn sparse(ctx: &mut Context, dim: i64) -> Result<Grad> {
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_grad_create(ctx.raw(), dim, &mut raw) };
        Self::made(ctx, status, raw, dim)
    }
    /// Zeros for every row, as a head needs it.
    pub fn dense(ctx: &mut Context, rows: i64, dim: i64) -> Result<Grad> {
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_grad_create_dense(ctx.raw(), rows, dim, ptr::null_mut(), 0, &mut raw) };
        Self::made(ctx, status, raw, dim)
    }
    /// Adds the gradient of a lookup made with the same options: d_out [n, dim].
    pub fn add_lookup<E: Element>(&mut self, ctx: &mut Context, vocab: i64, ids: &[i64], d_out: &[E], options: &LookupOptions) -> Result<()> {
        expect_len("d_out", d_out.len(), product("n * dim", ids.len(), self.dim as usize)?)?;
        let options = sized(options, |o, size| o.size = size);
        let n = ids.len() as i64;
        let status = unsafe {
            sys::embed_lookup_backward(ctx.raw(), self.raw.as_ptr(), vocab, ids.as_ptr(), n, d_out.as_ptr().cast(), E::DTYPE, 0, &options)
        };
        ctx.check(status)
    }
    /// Zero, or empty, again.
    pub fn clear(&mut self) {
        unsafe { sys::embed_grad_clear(self.raw.as_ptr()) }
    }
    /// Rows with gradient, or all of a dense one.
    pub fn rows(&self) -> i64 {
        unsafe { sys::embed_grad_rows(self.raw.as_ptr()) }
    }
    /// The rows, ascending; None for a dense one.
    pub fn ids(&self) -> Option<&[i64]> {
        if unsafe { sys::embed_grad_is_dense(self.raw.as_ptr()) } == 1 {
            return None;
        }
        Some(unsafe { slice(sys::embed_grad_ids(self.raw.as_ptr()), self.rows()) })
    }
    /// The rows' gradients [rows, dim].
    pub fn values(&self) -> &[f32] {
        unsafe { slice(sys::embed_grad_values(self.raw.as_ptr()), self.rows() * self.dim) }
    }
}

unsafe fn slice<'a, T>(pointer: *const T, count: i64) -> &'a [T] {
    if pointer.is_null() || count == 0 {
        return &[];
    }
    std::slice::from_raw_parts(pointer, count as usize)
}

/// What [`Head::cross_entropy_train`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainStep {
    /// [n], unreduced.
    pub loss: Vec<f32>,
    /// Of targets that are not ignored.
    pub count: i64,
    /// [n, dim].
    pub d_hidden: Vec<f32>,
}

impl<T: Source> Head<T> {
    /// Forward and backward at once: losses, the gradient of hidden [n, dim], and the head's, added to grad. Class weights are [vocab];
    /// they stand for the pointer in options.
    pub fn cross_entropy_train<E: Element>(
        &self, ctx: &mut Context, hidden: &[E], targets: &[i32], class_weight: Option<&[f32]>, grad: Option<&mut Grad>, options: &LossOptions,
    ) -> Result<TrainStep> {
        let n = self.hidden_rows(hidden.len())?;
        expect_len("targets", targets.len(), n)?;
        if let Some(weight) = class_weight {
            expect_len("class weights", weight.len(), self.vocab() as usize)?;
        }
        let weight = class_weight.map_or(ptr::null(), <[f32]>::as_ptr);
        let options = sized(options, |o, size| (o.size, o.class_weight, o.reserved) = (size, weight, ptr::null()));
        let mut out = TrainStep { loss: vec![0.0; n], count: 0, d_hidden: vec![0.0; hidden.len()] };
        let grad = grad.map_or(ptr::null_mut(), |g| g.raw.as_ptr());
        let status = unsafe {
            sys::embed_cross_entropy_train(
                ctx.raw(), self.raw(), hidden.as_ptr().cast(), E::DTYPE, n as i64, 0, targets.as_ptr(), ptr::null(), out.loss.as_mut_ptr(),
                &mut out.count, out.d_hidden.as_mut_ptr().cast(), sys::EMBED_F32, 0, grad, &options,
            )
        };
        ctx.check(status)?;
        Ok(out)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Table<'_> {}
    impl Sealed for super::TableMut<'_, '_> {}
}

/// What an optimiser writes: a table that is yours, or the table of a head.
pub trait Trained: sealed::Sealed {
    #[doc(hidden)]
    fn table(&self) -> &Table<'_>;
}
impl Trained for Table<'_> {
    fn table(&self) -> &Table<'_> {
        self
    }
}
impl Trained for TableMut<'_, '_> {
    fn table(&self) -> &Table<'_> {
        self
    }
}

/// The state of one table.
pub struct Optimizer(NonNull<sys::embed_optimizer>);
unsafe impl Send for Optimizer {}
unsafe impl Sync for Optimizer {}

impl Drop for Optimizer {
    fn drop(&mut self) {
        unsafe { sys::embed_optimizer_release(self.0.as_ptr()) }
    }
}

impl Optimizer {
    /// All zeros, no step taken.
    pub fn new(ctx: &mut Context, table: &Table<'_>, options: &OptimizerOptions) -> Result<Optimizer> {
        let options = sized(options, |o, size| o.size = size);
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_optimizer_create(ctx.raw(), table.raw(), &options, &mut raw) };
        ctx.check(status)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Optimizer(raw)),
            None => refuse("the library gave no optimiser".to_string()),
        }
    }
    /// Moves the table by its gradient. row_rates [vocab] stand for the pointer in options.
    pub fn step(&mut self, ctx: &mut Context, table: &mut impl Trained, grad: &Grad, row_rates: Option<&[f32]>, options: &StepOptions) -> Result<()> {
        let table = table.table(); // exclusive: C writes it
        if let Some(rates) = row_rates {
            expect_len("row rates", rates.len(), table.vocab() as usize)?;
        }
        let rates = row_rates.map_or(ptr::null(), <[f32]>::as_ptr);
        let options = sized(options, |o, size| (o.size, o.row_rates, o.reserved) = (size, rates, ptr::null()));
        let status = unsafe { sys::embed_optimizer_step(ctx.raw(), self.0.as_ptr(), table.raw(), grad.raw.as_ptr(), &options) };
        ctx.check(status)
    }
    /// Deferred kinds: brings these rows up to date before they are read; None: all.
    pub fn touch(&mut self, ctx: &mut Context, table: &mut impl Trained, ids: Option<&[i64]>) -> Result<()> {
        let (pointer, n) = match ids {
            Some([]) => return Ok(()),
            Some(ids) => (ids.as_ptr(), ids.len() as i64),
            None => (ptr::null(), 0),
        };
        let status = unsafe { sys::embed_optimizer_touch(ctx.raw(), self.0.as_ptr(), table.table().raw(), pointer, n) };
        ctx.check(status)
    }
    /// How many steps were taken.
    pub fn steps(&self) -> i64 {
        unsafe { sys::embed_optimizer_steps(self.0.as_ptr()) }
    }
}
