/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <float.h>
#include <getopt.h>
#include <string.h>

#include "cli.h"
#include "numbers.h"

enum {
  OPERAND = 1,
  IDS = 256,
  NPY,
  HIDDEN,
  TARGETS,
  DTYPE,
  ROWS,
  FORMAT,
  FROM,
  DIM,
  VOCAB,
  RENAME,
  LOGPROBS,
  TEMPERATURE,
  TOP_K,
  TOP_P,
  MIN_P,
  TYPICAL_P,
  TOP_N_SIGMA,
  MIN_KEEP,
  REPETITION,
  FREQUENCY,
  PRESENCE,
  HISTORY,
  LAST_N,
  SEED,
  POSITION,
  ORDER,
  JSON,
  THREADS,
  VERSION
};

static const struct option long_options[] = {
    {"ids", required_argument, NULL, IDS},
    {"npy", required_argument, NULL, NPY},
    {"hidden", required_argument, NULL, HIDDEN},
    {"targets", required_argument, NULL, TARGETS},
    {"dtype", required_argument, NULL, DTYPE},
    {"rows", required_argument, NULL, ROWS},
    {"format", required_argument, NULL, FORMAT},
    {"from", required_argument, NULL, FROM},
    {"dim", required_argument, NULL, DIM},
    {"vocab", required_argument, NULL, VOCAB},
    {"rename", required_argument, NULL, RENAME},
    {"logprobs", no_argument, NULL, LOGPROBS},
    {"temperature", required_argument, NULL, TEMPERATURE},
    {"top-k", required_argument, NULL, TOP_K},
    {"top-p", required_argument, NULL, TOP_P},
    {"min-p", required_argument, NULL, MIN_P},
    {"typical-p", required_argument, NULL, TYPICAL_P},
    {"top-n-sigma", required_argument, NULL, TOP_N_SIGMA},
    {"min-keep", required_argument, NULL, MIN_KEEP},
    {"repetition", required_argument, NULL, REPETITION},
    {"frequency", required_argument, NULL, FREQUENCY},
    {"presence", required_argument, NULL, PRESENCE},
    {"history", required_argument, NULL, HISTORY},
    {"last-n", required_argument, NULL, LAST_N},
    {"seed", required_argument, NULL, SEED},
    {"position", required_argument, NULL, POSITION},
    {"order", required_argument, NULL, ORDER},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, VERSION},
    {"threads", required_argument, NULL, THREADS},
    {NULL, 0, NULL, 0},
};

static int add_operand(cli_options *o, const char *operand) {
  if (!o->command) {
    o->command = operand;
    return CLI_DONE;
  }
  if (o->operand_count == CLI_MOST_OPERANDS) return cli_usage(o->command, "\"%s\" is one operand too many", operand);
  o->operands[o->operand_count++] = operand;
  return CLI_DONE;
}

static int read_count(const cli_options *o, const char *option, const char *text, int64_t most, int32_t *out) {
  int64_t value;
  if (!cli_parse_number(text, strlen(text), &value) || value < 1 || value > most)
    return cli_usage(o->command, "%s takes a number from 1 to %lld, not \"%s\"", option, (long long)most, text);
  *out = (int32_t)value;
  return CLI_DONE;
}

static int add_rename(cli_options *o, const char *names) {
  const char *equals = strchr(names, '=');
  if (!equals || equals == names || !equals[1]) return cli_usage(o->command, "--rename takes OLD=NEW, not \"%s\"", names);
  if (o->rename_count == CLI_MOST_RENAMES) return cli_usage(o->command, "--rename may be given %d times", CLI_MOST_RENAMES);
  o->renames[o->rename_count++] = names;
  o->given |= CLI_RENAME;
  return CLI_DONE;
}

static int read_real(const cli_options *o, const char *option, const char *text, double least, double most, double *out) {
  if (cli_parse_real(text, out) && *out >= least && *out <= most) return CLI_DONE;
  return cli_usage(o->command, "%s takes a number from %g to %g, not \"%s\"", option, least, most, text);
}

/* Of a filter that the library leaves out at 0: 0 as given is the least, of which one token is left. */
static int read_filter(const cli_options *o, const char *option, const char *text, double most, double *out) {
  const int status = read_real(o, option, text, 0, most, out);
  if (!status && *out == 0) *out = DBL_MIN;
  return status;
}

static int read_integer(const cli_options *o, const char *option, const char *text, int64_t *out) {
  if (cli_parse_number(text, strlen(text), out)) return CLI_DONE;
  return cli_usage(o->command, "%s takes a number from 0 to %lld, not \"%s\"", option, (long long)INT64_MAX, text);
}

static int read_seed(const cli_options *o, const char *option, const char *text, uint64_t *out) {
  if (cli_parse_digits(text, strlen(text), out)) return CLI_DONE;
  return cli_usage(o->command, "%s takes a number from 0 to %llu, not \"%s\"", option, (unsigned long long)UINT64_MAX, text);
}

static int read_extent(cli_options *o, const char *option, int64_t *out) {
  o->given |= CLI_SHAPE;
  if (cli_parse_number(optarg, strlen(optarg), out) && *out > 0) return CLI_DONE;
  return cli_usage(o->command, "%s takes a number from 1 to %lld, not \"%s\"", option, (long long)INT64_MAX, optarg);
}

static const char *of_history(cli_options *o, const char *option) { return o->sampling.of_history = o->sampling.given = option; }

