/*
 * The emulation of CUDA: kernels give their results, and what is wrong with a program is found. Built twice: plainly, and with
 * the race checker.
 */
#include "tests/support/test.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cublasLt.h>

#include "tests/cuda-shim/shim_control.h"
#include "tests/cuda-shim/shim_kernels.h"

enum { N = 1000, ROWS = 5, WORDS = 4096 };

/* A stream, a device buffer and a pinned one of WORDS floats or ints. */
typedef struct {
    cudaStream_t stream;
    void *device, *pinned;
    int live_before;
} rig;

static void must(cudaError_t e)
{
    if (e != cudaSuccess) fail_msg("%s: %s", cudaGetErrorName(e), cudaGetErrorString(e));
}

static int set_up(void **state)
{
    rig *r = test_calloc(1, sizeof *r);
    pf_shim_reset();
    r->live_before = pf_shim_live();
    must(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    must(cudaMalloc(&r->device, WORDS * 4));
    must(cudaMallocHost(&r->pinned, WORDS * 4));
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    rig *r = *state;
    pf_shim_fail_call(0);
    pf_shim_set_quiet(false);
    must(cudaFree(r->device));
    must(cudaFreeHost(r->pinned));
    must(cudaStreamDestroy(r->stream));
    assert_int_equal(pf_shim_live(), r->live_before);
    if (pf_shim_violations() > 0) fail_msg("violation: %s", pf_shim_first_violation());
    test_free(r);
    return 0;
}

static void to_device(rig *r, void *to, const void *from, size_t bytes)
{
    assert_true(bytes <= WORDS * 4);
    memcpy(r->pinned, from, bytes);
    must(cudaMemcpyAsync(to, r->pinned, bytes, cudaMemcpyHostToDevice, r->stream));
    must(cudaStreamSynchronize(r->stream));
}

static void from_device(rig *r, void *to, const void *from, size_t bytes)
{
    must(cudaMemcpyAsync(r->pinned, from, bytes, cudaMemcpyDeviceToHost, r->stream));
    must(cudaStreamSynchronize(r->stream));
    memcpy(to, r->pinned, bytes);
}

/* What the program did is a violation whose sentence has `part` in it. */
static void expect_violation(const char *part)
{
    if (pf_shim_violations() == 0) fail_msg("no violation, expected: %s", part);
    if (!strstr(pf_shim_first_violation(), part)) fail_msg("\"%s\", expected: %s", pf_shim_first_violation(), part);
}

/* ---- sound kernels ---- */

static float fraction(int i)
{
    return (float)(i * 37 % 101) / 64.0f;   // sums of these are exact
}

static void reductions_give_the_sum_in_every_order(void **state)
{
    rig *r = *state;
    float x[ROWS * 200], sums[ROWS], want[ROWS] = { 0 };
    for (int i = 0; i < ROWS * 200; i++) {
        x[i] = fraction(i);
        want[i / 200] += x[i];
    }
    float *in = r->device, *out = in + 2048;
    to_device(r, in, x, sizeof x);
    for (uint32_t seed = 0; seed < 12; seed++) {
        pf_shim_set_order(seed == 0 ? PF_SHIM_FORWARD : seed == 1 ? PF_SHIM_REVERSE : PF_SHIM_SHUFFLED, seed);
        must(pf_shim_sum_by_barriers(out, in, ROWS, 200, 128, r->stream));
        from_device(r, sums, out, sizeof sums);
        assert_memory_equal(sums, want, sizeof want);
        must(pf_shim_sum_by_shuffles(out, in, ROWS, 200, 96, r->stream));
        from_device(r, sums, out, sizeof sums);
        assert_memory_equal(sums, want, sizeof want);
    }
}

static uint16_t bf16_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)(u >> 16);
}

