/*
 * The AMX kernels where they run for real: the only process of an emulated machine (scripts/amx-machine.sh), or, linked
 * with the trap (PF_TEST_TRAPPED), a test on any machine. Both print the same checksum.
 *
 * In the machine first: CPUID, XCR0; that tiles are refused before permission was asked for, and that the choice of
 * instruction set asks. Then everywhere: every AMX row of the registry against its scalar definition, bit for bit, alone
 * and with two threads taking turns on one core; and the faults. Plain C and no test library: it is linked statically.
 */
#include <cpuid.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifndef PF_TEST_TRAPPED
#include <sys/io.h>
#include <sys/reboot.h>
#endif

#include "kernels/implementations.h"
#include "tests/support/amx_faults.h"

static int n_wrong;

static void report(bool right, const char *what)
{
    if (!right) printf("amx: WRONG: %s\n", what);
    n_wrong += !right;
}

/* --- products --- */

/* m, n, k: one row, both forms, odd blocks, tails of everything, more than one piece of K. */
static const int32_t shapes[][3] = { { 1, 70, 33 },  { 8, 64, 130 },  { 16, 96, 128 }, { 17, 33, 65 },
                                     { 33, 96, 96 }, { 64, 64, 256 }, { 40, 40, 1100 } };
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

typedef struct {
    uint64_t state;
} numbers;

static float next_float(numbers *x)
{
    x->state = x->state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(x->state >> 32) * 0x1p-31f;
}

static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) abort();
    memset(memory, 0, bytes);
    return memory;
}

/* The definition of an AMX row. */
static pf_gemm definition_of(const pf_kernel *kernel)
{
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    if (kernel->act == PF_ACT_BF16)
        return (pf_gemm){ .tile_rows = 1, .pack = pf_gemm_pack_bf16_ref, .multiply = pf_gemm_bf16_amx_ref };
    for (int32_t i = 0; i < n; i++)
        if (all[i].isa == PF_ISA_SCALAR && pf_kernel_same_task(&all[i], kernel)) return all[i].fn.gemm;
    abort();
}

/* What an AMX row, or its definition, gives for a shape: of the same operands every time. To be freed. */
typedef float *result_fn(const pf_kernel *kernel, bool by_definition, const int32_t shape[3], size_t *bytes);

/* c [m, n] */
static float *product(const pf_kernel *kernel, bool by_definition, const int32_t shape[3], size_t *result_bytes)
{
    const pf_gemm gemm = by_definition ? definition_of(kernel) : kernel->fn.gemm;
    const int32_t m = shape[0], n = shape[1], k = shape[2];
    numbers x = { (uint64_t)(m + n + k) };
    pf_gemm_weights w;
    size_t bytes;
    if (pf_gemm_plan_weights(kernel->format, n, k, &w, &bytes) != PF_OK) abort();
    w.panels = aligned(bytes);
    float *source = aligned((size_t)n * (size_t)k * sizeof(float)), *a = aligned((size_t)m * (size_t)k * sizeof(float));
    *result_bytes = (size_t)m * (size_t)n * sizeof(float);
    float *c = aligned(*result_bytes);
    for (int32_t i = 0; i < n * k; i++) source[i] = next_float(&x);
    for (int32_t i = 0; i < m * k; i++) a[i] = next_float(&x);
    void *input = aligned(pf_gemm_input_bytes(m, k)), *scratch = aligned(pf_gemm_scratch_bytes(m));
    const pf_gemm_source tensor = { .data = source, .type = PF_TYPE_F32, .n_rows = n, .stride = (size_t)k };
    pf_gemm_pack_weights_ref(&w, &tensor, 1, 0, w.n_panels);
    gemm.pack(input, a, (size_t)k, m, k, 0, pf_gemm_tiles(gemm.tile_rows, m));
    gemm.multiply(&w, input, m, 0, w.n_panels, c, (size_t)n, PF_GEMM_STORE, scratch);
    free(w.panels);
    free(source);
    free(a);
    free(input);
    free(scratch);
    return c;
}

