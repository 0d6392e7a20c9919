/* Prefill, decode and verification beside their limits. */
#include "bench/throughput.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/peak.h"
#include "bench/statistics.h"

const int32_t pf_verify_rows[PF_N_VERIFY_ROWS] = { 1, 2, 4, 8, 16 };

enum { MAX_SAMPLES = 4096, MIN_RUNS = 3, MAX_ROWS = 16 };
static const uint64_t SHORTEST_BURST_NS = 100000, LONGEST_BURST_NS = 50000000;
static const uint64_t ENOUGH_NS = 1500000000; /* of each part */
static const uint64_t ANSWER_LIMIT_NS = 600000000000;

typedef struct {
    double values[MAX_SAMPLES];
    size_t n;
} samples;

/* A sequence at the verifier, as the owner of a request sees it. */
typedef struct {
    pf_peer *verifier;
    uint64_t sequence;
    uint64_t round;
    int32_t committed;
    int32_t *prompt; /* [max(prompt_len, context)] */
    int32_t n_vocab;
} driver;

typedef struct {
    pf_engine *engine;
    const pf_throughput_options *options;
    driver driver;
    uint64_t checksum; /* of what was read, so that it was */
    pf_burst bursts[PF_N_BURSTS];
    samples step, read, decode_rate, prefill, burst_f32, burst_bf16, burst_int8, verify[PF_N_VERIFY_ROWS];
    pf_error *error;
} bench;

/* ---- one step --------------------------------------------------------------------------------------------------- */

static void add(samples *s, uint64_t ns)
{
    if (s->n < MAX_SAMPLES) s->values[s->n++] = (double)ns * 1e-6;
}

static double median(samples *s)
{
    return pf_percentile(s->values, s->n, 0.5);
}

/* Submit, wait for the verdict, and take note of what it committed. */
static pf_status ask(driver *d, const pf_batch *batch, uint64_t *ns, pf_error *error)
{
    const uint64_t begin_ns = pf_now_ns();
    PF_TRY(pf_peer_submit(d->verifier, batch));
    const pf_batch *answer;
    PF_TRY(pf_peer_collect(d->verifier, begin_ns + ANSWER_LIMIT_NS, &answer, error));
    *ns = pf_now_ns() - begin_ns;
    if (answer->n_refusals > 0) return pf_fail(error, answer->refusals[0].status, "%s", answer->refusals[0].text);
    if (answer->n_verdicts != 1 || answer->verdicts[0].n_tokens < 1)
        return pf_fail(error, PF_INTERNAL, "the verifier answered without a verdict");
    d->committed += answer->verdicts[0].n_tokens;
    return PF_OK;
}

static void end_sequence(driver *d)
{
    pf_close close = { .sequence = d->sequence };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    (void)!pf_peer_submit(d->verifier, &batch);
    const pf_batch *answer;
    (void)!pf_peer_collect(d->verifier, 0, &answer, NULL);
}

/* Open with a prompt of n tokens: a prefill, and the first token. */
static pf_status begin_sequence(driver *d, int32_t n, uint64_t *ns, pf_error *error)
{
    d->sequence++;
    d->round = 0;
    d->committed = n;
    pf_open open = {
        .sequence = d->sequence,
        .incarnation = 1,
        .tokens = d->prompt,
        .n_tokens = n,
        .sampling = { .top_p = 1.0f },
        .method = PF_METHOD_GREEDY,
        .max_draft = MAX_ROWS - 1,
    };
    const pf_batch batch = { .opens = &open, .n_opens = 1 };
    return ask(d, &batch, ns, error);
}

/* A pass over n_rows rows: the last committed token and n_rows - 1 drafted ones, which need not be right. */
static pf_status step(driver *d, int32_t n_rows, uint64_t *ns, pf_error *error)
{
    pf_proposal proposal = {
        .sequence = d->sequence,
        .incarnation = 1,
        .round = ++d->round,
        .base = d->committed,
        .tokens = d->prompt,
        .n_tokens = n_rows - 1,
    };
    const pf_batch batch = { .proposals = &proposal, .n_proposals = 1 };
    return ask(d, &batch, ns, error);
}

static bool is_cancelled(const bench *b)
{
    return b->options->cancel && *b->options->cancel;
}

/* ---- the parts -------------------------------------------------------------------------------------------------- */

static void read_once(bench *b)
{
    const uint64_t begin_ns = pf_now_ns();
    b->checksum ^= pf_model_read_weights(pf_engine_model(b->engine), pf_engine_team(b->engine));
    add(&b->read, pf_now_ns() - begin_ns);
}

/* gen_len steps after a prompt; between them bare reads, or nothing, as in generation. */
static pf_status steps(bench *b, bool with_reads, uint64_t *total_ns)
{
    uint64_t ns;
    *total_ns = 0;
    PF_TRY(begin_sequence(&b->driver, b->options->context, &ns, b->error));
    pf_status status = step(&b->driver, 1, &ns, b->error); /* warms up */
    for (int32_t i = 0; i < b->options->gen_len && status == PF_OK && !is_cancelled(b); i++) {
        if (with_reads) read_once(b);
        status = step(&b->driver, 1, &ns, b->error);
        if (with_reads && status == PF_OK) add(&b->step, ns);
        *total_ns += ns;
    }
    end_sequence(&b->driver);
    return status;
}

