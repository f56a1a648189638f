// SPDX-License-Identifier: BSD-3-Clause
//! cargo run --example nearest FILE WORD: the word's best tokens under the tied head.
use libembed::{Context, File, Head, Result};

fn run(path: &str, word: &str) -> Result<()> {
    let mut ctx = Context::new()?;
    let file = File::open(&mut ctx, path, &Default::default())?;
    let table = file.table(&mut ctx, None)?;
    let id = file.token_id(&mut ctx, word.as_bytes())?; // token -> id
    let row = table.lookup(&mut ctx, &[id as i32])?; // id -> vector
    let head = Head::new(&mut ctx, &table, None, &Default::default())?; // tied: the same table
    let best = head.topk(&mut ctx, &row, 3, &Default::default())?; // vector -> tokens
    for (id, logit) in best.ids.iter().zip(&best.logits) {
        println!("{} {logit:.4}", String::from_utf8_lossy(file.token(i64::from(*id)).unwrap_or(b"?")));
    }
    Ok(())
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let done = match &args[1..] {
        [path, word] => run(path, word),
        _ => {
            eprintln!("usage: nearest FILE WORD");
            std::process::exit(2);
        }
    };
    if let Err(error) = done {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