/* FNV-1a. */
static uint64_t add_to_checksum(uint64_t sum, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) sum = (sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001B3u;
    return sum;
}

static const uint64_t CHECKSUM_OF_NOTHING = 0xCBF29CE484222325u;

/* Every AMX row of an operation against its definition, on every shape. */
static void check_results(pf_op op, result_fn *result, const int32_t (*of_shapes)[3], size_t n_shapes)
{
    int32_t n, n_results = 0;
    const pf_kernel *all = pf_kernels_all(&n);
    uint64_t checksum = CHECKSUM_OF_NOTHING;
    for (int32_t i = 0; i < n; i++) {
        if (all[i].isa != PF_ISA_AMX || all[i].op != op) continue;
        for (size_t s = 0; s < n_shapes; s++, n_results++) {
            size_t bytes;
            float *got = result(&all[i], false, of_shapes[s], &bytes);
            float *expected = result(&all[i], true, of_shapes[s], &bytes);
            report(memcmp(got, expected, bytes) == 0, all[i].name);
            checksum = add_to_checksum(checksum, got, bytes);
            free(got);
            free(expected);
        }
    }
    printf("amx: %s: %d results, %d wrong so far, checksum %016llx\n", pf_op_name(op), n_results, n_wrong,
           (unsigned long long)checksum);
}

/* --- attention --- */

/* n_rows at the end of `length` positions, head_dim. */
static const int32_t spans[][3] = { { 1, 130, 64 }, { 5, 69, 64 }, { 40, 200, 80 }, { 23, 90, 33 } };
enum { N_SPANS = sizeof spans / sizeof *spans, HEADS = 4, KV_HEADS = 2, PAGE_TOKENS = 16, MAX_PAGES = 16 };

/* Output [n_rows, HEADS, head_dim] of the same keys, values and queries every time. */
static float *attended(const pf_kernel *kernel, bool by_definition, const int32_t span[3], size_t *result_bytes)
{
    pf_attn_fn *attn = by_definition ? pf_attn_bf16_amx_ref : kernel->fn.attn;
    const int32_t n_rows = span[0], length = span[1], head_dim = span[2];
    const size_t width = (size_t)KV_HEADS * (size_t)head_dim, q_width = (size_t)HEADS * (size_t)head_dim;
    const size_t page = PAGE_TOKENS * KV_HEADS * pf_attn_width(PF_TYPE_BF16, head_dim) * sizeof(uint16_t);
    numbers x = { (uint64_t)(n_rows + length + head_dim) };
    void *pages[2][MAX_PAGES];
    for (int i = 0; i < 2 * MAX_PAGES; i++) pages[i % 2][i / 2] = aligned(page);
    float *kv = aligned(2 * (size_t)length * width * sizeof *kv), *q = aligned((size_t)n_rows * q_width * sizeof *q);
    *result_bytes = (size_t)n_rows * q_width * sizeof(float);
    float *out = aligned(*result_bytes);
    void *scratch = aligned(pf_attn_scratch_bytes(head_dim));
    for (size_t i = 0; i < 2 * (size_t)length * width; i++) kv[i] = next_float(&x);
    for (size_t i = 0; i < (size_t)n_rows * q_width; i++) q[i] = next_float(&x);

    const pf_attn_pages where = { .key_pages = pages[0],
                                  .value_pages = pages[1],
                                  .page_tokens = PAGE_TOKENS,
                                  .n_kv_heads = KV_HEADS,
                                  .head_dim = head_dim };
    const pf_attn_store_args store = {
        .pages = where, .k = kv, .v = kv + (size_t)length * width, .stride = width, .n_rows = length
    };
    pf_attn_store_bf16_ref(&store, 0, pf_attn_items(KV_HEADS, length));
    const pf_attn_args args = { .pages = where,
                                .q = q,
                                .q_stride = q_width,
                                .out = out,
                                .out_stride = q_width,
                                .n_rows = n_rows,
                                .n_heads = HEADS,
                                .position = length - n_rows,
                                .scale = 0.125f };
    attn(&args, 0, pf_attn_items(KV_HEADS, n_rows), scratch);
    for (int i = 0; i < 2 * MAX_PAGES; i++) free(pages[i % 2][i / 2]);
    free(kv);
    free(q);
    free(scratch);
    return out;
}

