// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{refuse, Result};
use crate::file::{c_path, c_string};
use crate::table::sized;
use crate::{Context, File, Table, TableOptions};
use libembed_sys as sys;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::{self, NonNull};

/// A file to be: nothing has its name before [`Writer::commit`], which reads the tables. They must live, unchanged, so long.
pub struct Writer<'t> {
    raw: NonNull<sys::embed_writer>,
    _tables: PhantomData<&'t Table<'t>>,
}
unsafe impl Send for Writer<'_> {}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        unsafe { sys::embed_writer_release(self.raw.as_ptr()) }
    }
}

impl<'t> Writer<'t> {
    /// The format is what the path ends in.
    pub fn create(ctx: &mut Context, path: impl AsRef<Path>) -> Result<Self> {
        let path = c_path(path.as_ref())?;
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_writer_create(ctx.raw(), path.as_ptr(), ptr::null(), &mut raw) };
        ctx.check(status)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Writer { raw, _tables: PhantomData }),
            None => refuse("the library gave no writer".to_string()),
        }
    }

    /// One more table, as it is stored or as the options say.
    pub fn table(&mut self, ctx: &mut Context, name: &str, table: &'t Table<'_>, stored_as: Option<&TableOptions>) -> Result<()> {
        let name = c_string("the name", name.as_bytes())?;
        let stored_as = stored_as.map(|o| sized(o, |o, size| o.size = size));
        let options = stored_as.as_ref().map_or(ptr::null(), |o| o as *const TableOptions);
        let status = unsafe { sys::embed_writer_table(ctx.raw(), self.raw.as_ptr(), name.as_ptr(), table.raw(), options) };
        ctx.check(status)
    }

    /// Another name of a table: a tie.
    pub fn alias(&mut self, ctx: &mut Context, name: &str, of: &str) -> Result<()> {
        let (name, of) = (c_string("the name", name.as_bytes())?, c_string("the name", of.as_bytes())?);
        let status = unsafe { sys::embed_writer_alias(ctx.raw(), self.raw.as_ptr(), name.as_ptr(), of.as_ptr()) };
        ctx.check(status)
    }

    /// All tokens of a file.
    pub fn tokens(&mut self, ctx: &mut Context, from: &File) -> Result<()> {
        let status = unsafe { sys::embed_writer_tokens(ctx.raw(), self.raw.as_ptr(), from.raw()) };
        ctx.check(status)
    }

    /// The token of one id.
    pub fn token(&mut self, ctx: &mut Context, id: i64, token: &[u8]) -> Result<()> {
        let status = unsafe { sys::embed_writer_token(ctx.raw(), self.raw.as_ptr(), id, token.as_ptr().cast(), token.len() as i64) };
        ctx.check(status)
    }

    /// A key-value pair.
    pub fn metadata(&mut self, ctx: &mut Context, key: &str, value: &[u8]) -> Result<()> {
        let key = c_string("the key", key.as_bytes())?;
        let status = unsafe {
            sys::embed_writer_metadata(ctx.raw(), self.raw.as_ptr(), key.as_ptr(), value.as_ptr().cast(), value.len() as i64)
        };
        ctx.check(status)
    }

    /// Writes everything, then gives it its name.
    pub fn commit(mut self, ctx: &mut Context) -> Result<()> {
        let status = unsafe { sys::embed_writer_commit(ctx.raw(), self.raw.as_mut()) };
        ctx.check(status)
    }
}
