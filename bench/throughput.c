/* Measures prefill, decode and verification beside their limits. */
#include "bench/throughput.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stop.h"
#include "bench/bare_read.h"
#include "bench/operations.h"
#include "bench/peak.h"
#include "bench/reader.h"
#include "bench/statistics.h"
#include "bench/stepper.h"
#include "model/forward/context.h"

const int32_t pf_verify_rows[PF_N_VERIFY_ROWS] = { 1, 2, 4, 8, 16 };

enum { MIN_RUNS = 3 };
static const uint64_t SHORTEST_BURST_NS = 100000, LONGEST_BURST_NS = 50000000;
static const uint64_t ENOUGH_NS = 1500000000; /* of each part */

/* The measured bursts: one of each kind, and that of the model's products. */
enum { OWN_BURST = PF_N_BURSTS, N_BURSTS };

/* The alternating reads of the limit; the fastest counts, and which one that is may change with the memory speed. */
enum { N_READERS = 3 };

typedef struct {
    pf_engine *engine;
    const pf_throughput_options *options;
    pf_stepper stepper;
    const pf_read_pattern *readers[N_READERS]; /* the fastest on these weights */
    size_t turn;                               /* index of the next reader, modulo their number */
    pf_bare_read kv;                           /* as many bytes as a step reads of the cache */
    _Atomic uint64_t checksum;                 /* of the bytes read; keeps the read from being optimised out */
    pf_burst bursts[N_BURSTS];
    pf_samples step, read[N_READERS], kv_read, prefill, burst[N_BURSTS];
    pf_samples verify[PF_N_VERIFY_ROWS], verify_read[N_READERS], verify_kv_read, verify_burst;
    pf_error *error;
} bench;

static void add_ms(pf_samples *s, uint64_t ns)
{
    pf_samples_add(s, (double)ns * 1e-6);
}

