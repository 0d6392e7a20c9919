/* The limits that kernels are measured against, and what is told of each. */
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "base/team.h"
#include "bench/bare_read.h"
#include "bench/kernel_bench.h"
#include "bench/peak.h"
#include "bench/reader.h"
#include "kernels/limits/burst.h"
#include "kernels/limits/read.h"

static void every_pattern_reads_the_first_word_of_every_line_once(void **state)
{
    (void)state;
    enum { LINES = 4200, WORDS = 8 }; /* two pairs of panels, and some */
    _Alignas(64) static uint64_t data[LINES * WORDS];
    for (uint64_t i = 0; i < LINES * WORDS; i++) data[i] = i % WORDS == 0 ? (i + 1) * 0x9E3779B97F4A7C15u : 1;
    for (size_t lines = 0; lines <= LINES; lines += lines < 67 ? 1 : 19) {
        uint64_t expected = 0;
        for (size_t line = 0; line < lines; line++) expected += data[line * WORDS];
        for (size_t p = 0; p < PF_N_READS; p++)
            assert_true(pf_read_patterns[p].read(data, lines * sizeof *data * WORDS) == expected);
    }
}

static void members_share_any_number_of_bytes_in_whole_lines(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 8, 64, 200, (size_t)7 << 20, ((size_t)1 << 38) + 24 };
    for (size_t i = 0; i < PF_COUNT(sizes); i++)
        for (int32_t n_threads = 1; n_threads <= 7; n_threads++) {
            size_t at = 0, end;
            for (int32_t id = 0; id < n_threads; id++, at = end) {
                const pf_member member = { .id = id, .n_threads = n_threads };
                assert_true(pf_bare_read_share(member, sizes[i], &end) == at && at % 64 == 0);
                assert_true(end >= at && end - at < sizes[i] / (size_t)n_threads + 128);
            }
            assert_true(at == sizes[i]);
        }
}

/* One pattern is always a little faster than the others, another one a little less; one is far faster, once. Memory is
 * slow in the first three rounds of five, so that by times the lucky one would win. */
enum { STEADY = 3, SECOND = 8, LUCKY = 5 };

static uint64_t staged_ns(void *user, pf_read_fn *read)
{
    int *n_calls = user;
    const int round = (*n_calls)++ / PF_N_READS;
    const uint64_t slowness = round < 3 ? 3 : 1;
    if (read == pf_read_patterns[STEADY].read) return 90 * slowness;
    if (read == pf_read_patterns[SECOND].read) return 95 * slowness;
    return read == pf_read_patterns[LUCKY].read && round == 0 ? 10 : 100 * slowness;
}

static void patterns_are_chosen_by_their_medians_not_by_their_fastest_moments(void **state)
{
    (void)state;
    int n_calls = 0;
    const pf_read_pattern *fastest[2];
    pf_reader_choose(staged_ns, &n_calls, NULL, fastest, 2);
    assert_ptr_equal(fastest[0], &pf_read_patterns[STEADY]);
    assert_ptr_equal(fastest[1], &pf_read_patterns[SECOND]);
}

/* Reads that are told to stop when so many have begun. */
typedef struct {
    int n_calls, n_until;
    volatile bool told;
} stopped_reads;

static uint64_t stopping_ns(void *user, pf_read_fn *read)
{
    stopped_reads *s = user;
    s->told = ++s->n_calls >= s->n_until;
    return read == pf_read_patterns[STEADY].read ? 90 : 100;
}

static void a_choice_that_is_told_to_stop_reads_no_more_and_goes_by_whole_rounds(void **state)
{
    (void)state;
    for (int n_until = 1; n_until <= 2 * PF_N_READS + 1; n_until++) {
        stopped_reads s = { .n_until = n_until };
        const pf_read_pattern *fastest[2] = { NULL };
        pf_reader_choose(stopping_ns, &s, &s.told, fastest, 2);
        assert_int_equal(s.n_calls, n_until);
        assert_true(fastest[0] && fastest[1] && fastest[0] != fastest[1]);
        if (n_until >= PF_N_READS) assert_ptr_equal(fastest[0], &pf_read_patterns[STEADY]);
    }
}

