/* Measures a pass beside its kernels. */
#include "bench/pass_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stop.h"
#include "bench/keep.h"
#include "bench/peak.h"
#include "bench/reader.h"
#include "bench/statistics.h"
#include "model/forward/thread_count.h"
#include "model/forward/pass_kernels.h"

enum { SETTLING_PASSES = (PF_TRIAL_LEVELS + 1) * PF_TRIAL_SAMPLES, MIN_ROUNDS = 5, MAX_ROUNDS = 400 };
static const uint64_t ENOUGH_NS = 2000000000, ENOUGH_QUICK_NS = 20000000; /* all rounds of one number of rows */
static const uint64_t SHORTEST_SAMPLE_NS = 50000;                         /* shorter calls are repeated */
static const uint64_t LONGEST_BURST_NS = 3000000;

/* The measured calls: the kernels of the model, the argmax behind it, and the empty loops around them. */
enum { ARGMAX = PF_N_PASS_KERNELS, EMPTY, N_MEASURED };

typedef struct {
    const pf_pass_bench_options *options;
    pf_engine *engine;
    pf_context *context;
    const pf_kernel *argmax;
    pf_kv_seq sequence;
    int32_t *tokens; /* [context + PF_PASS_MAX_ROWS] arbitrary ids */
    int32_t rows;    /* of the current pass */
    int32_t n_members;
    int32_t n_repeats[N_MEASURED];
    const pf_read_pattern
        *readers[PF_N_PASS_KERNELS]; /* the fastest on these weights; NULL: the kernel has no weights */
    pf_burst burst;
    pf_samples pass, peak, run[N_MEASURED], once[N_MEASURED], read[PF_N_PASS_KERNELS]; /* ns of one pass; Gop/s */
    pf_error *error;
} bench;

