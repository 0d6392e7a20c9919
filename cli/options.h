/*
 * The command line, parsed and range-checked: what every subcommand takes, as one plain struct.
 *
 * An option is a row of a table: its name, where its value goes, the range that is allowed, its line of --help. Rows
 * come in groups, and a subcommand lists the groups that it takes, so an option means the same wherever it is taken
 * and the help cannot disagree with the parser.
 *
 * A word that is not understood is one sentence on stderr and exit status 2; a value that is understood and cannot be
 * served (no such file, an instruction set that this machine lacks) is found later and is exit status 1.
 */
#ifndef PF_CLI_OPTIONS_H
#define PF_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/roundtrip.h"
#include "cli/output.h"
#include "engine/engine.h"

/* Exit statuses. */
enum { PF_EXIT_DONE = 0, PF_EXIT_FAILED = 1, PF_EXIT_USAGE = 2, PF_EXIT_INTERRUPTED = 130 };

enum {
    PF_MAX_STOPS = 16,     /* --stop, repeated */
    PF_MAX_OPTIONS = 64,   /* that a command takes */
    PF_MAX_CORES = 1024,   /* --cores; no more than a team has members */
    PF_MAX_LIST = 16,      /* entries of a list that makes a grid */
    PF_DRAFT_LEN_AUTO = 0, /* the word of pf_request: the drafter chooses */
    PF_DRAFT_LEN_UNSET = -1,
};

typedef enum { PF_COLOR_AUTO, PF_COLOR_ALWAYS, PF_COLOR_NEVER } pf_color;

typedef enum {
    PF_DRAFTER_UNSET,
    PF_DRAFTER_MODEL,
    PF_DRAFTER_NGRAM,
    PF_DRAFTER_SUFFIX,
    PF_DRAFTER_CASCADE
} pf_drafter_kind; /* unset: model */

typedef enum { PF_DRAFT_AHEAD_UNSET, PF_DRAFT_AHEAD_ON, PF_DRAFT_AHEAD_OFF } pf_draft_ahead; /* unset: off */

typedef enum { PF_VERIFIES_ON_CPU, PF_VERIFIES_ON_CUDA } pf_verifies_on;

typedef struct {
    const char *items[PF_MAX_STOPS];
    int32_t n;
} pf_strings;

/* Strings point into argv. What was not given has its default. */
typedef struct {
    const struct pf_option_row *given[PF_MAX_OPTIONS]; /* each once */
    int32_t n_given;

    /* models and peers */
    const char *model, *draft, *draft_worker, *verifier, *worker;
    const char *listen;
    const char *metrics; /* where the metrics of a worker or a verifier are served */
    const char *operand; /* the word beside the options */
    bool once;           /* of top */
    const char *output;  /* of quantize */
    bool loopback;

    /* the prompt: at most one of the four */
    const char *prompt, *prompt_file, *chat_file;
    const char *system, *chat_template;            /* of a chat */
    const char *api_key_file, *tls_cert, *tls_key; /* of serve */
    pf_tokens tokens;
    bool tokens_given;

    /* generating */
    int32_t n_new;
    bool n_new_given;
    pf_sampling sampling;
    bool seed_given;
    pf_logit_rules rules; /* its biases are these */
    int32_t bias_ids[PF_MAX_LOGIT_BIASES];
    float biases[PF_MAX_LOGIT_BIASES];
    pf_strings stops;
    bool ignore_eos;
    int32_t n_samples;
    int32_t n_logprobs; /* likeliest tokens; -1: no log-probabilities */

    /* speculation */
    pf_drafter_kind
        drafters[PF_MAX_LIST];    /* that are offered, the first by default; of a bench those that it measures */
    int32_t n_drafters;           /* 0: the default */
    uint64_t suffix_corpus_bytes; /* 0: none */
    int32_t draft_len;  /* PF_DRAFT_LEN_AUTO: chosen as it goes; ..._UNSET: likewise, where a seed need not repeat */
    pf_method method;   /* 0: by temperature */
    int32_t siblings;   /* pf_request.siblings */
    pf_typical typical; /* thresholds of that method */
    pf_draft_ahead draft_ahead;
    int32_t draft_branches;                      /* 0: the engine's default */
    const char *draft_passes, *target_tokenizer; /* as in pf_role_options */
    bool is_worker;                              /* the engine that is opened serves as a drafter */
    uint64_t simulate_token_ns, simulate_step_ns;

    /* running */
    /* words of pf_engine_options; NULL: auto */
    const char *dtype, *draft_dtype, *activations, *draft_activations, *gemm, *head, *draft_head, *kv_dtype;
    pf_isa isa;
    const char *isa_word; /* parsed when the command is known to run: an ISA can be a word and not be here */
    int32_t n_threads;    /* 0: the engine chooses */
    pf_threading threading;
    int32_t cores[PF_MAX_CORES], n_cores;
    bool strict;              /* refuse what a warning would report of a model's files */
    int32_t context;          /* 0: the model's */
    int32_t max_sequences;    /* of a server; 0: its default */
    int32_t kv_sequences;     /* likewise */
    int32_t prefix_cache_off; /* likewise; 0: on */
    pf_verifies_on verifies_on;

    /* what comes out */
    bool json, all, no_special;
    pf_color color;

    /* benchmarks */
    int32_t bench_prompt_len, bench_gen_len, bench_context, limit;
    pf_roundtrip_plan trips;
    const char *prompts_file;
    const char *report_file;
    pf_strings what_if;
    const char *synthetic;        /* --synthetic-acceptance */
    const float *synthetic_rates; /* as pf_role_options.synthetic_acceptance; borrowed */
    int32_t repeats;
    bool warm_up;
    const char *bench_op, *bench_format; /* NULL: all */
    bool quick;
    int32_t rows[PF_MAX_LIST], n_rows; /* of a pass */
    int32_t draft_lens[PF_MAX_LIST], n_draft_lens;
    pf_method methods[PF_MAX_LIST];
    int32_t n_methods;
    int32_t siblings_list[PF_MAX_LIST], n_siblings_list;
    float temperatures[PF_MAX_LIST];
    int32_t n_temperatures;
    bool simulate; /* and what it simulates, besides simulate_token_ns and simulate_step_ns */
    float sim_acceptances[PF_MAX_LIST], sim_round_trips[PF_MAX_LIST];
    int32_t sim_batches[PF_MAX_LIST];
    int32_t n_sim_acceptances, n_sim_round_trips, n_sim_batches;
} pf_options;

