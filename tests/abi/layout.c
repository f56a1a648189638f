/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of every public struct on 64-bit and 32-bit machines, and the values of all constants: compiled, never run.
 * Until the release that closes LIBEMBED_0.1 it is written by `cmake --build build --target abi_baseline`; after that a line
 * changes only with the soname, and a new field is a new line. */
#include <embed/embed.h>
#include <stddef.h>

#if UINTPTR_MAX == UINT64_MAX
#define PICK(on_64_bits, on_32_bits) (on_64_bits)
#else
#define PICK(on_64_bits, on_32_bits) (on_32_bits)
#endif
#define SIZE(type, on_64_bits, on_32_bits)      _Static_assert(sizeof(type) == PICK(on_64_bits, on_32_bits), #type " has another size")
#define AT(type, field, on_64_bits, on_32_bits) _Static_assert(offsetof(type, field) == PICK(on_64_bits, on_32_bits), #type "." #field " has moved")
#define IS(constant, value)                     _Static_assert((constant) == (value), #constant " was renumbered")

SIZE(embed_executor, 32, 24);
AT(embed_executor, size, 0, 0);
AT(embed_executor, flags, 4, 4);
AT(embed_executor, arg, 8, 8);
AT(embed_executor, run, 16, 12);
AT(embed_executor, workers, 24, 16);
AT(embed_executor, reserved, 28, 20);

SIZE(embed_allocator, 32, 20);
AT(embed_allocator, size, 0, 0);
AT(embed_allocator, flags, 4, 4);
AT(embed_allocator, arg, 8, 8);
AT(embed_allocator, allocate, 16, 12);
AT(embed_allocator, release, 24, 16);

SIZE(embed_context_options, 88, 56);
AT(embed_context_options, size, 0, 0);
AT(embed_context_options, flags, 4, 4);
AT(embed_context_options, max_scratch, 8, 8);
AT(embed_context_options, why_bytes, 16, 16);
AT(embed_context_options, pool, 24, 24);
AT(embed_context_options, executor, 32, 28);
AT(embed_context_options, allocator, 40, 32);
AT(embed_context_options, isa, 48, 36);
AT(embed_context_options, cancel, 56, 40);
AT(embed_context_options, progress, 64, 44);
AT(embed_context_options, progress_arg, 72, 48);
AT(embed_context_options, why, 80, 52);

SIZE(embed_nearest_options, 16, 16);
AT(embed_nearest_options, size, 0, 0);
AT(embed_nearest_options, flags, 4, 4);
AT(embed_nearest_options, metric, 8, 8);
AT(embed_nearest_options, reserved, 12, 12);

SIZE(embed_head_options, 16, 16);
AT(embed_head_options, size, 0, 0);
AT(embed_head_options, flags, 4, 4);
AT(embed_head_options, logit_scale, 8, 8);
AT(embed_head_options, logit_softcap, 12, 12);

SIZE(embed_head_info, 80, 80);
AT(embed_head_info, size, 0, 0);
AT(embed_head_info, flags, 4, 4);
AT(embed_head_info, vocab, 8, 8);
AT(embed_head_info, dim, 16, 16);
AT(embed_head_info, table_bytes, 24, 24);
AT(embed_head_info, extra_bytes, 32, 32);
AT(embed_head_info, logit_scale, 40, 40);
AT(embed_head_info, logit_softcap, 44, 44);
AT(embed_head_info, ids_checksum, 48, 48);
AT(embed_head_info, sketch_searches, 56, 56);
AT(embed_head_info, sketch_rows_verified, 64, 64);
AT(embed_head_info, sketch_bytes_read, 72, 72);

SIZE(embed_sweep_options, 24, 24);
AT(embed_sweep_options, size, 0, 0);
AT(embed_sweep_options, flags, 4, 4);
AT(embed_sweep_options, ask, 8, 8);
AT(embed_sweep_options, k, 12, 12);
AT(embed_sweep_options, nan, 16, 16);
AT(embed_sweep_options, activation, 20, 20);

