/*
 * Prepares rows for products: cut into groups and tiles, normed, packed. There are three ways, with the same bits:
 *
 *   by columns   what attention and the activation give is packed by the thread that made it, out of its own cache. The
 *                others then read half the bytes, in one piece. Not where a row has a scale, for which all of it counts.
 *   by all       rows of a single tile, a decode step or the verification of a draft, are normed and packed by every
 *                thread for itself: repeating it is cheaper than waiting for it.
 *   by tiles     more rows are normed and packed tile by tile, each by one thread, and then all wait.
 */
#include "model/forward/worker.h"

pf_left_side pf_left_side_of(const pf_worker *w, int32_t n_rows, bool groups)
{
    const pf_model *m = w->c->model;
    const int32_t tile_rows = w->gemm->tile_rows;
    pf_left_side a = { .groups = pf_row_groups_one(n_rows) };
    if (groups && !w->gemm->by_shares) a.groups = pf_row_groups_of(n_rows, m->config.hidden_size, w->member.n_threads);
    a.group_tiles = pf_gemm_tiles(tile_rows, a.groups.group_rows);
    a.tile_end = pf_row_groups_tiles(&a.groups, tile_rows);
    a.shared = a.tile_end > 1;
    if (a.shared) pf_team_share(w->member, a.tile_end, &a.tile_begin, &a.tile_end);
    return a;
}

void *pf_left_side_input(const pf_worker *w, const pf_left_side *a)
{
    return a->shared ? w->c->input : w->mine->input;
}

pf_rows pf_left_side_normed(const pf_worker *w, const pf_left_side *a)
{
    return a->shared ? w->c->normed : w->mine->normed;
}

/* The first row of a tile; behind the last, their number. */
static int32_t tile_row(const pf_worker *w, const pf_left_side *a, int32_t tile)
{
    if (!a->shared) return tile * a->groups.n_rows; /* without divisions, which count in a small draft's pass */
    return pf_row_groups_tile_row(&a->groups, w->gemm->tile_rows, tile);
}

void pf_left_side_norm(const pf_worker *w, const pf_left_side *a, int32_t tile, pf_rows x, const pf_norm_weights *norm)
{
    const int32_t row = tile_row(w, a, tile), end = tile_row(w, a, tile + 1);
    pf_model_norm(w->c->model, pf_row(pf_left_side_normed(w, a), row), pf_row(x, row), norm, end - row,
                  w->c->model->config.hidden_size, x.stride);
}

pf_rows pf_left_side_joined(const pf_worker *w, const pf_left_side *a)
{
    return a->shared ? w->c->x : w->mine->x;
}

/* to = x + scale * r */
static void add_rows(pf_rows to, pf_rows x, pf_rows r, int32_t begin, int32_t end, int32_t n_columns, float scale)
{
    for (int32_t i = begin; i < end; i++) {
        float *out = pf_row(to, i);
        const float *old = pf_row(x, i), *result = pf_row(r, i);
        for (int32_t j = 0; j < n_columns; j++) out[j] = old[j] + scale * result[j];
    }
}

void pf_left_side_join(const pf_worker *w, const pf_left_side *a, int32_t tile, pf_rows to)
{
    const pf_config *config = &w->c->model->config;
    const pf_plan *plan = &config->plan;
    const int32_t row = tile_row(w, a, tile), end = tile_row(w, a, tile + 1), hidden = config->hidden_size;
    const pf_rows normed = pf_left_side_normed(w, a);
    for (int32_t i = 0; i < w->n_late; i++) {
        const pf_late_join *join = &w->late[i];
        if (plan->post_norm)
            pf_model_norm(w->c->model, pf_row(normed, row), pf_row(join->rows, row), join->norm, end - row, hidden,
                          normed.stride);
        add_rows(to, i == 0 ? w->x : to, plan->post_norm ? normed : join->rows, row, end, hidden, plan->residual_scale);
        if (plan->residual_norm)
            pf_model_norm(w->c->model, pf_row(to, row), pf_row(to, row), join->norm, end - row, hidden, to.stride);
    }
}

void pf_left_side_pack(const pf_worker *w, const pf_left_side *a, int32_t tile_begin, int32_t tile_end, pf_rows rows,
                       int32_t k)
{
    char *input = pf_left_side_input(w, a);
    for (int32_t g = 0; g < a->groups.n_groups; g++) {
        const pf_row_group group = pf_row_groups_get(&a->groups, g);
        const int32_t first = g * a->group_tiles;
        const int32_t begin = tile_begin > first ? tile_begin - first : 0;
        const int32_t end = tile_end - first < a->group_tiles ? tile_end - first : a->group_tiles;
        if (begin < end)
            w->gemm->pack(input + pf_row_group_at(group, k), pf_row(rows, group.first_row), rows.stride, group.n_rows,
                          k, begin, end);
    }
}

void pf_left_side_pack_columns(const pf_worker *w, void *packed, pf_rows rows, pf_row_group group, int32_t k,
                               pf_range columns)
{
    if (columns.begin < columns.end)
        w->gemm->pack_columns((char *)packed + pf_row_group_at(group, k), pf_row(rows, group.first_row), rows.stride,
                              group.n_rows, k, columns.begin, columns.end);
}
