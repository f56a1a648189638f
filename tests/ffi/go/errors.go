// SPDX-License-Identifier: BSD-3-Clause

package libembed

// #include "shim.h"
import "C"

import "fmt"

// Status is what kind of failure it was. It is an error itself: errors.Is(err, libembed.ErrID).
type Status int32

// The kinds. Newer libraries may have more.
const (
	ErrArgument    = Status(C.EMBED_E_ARGUMENT)
	ErrMemory      = Status(C.EMBED_E_MEMORY)
	ErrID          = Status(C.EMBED_E_ID)
	ErrOption      = Status(C.EMBED_E_OPTION)
	ErrUnsupported = Status(C.EMBED_E_UNSUPPORTED)
	ErrFormat      = Status(C.EMBED_E_FORMAT)
	ErrIO          = Status(C.EMBED_E_IO)
	ErrNotFound    = Status(C.EMBED_E_NOT_FOUND)
	ErrReadOnly    = Status(C.EMBED_E_READ_ONLY)
	ErrOverflow    = Status(C.EMBED_E_OVERFLOW)
	ErrCancelled   = Status(C.EMBED_E_CANCELLED)
	ErrStale       = Status(C.EMBED_E_STALE)
	ErrMismatch    = Status(C.EMBED_E_MISMATCH)
	ErrCallback    = Status(C.EMBED_E_CALLBACK)
	ErrNonfinite   = Status(C.EMBED_E_NONFINITE)
)

// Error gives the constant's name.
func (s Status) Error() string { return C.GoString(C.embed_status_name(C.embed_status(s))) }

// Error says what went wrong, where, and the numbers.
type Error struct {
	Status Status
	At     int64 // which id, row or byte; -1 = none
	Text   string
}

func (e *Error) Error() string { return e.Status.Error() + ": " + e.Text }

// Unwrap lets errors.Is find the kind.
func (e *Error) Unwrap() error { return e.Status }

func refuse(format string, args ...any) error {
	return &Error{ErrArgument, -1, fmt.Sprintf(format, args...)}
}

func length(what string, got int, a, b int64) error {
	if a < 0 || b < 0 || (b > 0 && a > (1<<62)/b) {
		return &Error{ErrOverflow, -1, fmt.Sprintf("%s: %d * %d does not fit", what, a, b)}
	}
	if int64(got) != a*b {
		return refuse("%s has %d elements, %d are needed", what, got, a*b)
	}
	return nil
}

// check is the error of a status, with the context's text.
func (c *Context) check(status C.embed_status) error {
	if status == C.EMBED_OK {
		return nil
	}
	return &Error{Status(status), int64(C.embed_error_at(c.c)), C.GoString(C.embed_error_text(c.c))}
}
