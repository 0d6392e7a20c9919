/* The help of a command, and the one parser that reads its options: both by its groups of rows. */
#include "cli/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/option_values.h"

/* ---- help ------------------------------------------------------------------------------------------------------- */

static void print_row(pf_out *out, const struct pf_option_row *row)
{
    char left[48];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
             row->letter ? "," : " ", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
    pf_out_print(out, "  %-26s %s\n", left, row->help);
}

static void print_help(pf_out *out, const pf_command *command)
{
    pf_out_print(out, "Usage: pilotfish %s %s\n\n%s", command->name, command->synopsis, command->description);
    for (const pf_option_group *const *group = command->groups; *group; group++) {
        pf_out_print(out, "\n%s:\n", (*group)->title);
        for (size_t i = 0; i < (*group)->n_rows; i++) print_row(out, &(*group)->rows[i]);
    }
    pf_out_print(out, "\nExamples:\n%s", command->examples);
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

int pf_options_misuse(const pf_command *command, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pf_out_say("pilotfish %s: %s; see pilotfish %s --help", command->name, text, command->name);
    return PF_EXIT_USAGE;
}

enum { FIRST_LONG = 256, HELP_LONG = 512 };

/* The rows of a command in the form that getopt_long wants. `rows[i]` has the value FIRST_LONG + i. */
typedef struct {
    const struct pf_option_row *rows[PF_MAX_OPTIONS];
    struct option longs[PF_MAX_OPTIONS + 2];
    char letters[2 * PF_MAX_OPTIONS + 4];
    int n;
} getopt_tables;

static void build_tables(const pf_command *command, getopt_tables *t)
{
    *t = (getopt_tables){ .letters = ":h" };
    size_t n_letters = 2;
    for (const pf_option_group *const *group = command->groups; *group; group++)
        for (size_t i = 0; i < (*group)->n_rows && t->n < PF_MAX_OPTIONS; i++) {
            const struct pf_option_row *row = &(*group)->rows[i];
            t->rows[t->n] = row;
            t->longs[t->n] =
                (struct option){ row->name, row->argument ? required_argument : no_argument, NULL, FIRST_LONG + t->n };
            if (row->letter) t->letters[n_letters++] = row->letter;
            if (row->letter && row->argument) t->letters[n_letters++] = ':';
            t->n++;
        }
    t->longs[t->n] = (struct option){ "help", no_argument, NULL, HELP_LONG };
}

static const struct pf_option_row *find_row(const getopt_tables *t, int value)
{
    if (value >= FIRST_LONG && value < FIRST_LONG + t->n) return t->rows[value - FIRST_LONG];
    for (int i = 0; i < t->n; i++)
        if (t->rows[i]->letter == value) return t->rows[i];
    return NULL;
}

static void set_defaults(const getopt_tables *t, pf_options *out)
{
    *out = (pf_options){
        .n_new = 128,
        .sampling = { .top_p = 1.0f },
        .n_samples = 1,
        .n_logprobs = -1,
        .draft_len = PF_DRAFT_LEN_UNSET,
        .isa_word = "auto",
        .bench_prompt_len = 512,
        .bench_gen_len = 64,
        .bench_context = 128,
        .trips = { .n_rounds = 2000, .n_sequences = 1, .draft_len = 1, .context = 16 },
        .rows = { 1 },
        .n_rows = 1,
        .limit = INT_MAX,
    };
    for (int i = 0; i < t->n; i++) {
        const struct pf_option_row *row = t->rows[i];
        if (row->otherwise) memcpy((char *)out + row->offset, &row->otherwise, sizeof row->otherwise);
    }
}

static void note_given(pf_options *out, const struct pf_option_row *row)
{
    for (int32_t i = 0; i < out->n_given; i++)
        if (out->given[i] == row) return;
    out->given[out->n_given++] = row;
}

static int explain(const pf_command *command, int value, char **argv)
{
    const char *word = argv[optind - 1];
    if (value == ':') return pf_options_misuse(command, "%s needs a value", word);
    if (optopt < 0) return pf_options_misuse(command, "there is no option of the byte %d", optopt + 256);
    if (optopt > 0 && optopt < FIRST_LONG) return pf_options_misuse(command, "there is no option -%c", optopt);
    if (optopt) return pf_options_misuse(command, "%.60s takes no value", word);
    return pf_options_misuse(command, "there is no option %.60s here, or it is short for several", word);
}

int pf_options_parse(const pf_command *command, int argc, char **argv, pf_options *out, bool *help, pf_out *help_out)
{
    *help = false;
    getopt_tables tables;
    build_tables(command, &tables);
    set_defaults(&tables, out);
    opterr = 0;
    optind = 1;
    for (;;) {
        const int value = getopt_long(argc, argv, tables.letters, tables.longs, NULL);
        if (value == -1) break;
        if (value == HELP_LONG || value == 'h') {
            *help = true;
            print_help(help_out, command);
            return PF_EXIT_DONE;
        }
        const struct pf_option_row *row = value == '?' || value == ':' ? NULL : find_row(&tables, value);
        if (!row) return explain(command, value, argv);
        pf_complaint c = { .is_failure = false };
        if (!pf_option_read(row, optarg, out, &c))
            return c.is_failure ? pf_out_fail("%s", c.text) : pf_options_misuse(command, "%s", c.text);
        note_given(out, row);
    }
    if (command->operand && optind < argc) out->operand = argv[optind++];
    if (optind < argc)
        return pf_options_misuse(command, "\"%.60s\" is not an option, and nothing else is expected", argv[optind]);
    return PF_EXIT_DONE;
}

void pf_options_clear(pf_options *options)
{
    pf_tokens_clear(&options->tokens);
}
