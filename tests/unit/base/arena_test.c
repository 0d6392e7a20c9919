#include "tests/support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "tests/support/alloc_count.h"
#include "tests/support/resident.h"

/* A layout as a module writes one: three items, which must fit together or not at all. */
typedef struct {
    char *a, *b, *c;
} three;

static three lay_out(pf_arena *arena)
{
    three t;
    t.a = pf_arena_take(arena, 10, 1);
    t.b = pf_arena_take(arena, 3, 100);
    t.c = pf_arena_take(arena, 1, 64);
    return t;
}

static void measuring_gives_the_size_that_the_same_layout_then_needs(void **state)
{
    (void)state;
    pf_arena arena = pf_arena_measure();
    assert_null(lay_out(&arena).c);
    assert_int_equal(arena.used, 64 + 320 + 64); /* 10 and 300, each up to the next line; the last as it is */

    const size_t bytes = arena.used;
    assert_status(pf_arena_create(bytes, &arena), PF_OK);
    assert_non_null(lay_out(&arena).c);
    assert_int_equal(arena.used, bytes);
    pf_arena_destroy(&arena);

    assert_status(pf_arena_create(bytes - 1, &arena), PF_OK);
    assert_null(lay_out(&arena).c);
    assert_true(arena.used > arena.size);
    pf_arena_destroy(&arena);
}

static void items_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    pf_arena arena;
    assert_status(pf_arena_create(1024, &arena), PF_OK);
    const three t = lay_out(&arena);
    for (int i = 0; i < 10; i++) assert_int_equal(t.a[i], 0);
    for (int i = 0; i < 300; i++) assert_int_equal(t.b[i], 0);
    for (int i = 0; i < 64; i++) assert_int_equal(t.c[i], 0);
    assert_int_equal((uintptr_t)t.a % PF_ARENA_ALIGN, 0);
    assert_int_equal((uintptr_t)t.b % PF_ARENA_ALIGN, 0);
    assert_int_equal((uintptr_t)t.c % PF_ARENA_ALIGN, 0);
    assert_true(t.b >= t.a + 10 && t.c >= t.b + 300);
    pf_arena_destroy(&arena);
}

static void one_item_that_did_not_fit_spoils_the_layout_for_good(void **state)
{
    (void)state;
    pf_arena arena;
    assert_status(pf_arena_create(256, &arena), PF_OK);
    assert_null(pf_arena_take(&arena, 1, 257));
    assert_null(pf_arena_take(&arena, 1, 1));
    assert_true(arena.used > arena.size);
    pf_arena_destroy(&arena);
}

static void a_product_that_overflows_never_fits(void **state)
{
    (void)state;
    pf_arena measured = pf_arena_measure(), made;
    assert_null(pf_arena_take(&measured, SIZE_MAX / 2, 3));
    assert_null(pf_arena_take(&measured, 1, 1));
    assert_status(pf_arena_create(measured.used, &made), PF_NOMEM);

    assert_status(pf_arena_create(256, &made), PF_OK);
    assert_null(pf_arena_take(&made, (SIZE_MAX >> 6) + 2, 64)); /* wraps to 64 */
    assert_null(pf_arena_take(&made, 1, 1));
    assert_true(made.used > made.size);
    pf_arena_destroy(&made);
}

