// SPDX-License-Identifier: BSD-3-Clause
// Written by ../../bindings.awk from the public headers: names are C's. Edit neither by hand.
use std::marker::{PhantomData, PhantomPinned};
use std::os::raw::{c_char, c_void};
pub type embed_metric_kind = i32;
pub type embed_nan_policy = i32;
pub type embed_sample_order = i32;
pub type embed_role = i32;
pub type embed_oov_policy = i32;
pub type embed_bag_mode = i32;
pub type embed_reduction = i32;
pub type embed_divergence = i32;
pub type embed_candidates_kind = i32;
pub type embed_sampled_kind = i32;
pub type embed_optimizer_kind = i32;
pub type embed_lr_schedule = i32;
pub type embed_lr_rule = i32;
pub type embed_init_kind = i32;
pub type embed_status = i32;
pub type embed_dtype = i32;
#[repr(C)]
pub struct embed_context {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_pool {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_table {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_head {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_result {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_rules {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_candidates {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_huffman {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_grad {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_optimizer {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_file {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
#[repr(C)]
pub struct embed_writer {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}
pub type embed_task = unsafe extern "C" fn(job: *mut c_void, index: i64, worker: i32);
pub const EMBED_CONTEXT_REPRODUCIBLE: u32 = 1;
pub const EMBED_METRIC_NONE: i32 = -1;
pub const EMBED_METRIC_COSINE: i32 = 0;
pub const EMBED_METRIC_DOT: i32 = 1;
pub const EMBED_METRIC_L2: i32 = 2;
pub const EMBED_HEAD_BLAS: u32 = 2;
pub const EMBED_HEAD_REQUIRE_TIED: u32 = 4;
pub const EMBED_HEAD_REQUIRE_UNTIED: u32 = 8;
pub const EMBED_HEAD_PREPARE: u32 = 16;
pub const EMBED_HEAD_SKETCH: u32 = 32;
pub const EMBED_HEAD_RAW: u32 = 64;
pub const EMBED_NAN_NONE: i32 = -1;
pub const EMBED_NAN_MAX: i32 = 0;
pub const EMBED_NAN_ERROR: i32 = 1;
pub const EMBED_NAN_IGNORE: i32 = 2;
pub const EMBED_SWEEP_PROCESSED: u32 = 1;
pub const EMBED_ORDER_NONE: i32 = -1;
pub const EMBED_ORDER_HF: i32 = 0;
pub const EMBED_ORDER_LLAMACPP: i32 = 1;
pub const EMBED_ASK_LOGITS: u32 = 1;
pub const EMBED_ASK_LOGSUMEXP: u32 = 2;
pub const EMBED_ASK_ENTROPY: u32 = 4;
pub const EMBED_ASK_TOPK_IDS: u32 = 8;
pub const EMBED_ASK_TOPK_LOGITS: u32 = 16;
pub const EMBED_ASK_TOPK_COUNT: u32 = 32;
pub const EMBED_ASK_TARGET_LOGPROB: u32 = 64;
pub const EMBED_ASK_TARGET_RANK: u32 = 128;
pub const EMBED_ASK_TOKEN: u32 = 256;
pub const EMBED_ASK_TOKEN_LOGPROB: u32 = 512;
pub const EMBED_FILE_POPULATE: u32 = 1;
pub const EMBED_FILE_COPY: u32 = 2;
pub const EMBED_FILE_CHECK: u32 = 4;
pub const EMBED_ROLE_NONE: i32 = -1;
pub const EMBED_ROLE_TOKEN: i32 = 0;
pub const EMBED_ROLE_HEAD: i32 = 1;
pub const EMBED_ROLE_HEAD_BIAS: i32 = 2;
pub const EMBED_ROLE_POSITION: i32 = 3;
pub const EMBED_ROLE_TYPE: i32 = 4;
pub const EMBED_ROLE_NORM: i32 = 5;
pub const EMBED_ROLE_NORM_BIAS: i32 = 6;
pub const EMBED_ROLE_PER_LAYER: i32 = 7;
pub const EMBED_ROLE_NGRAM: i32 = 8;
pub const EMBED_OOV_NONE: i32 = -1;
pub const EMBED_OOV_ERROR: i32 = 0;
pub const EMBED_OOV_UNK: i32 = 1;
pub const EMBED_OOV_ZERO: i32 = 2;
pub const EMBED_OOV_CLAMP: i32 = 3;
pub const EMBED_OOV_HASH: i32 = 4;
pub const EMBED_LOOKUP_ADD: u32 = 1;
pub const EMBED_LOOKUP_PADDING: u32 = 2;
pub const EMBED_BAG_NONE: i32 = -1;
pub const EMBED_BAG_SUM: i32 = 0;
pub const EMBED_BAG_MEAN: i32 = 1;
pub const EMBED_BAG_WEIGHTED_MEAN: i32 = 2;
pub const EMBED_BAG_SQRT_N: i32 = 3;
pub const EMBED_BAG_MAX: i32 = 4;
pub const EMBED_BAG_MIN: i32 = 5;
pub const EMBED_POSITION_HALVES: u32 = 16;
pub const EMBED_NORM_LAYER: u32 = 1;
pub const EMBED_NORM_PLUS_ONE: u32 = 2;
pub const EMBED_REDUCTION_NONE: i32 = -1;
pub const EMBED_REDUCE_MEAN: i32 = 0;
pub const EMBED_REDUCE_SUM: i32 = 1;
pub const EMBED_REDUCE_ROWS: i32 = 2;
pub const EMBED_LOSS_IGNORE_INDEX: u32 = 1;
pub const EMBED_LOSS_SMOOTH_OTHERS: u32 = 2;
pub const EMBED_LOSS_KAHAN: u32 = 4;
pub const EMBED_LOSS_BF16: u32 = 8;
pub const EMBED_DIVERGENCE_NONE: i32 = -1;
pub const EMBED_DIVERGENCE_KL: i32 = 0;
pub const EMBED_DIVERGENCE_JENSEN_SHANNON: i32 = 1;
pub const EMBED_DISTILL_IGNORE_INDEX: u32 = 1;
pub const EMBED_DISTILL_SQUARED: u32 = 2;
pub const EMBED_DISTILL_BF16: u32 = 4;
pub const EMBED_CANDIDATES_NONE: i32 = -1;
pub const EMBED_CANDIDATES_LOG_UNIFORM: i32 = 0;
pub const EMBED_CANDIDATES_UNIFORM: i32 = 1;
pub const EMBED_CANDIDATES_COUNTS: i32 = 2;
pub const EMBED_CANDIDATES_REPEATS: u32 = 1;
pub const EMBED_SAMPLED_NONE: i32 = -1;
pub const EMBED_SAMPLED_SOFTMAX: i32 = 0;
pub const EMBED_SAMPLED_NCE: i32 = 1;
pub const EMBED_SAMPLED_NEGATIVE: i32 = 2;
pub const EMBED_SAMPLED_IGNORE_INDEX: u32 = 1;
pub const EMBED_SAMPLED_KEEP_HITS: u32 = 2;
pub const EMBED_SAMPLED_PER_ROW: u32 = 4;
pub const EMBED_HUFFMAN_IGNORE_INDEX: u32 = 1;
pub const EMBED_HUFFMAN_FASTTEXT: u32 = 2;
pub const EMBED_BACKWARD_BY_FREQUENCY: u32 = 32;
pub const EMBED_MERGE_SCALE_ZERO: u32 = 1;
pub const EMBED_OPTIM_NONE: i32 = -1;
pub const EMBED_OPTIM_SGD: i32 = 0;
pub const EMBED_OPTIM_ADAGRAD: i32 = 1;
pub const EMBED_OPTIM_ADAGRAD_ROW: i32 = 2;
pub const EMBED_OPTIM_ADAM_SPARSE: i32 = 3;
pub const EMBED_OPTIM_ADAMW: i32 = 4;
pub const EMBED_OPTIM_ADAMW_DEFERRED: i32 = 5;
pub const EMBED_OPTIM_ADAM_LAZY: i32 = 6;
pub const EMBED_OPTIM_ADAM_ROW: i32 = 7;
pub const EMBED_OPTIM_RMSPROP: i32 = 8;
pub const EMBED_OPTIM_LION: i32 = 9;
pub const EMBED_OPTIM_LAMB: i32 = 10;
pub const EMBED_OPTIM_FTRL: i32 = 11;
pub const EMBED_OPTIM_ADAFACTOR: i32 = 12;
pub const EMBED_OPTIM_BETA1_ZERO: u32 = 1;
pub const EMBED_OPTIM_BETA2_ZERO: u32 = 2;
pub const EMBED_OPTIM_EPSILON_ZERO: u32 = 4;
pub const EMBED_OPTIM_REPLAY: u32 = 8;
pub const EMBED_OPTIM_LAZY: u32 = 16;
pub const EMBED_OPTIM_NESTEROV: u32 = 32;
pub const EMBED_OPTIM_NEAREST: u32 = 64;
pub const EMBED_STEP_LR: u32 = 1;
pub const EMBED_STEP_CHECK_FINITE: u32 = 2;
pub const EMBED_LR_CONSTANT: u32 = 0;
pub const EMBED_LR_LINEAR: u32 = 1;
pub const EMBED_LR_COSINE: u32 = 2;
pub const EMBED_LR_INVERSE_SQRT: u32 = 3;
pub const EMBED_LR_ONE: u32 = 0;
pub const EMBED_LR_SQRT_WIDTH: u32 = 1;
pub const EMBED_LR_WIDTH: u32 = 2;
pub const EMBED_TABLE_HUGE_PAGES: u32 = 1;
pub const EMBED_TABLE_READ_ONLY: u32 = 2;
pub const EMBED_INIT_NONE: i32 = -1;
pub const EMBED_INIT_ZERO: i32 = 0;
pub const EMBED_INIT_NORMAL: i32 = 1;
pub const EMBED_INIT_UNIFORM: i32 = 2;
pub const EMBED_INIT_XAVIER_NORMAL: i32 = 3;
pub const EMBED_INIT_XAVIER_UNIFORM: i32 = 4;
pub const EMBED_INIT_TRUNCATED_NORMAL: i32 = 5;
pub const EMBED_INIT_CONSTANT: i32 = 6;
pub const EMBED_INIT_PADDING: u32 = 1;
pub const EMBED_ROWS_STOCHASTIC: u32 = 1;
pub const EMBED_OK: i32 = 0;
pub const EMBED_E_ARGUMENT: i32 = -1;
pub const EMBED_E_MEMORY: i32 = -2;
pub const EMBED_E_ID: i32 = -3;
pub const EMBED_E_OPTION: i32 = -4;
pub const EMBED_E_UNSUPPORTED: i32 = -5;
pub const EMBED_E_FORMAT: i32 = -6;
pub const EMBED_E_IO: i32 = -7;
pub const EMBED_E_NOT_FOUND: i32 = -8;
pub const EMBED_E_READ_ONLY: i32 = -9;
pub const EMBED_E_OVERFLOW: i32 = -10;
pub const EMBED_E_CANCELLED: i32 = -11;
pub const EMBED_E_STALE: i32 = -12;
pub const EMBED_E_MISMATCH: i32 = -13;
pub const EMBED_E_CALLBACK: i32 = -14;
pub const EMBED_E_NONFINITE: i32 = -15;
pub const EMBED_DTYPE_NONE: i32 = -1;
pub const EMBED_F32: i32 = 0;
pub const EMBED_F16: i32 = 1;
pub const EMBED_BF16: i32 = 2;
pub const EMBED_F64: i32 = 3;
pub const EMBED_F8_E4M3: i32 = 4;
pub const EMBED_F8_E5M2: i32 = 5;
pub const EMBED_I8_ROW: i32 = 16;
pub const EMBED_I4_GROUP: i32 = 17;
pub const EMBED_U8_ROW: i32 = 18;
pub const EMBED_U4_ROW: i32 = 19;
pub const EMBED_U2_ROW: i32 = 20;
pub const EMBED_PQ: i32 = 32;
pub const EMBED_Q4_0: i32 = 66;
pub const EMBED_Q4_1: i32 = 67;
pub const EMBED_Q5_0: i32 = 70;
pub const EMBED_Q5_1: i32 = 71;
pub const EMBED_Q8_0: i32 = 72;
pub const EMBED_Q2_K: i32 = 74;
pub const EMBED_Q3_K: i32 = 75;
pub const EMBED_Q4_K: i32 = 76;
pub const EMBED_Q5_K: i32 = 77;
pub const EMBED_Q6_K: i32 = 78;
pub const EMBED_IQ4_NL: i32 = 84;
pub const EMBED_IQ4_XS: i32 = 87;
pub const EMBED_MXFP4: i32 = 103;
pub const EMBED_NVFP4: i32 = 104;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_executor {
    pub size: u32,
    pub flags: u32,
    pub arg: *mut c_void,
    pub run: Option<unsafe extern "C" fn(arg: *mut c_void, n: i64, task: Option<embed_task>, job: *mut c_void) -> embed_status>,
    pub workers: i32,
    pub reserved: i32,
}
impl Default for embed_executor {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_allocator {
    pub size: u32,
    pub flags: u32,
    pub arg: *mut c_void,
    pub allocate: Option<unsafe extern "C" fn(arg: *mut c_void, bytes: usize, alignment: usize) -> *mut c_void>,
    pub release: Option<unsafe extern "C" fn(arg: *mut c_void, memory: *mut c_void, bytes: usize, alignment: usize)>,
}
impl Default for embed_allocator {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_context_options {
    pub size: u32,
    pub flags: u32,
    pub max_scratch: i64,
    pub why_bytes: i64,
    pub pool: *mut embed_pool,
    pub executor: *const embed_executor,
    pub allocator: *const embed_allocator,
    pub isa: *const c_char,
    pub cancel: *const i32,
    pub progress: Option<unsafe extern "C" fn(arg: *mut c_void, done: i64, total: i64) -> i32>,
    pub progress_arg: *mut c_void,
    pub why: *mut c_char,
}
impl Default for embed_context_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_nearest_options {
    pub size: u32,
    pub flags: u32,
    pub metric: embed_metric_kind,
    pub reserved: i32,
}
impl Default for embed_nearest_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_head_options {
    pub size: u32,
    pub flags: u32,
    pub logit_scale: f32,
    pub logit_softcap: f32,
}
impl Default for embed_head_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_head_info {
    pub size: u32,
    pub flags: u32,
    pub vocab: i64,
    pub dim: i64,
    pub table_bytes: i64,
    pub extra_bytes: i64,
    pub logit_scale: f32,
    pub logit_softcap: f32,
    pub ids_checksum: u64,
    pub sketch_searches: i64,
    pub sketch_rows_verified: i64,
    pub sketch_bytes_read: i64,
}
impl Default for embed_head_info {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_sweep_options {
    pub size: u32,
    pub flags: u32,
    pub ask: u32,
    pub k: i32,
    pub nan: embed_nan_policy,
    pub activation: embed_dtype,
}
impl Default for embed_sweep_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_sample_params {
    pub size: u32,
    pub flags: u32,
    pub seed: u64,
    pub position: i64,
    pub temperature: f64,
    pub top_p: f64,
    pub min_p: f64,
    pub typical_p: f64,
    pub top_n_sigma: f64,
    pub repetition: f64,
    pub frequency: f64,
    pub presence: f64,
    pub top_k: i32,
    pub last_n: i32,
    pub min_keep: i32,
    pub order: embed_sample_order,
}
impl Default for embed_sample_params {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_file_options {
    pub size: u32,
    pub flags: u32,
    pub max_header: i64,
    pub dim: i64,
    pub vocab: i64,
    pub format: *const c_char,
    pub reserved: *const c_void,
}
impl Default for embed_file_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_tensor_info {
    pub size: u32,
    pub flags: u32,
    pub name: *const c_char,
    pub stored: *const c_char,
    pub shape: [i64; 8],
    pub offset: i64,
    pub bytes: i64,
    pub rank: i32,
    pub dtype: embed_dtype,
    pub role: embed_role,
    pub shard: i32,
}
impl Default for embed_tensor_info {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_conventions {
    pub size: u32,
    pub flags: u32,
    pub lookup_scale: f32,
    pub scale_round: embed_dtype,
    pub logit_scale: f32,
    pub logit_softcap: f32,
    pub norm_epsilon: f32,
    pub norm_flags: i32,
}
impl Default for embed_conventions {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_writer_options {
    pub size: u32,
    pub flags: u32,
    pub max_memory: i64,
    pub format: *const c_char,
    pub reserved: *const c_void,
}
impl Default for embed_writer_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_lookup_options {
    pub size: u32,
    pub flags: u32,
    pub scale: f32,
    pub max_norm: f32,
    pub scale_round: embed_dtype,
    pub oov: embed_oov_policy,
    pub unk_id: i64,
    pub padding_id: i64,
}
impl Default for embed_lookup_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_bag_options {
    pub size: u32,
    pub flags: u32,
    pub mode: embed_bag_mode,
    pub oov: embed_oov_policy,
    pub unk_id: i64,
    pub padding_id: i64,
}
impl Default for embed_bag_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_mix_options {
    pub size: u32,
    pub flags: u32,
}
impl Default for embed_mix_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_position_options {
    pub size: u32,
    pub flags: u32,
    pub base: f32,
    pub scale: f32,
}
impl Default for embed_position_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_norm_options {
    pub size: u32,
    pub flags: u32,
    pub epsilon: f32,
    pub reserved: i32,
}
impl Default for embed_norm_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_loss_options {
    pub size: u32,
    pub flags: u32,
    pub label_smoothing: f64,
    pub z_loss: f64,
    pub reduction: embed_reduction,
    pub ignore_index: i32,
    pub class_weight: *const f32,
    pub reserved: *const c_void,
    pub gradient_filter: f64,
}
impl Default for embed_loss_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_distill_options {
    pub size: u32,
    pub flags: u32,
    pub temperature: f64,
    pub mix: f64,
    pub divergence: embed_divergence,
    pub reduction: embed_reduction,
    pub ignore_index: i32,
    pub reserved: i32,
}
impl Default for embed_distill_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_candidates_options {
    pub size: u32,
    pub flags: u32,
    pub power: f64,
    pub seed: u64,
    pub kind: embed_candidates_kind,
    pub reserved: i32,
}
impl Default for embed_candidates_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_sampled_options {
    pub size: u32,
    pub flags: u32,
    pub kind: embed_sampled_kind,
    pub reduction: embed_reduction,
    pub ignore_index: i32,
    pub reserved: i32,
}
impl Default for embed_sampled_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_huffman_options {
    pub size: u32,
    pub flags: u32,
    pub reduction: embed_reduction,
    pub ignore_index: i32,
}
impl Default for embed_huffman_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_huffman_predict_options {
    pub size: u32,
    pub flags: u32,
    pub threshold: f64,
}
impl Default for embed_huffman_predict_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_merge_options {
    pub size: u32,
    pub flags: u32,
    pub scale: f64,
}
impl Default for embed_merge_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_clip_options {
    pub size: u32,
    pub flags: u32,
    pub max_row_norm: f64,
    pub max_norm: f64,
}
impl Default for embed_clip_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_share {
    pub size: u32,
    pub flags: u32,
    pub input_norm: f64,
    pub output_norm: f64,
    pub norm_share: f64,
    pub energy_share: f64,
    pub cosine: f64,
    pub positions_norm: f64,
    pub positions_share: f64,
    pub input_rows: i64,
    pub output_rows: i64,
}
impl Default for embed_share {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_share_options {
    pub size: u32,
    pub flags: u32,
    pub rows: i64,
    pub bands: i64,
    pub counts: *const i64,
    pub edges: *const i64,
}
impl Default for embed_share_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_optimizer_options {
    pub size: u32,
    pub flags: u32,
    pub kind: embed_optimizer_kind,
    pub state: embed_dtype,
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    pub momentum: f64,
    pub weight_decay: f64,
    pub max_norm: f64,
    pub l1: f64,
    pub seed: u64,
}
impl Default for embed_optimizer_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_step_options {
    pub size: u32,
    pub flags: u32,
    pub lr: f64,
    pub grad_scale: f64,
    pub max_grad_norm: f64,
    pub row_rates: *const f32,
    pub reserved: *const c_void,
}
impl Default for embed_step_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_table_options {
    pub size: u32,
    pub flags: u32,
    pub row_bytes: i64,
    pub vocab: i64,
    pub data_bytes: i64,
    pub dtype: embed_dtype,
    pub group: i32,
}
impl Default for embed_table_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_pq {
    pub size: u32,
    pub flags: u32,
    pub width: i64,
    pub centroids: i64,
    pub values: *const f32,
    pub norms: *const f32,
    pub norm_codes: *const u8,
    pub norm_values: *const f32,
}
impl Default for embed_pq {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_init_options {
    pub size: u32,
    pub flags: u32,
    pub kind: embed_init_kind,
    pub scale: f32,
    pub low: f32,
    pub high: f32,
    pub first: i64,
    pub count: i64,
    pub padding_id: i64,
    pub seed: u64,
}
impl Default for embed_init_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct embed_rows_options {
    pub size: u32,
    pub flags: u32,
    pub seed: u64,
}
impl Default for embed_rows_options {
    /// All default, of this version's size.
    fn default() -> Self {
        let mut all_zero: Self = unsafe { std::mem::zeroed() };
        all_zero.size = std::mem::size_of::<Self>() as u32;
        all_zero
    }
}
extern "C" {
    pub fn embed_pool_create(threads: i32, out: *mut *mut embed_pool) -> embed_status;
    pub fn embed_pool_retain(pool: *mut embed_pool) -> *mut embed_pool;
    pub fn embed_pool_release(pool: *mut embed_pool);
    pub fn embed_context_create(opts: *const embed_context_options, out: *mut *mut embed_context) -> embed_status;
    pub fn embed_context_release(ctx: *mut embed_context);
    pub fn embed_context_trim(ctx: *mut embed_context);
    pub fn embed_context_isa(ctx: *const embed_context) -> *const c_char;
    pub fn embed_error_text(ctx: *const embed_context) -> *const c_char;
    pub fn embed_error_at(ctx: *const embed_context) -> i64;
    pub fn embed_norms(ctx: *mut embed_context, t: *const embed_table, norms: *mut f32) -> embed_status;
    pub fn embed_nearest(ctx: *mut embed_context, t: *const embed_table, queries: *const f32, n: i64, ld_queries: i64, k: i32, exclude: *const i32, excluded: i64, ids: *mut i32, scores: *mut f32, count: *mut i32, opts: *const embed_nearest_options) -> embed_status;
    pub fn embed_analogy(ctx: *mut embed_context, t: *const embed_table, abc: *const i32, n: i64, k: i32, ids: *mut i32, scores: *mut f32, count: *mut i32, opts: *const embed_nearest_options) -> embed_status;
    pub fn embed_head_create(ctx: *mut embed_context, t: *const embed_table, bias: *const f32, opts: *const embed_head_options, out: *mut *mut embed_head) -> embed_status;
    pub fn embed_head_create_subset(ctx: *mut embed_context, h: *const embed_head, ids: *const i32, n: i64, out: *mut *mut embed_head) -> embed_status;
    pub fn embed_head_refresh(ctx: *mut embed_context, h: *mut embed_head) -> embed_status;
    pub fn embed_head_retain(h: *const embed_head) -> *mut embed_head;
    pub fn embed_head_release(h: *const embed_head);
    pub fn embed_head_table(h: *const embed_head) -> *const embed_table;
    pub fn embed_head_is_tied(h: *const embed_head, t: *const embed_table) -> i32;
    pub fn embed_head_vocab(h: *const embed_head) -> i64;
    pub fn embed_head_dim(h: *const embed_head) -> i64;
    pub fn embed_head_describe(ctx: *mut embed_context, h: *const embed_head, out: *mut embed_head_info) -> embed_status;
    pub fn embed_logits(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, logits: *mut f32, ld_logits: i64, opts: *const embed_sweep_options) -> embed_status;
    pub fn embed_logits_at(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, ids: *const i32, m: i64, logits: *mut f32, ld_logits: i64, opts: *const embed_sweep_options) -> embed_status;
    pub fn embed_topk(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, k: i32, ids: *mut i32, logits: *mut f32, logsumexp: *mut f32, count: *mut i32, opts: *const embed_sweep_options) -> embed_status;
    pub fn embed_rules_create(ctx: *mut embed_context, vocab: i64, out: *mut *mut embed_rules) -> embed_status;
    pub fn embed_rules_ban(ctx: *mut embed_context, r: *mut embed_rules, ids: *const i32, n: i64) -> embed_status;
    pub fn embed_rules_allow(ctx: *mut embed_context, r: *mut embed_rules, bits: *const u32, words: i64) -> embed_status;
    pub fn embed_rules_bias(ctx: *mut embed_context, r: *mut embed_rules, ids: *const i32, bias: *const f32, n: i64) -> embed_status;
    pub fn embed_rules_push(ctx: *mut embed_context, r: *mut embed_rules, ids: *const i32, n: i64) -> embed_status;
    pub fn embed_rules_pop(ctx: *mut embed_context, r: *mut embed_rules, n: i64) -> embed_status;
    pub fn embed_rules_clear(r: *mut embed_rules);
    pub fn embed_rules_release(r: *mut embed_rules);
    pub fn embed_sample(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, rules: *const *const embed_rules, params: *const embed_sample_params, params_count: i64, ids: *mut i32, logprobs: *mut f32, opts: *const embed_sweep_options) -> embed_status;
    pub fn embed_sweep(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, ld_hidden: i64, rows: *const i64, n: i64, targets: *const i32, rules: *const *const embed_rules, params: *const embed_sample_params, params_count: i64, opts: *const embed_sweep_options, result: *mut embed_result) -> embed_status;
    pub fn embed_sweep_logits(ctx: *mut embed_context, logits: *const f32, vocab: i64, ld_logits: i64, rows: *const i64, n: i64, targets: *const i32, rules: *const *const embed_rules, params: *const embed_sample_params, params_count: i64, opts: *const embed_sweep_options, result: *mut embed_result) -> embed_status;
    pub fn embed_result_create(ctx: *mut embed_context, out: *mut *mut embed_result) -> embed_status;
    pub fn embed_result_f32(r: *const embed_result, ask: u32, rows: *mut i64, cols: *mut i64) -> *const f32;
    pub fn embed_result_i32(r: *const embed_result, ask: u32, rows: *mut i64, cols: *mut i64) -> *const i32;
    pub fn embed_result_release(r: *mut embed_result);
    pub fn embed_verify(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, ld_hidden: i64, offsets: *const i64, seqs: i64, drafts: *const i32, draft_probs: *const f32, ld_draft_probs: i64, rules: *const *const embed_rules, params: *const embed_sample_params, params_count: i64, ids: *mut i32, accepted: *mut i32, opts: *const embed_sweep_options) -> embed_status;
    pub fn embed_file_open(ctx: *mut embed_context, path: *const c_char, opts: *const embed_file_options, out: *mut *mut embed_file) -> embed_status;
    pub fn embed_file_retain(f: *const embed_file) -> *mut embed_file;
    pub fn embed_file_release(f: *const embed_file);
    pub fn embed_file_format(f: *const embed_file) -> *const c_char;
    pub fn embed_file_notes(f: *const embed_file) -> *const c_char;
    pub fn embed_file_count(f: *const embed_file) -> i64;
    pub fn embed_file_tensor(ctx: *mut embed_context, f: *const embed_file, i: i64, out: *mut embed_tensor_info) -> embed_status;
    pub fn embed_file_find(ctx: *mut embed_context, f: *const embed_file, name: *const c_char, i: *mut i64) -> embed_status;
    pub fn embed_file_role(ctx: *mut embed_context, f: *const embed_file, role: embed_role, i: *mut i64) -> embed_status;
    pub fn embed_file_conventions(ctx: *mut embed_context, f: *const embed_file, out: *mut embed_conventions) -> embed_status;
    pub fn embed_file_table(ctx: *mut embed_context, f: *const embed_file, i: i64, out: *mut *mut embed_table) -> embed_status;
    pub fn embed_file_head(ctx: *mut embed_context, f: *const embed_file, table: *const embed_table, opts: *const embed_head_options, out: *mut *mut embed_head) -> embed_status;
    pub fn embed_file_token(f: *const embed_file, id: i64, bytes: *mut i64) -> *const c_char;
    pub fn embed_file_token_id(ctx: *mut embed_context, f: *const embed_file, token: *const c_char, bytes: i64, id: *mut i64) -> embed_status;
    pub fn embed_file_class_counts(ctx: *mut embed_context, f: *const embed_file, role: embed_role, counts: *mut i64, room: i64, classes: *mut i64) -> embed_status;
    pub fn embed_file_metadata(ctx: *mut embed_context, f: *const embed_file, i: i64, key: *mut *const c_char, value: *mut *const c_char, value_bytes: *mut i64) -> embed_status;
    pub fn embed_writer_create(ctx: *mut embed_context, path: *const c_char, opts: *const embed_writer_options, out: *mut *mut embed_writer) -> embed_status;
    pub fn embed_writer_table(ctx: *mut embed_context, w: *mut embed_writer, name: *const c_char, t: *const embed_table, as_: *const embed_table_options) -> embed_status;
    pub fn embed_writer_head(ctx: *mut embed_context, w: *mut embed_writer, h: *const embed_head) -> embed_status;
    pub fn embed_writer_alias(ctx: *mut embed_context, w: *mut embed_writer, name: *const c_char, of_: *const c_char) -> embed_status;
    pub fn embed_writer_tokens(ctx: *mut embed_context, w: *mut embed_writer, from: *const embed_file) -> embed_status;
    pub fn embed_writer_token(ctx: *mut embed_context, w: *mut embed_writer, id: i64, token: *const c_char, bytes: i64) -> embed_status;
    pub fn embed_writer_metadata(ctx: *mut embed_context, w: *mut embed_writer, key: *const c_char, value: *const c_char, value_bytes: i64) -> embed_status;
    pub fn embed_writer_commit(ctx: *mut embed_context, w: *mut embed_writer) -> embed_status;
    pub fn embed_writer_release(w: *mut embed_writer);
    pub fn embed_lookup(ctx: *mut embed_context, t: *const embed_table, ids: *const i32, n: i64, out: *mut c_void, out_dtype: embed_dtype, ld_out: i64, opts: *const embed_lookup_options) -> embed_status;
    pub fn embed_lookup_i64(ctx: *mut embed_context, t: *const embed_table, ids: *const i64, n: i64, out: *mut c_void, out_dtype: embed_dtype, ld_out: i64, opts: *const embed_lookup_options) -> embed_status;
    pub fn embed_replaced_ids(ctx: *const embed_context) -> i64;
    pub fn embed_bag(ctx: *mut embed_context, t: *const embed_table, ids: *const i32, n: i64, offsets: *const i64, bags: i64, weights: *const f32, out: *mut c_void, out_dtype: embed_dtype, ld_out: i64, opts: *const embed_bag_options) -> embed_status;
    pub fn embed_bag_i64(ctx: *mut embed_context, t: *const embed_table, ids: *const i64, n: i64, offsets: *const i64, bags: i64, weights: *const f32, out: *mut c_void, out_dtype: embed_dtype, ld_out: i64, opts: *const embed_bag_options) -> embed_status;
    pub fn embed_mix(ctx: *mut embed_context, t: *const embed_table, weights: *const f32, n: i64, ld_weights: i64, out: *mut f32, ld_out: i64, opts: *const embed_mix_options) -> embed_status;
    pub fn embed_positions(ctx: *mut embed_context, first: i64, n: i64, dim: i64, out: *mut c_void, out_dtype: embed_dtype, ld_out: i64, opts: *const embed_position_options) -> embed_status;
    pub fn embed_norm_rows(ctx: *mut embed_context, x: *mut c_void, x_dtype: embed_dtype, n: i64, dim: i64, ld_x: i64, weight: *const f32, bias: *const f32, opts: *const embed_norm_options) -> embed_status;
    pub fn embed_cross_entropy(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, loss: *mut f32, logsumexp: *mut f32, opts: *const embed_loss_options) -> embed_status;
    pub fn embed_cross_entropy_backward(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, logsumexp: *const f32, d_loss: *const f32, d_hidden: *mut f32, ld_d_hidden: i64, d_weight: *mut f32, ld_d_weight: i64, opts: *const embed_loss_options) -> embed_status;
    pub fn embed_cross_entropy_train(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, d_loss: *const f32, loss: *mut f32, count: *mut i64, d_hidden: *mut c_void, d_hidden_dtype: embed_dtype, ld_d_hidden: i64, g: *mut embed_grad, opts: *const embed_loss_options) -> embed_status;
    pub fn embed_sequence_logprobs(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, offsets: *const i64, seqs: i64, out: *mut f32, counts: *mut i64, opts: *const embed_loss_options) -> embed_status;
    pub fn embed_sequence_logprobs_backward(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, offsets: *const i64, seqs: i64, d_out: *const f32, d_hidden: *mut c_void, d_hidden_dtype: embed_dtype, ld_d_hidden: i64, g: *mut embed_grad, opts: *const embed_loss_options) -> embed_status;
    pub fn embed_distill(ctx: *mut embed_context, teacher: *const embed_head, teacher_hidden: *const c_void, teacher_dtype: embed_dtype, ld_teacher: i64, student: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, loss: *mut f32, opts: *const embed_distill_options) -> embed_status;
    pub fn embed_distill_train(ctx: *mut embed_context, teacher: *const embed_head, teacher_hidden: *const c_void, teacher_dtype: embed_dtype, ld_teacher: i64, student: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, d_loss: *const f32, loss: *mut f32, count: *mut i64, d_hidden: *mut c_void, d_hidden_dtype: embed_dtype, ld_d_hidden: i64, g: *mut embed_grad, opts: *const embed_distill_options) -> embed_status;
    pub fn embed_candidates_create(ctx: *mut embed_context, vocab: i64, counts: *const i64, opts: *const embed_candidates_options, out: *mut *mut embed_candidates) -> embed_status;
    pub fn embed_candidates_draw(ctx: *mut embed_context, c: *const embed_candidates, position: i64, n: i64, ids: *mut i32, tries: *mut i64) -> embed_status;
    pub fn embed_candidates_log_expected(ctx: *mut embed_context, c: *const embed_candidates, ids: *const i32, n: i64, tries: i64, out: *mut f32) -> embed_status;
    pub fn embed_candidates_release(c: *mut embed_candidates);
    pub fn embed_sampled_loss(ctx: *mut embed_context, h: *const embed_head, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, candidates: *const i32, samples: i64, target_log_expected: *const f32, log_expected: *const f32, d_loss: *const f32, loss: *mut f32, count: *mut i64, d_hidden: *mut c_void, d_hidden_dtype: embed_dtype, ld_d_hidden: i64, g: *mut embed_grad, opts: *const embed_sampled_options) -> embed_status;
    pub fn embed_huffman_create(ctx: *mut embed_context, counts: *const i64, leaves: i64, out: *mut *mut embed_huffman) -> embed_status;
    pub fn embed_huffman_path(ctx: *mut embed_context, t: *const embed_huffman, leaf: i64, nodes: *mut i32, codes: *mut i32, room: i64, length: *mut i64) -> embed_status;
    pub fn embed_huffman_loss(ctx: *mut embed_context, h: *const embed_head, t: *const embed_huffman, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, targets: *const i32, d_loss: *const f32, loss: *mut f32, count: *mut i64, d_hidden: *mut c_void, d_hidden_dtype: embed_dtype, ld_d_hidden: i64, g: *mut embed_grad, opts: *const embed_huffman_options) -> embed_status;
    pub fn embed_huffman_predict(ctx: *mut embed_context, h: *const embed_head, t: *const embed_huffman, hidden: *const c_void, hidden_dtype: embed_dtype, n: i64, ld_hidden: i64, k: i64, ids: *mut i32, logprobs: *mut f32, count: *mut i64, opts: *const embed_huffman_predict_options) -> embed_status;
    pub fn embed_huffman_release(t: *mut embed_huffman);
    pub fn embed_grad_create(ctx: *mut embed_context, dim: i64, out: *mut *mut embed_grad) -> embed_status;
    pub fn embed_grad_create_dense(ctx: *mut embed_context, rows: i64, dim: i64, memory: *mut f32, ld: i64, out: *mut *mut embed_grad) -> embed_status;
    pub fn embed_grad_add(ctx: *mut embed_context, g: *mut embed_grad, ids: *const i32, n: i64, d_out: *const f32, ld_d_out: i64) -> embed_status;
    pub fn embed_lookup_backward(ctx: *mut embed_context, g: *mut embed_grad, vocab: i64, ids: *const i64, n: i64, d_out: *const c_void, d_out_dtype: embed_dtype, ld_d_out: i64, opts: *const embed_lookup_options) -> embed_status;
    pub fn embed_bag_backward(ctx: *mut embed_context, g: *mut embed_grad, t: *const embed_table, ids: *const i64, n: i64, offsets: *const i64, bags: i64, weights: *const f32, d_out: *const c_void, d_out_dtype: embed_dtype, ld_d_out: i64, d_weights: *mut f32, opts: *const embed_bag_options) -> embed_status;
    pub fn embed_grad_merge(ctx: *mut embed_context, g: *mut embed_grad, from: *const embed_grad, opts: *const embed_merge_options) -> embed_status;
    pub fn embed_grad_clip(ctx: *mut embed_context, g: *mut embed_grad, norm: *mut f64, opts: *const embed_clip_options) -> embed_status;
    pub fn embed_grad_share(ctx: *mut embed_context, input: *const embed_grad, output: *const embed_grad, d_out: *const c_void, d_out_dtype: embed_dtype, n: i64, ld_d_out: i64, share: *mut embed_share, bands: *mut f64, opts: *const embed_share_options) -> embed_status;
    pub fn embed_grad_is_dense(g: *const embed_grad) -> i32;
    pub fn embed_grad_rows(g: *const embed_grad) -> i64;
    pub fn embed_grad_ids(g: *const embed_grad) -> *const i64;
    pub fn embed_grad_values(g: *const embed_grad) -> *const f32;
    pub fn embed_grad_bias(g: *mut embed_grad) -> *mut f32;
    pub fn embed_grad_clear(g: *mut embed_grad);
    pub fn embed_grad_release(g: *mut embed_grad);
    pub fn embed_count_rows(ctx: *mut embed_context, ids: *const i64, n: i64, vocab: i64, counts: *mut u32, opts: *const embed_lookup_options) -> embed_status;
    pub fn embed_count_decay(ctx: *mut embed_context, counts: *mut u32, rows: i64, factor: f64) -> embed_status;
    pub fn embed_count_top(ctx: *mut embed_context, counts: *const u32, vocab: i64, k: i64, ids: *mut i32) -> embed_status;
    pub fn embed_optimizer_create(ctx: *mut embed_context, t: *const embed_table, opts: *const embed_optimizer_options, out: *mut *mut embed_optimizer) -> embed_status;
    pub fn embed_optimizer_step(ctx: *mut embed_context, o: *mut embed_optimizer, t: *mut embed_table, g: *const embed_grad, opts: *const embed_step_options) -> embed_status;
    pub fn embed_optimizer_touch(ctx: *mut embed_context, o: *mut embed_optimizer, t: *mut embed_table, ids: *const i64, n: i64) -> embed_status;
    pub fn embed_optimizer_freeze(ctx: *mut embed_context, o: *mut embed_optimizer, t: *mut embed_table, first: i64, n: i64, bitmap: *const u8, frozen: i32) -> embed_status;
    pub fn embed_optimizer_steps(o: *const embed_optimizer) -> i64;
    pub fn embed_writer_optimizer(ctx: *mut embed_context, w: *mut embed_writer, o: *mut embed_optimizer, t: *const embed_table) -> embed_status;
    pub fn embed_optimizer_restore(ctx: *mut embed_context, f: *const embed_file, i: i64, t: *const embed_table, out: *mut *mut embed_optimizer) -> embed_status;
    pub fn embed_optimizer_release(o: *mut embed_optimizer);
    pub fn embed_lr_at(schedule: embed_lr_schedule, lr: f64, step: i64, warmup: i64, total: i64, least: f64) -> f64;
    pub fn embed_lr_ratio(rule: embed_lr_rule, width: i64, base_width: i64, base_ratio: f64) -> f64;
    pub fn embed_table_create(ctx: *mut embed_context, rows: i64, dim: i64, opts: *const embed_table_options, out: *mut *mut embed_table) -> embed_status;
    pub fn embed_table_borrow(ctx: *mut embed_context, data: *mut c_void, rows: i64, dim: i64, opts: *const embed_table_options, done: Option<unsafe extern "C" fn(arg: *mut c_void)>, arg: *mut c_void, out: *mut *mut embed_table) -> embed_status;
    pub fn embed_table_view(ctx: *mut embed_context, data: *const c_void, rows: i64, dim: i64, opts: *const embed_table_options, done: Option<unsafe extern "C" fn(arg: *mut c_void)>, arg: *mut c_void, out: *mut *mut embed_table) -> embed_status;
    pub fn embed_table_view_pq(ctx: *mut embed_context, codes: *const c_void, rows: i64, dim: i64, pq: *const embed_pq, opts: *const embed_table_options, done: Option<unsafe extern "C" fn(arg: *mut c_void)>, arg: *mut c_void, out: *mut *mut embed_table) -> embed_status;
    pub fn embed_table_convert(ctx: *mut embed_context, t: *const embed_table, opts: *const embed_table_options, out: *mut *mut embed_table) -> embed_status;
    pub fn embed_table_overlay(ctx: *mut embed_context, base: *const embed_table, ids: *const i64, n: i64, rows: *const embed_table, vocab: i64, out: *mut *mut embed_table) -> embed_status;
    pub fn embed_table_init(ctx: *mut embed_context, t: *mut embed_table, opts: *const embed_init_options) -> embed_status;
    pub fn embed_table_moved(ctx: *mut embed_context, t: *const embed_table, opts: *const embed_init_options, moved: *mut f32, keep: *mut f32) -> embed_status;
    pub fn embed_table_get_rows(ctx: *mut embed_context, t: *const embed_table, ids: *const i64, n: i64, out: *mut c_void, out_dtype: embed_dtype, ld_out: i64) -> embed_status;
    pub fn embed_table_set_rows(ctx: *mut embed_context, t: *mut embed_table, ids: *const i64, n: i64, src: *const c_void, src_dtype: embed_dtype, ld_src: i64, opts: *const embed_rows_options) -> embed_status;
    pub fn embed_table_renorm_rows(ctx: *mut embed_context, t: *mut embed_table, ids: *const i64, n: i64, max_norm: f64, norm_type: f64, opts: *const embed_rows_options) -> embed_status;
    pub fn embed_table_add_rows(ctx: *mut embed_context, t: *mut embed_table, ids: *const i64, n: i64, alpha: f64, src: *const c_void, src_dtype: embed_dtype, ld_src: i64, opts: *const embed_rows_options) -> embed_status;
    pub fn embed_table_retain(t: *const embed_table) -> *mut embed_table;
    pub fn embed_table_release(t: *const embed_table);
    pub fn embed_table_rows(t: *const embed_table) -> i64;
    pub fn embed_table_vocab(t: *const embed_table) -> i64;
    pub fn embed_table_dim(t: *const embed_table) -> i64;
    pub fn embed_table_row_bytes(t: *const embed_table) -> i64;
    pub fn embed_table_dtype(t: *const embed_table) -> embed_dtype;
    pub fn embed_table_data(t: *const embed_table) -> *const c_void;
    pub fn embed_table_mutable_data(t: *mut embed_table) -> *mut c_void;
    pub fn embed_table_changed(t: *mut embed_table);
    pub fn embed_version() -> u32;
    pub fn embed_status_name(s: embed_status) -> *const c_char;
    pub fn embed_dtype_name(t: embed_dtype) -> *const c_char;
    pub fn embed_dtype_find(name: *const c_char) -> embed_dtype;
    pub fn embed_row_bytes(t: embed_dtype, dim: i64, group: i32) -> i64;
}
