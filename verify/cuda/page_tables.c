#include "verify/cuda/page_tables.h"

#include <stdlib.h>
#include <string.h>

enum { LISTS = 8 }; /* calls of which the moves fit the list */

typedef struct {
    uint32_t generation;
    bool is_alive;
    bool has_changed; /* its row of the tables, since it was taken */
    int32_t length;
    int32_t n_pages;
    /* An extension that is neither committed nor undone. */
    int32_t length_before, n_pages_before;
    int32_t copied_page; /* that the last page replaced; -1: none */
} place;

struct pf_page_tables {
    pf_page_tables_config config;
    int32_t width;
    place *places;   /* [max_sequences] */
    int32_t *refs;   /* [n_pages] */
    int32_t *unused; /* [n_unused] a stack of pages */
    int32_t n_unused;
    int32_t *moves; /* [capacity][2] */
    int32_t n_moves, capacity;
    int32_t *kept; /* [width] pages of a keep */
};

int32_t pf_page_tables_width(int32_t max_tokens)
{
    return (max_tokens - 1) / PF_PAGE_TOKENS + 1;
}

/* The moves of one call: the rows of a pass, and what lies beside them in two shared pages. */
static int32_t moves_of_call(int32_t max_rows)
{
    return max_rows + 2 * PF_PAGE_TOKENS;
}

int32_t pf_page_tables_capacity(const pf_page_tables *t)
{
    return t->capacity;
}

static bool allocate(pf_page_tables *t)
{
    const size_t n_places = (size_t)t->config.max_sequences, n_pages = (size_t)t->config.n_pages;
    t->capacity = LISTS * moves_of_call(t->config.max_rows) + t->config.max_sequences * PF_PAGE_TOKENS;
    t->places = calloc(n_places, sizeof *t->places);
    t->refs = calloc(n_pages, sizeof *t->refs);
    t->unused = calloc(n_pages, sizeof *t->unused);
    t->moves = calloc((size_t)t->capacity, 2 * sizeof *t->moves);
    t->kept = calloc((size_t)t->width, sizeof *t->kept);
    return t->places && t->refs && t->unused && t->moves && t->kept;
}

pf_status pf_page_tables_create(const pf_page_tables_config *config, pf_page_tables **out, pf_error *error)
{
    pf_page_tables *t = calloc(1, sizeof *t);
    if (t) {
        t->config = *config;
        t->width = pf_page_tables_width(config->max_tokens);
    }
    if (!t || !allocate(t)) {
        pf_page_tables_destroy(t);
        return pf_fail(error, PF_NOMEM, "no memory for the tables of %d pages", config->n_pages);
    }
    for (int32_t i = config->n_pages; i > 0; i--) t->unused[t->n_unused++] = i - 1;
    *out = t;
    return PF_OK;
}

void pf_page_tables_destroy(pf_page_tables *t)
{
    if (!t) return;
    free(t->places);
    free(t->refs);
    free(t->unused);
    free(t->moves);
    free(t->kept);
    free(t);
}

/* ---- places and pages ------------------------------------------------------------------------------------------- */

int32_t pf_page_tables_place(int64_t sequence)
{
    return (int32_t)(sequence & INT32_MAX);
}

static place *find(const pf_page_tables *t, int64_t sequence)
{
    const int32_t at = pf_page_tables_place(sequence);
    if (sequence < 0 || at >= t->config.max_sequences) return NULL;
    place *p = &t->places[at];
    return p->is_alive && p->generation == (uint32_t)(sequence >> 31) ? p : NULL;
}

static int32_t *row_of(const pf_page_tables *t, const place *p)
{
    return t->config.tables + (size_t)(p - t->places) * (size_t)t->width;
}

static int32_t take_page(pf_page_tables *t)
{
    const int32_t page = t->unused[--t->n_unused];
    t->refs[page] = 1;
    return page;
}

