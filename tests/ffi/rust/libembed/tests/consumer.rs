// SPDX-License-Identifier: BSD-3-Clause
//! What a Rust program does with the installed library. EMBED_TEST_DATA is the folder of the test data.
use libembed::constants::*;
use libembed::*;
use std::path::PathBuf;
use std::sync::Arc;

const ROWS: usize = 257;
const DIM: usize = 24;

fn glove() -> PathBuf {
    PathBuf::from(std::env::var_os("EMBED_TEST_DATA").expect("EMBED_TEST_DATA")).join("glove-2000x100.bin")
}

fn context(isa: Option<&str>) -> Context {
    Context::with(&ContextOptions { isa: isa.map(str::to_string), ..Default::default() }).unwrap()
}

fn random_table(ctx: &mut Context) -> Table<'static> {
    let mut table = Table::create(ctx, ROWS as i64, DIM as i64, &TableOptions::default()).unwrap();
    table.init(ctx, &InitOptions { kind: EMBED_INIT_NORMAL, scale: 1.0, seed: 5, ..Default::default() }).unwrap();
    table
}

#[test]
fn three_views_of_a_lookup_agree() {
    let (mut scalar, mut fast) = (context(Some("scalar")), context(None));
    let table = random_table(&mut fast);
    let ids: Vec<i32> = (0..64).map(|i| (i * 37) % ROWS as i32).collect();
    let mut one_hot = vec![0.0; ids.len() * ROWS];
    for (row, &id) in ids.iter().enumerate() {
        one_hot[row * ROWS + id as usize] = 1.0;
    }
    let want = table.lookup(&mut scalar, &ids).unwrap();
    assert_eq!(table.lookup(&mut fast, &ids).unwrap(), want);
    assert_eq!(table.mix(&mut fast, &one_hot, ids.len()).unwrap(), want);
    let all = table.as_f32().unwrap();
    assert_eq!(&want[..DIM], &all[ids[0] as usize * DIM..][..DIM]);
    assert_eq!(scalar.isa(), "scalar");
}

#[test]
fn a_tied_head_holds_its_table_and_sees_it_change() {
    let mut ctx = context(None);
    let table = random_table(&mut ctx);
    let mut head = Head::new(&mut ctx, table, None, &HeadOptions::default()).unwrap();
    assert!(head.is_tied(head.table()));
    let mut unit = vec![0.0; DIM];
    unit[3] = 1.0;
    let column: Vec<f32> = head.table().as_f32().unwrap().iter().skip(3).step_by(DIM).copied().collect();
    assert_eq!(head.logits(&mut ctx, &unit, &SweepOptions::default()).unwrap(), column);
    head.table_mut().set_rows(&mut ctx, &[9], &[100.0f32; DIM], &RowsOptions::default()).unwrap();
    let best = head.topk(&mut ctx, &unit, 2, &SweepOptions::default()).unwrap();
    assert_eq!((best.ids[0], best.logits[0], best.count[0]), (9, 100.0, 2));
    assert_eq!(head.logits_at(&mut ctx, &unit, &[9], &SweepOptions::default()).unwrap(), [100.0]);
}

