// SPDX-License-Identifier: BSD-3-Clause

package libembed

// #include "shim.h"
import "C"

import "runtime"

// Head is a table seen from the output side. Tied means the table that lookups use.
type Head struct {
	c     *C.embed_head
	table *Table // held; nil for the head of a file
}

// HeadOptions; the zero value is all default (of a file's head: the file's).
type HeadOptions struct{ LogitScale, LogitSoftcap float32 }

func (o *HeadOptions) c() *C.embed_head_options {
	opts := &C.embed_head_options{size: C.sizeof_embed_head_options}
	if o != nil {
		opts.logit_scale, opts.logit_softcap = C.float(o.LogitScale), C.float(o.LogitSoftcap)
	}
	return opts
}

func newHead(ctx *Context, status C.embed_status, c *C.embed_head, table *Table) (*Head, error) {
	if err := ctx.check(status); err != nil {
		return nil, err
	}
	h := &Head{c, table}
	runtime.SetFinalizer(h, (*Head).Close)
	return h, nil
}

// NewHead makes a head over t; bias [vocab] is copied and may be nil.
func NewHead(ctx *Context, t *Table, bias []float32, o *HeadOptions) (*Head, error) {
	if bias != nil {
		if err := length("bias", len(bias), 1, t.Vocab()); err != nil {
			return nil, err
		}
	}
	var c *C.embed_head
	status := C.embed_head_create(ctx.c, t.c, floats(bias), o.c(), &c)
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return newHead(ctx, status, c, t)
}

// Close lets go of the head and its table.
func (h *Head) Close() {
	C.embed_head_release(h.c)
	h.c, h.table = nil, nil
	runtime.SetFinalizer(h, nil)
}

// Table is the table that it was made over, nil for a file's head.
func (h *Head) Table() *Table { return h.table }

// IsTied says whether it reads the storage of t.
func (h *Head) IsTied(t *Table) bool {
	defer runtime.KeepAlive(h)
	defer runtime.KeepAlive(t)
	return C.embed_head_is_tied(h.c, t.c) == 1
}

// Vocab is the width of a row of logits.
func (h *Head) Vocab() int64 { defer runtime.KeepAlive(h); return int64(C.embed_head_vocab(h.c)) }

// Dim is the width of a hidden row.
func (h *Head) Dim() int64 { defer runtime.KeepAlive(h); return int64(C.embed_head_dim(h.c)) }

func (h *Head) rows(hidden []float32) (int64, error) {
	dim := h.Dim()
	if dim < 1 || int64(len(hidden))%dim != 0 {
		return 0, refuse("%d elements are no whole hidden rows of %d", len(hidden), dim)
	}
	return int64(len(hidden)) / dim, nil
}

// Logits gives every logit of hidden [n, dim]: [n, vocab].
func (h *Head) Logits(ctx *Context, hidden []float32) ([]float32, error) {
	n, err := h.rows(hidden)
	if err != nil {
		return nil, err
	}
	out := make([]float32, n*h.Vocab())
	defer runtime.KeepAlive(h)
	defer runtime.KeepAlive(ctx)
	return out, ctx.check(C.go_logits_f32(ctx.c, h.c, floats(hidden), C.int64_t(n), floats(out), nil))
}

// LogitsAt gives the logits of these ids alone: [n, m].
func (h *Head) LogitsAt(ctx *Context, hidden []float32, ids []int32) ([]float32, error) {
	n, err := h.rows(hidden)
	if err != nil {
		return nil, err
	}
	out := make([]float32, int(n)*len(ids))
	defer runtime.KeepAlive(h)
	defer runtime.KeepAlive(ctx)
	return out, ctx.check(C.go_logits_at_f32(ctx.c, h.c, floats(hidden), C.int64_t(n), ids32(ids), C.int64_t(len(ids)), floats(out), nil))
}

// TopK is the best k of each hidden row, best first; a row with fewer ends in id -1.
type TopK struct {
	IDs       []int32   // [n, k]
	Logits    []float32 // [n, k]
	LogSumExp []float32 // [n], over all logits
	Count     []int32   // [n]
}

// TopK finds the best k of hidden [n, dim].
func (h *Head) TopK(ctx *Context, hidden []float32, k int) (*TopK, error) {
	n, err := h.rows(hidden)
	if err != nil {
		return nil, err
	}
	if k < 0 || int64(k) > h.Vocab() {
		return nil, refuse("k is %d, the vocabulary has %d rows", k, h.Vocab())
	}
	out := &TopK{make([]int32, int(n)*k), make([]float32, int(n)*k), make([]float32, n), make([]int32, n)}
	defer runtime.KeepAlive(h)
	defer runtime.KeepAlive(ctx)
	status := C.go_topk_f32(ctx.c, h.c, floats(hidden), C.int64_t(n), C.int32_t(k), ids32(out.IDs), floats(out.Logits), floats(out.LogSumExp), ids32(out.Count), nil)
	return out, ctx.check(status)
}