SIZE(embed_sample_params, 104, 104);
AT(embed_sample_params, size, 0, 0);
AT(embed_sample_params, flags, 4, 4);
AT(embed_sample_params, seed, 8, 8);
AT(embed_sample_params, position, 16, 16);
AT(embed_sample_params, temperature, 24, 24);
AT(embed_sample_params, top_p, 32, 32);
AT(embed_sample_params, min_p, 40, 40);
AT(embed_sample_params, typical_p, 48, 48);
AT(embed_sample_params, top_n_sigma, 56, 56);
AT(embed_sample_params, repetition, 64, 64);
AT(embed_sample_params, frequency, 72, 72);
AT(embed_sample_params, presence, 80, 80);
AT(embed_sample_params, top_k, 88, 88);
AT(embed_sample_params, last_n, 92, 92);
AT(embed_sample_params, min_keep, 96, 96);
AT(embed_sample_params, order, 100, 100);

SIZE(embed_file_options, 48, 40);
AT(embed_file_options, size, 0, 0);
AT(embed_file_options, flags, 4, 4);
AT(embed_file_options, max_header, 8, 8);
AT(embed_file_options, dim, 16, 16);
AT(embed_file_options, vocab, 24, 24);
AT(embed_file_options, format, 32, 32);
AT(embed_file_options, reserved, 40, 36);

SIZE(embed_tensor_info, 120, 112);
AT(embed_tensor_info, size, 0, 0);
AT(embed_tensor_info, flags, 4, 4);
AT(embed_tensor_info, name, 8, 8);
AT(embed_tensor_info, stored, 16, 12);
AT(embed_tensor_info, shape, 24, 16);
AT(embed_tensor_info, offset, 88, 80);
AT(embed_tensor_info, bytes, 96, 88);
AT(embed_tensor_info, rank, 104, 96);
AT(embed_tensor_info, dtype, 108, 100);
AT(embed_tensor_info, role, 112, 104);
AT(embed_tensor_info, shard, 116, 108);

SIZE(embed_conventions, 32, 32);
AT(embed_conventions, size, 0, 0);
AT(embed_conventions, flags, 4, 4);
AT(embed_conventions, lookup_scale, 8, 8);
AT(embed_conventions, scale_round, 12, 12);
AT(embed_conventions, logit_scale, 16, 16);
AT(embed_conventions, logit_softcap, 20, 20);
AT(embed_conventions, norm_epsilon, 24, 24);
AT(embed_conventions, norm_flags, 28, 28);

SIZE(embed_writer_options, 32, 24);
AT(embed_writer_options, size, 0, 0);
AT(embed_writer_options, flags, 4, 4);
AT(embed_writer_options, max_memory, 8, 8);
AT(embed_writer_options, format, 16, 16);
AT(embed_writer_options, reserved, 24, 20);

SIZE(embed_lookup_options, 40, 40);
AT(embed_lookup_options, size, 0, 0);
AT(embed_lookup_options, flags, 4, 4);
AT(embed_lookup_options, scale, 8, 8);
AT(embed_lookup_options, max_norm, 12, 12);
AT(embed_lookup_options, scale_round, 16, 16);
AT(embed_lookup_options, oov, 20, 20);
AT(embed_lookup_options, unk_id, 24, 24);
AT(embed_lookup_options, padding_id, 32, 32);

SIZE(embed_bag_options, 32, 32);
AT(embed_bag_options, size, 0, 0);
AT(embed_bag_options, flags, 4, 4);
AT(embed_bag_options, mode, 8, 8);
AT(embed_bag_options, oov, 12, 12);
AT(embed_bag_options, unk_id, 16, 16);
AT(embed_bag_options, padding_id, 24, 24);

SIZE(embed_mix_options, 8, 8);
AT(embed_mix_options, size, 0, 0);
AT(embed_mix_options, flags, 4, 4);

SIZE(embed_position_options, 16, 16);
AT(embed_position_options, size, 0, 0);
AT(embed_position_options, flags, 4, 4);
AT(embed_position_options, base, 8, 8);
AT(embed_position_options, scale, 12, 12);

SIZE(embed_norm_options, 16, 16);
AT(embed_norm_options, size, 0, 0);
AT(embed_norm_options, flags, 4, 4);
AT(embed_norm_options, epsilon, 8, 8);
AT(embed_norm_options, reserved, 12, 12);

