/* Every kernel beside its limit. */
#include "bench/kernel_bench.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stop.h"
#include "bench/kernel_work.h"
#include "bench/peak.h"
#include "bench/reader.h"
#include "bench/statistics.h"
#include "kernels/gemm/onednn/gemm_onednn.h"

enum { MIN_SAMPLES = 5, MAX_SAMPLES = 64, MAX_TRIES = 4, DEFINITION_ROWS = 8 };
static const uint64_t ENOUGH_NS = 30000000, ENOUGH_QUICK_NS = 2000000; /* of a kernel's own samples */
static const uint64_t LONGEST_CALL_NS = 60000000;                      /* columns are cut until a call is below */
static const uint64_t SHORTEST_CALL_NS = 20000;                        /* what works on rows is repeated until above */
static const uint64_t SHORTEST_BURST_NS = 50000, LONGEST_BURST_NS = 3000000;

static const int32_t shapes[][2] = { { 3072, 2048 }, { 2048, 2048 }, { 16384, 2048 }, { 2048, 8192 }, { 32000, 2048 } };
static const int32_t quick_shapes[][2] = { { 2048, 2048 } };
static const int32_t gemm_rows[] = { 1, 2, 4, 8, 16, 32, 512 };
static const int32_t quick_rows[] = { 1, 8 };
static const struct {
    int32_t rows, keys;
} attentions[] = { { 1, 128 }, { 1, 4096 }, { 2, 4096 }, { 4, 4096 }, { 8, 4096 }, { 16, 4096 }, { 512, 512 } };
#define N(array) (sizeof(array) / sizeof *(array))

typedef struct {
    const pf_kernel_bench_options *options;
    pf_team *team;
    pf_kernels kernels;
    pf_work_data data;
    pf_work_matrices matrices;
    pf_work_cache cache;
    const pf_read_pattern *reader; /* reads what is in the store fastest, as far as is known */
    int32_t next_copy;             /* of what is in the store: each call takes another, so all come from memory */
    bool counting;                 /* only how many figures there will be */
    size_t done, total;
    pf_onednn *onednn; /* or NULL */
    int32_t n_peers;   /* copies of the matrix at hand that oneDNN has too, for the activations at hand */
    pf_samples run, read[PF_N_READS], copy, peak, peer;
    pf_kernel_figure worst; /* of all, the one that is hardest to believe */
    pf_error *error;
} bench;

const char *pf_limit_name(pf_limit limit)
{
    static const char *const names[PF_N_LIMITS] = { "read", "multiply", "copy" };
    return names[limit];
}

pf_status pf_kernel_figure_check(const pf_kernel_figure *f, pf_error *error)
{
    if (!(f->fraction > PF_BELIEVABLE_FRACTION)) return PF_OK;
    return pf_fail(error, PF_INTERNAL,
                   "%s on %s seems to run at %.2f times its limit (%s); above %.2f the limit was measured badly: run "
                   "again on a quieter machine",
                   f->kernel->name, f->shape, f->fraction, pf_limit_name(f->limit), PF_BELIEVABLE_FRACTION);
}

/* ---- one call ----------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_work_fn *fn;
    const pf_work *work;
    int32_t copy;
} call;

static void run_call(pf_member member, void *arg)
{
    const call *c = arg;
    c->fn(c->work, member, c->copy);
}

static uint64_t time_call(const bench *b, const pf_work *work, pf_work_fn *fn, int32_t copy)
{
    call c = { .fn = fn, .work = work, .copy = copy % work->n_copies };
    const uint64_t begin_ns = pf_now_ns();
    if (work->n_threads == 1)
        run_call((pf_member){ .team = b->team, .id = 0, .n_threads = 1 }, &c);
    else
        pf_team_run(b->team, run_call, &c);
    return pf_now_ns() - begin_ns;
}

/* The copies of a work, to be read one after the other. */
typedef struct {
    const bench *b;
    pf_work work;
    int32_t copy;
} copies;

static uint64_t read_copy(void *user, pf_read_fn *read)
{
    copies *c = user;
    c->work.reader = read;
    return time_call(c->b, &c->work, c->work.read, c->copy++);
}

static const pf_read_pattern *choose_reader(const bench *b, pf_work work)
{
    const pf_read_pattern *fastest;
    pf_reader_choose(read_copy, &(copies){ .b = b, .work = work }, b->options->cancel, &fastest, 1);
    return fastest;
}

/* ---- one figure --------------------------------------------------------------------------------------------------- */