static void a_burst_is_the_widest_that_the_instruction_set_has(void **state)
{
    (void)state;
#ifdef __x86_64__
    const uint32_t vnni = PF_FEATURE_AVX512_VNNI, small = PF_FEATURE_AVX_VNNI;
    assert_null(pf_burst_select(PF_BURST_F32, PF_ISA_SCALAR, 0).run);
    assert_null(pf_burst_select(PF_BURST_BF16, PF_ISA_AVX512, vnni).run);
    assert_string_equal(pf_burst_select(PF_BURST_INT8, PF_ISA_AVX2, 0).instruction, "VPMADDWD");
    assert_string_equal(pf_burst_select(PF_BURST_INT4, PF_ISA_AVX2, 0).instruction, "VPMADDUBSW");
    assert_string_equal(pf_burst_select(PF_BURST_INT4, PF_ISA_AVX512, vnni).instruction, "VPDPBUSD");
    assert_true(pf_burst_select(PF_BURST_F32, PF_ISA_AVX512, 0).operations == 512.0);
    assert_true(pf_burst_select(PF_BURST_INT8, PF_ISA_AVX512BF16, vnni | small).operations == 2048.0);
    assert_true(pf_burst_select(PF_BURST_INT8, PF_ISA_AVX512, small).operations == 768.0); /* no VPDPBUSD on ZMM */
    assert_string_equal(pf_burst_select(PF_BURST_BF16, PF_ISA_AMX, 0).instruction, "TDPBF16PS");
#endif
    assert_true(isnan(pf_peak_measure((pf_burst){ 0 }, NULL, 1)));
}

static void every_burst_of_this_machine_multiplies(void **state)
{
    (void)state;
    pf_error error;
    pf_team *team;
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    for (int kind = 0; kind < PF_N_BURSTS; kind++) {
        for (pf_isa isa = PF_ISA_AVX2; isa <= pf_cpu_best_isa(); isa++) {
            const pf_burst burst = pf_burst_select((pf_burst_kind)kind, isa, pf_cpu_features());
            if (!burst.run) continue;
            assert_true(burst.run(3) == 0.0f);
            assert_true(pf_peak_measure(burst, team, 100000) > 0.0);
        }
    }
    pf_team_destroy(team);
}

typedef struct {
    pf_kernels kernels;
    int32_t n, n_products, enough; /* enough: this figure is the last that is wanted; 0: all are */
    bool sound;
} seen;

static bool look(void *user, const pf_kernel_figure *f)
{
    seen *s = user;
    s->n++;
    s->n_products += f->kernel->op == PF_OP_GEMM;
    const bool chosen = pf_kernels_chosen(&s->kernels, f->kernel) == f->kernel;
    const bool timed = f->us > 0.0 && f->limit_us > 0.0 && fabs(f->fraction - f->limit_us / f->us) < 1e-12;
    const bool counted = f->kernel->op != PF_OP_GEMM || (f->gflops > 0.0 && f->shape[0] == (char)('0' + f->rows));
    s->sound = s->sound && chosen && timed && counted && f->gbps > 0.0;
    return s->n != s->enough;
}

/* Every processor that has VPDPBUSD gives it as many multipliers as VFMADD231PS of the same width, and it multiplies four
 * times as many numbers: a burst whose code does anything else besides is slower. The best of many counts, since an interrupted run
 * is slower. */