SIZE(embed_loss_options, 56, 48);
AT(embed_loss_options, size, 0, 0);
AT(embed_loss_options, flags, 4, 4);
AT(embed_loss_options, label_smoothing, 8, 8);
AT(embed_loss_options, z_loss, 16, 16);
AT(embed_loss_options, reduction, 24, 24);
AT(embed_loss_options, ignore_index, 28, 28);
AT(embed_loss_options, class_weight, 32, 32);
AT(embed_loss_options, reserved, 40, 36);
AT(embed_loss_options, gradient_filter, 48, 40);

SIZE(embed_distill_options, 40, 40);
AT(embed_distill_options, size, 0, 0);
AT(embed_distill_options, flags, 4, 4);
AT(embed_distill_options, temperature, 8, 8);
AT(embed_distill_options, mix, 16, 16);
AT(embed_distill_options, divergence, 24, 24);
AT(embed_distill_options, reduction, 28, 28);
AT(embed_distill_options, ignore_index, 32, 32);
AT(embed_distill_options, reserved, 36, 36);

SIZE(embed_candidates_options, 32, 32);
AT(embed_candidates_options, size, 0, 0);
AT(embed_candidates_options, flags, 4, 4);
AT(embed_candidates_options, power, 8, 8);
AT(embed_candidates_options, seed, 16, 16);
AT(embed_candidates_options, kind, 24, 24);
AT(embed_candidates_options, reserved, 28, 28);

SIZE(embed_sampled_options, 24, 24);
AT(embed_sampled_options, size, 0, 0);
AT(embed_sampled_options, flags, 4, 4);
AT(embed_sampled_options, kind, 8, 8);
AT(embed_sampled_options, reduction, 12, 12);
AT(embed_sampled_options, ignore_index, 16, 16);
AT(embed_sampled_options, reserved, 20, 20);

SIZE(embed_huffman_options, 16, 16);
AT(embed_huffman_options, size, 0, 0);
AT(embed_huffman_options, flags, 4, 4);
AT(embed_huffman_options, reduction, 8, 8);
AT(embed_huffman_options, ignore_index, 12, 12);

SIZE(embed_huffman_predict_options, 16, 16);
AT(embed_huffman_predict_options, size, 0, 0);
AT(embed_huffman_predict_options, flags, 4, 4);
AT(embed_huffman_predict_options, threshold, 8, 8);

SIZE(embed_merge_options, 16, 16);
AT(embed_merge_options, size, 0, 0);
AT(embed_merge_options, flags, 4, 4);
AT(embed_merge_options, scale, 8, 8);

SIZE(embed_clip_options, 24, 24);
AT(embed_clip_options, size, 0, 0);
AT(embed_clip_options, flags, 4, 4);
AT(embed_clip_options, max_row_norm, 8, 8);
AT(embed_clip_options, max_norm, 16, 16);

SIZE(embed_share, 80, 80);
AT(embed_share, size, 0, 0);
AT(embed_share, flags, 4, 4);
AT(embed_share, input_norm, 8, 8);
AT(embed_share, output_norm, 16, 16);
AT(embed_share, norm_share, 24, 24);
AT(embed_share, energy_share, 32, 32);
AT(embed_share, cosine, 40, 40);
AT(embed_share, positions_norm, 48, 48);
AT(embed_share, positions_share, 56, 56);
AT(embed_share, input_rows, 64, 64);
AT(embed_share, output_rows, 72, 72);

SIZE(embed_share_options, 40, 32);
AT(embed_share_options, size, 0, 0);
AT(embed_share_options, flags, 4, 4);
AT(embed_share_options, rows, 8, 8);
AT(embed_share_options, bands, 16, 16);
AT(embed_share_options, counts, 24, 24);
AT(embed_share_options, edges, 32, 28);

SIZE(embed_optimizer_options, 88, 88);
AT(embed_optimizer_options, size, 0, 0);
AT(embed_optimizer_options, flags, 4, 4);
AT(embed_optimizer_options, kind, 8, 8);
AT(embed_optimizer_options, state, 12, 12);
AT(embed_optimizer_options, lr, 16, 16);
AT(embed_optimizer_options, beta1, 24, 24);
AT(embed_optimizer_options, beta2, 32, 32);
AT(embed_optimizer_options, epsilon, 40, 40);
AT(embed_optimizer_options, momentum, 48, 48);
AT(embed_optimizer_options, weight_decay, 56, 56);
AT(embed_optimizer_options, max_norm, 64, 64);
AT(embed_optimizer_options, l1, 72, 72);
AT(embed_optimizer_options, seed, 80, 80);