static void tile_product_equals_the_loops(void **state)
{
    rig *r = *state;
    enum { M = 19, P = 35, K = 21 };
    uint16_t a[M * K], b[P * K];
    float got[M * P];
    for (int i = 0; i < M * K; i++) a[i] = bf16_of((float)(i % 13) - 6);
    for (int i = 0; i < P * K; i++) b[i] = bf16_of((float)(i % 11) - 5);
    uint16_t *da = r->device, *db = da + 1024;
    float *dc = (float *)r->device + 2048;
    to_device(r, da, a, sizeof a);
    to_device(r, db, b, sizeof b);
    must(pf_shim_tile_product(dc, da, db, M, P, K, r->stream));
    from_device(r, got, dc, sizeof got);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < P; j++) {
            int want = 0;
            for (int l = 0; l < K; l++) want += ((i * K + l) % 13 - 6) * ((j * K + l) % 11 - 5);
            assert_true(got[i * P + j] == (float)want);
        }
}

static void atomics_count_across_blocks(void **state)
{
    rig *r = *state;
    int x[N], counts[7];
    for (int i = 0; i < N; i++) x[i] = i * i;
    int *in = r->device, *out = in + 2048;
    to_device(r, in, x, sizeof x);
    must(cudaMemsetAsync(out, 0, sizeof counts, r->stream));
    must(pf_shim_histogram(out, in, N, 7, r->stream));
    from_device(r, counts, out, sizeof counts);
    int want[7] = { 0 };
    for (int i = 0; i < N; i++) want[x[i] % 7]++;
    assert_memory_equal(counts, want, sizeof want);
}

static void kernel_without_barriers_needs_one_switch_a_block(void **state)
{
    rig *r = *state;
    int x[N], got[N];
    for (int i = 0; i < N; i++) x[i] = i;
    int *in = r->device, *out = in + 2048;
    to_device(r, in, x, sizeof x);
    const long before = pf_shim_switches();
    must(pf_shim_increment(out, in, N, r->stream));
    from_device(r, got, out, sizeof got);
    for (int i = 0; i < N; i++) assert_int_equal(got[i], i + 1);
    assert_true(pf_shim_switches() - before <= 2 * 8);   // 8 blocks of 128 threads
}

static void warp_operations_give_what_cuda_defines(void **state)
{
    rig *r = *state;
    unsigned got[PF_SHIM_N_WARP_RESULTS][32];
    must(pf_shim_warp_results(r->device, r->stream));
    from_device(r, got, r->device, sizeof got);
    for (unsigned i = 0; i < 32; i++) {
        const unsigned want[PF_SHIM_N_WARP_RESULTS] = { 3,
                                                        i / 8 * 8 + 1,
                                                        i < 1 ? i : i - 1,
                                                        i % 8 < 3 ? i : i - 3,
                                                        i > 30 ? i : i + 1,
                                                        i % 8 > 4 ? i : i + 3,
                                                        i ^ 16,
                                                        0x49249249u,
                                                        2,
                                                        2,
                                                        0xffu << (i / 8 * 8),
                                                        496,
                                                        (unsigned)-26,
                                                        11 };
        for (int j = 0; j < PF_SHIM_N_WARP_RESULTS; j++) {
            if (got[j][i] != want[j]) fail_msg("result %d of lane %u is %u, expected %u", j, i, got[j][i], want[j]);
        }
    }
}

static void bf16_rounds_to_even_and_keeps_nan(void **state)
{
    rig *r = *state;
    const uint32_t bits[] = { 0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x7f800000, 0xff800000,
                              0x7f800001, 0xffc12345, 0x7f7fffff, 0x00000001, 0x80000000 };
    const uint16_t want[] = { 0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80, 0xff80, 0x7fff, 0x7fff, 0x7f80, 0x0000, 0x8000 };
    uint16_t got[PF_COUNT(want)];
    float *in = r->device;
    uint16_t *out = (uint16_t *)r->device + 2048;
    to_device(r, in, bits, sizeof bits);
    must(pf_shim_round_to_bf16(out, in + 2048, in, PF_COUNT(bits), r->stream));
    from_device(r, got, out, sizeof got);
    assert_memory_equal(got, want, sizeof want);
}

static void dynamic_shared_memory_is_as_large_as_launched(void **state)
{
    rig *r = *state;
    int x[256], got[256];
    for (int i = 0; i < 256; i++) x[i] = i;
    int *in = r->device, *out = in + 1024;
    to_device(r, in, x, sizeof x);
    must(pf_shim_reverse(out, in, 256, 60 << 10, r->stream));   // above 48 KiB: asked for
    from_device(r, got, out, sizeof got);
    for (int i = 0; i < 256; i++) assert_int_equal(got[i], 255 - i);
}

