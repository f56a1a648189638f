// SPDX-License-Identifier: BSD-3-Clause

package libembed

// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// What a sweep may be asked for.
const (
	AskLogits        = uint32(C.EMBED_ASK_LOGITS)
	AskLogSumExp     = uint32(C.EMBED_ASK_LOGSUMEXP)
	AskEntropy       = uint32(C.EMBED_ASK_ENTROPY)
	AskTopKIDs       = uint32(C.EMBED_ASK_TOPK_IDS)
	AskTopKLogits    = uint32(C.EMBED_ASK_TOPK_LOGITS)
	AskTopKCount     = uint32(C.EMBED_ASK_TOPK_COUNT)
	AskTargetLogprob = uint32(C.EMBED_ASK_TARGET_LOGPROB)
	AskTargetRank    = uint32(C.EMBED_ASK_TARGET_RANK)
	AskToken         = uint32(C.EMBED_ASK_TOKEN)
	AskTokenLogprob  = uint32(C.EMBED_ASK_TOKEN_LOGPROB)
)

// The order of the filters.
const (
	OrderHF       = int32(C.EMBED_ORDER_HF)
	OrderLlamaCPP = int32(C.EMBED_ORDER_LLAMACPP)
)

// Rules is the bans, biases and history of one sequence. Sweeps may share it; changes need it alone.
type Rules struct{ c *C.embed_rules }

// NewRules has no rules yet.
func NewRules(ctx *Context, vocab int64) (*Rules, error) {
	r := new(Rules)
	if err := ctx.check(C.embed_rules_create(ctx.c, C.int64_t(vocab), &r.c)); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(r, (*Rules).Close)
	return r, nil
}

// Close frees them.
func (r *Rules) Close() {
	C.embed_rules_release(r.c)
	r.c = nil
	runtime.SetFinalizer(r, nil)
}

// Ban: these ids are never drawn.
func (r *Rules) Ban(ctx *Context, ids []int32) error {
	defer runtime.KeepAlive(r)
	return ctx.check(C.embed_rules_ban(ctx.c, r.c, ids32(ids), C.int64_t(len(ids))))
}

// Allow only ids whose bit is set, bit i%32 of word i/32; nil = all again.
func (r *Rules) Allow(ctx *Context, bits []uint32) error {
	defer runtime.KeepAlive(r)
	return ctx.check(C.embed_rules_allow(ctx.c, r.c, (*C.uint32_t)(unsafe.Pointer(ptr(bits))), C.int64_t(len(bits))))
}

// Bias adds numbers to these ids' logits.
func (r *Rules) Bias(ctx *Context, ids []int32, bias []float32) error {
	if err := length("bias", len(bias), 1, int64(len(ids))); err != nil {
		return err
	}
	defer runtime.KeepAlive(r)
	return ctx.check(C.embed_rules_bias(ctx.c, r.c, ids32(ids), floats(bias), C.int64_t(len(ids))))
}

// Push adds to the history that penalties look at.
func (r *Rules) Push(ctx *Context, ids []int32) error {
	defer runtime.KeepAlive(r)
	return ctx.check(C.embed_rules_push(ctx.c, r.c, ids32(ids), C.int64_t(len(ids))))
}

// Pop takes the last n back.
func (r *Rules) Pop(ctx *Context, n int) error {
	defer runtime.KeepAlive(r)
	return ctx.check(C.embed_rules_pop(ctx.c, r.c, C.int64_t(n)))
}

// Clear makes them as new.
func (r *Rules) Clear() { C.embed_rules_clear(r.c); runtime.KeepAlive(r) }

// SampleParams says how a token is drawn; all zero = the best one.
type SampleParams struct {
	Seed                            uint64
	Position                        int64
	Temperature                     float64
	TopP, MinP, TypicalP, TopNSigma float64
	Repetition, Frequency, Presence float64
	TopK, LastN, MinKeep, Order     int32
}

// Request is what a sweep is asked, of which rows, and what the answers need.
type Request struct {
	Ask       uint32         // Ask*
	K         int            // columns of the top-k answers
	Processed bool           // log-probabilities after rules and filters, not the model's own
	Rows      []int64        // rows of hidden, repeats allowed; nil = all
	Targets   []int32        // an id per row, for the target answers
	Rules     []*Rules       // per row, nil = none; or nil
	Params    []SampleParams // none, one, or one per row
}

// Result is what a sweep found; to be used again and again.
type Result struct{ c *C.embed_result }

// NewResult has nothing yet.
func NewResult(ctx *Context) (*Result, error) {
	r := new(Result)
	if err := ctx.check(C.embed_result_create(ctx.c, &r.c)); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(r, (*Result).Close)
	return r, nil
}

// Close frees it.
func (r *Result) Close() {
	C.embed_result_release(r.c)
	r.c = nil
	runtime.SetFinalizer(r, nil)
}

