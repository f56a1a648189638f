// SPDX-License-Identifier: BSD-3-Clause
use crate::error::{expect_len, product, refuse, Result};
use crate::table::sized;
use crate::{Context, NearestOptions, Table};
use libembed_sys as sys;

/// The nearest k rows of each query, best first; a query with fewer ends in id -1.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbors {
    /// [n, k].
    pub ids: Vec<i32>,
    /// [n, k].
    pub scores: Vec<f32>,
    /// [n], how many there are.
    pub count: Vec<i32>,
}

impl Table<'_> {
    fn neighbors(&self, n: usize, k: i32) -> Result<Neighbors> {
        if k < 0 || i64::from(k) > self.vocab() {
            return refuse(format!("k is {k}, the vocabulary has {} rows", self.vocab()));
        }
        let count = product("n * k", n, k as usize)?;
        Ok(Neighbors { ids: vec![-1; count], scores: vec![0.0; count], count: vec![0; n] })
    }

    /// The L2 norm of every row.
    pub fn norms(&self, ctx: &mut Context) -> Result<Vec<f32>> {
        let mut norms = vec![0.0; self.vocab() as usize];
        let status = unsafe { sys::embed_norms(ctx.raw(), self.raw(), norms.as_mut_ptr()) };
        ctx.check(status)?;
        Ok(norms)
    }

    /// The k rows nearest to each query [n, dim]; exclude [n, excluded] are left out.
    pub fn nearest(&self, ctx: &mut Context, queries: &[f32], k: i32, exclude: &[i32], options: &NearestOptions) -> Result<Neighbors> {
        let dim = self.dim() as usize;
        if dim == 0 || queries.len() % dim != 0 {
            return refuse(format!("{} elements are no whole queries of {dim}", queries.len()));
        }
        let n = queries.len() / dim;
        let excluded = if n == 0 { 0 } else { exclude.len() / n };
        expect_len("exclude", exclude.len(), excluded * n)?;
        let mut out = self.neighbors(n, k)?;
        let options = sized(options, |o, size| o.size = size);
        let status = unsafe {
            sys::embed_nearest(
                ctx.raw(), self.raw(), queries.as_ptr(), n as i64, 0, k, exclude.as_ptr(), excluded as i64, out.ids.as_mut_ptr(),
                out.scores.as_mut_ptr(), out.count.as_mut_ptr(), &options,
            )
        };
        ctx.check(status)?;
        Ok(out)
    }

    /// a is to b as c is to which rows?
    pub fn analogy(&self, ctx: &mut Context, abc: &[[i32; 3]], k: i32, options: &NearestOptions) -> Result<Neighbors> {
        let mut out = self.neighbors(abc.len(), k)?;
        let options = sized(options, |o, size| o.size = size);
        let status = unsafe {
            sys::embed_analogy(
                ctx.raw(), self.raw(), abc.as_ptr().cast(), abc.len() as i64, k, out.ids.as_mut_ptr(), out.scores.as_mut_ptr(),
                out.count.as_mut_ptr(), &options,
            )
        };
        ctx.check(status)?;
        Ok(out)
    }
}
