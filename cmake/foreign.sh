#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# foreign.sh ARCHITECTURE FOLDER: unpacks cmocka of another Debian architecture into FOLDER. apt works on lists of its own
# there: the machine's packages, sources and architectures stay as they are, and no root is needed.
set -eu
architecture=$1
folder=$2
apt=$folder.apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$folder"
cd "$apt"
: >status
foreign() {
  apt-get -q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State::Lists="$apt/lists" \
    -o Dir::Cache="$apt/cache" -o Dir::State::status="$apt/status" -o APT::Sandbox::User= "$@"
}
foreign update || true # one broken list of several need not matter: the download decides
foreign download libcmocka0 libcmocka-dev
for package in ./*.deb; do dpkg -x "$package" "$folder"; done
