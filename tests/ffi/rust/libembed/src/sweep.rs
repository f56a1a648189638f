// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{expect_len, product, refuse, Result};
use crate::lookup::Element;
use crate::table::sized;
use crate::{Context, Head, SampleParams, Source, SweepOptions};
use libembed_sys as sys;
use std::ptr::{self, NonNull};

/// Bans, biases and history of one sequence. Sweeps share it, what changes it needs it alone.
pub struct Rules(NonNull<sys::embed_rules>);
unsafe impl Send for Rules {}
unsafe impl Sync for Rules {}

impl Drop for Rules {
    fn drop(&mut self) {
        unsafe { sys::embed_rules_release(self.0.as_ptr()) }
    }
}

impl Rules {
    /// No rules yet, over a vocabulary.
    pub fn new(ctx: &mut Context, vocab: i64) -> Result<Rules> {
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_rules_create(ctx.raw(), vocab, &mut raw) };
        ctx.check(status)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Rules(raw)),
            None => refuse("the library gave no rules".to_string()),
        }
    }
    /// These ids are never drawn.
    pub fn ban(&mut self, ctx: &mut Context, ids: &[i32]) -> Result<()> {
        let status = unsafe { sys::embed_rules_ban(ctx.raw(), self.0.as_ptr(), ids.as_ptr(), ids.len() as i64) };
        ctx.check(status)
    }
    /// Only ids whose bit is set: bit i % 32 of word i / 32. None: all again.
    pub fn allow(&mut self, ctx: &mut Context, bits: Option<&[u32]>) -> Result<()> {
        let (pointer, words) = bits.map_or((ptr::null(), 0), |bits| (bits.as_ptr(), bits.len() as i64));
        let status = unsafe { sys::embed_rules_allow(ctx.raw(), self.0.as_ptr(), pointer, words) };
        ctx.check(status)
    }
    /// Numbers added to these ids' logits.
    pub fn bias(&mut self, ctx: &mut Context, ids: &[i32], bias: &[f32]) -> Result<()> {
        expect_len("bias", bias.len(), ids.len())?;
        let status = unsafe { sys::embed_rules_bias(ctx.raw(), self.0.as_ptr(), ids.as_ptr(), bias.as_ptr(), ids.len() as i64) };
        ctx.check(status)
    }
    /// Ids that the sequence now has: the history that penalties look at.
    pub fn push(&mut self, ctx: &mut Context, ids: &[i32]) -> Result<()> {
        let status = unsafe { sys::embed_rules_push(ctx.raw(), self.0.as_ptr(), ids.as_ptr(), ids.len() as i64) };
        ctx.check(status)
    }
    /// Takes the last n back.
    pub fn pop(&mut self, ctx: &mut Context, n: i64) -> Result<()> {
        let status = unsafe { sys::embed_rules_pop(ctx.raw(), self.0.as_ptr(), n) };
        ctx.check(status)
    }
    /// As new.
    pub fn clear(&mut self) {
        unsafe { sys::embed_rules_clear(self.0.as_ptr()) }
    }
}

/// What one sweep found; to be used again and again.
pub struct Answers(NonNull<sys::embed_result>);
unsafe impl Send for Answers {}
unsafe impl Sync for Answers {}

impl Drop for Answers {
    fn drop(&mut self) {
        unsafe { sys::embed_result_release(self.0.as_ptr()) }
    }
}

impl Answers {
    /// Nothing yet.
    pub fn new(ctx: &mut Context) -> Result<Answers> {
        let mut raw = ptr::null_mut();
        let status = unsafe { sys::embed_result_create(ctx.raw(), &mut raw) };
        ctx.check(status)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Answers(raw)),
            None => refuse("the library gave no result".to_string()),
        }
    }
    /// An answer of floats, [n, columns]; None where it was not asked for.
    pub fn floats(&self, ask: u32) -> Option<&[f32]> {
        let (mut rows, mut columns) = (0, 0);
        let pointer = unsafe { sys::embed_result_f32(self.0.as_ptr(), ask, &mut rows, &mut columns) };
        unsafe { slice(pointer, rows, columns) }
    }
    /// An answer of integers, [n, columns]; None where it was not asked for.
    pub fn integers(&self, ask: u32) -> Option<&[i32]> {
        let (mut rows, mut columns) = (0, 0);
        let pointer = unsafe { sys::embed_result_i32(self.0.as_ptr(), ask, &mut rows, &mut columns) };
        unsafe { slice(pointer, rows, columns) }
    }
}