/* The same product by oneDNN; run NULL: not here. It wants whole matrices. */
static pf_work peer_of(const bench *b, const pf_work *work)
{
    pf_work peer = *work;
    const bool chosen = pf_kernels_chosen(&b->kernels, work->kernel) == work->kernel;
    if (!work->matrices || b->n_peers == 0 || !chosen || work->columns != work->matrices->weights[0].n)
        return (pf_work){ 0 };
    peer.kernel = pf_onednn_kernel(work->kernel->format, work->kernel->act);
    peer.n_copies = b->n_peers;
    for (int32_t i = 0; i < peer.n_copies; i++) (void)time_call(b, &peer, peer.run, i); /* makes its code */
    return peer;
}

static uint64_t time_next(bench *b, const pf_work *work, pf_work_fn *fn)
{
    b->next_copy = (b->next_copy + 1) % work->n_copies;
    return time_call(b, work, fn, b->next_copy);
}

/* A bare read by the pattern that is known to be fast, or one by each. */
static void take_reads(bench *b, pf_work work, bool by_each)
{
    for (int i = 0; i < PF_N_READS; i++) {
        if (!by_each && b->reader != &pf_read_patterns[i]) continue;
        work.reader = pf_read_patterns[i].read;
        pf_samples_add(&b->read[i], (double)time_next(b, &work, work.read));
    }
}

static void take_samples(bench *b, const pf_work *work, pf_burst burst, uint64_t enough_ns, int n_tried)
{
    pf_samples *const taken[] = { &b->run, &b->copy, &b->peak, &b->peer };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) pf_samples_clear(taken[i]);
    for (int i = 0; i < PF_N_READS; i++) pf_samples_clear(&b->read[i]);
    const pf_work peer = peer_of(b, work);
    uint64_t spent = 0;
    for (int32_t i = 0; i < MAX_SAMPLES && (i < MIN_SAMPLES || spent < enough_ns); i++) {
        const uint64_t ns = time_next(b, work, work->run);
        pf_samples_add(&b->run, (double)ns);
        take_reads(b, *work, n_tried > 0);
        if (peer.run) pf_samples_add(&b->peer, (double)time_call(b, &peer, peer.run, i));
        if (work->copy) pf_samples_add(&b->copy, (double)time_call(b, work, work->copy, 0));
        if (work->operations > 0.0 && burst.run) {
            const uint64_t longest = (ns < LONGEST_BURST_NS ? ns : LONGEST_BURST_NS) >> 2 * n_tried;
            pf_samples_add(&b->peak,
                           pf_peak_measure(burst, b->team, longest > SHORTEST_BURST_NS ? longest : SHORTEST_BURST_NS));
        }
        spent += ns;
    }
}

/* The median of the pattern that was the fastest, which is known from now on. */
static double fastest_read_ns(bench *b)
{
    double fastest = INFINITY;
    for (int i = 0; i < PF_N_READS; i++) {
        const double ns = pf_samples_median(&b->read[i]);
        if (!(ns < fastest)) continue;
        fastest = ns;
        b->reader = &pf_read_patterns[i];
    }
    return fastest;
}

static pf_kernel_figure summarise(bench *b, const pf_work *work, pf_burst burst)
{
    const double repeats = work->n_repeats, us = pf_samples_median(&b->run) * 1e-3 / repeats;
    const double times[PF_N_LIMITS] = {
        [PF_LIMIT_READ] = fastest_read_ns(b) * 1e-3 / repeats,
        [PF_LIMIT_MULTIPLY] = b->peak.n ? work->operations / (pf_samples_median(&b->peak) * 1e3) : 0.0,
        [PF_LIMIT_COPY] = b->copy.n ? pf_samples_median(&b->copy) * 1e-3 / repeats : 0.0,
    };
    pf_kernel_figure f = {
        .kernel = work->kernel,
        .rows = work->rows,
        .n_threads = work->n_threads,
        .us = us,
        .gflops = work->operations > 0.0 ? work->operations / (us * 1e3) : NAN,
        .gbps = (double)(work->bytes_in + work->bytes_out) / (us * 1e3),
        .read = b->reader->name,
        .onednn_us = pf_samples_median(&b->peer) * 1e-3,
        .multiply = work->operations > 0.0 ? burst.instruction : NULL,
    };
    for (int i = 0; i < PF_N_LIMITS; i++)
        if (times[i] > times[f.limit]) f.limit = (pf_limit)i;
    f.limit_us = times[f.limit];
    f.fraction = f.limit_us / us;
    pf_work_describe(work, f.shape);
    return f;
}