static bool is_cancelled(const bench *b)
{
    return pf_is_told(b->options->cancel);
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static void find_best(const bench *b)
{
    for (int32_t i = 0; i < b->rows; i++)
        pf_keep((uint64_t)b->argmax->fn.argmax(pf_context_logits(b->context, i), pf_context_n_vocab(b->context)));
}

/* Runs a pass after the same context as the previous one, after a rollback of the previous one. */
static pf_status run_pass(bench *b, uint64_t *ns)
{
    const pf_span span = { b->sequence, b->tokens + b->options->context, b->rows, b->rows, NULL, 0 };
    PF_TRY(pf_kv_truncate(pf_context_kv(b->context), b->sequence, b->options->context));
    const uint64_t begin_ns = pf_now_ns();
    PF_TRY(pf_context_forward(b->context, &span, 1));
    find_best(b);
    *ns = pf_now_ns() - begin_ns;
    return PF_OK;
}

/* ---- its kernels -------------------------------------------------------------------------------------------------- */

static uint64_t time_alone(const bench *b, int which, int32_t n_repeats)
{
    if (which != ARGMAX)
        return pf_pass_run_alone(b->context, which == EMPTY ? PF_N_PASS_KERNELS : (pf_pass_kernel)which, n_repeats);
    const uint64_t begin_ns = pf_now_ns();
    for (int32_t i = 0; i < n_repeats; i++) find_best(b);
    return pf_now_ns() - begin_ns;
}

typedef struct {
    bench *b;
    pf_pass_kernel kernel;
} weights;

static uint64_t read_weights(void *user, pf_read_fn *read)
{
    const weights *w = user;
    return pf_pass_read_alone(w->b->context, w->kernel, read, w->b->n_repeats[w->kernel]);
}

/* Chooses the number of threads, the repetitions of each kernel and the read pattern of its weights. */
static pf_status prepare(bench *b)
{
    uint64_t ns;
    for (int i = 0; i < SETTLING_PASSES && !is_cancelled(b); i++) PF_TRY(run_pass(b, &ns));
    b->n_members = pf_pass_members(b->context);
    pf_samples_clear(&b->pass);
    pf_samples_clear(&b->peak);
    for (int i = 0; i < N_MEASURED; i++) {
        (void)time_alone(b, i, 1);
        b->n_repeats[i] = (int32_t)(SHORTEST_SAMPLE_NS / (time_alone(b, i, 1) + 1)) + 1;
        b->n_repeats[i] =
            (int32_t)(SHORTEST_SAMPLE_NS * (uint64_t)b->n_repeats[i] / (time_alone(b, i, b->n_repeats[i]) + 1)) + 1;
        pf_samples_clear(&b->run[i]);
        pf_samples_clear(&b->once[i]);
    }
    for (int i = 0; i < PF_N_PASS_KERNELS; i++) {
        pf_samples_clear(&b->read[i]);
        const bool has_weights = pf_pass_describe(b->context, (pf_pass_kernel)i).has_weights;
        b->readers[i] = NULL;
        if (has_weights)
            pf_reader_choose(read_weights, &(weights){ b, (pf_pass_kernel)i }, b->options->cancel, &b->readers[i], 1);
    }
    return PF_OK;
}

/* Runs two passes and one sample of a kernel. A pass that ran with another number of threads, because the engine was tuning
 * it, is not counted. */
static pf_status take_sample(bench *b, int which)
{
    uint64_t ns;
    PF_TRY(run_pass(b, &ns));
    PF_TRY(run_pass(b, &ns));
    if (pf_pass_members(b->context) != b->n_members) return PF_OK;
    const int32_t n = b->n_repeats[which];
    pf_samples_add(&b->pass, (double)ns);
    pf_samples_add(&b->once[which], (double)time_alone(b, which, 1));
    pf_samples_add(&b->run[which], (double)time_alone(b, which, n) / n);
    if (which >= PF_N_PASS_KERNELS || !b->readers[which]) return PF_OK;
    const uint64_t read_ns = read_weights(&(weights){ b, (pf_pass_kernel)which }, b->readers[which]->read);
    pf_samples_add(&b->read[which], (double)read_ns / n);
    return PF_OK;
}

/* Gop/s of the active threads of the pass. */
static void sample_peak(bench *b, uint64_t ns)
{
    pf_team *team = pf_engine_team(b->engine);
    const uint64_t most = ns < LONGEST_BURST_NS ? ns : LONGEST_BURST_NS;
    const double gops = pf_peak_measure(b->burst, team, most > SHORTEST_SAMPLE_NS ? most : SHORTEST_SAMPLE_NS);
    if (!isnan(gops)) pf_samples_add(&b->peak, gops * b->n_members / pf_team_size(team));
}

/* ---- figures ------------------------------------------------------------------------------------------------------- */

static pf_pass_part describe(const bench *b, int which)
{
    if (which != ARGMAX) return pf_pass_describe(b->context, (pf_pass_kernel)which);
    pf_pass_part part = { .name = "argmax", .op = pf_op_name(PF_OP_ARGMAX), .kernel = b->argmax, .n_calls = b->rows };
    part.bytes = (size_t)pf_context_n_vocab(b->context) * sizeof(float);
    snprintf(part.shape, sizeof part.shape, "1x%d", pf_context_n_vocab(b->context));
    return part;
}

/* The limit of one call: the larger of a bare read and the multiplies at the rate of the burst. */
static void set_limit(bench *b, int which, const pf_pass_part *part, pf_kernel_figure *f)
{
    f->limit_us = f->fraction = NAN;
    if (!part->has_weights) return;
    const bool is_of_burst = b->peak.n > 0 && part->kernel->act == pf_model_act(pf_engine_model(b->engine));
    const double multiply_us = is_of_burst ? part->operations / (pf_samples_median(&b->peak) * 1e3) : 0.0;
    f->limit = PF_LIMIT_READ;
    f->limit_us = pf_samples_median(&b->read[which]) * 1e-3 / part->n_calls;
    f->read = b->readers[which]->name;
    f->multiply = b->burst.instruction;
    if (multiply_us > f->limit_us) {
        f->limit = PF_LIMIT_MULTIPLY;
        f->limit_us = multiply_us;
    }
    f->fraction = f->limit_us / f->us;
}

static pf_pass_figure summarise(bench *b, int which)
{
    const bool is_looped = which != ARGMAX;
    const double empty_ns = is_looped ? pf_samples_median(&b->run[EMPTY]) : 0.0;
    const double empty_once_ns = is_looped ? pf_samples_median(&b->once[EMPTY]) : 0.0;
    const pf_pass_part part = describe(b, which);
    pf_pass_figure f = {
        .name = part.name,
        .op = part.op,
        .n_calls = part.n_calls,
        .pass_us = (pf_samples_median(&b->run[which]) - empty_ns) * 1e-3,
        .once_us = (pf_samples_median(&b->once[which]) - empty_once_ns) * 1e-3,
        .figure = { .kernel = part.kernel, .rows = b->rows, .n_threads = b->n_members, .onednn_us = NAN },
    };
    f.figure.us = f.pass_us / part.n_calls;
    f.figure.gflops = part.operations > 0.0 ? part.operations / (f.figure.us * 1e3) : NAN;
    f.figure.gbps = (double)part.bytes / (f.figure.us * 1e3);
    snprintf(f.figure.shape, sizeof f.figure.shape, "%s", part.shape);
    set_limit(b, which, &part, &f.figure);
    return f;
}

static pf_status report(bench *b)
{
    pf_pass_sum sum = {
        .isa = pf_model_kernels(pf_engine_model(b->engine))->isa,
        .rows = b->rows,
        .context = b->options->context,
        .n_threads = b->n_members,
        .pass_us = pf_samples_median(&b->pass) * 1e-3,
    };
    for (int i = 0; i < EMPTY; i++) {
        if (describe(b, i).n_calls == 0) continue;
        const pf_pass_figure f = summarise(b, i);
        sum.sum_us += f.pass_us;
        sum.once_sum_us += f.once_us;
        if (!b->options->figure(b->options->user, &f)) return PF_CANCELLED;
    }
    sum.ratio = sum.pass_us / sum.sum_us;
    sum.once_ratio = sum.pass_us / sum.once_sum_us;
    return b->options->sum(b->options->user, &sum) ? PF_OK : PF_CANCELLED;
}

static pf_status measure(bench *b)
{
    PF_TRY(prepare(b));
    const uint64_t enough_ns = b->options->quick ? ENOUGH_QUICK_NS : ENOUGH_NS, begin_ns = pf_now_ns();
    for (int round = 0; round < MAX_ROUNDS && (round < MIN_ROUNDS || pf_now_ns() - begin_ns < enough_ns); round++) {
        const uint64_t round_ns = pf_now_ns();
        for (int i = 0; i < N_MEASURED; i++) {
            if (is_cancelled(b)) return PF_CANCELLED;
            PF_TRY(take_sample(b, i));
        }
        sample_peak(b, (pf_now_ns() - round_ns) / N_MEASURED);
        if (!b->options->progress) continue;
        const uint64_t spent_ns = pf_now_ns() - begin_ns;
        b->options->progress(b->options->user, spent_ns < enough_ns ? spent_ns : enough_ns, enough_ns);
    }
    return report(b);
}

/* Fills the context before the measured passes. */
static pf_status feed(bench *b)
{
    pf_stop stop = { .told = b->options->cancel };
    pf_context_set_stop(b->context, &stop);
    const pf_status status = pf_context_prefill(b->context, b->sequence, b->tokens, b->options->context, false);
    pf_context_set_stop(b->context, NULL);
    return status;
}

static pf_status run(bench *b)
{
    const pf_pass_bench_options *options = b->options;
    const int32_t n = options->context + PF_PASS_MAX_ROWS;
    const pf_context_config *room = pf_context_get_config(b->context);
    if (n > room->max_tokens || PF_PASS_MAX_ROWS > room->max_logit_rows)
        return pf_fail(b->error, PF_INVALID,
                       "the context has room for %d tokens and %d rows of logits, and the measurement needs %d and %d",
                       room->max_tokens, room->max_logit_rows, n, PF_PASS_MAX_ROWS);
    b->tokens = calloc((size_t)n, sizeof *b->tokens);
    if (!b->tokens) return pf_fail(b->error, PF_NOMEM, "no memory for %d tokens", n);
    for (int32_t i = 0; i < n; i++) b->tokens[i] = (int32_t)(((int64_t)i * 7919 + 13) % pf_context_n_vocab(b->context));
    PF_TRY(feed(b));
    for (int32_t i = 0; i < options->n_rows; i++) {
        b->rows = options->rows[i];
        PF_TRY(measure(b));
    }
    return PF_OK;
}

pf_status pf_bench_pass(pf_engine *engine, const pf_pass_bench_options *options, pf_error *error)
{
    bench *b = calloc(1, sizeof *b);
    if (!b) return pf_fail(error, PF_NOMEM, "no memory for the measurement");
    const pf_kernels *kernels = pf_model_kernels(pf_engine_model(engine));
    b->options = options;
    b->engine = engine;
    b->context = pf_engine_context(engine);
    b->argmax = kernels->chosen[PF_OP_ARGMAX][PF_TYPE_F32];
    b->error = error;
    b->burst = pf_peak_burst_of(
        kernels->chosen_gemm[pf_model_format(pf_engine_model(engine))][pf_model_act(pf_engine_model(engine))]);
    pf_status status = pf_kv_acquire(pf_context_kv(b->context), &b->sequence);
    if (status == PF_OK) {
        status = run(b);
        pf_kv_release(pf_context_kv(b->context), b->sequence);
    }
    free(b->tokens);
    free(b);
    return status;
}