typedef struct {
    const char *title;
    const struct pf_option_row *rows;
    size_t n_rows;
} pf_option_group;

/* A subcommand. `groups` ends with NULL. */
typedef struct pf_command {
    const char *name;        /* "generate", "bench throughput" */
    const char *summary;     /* one line */
    const char *synopsis;    /* what follows the name */
    const char *description; /* paragraphs, lines broken by hand, a line end at the end */
    const char *examples;    /* one command a line */
    const pf_option_group *const *groups;
    const char *operand; /* the name of the one word that it takes beside options; NULL: none */
    int (*run)(const pf_options *options, pf_out *out); /* the exit status */
} pf_command;

extern const pf_option_group pf_options_model;         /* -m */
extern const pf_option_group pf_options_prompt;        /* -p, -f, --tokens, --chat */
extern const pf_option_group pf_options_ids;           /* --tokens */
extern const pf_option_group pf_options_text;          /* -p, --no-special, --chat */
extern const pf_option_group pf_options_generating;    /* -n, --stop, ... */
extern const pf_option_group pf_options_chat;          /* -n, --system, --chat-template, ... of a chat */
extern const pf_option_group pf_options_sampling;      /* --temperature, --top-k, ... */
extern const pf_option_group pf_options_speculation;   /* -d, --draft-worker, --verifier, --draft-len, --method */
extern const pf_option_group pf_options_running;       /* --dtype, --threads, ... */
extern const pf_option_group pf_options_draft_head;    /* --head of a draft */
extern const pf_option_group pf_options_target_head;   /* of a target */
extern const pf_option_group pf_options_head;          /* of either */
extern const pf_option_group pf_options_context;       /* --context */
extern const pf_option_group pf_options_draft_running; /* --draft-dtype, ..., --simulate-token-ms, --simulate-step-ms */
extern const pf_option_group pf_options_service;       /* --listen, --max-sequences */
extern const pf_option_group pf_options_metrics;       /* --metrics */
extern const pf_option_group pf_options_top;           /* --once */
extern const pf_option_group pf_options_http;          /* --api-key-file, --chat-template */
extern const pf_option_group pf_options_worker_drafter; /* --drafter, --suffix-corpus */
extern const pf_option_group pf_options_target_backend; /* --backend */
extern const pf_option_group pf_options_worker_trial, pf_options_verifier_trial;
extern const pf_option_group pf_options_quantize; /* -o, --dtype, --threads */
extern const pf_option_group pf_options_logits, pf_options_throughput, pf_options_kernels, pf_options_pass;
extern const pf_option_group pf_options_rpc, pf_options_acceptance;
extern const pf_option_group pf_options_info, pf_options_json, pf_options_json_lines, pf_options_color;

/* Parse argv[1 ..] by the command's groups into *out. Returns PF_EXIT_DONE; or prints help (--help) and returns
 * PF_EXIT_DONE with *help set; or prints a sentence and returns PF_EXIT_USAGE, or PF_EXIT_FAILED where there is no memory.
 * The caller ends *out with pf_options_clear whatever is returned. */
int pf_options_parse(const pf_command *command, int argc, char **argv, pf_options *out, bool *help, pf_out *help_out);
void pf_options_clear(pf_options *options);

/* "pilotfish generate: SENTENCE; see pilotfish generate --help" on stderr; returns PF_EXIT_USAGE. */
int pf_options_misuse(const pf_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
