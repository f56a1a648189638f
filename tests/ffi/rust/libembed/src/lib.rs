// SPDX-License-Identifier: BSD-3-Clause
//! The vocabulary side of a language model, both ends: token ids become vectors, hidden vectors become tokens.
//!
//! A [`Context`] belongs to one thread at a time; tables, heads and files are shared by any number of them. A tied head holds
//! its table, so that the compiler keeps training steps and sweeps apart. Everything that can go wrong is an [`Error`]:
//! nothing here panics, whatever the ids, lengths and files are.
//!
//! ```
//! # fn main() -> libembed::Result<()> {
//! let mut ctx = libembed::Context::new()?;
//! let table = libembed::Table::from_vec(&mut ctx, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3)?;
//! assert_eq!(table.lookup(&mut ctx, &[1, 0])?, [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
//! let head = libembed::Head::new(&mut ctx, table, None, &Default::default())?; // tied: it holds the table
//! assert_eq!(head.logits(&mut ctx, &[1.0, 0.0, 0.0], &Default::default())?, [1.0, 4.0]);
//! let error = head.table().lookup(&mut ctx, &[0, 7]).unwrap_err();
//! assert_eq!((error.status, error.at), (libembed::Status::ID, Some(1)));
//! # Ok(())
//! # }
//! ```
//!
//! A context is one thread's:
//! ```compile_fail,E0277
//! fn shared<T: Sync>(_: &T) {}
//! shared(&libembed::Context::new().unwrap());
//! ```
//! A table over memory does not outlive it:
//! ```compile_fail,E0597
//! let mut ctx = libembed::Context::new().unwrap();
//! let table = {
//!     let numbers = [1.0f32, 2.0];
//!     libembed::Table::view_f32(&mut ctx, &numbers, 2, 1, &Default::default()).unwrap()
//! };
//! let _ = table.lookup(&mut ctx, &[0]);
//! ```
//! No training step while somebody still reads the tied table:
//! ```compile_fail,E0502
//! let mut ctx = libembed::Context::new().unwrap();
//! let table = libembed::Table::create(&mut ctx, 2, 1, &Default::default()).unwrap();
//! let mut head = libembed::Head::new(&mut ctx, table, None, &Default::default()).unwrap();
//! let read = head.table();
//! let written = head.table_mut();
//! read.rows();
//! ```
//! A head over a borrowed table keeps it from being written:
//! ```compile_fail,E0502
//! let mut ctx = libembed::Context::new().unwrap();
//! let mut table = libembed::Table::create(&mut ctx, 2, 1, &Default::default()).unwrap();
//! let head = libembed::Head::new(&mut ctx, &table, None, &Default::default()).unwrap();
//! table.init(&mut ctx, &Default::default()).unwrap();
//! drop(head);
//! ```
#![warn(missing_docs)]
mod context;
mod error;
mod file;
mod geometry;
mod head;
mod lookup;
mod sweep;
mod table;
mod train;
mod writer;

pub use context::{Context, ContextOptions, Pool};
pub use error::{Error, Result, Status};
pub use file::{File, FileOptions, Tensor};
pub use geometry::Neighbors;
pub use head::{Head, Source, Stored, TopK};
pub use lookup::{norm_rows, positions, BFloat16, Element, Float16};
pub use sweep::{Answers, Request, Rules};
pub use table::{Dtype, Table, TableMut};
pub use train::{Grad, Optimizer, TrainStep, Trained};
pub use writer::Writer;

/// Options, all default by `Default::default()`; their fields are described in C's headers. `size` is set by the calls.
pub use libembed_sys::{
    embed_bag_options as BagOptions, embed_head_options as HeadOptions, embed_init_options as InitOptions,
    embed_lookup_options as LookupOptions, embed_loss_options as LossOptions, embed_nearest_options as NearestOptions,
    embed_norm_options as NormOptions, embed_optimizer_options as OptimizerOptions, embed_position_options as PositionOptions,
    embed_rows_options as RowsOptions, embed_sample_params as SampleParams, embed_step_options as StepOptions,
    embed_sweep_options as SweepOptions, embed_table_options as TableOptions,
};
/// The constants that options take.
pub mod constants {
    pub use libembed_sys::{
        EMBED_ASK_ENTROPY, EMBED_ASK_LOGITS, EMBED_ASK_LOGSUMEXP, EMBED_ASK_TARGET_LOGPROB, EMBED_ASK_TARGET_RANK, EMBED_ASK_TOKEN,
        EMBED_ASK_TOKEN_LOGPROB, EMBED_ASK_TOPK_COUNT, EMBED_ASK_TOPK_IDS, EMBED_ASK_TOPK_LOGITS,
        EMBED_BAG_MAX, EMBED_BAG_MEAN, EMBED_BAG_MIN, EMBED_BAG_SQRT_N, EMBED_BAG_SUM, EMBED_BAG_WEIGHTED_MEAN, EMBED_HEAD_BLAS,
        EMBED_HEAD_PREPARE, EMBED_HEAD_RAW,
        EMBED_HEAD_REQUIRE_TIED, EMBED_HEAD_REQUIRE_UNTIED, EMBED_HEAD_SKETCH, EMBED_INIT_CONSTANT, EMBED_INIT_NORMAL, EMBED_INIT_PADDING,
        EMBED_INIT_TRUNCATED_NORMAL, EMBED_INIT_UNIFORM, EMBED_INIT_XAVIER_NORMAL, EMBED_INIT_XAVIER_UNIFORM, EMBED_INIT_ZERO,
        EMBED_LOOKUP_ADD, EMBED_LOOKUP_PADDING, EMBED_LOSS_IGNORE_INDEX, EMBED_LOSS_SMOOTH_OTHERS, EMBED_METRIC_COSINE, EMBED_METRIC_DOT, EMBED_METRIC_L2, EMBED_NAN_ERROR,
        EMBED_NAN_IGNORE, EMBED_NAN_MAX, EMBED_NORM_LAYER, EMBED_NORM_PLUS_ONE, EMBED_OOV_CLAMP, EMBED_OOV_ERROR,
        EMBED_OOV_HASH, EMBED_OOV_UNK, EMBED_OOV_ZERO, EMBED_OPTIM_ADAGRAD, EMBED_OPTIM_ADAGRAD_ROW, EMBED_OPTIM_ADAMW,
        EMBED_OPTIM_ADAMW_DEFERRED, EMBED_OPTIM_ADAM_SPARSE, EMBED_OPTIM_SGD, EMBED_ORDER_HF, EMBED_ORDER_LLAMACPP, EMBED_POSITION_HALVES, EMBED_REDUCE_MEAN, EMBED_REDUCE_ROWS, EMBED_REDUCE_SUM,
        EMBED_ROLE_HEAD, EMBED_ROLE_TOKEN, EMBED_ROWS_STOCHASTIC, EMBED_STEP_CHECK_FINITE, EMBED_STEP_LR, EMBED_SWEEP_PROCESSED, EMBED_TABLE_HUGE_PAGES, EMBED_TABLE_READ_ONLY,
    };
}

/// The loaded library's version: major, minor, patch.
pub fn version() -> (u32, u32, u32) {
    let v = unsafe { libembed_sys::embed_version() };
    (v >> 16, v >> 8 & 255, v & 255)
}
