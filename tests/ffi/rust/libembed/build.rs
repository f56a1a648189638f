// SPDX-License-Identifier: BSD-3-Clause
//! The tests and examples of this crate find the library where libembed-sys has found it. Programs further away use the
//! loader's own ways, or EMBED_STATIC=1.
fn main() {
    let folder = std::env::var("DEP_EMBED_LIBDIR").unwrap_or_default();
    for kind in ["tests", "examples"] {
        println!("cargo:rustc-link-arg-{kind}=-Wl,-rpath,{folder}");
    }
}