static pf_status decode_run(bench *b)
{
    uint64_t total_ns;
    PF_TRY(steps(b, true, &total_ns));
    PF_TRY(steps(b, false, &total_ns));
    if (b->decode_rate.n < MAX_SAMPLES)
        b->decode_rate.values[b->decode_rate.n++] = 1e9 * b->options->gen_len / (double)total_ns;
    return PF_OK;
}

static pf_status verify_run(bench *b)
{
    uint64_t ns;
    PF_TRY(begin_sequence(&b->driver, b->options->context, &ns, b->error));
    pf_status status = PF_OK;
    const int32_t limit = b->options->context + b->options->gen_len;
    for (int32_t i = 0; status == PF_OK && b->driver.committed < limit && !is_cancelled(b); i++) {
        const int32_t which = i % PF_N_VERIFY_ROWS;
        status = step(&b->driver, pf_verify_rows[which], &ns, b->error);
        if (status == PF_OK && i >= PF_N_VERIFY_ROWS) add(&b->verify[which], ns);
    }
    end_sequence(&b->driver);
    return status;
}

static void burst(bench *b, uint64_t prefill_ns)
{
    const struct {
        pf_burst burst;
        samples *out;
    } bursts[] = { { b->bursts[PF_BURST_F32], &b->burst_f32 },
                   { b->bursts[PF_BURST_BF16], &b->burst_bf16 },
                   { b->bursts[PF_BURST_INT8], &b->burst_int8 } };
    uint64_t burst_ns = prefill_ns;
    if (burst_ns < SHORTEST_BURST_NS) burst_ns = SHORTEST_BURST_NS;
    if (burst_ns > LONGEST_BURST_NS) burst_ns = LONGEST_BURST_NS;
    for (size_t i = 0; i < sizeof bursts / sizeof *bursts; i++) {
        const double gops = pf_peak_measure(bursts[i].burst, pf_engine_team(b->engine), burst_ns);
        samples *out = bursts[i].out;
        if (!isnan(gops) && out->n < MAX_SAMPLES) out->values[out->n++] = gops;
    }
}

static pf_status prefill_run(bench *b)
{
    uint64_t ns;
    PF_TRY(begin_sequence(&b->driver, b->options->prompt_len, &ns, b->error));
    end_sequence(&b->driver);
    add(&b->prefill, ns);
    burst(b, ns);
    return PF_OK;
}

/* Repeat a part until it has run for long enough; the first run only warms up. */
static pf_status repeat(bench *b, pf_status (*part)(bench *), int32_t part_number, samples *warm[], size_t n_warm)
{
    PF_TRY(part(b));
    for (size_t i = 0; i < n_warm; i++) warm[i]->n = 0;
    const uint64_t begin_ns = pf_now_ns();
    for (int32_t runs = 0; runs < MIN_RUNS || pf_now_ns() - begin_ns < ENOUGH_NS; runs++) {
        if (is_cancelled(b)) return PF_CANCELLED;
        PF_TRY(part(b));
        if (!b->options->progress) continue;
        const uint64_t spent = pf_now_ns() - begin_ns;
        b->options->progress(b->options->progress_user,
                             (size_t)part_number * ENOUGH_NS + (spent < ENOUGH_NS ? spent : ENOUGH_NS), 3 * ENOUGH_NS);
    }
    return PF_OK;
}

static pf_status measure(bench *b)
{
    samples *decode[] = { &b->step, &b->read, &b->decode_rate };
    samples *prefill[] = { &b->prefill, &b->burst_f32, &b->burst_bf16, &b->burst_int8 };
    PF_TRY(repeat(b, decode_run, 0, decode, 3));
    PF_TRY(repeat(b, prefill_run, 1, prefill, 4));
    samples *verify[PF_N_VERIFY_ROWS];
    for (int i = 0; i < PF_N_VERIFY_ROWS; i++) verify[i] = &b->verify[i];
    return repeat(b, verify_run, 2, verify, PF_N_VERIFY_ROWS);
}

/* ---- what was done ---------------------------------------------------------------------------------------------- */

static double layer_parameters(const pf_config *c)
{
    const double q = (double)c->n_heads * c->head_dim, kv = (double)c->n_kv_heads * c->head_dim, h = c->hidden_size;
    return h * q + 2.0 * h * kv + q * h + 3.0 * h * c->intermediate_size;
}

/* Multiply-adds of a prefill of n tokens, two operations each: every row through every layer, causal attention over
 * the keys that a row may see, and the head for the last row alone. */
static double prefill_operations(const pf_config *c, int32_t n)
{
    const double rows = n, keys = rows * (rows + 1.0) / 2.0, q = (double)c->n_heads * c->head_dim;
    const double linear = rows * c->n_layers * layer_parameters(c);
    const double attention = 2.0 * keys * q * c->n_layers;
    const double head = (double)c->vocab_size * c->hidden_size;
    return 2.0 * (linear + attention + head);
}

