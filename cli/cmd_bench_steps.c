/* pilotfish bench steps: passes on request, for the process that measures this engine in turns with another one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/reader.h"
#include "bench/stepper.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/setup.h"

/* What a sequence must have room for behind its tokens where a step is asked for. */
enum { STEP_ROOM = 2 * PF_STEPPER_MAX_ROWS };

typedef struct {
    pf_engine *engine;
    pf_stepper stepper;
    int32_t room;                  /* tokens of a sequence */
    bool begun;                    /* a sequence is open */
    const pf_read_pattern *reader; /* NULL: not chosen yet */
    uint64_t checksum;             /* of what was read, so that it was */
} steps;

static uint64_t read_weights(void *user, pf_read_fn *read)
{
    steps *s = user;
    const uint64_t begin_ns = pf_now_ns();
    s->checksum ^= pf_model_read_weights(pf_engine_model(s->engine), pf_engine_team(s->engine), read);
    return pf_now_ns() - begin_ns;
}

static pf_status begin(steps *s, int32_t n, double *ms, pf_error *error)
{
    const int32_t most = s->room - STEP_ROOM - 1; /* the prefill commits one token more */
    if (most < 1)
        return pf_fail(error, PF_INVALID, "begin %d: the context is %d, expected at least %d, of which steps need %d",
                       n, s->room, s->room - most + 1, STEP_ROOM);
    if (n < 1 || n > most) return pf_fail(error, PF_INVALID, "begin %d: expected 1 to %d tokens", n, most);
    if (s->begun) pf_stepper_end(&s->stepper);
    s->begun = false;
    uint64_t ns = 0;
    PF_TRY(pf_stepper_begin(&s->stepper, n, &ns, error));
    s->begun = true;
    *ms = (double)ns * 1e-6;
    return PF_OK;
}

static pf_status step(steps *s, int32_t n_rows, int32_t n_passes, double *ms, pf_error *error)
{
    if (n_rows < 1 || n_rows > PF_STEPPER_MAX_ROWS || n_passes < 1)
        return pf_fail(error, PF_INVALID, "step %d %d: expected 1 to %d rows and at least one pass", n_rows, n_passes,
                       PF_STEPPER_MAX_ROWS);
    if (!s->begun) return pf_fail(error, PF_INVALID, "step: expected begin before it");
    *ms = 0.0;
    for (int32_t i = 0; i < n_passes; i++) {
        if (s->stepper.committed + STEP_ROOM > s->room)
            return pf_fail(error, PF_INVALID, "step: the sequence has %d tokens, expected begin: the context is %d",
                           s->stepper.committed, s->room);
        uint64_t ns = 0;
        PF_TRY(pf_stepper_step(&s->stepper, n_rows, &ns, error));
        *ms += (double)ns * 1e-6;
    }
    return PF_OK;
}

/* Whether `line` is `word` and n numbers behind blanks, which go to `numbers`. */
static bool is_request(const char *line, const char *word, int n, int32_t *numbers)
{
    if (strncmp(line, word, strlen(word)) != 0) return false;
    const char *at = line + strlen(word);
    for (int i = 0; i < n; i++) {
        char *end;
        if (*at != ' ' && *at != '\t') return false;
        const long number = strtol(at, &end, 10);
        if (end == at || number < INT32_MIN || number > INT32_MAX) return false;
        numbers[i] = (int32_t)number;
        at = end;
    }
    return at[strspn(at, " \t\r\n")] == '\0';
}

/* One line of the dialogue to one number. */
static pf_status answer(steps *s, const char *line, double *out, pf_error *error)
{
    int32_t numbers[2];
    if (is_request(line, "begin", 1, numbers)) return begin(s, numbers[0], out, error);
    if (is_request(line, "step", 2, numbers)) return step(s, numbers[0], numbers[1], out, error);
    if (is_request(line, "read", 0, numbers)) {
        if (!s->reader) pf_reader_choose(read_weights, s, pf_interrupt_flag(), &s->reader, 1);
        *out = (double)read_weights(s, s->reader->read) * 1e-6;
        return PF_OK;
    }
    return pf_fail(error, PF_INVALID, "\"%.40s\" is not understood, expected begin TOKENS, step ROWS PASSES or read",
                   line);
}

/* One line, without its end; *is_end: there is none left. A byte at a time: nothing is read ahead, for which one would wait
 * in vain. */
static pf_status read_line(char *out, size_t capacity, bool *is_end, pf_error *error)
{
    size_t n = 0;
    char byte = '\0';
    *is_end = false;
    while (!*is_end && byte != '\n' && n + 1 < capacity) {
        if (!pf_input_wait(STDIN_FILENO)) return PF_CANCELLED;
        const ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return pf_fail(error, PF_UNAVAILABLE, "standard input: cannot be read: %s", strerror(errno));
        if (got > 0 && byte != '\n') out[n++] = byte;
        *is_end = got == 0;
    }
    out[n] = '\0';
    *is_end = *is_end && n == 0;
    return PF_OK;
}

static pf_status converse(steps *s, pf_out *out, pf_error *error)
{
    pf_out_print(out, "ready %zu\n", pf_model_step_bytes(pf_engine_model(s->engine)));
    char line[128];
    bool is_end = false;
    while (pf_out_flush(out)) {
        double number = 0.0;
        PF_TRY(read_line(line, sizeof line, &is_end, error));
        if (is_end) break;
        PF_TRY(answer(s, line, &number, error));
        pf_out_print(out, "%.6f\n", number);
    }
    return PF_OK;
}

static int run(const pf_options *options, pf_out *out)
{
    if (!options->model) return pf_options_misuse(&pf_command_bench_steps, "a model is needed: -m MODEL");
    pf_error error = { 0 };
    steps s = { 0 };
    pf_status status = pf_setup_open_engine(options, 1, &s.engine, &error);
    if (status == PF_OK) {
        pf_model_info info;
        pf_engine_info(s.engine, &info);
        s.room = info.max_context;
        status = pf_stepper_open(s.engine, s.room, pf_interrupt_flag(), &s.stepper, &error);
        if (status == PF_OK) status = converse(&s, out, &error);
        pf_stepper_close(&s.stepper);
    }
    pf_engine_close(s.engine);
    if (*pf_interrupt_flag()) return PF_EXIT_INTERRUPTED;
    return status == PF_OK ? PF_EXIT_DONE : pf_out_fail_error(status, &error);
}

static const pf_option_group *const groups[] = { &pf_options_model, &pf_options_running, &pf_options_head,
                                                 &pf_options_context, NULL };

const pf_command pf_command_bench_steps = {
    .name = "bench steps",
    .summary = "single passes on request, to be measured in turns with another engine",
    .synopsis = "-m MODEL [options] < REQUESTS",
    .description =
        "Prints \"ready BYTES\", the weights that a decode step reads. Then each line of standard input is answered\n"
        "by one number:\n"
        "  begin TOKENS        open a sequence with so many tokens: milliseconds of the prefill\n"
        "  step ROWS PASSES    passes over 1 to 16 rows each, all but the first drafted: milliseconds of all\n"
        "  read                a bare read of the weights by the fastest pattern: milliseconds\n"
        "`./dev bench peers` speaks this with both sides.\n",
    .examples = "  printf 'begin 128\\nstep 1 16\\nread\\n' | pilotfish bench steps -m models/target\n",
    .groups = groups,
    .run = run,
};
