/* The emulator itself: that it does what the instructions do, and faults where they fault. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/kernels/kernel_test.h"
#include "tests/support/amx_faults.h"
#include "tests/support/amx_trap.h"

static void needs_the_trap(void)
{
    if (!amx_trap_works()) skip();
}

/* --- moves --- */

static void a_configuration_is_given_back_and_a_release_forgets_it(void **state)
{
    (void)state;
    needs_the_trap();
    amx_config c = amx_config_full(), got;
    c.rows[3] = 5;
    c.row_bytes[3] = 20;
    c.rows[7] = 0;
    c.row_bytes[7] = 0;
    AMX_CONFIGURE(c);
    AMX_STORE_CONFIG(got);
    assert_memory_equal(&got, &c, sizeof c);
    AMX_RELEASE();
    AMX_STORE_CONFIG(got);
    const amx_config none = { 0 };
    assert_memory_equal(&got, &none, sizeof none);
}

static void a_tile_goes_through_memory_in_its_own_shape(void **state)
{
    (void)state;
    needs_the_trap();
    amx_config c = amx_config_full();
    c.rows[2] = 5;
    c.row_bytes[2] = 12;
    pf_guard from = pf_guard_alloc(4 * 40 + 12, 4), to = pf_guard_alloc(4 * 24 + 12, 4);
    for (size_t i = 0; i < from.bytes; i++) ((uint8_t *)from.data)[i] = (uint8_t)(i + 1);
    const uint8_t *shifted = (const uint8_t *)from.data - 1000;
    AMX_CONFIGURE(c);
    for (int form = 0; form < 3; form++) {
        if (form == 0) AMX_LOAD(2, from.data, 40);
        if (form == 1) AMX_LOAD_AS("tileloaddt1", 2, from.data, 40, );
        if (form == 2) AMX_LOAD_AS("tileloadd", 2, shifted, 40, 1000);
        memset(to.data, 0, to.bytes);
        AMX_STORE(2, to.data, 24);
        for (size_t i = 0; i < to.bytes; i++)
            assert_int_equal(((uint8_t *)to.data)[i], i % 24 < 12 ? (uint8_t)(i / 24 * 40 + i % 24 + 1) : 0);
        AMX_ZERO(2);
        AMX_STORE(2, to.data, 24);
        for (size_t i = 0; i < to.bytes; i++) assert_int_equal(((uint8_t *)to.data)[i], 0);
    }
    AMX_RELEASE();
    pf_guard_free(&from);
    pf_guard_free(&to);
}

/* --- products --- */

enum { ROWS = 11, STEPS = 7, COLUMNS = 13 }; /* of the sum; of K, in 4 bytes; of the sum */

typedef struct {
    _Alignas(64) uint8_t a[ROWS][64], b[STEPS][64];
    uint8_t sum[ROWS][64];
} operands;

/* All of a, b and sum in shapes that leave parts of their tiles out; op is an instruction. */
#define RUN_DOT(op, x)                                   \
    do {                                                 \
        amx_config c_ = amx_config_full();               \
        c_.rows[0] = c_.rows[1] = ROWS;                  \
        c_.rows[2] = STEPS;                              \
        c_.row_bytes[0] = c_.row_bytes[2] = 4 * COLUMNS; \
        c_.row_bytes[1] = 4 * STEPS;                     \
        AMX_CONFIGURE(c_);                               \
        AMX_LOAD(0, (x)->sum, 64);                       \
        AMX_LOAD(1, (x)->a, 64);                         \
        AMX_LOAD(2, (x)->b, 64);                         \
        AMX_DOT(op, 0, 1, 2);                            \
        AMX_STORE(0, (x)->sum, 64);                      \
        AMX_RELEASE();                                   \
    } while (0)

static operands random_bytes(void)
{
    operands x;
    test_rng rng = { 77 };
    for (size_t i = 0; i < sizeof x; i++) ((uint8_t *)&x)[i] = (uint8_t)test_bits(&rng);
    return x;
}

