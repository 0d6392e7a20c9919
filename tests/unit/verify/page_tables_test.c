/*
 * The tables of pages against their naive definition: a sequence is an array of stamps, one a position. The device is an array of
 * slots, in which the moves are made and the rows of a pass written as the backend does.
 */
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>

#include "verify/cuda/page_tables.h"

enum { SEQUENCES = 5, MAX_TOKENS = 150, PAGES = 14, ROWS = 24, WIDTH = (MAX_TOKENS - 1) / PF_PAGE_TOKENS + 1 };

typedef struct {
    bool alive;
    int64_t handle;
    int32_t length;
    int32_t stamps[MAX_TOKENS];
} model;

typedef struct {
    pf_page_tables *tables;
    int32_t rows[SEQUENCES * WIDTH];
    int32_t slots[PAGES * PF_PAGE_TOKENS];
    model models[SEQUENCES];
    int32_t stamp;
} world;

static void open_world(world *w)
{
    pf_error error = { 0 };
    memset(w, 0, sizeof *w);
    const pf_page_tables_config config = { SEQUENCES, MAX_TOKENS, PAGES, ROWS, w->rows };
    assert_ok(pf_page_tables_create(&config, &w->tables, &error), error);
    assert_int_equal(pf_page_tables_width(MAX_TOKENS), WIDTH);
}

static int32_t slot_of(const world *w, const model *m, int32_t position)
{
    const int32_t *row = w->rows + pf_page_tables_place(m->handle) * WIDTH;
    return row[position / PF_PAGE_TOKENS] * PF_PAGE_TOKENS + position % PF_PAGE_TOKENS;
}

static void make_moves(world *w)
{
    int32_t n;
    const int32_t *moves = pf_page_tables_moves(w->tables, &n);
    assert_true(n <= pf_page_tables_capacity(w->tables));
    for (int32_t i = 0; i < n; i++) w->slots[moves[2 * i + 1]] = w->slots[moves[2 * i]];
    pf_page_tables_clear_moves(w->tables);
}

static void check(world *w, const char *what)
{
    make_moves(w);
    for (int32_t i = 0; i < SEQUENCES; i++) {
        const model *m = &w->models[i];
        if (!m->alive) continue;
        assert_int_equal(pf_page_tables_length(w->tables, m->handle), m->length);
        for (int32_t t = 0; t < m->length; t++)
            if (w->slots[slot_of(w, m, t)] != m->stamps[t]) fail_msg("%s: sequence %d, position %d", what, i, t);
    }
}

static pf_status extend(world *w, model *m, int32_t n, bool undoes)
{
    if (!pf_page_tables_has_room(w->tables)) make_moves(w);
    const int32_t n_free = pf_page_tables_free_pages(w->tables);
    PF_TRY(pf_page_tables_extend(w->tables, m->handle, n));
    if (undoes) {
        pf_page_tables_undo(w->tables, m->handle);
        assert_int_equal(pf_page_tables_free_pages(w->tables), n_free);
        return PF_OK;
    }
    make_moves(w);
    pf_page_tables_commit(w->tables, m->handle);
    for (int32_t i = 0; i < n; i++) {
        m->stamps[m->length] = ++w->stamp;
        w->slots[slot_of(w, m, m->length++)] = w->stamp;
    }
    return PF_OK;
}

static void acquire(world *w, model *m)
{
    assert_status(pf_page_tables_acquire(w->tables, &m->handle), PF_OK);
    m->alive = true;
    m->length = 0;
}

static void release(world *w, model *m)
{
    pf_page_tables_release(w->tables, m->handle);
    assert_int_equal(pf_page_tables_length(w->tables, m->handle), -1);
    m->alive = false;
}

/* Every second or third of the last rows. */
static void keep(world *w, model *m, int32_t n_behind, int32_t step)
{
    int32_t rows[ROWS], n = 0;
    const int32_t length = m->length - n_behind;
    for (int32_t i = step > 2 ? 0 : 1; i < n_behind; i += step) rows[n++] = i;
    if (!pf_page_tables_has_room(w->tables)) make_moves(w);
    const pf_status status = pf_page_tables_keep(w->tables, m->handle, length, rows, n);
    if (status == PF_LIMIT) return;
    assert_status(status, PF_OK);
    for (int32_t i = 0; i < n; i++) m->stamps[length + i] = m->stamps[length + rows[i]];
    m->length = length + n;
}

static void a_sequence_holds_what_was_written_whatever_is_shared_moved_and_freed(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    uint32_t seed = 7;
    for (int32_t step = 0; step < 20000; step++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t r = seed >> 8;
        model *m = &w.models[r % SEQUENCES], *other = &w.models[r / 5 % SEQUENCES];
        const int32_t n = (int32_t)(r / 25 % ROWS);
        if (!m->alive) {
            acquire(&w, m);
            continue;
        }
        switch (r / 600 % 8) {
        case 0: release(&w, m); break;
        case 1:
            if (other->alive) break;
            const int32_t shared = m->length * n / ROWS;
            assert_status(pf_page_tables_fork(w.tables, m->handle, shared, &other->handle), PF_OK);
            other->alive = true;
            other->length = shared;
            memcpy(other->stamps, m->stamps, sizeof m->stamps);
            break;
        case 2:
            m->length = m->length * n / ROWS;
            assert_status(pf_page_tables_truncate(w.tables, m->handle, m->length), PF_OK);
            break;
        case 3: keep(&w, m, n < m->length ? n : m->length, 1 + n % 3); break;
        case 4: (void)!extend(&w, m, n, true); break;
        default: (void)!extend(&w, m, n, false); break;
        }
        if (step % 3 == 0) check(&w, "a step");
    }
    for (int32_t i = 0; i < SEQUENCES; i++)
        if (w.models[i].alive) release(&w, &w.models[i]);
    assert_int_equal(pf_page_tables_free_pages(w.tables), PAGES);
    pf_page_tables_destroy(w.tables);
}

static void what_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    model *m = &w.models[0], *other = &w.models[1], *third = &w.models[2];
    acquire(&w, m);
    acquire(&w, other);
    acquire(&w, third);
    assert_status(pf_page_tables_extend(w.tables, m->handle, MAX_TOKENS + 1), PF_LIMIT);
    while (m->length + ROWS <= MAX_TOKENS) assert_status(extend(&w, m, ROWS, false), PF_OK);
    while (other->length + ROWS <= MAX_TOKENS) assert_status(extend(&w, other, ROWS, false), PF_OK);
    while (extend(&w, third, ROWS, false) == PF_OK) {}
    check(&w, "full");
    const int32_t n_free = pf_page_tables_free_pages(w.tables);
    assert_status(pf_page_tables_extend(w.tables, third->handle, PF_PAGE_TOKENS * (n_free + 2)), PF_LIMIT);
    assert_int_equal(pf_page_tables_free_pages(w.tables), n_free);
    check(&w, "full still");
    const int32_t backward[] = { 3, 2 };
    assert_status(pf_page_tables_keep(w.tables, m->handle, 0, backward, 2), PF_INVALID);
    assert_status(pf_page_tables_keep(w.tables, m->handle, m->length, backward, 1), PF_INVALID);
    assert_status(pf_page_tables_truncate(w.tables, m->handle, m->length + 1), PF_INVALID);
    assert_status(pf_page_tables_extend(w.tables, -1, 1), PF_INVALID);
    pf_page_tables_destroy(w.tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_holds_what_was_written_whatever_is_shared_moved_and_freed),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
