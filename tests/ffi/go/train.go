// SPDX-License-Identifier: BSD-3-Clause

package libembed

// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Reduction is what the loss of a step is, where its upstream gradient is not given.
type Reduction int32

// The reductions. Mean is the default.
const (
	Mean = Reduction(C.EMBED_REDUCE_MEAN)
	Sum  = Reduction(C.EMBED_REDUCE_SUM)
)

// LossOptions; the zero value is all default.
type LossOptions struct {
	LabelSmoothing, ZLoss float64
	SmoothOthers          bool // Megatron's smoothing
	Reduction             Reduction
	IgnoreIndex           *int32    // nil: -100
	ClassWeight           []float32 // [vocab] or nil
}

// c gives the options and what frees the memory of C that they point to.
func (o *LossOptions) c(vocab int64) (*C.embed_loss_options, func(), error) {
	if o == nil {
		return nil, func() {}, nil
	}
	opts := &C.embed_loss_options{size: C.sizeof_embed_loss_options, label_smoothing: C.double(o.LabelSmoothing), z_loss: C.double(o.ZLoss)}
	opts.reduction = C.embed_reduction(o.Reduction)
	if o.SmoothOthers {
		opts.flags |= C.EMBED_LOSS_SMOOTH_OTHERS
	}
	if o.IgnoreIndex != nil {
		opts.flags |= C.EMBED_LOSS_IGNORE_INDEX
		opts.ignore_index = C.int32_t(*o.IgnoreIndex)
	}
	if o.ClassWeight == nil {
		return opts, func() {}, nil
	}
	if err := length("class weights", len(o.ClassWeight), 1, vocab); err != nil {
		return nil, nil, err
	}
	bytes := C.size_t(len(o.ClassWeight)+1) * C.sizeof_float
	memory := C.malloc(bytes) // never nil: cgo's malloc
	copy(unsafe.Slice((*float32)(memory), len(o.ClassWeight)), o.ClassWeight)
	opts.class_weight = (*C.float)(memory)
	return opts, func() { C.free(memory) }, nil
}

// Grad is the gradient of a table: sparse (only rows that got some) or dense (every row, and a head's bias).
type Grad struct {
	c   *C.embed_grad
	dim int64
}

func newGrad(ctx *Context, status C.embed_status, c *C.embed_grad, dim int64) (*Grad, error) {
	if err := ctx.check(status); err != nil {
		return nil, err
	}
	g := &Grad{c, dim}
	runtime.SetFinalizer(g, (*Grad).Close)
	return g, nil
}

// NewGrad makes an empty sparse gradient.
func NewGrad(ctx *Context, dim int64) (*Grad, error) {
	var c *C.embed_grad
	status := C.embed_grad_create(ctx.c, C.int64_t(dim), &c)
	defer runtime.KeepAlive(ctx)
	return newGrad(ctx, status, c, dim)
}

// NewDenseGrad makes a gradient of zeros, as a head needs it.
func NewDenseGrad(ctx *Context, rows, dim int64) (*Grad, error) {
	var c *C.embed_grad
	status := C.embed_grad_create_dense(ctx.c, C.int64_t(rows), C.int64_t(dim), nil, 0, &c)
	defer runtime.KeepAlive(ctx)
	return newGrad(ctx, status, c, dim)
}

// Close frees it.
func (g *Grad) Close() {
	C.embed_grad_release(g.c)
	g.c = nil
	runtime.SetFinalizer(g, nil)
}

// Clear makes it zero, or empty, again.
func (g *Grad) Clear() { C.embed_grad_clear(g.c); runtime.KeepAlive(g) }

// Rows is how many rows have gradient, or all of a dense one.
func (g *Grad) Rows() int64 { defer runtime.KeepAlive(g); return int64(C.embed_grad_rows(g.c)) }

// IDs are the rows, ascending; nil for a dense one.
func (g *Grad) IDs() []int64 {
	defer runtime.KeepAlive(g)
	ids := C.embed_grad_ids(g.c)
	if ids == nil || g.Rows() == 0 {
		return nil
	}
	return append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(ids)), g.Rows())...)
}

// Values are the rows' gradients [Rows, dim], a copy.
func (g *Grad) Values() []float32 {
	defer runtime.KeepAlive(g)
	values := C.embed_grad_values(g.c)
	if values == nil || g.Rows()*g.dim == 0 {
		return nil
	}
	return append([]float32(nil), unsafe.Slice((*float32)(unsafe.Pointer(values)), g.Rows()*g.dim)...)
}

// AddLookup adds the gradient of a lookup made with the same options: dOut [n, dim].
func (g *Grad) AddLookup(ctx *Context, vocab int64, ids []int64, dOut []float32, o *LookupOptions) error {
	if err := length("dOut", len(dOut), int64(len(ids)), g.dim); err != nil {
		return err
	}
	defer runtime.KeepAlive(g)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.go_lookup_backward_f32(ctx.c, g.c, C.int64_t(vocab), ids64(ids), C.int64_t(len(ids)), floats(dOut), o.c()))
}