static int32_t as(bool is_signed, uint8_t byte)
{
    return is_signed ? (int8_t)byte : byte;
}

static void check_int8(const operands *got, bool a_signed, bool b_signed)
{
    const operands x = random_bytes();
    for (int m = 0; m < ROWS; m++)
        for (int n = 0; n < 16; n++) {
            uint32_t expected, sum;
            memcpy(&expected, &x.sum[m][4 * n], 4);
            memcpy(&sum, &got->sum[m][4 * n], 4);
            if (n < COLUMNS)
                for (int k = 0; k < 4 * STEPS; k++)
                    expected += (uint32_t)(as(a_signed, x.a[m][k]) * as(b_signed, x.b[k / 4][4 * n + k % 4]));
            assert_int_equal(sum, expected);
        }
}

static void the_four_products_of_bytes_are_exact(void **state)
{
    (void)state;
    needs_the_trap();
    operands x = random_bytes();
    RUN_DOT("tdpbssd", &x);
    check_int8(&x, true, true);
    x = random_bytes();
    RUN_DOT("tdpbsud", &x);
    check_int8(&x, true, false);
    x = random_bytes();
    RUN_DOT("tdpbusd", &x);
    check_int8(&x, false, true);
    x = random_bytes();
    RUN_DOT("tdpbuud", &x);
    check_int8(&x, false, false);
}

static void put_half(uint8_t *at, float f)
{
    const uint16_t h = pf_bf16_from_f32(f);
    memcpy(at, &h, 2);
}

static float first_sum(const operands *x)
{
    float f;
    memcpy(&f, x->sum[0], 4);
    return f;
}

/* 2^24 + 1 - 2^24: by pairs and by chains the ones are lost in different places. */
static void even_and_odd_are_summed_apart_and_then_added(void **state)
{
    (void)state;
    needs_the_trap();
    operands x;
    memset(&x, 0, sizeof x);
    const float even[] = { 0x1p24f, 1.0f, -0x1p24f }, odd[] = { 1.0f, 1.0f, 1.0f };
    for (int i = 0; i < 3; i++) {
        put_half(&x.a[0][4 * i], even[i]);
        put_half(&x.a[0][4 * i + 2], odd[i]);
        put_half(&x.b[i][0], 1.0f);
        put_half(&x.b[i][2], 1.0f);
    }
    RUN_DOT("tdpbf16ps", &x);
    assert_true(first_sum(&x) == 3.0f); /* (2^24 + 1 - 2^24 = 0) + 3; one chain of pairs would give another number */
}

static void denormals_count_as_zero_whatever_mxcsr_says(void **state)
{
    (void)state;
    needs_the_trap();
    static const float pairs[][3] = { { 0x1p-130f, 0x1p100f, 0.0f }, /* a denormal operand */
                                      { 0x1p-70f, 0x1p-60f, 0.0f },  /* a denormal product */
                                      { 0x1p-70f, 0x1p-56f, 0x1p-126f } };
    for (size_t i = 0; i < 3; i++) {
        operands x;
        memset(&x, 0, sizeof x);
        put_half(&x.a[0][0], pairs[i][0]);
        put_half(&x.b[0][0], pairs[i][1]);
        RUN_DOT("tdpbf16ps", &x);
        assert_true(same_float(first_sum(&x), pairs[i][2]));
    }
    const volatile float smallest = 0x1p-126f;
    assert_true(smallest / 2 > 0); /* and the program's own MXCSR is as it was */
}

/* --- what must fault --- */

static void faults_are_those_of_the_manual(void **state)
{
    (void)state;
    needs_the_trap();
    size_t n;
    const amx_fault_case *cases = amx_fault_cases(&n);
    for (size_t i = 0; i < n; i++) {
        const int got = amx_signal_of(cases[i].run);
        if (got != cases[i].signal) fail_msg("%s: signal %d, expected %d", cases[i].name, got, cases[i].signal);
    }
}