static void order_of_threads_follows_the_seed(void **state)
{
    rig *r = *state;
    int last[10], n_kinds = 1;
    for (uint32_t seed = 0; seed < PF_COUNT(last); seed++) {
        pf_shim_set_order(seed == 0 ? PF_SHIM_FORWARD : seed == 1 ? PF_SHIM_REVERSE : PF_SHIM_SHUFFLED, seed);
        must(pf_shim_flawed(PF_SHIM_DEPENDS_ON_ORDER, r->device, r->stream));
        from_device(r, &last[seed], r->device, sizeof last[0]);
        n_kinds += seed > 0 && last[seed] != last[seed - 1];
    }
    assert_int_equal(last[0], 63);
    assert_int_equal(last[1], 0);
    assert_true(n_kinds > 5);
}

/* ---- flawed kernels ---- */

static void run_flawed(rig *r, pf_shim_flaw flaw)
{
    pf_shim_set_quiet(true);
    must(cudaMemsetAsync(r->device, 0, WORDS * 4, r->stream));
    must(pf_shim_flawed(flaw, r->device, r->stream));
    (void)cudaStreamSynchronize(r->stream);
}

static void divergent_barriers_are_found(void **state)
{
    run_flawed(*state, PF_SHIM_DIVERGENT_BARRIER);
    expect_violation("divergent_barrier: divergent barrier: thread 0 waits at");
    run_flawed(*state, PF_SHIM_BARRIER_AFTER_END);
    expect_violation("63 threads wait at");
}

static void lanes_that_do_not_take_part_are_found(void **state)
{
    run_flawed(*state, PF_SHIM_SHUFFLE_WITH_ENDED);
    expect_violation("lane 19 reads lane 3, which has ended");
    run_flawed(*state, PF_SHIM_LANE_STAYS_AWAY);
    expect_violation("lane_stays_away: deadlock");
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
}

static void missing_barrier_is_a_race(void **state)
{
    if (!pf_shim_checks_races()) skip();
    run_flawed(*state, PF_SHIM_MISSING_BARRIER);
    expect_violation("race: missing_barrier: ");
    run_flawed(*state, PF_SHIM_MISSING_SYNCWARP);
    expect_violation("of values, byte ");
}

static void blocks_on_one_word_are_a_race(void **state)
{
    if (!pf_shim_checks_races()) skip();
    run_flawed(*state, PF_SHIM_BLOCKS_SHARE_WORD);
    expect_violation("by a thread of another block and thread 0 of block (1, 0, 0)");
    run_flawed(*state, PF_SHIM_ATOMIC_AND_PLAIN);
    expect_violation("race: atomic_and_plain: read, then write");
}