SIZE(embed_step_options, 48, 40);
AT(embed_step_options, size, 0, 0);
AT(embed_step_options, flags, 4, 4);
AT(embed_step_options, lr, 8, 8);
AT(embed_step_options, grad_scale, 16, 16);
AT(embed_step_options, max_grad_norm, 24, 24);
AT(embed_step_options, row_rates, 32, 32);
AT(embed_step_options, reserved, 40, 36);

SIZE(embed_table_options, 40, 40);
AT(embed_table_options, size, 0, 0);
AT(embed_table_options, flags, 4, 4);
AT(embed_table_options, row_bytes, 8, 8);
AT(embed_table_options, vocab, 16, 16);
AT(embed_table_options, data_bytes, 24, 24);
AT(embed_table_options, dtype, 32, 32);
AT(embed_table_options, group, 36, 36);

SIZE(embed_pq, 56, 40);
AT(embed_pq, size, 0, 0);
AT(embed_pq, flags, 4, 4);
AT(embed_pq, width, 8, 8);
AT(embed_pq, centroids, 16, 16);
AT(embed_pq, values, 24, 24);
AT(embed_pq, norms, 32, 28);
AT(embed_pq, norm_codes, 40, 32);
AT(embed_pq, norm_values, 48, 36);

SIZE(embed_init_options, 56, 56);
AT(embed_init_options, size, 0, 0);
AT(embed_init_options, flags, 4, 4);
AT(embed_init_options, kind, 8, 8);
AT(embed_init_options, scale, 12, 12);
AT(embed_init_options, low, 16, 16);
AT(embed_init_options, high, 20, 20);
AT(embed_init_options, first, 24, 24);
AT(embed_init_options, count, 32, 32);
AT(embed_init_options, padding_id, 40, 40);
AT(embed_init_options, seed, 48, 48);

SIZE(embed_rows_options, 16, 16);
AT(embed_rows_options, size, 0, 0);
AT(embed_rows_options, flags, 4, 4);
AT(embed_rows_options, seed, 8, 8);

