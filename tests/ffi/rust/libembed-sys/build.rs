// SPDX-License-Identifier: BSD-3-Clause
//! Finds the installed libembed through pkg-config. EMBED_STATIC=1 links libembed.a and what it needs.
use std::process::Command;

/// pkg-config's words: separated by blanks, which a backslash keeps inside of a word.
fn words(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut letters = line.trim().chars();
    while let Some(c) = letters.next() {
        match c {
            '\\' => all.last_mut().unwrap().extend(letters.next()),
            c if c.is_whitespace() => all.push(String::new()),
            c => all.last_mut().unwrap().push(c),
        }
    }
    all.retain(|word| !word.is_empty());
    all
}

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rerun-if-env-changed=EMBED_STATIC");
    let wants_static = std::env::var_os("EMBED_STATIC").map_or(false, |v| v == "1");
    let mut command = Command::new("pkg-config");
    command.args(["--libs", "libembed >= 0.1"]);
    if wants_static {
        command.arg("--static");
    }
    let answer = command.output().expect("pkg-config does not run");
    if !answer.status.success() {
        panic!("pkg-config does not know libembed: {}", String::from_utf8_lossy(&answer.stderr));
    }
    for word in words(&String::from_utf8(answer.stdout).expect("pkg-config speaks UTF-8")) {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if word == "-lembed" {
            println!("cargo:rustc-link-lib={}embed", if wants_static { "static=" } else { "dylib=" });
        } else if word == "-lgfortran" {
            // openblas.pc names it for OpenBLAS's own archive; the shared one brings what it needs.
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
    let folder = Command::new("pkg-config").args(["--variable=libdir", "libembed"]).output().expect("pkg-config does not run");
    // A link argument given here would not reach the crates above: they read DEP_EMBED_LIBDIR.
    println!("cargo:libdir={}", words(&String::from_utf8_lossy(&folder.stdout)).join(" "));
}
