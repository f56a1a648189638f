// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{expect_len, product, refuse, Result};
use crate::lookup::Element;
use crate::table::sized;
use crate::{Context, HeadOptions, SweepOptions, Table, TableMut};
use libembed_sys as sys;
use std::ptr::{self, NonNull};
use std::sync::Arc;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Table<'_> {}
    impl Sealed for &super::Table<'_> {}
    impl Sealed for super::Arc<super::Table<'static>> {}
    impl Sealed for super::Stored {}
}

/// What a head may hold: a table, a borrow of one, a share of one, or what its file stores.
pub trait Source: sealed::Sealed {
    /// The table, where Rust has it.
    #[doc(hidden)]
    fn table(&self) -> Option<&Table<'_>>;
}
impl Source for Table<'_> {
    fn table(&self) -> Option<&Table<'_>> {
        Some(self)
    }
}
impl Source for &Table<'_> {
    fn table(&self) -> Option<&Table<'_>> {
        Some(self)
    }
}
impl Source for Arc<Table<'static>> {
    fn table(&self) -> Option<&Table<'_>> {
        Some(self)
    }
}
/// The head of a file: what it reads is the file's.
pub struct Stored;
impl Source for Stored {
    fn table(&self) -> Option<&Table<'_>> {
        None
    }
}

/// A table seen from the output side. Tied means that it holds the table which lookups use.
pub struct Head<T: Source> {
    raw: NonNull<sys::embed_head>,
    held: T,
}
unsafe impl<T: Source + Send> Send for Head<T> {}
unsafe impl<T: Source + Sync> Sync for Head<T> {}

impl<T: Source> Drop for Head<T> {
    fn drop(&mut self) {
        unsafe { sys::embed_head_release(self.raw.as_ptr()) }
    }
}

/// The best k of each hidden row, best first; a row with fewer ends in id -1.
#[derive(Clone, Debug, PartialEq)]
pub struct TopK {
    /// [n, k].
    pub ids: Vec<i32>,
    /// [n, k], as `logits` gives them.
    pub logits: Vec<f32>,
    /// [n], over all logits.
    pub logsumexp: Vec<f32>,
    /// [n], how many there are.
    pub count: Vec<i32>,
}