#[test]
fn one_sweep_answers_several_questions() {
    let mut ctx = context(None);
    let table = random_table(&mut ctx);
    let head = Head::new(&mut ctx, &table, None, &HeadOptions::default()).unwrap();
    let hidden = table.as_f32().unwrap()[..8 * DIM].to_vec();
    let best = head.topk(&mut ctx, &hidden, 3, &SweepOptions::default()).unwrap();
    let targets: Vec<i32> = (0..8).map(|i| best.ids[i * 3 + i % 3]).collect();
    let mut answers = Answers::new(&mut ctx).unwrap();
    let ask = (EMBED_ASK_TOPK_IDS | EMBED_ASK_TOPK_LOGITS | EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TARGET_RANK | EMBED_ASK_TOKEN) as u32;
    let options = SweepOptions { k: 3, ask, ..Default::default() };
    head.sweep(&mut ctx, &hidden, &Request { targets: &targets, ..Default::default() }, &options, &mut answers).unwrap();
    assert_eq!(answers.integers(EMBED_ASK_TOPK_IDS as u32), Some(&best.ids[..]));
    assert_eq!(answers.floats(EMBED_ASK_TOPK_LOGITS as u32), Some(&best.logits[..]));
    assert_eq!(answers.floats(EMBED_ASK_ENTROPY as u32), None);
    assert_eq!(answers.integers(EMBED_ASK_TARGET_RANK as u32).unwrap(), [1, 2, 3, 1, 2, 3, 1, 2]);
    for (i, logprob) in answers.floats(EMBED_ASK_TARGET_LOGPROB as u32).unwrap().iter().enumerate() {
        assert!((logprob - (best.logits[i * 3 + i % 3] - best.logsumexp[i])).abs() < 1e-4);
    }
    let mut banned = Rules::new(&mut ctx, ROWS as i64).unwrap();
    banned.ban(&mut ctx, &best.ids[..1]).unwrap();
    let rules = [Some(&banned), None];
    let two = Request { rows: Some(&[0, 1]), rules: &rules, ..Default::default() };
    head.sweep(&mut ctx, &hidden, &two, &SweepOptions { ask: EMBED_ASK_TOKEN as u32, ..Default::default() }, &mut answers).unwrap();
    assert_eq!(answers.integers(EMBED_ASK_TOKEN as u32).unwrap(), [best.ids[1], best.ids[3]]);
    assert_eq!(answers.integers(EMBED_ASK_TOPK_IDS as u32), None);

    let outside = Request { targets: &[0, 257], rows: Some(&[0, 1]), ..Default::default() };
    let error = head.sweep(&mut ctx, &hidden, &outside, &options, &mut answers).unwrap_err();
    assert_eq!((error.status, error.at), (Status::ID, Some(1)));
    for request in [
        Request { rows: Some(&[8]), ..Default::default() }, Request { rows: Some(&[-1]), ..Default::default() },
        Request { targets: &[0], ..Default::default() }, Request { rules: &rules, ..Default::default() },
        Request { params: &[SampleParams::default(); 2], ..Default::default() },
    ] {
        let nothing = SweepOptions { ask: EMBED_ASK_TOKEN as u32, ..Default::default() };
        assert_eq!(head.sweep(&mut ctx, &hidden, &request, &nothing, &mut answers).unwrap_err().status, Status::ARGUMENT);
    }
}

