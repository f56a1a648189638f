/* SPDX-License-Identifier: BSD-3-Clause */
/* Distillation: two passes side by side, the teacher's and the student's, over the same hidden rows and table rows. Both log-sum-exps
 * first; then the divergence, whose terms need both, and the student's gradients. Logits are kept as far as memory reaches. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "loss/distill.h"
#include "loss/pass.h"
#include "thread/run.h"

enum {
  MEMORY = 50000000,         /* bytes of a chunk all of whose logits are kept: with what workers have for two tables, below 64 MB */
  MEMORY_OF_PART = 46000000, /* and where some are made again */
  FEW_LANES = 128,
};

typedef struct distill_job {
  embed__pass teacher, student;
  const embed__distill *o;
  bool slopes;         /* this time the student's logits become their gradient */
  double *loss, *tilt; /* [segments, lanes]; tilt NULL unless Jensen-Shannon's */
  double *apart;       /* [lanes] the student's log-sum-exp less the teacher's */
  double *pull;        /* [lanes] the sum of tilts */
  double *upstream;    /* [lanes] what slopes are multiplied by */
} distill_job;

/* Both distributions of a row. */
static void begin_row(void *arg, int64_t row, int32_t worker) {
  distill_job *job = arg;
  embed__pass *sides[2] = {&job->teacher, &job->student};
  const embed__loss_job *b = job->student.b;
  double logsumexp[2];
  for (int k = 0; k < 2; ++k) {
    embed__logsumexp all = embed__pass_all_blocks(sides[k], row, worker);
    logsumexp[k] = embed__logsumexp_exact(&all);
    sides[k]->shift[row] = all.max;
    sides[k]->factor[row] = (float)(1 / all.sum);
  }
  job->apart[row] = logsumexp[1] - logsumexp[0];
  job->pull[row] = 0;
  job->upstream[row] = job->o->weight * (double)job->o->times * (double)b->head->scale;
  job->upstream[row] *= b->upstream ? (double)b->upstream[job->student.lane[row].at] : b->each;
}

static void probabilities(const embed__pass *p, const float *z, float *out) {
  memcpy(out, z, (size_t)p->lanes * sizeof *out);
  p->kernels->softmax.gradient(out, p->lanes, 1, p->lanes, p->shift, p->factor, p->minus, NULL);
}

/* One class of all lanes. */
static void take_class(distill_job *job, const float *teacher, float *student, double *loss, double *tilt) {
  float p[EMBED__MOST_LANES], q[EMBED__MOST_LANES];
  const double softcap = (double)job->student.b->head->softcap, by_cap = softcap > 0 ? 1 / (softcap * (double)job->o->times) : 0;
  probabilities(&job->teacher, teacher, p);
  probabilities(&job->student, student, q);
  for (int64_t i = 0; i < job->student.rows; ++i) {
    const double z = (double)student[i], apart = (double)teacher[i] - z + job->apart[i];
    const embed__class_loss c = embed__class_divergence(job->o, (double)p[i], (double)q[i], apart, job->pull[i]);
    loss[i] += c.loss;
    if (tilt) tilt[i] += c.tilt;
    if (job->slopes) student[i] = (float)(job->upstream[i] * c.slope * (softcap > 0 ? 1 - z * by_cap * (z * by_cap) : 1));
  }
}

static void take_segment(void *arg, int64_t segment, int32_t worker) {
  distill_job *job = arg;
  const embed__pass *t = &job->teacher, *s = &job->student;
  const int64_t begin = s->vocab * segment / s->segments, end = s->vocab * (segment + 1) / s->segments;
  double *loss = job->loss + segment * s->lanes, *tilt = job->tilt ? job->tilt + segment * s->lanes : NULL;
  float *partial = s->partial ? s->partial + segment * s->rows * s->dim : NULL;
  memset(loss, 0, (size_t)s->lanes * sizeof *loss);
  if (tilt) memset(tilt, 0, (size_t)s->lanes * sizeof *tilt);
  for (int64_t first = begin, count; first < end; first += count) {
    count = embed__min(s->together, end - first);
    float *of_teacher = embed__pass_place(t, first, count, worker), *of_student = embed__pass_place(s, first, count, worker);
    if (!embed__pass_keeps(s, first, count)) {
      embed__pass_multiply(t, first, count, of_teacher, worker);
      embed__pass_multiply(s, first, count, of_student, worker);
    }
    for (int64_t r = 0; r < count; ++r) take_class(job, of_teacher + r * s->lanes, of_student + r * s->lanes, loss, tilt);
    if (job->slopes) embed__pass_add(s, of_student, first, count, partial, first > begin, worker);
  }
}