/* Values are never renumbered. */
IS(EMBED_CONTEXT_REPRODUCIBLE, 1);
IS(EMBED_METRIC_NONE, -1);
IS(EMBED_METRIC_COSINE, 0);
IS(EMBED_METRIC_DOT, 1);
IS(EMBED_METRIC_L2, 2);
IS(EMBED_HEAD_BLAS, 2);
IS(EMBED_HEAD_REQUIRE_TIED, 4);
IS(EMBED_HEAD_REQUIRE_UNTIED, 8);
IS(EMBED_HEAD_PREPARE, 16);
IS(EMBED_HEAD_SKETCH, 32);
IS(EMBED_HEAD_RAW, 64);
IS(EMBED_NAN_NONE, -1);
IS(EMBED_NAN_MAX, 0);
IS(EMBED_NAN_ERROR, 1);
IS(EMBED_NAN_IGNORE, 2);
IS(EMBED_SWEEP_PROCESSED, 1);
IS(EMBED_ORDER_NONE, -1);
IS(EMBED_ORDER_HF, 0);
IS(EMBED_ORDER_LLAMACPP, 1);
IS(EMBED_ASK_LOGITS, 1);
IS(EMBED_ASK_LOGSUMEXP, 2);
IS(EMBED_ASK_ENTROPY, 4);
IS(EMBED_ASK_TOPK_IDS, 8);
IS(EMBED_ASK_TOPK_LOGITS, 16);
IS(EMBED_ASK_TOPK_COUNT, 32);
IS(EMBED_ASK_TARGET_LOGPROB, 64);
IS(EMBED_ASK_TARGET_RANK, 128);
IS(EMBED_ASK_TOKEN, 256);
IS(EMBED_ASK_TOKEN_LOGPROB, 512);
IS(EMBED_FILE_POPULATE, 1);
IS(EMBED_FILE_COPY, 2);
IS(EMBED_FILE_CHECK, 4);
IS(EMBED_ROLE_NONE, -1);
IS(EMBED_ROLE_TOKEN, 0);
IS(EMBED_ROLE_HEAD, 1);
IS(EMBED_ROLE_HEAD_BIAS, 2);
IS(EMBED_ROLE_POSITION, 3);
IS(EMBED_ROLE_TYPE, 4);
IS(EMBED_ROLE_NORM, 5);
IS(EMBED_ROLE_NORM_BIAS, 6);
IS(EMBED_ROLE_PER_LAYER, 7);
IS(EMBED_ROLE_NGRAM, 8);
IS(EMBED_OOV_NONE, -1);
IS(EMBED_OOV_ERROR, 0);
IS(EMBED_OOV_UNK, 1);
IS(EMBED_OOV_ZERO, 2);
IS(EMBED_OOV_CLAMP, 3);
IS(EMBED_OOV_HASH, 4);
IS(EMBED_LOOKUP_ADD, 1);
IS(EMBED_LOOKUP_PADDING, 2);
IS(EMBED_BAG_NONE, -1);
IS(EMBED_BAG_SUM, 0);
IS(EMBED_BAG_MEAN, 1);
IS(EMBED_BAG_WEIGHTED_MEAN, 2);
IS(EMBED_BAG_SQRT_N, 3);
IS(EMBED_BAG_MAX, 4);
IS(EMBED_BAG_MIN, 5);
IS(EMBED_POSITION_HALVES, 16);
IS(EMBED_NORM_LAYER, 1);
IS(EMBED_NORM_PLUS_ONE, 2);
IS(EMBED_REDUCTION_NONE, -1);
IS(EMBED_REDUCE_MEAN, 0);
IS(EMBED_REDUCE_SUM, 1);
IS(EMBED_REDUCE_ROWS, 2);
IS(EMBED_LOSS_IGNORE_INDEX, 1);
IS(EMBED_LOSS_SMOOTH_OTHERS, 2);
IS(EMBED_LOSS_KAHAN, 4);
IS(EMBED_LOSS_BF16, 8);
IS(EMBED_DIVERGENCE_NONE, -1);
IS(EMBED_DIVERGENCE_KL, 0);
IS(EMBED_DIVERGENCE_JENSEN_SHANNON, 1);
IS(EMBED_DISTILL_IGNORE_INDEX, 1);
IS(EMBED_DISTILL_SQUARED, 2);
IS(EMBED_DISTILL_BF16, 4);
IS(EMBED_CANDIDATES_NONE, -1);
IS(EMBED_CANDIDATES_LOG_UNIFORM, 0);
IS(EMBED_CANDIDATES_UNIFORM, 1);
IS(EMBED_CANDIDATES_COUNTS, 2);
IS(EMBED_CANDIDATES_REPEATS, 1);
IS(EMBED_SAMPLED_NONE, -1);
IS(EMBED_SAMPLED_SOFTMAX, 0);
IS(EMBED_SAMPLED_NCE, 1);
IS(EMBED_SAMPLED_NEGATIVE, 2);
IS(EMBED_SAMPLED_IGNORE_INDEX, 1);
IS(EMBED_SAMPLED_KEEP_HITS, 2);
IS(EMBED_SAMPLED_PER_ROW, 4);
IS(EMBED_HUFFMAN_IGNORE_INDEX, 1);
IS(EMBED_HUFFMAN_FASTTEXT, 2);
IS(EMBED_BACKWARD_BY_FREQUENCY, 32);
IS(EMBED_MERGE_SCALE_ZERO, 1);
IS(EMBED_OPTIM_NONE, -1);
IS(EMBED_OPTIM_SGD, 0);
IS(EMBED_OPTIM_ADAGRAD, 1);
IS(EMBED_OPTIM_ADAGRAD_ROW, 2);
IS(EMBED_OPTIM_ADAM_SPARSE, 3);
IS(EMBED_OPTIM_ADAMW, 4);
IS(EMBED_OPTIM_ADAMW_DEFERRED, 5);
IS(EMBED_OPTIM_ADAM_LAZY, 6);
IS(EMBED_OPTIM_ADAM_ROW, 7);
IS(EMBED_OPTIM_RMSPROP, 8);
IS(EMBED_OPTIM_LION, 9);
IS(EMBED_OPTIM_LAMB, 10);
IS(EMBED_OPTIM_FTRL, 11);
IS(EMBED_OPTIM_ADAFACTOR, 12);
IS(EMBED_OPTIM_BETA1_ZERO, 1);
IS(EMBED_OPTIM_BETA2_ZERO, 2);
IS(EMBED_OPTIM_EPSILON_ZERO, 4);
IS(EMBED_OPTIM_REPLAY, 8);
IS(EMBED_OPTIM_LAZY, 16);
IS(EMBED_OPTIM_NESTEROV, 32);
IS(EMBED_OPTIM_NEAREST, 64);
IS(EMBED_STEP_LR, 1);
IS(EMBED_STEP_CHECK_FINITE, 2);
IS(EMBED_LR_CONSTANT, 0);
IS(EMBED_LR_LINEAR, 1);
IS(EMBED_LR_COSINE, 2);
IS(EMBED_LR_INVERSE_SQRT, 3);
IS(EMBED_LR_ONE, 0);
IS(EMBED_LR_SQRT_WIDTH, 1);
IS(EMBED_LR_WIDTH, 2);
IS(EMBED_TABLE_HUGE_PAGES, 1);
IS(EMBED_TABLE_READ_ONLY, 2);
IS(EMBED_INIT_NONE, -1);
IS(EMBED_INIT_ZERO, 0);
IS(EMBED_INIT_NORMAL, 1);
IS(EMBED_INIT_UNIFORM, 2);
IS(EMBED_INIT_XAVIER_NORMAL, 3);
IS(EMBED_INIT_XAVIER_UNIFORM, 4);
IS(EMBED_INIT_TRUNCATED_NORMAL, 5);
IS(EMBED_INIT_CONSTANT, 6);
IS(EMBED_INIT_PADDING, 1);
IS(EMBED_ROWS_STOCHASTIC, 1);
IS(EMBED_OK, 0);
IS(EMBED_E_ARGUMENT, -1);
IS(EMBED_E_MEMORY, -2);
IS(EMBED_E_ID, -3);
IS(EMBED_E_OPTION, -4);
IS(EMBED_E_UNSUPPORTED, -5);
IS(EMBED_E_FORMAT, -6);
IS(EMBED_E_IO, -7);
IS(EMBED_E_NOT_FOUND, -8);
IS(EMBED_E_READ_ONLY, -9);
IS(EMBED_E_OVERFLOW, -10);
IS(EMBED_E_CANCELLED, -11);
IS(EMBED_E_STALE, -12);
IS(EMBED_E_MISMATCH, -13);
IS(EMBED_E_CALLBACK, -14);
IS(EMBED_E_NONFINITE, -15);
IS(EMBED_DTYPE_NONE, -1);
IS(EMBED_F32, 0);
IS(EMBED_F16, 1);
IS(EMBED_BF16, 2);
IS(EMBED_F64, 3);
IS(EMBED_F8_E4M3, 4);
IS(EMBED_F8_E5M2, 5);
IS(EMBED_I8_ROW, 16);
IS(EMBED_I4_GROUP, 17);
IS(EMBED_U8_ROW, 18);
IS(EMBED_U4_ROW, 19);
IS(EMBED_U2_ROW, 20);
IS(EMBED_PQ, 32);
IS(EMBED_Q4_0, 66);
IS(EMBED_Q4_1, 67);
IS(EMBED_Q5_0, 70);
IS(EMBED_Q5_1, 71);
IS(EMBED_Q8_0, 72);
IS(EMBED_Q2_K, 74);
IS(EMBED_Q3_K, 75);
IS(EMBED_Q4_K, 76);
IS(EMBED_Q5_K, 77);
IS(EMBED_Q6_K, 78);
IS(EMBED_IQ4_NL, 84);
IS(EMBED_IQ4_XS, 87);
IS(EMBED_MXFP4, 103);
IS(EMBED_NVFP4, 104);
