/* SPDX-License-Identifier: BSD-3-Clause */
/* What a C++ program does with the installed library: consumer FOLDER_OF_TEST_DATA. */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <embed/embed.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

using embed::made;

namespace {

constexpr int64_t rows = 257, dim = 24, count = 64;

static_assert(!std::is_copy_constructible_v<embed::context> && std::is_move_constructible_v<embed::context>);
static_assert(sizeof(embed::table) == sizeof(void *));

void must(bool so, const char *what) {
  if (so) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

template <class Call>
embed::error refused(embed_status want, Call &&call) {
  try {
    call();
  } catch (const embed::error &e) {
    must(e.status == want, e.what());
    return e;
  }
  must(false, "an error was expected");
  std::abort();
}

embed::context context(const char *isa, embed_pool *pool = nullptr) {
  auto o = embed::options<embed_context_options>();
  o.isa = isa;
  o.pool = pool;
  return embed::context(o);
}

embed::table random_table(embed::context &ctx) {
  embed::table t;
  ctx.check(embed_table_create(ctx.get(), rows, dim, nullptr, made(t)));
  auto o = embed::options<embed_init_options>();
  o.kind = EMBED_INIT_NORMAL;
  o.scale = 1;
  o.seed = 5;
  ctx.check(embed_table_init(ctx.get(), t.get(), &o));
  return t;
}

std::vector<int32_t> some_ids() {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back(i * 37 % static_cast<int32_t>(rows));
  return ids;
}

std::vector<float> lookup(embed::context &ctx, const embed::table &t, const std::vector<int32_t> &ids) {
  std::vector<float> out(ids.size() * dim, -7.0f);
  ctx.check(embed_lookup(ctx.get(), t.get(), ids.data(), static_cast<int64_t>(ids.size()), out.data(), EMBED_F32, 0, nullptr));
  return out;
}

void three_views_agree(embed::context &ctx, const embed::table &t) {
  embed::context scalar = context("scalar");
  const auto ids = some_ids();
  std::vector<float> one_hot(ids.size() * rows), mixed(ids.size() * dim);
  for (size_t i = 0; i < ids.size(); ++i) one_hot[i * rows + static_cast<size_t>(ids[i])] = 1;
  ctx.check(embed_mix(ctx.get(), t.get(), one_hot.data(), count, 0, mixed.data(), 0, nullptr));
  must(lookup(ctx, t, ids) == mixed && lookup(scalar, t, ids) == mixed, "three views agree");
  std::printf("three views  agree on %d rows (%s, %s, one-hot mix)\n", static_cast<int>(count), embed_context_isa(scalar.get()), embed_context_isa(ctx.get()));
}

void the_tied_head_mirrors_the_table(embed::context &ctx, const embed::table &t, const embed::head &h) {
  std::vector<float> unit(dim), logits(rows), best(3);
  std::vector<int32_t> ids(3);
  unit[3] = 1;
  ctx.check(embed_logits(ctx.get(), h.get(), unit.data(), EMBED_F32, 1, 0, logits.data(), 0, nullptr));
  const float *data = static_cast<const float *>(embed_table_data(t.get()));
  for (size_t v = 0; v < logits.size(); ++v) must(!(logits[v] < data[v * dim + 3] || logits[v] > data[v * dim + 3]), "a column");
  ctx.check(embed_topk(ctx.get(), h.get(), unit.data(), EMBED_F32, 1, 0, 3, ids.data(), best.data(), nullptr, nullptr, nullptr));
  must(embed_head_is_tied(h.get(), t.get()) == 1 && best[0] >= best[1] && best[1] >= best[2], "top-k of a tied head");
  std::printf("tied head    unit vector gives column 3; top-k %d %d %d\n", ids[0], ids[1], ids[2]);
}

void one_sweep_answers(embed::context &ctx, const embed::table &t, const embed::head &h) {
  const auto hidden = lookup(ctx, t, some_ids());
  std::vector<int32_t> best(count), targets;
  std::vector<float> logits(count), sums(count);
  ctx.check(embed_topk(ctx.get(), h.get(), hidden.data(), EMBED_F32, count, 0, 1, best.data(), logits.data(), sums.data(), nullptr, nullptr));
  auto ask = embed::options<embed_sweep_options>();
  ask.k = 2;
  ask.ask = EMBED_ASK_TOPK_IDS | EMBED_ASK_TARGET_LOGPROB | EMBED_ASK_TOKEN;
  embed::result r;
  ctx.check(embed_result_create(ctx.get(), made(r)));
  ctx.check(embed_sweep(ctx.get(), h.get(), hidden.data(), EMBED_F32, 0, nullptr, count, best.data(), nullptr, nullptr, 0, &ask, r.get()));
  int64_t n = 0, k = 0;
  const int32_t *two = embed_result_i32(r.get(), EMBED_ASK_TOPK_IDS, &n, &k);
  must(n == count && k == 2 && !embed_result_f32(r.get(), EMBED_ASK_ENTROPY, nullptr, nullptr), "what is asked is there");
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    must(two[2 * i] == best[at] && embed_result_i32(r.get(), EMBED_ASK_TOKEN, nullptr, nullptr)[i] == best[at], "greedy is the best");
    must(std::fabs(embed_result_f32(r.get(), EMBED_ASK_TARGET_LOGPROB, nullptr, nullptr)[i] - (logits[at] - sums[at])) < 1e-4f, "a log-probability");
  }
  embed::rules none_of_the_best;
  ctx.check(embed_rules_create(ctx.get(), rows, made(none_of_the_best)));
  ctx.check(embed_rules_ban(ctx.get(), none_of_the_best.get(), best.data(), count));
  const std::vector<const embed_rules *> of_row(count, none_of_the_best.get());
  auto draw = embed::options<embed_sample_params>();
  draw.temperature = 1;
  draw.top_p = 0.9;
  std::vector<int32_t> drawn(count);
  ctx.check(embed_sample(ctx.get(), h.get(), hidden.data(), EMBED_F32, count, 0, of_row.data(), &draw, 1, drawn.data(), nullptr, nullptr));
  for (const int32_t id : drawn)
    for (const int32_t banned : best) must(id != banned, "a banned token is not drawn");
  targets.assign(count, static_cast<int32_t>(rows));
  must(refused(
           EMBED_E_ID,
           [&] {
             ctx.check(embed_sweep(ctx.get(), h.get(), hidden.data(), EMBED_F32, 0, nullptr, count, targets.data(), nullptr, nullptr, 0, &ask, r.get()));
           }).at == 0,
       "a wrong target's position");
  std::printf("one sweep    the best two, log-probabilities, tokens; rules hold\n");
}

void errors_are_exceptions(embed::context &ctx, const embed::table &t) {
  const embed::error e = refused(EMBED_E_ID, [&] { lookup(ctx, t, {0, 1, 2, 50257}); });
  must(e.at == 3 && std::string_view(e.what()).find("50257") != std::string_view::npos, e.what());
  std::printf("wrong id     at %d: %s\n", static_cast<int>(e.at), e.what());
  embed::table none;
  refused(EMBED_E_ARGUMENT, [&] { ctx.check(embed_table_create(ctx.get(), -1, dim, nullptr, made(none))); });
  must(!none, "no table after an error");
  refused(EMBED_E_OPTION, [&] { context("no such level"); });
  embed::file no_file;
  refused(EMBED_E_IO, [&] { ctx.check(embed_file_open(ctx.get(), "/no/such/file", nullptr, made(no_file))); });
  must(lookup(ctx, t, {}).empty(), "an empty vector's data() is no error"); /* FF-01 */
}

void a_file_opens(embed::context &ctx, const std::string &folder) {
  embed::file file;
  embed::table table;
  embed::head head;
  ctx.check(embed_file_open(ctx.get(), (folder + "/glove-2000x100.bin").c_str(), nullptr, made(file)));
  ctx.check(embed_file_table(ctx.get(), file.get(), -1, made(table)));
  ctx.check(embed_file_head(ctx.get(), file.get(), table.get(), nullptr, made(head)));
  int64_t king = -1;
  ctx.check(embed_file_token_id(ctx.get(), file.get(), "king", 4, &king));
  std::vector<float> row(100), logits(3);
  std::vector<int32_t> best(3);
  ctx.check(embed_lookup_i64(ctx.get(), table.get(), &king, 1, row.data(), EMBED_F32, 0, nullptr));
  ctx.check(embed_topk(ctx.get(), head.get(), row.data(), EMBED_F32, 1, 0, 3, best.data(), logits.data(), nullptr, nullptr, nullptr));
  for (size_t i = 0; i < 3; ++i)
    std::printf("%s %s %.4f\n", i ? "            " : "file        ", embed_file_token(file.get(), best[i], nullptr), static_cast<double>(logits[i]));
  must(std::string_view(embed_file_token(file.get(), best[2], nullptr)) == "queen" && std::fabs(logits[2] - 27.5883f) < 1e-3f, "queen");
}

void many_threads_share_one_table(embed::context &ctx, const embed::table &t) {
  embed::pool pool;
  if (embed_pool_create(2, made(pool))) std::abort();
  const auto ids = some_ids();
  const auto want = lookup(ctx, t, ids);
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i)
    threads.emplace_back([&, i] {
      embed::context mine = context(nullptr, pool.get());
      for (int round = 0; round < 20; ++round) {
        must(lookup(mine, t, ids) == want, "the same bits");
        must(refused(EMBED_E_ID, [&] { lookup(mine, t, {0, -1 - i}); }).at == 1, "its own error");
      }
    });
  for (auto &thread : threads) thread.join();
  std::printf("64 threads   on one table and pool: the same bits\n");
}