static double sum_of_segments(const distill_job *job, const double *sums, int64_t row) {
  double sum = 0;
  for (int64_t s = 0; s < job->student.segments; ++s) sum += sums[s * job->student.lanes + row];
  return sum;
}

static void pull_row(void *arg, int64_t row, int32_t worker) {
  distill_job *job = arg;
  (void)worker;
  job->pull[row] = sum_of_segments(job, job->tilt, row);
}

static void end_row(void *arg, int64_t row, int32_t worker) {
  const distill_job *job = arg;
  const embed__loss_job *b = job->student.b;
  if (b->losses) b->losses[job->student.lane[row].at] = (float)(job->o->weight * sum_of_segments(job, job->loss, row));
  if (b->dx) embed__pass_hidden(&((distill_job *)arg)->student, row, worker);
}

/* Depends on the number of rows, vocab and both dims alone. */
static void plan(distill_job *job) {
  embed__pass *t = &job->teacher, *s = &job->student;
  const int64_t sums = 2 * s->segments + 3, each = 2 * (int64_t)sizeof(float), of_logits = s->vocab * each;
  s->together = t->together = embed__min(s->together, t->together);
  const int64_t fixed = embed__pass_lane_bytes(s) + embed__pass_lane_bytes(t) + sums * (int64_t)sizeof(double);
  int64_t most = embed__min(EMBED__MOST_LANES, embed__max(1, MEMORY / 2 / fixed));
  most = embed__min(most, embed__max(FEW_LANES, MEMORY / (fixed + of_logits)));
  embed__pass_set_lanes(s, most);
  embed__pass_set_lanes(t, most);
  int64_t room = embed__max(0, MEMORY - fixed * s->lanes) / (s->lanes * each);
  if (room < s->vocab) room = embed__max(0, MEMORY_OF_PART - fixed * s->lanes) / (s->lanes * each) / EMBED__BLOCK * EMBED__BLOCK;
  s->stored = t->stored = embed__min(room, s->vocab);
}

static embed_status take_scratch(embed_context *ctx, distill_job *job) {
  const int64_t lanes = job->student.lanes, segments = job->student.segments;
  EMBED__TRY(embed__pass_scratch(ctx, &job->teacher));
  EMBED__TRY(embed__pass_scratch(ctx, &job->student));
  EMBED__TRY(embed__scratch_matrix(ctx, segments, lanes, sizeof *job->loss, &job->loss));
  if (job->o->divergence == EMBED_DIVERGENCE_JENSEN_SHANNON) EMBED__TRY(embed__scratch_matrix(ctx, segments, lanes, sizeof *job->tilt, &job->tilt));
  EMBED__TRY(embed__scratch_get(ctx, lanes, sizeof *job->apart, &job->apart));
  EMBED__TRY(embed__scratch_get(ctx, lanes, sizeof *job->pull, &job->pull));
  return embed__scratch_get(ctx, lanes, sizeof *job->upstream, &job->upstream);
}

static int64_t steps_of(const distill_job *job) { return 2 * job->student.blocks + (job->tilt && job->student.back ? 2 : 1) * job->student.segments; }

