// SPDX-License-Identifier: BSD-3-Clause

package libembed

// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// DType is how rows are stored. Newer libraries may have more.
type DType int32

// The dtypes that vectors may have, and some that tables may.
const (
	F32     = DType(C.EMBED_F32)
	F16     = DType(C.EMBED_F16)
	BF16    = DType(C.EMBED_BF16)
	Int8Row = DType(C.EMBED_I8_ROW)
)

func (t DType) String() string { return C.GoString(C.embed_dtype_name(C.embed_dtype(t))) }

// FindDType finds a dtype by its name.
func FindDType(name string) (DType, error) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	if t := C.embed_dtype_find(c); t != C.EMBED_DTYPE_NONE {
		return DType(t), nil
	}
	return 0, &Error{ErrNotFound, -1, "no dtype " + name}
}

// Table is a matrix [rows, dim] in memory of C: C must not keep pointers into Go's.
type Table struct{ c *C.embed_table }

func newTable(ctx *Context, status C.embed_status, c *C.embed_table) (*Table, error) {
	if err := ctx.check(status); err != nil {
		return nil, err
	}
	t := &Table{c}
	runtime.SetFinalizer(t, (*Table).Close)
	return t, nil
}

func tableOptions(dtype DType) *C.embed_table_options {
	return &C.embed_table_options{size: C.sizeof_embed_table_options, dtype: C.embed_dtype(dtype)}
}

// NewTable makes a table of zeros.
func NewTable(ctx *Context, rows, dim int64, dtype DType) (*Table, error) {
	var c *C.embed_table
	status := C.embed_table_create(ctx.c, C.int64_t(rows), C.int64_t(dim), tableOptions(dtype), &c)
	defer runtime.KeepAlive(ctx)
	return newTable(ctx, status, c)
}

// TableOf makes a table of floats with these numbers, which are copied.
func TableOf(ctx *Context, numbers []float32, rows, dim int64) (*Table, error) {
	if err := length("numbers", len(numbers), rows, dim); err != nil {
		return nil, err
	}
	t, err := NewTable(ctx, rows, dim, F32)
	if err == nil && rows > 0 {
		copy(t.Floats(), numbers)
	}
	return t, err
}

// Close lets go of the table; heads over it keep it.
func (t *Table) Close() {
	C.embed_table_release(t.c)
	t.c = nil
	runtime.SetFinalizer(t, nil)
}

// Convert gives the same rows in another dtype.
func (t *Table) Convert(ctx *Context, dtype DType) (*Table, error) {
	var c *C.embed_table
	status := C.embed_table_convert(ctx.c, t.c, tableOptions(dtype), &c)
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return newTable(ctx, status, c)
}

// InitNormal fills the table with normal numbers that depend on seed, row and column alone. Nobody may read it meanwhile.
func (t *Table) InitNormal(ctx *Context, scale float32, seed uint64) error {
	opts := C.embed_init_options{size: C.sizeof_embed_init_options, kind: C.EMBED_INIT_NORMAL, scale: C.float(scale), seed: C.uint64_t(seed)}
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.embed_table_init(ctx.c, t.c, &opts))
}

// Rows, padding included.
func (t *Table) Rows() int64 { defer runtime.KeepAlive(t); return int64(C.embed_table_rows(t.c)) }

// Vocab is the number of valid ids.
func (t *Table) Vocab() int64 { defer runtime.KeepAlive(t); return int64(C.embed_table_vocab(t.c)) }

// Dim is the number of columns.
func (t *Table) Dim() int64 { defer runtime.KeepAlive(t); return int64(C.embed_table_dim(t.c)) }

// RowBytes is the distance between rows.
func (t *Table) RowBytes() int64 {
	defer runtime.KeepAlive(t)
	return int64(C.embed_table_row_bytes(t.c))
}

// DType is how rows are stored.
func (t *Table) DType() DType { defer runtime.KeepAlive(t); return DType(C.embed_table_dtype(t.c)) }

// Floats is the table's own memory where that is dense floats it may write, else nil. It is valid until Close; keep t alive.
func (t *Table) Floats() []float32 {
	defer runtime.KeepAlive(t)
	data := C.embed_table_mutable_data(t.c)
	if data == nil || t.DType() != F32 || t.RowBytes() != 4*t.Dim() || t.Rows() == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(data), t.Rows()*t.Dim())
}

// Changed says that Floats were written.
func (t *Table) Changed() { C.embed_table_changed(t.c); runtime.KeepAlive(t) }

// GetRows reads stored rows, padding too, into out [n, dim].
func (t *Table) GetRows(ctx *Context, ids []int64, out []float32) error {
	if err := length("out", len(out), int64(len(ids)), t.Dim()); err != nil {
		return err
	}
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.go_get_rows_f32(ctx.c, t.c, ids64(ids), C.int64_t(len(ids)), floats(out)))
}

// SetRows stores rows [n, dim]. Nobody may read the table meanwhile.
func (t *Table) SetRows(ctx *Context, ids []int64, rows []float32) error {
	if err := length("rows", len(rows), int64(len(ids)), t.Dim()); err != nil {
		return err
	}
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.go_set_rows_f32(ctx.c, t.c, ids64(ids), C.int64_t(len(ids)), floats(rows)))
}

// OOV is what an id outside of the vocabulary gives.
type OOV int32

// The policies.
const (
	OOVError = OOV(C.EMBED_OOV_ERROR)
	OOVUnk   = OOV(C.EMBED_OOV_UNK)
	OOVZero  = OOV(C.EMBED_OOV_ZERO)
	OOVClamp = OOV(C.EMBED_OOV_CLAMP)
	OOVHash  = OOV(C.EMBED_OOV_HASH)
)

