/* Measures the peak rate of multiplies. */
#include "bench/peak.h"

#include <math.h>
#include <stdatomic.h>

#include "base/clock.h"

enum { ROUNDS = 1 << 12 };

typedef struct {
    pf_burst burst;
    uint64_t burst_ns;
    _Atomic int64_t n_calls; /* of all threads */
    _Atomic uint32_t sink;
} job;

/* Every thread runs bursts until the time is over, so that none waits for a slower one. */
static void run_member(pf_member member, void *arg)
{
    (void)member;
    job *j = arg;
    const uint64_t end_ns = pf_now_ns() + j->burst_ns;
    int64_t n = 0;
    float sum = 0.0f;
    do {
        sum += j->burst.run(ROUNDS);
        n++;
    } while (pf_now_ns() < end_ns);
    atomic_fetch_add(&j->n_calls, n);
    atomic_fetch_add(&j->sink, (uint32_t)sum);
}

double pf_peak_measure(pf_burst burst, pf_team *team, uint64_t burst_ns)
{
    if (!burst.run) return NAN;
    job j = { .burst = burst, .burst_ns = burst_ns };
    const uint64_t begin_ns = pf_now_ns();
    pf_team_run(team, run_member, &j);
    const double ns = (double)(pf_now_ns() - begin_ns);
    return (double)atomic_load(&j.n_calls) * ROUNDS * j.burst.operations / ns;
}

pf_burst pf_peak_burst_of(const pf_kernel *kernel)
{
    const bool has_bf16 = kernel->isa >= PF_ISA_AVX512BF16;
    pf_burst_kind kind = PF_BURST_F32;
    if (kernel->op != PF_OP_GEMM && kernel->op != PF_OP_GEMM_EXACT && kernel->op != PF_OP_ATTN) return (pf_burst){ 0 };
    if (kernel->op == PF_OP_GEMM_EXACT && kernel->act == PF_ACT_INT8)
        kind = PF_BURST_INT4; /* the faster of the two that its matrices take */
    else if (kernel->op == PF_OP_GEMM && kernel->act == PF_ACT_INT8)
        kind = pf_format_get(kernel->format)->bits == 4 ? PF_BURST_INT4 : PF_BURST_INT8;
    else if (kernel->op == PF_OP_GEMM && kernel->act == PF_ACT_BF16 && has_bf16)
        kind = PF_BURST_BF16;
    else if (kernel->op == PF_OP_ATTN && kernel->type == PF_TYPE_BF16 && has_bf16)
        kind = PF_BURST_BF16;
    return pf_burst_select(kind, kernel->isa, kernel->features);
}