/* done, total: in blocks and segments. */
static embed_status run_chunk(embed_context *ctx, distill_job *job, int64_t done, int64_t total) {
  embed__pass *sides[2] = {&job->teacher, &job->student};
  const int64_t rows = job->student.rows, segments = job->student.segments;
  for (int k = 0; k < 2; ++k) {
    embed__pass *p = sides[k];
    EMBED__TRY(embed__run(ctx, embed__ceil_div(p->lanes, EMBED__STRIP), embed__pass_pack, p));
    EMBED__TRY(embed__run_long(ctx, p->blocks, embed__pass_logits, p, done, total));
    for (int64_t i = 0; i < p->lanes; ++i) p->shift[i] = p->factor[i] = p->minus[i] = 0;
    done += p->blocks;
  }
  EMBED__TRY(embed__run(ctx, rows, begin_row, job));
  job->slopes = false;
  if (job->tilt && job->student.back) { /* the slope needs the row's sum */
    EMBED__TRY(embed__run_long(ctx, segments, take_segment, job, done, total));
    EMBED__TRY(embed__run(ctx, rows, pull_row, job));
    done += segments;
  }
  job->slopes = job->student.back;
  EMBED__TRY(embed__run_long(ctx, segments, take_segment, job, done, total));
  return embed__run(ctx, rows, end_row, job);
}

/* student: opens its gradient when nothing else fails any more. */
static embed_status run(embed_context *ctx, const embed__distill *o, const embed__loss_job *teacher, embed__loss_job *student) {
  distill_job job = {.teacher = embed__pass_of(ctx, teacher), .student = embed__pass_of(ctx, student), .o = o};
  const int64_t counted = student->counted;
  job.teacher.times = job.student.times = o->times;
  if (counted > 0 && job.student.vocab > 0) {
    plan(&job);
    EMBED__TRY(take_scratch(ctx, &job));
  }
  if (student->grad) EMBED__TRY(embed__loss_open(ctx, student));
  int64_t next = 0;
  for (int64_t done = 0; done < counted && job.student.vocab > 0; done += job.student.rows) {
    embed__pass_choose(&job.teacher, next);
    next = embed__pass_choose(&job.student, next);
    EMBED__TRY(run_chunk(ctx, &job, done / job.student.chunk * steps_of(&job), embed__ceil_div(counted, job.student.chunk) * steps_of(&job)));
  }
  embed__pass_ignored(&job.student);
  return EMBED_OK;
}

static embed_status read_options(embed_context *ctx, const embed_distill_options *opts, embed__distill *out, embed__loss *l) {
  enum { USUAL_IGNORE = -100 };
  embed_distill_options o;
  EMBED__TRY(embed__options(ctx, "embed_distill_options", opts, EMBED_DISTILL_IGNORE_INDEX | EMBED_DISTILL_SQUARED | EMBED_DISTILL_BF16, &o, sizeof o));
  const double t = o.temperature != 0 ? o.temperature : 1;
  if (!(t >= 1e-6 && t <= 1e6)) return embed__fail(ctx, EMBED_E_OPTION, -1, "temperature must be between 1e-6 and 1e6, or 0 for 1");
  if (!(o.mix >= 0 && o.mix < 1)) return embed__fail(ctx, EMBED_E_OPTION, -1, "mix must be above 0 and below 1, or 0 for a half");
  if (o.divergence < EMBED_DIVERGENCE_KL || o.divergence > EMBED_DIVERGENCE_JENSEN_SHANNON)
    return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_divergence", o.divergence);
  if (o.reduction < EMBED_REDUCE_MEAN || o.reduction > EMBED_REDUCE_ROWS) return embed__fail(ctx, EMBED_E_OPTION, -1, "%d is no embed_reduction", o.reduction);
  if (o.reserved) return embed__fail(ctx, EMBED_E_OPTION, -1, "embed_distill_options: reserved must be 0");
  *out = (embed__distill){.divergence = o.divergence,
                          .mix = o.mix != 0 ? o.mix : 0.5,
                          .times = (float)(1 / t),
                          .weight = o.flags & EMBED_DISTILL_SQUARED ? t * t : 1,
                          .reduction = o.reduction};
  l->bf16 = (o.flags & EMBED_DISTILL_BF16) != 0;
  l->ignore = o.flags & EMBED_DISTILL_IGNORE_INDEX ? o.ignore_index : USUAL_IGNORE;
  return EMBED_OK;
}

