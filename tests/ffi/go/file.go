// SPDX-License-Identifier: BSD-3-Clause

package libembed

// #include "shim.h"
import "C"

import (
	"runtime"
	"strings"
	"unsafe"
)

// cString refuses what C would read differently.
func cString(what, s string) (*C.char, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, refuse("%s holds a NUL", what)
	}
	return C.CString(s), nil
}

// File is an opened file, proved whole; it may be shared by any number of goroutines.
type File struct{ c *C.embed_file }

// FileOptions; the zero value is all default.
type FileOptions struct {
	Format string // a format's name; "" = by content
	Vocab  int64  // rows expected; 0 = any
	Dim    int64  // columns of headerless text; 0 = detect
	Copy   bool   // read instead of map
}

// Open opens a file by its content. A mapped file must not be cut short while it is open: replace model files by rename.
func Open(ctx *Context, path string, o *FileOptions) (*File, error) {
	cPath, err := cString("the path", path)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(cPath))
	opts := (*C.embed_file_options)(C.calloc(1, C.sizeof_embed_file_options)) // C's memory: it holds pointers
	defer C.free(unsafe.Pointer(opts))
	opts.size = C.sizeof_embed_file_options
	if o != nil {
		opts.vocab, opts.dim = C.int64_t(o.Vocab), C.int64_t(o.Dim)
		if o.Copy {
			opts.flags |= C.EMBED_FILE_COPY
		}
		if o.Format != "" {
			format, err := cString("the format", o.Format)
			if err != nil {
				return nil, err
			}
			defer C.free(unsafe.Pointer(format))
			opts.format = format
		}
	}
	f := new(File)
	defer runtime.KeepAlive(ctx)
	if err := ctx.check(C.embed_file_open(ctx.c, cPath, opts, &f.c)); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(f, (*File).Close)
	return f, nil
}

// Close lets go of the file; tables and heads made from it keep what they need.
func (f *File) Close() {
	C.embed_file_release(f.c)
	f.c = nil
	runtime.SetFinalizer(f, nil)
}

// Format is the format's name.
func (f *File) Format() string {
	defer runtime.KeepAlive(f)
	return C.GoString(C.embed_file_format(f.c))
}

// Notes say what is odd about it, and how roles were decided.
func (f *File) Notes() string { defer runtime.KeepAlive(f); return C.GoString(C.embed_file_notes(f.c)) }

// Count is the number of tensors.
func (f *File) Count() int64 { defer runtime.KeepAlive(f); return int64(C.embed_file_count(f.c)) }

// Tensor is one tensor of a file.
type Tensor struct {
	Name, Stored string // the file's names of it and of its type
	Shape        []int64
	DType        DType
}

// Tensor i.
func (f *File) Tensor(ctx *Context, i int64) (*Tensor, error) {
	info := C.embed_tensor_info{size: C.sizeof_embed_tensor_info}
	defer runtime.KeepAlive(f)
	defer runtime.KeepAlive(ctx)
	if err := ctx.check(C.embed_file_tensor(ctx.c, f.c, C.int64_t(i), &info)); err != nil {
		return nil, err
	}
	t := &Tensor{Name: C.GoString(info.name), Stored: C.GoString(info.stored), DType: DType(info.dtype)}
	for j := 0; j < int(info.rank); j++ {
		t.Shape = append(t.Shape, int64(info.shape[j]))
	}
	return t, nil
}

// Table opens tensor i read-only; -1 is the token table.
func (f *File) Table(ctx *Context, i int64) (*Table, error) {
	var c *C.embed_table
	status := C.embed_file_table(ctx.c, f.c, C.int64_t(i), &c)
	defer runtime.KeepAlive(f)
	defer runtime.KeepAlive(ctx)
	return newTable(ctx, status, c)
}

// Head opens the output side.
func (f *File) Head(ctx *Context, o *HeadOptions) (*Head, error) {
	var c *C.embed_head
	status := C.embed_file_head(ctx.c, f.c, nil, o.c(), &c)
	defer runtime.KeepAlive(f)
	defer runtime.KeepAlive(ctx)
	return newHead(ctx, status, c, nil)
}

// Token is the token of a row, bytes that are not always UTF-8.
func (f *File) Token(id int64) (string, bool) {
	var bytes C.int64_t
	defer runtime.KeepAlive(f)
	c := C.embed_file_token(f.c, C.int64_t(id), &bytes)
	if c == nil {
		return "", false
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(c)), int64(bytes))), true
}

// TokenID is the row of a token.
func (f *File) TokenID(ctx *Context, token string) (int64, error) {
	c := C.CString(token)
	defer C.free(unsafe.Pointer(c))
	var id C.int64_t
	defer runtime.KeepAlive(f)
	defer runtime.KeepAlive(ctx)
	if err := ctx.check(C.embed_file_token_id(ctx.c, f.c, c, C.int64_t(len(token)), &id)); err != nil {
		return -1, err
	}
	return int64(id), nil
}

// Writer is a file to be: nothing has its name before Commit.
type Writer struct {
	c      *C.embed_writer
	tables []*Table // read at Commit
}

// NewWriter takes the format from what the path ends in.
func NewWriter(ctx *Context, path string) (*Writer, error) {
	cPath, err := cString("the path", path)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(cPath))
	w := new(Writer)
	defer runtime.KeepAlive(ctx)
	if err := ctx.check(C.embed_writer_create(ctx.c, cPath, nil, &w.c)); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(w, (*Writer).Close)
	return w, nil
}

// Close lets go of the writer; without Commit nothing is left.
func (w *Writer) Close() {
	C.embed_writer_release(w.c)
	w.c, w.tables = nil, nil
	runtime.SetFinalizer(w, nil)
}

// Table adds a table as it is stored.
func (w *Writer) Table(ctx *Context, name string, t *Table) error {
	cName, err := cString("the name", name)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(cName))
	w.tables = append(w.tables, t)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.embed_writer_table(ctx.c, w.c, cName, t.c, nil))
}

// Token names a row.
func (w *Writer) Token(ctx *Context, id int64, token string) error {
	c := C.CString(token)
	defer C.free(unsafe.Pointer(c))
	defer runtime.KeepAlive(w)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.embed_writer_token(ctx.c, w.c, C.int64_t(id), c, C.int64_t(len(token))))
}

// Commit writes everything, then gives it its name.
func (w *Writer) Commit(ctx *Context) error {
	defer runtime.KeepAlive(w)
	defer runtime.KeepAlive(ctx)
	return ctx.check(C.embed_writer_commit(ctx.c, w.c))
}