static const uint8_t *fifteen_rows;

static void load_sixteen(void)
{
    const amx_config c = amx_config_full();
    AMX_CONFIGURE(c);
    AMX_LOAD(0, fifteen_rows, 64);
}

static void a_tile_load_past_the_end_of_a_buffer_is_seen(void **state)
{
    (void)state;
    needs_the_trap();
    pf_guard rows = pf_guard_alloc(15 * 64, 64);
    fifteen_rows = rows.data;
    assert_int_equal(amx_signal_of(load_sixteen), SIGSEGV);
    pf_guard_free(&rows);
#ifdef __SANITIZE_ADDRESS__ /* and without a guard page */
    uint8_t *on_the_heap = malloc(15 * 64);
    fifteen_rows = on_the_heap;
    const pid_t child = fork();
    if (child == 0) {
        fclose(stderr); /* the report is expected */
        load_sixteen();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(on_the_heap);
#endif
}

/* --- threads --- */

static void *keeps_its_own(void *value)
{
    uint8_t row[16 * 64], back[16 * 64];
    memset(row, *(uint8_t *)value, sizeof row);
    const amx_config c = amx_config_full();
    AMX_CONFIGURE(c);
    AMX_LOAD(5, row, 64);
    bool same = true;
    for (int i = 0; i < 200; i++) {
        AMX_STORE(5, back, 64);
        same &= memcmp(row, back, sizeof row) == 0;
        if (i % 20 == 0) sched_yield();
    }
    AMX_RELEASE();
    return same ? value : NULL;
}

static void every_thread_has_tiles_of_its_own(void **state)
{
    (void)state;
    needs_the_trap();
    pthread_t threads[4];
    uint8_t values[4] = { 1, 2, 3, 4 };
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, keeps_its_own, &values[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *same;
        assert_int_equal(pthread_join(threads[i], &same), 0);
        assert_ptr_equal(same, &values[i]);
    }
}

static void instructions_are_counted_by_kind(void **state)
{
    (void)state;
    needs_the_trap();
    amx_trap_reset();
    operands x = random_bytes();
    RUN_DOT("tdpbsud", &x);
    const amx_counts n = amx_trap_counts();
    assert_int_equal(n.configures, 1);
    assert_int_equal(n.loads, 3);
    assert_int_equal(n.multiplies, 1);
    assert_int_equal(n.stores, 1);
    assert_int_equal(n.releases, 1);
    assert_int_equal(n.zeros, 0);
    assert_int_equal(n.loaded_rows, 2 * ROWS + STEPS);
    assert_int_equal(n.stored_rows, ROWS);
}

static void without_amx_the_machine_says_so_and_amx_is_refused_by_name(void **state)
{
    (void)state;
    if (!amx_trap_works()) skip(); /* there is AMX, or not even AVX-512 */
    pf_error error = { 0 };
    pf_isa isa = PF_N_ISAS;
    assert_int_equal(pf_isa_parse("amx", &isa, &error), PF_UNSUPPORTED); /* asks the machine itself: no trap there */
    assert_string_equal(error.text, "isa amx: this machine lacks it, its best is avx512bf16");
    assert_int_equal(isa, PF_N_ISAS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_configuration_is_given_back_and_a_release_forgets_it),
        cmocka_unit_test(a_tile_goes_through_memory_in_its_own_shape),
        cmocka_unit_test(the_four_products_of_bytes_are_exact),
        cmocka_unit_test(even_and_odd_are_summed_apart_and_then_added),
        cmocka_unit_test(denormals_count_as_zero_whatever_mxcsr_says),
        cmocka_unit_test(faults_are_those_of_the_manual),
        cmocka_unit_test(a_tile_load_past_the_end_of_a_buffer_is_seen),
        cmocka_unit_test(every_thread_has_tiles_of_its_own),
        cmocka_unit_test(instructions_are_counted_by_kind),
        cmocka_unit_test(without_amx_the_machine_says_so_and_amx_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
