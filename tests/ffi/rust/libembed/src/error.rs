// SPDX-License-Identifier: BSD-3-Clause
use libembed_sys as sys;
use std::ffi::CStr;
use std::fmt;

/// What kind of failure it was. Newer libraries may have kinds that this crate has no name for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

#[allow(missing_docs)]
impl Status {
    pub const ARGUMENT: Status = Status(sys::EMBED_E_ARGUMENT);
    pub const MEMORY: Status = Status(sys::EMBED_E_MEMORY);
    pub const ID: Status = Status(sys::EMBED_E_ID);
    pub const OPTION: Status = Status(sys::EMBED_E_OPTION);
    pub const UNSUPPORTED: Status = Status(sys::EMBED_E_UNSUPPORTED);
    pub const FORMAT: Status = Status(sys::EMBED_E_FORMAT);
    pub const IO: Status = Status(sys::EMBED_E_IO);
    pub const NOT_FOUND: Status = Status(sys::EMBED_E_NOT_FOUND);
    pub const READ_ONLY: Status = Status(sys::EMBED_E_READ_ONLY);
    pub const OVERFLOW: Status = Status(sys::EMBED_E_OVERFLOW);
    pub const CANCELLED: Status = Status(sys::EMBED_E_CANCELLED);
    pub const STALE: Status = Status(sys::EMBED_E_STALE);
    pub const MISMATCH: Status = Status(sys::EMBED_E_MISMATCH);
    pub const CALLBACK: Status = Status(sys::EMBED_E_CALLBACK);
    pub const NONFINITE: Status = Status(sys::EMBED_E_NONFINITE);
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&unsafe { CStr::from_ptr(sys::embed_status_name(self.0)) }.to_string_lossy())
    }
}

/// What went wrong, where, and the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind.
    pub status: Status,
    /// Which id, row or byte it was about, where it was about one.
    pub at: Option<i64>,
    /// In a colleague's words.
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.status, self.text)
    }
}

impl std::error::Error for Error {}

/// A value or an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An argument that this crate refuses before C sees it.
pub(crate) fn refuse<T>(text: String) -> Result<T> {
    Err(Error { status: Status::ARGUMENT, at: None, text })
}

/// The length that a slice must have: a product that may not fit.
pub(crate) fn product(what: &str, a: usize, b: usize) -> Result<usize> {
    a.checked_mul(b).ok_or_else(|| Error { status: Status::OVERFLOW, at: None, text: format!("{what}: {a} * {b} does not fit") })
}

pub(crate) fn expect_len(what: &str, got: usize, want: usize) -> Result<()> {
    if got == want {
        return Ok(());
    }
    refuse(format!("{what} has {got} elements, {want} are needed"))
}