unsafe fn slice<'a, T>(pointer: *const T, rows: i64, columns: i64) -> Option<&'a [T]> {
    if pointer.is_null() {
        return None;
    }
    Some(std::slice::from_raw_parts(pointer, (rows * columns) as usize))
}

/// Which rows are answered for, and what the answers need; empty slices where they need none.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// Rows of hidden, repeats allowed; None: all.
    pub rows: Option<&'a [i64]>,
    /// One id per row, for the target asks.
    pub targets: &'a [i32],
    /// One per row.
    pub rules: &'a [Option<&'a Rules>],
    /// None (greedy), one for all or one per row.
    pub params: &'a [SampleParams],
}

struct Raw {
    rules: Vec<*const sys::embed_rules>,
    params: Vec<SampleParams>,
}

fn or_null<T>(slice: &[T]) -> *const T {
    if slice.is_empty() {
        ptr::null()
    } else {
        slice.as_ptr()
    }
}

fn raw(n: usize, rules: &[Option<&Rules>], params: &[SampleParams]) -> Result<Raw> {
    if !rules.is_empty() {
        expect_len("rules", rules.len(), n)?;
    }
    if params.len() > 1 {
        expect_len("params", params.len(), n)?;
    }
    Ok(Raw {
        rules: rules.iter().map(|rules| rules.map_or(ptr::null(), |rules| rules.0.as_ptr() as *const _)).collect(),
        params: params.iter().map(|params| sized(params, |p, size| p.size = size)).collect(),
    })
}

impl<T: Source> Head<T> {
    /// Several answers (`options.ask`) from one sweep of the table, for rows of hidden [n, dim].
    pub fn sweep<E: Element>(
        &self, ctx: &mut Context, hidden: &[E], request: &Request<'_>, options: &SweepOptions, answers: &mut Answers,
    ) -> Result<()> {
        let all = self.hidden_rows(hidden.len())?;
        let n = request.rows.map_or(all, <[i64]>::len);
        if let Some(row) = request.rows.and_then(|rows| rows.iter().find(|&&row| row < 0 || row as u64 >= all as u64)) {
            return refuse(format!("row {row} is none of the {all} hidden rows"));
        }
        if !request.targets.is_empty() {
            expect_len("targets", request.targets.len(), n)?;
        }
        product("n * k", n, options.k.max(0) as usize)?;
        let with = raw(n, request.rules, request.params)?;
        let options = sized(options, |o, size| o.size = size);
        let status = unsafe {
            sys::embed_sweep(
                ctx.raw(), self.raw(), hidden.as_ptr().cast(), E::DTYPE, 0, request.rows.map_or(ptr::null(), <[i64]>::as_ptr), n as i64,
                or_null(request.targets), or_null(&with.rules), or_null(&with.params), with.params.len() as i64, &options, answers.0.as_ptr(),
            )
        };
        ctx.check(status)
    }

    /// A token for each row of hidden [n, dim], and its log-probability.
    pub fn sample<E: Element>(
        &self, ctx: &mut Context, hidden: &[E], rules: &[Option<&Rules>], params: &[SampleParams], options: &SweepOptions,
    ) -> Result<(Vec<i32>, Vec<f32>)> {
        let n = self.hidden_rows(hidden.len())?;
        let with = raw(n, rules, params)?;
        let options = sized(options, |o, size| o.size = size);
        let (mut ids, mut logprobs) = (vec![-1; n], vec![0.0; n]);
        let status = unsafe {
            sys::embed_sample(
                ctx.raw(), self.raw(), hidden.as_ptr().cast(), E::DTYPE, n as i64, 0, or_null(&with.rules), or_null(&with.params),
                with.params.len() as i64, ids.as_mut_ptr(), logprobs.as_mut_ptr(), &options,
            )
        };
        ctx.check(status)?;
        Ok((ids, logprobs))
    }
}