static bool is_cancelled(const bench *b)
{
    return pf_is_told(b->options->cancel);
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

static uint64_t read_weights(void *user, pf_read_fn *read)
{
    bench *b = user;
    const uint64_t begin_ns = pf_now_ns();
    b->checksum ^= pf_model_read_weights(pf_engine_model(b->engine), pf_engine_team(b->engine), read);
    return pf_now_ns() - begin_ns;
}

static void read_in_turn(bench *b, pf_samples by_reader[N_READERS])
{
    const size_t i = b->turn++ % N_READERS;
    add_ms(&by_reader[i], read_weights(b, b->readers[i]->read));
}

/* The reader with the shortest median; any before the first read. */
static size_t fastest_reader(pf_samples by_reader[N_READERS])
{
    size_t best = 0;
    for (size_t i = 1; i < N_READERS; i++) {
        const double ms = pf_samples_median(&by_reader[i]), best_ms = pf_samples_median(&by_reader[best]);
        if (ms < best_ms || isnan(best_ms)) best = i;
    }
    return best;
}

static void read_kv(bench *b, pf_samples *out)
{
    add_ms(out, pf_bare_read_ns(&b->kv, b->readers[0]->read));
}

static uint64_t burst_ns(uint64_t wanted_ns)
{
    if (wanted_ns < SHORTEST_BURST_NS) return SHORTEST_BURST_NS;
    return wanted_ns < LONGEST_BURST_NS ? wanted_ns : LONGEST_BURST_NS;
}

static void run_burst(bench *b, int which, uint64_t ns, pf_samples *out)
{
    const double gops = pf_peak_measure(b->bursts[which], pf_engine_team(b->engine), burst_ns(ns));
    if (!isnan(gops)) pf_samples_add(out, gops);
}

/* ---- the parts -------------------------------------------------------------------------------------------------- */

/* gen_len steps after a prompt, and bare reads between them. */
static pf_status decode_run(bench *b)
{
    uint64_t ns;
    PF_TRY(pf_stepper_begin(&b->stepper, b->options->context, &ns, b->error));
    pf_status status = pf_stepper_step(&b->stepper, 1, &ns, b->error); /* warms up */
    for (int32_t i = 0; i < b->options->gen_len && status == PF_OK && !is_cancelled(b); i++) {
        read_in_turn(b, b->read);
        read_kv(b, &b->kv_read);
        status = pf_stepper_step(&b->stepper, 1, &ns, b->error);
        if (status == PF_OK) add_ms(&b->step, ns);
    }
    pf_stepper_end(&b->stepper);
    return status == PF_OK && is_cancelled(b) ? PF_CANCELLED : status;
}

/* Passes over all row counts in turn; the first round is a warm-up. The sequence restarts when accepted draft tokens fill the
 * context before every row count was measured. */
static pf_status verify_run(bench *b)
{
    uint64_t ns;
    PF_TRY(pf_stepper_begin(&b->stepper, b->options->context, &ns, b->error));
    pf_status status = PF_OK;
    const int32_t enough = b->options->context + b->options->gen_len, most = enough + PF_STEPPER_MAX_ROWS;
    for (int32_t i = 0; (i < 2 * PF_N_VERIFY_ROWS || b->stepper.committed < enough) && !is_cancelled(b); i++) {
        if (b->stepper.committed >= most) {
            pf_stepper_end(&b->stepper);
            status = pf_stepper_begin(&b->stepper, b->options->context, &ns, b->error);
        }
        const int32_t which = i % PF_N_VERIFY_ROWS;
        if (status == PF_OK) status = pf_stepper_step(&b->stepper, pf_verify_rows[which], &ns, b->error);
        if (status != PF_OK) break;
        if (i >= PF_N_VERIFY_ROWS) add_ms(&b->verify[which], ns);
        read_in_turn(b, b->verify_read);
        read_kv(b, &b->verify_kv_read);
        run_burst(b, OWN_BURST, ns / 4, &b->verify_burst);
    }
    pf_stepper_end(&b->stepper);
    return status;
}

static pf_status prefill_run(bench *b)
{
    uint64_t ns;
    PF_TRY(pf_stepper_begin(&b->stepper, b->options->prompt_len, &ns, b->error));
    pf_stepper_end(&b->stepper);
    add_ms(&b->prefill, ns);
    for (int i = 0; i < N_BURSTS; i++) run_burst(b, i, ns, &b->burst[i]);
    return PF_OK;
}

/* Repeats a part until it has run for long enough; the first run is a warm-up. */
static pf_status repeat(bench *b, pf_status (*part)(bench *), int32_t part_number, pf_samples *warm[], size_t n_warm)
{
    const pf_status warmed = part(b);
    for (size_t i = 0; i < n_warm; i++) pf_samples_clear(warm[i]);
    PF_TRY(warmed);
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
    pf_samples *decode[2 + N_READERS] = { &b->step, &b->kv_read };
    for (int i = 0; i < N_READERS; i++) decode[2 + i] = &b->read[i];
    pf_samples *prefill[1 + N_BURSTS] = { &b->prefill };
    for (int i = 0; i < N_BURSTS; i++) prefill[1 + i] = &b->burst[i];
    pf_samples *verify[2 + N_READERS + PF_N_VERIFY_ROWS] = { &b->verify_kv_read, &b->verify_burst };
    for (int i = 0; i < N_READERS; i++) verify[2 + i] = &b->verify_read[i];
    for (int i = 0; i < PF_N_VERIFY_ROWS; i++) verify[2 + N_READERS + i] = &b->verify[i];
    PF_TRY(repeat(b, decode_run, 0, decode, sizeof decode / sizeof *decode));
    PF_TRY(repeat(b, prefill_run, 1, prefill, sizeof prefill / sizeof *prefill));
    return repeat(b, verify_run, 2, verify, sizeof verify / sizeof *verify);
}

/* ---- what was done ---------------------------------------------------------------------------------------------- */

static size_t kv_bytes(pf_engine *engine, int32_t n_tokens)
{
    const pf_config *c = pf_model_config(pf_engine_model(engine));
    const size_t element = pf_type_bytes(pf_context_get_config(pf_engine_context(engine))->kv_type);
    return 2 * (size_t)c->n_layers * (size_t)c->n_kv_heads * (size_t)c->head_dim * element * (size_t)n_tokens;
}

static void summarise_verify(bench *b, pf_throughput *out)
{
    const pf_config *config = pf_model_config(pf_engine_model(b->engine));
    const double read_ms =
        pf_samples_median(&b->verify_read[fastest_reader(b->verify_read)]) + pf_samples_median(&b->verify_kv_read);
    const double gops = pf_samples_median(&b->verify_burst);
    for (int i = 0; i < PF_N_VERIFY_ROWS; i++) {
        const int32_t rows = pf_verify_rows[i];
        const double multiply_ms = pf_pass_operations(config, b->options->context, rows, rows) / (0.75 * gops * 1e6);
        out->verify_ms[i] = pf_samples_median(&b->verify[i]);
        out->verify_of_limit[i] = out->verify_ms[i] / (multiply_ms > read_ms ? multiply_ms : read_ms);
    }
}

static void summarise(bench *b, pf_throughput *out)
{
    const pf_model *model = pf_engine_model(b->engine);
    const size_t reader = fastest_reader(b->read);
    *out = (pf_throughput){
        .n_threads = pf_team_size(pf_engine_team(b->engine)),
        .f32_gflops = pf_samples_median(&b->burst[PF_BURST_F32]),
        .bf16_gflops = pf_samples_median(&b->burst[PF_BURST_BF16]),
        .int8_gops = pf_samples_median(&b->burst[PF_BURST_INT8]),
        .weight_bytes = pf_model_step_bytes(model),
        .kv_bytes = b->kv.n_bytes,
        .tokens_per_s = 1000.0 / pf_samples_mean(&b->step),
        .step_ms = pf_samples_median(&b->step),
        .read_ms = pf_samples_median(&b->read[reader]),
        .kv_read_ms = pf_samples_median(&b->kv_read),
        .read_pattern = b->readers[reader]->name,
        .prefill_tokens = b->options->prompt_len,
        .prefill_ms = pf_samples_median(&b->prefill),
        .peak_instruction = b->bursts[OWN_BURST].instruction,
    };
    out->read_gbps = (double)out->weight_bytes / (out->read_ms * 1e6);
    out->bandwidth_fraction = out->read_ms / out->step_ms;
    out->bandwidth_fraction_with_kv = (out->read_ms + out->kv_read_ms) / out->step_ms;
    out->prefill_gflops =
        pf_pass_operations(pf_model_config(model), 0, out->prefill_tokens, 1) / (out->prefill_ms * 1e6);
    out->peak_fraction = out->prefill_gflops / pf_samples_median(&b->burst[OWN_BURST]);
    summarise_verify(b, out);
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
    const int32_t decode = options->context + options->gen_len + 2 * PF_STEPPER_MAX_ROWS;
    return decode > options->prompt_len ? decode : options->prompt_len;
}

/* The bursts of this machine, and that of the model's products; F32 for scalar definitions. */
static void choose_bursts(bench *b)
{
    const pf_model *model = pf_engine_model(b->engine);
    const pf_isa isa = pf_cpu_best_isa();
    const uint32_t features = pf_cpu_features();
    for (int kind = 0; kind <= PF_BURST_INT8; kind++) /* what is reported */
        b->bursts[kind] = pf_burst_select((pf_burst_kind)kind, isa, features);
    const pf_kernel *product = pf_model_kernels(model)->chosen_gemm[pf_model_format(model)][pf_model_act(model)];
    if (product) b->bursts[OWN_BURST] = pf_peak_burst_of(product);
    if (!b->bursts[OWN_BURST].run) b->bursts[OWN_BURST] = b->bursts[PF_BURST_F32];
}

static pf_status run(bench *b, pf_throughput *out)
{
    choose_bursts(b);
    PF_TRY(pf_bare_read_create(pf_engine_team(b->engine), kv_bytes(b->engine, b->options->context), &b->kv, b->error));
    pf_reader_choose(read_weights, b, b->options->cancel, b->readers, N_READERS);
    const pf_status status = measure(b);
    if (status == PF_OK || status == PF_CANCELLED) summarise(b, out);
    return status == PF_OK ? check_limits(out, b->error) : status;
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
    const int32_t longest = options->prompt_len > options->context ? options->prompt_len : options->context;
    pf_status status = pf_stepper_open(engine, longest, options->cancel, &b->stepper, error);
    if (status == PF_OK) status = run(b, out);
    pf_stepper_close(&b->stepper);
    pf_bare_read_destroy(&b->kv);
    free(b);
    return status;
}
