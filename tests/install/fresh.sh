#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fresh.sh BUILD PREFIX: installs into a folder that holds nothing of an earlier installation.
set -eu
rm -rf "$2"
exec cmake --install "$1" --prefix "$2"