#[test]
fn rules_and_seeds_decide_what_is_drawn() {
    let mut ctx = context(None);
    let table = random_table(&mut ctx);
    let head = Head::new(&mut ctx, &table, None, &HeadOptions::default()).unwrap();
    let hidden = table.as_f32().unwrap()[..64 * DIM].to_vec();
    let at = |position| SampleParams { seed: 1, position, temperature: 4.0, ..Default::default() };
    let each: Vec<SampleParams> = (0..64).map(at).collect();
    let (drawn, logprobs) = head.sample(&mut ctx, &hidden, &[], &each, &SweepOptions::default()).unwrap();
    assert!(logprobs.iter().all(|&l| l <= 0.0) && drawn.iter().all(|id| (0..ROWS as i32).contains(id)));
    let alone = head.sample(&mut ctx, &hidden[9 * DIM..10 * DIM], &[], &[at(9)], &SweepOptions::default()).unwrap();
    assert_eq!(alone.0[0], drawn[9]);
    let mut rules = Rules::new(&mut ctx, ROWS as i64).unwrap();
    rules.allow(&mut ctx, Some(&[0b1100, 0, 0, 0, 0, 0, 0, 0, 0])).unwrap();
    rules.bias(&mut ctx, &[3], &[1000.0]).unwrap();
    rules.push(&mut ctx, &[3, 4]).unwrap();
    rules.pop(&mut ctx, 1).unwrap();
    assert_eq!(rules.pop(&mut ctx, 2).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(rules.bias(&mut ctx, &[3], &[]).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(rules.ban(&mut ctx, &[2, 257]).unwrap_err().at, Some(1));
    let three = head.sample(&mut ctx, &hidden, &[Some(&rules); 64], &[at(0)], &SweepOptions::default()).unwrap();
    assert_eq!(three.0, [3; 64]);
    rules.clear();
    let again = head.sample(&mut ctx, &hidden, &[Some(&rules); 64], &each, &SweepOptions::default()).unwrap();
    assert_eq!(again.0, drawn);
    let greedy = head.sample(&mut ctx, &hidden, &[], &[], &SweepOptions::default()).unwrap();
    assert_eq!(greedy.0, head.topk(&mut ctx, &hidden, 1, &SweepOptions::default()).unwrap().ids);
    assert_eq!(head.sample(&mut ctx, &[0f32; 0], &[], &[], &SweepOptions::default()).unwrap().0, []);
}

#[test]
fn a_wrong_id_is_an_error_with_its_position_and_nothing_is_written() {
    let mut ctx = context(None);
    let table = random_table(&mut ctx);
    let mut out = [-7.0f32; 4 * DIM];
    let error = table.lookup_into(&mut ctx, &[0, 1, 2, 50257], &mut out, &LookupOptions::default()).unwrap_err();
    assert_eq!((error.status, error.at), (Status::ID, Some(3)));
    assert!(error.text.contains("50257") && error.text.contains("257 rows"), "{error}");
    assert_eq!(format!("{:?}", error.status), "EMBED_E_ID");
    assert!(out.iter().all(|&x| x == -7.0));
    let hash = LookupOptions { oov: EMBED_OOV_HASH, ..Default::default() };
    table.lookup_into(&mut ctx, &[0, 1, 2, 50257], &mut out, &hash).unwrap();
    assert_eq!(ctx.replaced_ids(), 1);
}

#[test]
fn bad_input_is_an_error_and_never_a_panic() {
    let mut ctx = context(None);
    let mut table = random_table(&mut ctx);
    let none = SweepOptions::default();
    let mut short = [0.0f32; 3];
    let status = |r: Result<()>| r.unwrap_err().status;
    assert_eq!(status(table.lookup_into(&mut ctx, &[0], &mut short, &LookupOptions::default())), Status::ARGUMENT);
    assert_eq!(status(table.mix(&mut ctx, &[0.5; 3], 1).map(drop)), Status::ARGUMENT);
    assert_eq!(status(table.mix(&mut ctx, &[], usize::MAX).map(drop)), Status::OVERFLOW);
    assert_eq!(status(table.bag_into(&mut ctx, &[1], &[], None, &mut short, &BagOptions::default())), Status::ARGUMENT);
    assert_eq!(status(table.bag_into(&mut ctx, &[1], &[0, 2], None, &mut [0.0f32; DIM], &BagOptions::default())), Status::ARGUMENT);
    assert_eq!(status(table.set_rows(&mut ctx, &[0], &[0.0f32; DIM], &RowsOptions { flags: 1 << 30, ..Default::default() })), Status::OPTION);
    assert_eq!(status(table.nearest(&mut ctx, &[0.0; DIM], -1, &[], &NearestOptions::default()).map(drop)), Status::ARGUMENT);
    assert_eq!(status(Table::create(&mut ctx, -1, 3, &TableOptions::default()).map(drop)), Status::ARGUMENT);
    assert_eq!(status(Table::create(&mut ctx, i64::MAX, 3, &TableOptions::default()).map(drop)), Status::OVERFLOW);
    assert_eq!(status(Table::from_vec(&mut ctx, vec![1.0; 5], 2, 3).map(drop)), Status::ARGUMENT);
    assert_eq!(status(Table::from_vec(&mut ctx, vec![], usize::MAX, 3).map(drop)), Status::OVERFLOW);
    assert_eq!(status(Table::view(&mut ctx, &[], 2, 3, &TableOptions::default()).map(drop)), Status::ARGUMENT);
    assert_eq!(status(Table::view(&mut ctx, &[0; 23], 2, 3, &TableOptions::default()).map(drop)), Status::ARGUMENT);
    let wide = TableOptions { row_bytes: i64::MAX, ..Default::default() };
    assert_eq!(status(Table::view(&mut ctx, &[0; 24], 2, 3, &wide).map(drop)), Status::OVERFLOW);
    let lies = TableOptions { size: 4096, data_bytes: 1 << 40, ..Default::default() }; // the crate sets both
    assert_eq!(status(Table::view(&mut ctx, &[0; 23], 2, 3, &lies).map(drop)), Status::ARGUMENT);
    let mut view = Table::view(&mut ctx, &[0; 24], 2, 3, &TableOptions::default()).unwrap();
    assert_eq!(status(view.init(&mut ctx, &InitOptions::default())), Status::READ_ONLY);
    assert_eq!(status(positions(&mut ctx, 0, 0, &mut short, &PositionOptions::default())), Status::ARGUMENT);
    assert_eq!(status(norm_rows(&mut ctx, &mut short, 3, Some(&[1.0]), None, &NormOptions::default())), Status::ARGUMENT);
    let head = Head::new(&mut ctx, &table, None, &HeadOptions::default()).unwrap();
    assert_eq!(status(head.logits(&mut ctx, &[0.0f32; DIM + 1], &none).map(drop)), Status::ARGUMENT);
    assert_eq!(status(head.topk(&mut ctx, &[0.0f32; DIM], i32::MAX, &none).map(drop)), Status::ARGUMENT);
    assert_eq!(status(head.topk(&mut ctx, &[f32::NEG_INFINITY; DIM], 1, &SweepOptions { nan: EMBED_NAN_ERROR, ..none }).map(drop)), Status::NONFINITE);
    assert_eq!(status(Head::new(&mut ctx, &table, Some(&[0.0]), &HeadOptions::default()).map(drop)), Status::ARGUMENT);
    assert_eq!(status(Context::with(&ContextOptions { isa: Some("no such level".into()), ..Default::default() }).map(drop)), Status::OPTION);
    assert_eq!(status(Context::with(&ContextOptions { isa: Some("a\0b".into()), ..Default::default() }).map(drop)), Status::ARGUMENT);
    assert_eq!(status(Pool::new(-1).map(drop)), Status::ARGUMENT);
}

#[test]
fn empty_slices_are_no_errors() {
    let mut ctx = context(None); // Rust's empty slices are dangling pointers that are not NULL
    let table = random_table(&mut ctx);
    assert_eq!(table.lookup(&mut ctx, &[]).unwrap(), []);
    assert_eq!(table.mix(&mut ctx, &[], 0).unwrap(), []);
    table.bag_into(&mut ctx, &[], &[0], None, &mut [0f32; 0], &BagOptions::default()).unwrap();
    table.get_rows(&mut ctx, &[], &mut [0f32; 0]).unwrap();
    assert_eq!(table.nearest(&mut ctx, &[], 1, &[], &NearestOptions::default()).unwrap().ids, []);
    assert_eq!(table.analogy(&mut ctx, &[], 1, &NearestOptions::default()).unwrap().ids, []);
    positions(&mut ctx, 0, DIM, &mut [0f32; 0], &PositionOptions::default()).unwrap();
    norm_rows(&mut ctx, &mut [0f32; 0], DIM, None, None, &NormOptions::default()).unwrap();
    let head = Head::new(&mut ctx, &table, None, &HeadOptions::default()).unwrap();
    assert_eq!(head.logits(&mut ctx, &[0f32; 0], &SweepOptions::default()).unwrap(), []);
    assert_eq!(head.logits_at(&mut ctx, &[0f32; DIM], &[], &SweepOptions::default()).unwrap(), []);
    let empty = Table::from_vec(&mut ctx, Vec::new(), 0, 3).unwrap();
    assert_eq!((empty.rows(), empty.dim()), (0, 3));
}

#[test]
fn memory_of_rust_is_a_table_and_comes_back() {
    let mut ctx = context(None);
    let table = Table::from_vec(&mut ctx, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3, 2).unwrap();
    drop(ctx); // tables outlive their context
    let mut ctx = context(None);
    assert_eq!(std::thread::spawn(move || table.as_f32().unwrap()[5]).join().unwrap(), 6.0); // freed on that thread
    let numbers = [1.0f32, 2.0, 3.0, 4.0];
    let view = Table::view_f32(&mut ctx, &numbers, 2, 2, &TableOptions::default()).unwrap();
    let small = view.convert(&mut ctx, &TableOptions { dtype: BFloat16::DTYPE, ..Default::default() }).unwrap();
    let mut out = [BFloat16::default(); 2];
    small.lookup_into(&mut ctx, &[1], &mut out, &LookupOptions::default()).unwrap();
    assert_eq!(out, [BFloat16(0x4040), BFloat16(0x4080)]);
    let mut sum = [0.0f32; 2];
    view.bag_into(&mut ctx, &[0, 1], &[0, 2], Some(&[1.0, 10.0]), &mut sum, &BagOptions::default()).unwrap();
    assert_eq!(sum, [31.0, 42.0]);
}

#[test]
fn files_open_and_say_what_is_wrong_with_them() {
    let mut ctx = context(None);
    let file = File::open(&mut ctx, glove(), &FileOptions::default()).unwrap();
    assert_eq!((file.format(), file.count()), ("word2vec", 1));
    let table = file.table(&mut ctx, None).unwrap();
    let king = file.token_id(&mut ctx, b"king").unwrap();
    assert_eq!(file.token(king), Some(&b"king"[..]));
    let row = table.lookup(&mut ctx, &[king as i32]).unwrap();
    let head = file.head(&mut ctx, &HeadOptions::default()).unwrap();
    assert!(head.is_tied(&table));
    let best = head.topk(&mut ctx, &row, 3, &SweepOptions::default()).unwrap();
    let words: Vec<_> = best.ids.iter().map(|&id| String::from_utf8_lossy(file.token(i64::from(id)).unwrap())).collect();
    assert_eq!(words, ["king", "prince", "queen"]);
    let tensor = file.tensor(&mut ctx, 0).unwrap();
    assert_eq!((tensor.name.as_str(), &tensor.shape[..]), ("vectors", &[2000, 100][..]));
    let near = table.analogy(&mut ctx, &[["man", "king", "woman"].map(|w| file.token_id(&mut context(None), w.as_bytes()).unwrap() as i32)], 1, &NearestOptions::default()).unwrap();
    assert_eq!(file.token(i64::from(near.ids[0])), Some(&b"queen"[..]));
    drop(file); // tables and heads hold what they need
    assert_eq!(table.norms(&mut ctx).unwrap().len(), 2000);

    assert_eq!(File::open(&mut ctx, "/no/such/file", &FileOptions::default()).err().unwrap().status, Status::IO);
    let broken = std::env::temp_dir().join(format!("libembed-rust-{}.npy", std::process::id()));
    std::fs::write(&broken, b"\x93NUMPY\x01\x00 cut short").unwrap();
    let error = File::open(&mut ctx, &broken, &FileOptions::default()).err().unwrap();
    assert_eq!(error.status, Status::FORMAT);
    assert!(error.at.is_some(), "{error}");
    let copy = broken.with_extension("embed");
    let mut writer = Writer::create(&mut ctx, &copy).unwrap();
    writer.table(&mut ctx, "table", &table, None).unwrap();
    writer.token(&mut ctx, 0, b"the").unwrap();
    writer.commit(&mut ctx).unwrap();
    let again = File::open(&mut ctx, &copy, &FileOptions::default()).unwrap();
    assert_eq!(again.table(&mut ctx, None).unwrap().as_f32().unwrap(), table.as_f32().unwrap());
    std::fs::remove_file(&copy).unwrap();
    std::fs::remove_file(&broken).unwrap();
}

#[test]
fn sixty_four_threads_share_one_table_and_head() {
    let mut ctx = context(None);
    let table = Arc::new(random_table(&mut ctx));
    let head = Arc::new(Head::new(&mut ctx, Arc::clone(&table), None, &HeadOptions::default()).unwrap());
    let pool = Pool::new(2).unwrap();
    let ids: Vec<i32> = (0..32).collect();
    let rows = table.lookup(&mut ctx, &ids).unwrap();
    let best = head.topk(&mut ctx, &rows, 5, &SweepOptions::default()).unwrap();
    let threads: Vec<_> = (0..64)
        .map(|i| {
            let (table, head, pool, ids) = (Arc::clone(&table), Arc::clone(&head), pool.clone(), ids.clone());
            let (rows, best) = (rows.clone(), best.clone());
            std::thread::spawn(move || {
                let mut ctx = Context::with(&ContextOptions { pool: Some(pool), ..Default::default() }).unwrap();
                for _ in 0..20 {
                    assert_eq!(table.lookup(&mut ctx, &ids).unwrap(), rows);
                    assert_eq!(head.topk(&mut ctx, &rows, 5, &SweepOptions::default()).unwrap(), best);
                    assert_eq!(table.lookup(&mut ctx, &[-1 - i]).unwrap_err().at, Some(0));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn a_context_moves_between_threads() {
    let mut ctx = context(None);
    let table = random_table(&mut ctx);
    let (table, mut ctx) = std::thread::spawn(move || {
        assert!(table.lookup(&mut ctx, &[-1]).is_err());
        (table, ctx)
    })
    .join()
    .unwrap();
    assert!(table.lookup(&mut ctx, &[1]).is_ok());
}

#[test]
fn a_tied_table_learns() {
    let mut ctx = context(None);
    let table = random_table(&mut ctx);
    let mut head = Head::new(&mut ctx, table, None, &HeadOptions::default()).unwrap();
    let mut grad = Grad::dense(&mut ctx, ROWS as i64, DIM as i64).unwrap();
    let adamw = OptimizerOptions { kind: EMBED_OPTIM_ADAMW, lr: 0.05, ..Default::default() };
    let mut optimizer = Optimizer::new(&mut ctx, head.table(), &adamw).unwrap();
    let ids: Vec<i32> = (0..32).map(|i| i * 37 % ROWS as i32).collect();
    let wide: Vec<i64> = ids.iter().map(|&i| i64::from(i)).collect();
    let mut targets: Vec<i32> = ids.iter().map(|i| (i + 5) % ROWS as i32).collect();
    targets[31] = -100; // ignored
    let mut losses = Vec::new();
    for _ in 0..20 {
        grad.clear();
        let hidden = head.table().lookup(&mut ctx, &ids).unwrap();
        let found = head.cross_entropy_train(&mut ctx, &hidden, &targets, None, Some(&mut grad), &LossOptions::default()).unwrap();
        assert_eq!((found.count, found.loss[31]), (31, 0.0));
        losses.push(found.loss.iter().sum::<f32>() / 31.0);
        grad.add_lookup(&mut ctx, ROWS as i64, &wide, &found.d_hidden, &LookupOptions::default()).unwrap();
        let checked = StepOptions { flags: EMBED_STEP_CHECK_FINITE as u32, ..Default::default() };
        optimizer.step(&mut ctx, &mut head.table_mut(), &grad, None, &checked).unwrap();
    }
    assert!(losses[19] < losses[0] / 2.0, "{losses:?}");
    assert_eq!(optimizer.steps(), 20);
}

#[test]
fn training_errors_name_their_position() {
    let mut ctx = context(None);
    let mut table = random_table(&mut ctx);
    let head = Head::new(&mut ctx, &table, None, &HeadOptions::default()).unwrap();
    let hidden = vec![0.0f32; 3 * DIM];
    let loss = LossOptions::default();
    let error = head.cross_entropy_train(&mut ctx, &hidden, &[0, ROWS as i32, 1], None, None, &loss).unwrap_err();
    assert_eq!((error.status, error.at), (Status::ID, Some(1)));
    assert_eq!(head.cross_entropy_train(&mut ctx, &hidden, &[0, 1], None, None, &loss).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(head.cross_entropy_train(&mut ctx, &hidden, &[0, 1, 2], Some(&[1.0; 3]), None, &loss).unwrap_err().status, Status::ARGUMENT);
    drop(head);
    let mut grad = Grad::sparse(&mut ctx, DIM as i64).unwrap();
    let mut d_out: Vec<f32> = (0..3 * DIM).map(|i| (i / DIM) as f32).collect();
    let lookup = LookupOptions::default();
    let error = grad.add_lookup(&mut ctx, ROWS as i64, &[3, -1], &d_out[..2 * DIM], &lookup).unwrap_err();
    assert_eq!((error.status, error.at), (Status::ID, Some(1)));
    grad.add_lookup(&mut ctx, ROWS as i64, &[9, 4, 9], &d_out, &lookup).unwrap();
    assert_eq!(grad.ids().unwrap(), [4, 9]);
    assert_eq!((grad.values()[0], grad.values()[DIM]), (1.0, 2.0));
    let deferred = OptimizerOptions { kind: EMBED_OPTIM_ADAMW_DEFERRED, lr: 0.1, ..Default::default() };
    let mut optimizer = Optimizer::new(&mut ctx, &table, &deferred).unwrap();
    d_out[0] = f32::NAN;
    grad.add_lookup(&mut ctx, ROWS as i64, &[4], &d_out[..DIM], &lookup).unwrap();
    let checked = StepOptions { flags: EMBED_STEP_CHECK_FINITE as u32, ..Default::default() };
    let error = optimizer.step(&mut ctx, &mut table, &grad, None, &checked).unwrap_err();
    assert_eq!((error.status, error.at, optimizer.steps()), (Status::NONFINITE, Some(4), 0));
    assert_eq!(optimizer.step(&mut ctx, &mut table, &grad, Some(&[1.0]), &checked).unwrap_err().status, Status::ARGUMENT);
    optimizer.touch(&mut ctx, &mut table, Some(&[])).unwrap();
    optimizer.touch(&mut ctx, &mut table, None).unwrap();
    assert_eq!(optimizer.touch(&mut ctx, &mut table, Some(&[ROWS as i64])).unwrap_err().status, Status::ID);
}
