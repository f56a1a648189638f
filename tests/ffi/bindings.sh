#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bindings.sh check ROOT SCRATCH: Rust's extern declarations, structs and constants are those of the headers, to the last type. (Go's are
# the headers themselves, and Python's test compares its own.)
# bindings.sh write ROOT SCRATCH: writes Rust's anew.
set -eu
do=$1 root=$2 scratch=$3
mkdir -p "$scratch"
committed=$root/tests/ffi/rust/libembed-sys/src/bindings.rs
awk -f "$root/tests/abi/api.awk" "$root"/include/embed/*.h >"$scratch/api"
# Types first, so that a reader and the generator know them before they are used.
for kind in alias opaque callback const; do grep "^$kind	" "$scratch/api" || :; done >"$scratch/ordered"
grep -E '^(struct|field|function)	' "$scratch/api" >>"$scratch/ordered"
awk -f "$root/tests/ffi/rust/bindings.awk" "$scratch/ordered" >"$scratch/bindings.rs"
if [ "$do" = write ]; then cp "$scratch/bindings.rs" "$committed" && exit 0; fi

failed=0
diff "$committed" "$scratch/bindings.rs" || { echo "< committed, > of the headers: sh tests/ffi/bindings.sh write ROOT SCRATCH" && failed=1; }
exit $failed
