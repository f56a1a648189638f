// SPDX-License-Identifier: BSD-3-Clause

// Package libembed is the vocabulary side of a language model, both ends: token ids become vectors, hidden vectors become
// tokens.
//
// A Context belongs to one goroutine at a time; tables, heads and files may be shared by any number of them. Close lets go of
// C's side and may be called again; a finaliser does it for what was forgotten.
package libembed

// #cgo pkg-config: libembed
// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Version of the loaded library: major, minor, patch.
func Version() (major, minor, patch int) {
	v := uint32(C.embed_version())
	return int(v >> 16), int(v >> 8 & 255), int(v & 255)
}

// ptr is the address of the first element, nil for none (unsafe.SliceData is Go 1.20).
func ptr[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

func floats(s []float32) *C.float { return (*C.float)(unsafe.Pointer(ptr(s))) }
func ids32(s []int32) *C.int32_t  { return (*C.int32_t)(unsafe.Pointer(ptr(s))) }
func ids64(s []int64) *C.int64_t  { return (*C.int64_t)(unsafe.Pointer(ptr(s))) }

// Pool is worker threads that contexts may share.
type Pool struct{ c *C.embed_pool }

// NewPool counts the calling thread; 0 = the CPUs that it may use.
func NewPool(threads int) (*Pool, error) {
	if int(int32(threads)) != threads {
		return nil, refuse("%d threads", threads)
	}
	p := new(Pool)
	if status := C.embed_pool_create(C.int32_t(threads), &p.c); status != C.EMBED_OK {
		return nil, &Error{Status(status), -1, "no pool of that many threads"}
	}
	runtime.SetFinalizer(p, (*Pool).Close)
	return p, nil
}

// Close lets go of the pool; contexts that were made with it keep it.
func (p *Pool) Close() {
	C.embed_pool_release(p.c)
	p.c = nil
	runtime.SetFinalizer(p, nil)
}

// ContextOptions is what a context is made with; the zero value is all default.
type ContextOptions struct {
	Pool         *Pool  // nil: the calling thread alone
	ISA          string // caps the instruction set: "scalar", "avx2", ...
	Reproducible bool   // bits that do not depend on the number of rows, threads or BLAS
	MaxScratch   int64  // bytes kept between calls; 0 = no bound
}

// Context is memory, threads, instruction set and the last error of one goroutine's calls.
type Context struct{ c *C.embed_context }

// NewContext copies the options; nil = all default.
func NewContext(o *ContextOptions) (*Context, error) {
	// C looks into this struct: it lives in C's memory, since it holds pointers.
	opts := (*C.embed_context_options)(C.calloc(1, C.sizeof_embed_context_options))
	why := (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(opts))
	defer C.free(unsafe.Pointer(why))
	opts.size = C.sizeof_embed_context_options
	opts.why, opts.why_bytes = why, 512
	if o != nil {
		if o.Pool != nil {
			opts.pool = o.Pool.c
		}
		if o.ISA != "" {
			isa := C.CString(o.ISA)
			defer C.free(unsafe.Pointer(isa))
			opts.isa = isa
		}
		if o.Reproducible {
			opts.flags |= C.EMBED_CONTEXT_REPRODUCIBLE
		}
		opts.max_scratch = C.int64_t(o.MaxScratch)
	}
	ctx := new(Context)
	status := C.embed_context_create(opts, &ctx.c)
	runtime.KeepAlive(o)
	if status != C.EMBED_OK {
		return nil, &Error{Status(status), -1, C.GoString(why)}
	}
	runtime.SetFinalizer(ctx, (*Context).Close)
	return ctx, nil
}

// Close frees the context. Tables and heads made with it live on.
func (c *Context) Close() {
	C.embed_context_release(c.c)
	c.c = nil
	runtime.SetFinalizer(c, nil)
}

// Trim gives back what is kept between calls.
func (c *Context) Trim() { C.embed_context_trim(c.c); runtime.KeepAlive(c) }

// ISA is the instruction set in use.
func (c *Context) ISA() string {
	defer runtime.KeepAlive(c)
	return C.GoString(C.embed_context_isa(c.c))
}

// ReplacedIDs is how many ids outside of the vocabulary the last lookup or bag replaced.
func (c *Context) ReplacedIDs() int64 {
	defer runtime.KeepAlive(c)
	return int64(C.embed_replaced_ids(c.c))
}
