/* The crossover, by reads and bursts in turns. */
#include "bench/crossover.h"

#include <math.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/topology.h"
#include "bench/peak.h"
#include "kernels/limits/read.h"

enum { ROUNDS = 12, BURST_NS = 2 * 1000 * 1000 };
static const size_t LEAST_BYTES = (size_t)64 << 20, MOST_BYTES = (size_t)1 << 30;

typedef struct {
    uint8_t *bytes;
    size_t n_bytes;
    _Atomic uint64_t sink;
} memory;

static void read_share(pf_member member, void *arg)
{
    memory *m = arg;
    int32_t begin, end;
    pf_team_share(member, (int32_t)(m->n_bytes / 4096), &begin, &end);
    if (begin >= end) return;
    const size_t n = (size_t)(end - begin) * 4096;
    atomic_fetch_xor(&m->sink, pf_read_patterns[0].read(m->bytes + (size_t)begin * 4096, n));
}

static void write_share(pf_member member, void *arg)
{
    memory *m = arg;
    int32_t begin, end;
    pf_team_share(member, (int32_t)(m->n_bytes / 4096), &begin, &end);
    for (int32_t page = begin; page < end; page++) m->bytes[(size_t)page * 4096] = 1;
}

static double read_gbps(memory *m, pf_team *team)
{
    const uint64_t begin_ns = pf_now_ns();
    pf_team_run(team, read_share, m);
    return (double)m->n_bytes / (double)(pf_now_ns() - begin_ns);
}

/* More than the last cache holds. */
static pf_status memory_size(size_t *out, pf_error *error)
{
    pf_topology machine;
    PF_TRY(pf_topology_read(&machine, error));
    const size_t n = 4 * machine.l3_bytes;
    *out = n < LEAST_BYTES ? LEAST_BYTES : n > MOST_BYTES ? MOST_BYTES : n;
    return PF_OK;
}

pf_status pf_crossover_measure(pf_engine *engine, int32_t *out, pf_error *error)
{
    const pf_model *model = pf_engine_model(engine);
    const pf_format format = pf_model_format(model);
    const pf_kernel *product = pf_model_kernels(model)->chosen_gemm[format][pf_model_act(model)];
    const pf_burst burst = product ? pf_peak_burst_of(product) : (pf_burst){ 0 };
    *out = 1;
    if (!burst.run) return PF_OK; /* a definition: each row takes as long as the first */

    pf_team *team = pf_engine_team(engine);
    pf_arena arena;
    memory m = { 0 };
    PF_TRY(memory_size(&m.n_bytes, error));
    if (pf_arena_create(m.n_bytes, &arena) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for %zu bytes to be read, for the machine's crossover", m.n_bytes);
    m.bytes = pf_arena_take(&arena, m.n_bytes, 1);
    pf_team_run(team, write_share, &m); /* pages never written are all the same one */
    double gbps = 0.0, gops = 0.0;      /* at their best: what the machine can do, whoever else is at work */
    for (int i = 0; i < ROUNDS; i++) {
        gbps = fmax(gbps, read_gbps(&m, team));
        gops = fmax(gops, pf_peak_measure(burst, team, BURST_NS));
    }
    pf_arena_destroy(&arena);
    const double rows = pf_format_get(format)->bits / 8.0 * (gops / 2.0) / gbps;
    if (rows > 1.0) *out = (int32_t)fmin(rows, 1e6);
    return PF_OK;
}