// LookupOptions; the zero value is all default.
type LookupOptions struct {
	Add       bool // out += row
	Scale     float32
	MaxNorm   float32
	OOV       OOV
	UnkID     int64
	PaddingID *int64
}

func (o *LookupOptions) c() *C.embed_lookup_options {
	opts := &C.embed_lookup_options{size: C.sizeof_embed_lookup_options}
	if o == nil {
		return opts
	}
	opts.scale, opts.max_norm, opts.oov, opts.unk_id = C.float(o.Scale), C.float(o.MaxNorm), C.embed_oov_policy(o.OOV), C.int64_t(o.UnkID)
	if o.Add {
		opts.flags |= C.EMBED_LOOKUP_ADD
	}
	if o.PaddingID != nil {
		opts.flags |= C.EMBED_LOOKUP_PADDING
		opts.padding_id = C.int64_t(*o.PaddingID)
	}
	return opts
}

// Lookup writes the rows that ids name into out [n, dim].
func (t *Table) Lookup(ctx *Context, ids []int32, out []float32, o *LookupOptions) error {
	if err := length("out", len(out), int64(len(ids)), t.Dim()); err != nil {
		return err
	}
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.go_lookup_f32(ctx.c, t.c, ids32(ids), C.int64_t(len(ids)), floats(out), o.c()))
}

// Lookup16 is Lookup into the bits of F16 or BF16.
func (t *Table) Lookup16(ctx *Context, ids []int32, out []uint16, dtype DType, o *LookupOptions) error {
	if dtype != F16 && dtype != BF16 {
		return refuse("%v has no 16 bits", dtype)
	}
	if err := length("out", len(out), int64(len(ids)), t.Dim()); err != nil {
		return err
	}
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.go_lookup_16(ctx.c, t.c, ids32(ids), C.int64_t(len(ids)), (*C.uint16_t)(unsafe.Pointer(ptr(out))), C.embed_dtype(dtype), o.c()))
}

// BagMode is how a bag's rows become one.
type BagMode int32

// The modes.
const (
	BagSum          = BagMode(C.EMBED_BAG_SUM)
	BagMean         = BagMode(C.EMBED_BAG_MEAN)
	BagWeightedMean = BagMode(C.EMBED_BAG_WEIGHTED_MEAN)
	BagSqrtN        = BagMode(C.EMBED_BAG_SQRT_N)
	BagMax          = BagMode(C.EMBED_BAG_MAX)
	BagMin          = BagMode(C.EMBED_BAG_MIN)
)

// Bag pools the rows of ids [offsets[b], offsets[b+1]) into out [bags, dim]; weights may be nil.
func (t *Table) Bag(ctx *Context, ids []int32, offsets []int64, weights, out []float32, mode BagMode) error {
	if len(offsets) == 0 {
		return refuse("offsets has no element, bags + 1 are needed")
	}
	if err := length("out", len(out), int64(len(offsets)-1), t.Dim()); err != nil {
		return err
	}
	if weights != nil && len(weights) != len(ids) {
		return refuse("%d weights for %d ids", len(weights), len(ids))
	}
	opts := C.embed_bag_options{size: C.sizeof_embed_bag_options, mode: C.embed_bag_mode(mode)}
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.go_bag_f32(ctx.c, t.c, ids32(ids), C.int64_t(len(ids)), ids64(offsets), C.int64_t(len(offsets)-1), floats(weights), floats(out), &opts))
}

// Mix mixes every row by weights [n, vocab] into out [n, dim]: one-hot rows give the lookup.
func (t *Table) Mix(ctx *Context, weights []float32, n int64, out []float32) error {
	if err := length("weights", len(weights), n, t.Vocab()); err != nil {
		return err
	}
	if err := length("out", len(out), n, t.Dim()); err != nil {
		return err
	}
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.embed_mix(ctx.c, t.c, floats(weights), C.int64_t(n), 0, floats(out), 0, nil))
}

// Norms gives the L2 norm of every row.
func (t *Table) Norms(ctx *Context) ([]float32, error) {
	vocab := t.Vocab()
	if vocab < 0 {
		return nil, refuse("the table is closed")
	}
	norms := make([]float32, vocab)
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return norms, ctx.check(C.embed_norms(ctx.c, t.c, floats(norms)))
}

// Nearest gives the k rows nearest by cosine to each query [n, dim], best first; a query with fewer ends in id -1.
func (t *Table) Nearest(ctx *Context, queries []float32, k int) (ids []int32, scores []float32, err error) {
	dim := t.Dim()
	if dim < 1 || int64(len(queries))%dim != 0 || k < 0 || int64(k) > t.Vocab() {
		return nil, nil, refuse("%d elements for queries of %d, k is %d", len(queries), dim, k)
	}
	n := len(queries) / int(dim)
	ids, scores = make([]int32, n*k), make([]float32, n*k)
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ids, scores, ctx.check(C.embed_nearest(ctx.c, t.c, floats(queries), C.int64_t(n), 0, C.int32_t(k), nil, 0, ids32(ids), floats(scores), nil, nil))
}

// Analogy says which rows d have a : b = c : d.
func (t *Table) Analogy(ctx *Context, a, b, c int32, k int) (ids []int32, scores []float32, err error) {
	if k < 0 || int64(k) > t.Vocab() {
		return nil, nil, refuse("k is %d", k)
	}
	abc := []int32{a, b, c}
	ids, scores = make([]int32, k), make([]float32, k)
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ids, scores, ctx.check(C.embed_analogy(ctx.c, t.c, ids32(abc), 1, C.int32_t(k), ids32(ids), floats(scores), nil, nil))
}