// Floats is a copy of an answer [n, columns]; nil where it was not asked for.
func (r *Result) Floats(ask uint32) []float32 {
	defer runtime.KeepAlive(r)
	var n, columns C.int64_t
	p := C.embed_result_f32(r.c, C.uint32_t(ask), &n, &columns)
	if p == nil {
		return nil
	}
	return append([]float32{}, unsafe.Slice((*float32)(unsafe.Pointer(p)), int(n*columns))...)
}

// Integers is a copy of an answer [n, columns]; nil where it was not asked for.
func (r *Result) Integers(ask uint32) []int32 {
	defer runtime.KeepAlive(r)
	var n, columns C.int64_t
	p := C.embed_result_i32(r.c, C.uint32_t(ask), &n, &columns)
	if p == nil {
		return nil
	}
	return append([]int32{}, unsafe.Slice((*int32)(unsafe.Pointer(p)), int(n*columns))...)
}

// rulesAndParams are the arrays that C wants: pointers of C's own memory, and numbers.
func rulesAndParams(n int64, rules []*Rules, params []SampleParams) ([]*C.embed_rules, []C.embed_sample_params, error) {
	if rules != nil && int64(len(rules)) != n {
		return nil, nil, refuse("%d rules for %d rows", len(rules), n)
	}
	if len(params) > 1 && int64(len(params)) != n {
		return nil, nil, refuse("%d params for %d rows", len(params), n)
	}
	cRules, cParams := make([]*C.embed_rules, len(rules)), make([]C.embed_sample_params, len(params))
	for i, r := range rules {
		if r != nil {
			cRules[i] = r.c
		}
	}
	for i, p := range params {
		cParams[i] = C.embed_sample_params{size: C.sizeof_embed_sample_params, seed: C.uint64_t(p.Seed), position: C.int64_t(p.Position),
			temperature: C.double(p.Temperature), top_p: C.double(p.TopP), min_p: C.double(p.MinP), typical_p: C.double(p.TypicalP),
			top_n_sigma: C.double(p.TopNSigma), repetition: C.double(p.Repetition), frequency: C.double(p.Frequency),
			presence: C.double(p.Presence), top_k: C.int32_t(p.TopK), last_n: C.int32_t(p.LastN), min_keep: C.int32_t(p.MinKeep),
			order: C.embed_sample_order(p.Order)}
	}
	return cRules, cParams, nil
}

// Sweep answers several questions about rows of hidden [*, dim] in one sweep of the table.
func (h *Head) Sweep(ctx *Context, hidden []float32, q *Request, into *Result) error {
	all, err := h.rows(hidden)
	if err != nil {
		return err
	}
	n := all
	if q.Rows != nil {
		n = int64(len(q.Rows))
		for _, row := range q.Rows {
			if row < 0 || row >= all {
				return refuse("row %d is none of the %d hidden rows", row, all)
			}
		}
	}
	if q.Targets != nil && int64(len(q.Targets)) != n {
		return refuse("%d targets for %d rows", len(q.Targets), n)
	}
	if int(int32(q.K)) != q.K {
		return refuse("k is %d", q.K)
	}
	rules, params, err := rulesAndParams(n, q.Rules, q.Params)
	if err != nil {
		return err
	}
	opts := C.embed_sweep_options{size: C.sizeof_embed_sweep_options, ask: C.uint32_t(q.Ask), k: C.int32_t(q.K)}
	if q.Processed {
		opts.flags |= C.EMBED_SWEEP_PROCESSED
	}
	defer runtime.KeepAlive(h)
	defer runtime.KeepAlive(ctx)
	defer runtime.KeepAlive(q)
	defer runtime.KeepAlive(into)
	return ctx.check(C.go_sweep_f32(ctx.c, h.c, floats(hidden), ids64(q.Rows), C.int64_t(n), ids32(q.Targets), ptr(rules), ptr(params),
		C.int64_t(len(params)), &opts, into.c))
}

// Sample draws a token for each row of hidden [n, dim]: ids and log-probabilities.
func (h *Head) Sample(ctx *Context, hidden []float32, rules []*Rules, params []SampleParams) ([]int32, []float32, error) {
	n, err := h.rows(hidden)
	if err != nil {
		return nil, nil, err
	}
	cRules, cParams, err := rulesAndParams(n, rules, params)
	if err != nil {
		return nil, nil, err
	}
	ids, logprobs := make([]int32, n), make([]float32, n)
	defer runtime.KeepAlive(h)
	defer runtime.KeepAlive(ctx)
	defer runtime.KeepAlive(rules)
	return ids, logprobs, ctx.check(C.go_sample_f32(ctx.c, h.c, floats(hidden), C.int64_t(n), ptr(cRules), ptr(cParams), C.int64_t(len(cParams)),
		ids32(ids), floats(logprobs)))
}