/* --- switches: two threads, each with tiles of its own, on one core --- */

/* Loads a tile, waits until others have run, and looks at it. */
static void *keeps_its_tiles(void *value)
{
    uint8_t rows[16 * 64], back[16 * 64];
    memset(rows, *(uint8_t *)value, sizeof rows);
    const amx_config c = amx_config_full();
    AMX_CONFIGURE(c);
    AMX_LOAD(7, rows, 64);
    bool same = true;
    for (int i = 0; i < 50; i++) {
        sched_yield();
        for (volatile int spin = 0; spin < 20000; spin++) continue; /* long enough to be taken off the core */
        AMX_STORE(7, back, 64);
        same &= memcmp(rows, back, sizeof rows) == 0;
    }
    AMX_RELEASE();
    return same ? value : NULL;
}

static void check_switches(void)
{
    pthread_t threads[2];
    uint8_t values[2] = { 17, 34 };
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, keeps_its_tiles, &values[i])) abort();
    for (int i = 0; i < 2; i++) {
        void *kept;
        pthread_join(threads[i], &kept);
        report(kept == &values[i], "a thread's tile changed under it");
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("amx: two threads kept their tiles over %ld switches, %ld of them forced\n",
           usage.ru_nvcsw + usage.ru_nivcsw, usage.ru_nivcsw);
}

/* --- faults --- */

static void check_faults(void)
{
    size_t n;
    const amx_fault_case *cases = amx_fault_cases(&n);
    for (size_t i = 0; i < n; i++) report(amx_signal_of(cases[i].run) == cases[i].signal, cases[i].name);
    printf("amx: %zu cases of what must and must not fault\n", n);
}

/* --- the machine --- */

#ifndef PF_TEST_TRAPPED
static void use_tiles(void)
{
    const amx_config c = amx_config_full();
    AMX_CONFIGURE(c);
    AMX_ZERO(0);
}

static void check_machine(void)
{
    unsigned a, b, c, d, low, high;
    __cpuid_count(7, 0, a, b, c, d);
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    printf("amx: CPUID says bf16 %u, tile %u, int8 %u; XCR0 is %x\n", d >> 22 & 1, d >> 24 & 1, d >> 25 & 1, low);
    report(amx_signal_of(use_tiles) != 0, "tiles are there before anybody asked for them");
    const pf_isa best = pf_cpu_best_isa();
    printf("amx: the best instruction set is %s\n", pf_isa_name(best));
    report(best == PF_ISA_AMX, "the choice of instruction set");
}

/* Bochs ends when "Shutdown" is written to this port. */
static void end_the_machine(void)
{
    enum { BOCHS_PORT = 0x8900 };
    usleep(100000); /* the console's last bytes */
    if (iopl(3) == 0)
        for (const char *s = "Shutdown"; *s; s++) outb((unsigned char)*s, BOCHS_PORT);
    reboot(RB_POWER_OFF);
}
#endif

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
#ifdef PF_TEST_TRAPPED
    if (pf_cpu_best_isa() < PF_ISA_AMX) return 77; /* skipped: see tests/support/amx_trap.h */
#else
    check_machine();
#endif
    check_results(PF_OP_GEMM, product, shapes, N_SHAPES);
    check_results(PF_OP_ATTN, attended, spans, N_SPANS);
    check_switches();
    check_faults();
    puts(n_wrong == 0 ? "amx: passed" : "amx: FAILED");
#ifndef PF_TEST_TRAPPED
    if (getpid() == 1) end_the_machine();
#endif
    return n_wrong != 0;
}