void a_tied_table_learns(embed::context &ctx) {
  embed::table table = random_table(ctx);
  embed::head head;
  embed::grad grad;
  embed::optimizer optimizer;
  ctx.check(embed_head_create(ctx.get(), table.get(), nullptr, nullptr, made(head)));
  ctx.check(embed_grad_create_dense(ctx.get(), rows, dim, nullptr, 0, made(grad)));
  auto adamw = embed::options<embed_optimizer_options>();
  adamw.kind = EMBED_OPTIM_ADAMW;
  adamw.lr = 0.05;
  ctx.check(embed_optimizer_create(ctx.get(), table.get(), &adamw, made(optimizer)));
  const auto ids = some_ids();
  const std::vector<int64_t> wide(ids.begin(), ids.end());
  std::vector<int32_t> targets;
  for (int32_t id : ids) targets.push_back((id + 5) % static_cast<int32_t>(rows));
  std::vector<float> loss(ids.size()), d_hidden(ids.size() * dim);
  std::vector<uint32_t> counts(rows);
  double first = 0, mean = 0;
  for (int step = 0; step < 20; ++step, first = step == 1 ? mean : first) {
    embed_grad_clear(grad.get());
    const auto hidden = lookup(ctx, table, ids);
    ctx.check(embed_cross_entropy_train(ctx.get(), head.get(), hidden.data(), EMBED_F32, count, 0, targets.data(), nullptr, loss.data(), nullptr,
                                        d_hidden.data(), EMBED_F32, 0, grad.get(), nullptr));
    ctx.check(embed_lookup_backward(ctx.get(), grad.get(), rows, wide.data(), count, d_hidden.data(), EMBED_F32, 0, nullptr));
    ctx.check(embed_count_rows(ctx.get(), wide.data(), count, rows, counts.data(), nullptr));
    ctx.check(embed_optimizer_step(ctx.get(), optimizer.get(), table.get(), grad.get(), nullptr));
    mean = 0;
    for (float x : loss) mean += static_cast<double>(x) / count;
  }
  must(mean < first / 2 && embed_optimizer_steps(optimizer.get()) == 20, "the loss falls");
  must(std::accumulate(counts.begin(), counts.end(), int64_t{0}) == 20 * count, "each position is counted");
  ctx.check(embed_count_decay(ctx.get(), counts.data(), rows, 0.0));
  must(std::count(counts.begin(), counts.end(), 0u) == rows, "counts decay");
  std::printf("training     a tied table: the loss falls\n");
}

}  // namespace

int main(int argc, char **argv) {
  must(argc == 2, "usage: consumer FOLDER");
  embed::context ctx;
  embed::table table = random_table(ctx);
  embed::head head;
  ctx.check(embed_head_create(ctx.get(), table.get(), nullptr, nullptr, made(head)));
  three_views_agree(ctx, table);
  the_tied_head_mirrors_the_table(ctx, table, head);
  one_sweep_answers(ctx, table, head);
  errors_are_exceptions(ctx, table);
  a_file_opens(ctx, argv[1]);
  a_tied_table_learns(ctx);
  many_threads_share_one_table(ctx, table);
  table.reset(); /* in any order: the head holds it */
  embed::context moved = std::move(ctx);
  must(embed_head_vocab(head.get()) == rows && moved && !ctx, "handles move");
}