static void drop_page(pf_page_tables *t, int32_t page)
{
    if (--t->refs[page] == 0) t->unused[t->n_unused++] = page;
}

static void cut_pages(pf_page_tables *t, place *p, int32_t n_pages)
{
    const int32_t *row = row_of(t, p);
    while (p->n_pages > n_pages) drop_page(t, row[--p->n_pages]);
}

static int32_t pages_of(int32_t length)
{
    return (length + PF_PAGE_TOKENS - 1) / PF_PAGE_TOKENS;
}

static void add_move(pf_page_tables *t, int32_t from_page, int32_t to_page, int32_t from, int32_t to)
{
    int32_t *move = t->moves + 2 * t->n_moves++;
    move[0] = from_page * PF_PAGE_TOKENS + from % PF_PAGE_TOKENS;
    move[1] = to_page * PF_PAGE_TOKENS + to % PF_PAGE_TOKENS;
}

bool pf_page_tables_take_change(pf_page_tables *t, int32_t at)
{
    const bool has_changed = t->places[at].has_changed;
    t->places[at].has_changed = false;
    return has_changed;
}

void pf_page_tables_mark_changed(pf_page_tables *t, int32_t at)
{
    t->places[at].has_changed = true;
}

const int32_t *pf_page_tables_moves(const pf_page_tables *t, int32_t *n)
{
    *n = t->n_moves;
    return t->moves;
}

void pf_page_tables_clear_moves(pf_page_tables *t)
{
    t->n_moves = 0;
}

bool pf_page_tables_has_room(const pf_page_tables *t)
{
    return t->n_moves <= (LISTS - 1) * moves_of_call(t->config.max_rows);
}

int32_t pf_page_tables_free_pages(const pf_page_tables *t)
{
    return t->n_unused;
}

/* ---- sequences -------------------------------------------------------------------------------------------------- */

pf_status pf_page_tables_acquire(pf_page_tables *t, int64_t *out)
{
    for (int32_t i = 0; i < t->config.max_sequences; i++) {
        place *p = &t->places[i];
        if (p->is_alive) continue;
        *p = (place){ .generation = p->generation, .is_alive = true, .copied_page = -1 };
        *out = (int64_t)p->generation << 31 | i;
        return PF_OK;
    }
    return PF_LIMIT;
}

pf_status pf_page_tables_fork(pf_page_tables *t, int64_t sequence, int32_t length, int64_t *out)
{
    const place *parent = find(t, sequence);
    if (!parent || length < 0 || length > parent->length) return PF_INVALID;
    int64_t made;
    PF_TRY(pf_page_tables_acquire(t, &made));
    place *child = find(t, made);
    child->length = length;
    child->n_pages = pages_of(length);
    child->has_changed = true;
    memcpy(row_of(t, child), row_of(t, parent), (size_t)child->n_pages * sizeof(int32_t));
    for (int32_t i = 0; i < child->n_pages; i++) t->refs[row_of(t, child)[i]]++;
    *out = made;
    return PF_OK;
}

void pf_page_tables_release(pf_page_tables *t, int64_t sequence)
{
    place *p = find(t, sequence);
    if (!p) return;
    cut_pages(t, p, 0);
    p->is_alive = false;
    p->generation++;
}

int32_t pf_page_tables_length(const pf_page_tables *t, int64_t sequence)
{
    const place *p = find(t, sequence);
    return p ? p->length : -1;
}

pf_status pf_page_tables_truncate(pf_page_tables *t, int64_t sequence, int32_t length)
{
    place *p = find(t, sequence);
    if (!p || length < 0 || length > p->length) return PF_INVALID;
    cut_pages(t, p, pages_of(length));
    p->length = length;
    return PF_OK;
}

/* ---- extensions ------------------------------------------------------------------------------------------------- */

