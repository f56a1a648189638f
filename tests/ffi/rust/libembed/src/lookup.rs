// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{expect_len, product, refuse, Result};
use crate::table::sized;
use crate::{BagOptions, Context, Dtype, LookupOptions, NormOptions, PositionOptions, Table};
use libembed_sys as sys;
use std::ptr;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for super::Float16 {}
    impl Sealed for super::BFloat16 {}
}

/// What vectors are made of.
pub trait Element: Copy + Default + sealed::Sealed {
    /// Its name for C.
    const DTYPE: Dtype;
}
/// The bits of an IEEE half.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Float16(pub u16);
/// The upper half of a float's bits.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct BFloat16(pub u16);
impl Element for f32 {
    const DTYPE: Dtype = sys::EMBED_F32;
}
impl Element for Float16 {
    const DTYPE: Dtype = sys::EMBED_F16;
}
impl Element for BFloat16 {
    const DTYPE: Dtype = sys::EMBED_BF16;
}

pub(crate) fn elements_of(table: &Table<'_>, n: usize) -> Result<usize> {
    product("n * dim", n, table.dim() as usize)
}

impl Table<'_> {
    /// The rows that ids name, as floats [n, dim].
    pub fn lookup(&self, ctx: &mut Context, ids: &[i32]) -> Result<Vec<f32>> {
        let count = elements_of(self, ids.len())?;
        let mut out: Vec<f32> = Vec::new();
        if out.try_reserve_exact(count).is_err() {
            return Err(crate::Error { status: crate::Status::MEMORY, at: None, text: format!("{count} floats") });
        }
        let status = unsafe {
            sys::embed_lookup(ctx.raw(), self.raw(), ids.as_ptr(), ids.len() as i64, out.as_mut_ptr().cast(), sys::EMBED_F32, 0, ptr::null())
        };
        ctx.check(status)?;
        unsafe { out.set_len(count) }; // a success has written all of it, an error nothing
        Ok(out)
    }

    /// The rows that ids name, into out [n, dim].
    pub fn lookup_into<E: Element>(&self, ctx: &mut Context, ids: &[i32], out: &mut [E], options: &LookupOptions) -> Result<()> {
        expect_len("out", out.len(), elements_of(self, ids.len())?)?;
        let options = sized(options, |o, size| o.size = size);
        let status = unsafe {
            sys::embed_lookup(ctx.raw(), self.raw(), ids.as_ptr(), ids.len() as i64, out.as_mut_ptr().cast(), E::DTYPE, 0, &options)
        };
        ctx.check(status)
    }

    /// [`Table::lookup_into`] with 64-bit ids.
    pub fn lookup_i64_into<E: Element>(&self, ctx: &mut Context, ids: &[i64], out: &mut [E], options: &LookupOptions) -> Result<()> {
        expect_len("out", out.len(), elements_of(self, ids.len())?)?;
        let options = sized(options, |o, size| o.size = size);
        let status = unsafe {
            sys::embed_lookup_i64(ctx.raw(), self.raw(), ids.as_ptr(), ids.len() as i64, out.as_mut_ptr().cast(), E::DTYPE, 0, &options)
        };
        ctx.check(status)
    }

    /// Pooled lookup: bag b holds ids [offsets[b], offsets[b + 1]); out [bags, dim].
    pub fn bag_into<E: Element>(
        &self, ctx: &mut Context, ids: &[i32], offsets: &[i64], weights: Option<&[f32]>, out: &mut [E], options: &BagOptions,
    ) -> Result<()> {
        let bags = match offsets.len().checked_sub(1) {
            Some(bags) => bags,
            None => return refuse("offsets has no element, bags + 1 are needed".to_string()),
        };
        expect_len("out", out.len(), elements_of(self, bags)?)?;
        if let Some(weights) = weights {
            expect_len("weights", weights.len(), ids.len())?;
        }
        let options = sized(options, |o, size| o.size = size);
        let weights = weights.map_or(ptr::null(), <[f32]>::as_ptr);
        let status = unsafe {
            sys::embed_bag(
                ctx.raw(), self.raw(), ids.as_ptr(), ids.len() as i64, offsets.as_ptr(), bags as i64, weights, out.as_mut_ptr().cast(),
                E::DTYPE, 0, &options,
            )
        };
        ctx.check(status)
    }

    /// Every row mixed by weights [n, vocab]: one-hot rows give the lookup.
    pub fn mix(&self, ctx: &mut Context, weights: &[f32], n: usize) -> Result<Vec<f32>> {
        expect_len("weights", weights.len(), product("n * vocab", n, self.vocab() as usize)?)?;
        let mut out = vec![0.0; elements_of(self, n)?];
        let status =
            unsafe { sys::embed_mix(ctx.raw(), self.raw(), weights.as_ptr(), n as i64, 0, out.as_mut_ptr(), 0, ptr::null()) };
        ctx.check(status)?;
        Ok(out)
    }
}

/// Sinusoids of the positions from `first` on, into out [n, dim].
pub fn positions<E: Element>(ctx: &mut Context, first: i64, dim: usize, out: &mut [E], options: &PositionOptions) -> Result<()> {
    let n = rows_of(out.len(), dim)?;
    let options = sized(options, |o, size| o.size = size);
    let status = unsafe { sys::embed_positions(ctx.raw(), first, n, dim as i64, out.as_mut_ptr().cast(), E::DTYPE, 0, &options) };
    ctx.check(status)
}

/// RMS or layer norm of the rows of x [n, dim], in place.
pub fn norm_rows<E: Element>(
    ctx: &mut Context, x: &mut [E], dim: usize, weight: Option<&[f32]>, bias: Option<&[f32]>, options: &NormOptions,
) -> Result<()> {
    let n = rows_of(x.len(), dim)?;
    for given in [weight, bias].into_iter().flatten() {
        expect_len("weight or bias", given.len(), dim)?;
    }
    let pointer = |given: Option<&[f32]>| given.map_or(ptr::null(), <[f32]>::as_ptr);
    let options = sized(options, |o, size| o.size = size);
    let status = unsafe {
        sys::embed_norm_rows(ctx.raw(), x.as_mut_ptr().cast(), E::DTYPE, n, dim as i64, 0, pointer(weight), pointer(bias), &options)
    };
    ctx.check(status)
}

fn rows_of(elements: usize, dim: usize) -> Result<i64> {
    if dim == 0 || elements % dim != 0 {
        return refuse(format!("{elements} elements are no whole rows of {dim}"));
    }
    Ok((elements / dim) as i64)
}
