#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# comments.sh ROOT: the comment of every public function has what the template demands (comments.awk says what).
set -eu
exec awk -f "$1/tests/abi/comments.awk" "$1"/include/embed/*.h