static int take_penalty(cli_options *o, int option) {
  switch (option) {
    case REPETITION: return read_real(o, of_history(o, "--repetition"), optarg, 0.001, 1000, &o->sampling.repetition);
    case FREQUENCY: return read_real(o, of_history(o, "--frequency"), optarg, -1000, 1000, &o->sampling.frequency);
    case PRESENCE: return read_real(o, of_history(o, "--presence"), optarg, -1000, 1000, &o->sampling.presence);
    case LAST_N: return read_count(o, of_history(o, "--last-n"), optarg, INT32_MAX, &o->sampling.last_n);
    default: o->sampling.history = optarg, o->sampling.given = "--history"; return CLI_DONE;
  }
}

static int take_sampling(cli_options *o, int option) {
  o->given |= CLI_SAMPLING;
  switch (option) {
    case TEMPERATURE: return read_real(o, o->sampling.given = "--temperature", optarg, 0, 1000, &o->sampling.temperature);
    case TOP_K: return read_count(o, o->sampling.given = "--top-k", optarg, INT32_MAX, &o->sampling.top_k);
    case TOP_P: return read_filter(o, o->sampling.given = "--top-p", optarg, 1, &o->sampling.top_p);
    case MIN_P: return read_real(o, o->sampling.given = "--min-p", optarg, 0, 1, &o->sampling.min_p);
    case TYPICAL_P: return read_filter(o, o->sampling.given = "--typical-p", optarg, 1, &o->sampling.typical_p);
    case TOP_N_SIGMA: return read_filter(o, o->sampling.given = "--top-n-sigma", optarg, 1000, &o->sampling.top_n_sigma);
    case MIN_KEEP: return read_count(o, o->sampling.given = "--min-keep", optarg, INT32_MAX, &o->sampling.min_keep);
    case SEED: return read_seed(o, o->sampling.given = "--seed", optarg, &o->sampling.seed);
    case POSITION: return read_integer(o, o->sampling.given = "--position", optarg, &o->sampling.position);
    case ORDER: o->sampling.order = optarg, o->sampling.given = "--order"; return CLI_DONE;
    default: return take_penalty(o, option);
  }
}

static int not_understood(const cli_options *o, const char *word) {
  if (optopt > 0 && optopt < IDS && strncmp(word, "--", 2) != 0) return cli_usage(o->command, "there is no option -%c", optopt);
  if (optopt > 0) return cli_usage(o->command, "\"%s\": the option takes no value", word);
  return cli_usage(o->command, "there is no option %s", word);
}

static int take(cli_options *o, int option, const char *word) {
  switch (option) {
    case OPERAND: return add_operand(o, optarg);
    case IDS: o->ids = optarg, o->given |= CLI_IDS; return CLI_DONE;
    case NPY: o->npy = optarg, o->given |= CLI_NPY; return CLI_DONE;
    case HIDDEN: o->hidden = optarg, o->given |= CLI_HIDDEN; return CLI_DONE;
    case TARGETS: o->targets = optarg, o->given |= CLI_TARGETS; return CLI_DONE;
    case LOGPROBS: o->logprobs = 1, o->given |= CLI_LOGPROBS; return CLI_DONE;
    case DTYPE: o->dtype = optarg, o->given |= CLI_DTYPE; return CLI_DONE;
    case ROWS: o->rows = optarg, o->given |= CLI_ROWS; return CLI_DONE;
    case FORMAT: o->format = optarg, o->given |= CLI_FORMAT; return CLI_DONE;
    case FROM: o->from = optarg, o->given |= CLI_FROM; return CLI_DONE;
    case DIM: return read_extent(o, "--dim", &o->dim);
    case VOCAB: return read_extent(o, "--vocab", &o->vocab);
    case RENAME: return add_rename(o, optarg);
    case TEMPERATURE:
    case TOP_K:
    case TOP_P:
    case MIN_P:
    case TYPICAL_P:
    case TOP_N_SIGMA:
    case MIN_KEEP:
    case REPETITION:
    case FREQUENCY:
    case PRESENCE:
    case HISTORY:
    case LAST_N:
    case SEED:
    case POSITION:
    case ORDER: return take_sampling(o, option);
    case JSON: o->json = 1; return CLI_DONE;
    case VERSION: o->version = 1; return CLI_DONE;
    case THREADS: return read_count(o, "--threads", optarg, 1024, &o->threads);
    case 'h': o->help = 1; return CLI_DONE;
    case 'k': o->given |= CLI_K; return read_count(o, "-k", optarg, INT32_MAX, &o->k);
    case ':': return cli_usage(o->command, "%s needs a value", word);
    default: return not_understood(o, word);
  }
}

int cli_options_read(int argc, char **argv, cli_options *out) {
  *out = (cli_options){.k = 10, .sampling = {.temperature = 1, .repetition = 1}};
  opterr = 0;
  int option, status = CLI_DONE;
  /* '-': operands come in their order, between options too, whatever POSIXLY_CORRECT says. */
  while (status == CLI_DONE && (option = getopt_long(argc, argv, "-:hk:", long_options, NULL)) != -1)
    status = take(out, option, argv[optind > 0 ? optind - 1 : 0]);
  for (; status == CLI_DONE && optind < argc; ++optind) status = add_operand(out, argv[optind]); /* behind "--" */
  return status;
}
