// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{expect_len, product, refuse, Result};
use crate::lookup::{elements_of, Element};
use crate::{Context, InitOptions, RowsOptions, TableOptions};
use libembed_sys as sys;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::raw::c_void;
use std::ptr::{self, NonNull};

/// How a row is stored; a number, because newer libraries may store more.
pub type Dtype = sys::embed_dtype;

pub(crate) fn sized<T: Copy>(options: &T, set: impl FnOnce(&mut T, u32)) -> T {
    let mut copy = *options; // its size is ours to say: C reads as much
    set(&mut copy, std::mem::size_of::<T>() as u32);
    copy
}

/// A matrix [rows, dim]. `'a` is how long the memory lives that it was made over; owned tables are `Table<'static>`.
///
/// There is no clone: two handles of one table would be two ways to write it. Share `&Table` or `Arc<Table>`.
pub struct Table<'a> {
    raw: NonNull<sys::embed_table>,
    _memory: PhantomData<&'a [u8]>,
}
unsafe impl Send for Table<'_> {}
unsafe impl Sync for Table<'_> {}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        unsafe { sys::embed_table_release(self.raw.as_ptr()) }
    }
}

unsafe extern "C" fn drop_vec(vec: *mut c_void) {
    drop(Box::from_raw(vec.cast::<Vec<f32>>()));
}

impl Table<'static> {
    /// Zeros, in memory of the library.
    pub fn create(ctx: &mut Context, rows: i64, dim: i64, options: &TableOptions) -> Result<Self> {
        let options = sized(options, |o, size| o.size = size);
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_table_create(ctx.raw(), rows, dim, &options, &mut raw) };
        Self::made(ctx, status, raw)
    }

    /// A vector becomes a table of floats, without a copy; it is dropped with the table's last owner, on that thread.
    pub fn from_vec(ctx: &mut Context, numbers: Vec<f32>, rows: usize, dim: usize) -> Result<Self> {
        expect_len("a table's vector", numbers.len(), product("rows * dim", rows, dim)?)?;
        let mut numbers = Box::new(numbers);
        let data = numbers.as_mut_ptr();
        let arg = Box::into_raw(numbers);
        let mut raw = ptr::null_mut();
        let status = unsafe {
            sys::embed_table_borrow(ctx.raw(), data.cast(), rows as i64, dim as i64, ptr::null(), Some(drop_vec), arg.cast(), &mut raw)
        };
        if raw.is_null() {
            drop(unsafe { Box::from_raw(arg) }); // C has not taken it
        }
        Self::made(ctx, status, raw)
    }
}

impl<'a> Table<'a> {
    pub(crate) fn made(ctx: &mut Context, status: sys::embed_status, raw: *mut sys::embed_table) -> Result<Self> {
        ctx.check(status)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Table { raw, _memory: PhantomData }),
            None => refuse("the library gave no table".to_string()),
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::embed_table {
        self.raw.as_ptr()
    }

    /// Stored bytes of any dtype and alignment, read in place, never written.
    pub fn view(ctx: &mut Context, bytes: &'a [u8], rows: i64, dim: i64, options: &TableOptions) -> Result<Self> {
        if bytes.is_empty() && rows > 0 {
            return refuse(format!("no bytes for {rows} rows"));
        }
        let options = sized(options, |o, size| (o.size, o.data_bytes) = (size, bytes.len() as i64)); // the extent is checked
        let mut raw = ptr::null_mut();
        let status = unsafe {
            sys::embed_table_view(ctx.raw(), bytes.as_ptr().cast(), rows, dim, &options, None, ptr::null_mut(), &mut raw)
        };
        Self::made(ctx, status, raw)
    }