static size_t kv_bytes(const pf_model *model, const pf_throughput_options *options)
{
    const pf_config *c = pf_model_config(model);
    const pf_type suits = pf_model_dtype(model) == PF_DTYPE_BF16 ? PF_TYPE_BF16 : PF_TYPE_F32;
    const size_t element = pf_type_bytes(options->kv_type == PF_N_TYPES ? suits : options->kv_type);
    return 2 * (size_t)c->n_layers * (size_t)c->n_kv_heads * (size_t)c->head_dim * element * (size_t)options->context;
}

static void summarise(bench *b, pf_throughput *out)
{
    const pf_model *model = pf_engine_model(b->engine);
    *out = (pf_throughput){
        .n_threads = pf_team_size(pf_engine_team(b->engine)),
        .f32_gflops = median(&b->burst_f32),
        .bf16_gflops = median(&b->burst_bf16),
        .int8_gops = median(&b->burst_int8),
        .weight_bytes = pf_model_step_bytes(model),
        .kv_bytes = kv_bytes(model, b->options),
        .decode_tokens_per_s = median(&b->decode_rate),
        .step_ms = median(&b->step),
        .read_ms = median(&b->read),
        .prefill_tokens = b->options->prompt_len,
        .prefill_ms = median(&b->prefill),
    };
    out->read_gbps = (double)out->weight_bytes / (out->read_ms * 1e6);
    out->bandwidth_fraction = out->read_ms / out->step_ms;
    out->prefill_gflops = prefill_operations(pf_model_config(model), out->prefill_tokens) / (out->prefill_ms * 1e6);
    const bool is_bf16 = pf_model_dtype(model) == PF_DTYPE_BF16;
    out->peak_fraction =
        out->prefill_gflops / (is_bf16 && !isnan(out->bf16_gflops) ? out->bf16_gflops : out->f32_gflops);
    for (int i = 0; i < PF_N_VERIFY_ROWS; i++) out->verify_ms[i] = median(&b->verify[i]);
}

static pf_status check_limits(const pf_throughput *t, pf_error *error)
{
    if (t->bandwidth_fraction > PF_BELIEVABLE_FRACTION)
        return pf_fail(error, PF_INTERNAL,
                       "a decode step seems to read its weights at %.2f times the speed of a bare read; above %.2f the "
                       "read was measured badly: run again on a quieter machine",
                       t->bandwidth_fraction, PF_BELIEVABLE_FRACTION);
    if (t->peak_fraction > PF_BELIEVABLE_FRACTION)
        return pf_fail(error, PF_INTERNAL,
                       "the prefill seems to multiply at %.2f times the speed of a burst of multiplies; above %.2f the "
                       "burst was measured badly: run again on a quieter machine",
                       t->peak_fraction, PF_BELIEVABLE_FRACTION);
    return PF_OK;
}

int32_t pf_throughput_context(const pf_throughput_options *options)
{
    const int32_t decode = options->context + options->gen_len + 2 * MAX_ROWS, prefill = options->prompt_len + MAX_ROWS;
    return decode > prefill ? decode : prefill;
}

static pf_status run(bench *b, pf_throughput *out)
{
    const int32_t n = b->options->prompt_len > b->options->context ? b->options->prompt_len : b->options->context;
    b->driver.n_vocab = pf_model_config(pf_engine_model(b->engine))->vocab_size;
    b->driver.prompt = calloc((size_t)n + MAX_ROWS, sizeof *b->driver.prompt);
    if (!b->driver.prompt) return pf_fail(b->error, PF_NOMEM, "no memory for %d tokens", n);
    for (int32_t i = 0; i < n + MAX_ROWS; i++) /* any will do; the same for every run */
        b->driver.prompt[i] = (int32_t)(((int64_t)i * 7919 + 13) % b->driver.n_vocab);
    PF_TRY(pf_engine_verifier(b->engine, 0, &b->driver.verifier, b->error));
    PF_TRY(measure(b));
    summarise(b, out);
    return check_limits(out, b->error);
}

pf_status pf_bench_throughput(pf_engine *engine, const pf_throughput_options *options, pf_throughput *out,
                              pf_error *error)
{
    pf_model_info info;
    pf_engine_info(engine, &info);
    if (info.max_context < pf_throughput_context(options))
        return pf_fail(error, PF_INVALID, "the context has room for %d tokens, and the measurement needs %d",
                       info.max_context, pf_throughput_context(options));
    bench *b = calloc(1, sizeof *b);
    if (!b) return pf_fail(error, PF_NOMEM, "no memory for the measurement");
    b->engine = engine;
    b->options = options;
    b->error = error;
    const pf_isa isa = pf_cpu_best_isa();
    for (int kind = 0; kind < PF_N_BURSTS; kind++)
        b->bursts[kind] = pf_burst_select((pf_burst_kind)kind, isa, pf_cpu_features());
    const pf_status status = run(b, out);
    pf_peer_destroy(b->driver.verifier);
    free(b->driver.prompt);
    free(b);
    return status;
}
