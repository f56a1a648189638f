/* SPDX-License-Identifier: BSD-3-Clause */
/* embed/embed.hpp: ownership and errors for C++17, no more: calls are C's and take .get(). */
#ifndef EMBED_EMBED_HPP
#define EMBED_EMBED_HPP

#include <embed/embed.h>
#include <memory>
#include <stdexcept>
#include <string>

namespace embed {
inline namespace v0 {

struct error : std::runtime_error { /* status and position as embed_status_name and embed_error_at give them */
  embed_status status;
  int64_t at;
  error(embed_status s, const std::string &text, int64_t position = -1)
      : std::runtime_error(std::string(embed_status_name(s)) + (text.empty() ? "" : ": ") + text), status(s), at(position) {}
};

template <class T> T options() { /* all default, of this header's size */
  T o{};
  o.size = sizeof(T);
  return o;
}

struct release {
  void operator()(embed_context *p) const { embed_context_release(p); }
  void operator()(embed_pool *p) const { embed_pool_release(p); }
  void operator()(const embed_table *p) const { embed_table_release(p); }
  void operator()(const embed_head *p) const { embed_head_release(p); }
  void operator()(const embed_file *p) const { embed_file_release(p); }
  void operator()(embed_writer *p) const { embed_writer_release(p); }
  void operator()(embed_result *p) const { embed_result_release(p); }
  void operator()(embed_rules *p) const { embed_rules_release(p); }
  void operator()(embed_grad *p) const { embed_grad_release(p); }
  void operator()(embed_optimizer *p) const { embed_optimizer_release(p); }
};
template <class T> using handle = std::unique_ptr<T, release>;
using pool = handle<embed_pool>;
using table = handle<embed_table>;
using head = handle<embed_head>;
using file = handle<embed_file>;
using writer = handle<embed_writer>;
using result = handle<embed_result>;
using rules = handle<embed_rules>;
using grad = handle<embed_grad>;
using optimizer = handle<embed_optimizer>;

template <class T> class made { /* made(table) stands where a call wants embed_table **: what it makes is table's when the call's expression ends */
  handle<T> &owner_;
  T *raw_ = nullptr;

public:
  explicit made(handle<T> &owner) : owner_(owner) {}
  made(const made &) = delete;
  made &operator=(const made &) = delete;
  ~made() { owner_.reset(raw_); }
  operator T **() { return &raw_; }
};

class context : public handle<embed_context> { /* one per thread */
public:
  explicit context(embed_context_options o = options<embed_context_options>()) {
    char why[512] = "";
    if (!o.why || o.why_bytes < 1) o.why = why, o.why_bytes = sizeof why;
    embed_context *raw = nullptr;
    embed_status s = embed_context_create(&o, &raw);
    if (s) throw error(s, o.why);
    reset(raw);
  }
  void check(embed_status s) const {
    if (s) throw error(s, embed_error_text(get()), embed_error_at(get()));
  }
};

} // namespace v0
} // namespace embed
#endif