// TrainStep is what CrossEntropyTrain found.
type TrainStep struct {
	Loss    []float32 // [n], unreduced
	Count   int64     // of targets that are not ignored
	DHidden []float32 // [n, dim]
}

// CrossEntropyTrain is forward and backward at once: losses, the gradient of hidden [n, dim], and the head's, added to g (nil: none).
func (h *Head) CrossEntropyTrain(ctx *Context, hidden []float32, targets []int32, g *Grad, o *LossOptions) (*TrainStep, error) {
	n, err := h.rows(hidden)
	if err == nil {
		err = length("targets", len(targets), n, 1)
	}
	if err != nil {
		return nil, err
	}
	opts, free, err := o.c(h.Vocab())
	if err != nil {
		return nil, err
	}
	defer free()
	out := &TrainStep{make([]float32, n), 0, make([]float32, len(hidden))}
	var count C.int64_t
	var grad *C.embed_grad
	if g != nil {
		grad = g.c
	}
	defer runtime.KeepAlive(h)
	defer runtime.KeepAlive(g)
	defer runtime.KeepAlive(ctx)
	status := C.go_cross_entropy_train_f32(ctx.c, h.c, floats(hidden), C.int64_t(n), ids32(targets), floats(out.Loss), &count, floats(out.DHidden), grad, opts)
	if err := ctx.check(status); err != nil {
		return nil, err
	}
	out.Count = int64(count)
	return out, nil
}

// OptimizerKind is a rule by which a table learns. Newer libraries may have more.
type OptimizerKind int32

// The kinds.
const (
	SGD           = OptimizerKind(C.EMBED_OPTIM_SGD)
	Adagrad       = OptimizerKind(C.EMBED_OPTIM_ADAGRAD)
	AdagradRow    = OptimizerKind(C.EMBED_OPTIM_ADAGRAD_ROW)
	AdamSparse    = OptimizerKind(C.EMBED_OPTIM_ADAM_SPARSE)
	AdamW         = OptimizerKind(C.EMBED_OPTIM_ADAMW)
	AdamWDeferred = OptimizerKind(C.EMBED_OPTIM_ADAMW_DEFERRED)
)

// OptimizerOptions; a number of 0 is the kind's default.
type OptimizerOptions struct {
	Kind                                                      OptimizerKind
	LR, Beta1, Beta2, Epsilon, Momentum, WeightDecay, MaxNorm float64
}

// Optimizer is the state of one table.
type Optimizer struct{ c *C.embed_optimizer }

// NewOptimizer makes the state of t, all zeros.
func NewOptimizer(ctx *Context, t *Table, o OptimizerOptions) (*Optimizer, error) {
	opts := &C.embed_optimizer_options{
		size: C.sizeof_embed_optimizer_options, kind: C.embed_optimizer_kind(o.Kind), lr: C.double(o.LR), beta1: C.double(o.Beta1),
		beta2: C.double(o.Beta2), epsilon: C.double(o.Epsilon), momentum: C.double(o.Momentum), weight_decay: C.double(o.WeightDecay),
		max_norm: C.double(o.MaxNorm),
	}
	made := new(Optimizer)
	status := C.embed_optimizer_create(ctx.c, t.c, opts, &made.c)
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	if err := ctx.check(status); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(made, (*Optimizer).Close)
	return made, nil
}

// Close frees the state.
func (o *Optimizer) Close() {
	C.embed_optimizer_release(o.c)
	o.c = nil
	runtime.SetFinalizer(o, nil)
}

// Steps is how many were taken.
func (o *Optimizer) Steps() int64 {
	defer runtime.KeepAlive(o)
	return int64(C.embed_optimizer_steps(o.c))
}

// StepOptions; the zero value is all default.
type StepOptions struct {
	LR                     *float64 // nil: the optimiser's
	GradScale, MaxGradNorm float64  // 0: 1; off
	CheckFinite            bool     // an error instead of a step with a gradient that is not finite
}

// Step moves t by g. Nobody may read the table meanwhile.
func (o *Optimizer) Step(ctx *Context, t *Table, g *Grad, s *StepOptions) error {
	opts := &C.embed_step_options{size: C.sizeof_embed_step_options}
	if s != nil {
		opts.grad_scale, opts.max_grad_norm = C.double(s.GradScale), C.double(s.MaxGradNorm)
		if s.LR != nil {
			opts.flags |= C.EMBED_STEP_LR
			opts.lr = C.double(*s.LR)
		}
		if s.CheckFinite {
			opts.flags |= C.EMBED_STEP_CHECK_FINITE
		}
	}
	defer runtime.KeepAlive(o)
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(g)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.embed_optimizer_step(ctx.c, o.c, t.c, g.c, opts))
}

// Touch brings these rows of a deferred kind up to date before they are read; nil: all.
func (o *Optimizer) Touch(ctx *Context, t *Table, ids []int64) error {
	if ids != nil && len(ids) == 0 {
		return nil // C takes NULL for all
	}
	defer runtime.KeepAlive(o)
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.embed_optimizer_touch(ctx.c, o.c, t.c, ids64(ids), C.int64_t(len(ids))))
}