static void bytes_are_multiplied_four_times_as_fast_as_floats(void **state)
{
    (void)state;
#if !defined __OPTIMIZE__ || defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); /* what the compiler makes of the bursts is not what is measured with */
#endif
    enum { TIMES = 60, BURST_NS = 50000 };
    pf_error error;
    pf_team *team;
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    for (pf_isa isa = PF_ISA_AVX2; isa <= PF_ISA_AVX512 && isa <= pf_cpu_best_isa(); isa++) {
        const pf_burst bytes = pf_burst_select(PF_BURST_INT8, isa, pf_cpu_features());
        const pf_burst floats = pf_burst_select(PF_BURST_F32, isa, 0);
        if (strcmp(bytes.instruction, "VPDPBUSD") != 0) continue;
        double best_bytes = 0.0, best_floats = 0.0;
        for (int i = 0; i < TIMES; i++) {
            best_bytes = fmax(best_bytes, pf_peak_measure(bytes, team, BURST_NS));
            best_floats = fmax(best_floats, pf_peak_measure(floats, team, BURST_NS));
        }
        if (best_bytes < 3.4 * best_floats)
            fail_msg("%s: %.0f Gop/s of bytes, %.0f of floats", pf_isa_name(isa), best_bytes, best_floats);
    }
    pf_team_destroy(team);
}

static void a_quick_run_measures_what_is_chosen_for_every_format(void **state)
{
    (void)state;
    pf_error error;
    pf_team *team;
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    seen s = { .sound = true };
    assert_ok(pf_kernels_select(pf_cpu_best_isa(), &s.kernels, &error), error);
    pf_kernel_bench_options options = {
        .isa = s.kernels.isa, .format = PF_FORMAT_BF16, .op = PF_N_OPS, .quick = true, .figure = look, .user = &s
    };
    pf_status status = pf_bench_kernels(team, &options, &error);
    assert_true(status == PF_OK || status == PF_INTERNAL); /* a limit measured badly: others use this machine */
    assert_true(s.sound && s.n == 2 && s.n_products == 2); /* at 1 row and at 8 */

    options.format = PF_N_FORMATS;
    options.op = PF_OP_ATTN_STORE;
    s = (seen){ .kernels = s.kernels, .sound = true };
    status = pf_bench_kernels(team, &options, &error);
    assert_true(status == PF_OK || status == PF_INTERNAL);
    assert_true(s.sound && s.n == 2 && s.n_products == 0); /* to f32 and to bf16 */

    s = (seen){ .kernels = s.kernels, .enough = 1 };
    assert_int_equal(pf_bench_kernels(team, &options, &error), PF_CANCELLED);
    assert_int_equal(s.n, 1);

    volatile bool cancel = true;
    options.cancel = &cancel;
    assert_int_equal(pf_bench_kernels(team, &options, &error), PF_CANCELLED);
    pf_team_destroy(team);
}

static void a_kernel_faster_than_its_limit_fails_and_is_named(void **state)
{
    (void)state;
    int32_t n;
    pf_error error = { 0 };
    pf_kernel_figure f = { .kernel = pf_kernels_all(&n), .shape = "8x512x512", .fraction = 1.05 };
    assert_int_equal(pf_kernel_figure_check(&f, &error), PF_OK);
    f.fraction = 1.06;
    assert_int_equal(pf_kernel_figure_check(&f, &error), PF_INTERNAL);
    assert_non_null(strstr(error.text, f.kernel->name));
    assert_non_null(strstr(error.text, "8x512x512"));
    f.fraction = NAN;
    assert_int_equal(pf_kernel_figure_check(&f, &error), PF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_reads_the_first_word_of_every_line_once),
        cmocka_unit_test(members_share_any_number_of_bytes_in_whole_lines),
        cmocka_unit_test(patterns_are_chosen_by_their_medians_not_by_their_fastest_moments),
        cmocka_unit_test(a_choice_that_is_told_to_stop_reads_no_more_and_goes_by_whole_rounds),
        cmocka_unit_test(a_burst_is_the_widest_that_the_instruction_set_has),
        cmocka_unit_test(every_burst_of_this_machine_multiplies),
        cmocka_unit_test(bytes_are_multiplied_four_times_as_fast_as_floats),
        cmocka_unit_test(a_quick_run_measures_what_is_chosen_for_every_format),
        cmocka_unit_test(a_kernel_faster_than_its_limit_fails_and_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