impl<T: Source> Head<T> {
    pub(crate) fn made(ctx: &mut Context, status: sys::embed_status, raw: *mut sys::embed_head, held: T) -> Result<Self> {
        ctx.check(status)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Head { raw, held }),
            None => refuse("the library gave no head".to_string()),
        }
    }

    /// Over a table that it holds. bias [vocab] is copied.
    pub fn new(ctx: &mut Context, table: T, bias: Option<&[f32]>, options: &HeadOptions) -> Result<Self> {
        let (source, vocab) = match table.table() {
            Some(table) => (table.raw(), table.vocab()),
            None => return refuse("a file's head comes from File::head".to_string()),
        };
        if let Some(bias) = bias {
            expect_len("bias", bias.len(), vocab as usize)?;
        }
        let options = sized(options, |o, size| o.size = size);
        let mut raw = ptr::null_mut();
        let bias = bias.map_or(ptr::null(), <[f32]>::as_ptr);
        let status = unsafe { sys::embed_head_create(ctx.raw(), source, bias, &options, &mut raw) };
        Self::made(ctx, status, raw, table)
    }

    /// Width of a row of logits.
    pub fn vocab(&self) -> i64 {
        unsafe { sys::embed_head_vocab(self.raw.as_ptr()) }
    }
    /// Width of a hidden row.
    pub fn dim(&self) -> i64 {
        unsafe { sys::embed_head_dim(self.raw.as_ptr()) }
    }
    /// Does it read the storage of this table?
    pub fn is_tied(&self, table: &Table<'_>) -> bool {
        unsafe { sys::embed_head_is_tied(self.raw.as_ptr(), table.raw()) == 1 }
    }
    /// Bytes read in place and bytes kept beside.
    pub fn bytes(&self, ctx: &mut Context) -> Result<(i64, i64)> {
        let mut info = sys::embed_head_info::default();
        let status = unsafe { sys::embed_head_describe(ctx.raw(), self.raw.as_ptr(), &mut info) };
        ctx.check(status)?;
        Ok((info.table_bytes, info.extra_bytes))
    }

    pub(crate) fn raw(&self) -> *const sys::embed_head {
        self.raw.as_ptr()
    }

    pub(crate) fn hidden_rows(&self, elements: usize) -> Result<usize> {
        let dim = self.dim() as usize;
        if dim == 0 || elements % dim != 0 {
            return refuse(format!("{elements} elements are no whole hidden rows of {dim}"));
        }
        Ok(elements / dim)
    }

    /// Every logit of hidden [n, dim]: [n, vocab].
    pub fn logits<E: Element>(&self, ctx: &mut Context, hidden: &[E], options: &SweepOptions) -> Result<Vec<f32>> {
        let n = self.hidden_rows(hidden.len())?;
        let options = sized(options, |o, size| o.size = size);
        let mut out = vec![0.0; product("n * vocab", n, self.vocab() as usize)?];
        let status = unsafe {
            sys::embed_logits(ctx.raw(), self.raw.as_ptr(), hidden.as_ptr().cast(), E::DTYPE, n as i64, 0, out.as_mut_ptr(), 0, &options)
        };
        ctx.check(status)?;
        Ok(out)
    }

    /// The logits of these ids alone: [n, m].
    pub fn logits_at<E: Element>(&self, ctx: &mut Context, hidden: &[E], ids: &[i32], options: &SweepOptions) -> Result<Vec<f32>> {
        let n = self.hidden_rows(hidden.len())?;
        let options = sized(options, |o, size| o.size = size);
        let mut out = vec![0.0; product("n * m", n, ids.len())?];
        let status = unsafe {
            sys::embed_logits_at(
                ctx.raw(), self.raw.as_ptr(), hidden.as_ptr().cast(), E::DTYPE, n as i64, 0, ids.as_ptr(), ids.len() as i64,
                out.as_mut_ptr(), 0, &options,
            )
        };
        ctx.check(status)?;
        Ok(out)
    }

    /// The best k of hidden [n, dim].
    pub fn topk<E: Element>(&self, ctx: &mut Context, hidden: &[E], k: i32, options: &SweepOptions) -> Result<TopK> {
        let n = self.hidden_rows(hidden.len())?;
        if k < 0 || i64::from(k) > self.vocab() {
            return refuse(format!("k is {k}, the vocabulary has {} rows", self.vocab()));
        }
        let count = product("n * k", n, k as usize)?;
        let options = sized(options, |o, size| o.size = size);
        let mut out = TopK { ids: vec![-1; count], logits: vec![0.0; count], logsumexp: vec![0.0; n], count: vec![0; n] };
        let status = unsafe {
            sys::embed_topk(
                ctx.raw(), self.raw.as_ptr(), hidden.as_ptr().cast(), E::DTYPE, n as i64, 0, k, out.ids.as_mut_ptr(),
                out.logits.as_mut_ptr(), out.logsumexp.as_mut_ptr(), out.count.as_mut_ptr(), &options,
            )
        };
        ctx.check(status)?;
        Ok(out)
    }
}

impl<'a> Head<Table<'a>> {
    /// The table, for lookups.
    pub fn table(&self) -> &Table<'a> {
        &self.held
    }
    /// The table, to be written: no sweep and no lookup runs meanwhile.
    pub fn table_mut(&mut self) -> TableMut<'_, 'a> {
        TableMut(&mut self.held)
    }
}
impl Head<Arc<Table<'static>>> {
    /// The shared table.
    pub fn table(&self) -> &Arc<Table<'static>> {
        &self.held
    }
}