static void trap_is_an_error_that_stays(void **state)
{
    rig *r = *state;
    run_flawed(r, PF_SHIM_TRAPS);
    expect_violation("traps: __trap()");
    void *p;
    assert_int_equal(cudaMalloc(&p, 16), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    pf_shim_fail_call(0);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void shared_memory_is_poisoned_and_limited(void **state)
{
    rig *r = *state;
    int got[64];
    run_flawed(r, PF_SHIM_SHARED_UNWRITTEN);
    from_device(r, got, r->device, sizeof got);
    for (int i = 0; i < 64; i++) assert_int_equal(got[i], -1);
    run_flawed(r, PF_SHIM_TOO_MUCH_SHARED);
    expect_violation("50176 bytes of static");
}

static void launches_beyond_the_limits_are_refused(void **state)
{
    rig *r = *state;
    pf_shim_set_quiet(true);
    const struct {
        unsigned x, y, threads;
    } bad[] = { { 0, 1, 32 }, { 1, 0, 32 }, { 1, 65536, 32 }, { 1, 1, 0 }, { 1, 1, 1025 } };
    for (size_t i = 0; i < PF_COUNT(bad); i++) {
        assert_int_equal(pf_shim_launch_shape(r->device, bad[i].x, bad[i].y, bad[i].threads, r->stream),
                         cudaErrorInvalidConfiguration);
        assert_int_equal(cudaGetLastError(), cudaSuccess);
        expect_violation("launch of ");
    }
    must(pf_shim_launch_shape(r->device, 3, 2, 1024, r->stream));
    assert_int_equal(pf_shim_reverse(r->device, r->device, 4, 101 << 10, r->stream), cudaErrorInvalidConfiguration);
    expect_violation("bytes of shared memory");
}

/* ---- memory ---- */

/* Runs `body` in a child: it dies, or it gives a violation. AddressSanitizer ends the process, the emulation alone does not. */
static void expect_fault(void (*body)(rig *), rig *r)
{
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        (void)signal(SIGSEGV, SIG_DFL);   // not cmocka's
        body(r);
        _exit(pf_shim_violations() > 0 ? 1 : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_not_equal(status, 0);
}

static void write_far_beyond(rig *r)
{
    (void)pf_shim_write_at(r->device, 40000, r->stream);
    if (cudaStreamSynchronize(r->stream) != cudaErrorIllegalAddress) _exit(0);
}

static void write_to_freed(rig *r)
{
    int *p;
    must(cudaMalloc((void **)&p, 64));
    must(cudaFree(p));
    (void)pf_shim_write_at(p - 64, 64, r->stream);   // the argument itself lies before it
    (void)cudaStreamSynchronize(r->stream);
}

static void host_reads_device(rig *r)
{
    volatile const int *p = r->device;
    if (p[0] == 1) _exit(0);
    _exit(0);
}

static void kernel_faults_show_at_the_next_wait(void **state)
{
    expect_fault(write_far_beyond, *state);
    expect_fault(write_to_freed, *state);
}

static void host_cannot_access_device_memory(void **state)
{
    expect_fault(host_reads_device, *state);
}

#ifdef __SANITIZE_ADDRESS__
static void write_one_beyond(rig *r)
{
    (void)pf_shim_write_at(r->device, WORDS, r->stream);
    (void)cudaStreamSynchronize(r->stream);
}

static void write_beyond_shared(rig *r)
{
    (void)pf_shim_flawed(PF_SHIM_BEYOND_SHARED, r->device, r->stream);
    (void)cudaStreamSynchronize(r->stream);
}
#endif

static void one_element_beyond_is_found_by_asan(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    expect_fault(write_one_beyond, *state);
    expect_fault(write_beyond_shared, *state);
#else
    (void)state;
    skip();
#endif
}

static void writes_beside_an_allocation_show_when_it_is_freed(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    (void)state;
    skip();
#else
    rig *r = *state;
    int *p;
    pf_shim_set_quiet(true);
    must(cudaMalloc((void **)&p, 12));
    must(pf_shim_write_at(p, 3, r->stream));
    must(cudaStreamSynchronize(r->stream));
    must(cudaFree(p));
    expect_violation("bytes beside device allocation");
#endif
}

static void wrong_frees_are_found(void **state)
{
    rig *r = *state;
    pf_shim_set_quiet(true);
    void *p;
    must(cudaMalloc(&p, 100));
    must(cudaFree(p));
    (void)cudaFree(p);
    expect_violation("cudaFree of the freed device allocation");
    (void)cudaFree(r->pinned);
    expect_violation("cudaFree of pinned allocation");
    (void)cudaFreeHost(r->device);
    expect_violation("cudaFreeHost of device allocation");
    (void)cudaFree((char *)r->device + 4);
    expect_violation("cudaFree of byte 4 of device allocation");
}

static void host_pointers_as_arguments_are_found(void **state)
{
    rig *r = *state;
    pf_shim_set_quiet(true);
    int local = 0;
    (void)pf_shim_write_at(r->pinned, 0, r->stream);
    expect_violation("pointer argument 0 is not of the device: pinned");
    assert_int_equal(cudaStreamSynchronize(r->stream), cudaErrorIllegalAddress);
    pf_shim_fail_call(0);
    (void)pf_shim_write_at(&local, 0, r->stream);
    expect_violation("host memory that CUDA did not allocate");
    (void)cudaStreamSynchronize(r->stream);
}

static void new_memory_is_nan_and_limited(void **state)
{
    rig *r = *state;
    float got[4];
    void *p, *q;
    size_t before, after, total;
    pf_shim_device device = pf_shim_default_device();
    device.memory_bytes = 64 << 10;
    pf_shim_set_device(device);
    must(cudaMemGetInfo(&before, &total));
    must(cudaMalloc(&p, 16 << 10));
    must(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, 16 << 10);
    assert_int_equal(total, 64 << 10);
    assert_int_equal(cudaMalloc(&q, 40 << 10), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    from_device(r, got, p, sizeof got);
    for (int i = 0; i < 4; i++) assert_true(isnan(got[i]));
    must(cudaFree(p));
}

/* ---- copies, streams, events, graphs ---- */

static void wrong_copies_are_found(void **state)
{
    rig *r = *state;
    pf_shim_set_quiet(true);
    char local[16] = { 0 };
    assert_int_equal(cudaMemcpyAsync(r->device, r->pinned, 16, cudaMemcpyDeviceToHost, r->stream),
                     cudaErrorInvalidValue);
    expect_violation("direction 2, but from pinned to device memory");
    assert_int_equal(cudaMemcpyAsync(r->device, r->pinned, WORDS * 4 + 1, cudaMemcpyHostToDevice, r->stream),
                     cudaErrorInvalidValue);
    expect_violation("bytes do not lie within one allocation");
    must(cudaMemcpyAsync(r->device, local, sizeof local, cudaMemcpyHostToDevice, r->stream));
    expect_violation("pageable memory");
    must(cudaMemcpy(r->device, local, sizeof local, cudaMemcpyHostToDevice));   // synchronous: any memory
    (void)cudaMemcpyAsync((char *)r->device + 4, r->device, 16, cudaMemcpyDeviceToDevice, r->stream);
    expect_violation("the two ends overlap");
}

static void nothing_runs_before_a_wait(void **state)
{
    rig *r = *state;
    int *in = r->pinned, *out = in + 1024;
    in[0] = 5;
    must(cudaMemcpyAsync(r->device, in, 4, cudaMemcpyHostToDevice, r->stream));
    must(pf_shim_increment((int *)r->device + 1, r->device, 1, r->stream));
    out[0] = 77;
    must(cudaMemcpyAsync(out, (int *)r->device + 1, 4, cudaMemcpyDeviceToHost, r->stream));
    assert_int_equal(out[0], -1);   // what the copy will fill is spoilt until it is waited for
    in[0] = 8;                      // too early: the copy reads this
    must(cudaStreamSynchronize(r->stream));
    assert_int_equal(out[0], 9);
}

static void event_waits_for_what_came_before_it(void **state)
{
    rig *r = *state;
    int *out = r->pinned;
    cudaEvent_t event;
    must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    must(cudaMemsetAsync(r->device, 1, 4, r->stream));
    must(cudaMemcpyAsync(out, r->device, 4, cudaMemcpyDeviceToHost, r->stream));
    must(cudaEventRecord(event, r->stream));
    must(cudaMemcpyAsync(out + 1, r->device, 4, cudaMemcpyDeviceToHost, r->stream));
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    must(cudaEventSynchronize(event));
    assert_int_equal(cudaEventQuery(event), cudaSuccess);
    assert_int_equal(out[0], 0x01010101);
    assert_int_equal(out[1], -1);
    assert_int_equal(cudaStreamQuery(r->stream), cudaErrorNotReady);
    assert_int_equal(cudaStreamQuery(r->stream), cudaSuccess);
    must(cudaEventDestroy(event));
}

static void graph_replays_with_the_arguments_of_its_capture(void **state)
{
    rig *r = *state;
    int *in = r->pinned, *out = in + 1024, *d = r->device, n = 1;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
    must(cudaMemcpyAsync(d, in, 8, cudaMemcpyHostToDevice, r->stream));
    must(pf_shim_increment(d + 2, d, n, r->stream));
    must(cudaMemcpyAsync(out, d + 2, 4, cudaMemcpyDeviceToHost, r->stream));
    must(cudaStreamEndCapture(r->stream, &graph));
    must(cudaGraphInstantiate(&exec, graph, 0));
    must(cudaGraphDestroy(graph));
    n = 2;   // too late
    for (int i = 0; i < 3; i++) {
        in[0] = i * 10;
        must(cudaGraphLaunch(exec, r->stream));
        assert_int_equal(out[0], -1);
        must(cudaStreamSynchronize(r->stream));
        assert_int_equal(out[0], i * 10 + 1);
    }
    must(cudaGraphExecDestroy(exec));
}

static void wait_within_a_capture_spoils_it(void **state)
{
    rig *r = *state;
    cudaGraph_t graph;
    void *p;
    must(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamSynchronize(r->stream), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(r->stream, &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
    assert_int_equal(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
}

/* ---- failures on request ---- */

static void each_call_fails_when_asked_to(void **state)
{
    rig *r = *state;
    const int live = pf_shim_live();
    int n_told = 0;
    for (long n = 1; n < 20; n++) {
        void *p = NULL;
        pf_shim_fail_call(n);
        cudaError_t e = cudaMalloc(&p, 64);
        if (e == cudaSuccess) e = cudaMemsetAsync(p, 0, 64, r->stream);
        if (e == cudaSuccess) e = pf_shim_write_at(p, 3, r->stream);
        if (e == cudaSuccess) e = cudaStreamSynchronize(r->stream);
        assert_int_equal(e != cudaSuccess, pf_shim_calls() >= n);
        n_told += e != cudaSuccess;
        pf_shim_fail_call(0);
        (void)cudaFree(p);
        assert_int_equal(pf_shim_live(), live);
    }
    assert_int_equal(n_told, 4);
}

static void kernel_that_faults_is_told_at_the_wait(void **state)
{
    rig *r = *state;
    pf_shim_fault_kernel(2);
    must(pf_shim_write_at(r->device, 0, r->stream));
    must(pf_shim_write_at(r->device, 1, r->stream));
    must(pf_shim_write_at(r->device, 2, r->stream));
    assert_int_equal(cudaStreamSynchronize(r->stream), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
}

static void missing_device_and_old_driver_are_errors(void **state)
{
    (void)state;
    int n = 7;
    pf_shim_device device = pf_shim_default_device();
    device.n_devices = 0;
    pf_shim_set_device(device);
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    assert_int_equal(n, 0);
    device = pf_shim_default_device();
    device.driver_version = 11040;
    pf_shim_set_device(device);
    assert_int_equal(cudaSetDevice(0), cudaErrorInsufficientDriver);
    pf_shim_reset();
    must(cudaGetDeviceCount(&n));
    assert_int_equal(n, 1);
    struct cudaDeviceProp p;
    assert_int_equal(cudaGetDeviceProperties(&p, 1), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
}

/* ---- matrix products ---- */

enum { M = 24, K = 160, MOST_ROWS = 16 };

typedef struct {
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t weight, in, out;
    cublasLtMatmulPreference_t preference;
} matmul;

static void make_matmul(matmul *m, uint64_t n, uint64_t workspace_bytes)
{
    const int32_t transposed = CUBLAS_OP_T;
    assert_int_equal(cublasLtCreate(&m->lt), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatmulDescCreate(&m->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(
        cublasLtMatmulDescSetAttribute(m->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
        CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatrixLayoutCreate(&m->weight, CUDA_R_16BF, K, M, K), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatrixLayoutCreate(&m->in, CUDA_R_16BF, K, n, K), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatrixLayoutCreate(&m->out, CUDA_R_32F, M, n, M), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatmulPreferenceCreate(&m->preference), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatmulPreferenceSetAttribute(m->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                          &workspace_bytes, sizeof workspace_bytes),
                     CUBLAS_STATUS_SUCCESS);
}

static void end_matmul(matmul *m)
{
    (void)cublasLtMatmulPreferenceDestroy(m->preference);
    (void)cublasLtMatrixLayoutDestroy(m->weight);
    (void)cublasLtMatrixLayoutDestroy(m->in);
    (void)cublasLtMatrixLayoutDestroy(m->out);
    (void)cublasLtMatmulDescDestroy(m->desc);
    (void)cublasLtDestroy(m->lt);
}

static int algorithms(const matmul *m, cublasLtMatmulHeuristicResult_t results[8])
{
    int n = 0;
    assert_int_equal(
        cublasLtMatmulAlgoGetHeuristic(m->lt, m->desc, m->weight, m->in, m->out, m->out, m->preference, 8, results, &n),
        CUBLAS_STATUS_SUCCESS);
    return n;
}

/* Operands as they lie in the device buffer: the weight [M, K], then the rows [MOST_ROWS, K], then the results. */
static const float *fill_operands(rig *r, float *values)
{
    uint16_t bits[(M + MOST_ROWS) * K];
    uint32_t random = 1;
    for (int i = 0; i < (M + MOST_ROWS) * K; i++) {
        random = random * 1664525u + 1013904223u;
        values[i] = (float)(random >> 24) / 177.0f - 0.7f;
        bits[i] = bf16_of(values[i]);
        uint32_t wide = (uint32_t)bits[i] << 16;
        memcpy(&values[i], &wide, sizeof wide);
    }
    to_device(r, r->device, bits, sizeof bits);
    return values;
}

static void *device_rows(const rig *r)
{
    return (uint16_t *)r->device + M * K;
}

static void *device_results(const rig *r)
{
    return (uint16_t *)r->device + (M + MOST_ROWS) * K;
}

static void multiply(rig *r, const matmul *m, const cublasLtMatmulAlgo_t *algo, float *out, int n)
{
    const float one = 1, zero = 0;
    void *d = device_results(r);
    assert_int_equal(cublasLtMatmul(m->lt, m->desc, &one, r->device, m->weight, device_rows(r), m->in, &zero, d, m->out,
                                    d, m->out, algo, NULL, 0, r->stream),
                     CUBLAS_STATUS_SUCCESS);
    from_device(r, out, d, (size_t)n * M * sizeof *out);
}

static void matmul_equals_the_loops_by_every_algorithm(void **state)
{
    rig *r = *state;
    float values[(M + MOST_ROWS) * K], got[8][M * MOST_ROWS];
    const float *x = fill_operands(r, values) + M * K;
    matmul m;
    make_matmul(&m, MOST_ROWS, 0);
    cublasLtMatmulHeuristicResult_t results[8];
    const int n = algorithms(&m, results);
    assert_true(n >= 2);
    for (int a = 0; a < n; a++) {
        multiply(r, &m, &results[a].algo, got[a], MOST_ROWS);
        for (int j = 0; j < MOST_ROWS; j++)
            for (int i = 0; i < M; i++) {
                double want = 0;
                for (int l = 0; l < K; l++) want += (double)values[i * K + l] * (double)x[j * K + l];
                assert_true(fabs(want - (double)got[a][j * M + i]) < 1e-4);
            }
    }
    assert_memory_not_equal(got[0], got[1], sizeof got[0]);   // another algorithm, another order of summation
    end_matmul(&m);
}

/* The first row alone, as the first of 7 and the first of 16. */
static void row_count_and_algorithm_change_the_bits_of_a_row(void **state)
{
    rig *r = *state;
    float values[(M + MOST_ROWS) * K], rows[3][M * MOST_ROWS];
    const int n_rows[] = { 1, 7, 16 };
    fill_operands(r, values);
    cublasLtMatmulAlgo_t pinned;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        pf_shim_set_order_by_rows(by_rows);
        for (int i = 0; i < 3; i++) {
            matmul m;
            make_matmul(&m, (uint64_t)n_rows[i], 0);
            cublasLtMatmulHeuristicResult_t results[8];
            (void)algorithms(&m, results);
            if (i == 0) pinned = results[0].algo;
            multiply(r, &m, &pinned, rows[i], n_rows[i]);
            end_matmul(&m);
        }
        assert_int_equal(memcmp(rows[0], rows[2], M * sizeof(float)) != 0, by_rows);
    }
    pf_shim_set_order_by_rows(false);   // and without a pinned algorithm
    matmul m;
    make_matmul(&m, 16, 0);
    multiply(r, &m, NULL, rows[2], 16);
    assert_memory_not_equal(rows[0], rows[2], M * sizeof(float));
    end_matmul(&m);
}

static cublasStatus_t try_product(const rig *r, const matmul *m, const void *a, const void *b, void *d,
                                  const cublasLtMatmulAlgo_t *algo)
{
    const float one = 1, zero = 0;
    return cublasLtMatmul(m->lt, m->desc, &one, a, m->weight, b, m->in, &zero, d, m->out, d, m->out, algo, NULL, 0,
                          r->stream);
}

static void operands_of_a_product_are_checked(void **state)
{
    rig *r = *state;
    matmul m;
    make_matmul(&m, 4, 1 << 20);
    cublasLtMatmulHeuristicResult_t results[8];
    const int n = algorithms(&m, results);
    const cublasLtMatmulAlgo_t *first = &results[0].algo;
    pf_shim_set_quiet(true);
    void *d = device_results(r), *a = r->device;
    uint16_t *x = device_rows(r);
    assert_int_equal(try_product(r, &m, r->pinned, x, d, first), CUBLAS_STATUS_INVALID_VALUE);
    expect_violation("matmul: A is not device memory");
    assert_int_equal(try_product(r, &m, a, x + 1, d, NULL), CUBLAS_STATUS_INVALID_VALUE);
    expect_violation("is not aligned to 16 bytes");
    assert_int_equal(try_product(r, &m, a, x + 64, d, first), CUBLAS_STATUS_INVALID_VALUE);
    expect_violation("is not aligned to 256 bytes");
    assert_int_equal(try_product(r, &m, a, x, (char *)a + WORDS * 4 - 256, first), CUBLAS_STATUS_INVALID_VALUE);
    expect_violation("matmul: D");
    int n_with_workspace = 0;
    for (int i = 0; i < n; i++) {
        if (results[i].workspaceSize == 0) continue;
        assert_int_equal(try_product(r, &m, a, x, d, &results[i].algo), CUBLAS_STATUS_INVALID_VALUE);
        expect_violation("bytes of workspace");
        n_with_workspace++;
    }
    assert_true(n_with_workspace > 0);
    end_matmul(&m);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(reductions_give_the_sum_in_every_order),
        WITH_RIG(tile_product_equals_the_loops),
        WITH_RIG(atomics_count_across_blocks),
        WITH_RIG(kernel_without_barriers_needs_one_switch_a_block),
        WITH_RIG(warp_operations_give_what_cuda_defines),
        WITH_RIG(bf16_rounds_to_even_and_keeps_nan),
        WITH_RIG(dynamic_shared_memory_is_as_large_as_launched),
        WITH_RIG(order_of_threads_follows_the_seed),
        WITH_RIG(divergent_barriers_are_found),
        WITH_RIG(lanes_that_do_not_take_part_are_found),
        WITH_RIG(missing_barrier_is_a_race),
        WITH_RIG(blocks_on_one_word_are_a_race),
        WITH_RIG(trap_is_an_error_that_stays),
        WITH_RIG(shared_memory_is_poisoned_and_limited),
        WITH_RIG(launches_beyond_the_limits_are_refused),
        WITH_RIG(kernel_faults_show_at_the_next_wait),
        WITH_RIG(host_cannot_access_device_memory),
        WITH_RIG(one_element_beyond_is_found_by_asan),
        WITH_RIG(writes_beside_an_allocation_show_when_it_is_freed),
        WITH_RIG(wrong_frees_are_found),
        WITH_RIG(host_pointers_as_arguments_are_found),
        WITH_RIG(new_memory_is_nan_and_limited),
        WITH_RIG(wrong_copies_are_found),
        WITH_RIG(nothing_runs_before_a_wait),
        WITH_RIG(event_waits_for_what_came_before_it),
        WITH_RIG(graph_replays_with_the_arguments_of_its_capture),
        WITH_RIG(wait_within_a_capture_spoils_it),
        WITH_RIG(each_call_fails_when_asked_to),
        WITH_RIG(kernel_that_faults_is_told_at_the_wait),
        WITH_RIG(missing_device_and_old_driver_are_errors),
        WITH_RIG(matmul_equals_the_loops_by_every_algorithm),
        WITH_RIG(row_count_and_algorithm_change_the_bits_of_a_row),
        WITH_RIG(operands_of_a_product_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