    /// [`Table::view`] of floats.
    pub fn view_f32(ctx: &mut Context, numbers: &'a [f32], rows: i64, dim: i64, options: &TableOptions) -> Result<Self> {
        let bytes = unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), std::mem::size_of_val(numbers)) };
        Self::view(ctx, bytes, rows, dim, &TableOptions { dtype: sys::EMBED_F32, ..*options })
    }

    /// The same rows in another dtype, group or stride.
    pub fn convert(&self, ctx: &mut Context, options: &TableOptions) -> Result<Table<'static>> {
        let options = sized(options, |o, size| o.size = size);
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_table_convert(ctx.raw(), self.raw(), &options, &mut raw) };
        Table::made(ctx, status, raw)
    }

    /// Fills rows with zeros, a constant or random values.
    pub fn init(&mut self, ctx: &mut Context, options: &InitOptions) -> Result<()> {
        let options = sized(options, |o, size| o.size = size);
        let status = unsafe { sys::embed_table_init(ctx.raw(), self.raw(), &options) };
        ctx.check(status)
    }

    /// Stores rows [n, dim].
    pub fn set_rows<E: Element>(&mut self, ctx: &mut Context, ids: &[i64], rows: &[E], options: &RowsOptions) -> Result<()> {
        expect_len("rows", rows.len(), elements_of(self, ids.len())?)?;
        let options = sized(options, |o, size| o.size = size);
        let status = unsafe {
            sys::embed_table_set_rows(ctx.raw(), self.raw(), ids.as_ptr(), ids.len() as i64, rows.as_ptr().cast(), E::DTYPE, 0, &options)
        };
        ctx.check(status)
    }

    /// Stored rows, padding rows too, as numbers [n, dim].
    pub fn get_rows<E: Element>(&self, ctx: &mut Context, ids: &[i64], out: &mut [E]) -> Result<()> {
        expect_len("out", out.len(), elements_of(self, ids.len())?)?;
        let status = unsafe {
            sys::embed_table_get_rows(ctx.raw(), self.raw(), ids.as_ptr(), ids.len() as i64, out.as_mut_ptr().cast(), E::DTYPE, 0)
        };
        ctx.check(status)
    }

    /// Stored rows, padding included.
    pub fn rows(&self) -> i64 {
        unsafe { sys::embed_table_rows(self.raw()) }
    }
    /// Valid ids.
    pub fn vocab(&self) -> i64 {
        unsafe { sys::embed_table_vocab(self.raw()) }
    }
    /// Columns.
    pub fn dim(&self) -> i64 {
        unsafe { sys::embed_table_dim(self.raw()) }
    }
    /// Bytes from row to row.
    pub fn row_bytes(&self) -> i64 {
        unsafe { sys::embed_table_row_bytes(self.raw()) }
    }
    /// How a row is stored.
    pub fn dtype(&self) -> Dtype {
        unsafe { sys::embed_table_dtype(self.raw()) }
    }

    /// All numbers in place, where the table is dense floats.
    pub fn as_f32(&self) -> Option<&[f32]> {
        let data: *const f32 = unsafe { sys::embed_table_data(self.raw()) }.cast();
        let dense = self.dtype() == sys::EMBED_F32 && self.row_bytes() == 4 * self.dim();
        if !dense || data.is_null() || data as usize % std::mem::align_of::<f32>() != 0 {
            return None;
        }
        Some(unsafe { std::slice::from_raw_parts(data, (self.rows() * self.dim()) as usize) })
    }
}

/// The table of a head, to be written: nobody reads it meanwhile, and it stays the head's.
pub struct TableMut<'h, 'a>(pub(crate) &'h mut Table<'a>);

impl<'a> Deref for TableMut<'_, 'a> {
    type Target = Table<'a>;
    fn deref(&self) -> &Table<'a> {
        self.0
    }
}

impl TableMut<'_, '_> {
    /// [`Table::init`].
    pub fn init(&mut self, ctx: &mut Context, options: &InitOptions) -> Result<()> {
        self.0.init(ctx, options)
    }
    /// [`Table::set_rows`].
    pub fn set_rows<E: Element>(&mut self, ctx: &mut Context, ids: &[i64], rows: &[E], options: &RowsOptions) -> Result<()> {
        self.0.set_rows(ctx, ids, rows, options)
    }
}