/* Bytes of the process's addresses that are mapped. */
static size_t mapped(void)
{
    char text[32] = "";
    const int fd = open("/proc/self/statm", O_RDONLY);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Whole huge pages, where there is one, and nothing beside what was asked for, while it lives and afterwards. */
static void an_arena_has_the_addresses_that_it_needs_and_no_others(void **state)
{
    (void)state;
    const size_t huge = (size_t)2 << 20, sizes[] = { 1, huge - 4096, huge, 3 * huge + 4096 };
    for (size_t i = 0; i < PF_COUNT(sizes); i++) {
        pf_arena arena;
        const size_t before = mapped();
        assert_status(pf_arena_create(sizes[i], &arena), PF_OK);
        assert_int_equal(mapped() - before, sizes[i] < 4096 ? 4096 : sizes[i]);
        if (sizes[i] >= huge) assert_int_equal((uintptr_t)arena.base % huge, 0);
        pf_arena_destroy(&arena);
        assert_int_equal(mapped(), before);
    }
}

static void sizes_around_a_huge_page_are_usable_to_the_last_byte(void **state)
{
    (void)state;
    const size_t huge = (size_t)2 << 20, sizes[] = { 0, 1, 4096, huge - 1, huge, huge + 1, 3 * huge };
    for (size_t i = 0; i < PF_COUNT(sizes); i++) {
        pf_arena arena;
        assert_status(pf_arena_create(sizes[i], &arena), PF_OK);
        char *all = pf_arena_take(&arena, sizes[i], 1);
        assert_non_null(all);
        memset(all, 1, sizes[i]);
        assert_null(pf_arena_take(&arena, 1, 1));
        pf_arena_destroy(&arena);
        assert_null(arena.base);
    }
}

/* The front of an arena, on any number of threads; without huge pages nothing behind it. */
static void a_front_that_is_populated_is_there_and_zero(void **state)
{
    (void)state;
    needs_populating();
    enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };
    const size_t sizes[] = { 5 * PAGE, 7 * HUGE_PAGE + PAGE }, fronts[] = { 2 * PAGE + 1, 5 * HUGE_PAGE + 2 * PAGE };
    for (int32_t n_threads = 0; n_threads <= 3; n_threads++) {
        pf_team *team = NULL;
        if (n_threads > 0) assert_status(pf_team_create(n_threads, NULL, 0, &team, NULL), PF_OK);
        for (size_t i = 0; i < PF_COUNT(sizes); i++) {
            pf_arena arena;
            assert_status(pf_arena_create(sizes[i], &arena), PF_OK);
            const unsigned char *all = pf_arena_take(&arena, sizes[i], 1);
            for (size_t at = 0; at < sizes[i]; at += PAGE) assert_false(is_resident(all + at));
            pf_arena_populate(&arena, fronts[i], team);
            for (size_t at = 0; at < fronts[i]; at += PAGE) assert_true(is_resident(all + at));
            if (sizes[i] < HUGE_PAGE) assert_false(is_resident(all + 3 * PAGE));
            for (size_t at = 0; at < sizes[i]; at++) assert_int_equal(all[at], 0);
            pf_arena_populate(&arena, SIZE_MAX, team); /* no more than there is */
            assert_true(is_resident(all + sizes[i] - 1));
            pf_arena_destroy(&arena);
        }
        pf_team_destroy(team);
    }
    const pf_arena none = pf_arena_measure();
    pf_arena_populate(&none, 1, NULL);
}

static void sizes_that_no_machine_has_are_refused(void **state)
{
    (void)state;
    const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 8192, SIZE_MAX - ((size_t)2 << 20), SIZE_MAX / 2 };
    for (size_t i = 0; i < PF_COUNT(sizes); i++) {
        pf_arena arena;
        assert_status(pf_arena_create(sizes[i], &arena), PF_NOMEM);
    }
}

static void refused_memory_is_a_status_and_leaves_out_alone(void **state)
{
    (void)state;
    const size_t sizes[] = { 100, (size_t)4 << 20 };
    for (size_t i = 0; i < PF_COUNT(sizes); i++) {
        pf_arena arena = { .used = 77 };
        pf_alloc_refuse_after(0);
        assert_status(pf_arena_create(sizes[i], &arena), PF_NOMEM);
        pf_alloc_refuse_after(-1);
        assert_int_equal(arena.used, 77);
    }
}

static void destroying_nothing_is_fine(void **state)
{
    (void)state;
    pf_arena_destroy(NULL);
    pf_arena arena = pf_arena_measure();
    pf_arena_destroy(&arena);
    pf_arena_destroy(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measuring_gives_the_size_that_the_same_layout_then_needs),
        cmocka_unit_test(items_are_aligned_zeroed_and_apart),
        cmocka_unit_test(one_item_that_did_not_fit_spoils_the_layout_for_good),
        cmocka_unit_test(a_product_that_overflows_never_fits),
        cmocka_unit_test(an_arena_has_the_addresses_that_it_needs_and_no_others),
        cmocka_unit_test(sizes_around_a_huge_page_are_usable_to_the_last_byte),
        cmocka_unit_test(a_front_that_is_populated_is_there_and_zero),
        cmocka_unit_test(sizes_that_no_machine_has_are_refused),
        cmocka_unit_test(refused_memory_is_a_status_and_leaves_out_alone),
        cmocka_unit_test(destroying_nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
