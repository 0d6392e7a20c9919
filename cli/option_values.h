/* A row of the table of options, and the reading of its value. Internal to cli/. */
#ifndef PF_CLI_OPTION_VALUES_H
#define PF_CLI_OPTION_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

typedef enum {
    PF_OPTION_KIND_FLAG,    /* bool */
    PF_OPTION_KIND_STRING,  /* const char * */
    PF_OPTION_KIND_STRINGS, /* pf_strings */
    PF_OPTION_KIND_FILE,    /* const char *: not empty */
    PF_OPTION_KIND_ADDRESS, /* const char *: host:port or unix:/path */
    PF_OPTION_KIND_LISTEN,  /* likewise; the port may be 0 */
    PF_OPTION_KIND_INT,     /* int32_t, min .. max */
    PF_OPTION_KIND_FLOAT,   /* float, min .. max */
    PF_OPTION_KIND_MS,      /* uint64_t nanoseconds from milliseconds, min .. max */
    PF_OPTION_KIND_SIZE,    /* uint64_t bytes, min .. max; with k, M or G times 2^10, 2^20, 2^30 */
    PF_OPTION_KIND_LENGTH,  /* int32_t: "auto" or min .. max */
    PF_OPTION_KIND_CHOICE,  /* an enumeration */
    PF_OPTION_KIND_WORD,    /* const char *: one of the choices, as it was given */
    PF_OPTION_KIND_SEED,    /* sampling.seed and seed_given */
    PF_OPTION_KIND_IDS,     /* tokens and tokens_given */
    PF_OPTION_KIND_BIASES,  /* bias_ids, biases and rules.n_biases */
    PF_OPTION_KIND_CORES,   /* cores and n_cores */
    PF_OPTION_KIND_DTYPE,   /* const char *: a word that pf_dtype_parse knows */
    PF_OPTION_KIND_ACT,     /* const char *: a word that pf_activations_parse knows */
} pf_option_kind;

/* What an option acts on. Where the command line names no such thing the option has no effect, which is worth a warning
 * (pf_setup_warn_of_idle_options). */
typedef enum {
    PF_OPTION_OF_COMMAND, /* itself */
    PF_OPTION_OF_MODEL,   /* -m */
    PF_OPTION_OF_DRAFT,   /* -d */
    PF_OPTION_OF_DRAFTER, /* -d or --draft-worker */
    PF_OPTION_OF_ENGINE,  /* -m or -d */
    PF_OPTION_OF_CONTEXT, /* the same, or a drafter without a model that is served */
    PF_OPTION_OF_SUFFIX,  /* --drafter suffix */
    PF_OPTION_OF_TEAM,    /* the same, or of a command that has no peers, itself */
} pf_option_of;

typedef struct {
    const char *word;
    int value;
} pf_option_choice;

struct pf_option_row {
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* NULL: a flag */
    const char *help;     /* one line */
    pf_option_kind kind;
    pf_option_of of;
    size_t offset; /* in pf_options, where the kind does not say */
    size_t count;  /* of an int32_t in pf_options: the option is a list of at most PF_MAX_LIST; 0: one value */
    double min, max;
    bool above_min;                  /* min itself is refused */
    const pf_option_choice *choices; /* ends with a NULL word */
    const char *otherwise;           /* the word where the option is not given; NULL: what all commands have */
};

/* What is wrong with a value: one sentence. */
typedef struct {
    char text[512];
    bool is_failure; /* the value is good, and could not be taken: not misuse */
} pf_complaint;

/* Put the value of an option where it goes. False: it is not there, and *complaint, zeroed before, says why. */
bool pf_option_read(const struct pf_option_row *row, const char *word, pf_options *out, pf_complaint *complaint);

#endif
