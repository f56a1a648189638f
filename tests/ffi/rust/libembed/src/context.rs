// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{Error, Result, Status};
use libembed_sys as sys;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// Worker threads that contexts may share.
pub struct Pool(NonNull<sys::embed_pool>);
unsafe impl Send for Pool {}
unsafe impl Sync for Pool {}

impl Pool {
    /// `threads` counts the calling thread; 0 = the CPUs that it may use.
    pub fn new(threads: i32) -> Result<Pool> {
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_pool_create(threads, &mut raw) };
        NonNull::new(raw)
            .map(Pool)
            .ok_or_else(|| Error { status: Status(status), at: None, text: format!("no pool of {threads} threads") })
    }
}

impl Clone for Pool {
    fn clone(&self) -> Pool {
        unsafe { sys::embed_pool_retain(self.0.as_ptr()) };
        Pool(self.0)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        unsafe { sys::embed_pool_release(self.0.as_ptr()) }
    }
}

/// What a context is made with; all default by `Default::default()`.
#[derive(Clone, Default)]
pub struct ContextOptions {
    /// None: the calling thread alone.
    pub pool: Option<Pool>,
    /// Caps the instruction set: "scalar", "avx2", ...
    pub isa: Option<String>,
    /// Bits that do not depend on the number of rows, threads or BLAS.
    pub reproducible: bool,
    /// Bytes kept between calls; 0 = no bound.
    pub max_scratch: i64,
}

/// Memory, threads, instruction set and the last error of one thread's calls. It may move to another thread, but calls take
/// it exclusively.
pub struct Context {
    raw: NonNull<sys::embed_context>,
    _one_thread_at_a_time: PhantomData<*mut ()>,
}
unsafe impl Send for Context {}

impl Context {
    /// The calling thread alone, the best instruction set.
    pub fn new() -> Result<Context> {
        Context::with(&ContextOptions::default())
    }

    /// With options. They are copied, the pool is shared.
    pub fn with(options: &ContextOptions) -> Result<Context> {
        let isa = match &options.isa {
            None => None,
            Some(name) => match CString::new(name.as_str()) {
                Ok(name) => Some(name),
                Err(_) => return crate::error::refuse("isa holds a NUL".to_string()),
            },
        };
        let mut why = [0u8; 512];
        let raw_options = sys::embed_context_options {
            flags: if options.reproducible { sys::EMBED_CONTEXT_REPRODUCIBLE as u32 } else { 0 },
            max_scratch: options.max_scratch,
            pool: options.pool.as_ref().map_or(ptr::null_mut(), |p| p.0.as_ptr()),
            isa: isa.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
            why: why.as_mut_ptr().cast(),
            why_bytes: why.len() as i64,
            ..Default::default()
        };
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_context_create(&raw_options, &mut raw) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Context { raw, _one_thread_at_a_time: PhantomData }),
            None => {
                let length = why.iter().position(|&b| b == 0).unwrap_or(0);
                Err(Error { status: Status(status), at: None, text: String::from_utf8_lossy(&why[..length]).into_owned() })
            }
        }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> &'static str {
        unsafe { CStr::from_ptr(sys::embed_context_isa(self.raw.as_ptr())) }.to_str().unwrap_or("")
    }

    /// Gives back what is kept between calls.
    pub fn trim(&mut self) {
        unsafe { sys::embed_context_trim(self.raw.as_ptr()) }
    }

    /// How many ids outside of the vocabulary the last lookup or bag replaced.
    pub fn replaced_ids(&self) -> i64 {
        unsafe { sys::embed_replaced_ids(self.raw.as_ptr()) }
    }

    pub(crate) fn raw(&mut self) -> *mut sys::embed_context {
        self.raw.as_ptr()
    }

    pub(crate) fn check(&mut self, status: sys::embed_status) -> Result<()> {
        if status == sys::EMBED_OK as i32 {
            return Ok(());
        }
        let at = unsafe { sys::embed_error_at(self.raw.as_ptr()) };
        let text = unsafe { CStr::from_ptr(sys::embed_error_text(self.raw.as_ptr())) }.to_string_lossy().into_owned();
        Err(Error { status: Status(status), at: if at < 0 { None } else { Some(at) }, text })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        unsafe { sys::embed_context_release(self.raw.as_ptr()) }
    }
}