/* What both calls check. */
static embed_status begin_jobs(embed_context *ctx, const embed_head *teacher, const void *teacher_hidden, embed_dtype teacher_dtype, int64_t ld_teacher,
                               const embed_head *student, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden, const int32_t *targets,
                               const embed_distill_options *opts, embed__distill *o, embed__loss *l, embed__loss_job jobs[2]) {
  embed_sweep_options none;
  embed__sweep sweeps[2];
  double weights;
  EMBED__TRY(embed__head_sweep(ctx, teacher, teacher_hidden, teacher_dtype, n, ld_teacher, NULL, &none, &sweeps[0]));
  EMBED__TRY(embed__head_sweep(ctx, student, hidden, hidden_dtype, n, ld_hidden, NULL, &none, &sweeps[1]));
  const int64_t vocab = student->table->vocab;
  if (teacher->table->vocab != vocab)
    return embed__fail(ctx, EMBED_E_MISMATCH, -1, "the teacher's vocabulary of %" PRId64 " rows is not the student's of %" PRId64, teacher->table->vocab,
                       vocab);
  *l = (embed__loss){.vocab = vocab};
  EMBED__TRY(read_options(ctx, opts, o, l));
  int64_t counted = n;
  if (targets) EMBED__TRY(embed__loss_columns(ctx, student, l, &targets, n, &counted, &weights));
  for (int k = 0; k < 2; ++k) {
    jobs[k] = (embed__loss_job){.head = k ? student : teacher, .loss = l, .x = sweeps[k].x, .x_dtype = sweeps[k].x_dtype};
    jobs[k].n = n;
    jobs[k].ldx = sweeps[k].ldx;
    jobs[k].targets = targets;
    jobs[k].counted = counted;
  }
  jobs[1].each = o->reduction != EMBED_REDUCE_MEAN ? 1 : counted > 0 ? 1 / (double)counted : 0;
  return EMBED_OK;
}

embed_status embed_distill(embed_context *ctx, const embed_head *teacher, const void *teacher_hidden, embed_dtype teacher_dtype, int64_t ld_teacher,
                           const embed_head *student, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden, const int32_t *targets,
                           float *loss, const embed_distill_options *opts) {
  embed__distill o;
  embed__loss l;
  embed__loss_job jobs[2];
  EMBED__BEGIN(ctx);
  EMBED__TRY(begin_jobs(ctx, teacher, teacher_hidden, teacher_dtype, ld_teacher, student, hidden, hidden_dtype, n, ld_hidden, targets, opts, &o, &l, jobs));
  if (n > 0 && !loss) return embed__null(ctx, "loss");
  jobs[1].losses = loss;
  return embed__end(ctx, run(ctx, &o, &jobs[0], &jobs[1]));
}

embed_status embed_distill_train(embed_context *ctx, const embed_head *teacher, const void *teacher_hidden, embed_dtype teacher_dtype, int64_t ld_teacher,
                                 const embed_head *student, const void *hidden, embed_dtype hidden_dtype, int64_t n, int64_t ld_hidden, const int32_t *targets,
                                 const float *d_loss, float *loss, int64_t *count, void *d_hidden, embed_dtype d_hidden_dtype, int64_t ld_d_hidden,
                                 embed_grad *g, const embed_distill_options *opts) {
  embed__distill o;
  embed__loss l;
  embed__loss_job jobs[2];
  EMBED__BEGIN(ctx);
  EMBED__TRY(begin_jobs(ctx, teacher, teacher_hidden, teacher_dtype, ld_teacher, student, hidden, hidden_dtype, n, ld_hidden, targets, opts, &o, &l, jobs));
  embed__loss_job *b = &jobs[1];
  if (d_hidden) EMBED__TRY(embed__check_buffer(ctx, "d_hidden", d_hidden, d_hidden_dtype, n, student->table->dim, ld_d_hidden, &b->lddx));
  b->upstream = d_loss;
  b->losses = loss;
  b->dx = d_hidden;
  b->dx_dtype = d_hidden_dtype;
  b->grad = g;
  EMBED__TRY(embed__end(ctx, run(ctx, &o, &jobs[0], b)));
  if (count) *count = b->counted;
  return EMBED_OK;
}