pf_status pf_page_tables_extend(pf_page_tables *t, int64_t sequence, int32_t n)
{
    place *p = find(t, sequence);
    if (!p || n < 0) return PF_INVALID;
    if (n > t->config.max_tokens - p->length) return PF_LIMIT;
    int32_t *row = row_of(t, p);
    const int32_t filled = p->length % PF_PAGE_TOKENS;
    const bool copies = n > 0 && filled > 0 && t->refs[row[p->n_pages - 1]] > 1;
    const int32_t n_new = pages_of(p->length + n) - p->n_pages;
    if (n_new + copies > t->n_unused) return PF_LIMIT;
    p->length_before = p->length;
    p->n_pages_before = p->n_pages;
    p->copied_page = -1;
    if (copies) { /* the old page is held until the extension is committed */
        p->copied_page = row[p->n_pages - 1];
        row[p->n_pages - 1] = take_page(t);
        for (int32_t i = 0; i < filled; i++) add_move(t, p->copied_page, row[p->n_pages - 1], i, i);
    }
    for (int32_t i = 0; i < n_new; i++) row[p->n_pages++] = take_page(t);
    p->length += n;
    p->has_changed |= copies || n_new > 0;
    return PF_OK;
}

void pf_page_tables_commit(pf_page_tables *t, int64_t sequence)
{
    place *p = find(t, sequence);
    if (p->copied_page >= 0) drop_page(t, p->copied_page);
    p->copied_page = -1;
}

void pf_page_tables_undo(pf_page_tables *t, int64_t sequence)
{
    place *p = find(t, sequence);
    cut_pages(t, p, p->n_pages_before);
    if (p->copied_page >= 0) {
        int32_t *last = &row_of(t, p)[p->n_pages - 1];
        drop_page(t, *last);
        *last = p->copied_page;
        p->copied_page = -1;
    }
    p->length = p->length_before;
    p->has_changed = true;
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

static bool is_path(const int32_t *rows, int32_t n_rows, int32_t n_behind)
{
    for (int32_t i = 0; i < n_rows; i++)
        if (rows[i] < (i == 0 ? 0 : rows[i - 1] + 1) || rows[i] >= n_behind) return false;
    return true;
}

/* From the first row that moves on: pages that others share are replaced, with all that they keep. */
pf_status pf_page_tables_keep(pf_page_tables *t, int64_t sequence, int32_t length, const int32_t *rows, int32_t n_rows)
{
    place *p = find(t, sequence);
    if (!p || length < 0 || length > p->length || n_rows < 0) return PF_INVALID;
    if (!is_path(rows, n_rows, p->length - length)) return PF_INVALID;
    int32_t n_stay = 0;
    while (n_stay < n_rows && rows[n_stay] == n_stay) n_stay++;
    const int32_t end = length + n_rows;
    if (n_stay == n_rows) return pf_page_tables_truncate(t, sequence, end);

    int32_t *row = row_of(t, p);
    const int32_t first = (length + n_stay) / PF_PAGE_TOKENS, last = (end - 1) / PF_PAGE_TOKENS;
    int32_t n_copied = 0;
    for (int32_t i = first; i <= last; i++) n_copied += t->refs[row[i]] > 1;
    if (n_copied > t->n_unused) return PF_LIMIT;
    for (int32_t i = first; i <= last; i++) t->kept[i] = t->refs[row[i]] > 1 ? take_page(t) : row[i];
    for (int32_t to = first * PF_PAGE_TOKENS; to < end; to++) {
        const int32_t from = to < length + n_stay ? to : length + rows[to - length];
        const int32_t from_page = row[from / PF_PAGE_TOKENS], to_page = t->kept[to / PF_PAGE_TOKENS];
        if (from != to || from_page != to_page) add_move(t, from_page, to_page, from, to);
    }
    for (int32_t i = first; i <= last; i++) {
        if (t->kept[i] != row[i]) drop_page(t, row[i]);
        row[i] = t->kept[i];
    }
    p->has_changed = true;
    return pf_page_tables_truncate(t, sequence, end);
}