/* What is hard to believe is measured again, longer, with the pattern that reads fastest in the same moments: another one
 * may, since the choice. And with shorter bursts: where others take the processor at every so many milliseconds, a sample of
 * as many meets them in its burst each time. */
static pf_status measure(bench *b, pf_work work)
{
    if (pf_is_told(b->options->cancel)) return PF_CANCELLED;
    const pf_burst burst = pf_peak_burst_of(work.kernel);
    uint64_t enough_ns = b->options->quick ? ENOUGH_QUICK_NS : ENOUGH_NS;
    pf_kernel_figure figure;
    for (int i = 0; i < MAX_TRIES; i++, enough_ns *= 2) {
        work.reader = b->reader->read; /* a copy reads, too */
        take_samples(b, &work, burst, enough_ns, i);
        figure = summarise(b, &work, burst);
        if (pf_kernel_figure_check(&figure, NULL) == PF_OK) break;
    }
    if (!b->worst.kernel || figure.fraction > b->worst.fraction) b->worst = figure;
    if (!b->options->figure(b->options->user, &figure)) return PF_CANCELLED;
    if (b->options->progress) b->options->progress(b->options->user, ++b->done, b->total);
    return PF_OK;
}

/* ---- which kernels, which shapes ---------------------------------------------------------------------------------- */

static bool is_wanted(const bench *b, const pf_kernel *kernel)
{
    if (!pf_kernel_is_usable(&b->kernels, kernel) || kernel->op == PF_OP_GEMM_EXACT) return false;
    if (b->options->op != PF_N_OPS && kernel->op != b->options->op) return false;
    if (b->options->format != PF_N_FORMATS && (kernel->op != PF_OP_GEMM || kernel->format != b->options->format))
        return false;
    if (!b->options->isa_alone && !b->options->quick) return true;
    return pf_kernels_chosen(&b->kernels, kernel) == kernel;
}

/* So many columns that a call takes no longer than LONGEST_CALL_NS: a definition is a thousand times slower than the
 * fastest kernel. */
static int32_t columns_in_time(bench *b, const pf_kernel *kernel, int32_t m)
{
    const int32_t n = b->matrices.weights[0].n, unit = PF_GEMM_PANEL * pf_team_size(b->team);
    if (n <= unit) return n;
    const pf_work probe = pf_work_gemm(&b->data, kernel, &b->matrices, m, unit);
    (void)time_call(b, &probe, probe.run, 0);
    const double units = floor((double)LONGEST_CALL_NS / (double)time_call(b, &probe, probe.run, 0));
    if (units < 1.0) return unit;
    return units * unit < n ? (int32_t)units * unit : n;
}

/* One kernel, all numbers of rows, on what is in the store. */
static pf_status run_product(bench *b, const pf_kernel *kernel)
{
    const int32_t *rows = b->options->quick ? quick_rows : gemm_rows;
    const size_t n_rows = b->options->quick ? N(quick_rows) : N(gemm_rows);
    for (size_t i = 0; i < n_rows; i++) {
        if (kernel->isa == PF_ISA_SCALAR && rows[i] > DEFINITION_ROWS) break;
        if (b->counting) {
            b->total++;
            continue;
        }
        PF_TRY(measure(b, pf_work_gemm(&b->data, kernel, &b->matrices, rows[i], columns_in_time(b, kernel, rows[i]))));
    }
    return PF_OK;
}

/* So many copies for oneDNN that they come from memory; none where it is not there or cannot. */
static void attach_peers(bench *b, pf_format format, pf_act act)
{
    pf_work_matrices *m = &b->matrices;
    const size_t bytes = (size_t)m->weights[0].n_panels * m->weights[0].panel_bytes;
    if (b->options->quick || pf_onednn_check(format, act, NULL) != PF_OK) return;
    if (!b->onednn && pf_onednn_open(b->team, &b->onednn, NULL) != PF_OK) return;
    while (b->n_peers < m->n_copies &&
           (b->n_peers < PF_WORK_MIN_COPIES || (size_t)b->n_peers * bytes < 4 * b->data.cache_bytes)) {
        if (pf_onednn_attach(b->onednn, b->team, &m->weights[b->n_peers], act, NULL) != PF_OK) return;
        b->n_peers++;
    }
}

static void detach_peers(bench *b)
{
    while (b->n_peers > 0) pf_onednn_detach(&b->matrices.weights[--b->n_peers]);
}

