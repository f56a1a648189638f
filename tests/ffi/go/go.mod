// SPDX-License-Identifier: BSD-3-Clause
module libembed

go 1.19
