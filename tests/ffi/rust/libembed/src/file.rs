// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{refuse, Result};
use crate::head::Stored;
use crate::table::sized;
use crate::{Context, Dtype, Head, HeadOptions, Table};
use libembed_sys as sys;
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::path::Path;
use std::ptr::{self, NonNull};

/// A path or name as C takes it.
pub(crate) fn c_string(what: &str, bytes: &[u8]) -> Result<CString> {
    match CString::new(bytes) {
        Ok(text) => Ok(text),
        Err(_) => refuse(format!("{what} holds a NUL")),
    }
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    c_string("the path", path.as_os_str().as_bytes())
}

unsafe fn text<'a>(pointer: *const c_char) -> &'a [u8] {
    if pointer.is_null() {
        return b"";
    }
    CStr::from_ptr(pointer).to_bytes()
}

/// How a file is opened; all default by `Default::default()`.
#[derive(Clone, Default)]
pub struct FileOptions {
    /// A format's name; None: by content.
    pub format: Option<String>,
    /// Rows expected; 0 = any.
    pub vocab: i64,
    /// Columns of headerless text; 0 = detect.
    pub dim: i64,
    /// Read instead of map.
    pub copy: bool,
}

/// One tensor of a file.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The file's name of it.
    pub name: String,
    /// The file's name of its type.
    pub stored: String,
    /// Outermost first.
    pub shape: Vec<i64>,
    /// `EMBED_DTYPE_NONE` where no table has it.
    pub dtype: Dtype,
    /// What it is for.
    pub role: sys::embed_role,
}

/// An opened file, proved whole; shared by any number of threads.
pub struct File(NonNull<sys::embed_file>);
unsafe impl Send for File {}
unsafe impl Sync for File {}

impl Drop for File {
    fn drop(&mut self) {
        unsafe { sys::embed_file_release(self.0.as_ptr()) }
    }
}

impl Clone for File {
    fn clone(&self) -> File {
        unsafe { sys::embed_file_retain(self.0.as_ptr()) };
        File(self.0)
    }
}

impl File {
    /// Opens by content. A mapped file must not be cut short while it is open: replace model files by rename.
    pub fn open(ctx: &mut Context, path: impl AsRef<Path>, options: &FileOptions) -> Result<File> {
        let path = c_path(path.as_ref())?;
        let format = match &options.format {
            Some(name) => Some(c_string("the format", name.as_bytes())?),
            None => None,
        };
        let raw_options = sys::embed_file_options {
            flags: if options.copy { sys::EMBED_FILE_COPY as u32 } else { 0 },
            dim: options.dim,
            vocab: options.vocab,
            format: format.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
            ..Default::default()
        };
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_file_open(ctx.raw(), path.as_ptr(), &raw_options, &mut raw) };
        ctx.check(status)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(File(raw)),
            None => refuse("the library gave no file".to_string()),
        }
    }

    pub(crate) fn raw(&self) -> *const sys::embed_file {
        self.0.as_ptr()
    }

    /// The format's name.
    pub fn format(&self) -> &str {
        std::str::from_utf8(unsafe { text(sys::embed_file_format(self.raw())) }).unwrap_or("")
    }
    /// What is odd about it, and how roles were decided.
    pub fn notes(&self) -> String {
        String::from_utf8_lossy(unsafe { text(sys::embed_file_notes(self.raw())) }).into_owned()
    }
    /// Number of tensors.
    pub fn count(&self) -> i64 {
        unsafe { sys::embed_file_count(self.raw()) }
    }

    /// Tensor i.
    pub fn tensor(&self, ctx: &mut Context, i: i64) -> Result<Tensor> {
        let mut info = sys::embed_tensor_info::default();
        let status = unsafe { sys::embed_file_tensor(ctx.raw(), self.raw(), i, &mut info) };
        ctx.check(status)?;
        let string = |pointer| String::from_utf8_lossy(unsafe { text(pointer) }).into_owned();
        let rank = (info.rank.max(0) as usize).min(info.shape.len());
        Ok(Tensor { name: string(info.name), stored: string(info.stored), shape: info.shape[..rank].to_vec(), dtype: info.dtype, role: info.role })
    }

    /// The tensor of this name.
    pub fn find(&self, ctx: &mut Context, name: &str) -> Result<i64> {
        let name = c_string("the name", name.as_bytes())?;
        let mut i = -1;
        let status = unsafe { sys::embed_file_find(ctx.raw(), self.raw(), name.as_ptr(), &mut i) };
        ctx.check(status)?;
        Ok(i)
    }

    /// The tensor that has this role, if one has.
    pub fn role(&self, ctx: &mut Context, role: sys::embed_role) -> Result<Option<i64>> {
        let mut i = -1;
        let status = unsafe { sys::embed_file_role(ctx.raw(), self.raw(), role, &mut i) };
        ctx.check(status)?;
        Ok(if i < 0 { None } else { Some(i) })
    }

    /// A tensor as a table, read-only; None: the token table.
    pub fn table(&self, ctx: &mut Context, i: Option<i64>) -> Result<Table<'static>> {
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_file_table(ctx.raw(), self.raw(), i.unwrap_or(-1), &mut raw) };
        Table::made(ctx, status, raw)
    }

    /// The output side, with the file's scale and soft-cap where the options have none.
    pub fn head(&self, ctx: &mut Context, options: &HeadOptions) -> Result<Head<Stored>> {
        let options = sized(options, |o, size| o.size = size);
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_file_head(ctx.raw(), self.raw(), ptr::null(), &options, &mut raw) };
        Head::made(ctx, status, raw, Stored)
    }

    /// What the file's family does between ids and rows, hidden states and logits.
    pub fn conventions(&self, ctx: &mut Context) -> Result<sys::embed_conventions> {
        let mut out = sys::embed_conventions::default();
        let status = unsafe { sys::embed_file_conventions(ctx.raw(), self.raw(), &mut out) };
        ctx.check(status)?;
        Ok(out)
    }

    /// The token of a row: bytes, not always UTF-8.
    pub fn token(&self, id: i64) -> Option<&[u8]> {
        let mut bytes = 0;
        let pointer = unsafe { sys::embed_file_token(self.raw(), id, &mut bytes) };
        if pointer.is_null() {
            return None;
        }
        Some(unsafe { std::slice::from_raw_parts(pointer.cast(), bytes as usize) })
    }

    /// The row of a token.
    pub fn token_id(&self, ctx: &mut Context, token: &[u8]) -> Result<i64> {
        let mut id = -1;
        let status = unsafe { sys::embed_file_token_id(ctx.raw(), self.raw(), token.as_ptr().cast(), token.len() as i64, &mut id) };
        ctx.check(status)?;
        Ok(id)
    }

    /// The file's own key-value pairs.
    pub fn metadata(&self, ctx: &mut Context) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        let (mut key, mut value, mut bytes) = (ptr::null(), ptr::null(), 0);
        while unsafe { sys::embed_file_metadata(ctx.raw(), self.raw(), all.len() as i64, &mut key, &mut value, &mut bytes) } == sys::EMBED_OK as i32 {
            let value = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), bytes as usize) };
            all.push((String::from_utf8_lossy(unsafe { text(key) }).into_owned(), value.to_vec()));
        }
        all
    }
}