/* The products of a format with activations of one type; *filled: the matrices are in the store. */
static pf_status run_activations(bench *b, pf_format format, pf_act act, int32_t n, int32_t k, bool *filled)
{
    int32_t n_kernels;
    const pf_kernel *all = pf_kernels_all(&n_kernels);
    bool attached = b->counting;
    pf_status status = PF_OK;
    for (int32_t i = 0; i < n_kernels && status == PF_OK; i++) {
        const pf_kernel *kernel = &all[i];
        if (kernel->op != PF_OP_GEMM || kernel->format != format || kernel->act != act || !is_wanted(b, kernel))
            continue;
        if (!*filled) {
            PF_TRY(pf_work_fill_matrices(&b->data, format, n, k, b->options->cancel, &b->matrices, b->error));
            b->reader = choose_reader(b, pf_work_gemm(&b->data, kernel, &b->matrices, 1, b->matrices.weights[0].n));
            *filled = true;
        }
        if (!attached) attach_peers(b, format, act);
        attached = true;
        status = run_product(b, kernel);
    }
    detach_peers(b);
    return status;
}

static pf_status run_format(bench *b, pf_format format, int32_t n, int32_t k)
{
    bool filled = b->counting;
    for (int act = 0; act < PF_N_ACTS; act++) PF_TRY(run_activations(b, format, (pf_act)act, n, k, &filled));
    return PF_OK;
}

static pf_status run_products(bench *b)
{
    const bool quick = b->options->quick;
    for (int f = 0; f < PF_N_FORMATS; f++)
        for (size_t s = 0; s < (quick ? N(quick_shapes) : N(shapes)); s++) {
            const int32_t *shape = quick ? quick_shapes[s] : shapes[s];
            PF_TRY(run_format(b, (pf_format)f, shape[0], shape[1]));
        }
    return PF_OK;
}

static pf_status run_attention(bench *b, const pf_kernel *kernel)
{
    for (size_t i = 0; i < (b->options->quick ? 1 : N(attentions)); i++) {
        if (kernel->isa == PF_ISA_SCALAR && attentions[i].rows > DEFINITION_ROWS) break;
        if (b->counting) {
            b->total++;
            continue;
        }
        pf_work_fill_cache(&b->data, kernel, attentions[i].keys, &b->cache);
        const pf_work work = pf_work_attention(&b->data, kernel, &b->cache, attentions[i].rows, attentions[i].keys);
        b->reader = choose_reader(b, work);
        PF_TRY(measure(b, work));
    }
    return PF_OK;
}

static pf_status run_rows(bench *b, const pf_kernel *kernel)
{
    static const int32_t rows[] = { 1, 512 };
    for (size_t i = 0; i < (b->options->quick ? 1 : N(rows)); i++) {
        pf_work work = pf_work_rows(&b->data, kernel, rows[i]);
        if (!work.run || (i > 0 && work.rows != rows[i])) break;
        if (b->counting) {
            b->total++;
            continue;
        }
        (void)time_call(b, &work, work.run, 0);
        const uint64_t ns = time_call(b, &work, work.run, 0);
        if (ns < SHORTEST_CALL_NS) work.n_repeats = (int32_t)(SHORTEST_CALL_NS / (ns + 1)) + 1;
        b->reader = choose_reader(b, work);
        PF_TRY(measure(b, work));
    }
    return PF_OK;
}

static pf_status run_all(bench *b)
{
    PF_TRY(run_products(b));
    int32_t n_kernels;
    const pf_kernel *all = pf_kernels_all(&n_kernels);
    for (int32_t i = 0; i < n_kernels; i++) {
        if (all[i].op == PF_OP_GEMM || !is_wanted(b, &all[i])) continue;
        PF_TRY((all[i].op == PF_OP_ATTN ? run_attention : run_rows)(b, &all[i]));
    }
    return PF_OK;
}

pf_status pf_bench_kernels(pf_team *team, const pf_kernel_bench_options *options, pf_error *error)
{
    bench *b = calloc(1, sizeof *b);
    if (!b) return pf_fail(error, PF_NOMEM, "no memory for the measurement");
    b->options = options;
    b->team = team;
    b->error = error;
    pf_status status = pf_kernels_select(options->isa, &b->kernels, error);
    if (status == PF_OK) status = pf_work_data_create(team, &b->data, error);
    if (status == PF_OK) {
        b->counting = true;
        status = run_all(b);
        b->counting = false;
        if (status == PF_OK) status = run_all(b);
        pf_onednn_close(b->onednn);
        pf_work_data_destroy(&b->data);
    }
    if (status == PF_OK && b->worst.kernel) status = pf_kernel_figure_check(&b->worst, error);
    free(b);
    return status;
}
