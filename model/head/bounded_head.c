#include "model/head/bounded_head.h"

#include <math.h>
#include <string.h>

enum {
    MOST_ROWS = PF_BOUNDED_ROWS, /* and twice as many of int8 */
    TOO_MANY_OF = 4,             /* more than a quarter of all panels computed by the full head */
    PAUSE = 64,                  /* passes */
};

_Static_assert((int)PF_BOUNDS_BLOCK == (int)PF_GEMM_PANEL, "a mark stands for a panel");

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    const pf_lm_head *head;
    const volatile bool *cancel;
} measure_job;

void pf_bounded_head_sums(const pf_lm_head *head, int32_t panel, pf_head_sums out[PF_GEMM_PANEL])
{
    enum { BLOCK = PF_GEMM_BLOCK_K * PF_GEMM_PANEL };
    float w[BLOCK], q[BLOCK];
    double off[PF_GEMM_PANEL] = { 0.0 }, weight[PF_GEMM_PANEL] = { 0.0 };
    const int32_t k = head->hidden;
    for (int32_t begin = 0; begin < k; begin += PF_GEMM_BLOCK_K) {
        const int32_t n = k - begin < PF_GEMM_BLOCK_K ? k - begin : PF_GEMM_BLOCK_K;
        pf_gemm_unpack_block(&head->full.weights, panel, begin / PF_GEMM_BLOCK_K, w);
        pf_gemm_unpack_block(&head->coarse.weights, panel, begin / PF_GEMM_BLOCK_K, q);
        for (int32_t i = 0; i < n * PF_GEMM_PANEL; i += PF_GEMM_PANEL)
            for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
                const double value = (double)w[i + j], apart = (double)q[i + j] - value;
                off[j] += apart * apart;
                weight[j] += value * value;
            }
    }
    for (int32_t j = 0; j < PF_GEMM_PANEL; j++) out[j] = (pf_head_sums){ off[j], weight[j] };
}

pf_head_sums pf_bounded_head_sums_of_row(const pf_lm_head *head, int32_t row, float *w, float *q)
{
    pf_head_sums sums = { 0.0, 0.0 };
    pf_gemm_unpack_row(&head->full.weights, row, w);
    pf_gemm_unpack_row(&head->coarse.weights, row, q);
    for (int32_t i = 0; i < head->hidden; i++) {
        const double value = (double)w[i], apart = (double)q[i] - value;
        sums.off += apart * apart;
        sums.weight += value * value;
    }
    return sums;
}

/* error[i] of the header, rounded up. */
static float error_of(pf_head_sums sums, int32_t k)
{
    const double off = sqrt(sums.off), weight = sqrt(sums.weight);
    if (!(weight <= 0x1p60) || !(off <= 0x1p60)) return INFINITY;
    const double grain = 1.001 * sqrt(k) / (254.0 * 254.0), of_floats = (k + 64.0) * 0x1p-23;
    const double error = off * (1.0 + grain + of_floats) + weight * (grain + of_floats);
    return (float)((error + k * 0x1p-80 * fmax(1.0, weight)) * (1.0 + 0x1p-20));
}

static void measure_share(pf_member member, void *arg)
{
    const measure_job *job = arg;
    const pf_lm_head *head = job->head;
    pf_head_sums sums[PF_GEMM_PANEL];
    int32_t begin, end;
    pf_team_share(member, head->full.weights.n_panels, &begin, &end);
    for (int32_t p = begin; p < end && !pf_is_told(job->cancel); p++) {
        const int32_t first = p * PF_GEMM_PANEL, left = head->n_vocab - first;
        pf_bounded_head_sums(head, p, sums);
        for (int32_t j = 0; j < PF_GEMM_PANEL && j < left; j++)
            head->error[first + j] = error_of(sums[j], head->hidden);
    }
}

pf_status pf_bounded_head_measure(pf_lm_head *head, pf_team *team, pf_walk *walk, pf_error *error)
{
    measure_job job = { head, walk->cancel };
    pf_team_run(team, measure_share, &job);
    PF_TRY(pf_walk_check(walk, error));
    pf_walk_on(walk, pf_head_measured_bytes(head));
    return PF_OK;
}

/* ---- a pass ---------------------------------------------------------------------------------------------------------- */

static pf_rows take_rows(pf_arena *arena, int32_t n_rows, int32_t n_columns)
{
    const size_t stride = pf_round_up((size_t)n_columns, PF_LINE_FLOATS) | PF_LINE_FLOATS;
    return (pf_rows){ pf_arena_take(arena, (size_t)n_rows * (stride + PF_LINE_FLOATS), sizeof(float)), stride };
}

void pf_bounded_head_lay_out_pass(const pf_lm_head *head, int32_t n_threads, pf_arena *arena, pf_head_pass *pass)
{
    pass->coarse = take_rows(arena, 2 * MOST_ROWS, head->n_vocab);
    pass->marks = pf_arena_take(arena, (size_t)head->full.weights.n_panels, 1);
    pass->shares = pf_arena_take(arena, (size_t)n_threads, sizeof *pass->shares);
    pass->scratch = pf_arena_take(arena, (size_t)n_threads, sizeof *pass->scratch);
    for (int32_t i = 0; i < n_threads; i++) {
        const pf_head_scratch scratch = {
            .parts = take_rows(arena, 2 * MOST_ROWS, head->hidden),
            .input = pf_arena_take(arena, pf_gemm_input_bytes(2 * MOST_ROWS, head->hidden), 1),
        };
        if (pass->scratch != NULL) pass->scratch[i] = scratch;
    }
}

bool pf_bounded_head_suits(const pf_head_pass *pass, int32_t n_rows)
{
    return n_rows > 0 && n_rows <= MOST_ROWS && pass->pause == 0;
}

/* One thread at work. */
typedef struct {
    const pf_lm_head *head;
    pf_head_pass *pass;
    const pf_head_rows *rows;
    pf_head_share *share;
    const pf_head_scratch *scratch;
    pf_panels panels;       /* its columns */
    int32_t first, n;       /* the tokens among them that may be the best */
    float norms[MOST_ROWS]; /* of the rows */
} worker;

static const pf_gemm *coarse_gemm(const pf_lm_head *head)
{
    return &head->kernels->gemm[PF_FORMAT_INT8][PF_ACT_INT8];
}

static void share_columns(worker *w)
{
    pf_team_share(w->rows->member, w->head->full.weights.n_panels, &w->panels.begin, &w->panels.end);
    w->first = w->panels.begin * PF_GEMM_PANEL;
    const int32_t end = w->panels.end * PF_GEMM_PANEL, last = end < w->pass->best_of ? end : w->pass->best_of;
    w->n = last > w->first ? last - w->first : 0;
}

/* Splits the rows in two parts each, all the first ones and behind them all the others, packs them, and finds their norms. */
static void pack_parts(worker *w)
{
    const pf_lm_head *head = w->head;
    const int32_t k = head->hidden, n_rows = w->rows->n_rows;
    const pf_gemm *gemm = coarse_gemm(head);
    const pf_rows parts = w->scratch->parts;
    for (int32_t i = 0; i < n_rows; i++)
        w->norms[i] = head->kernels->bounds.split(pf_row(w->rows->normed, i), k, head->act == PF_ACT_BF16,
                                                  pf_row(parts, i), pf_row(parts, n_rows + i));
    gemm->pack(w->scratch->input, parts.data, parts.stride, 2 * n_rows, k, 0,
               pf_gemm_tiles(gemm->tile_rows, 2 * n_rows));
}

/* The coarse logits of this thread's columns, and the lower bounds that follow from them. */
static void find_floors(const worker *w)
{
    const pf_lm_head *head = w->head;
    const pf_rows coarse = w->pass->coarse;
    const int32_t n_rows = w->rows->n_rows;
    coarse_gemm(head)->multiply(&head->coarse.weights, w->scratch->input, 2 * n_rows, w->panels.begin, w->panels.end,
                                coarse.data, coarse.stride, PF_GEMM_STORE, w->rows->scratch);
    for (int32_t i = 0; i < n_rows; i++)
        w->share->floors[i] =
            head->kernels->bounds.floor(pf_row(coarse, i) + w->first, pf_row(coarse, n_rows + i) + w->first,
                                        head->error + w->first, w->norms[i], w->n);
}

/* The largest of all threads' lower bounds. */
static float highest_floor(const worker *w, int32_t i)
{
    float floor = -INFINITY;
    for (int32_t id = 0; id < w->rows->member.n_threads; id++) {
        const float other = w->pass->shares[id].floors[i];
        if (other > floor) floor = other;
    }
    return floor;
}

/* Marks the panels that may hold the largest logit of a row. */
static void mark_panels(const worker *w)
{
    for (int32_t i = 0; i < w->rows->n_rows; i++)
        w->head->kernels->bounds.mark(w->pass->marks + w->panels.begin, pf_row(w->pass->coarse, i) + w->first,
                                      w->head->error + w->first, w->norms[i], highest_floor(w, i), w->n);
}

/* Tokens come in their order: of equal logits the first token stays. */
static void keep_better(pf_best *best, pf_best other)
{
    if (other.token >= 0 && (best->token < 0 || other.logit > best->logit)) *best = other;
}

/* The best of columns [first, first + n) of row i joins the best of this thread. */
static void add_best(const worker *w, int32_t i, int32_t first, int32_t n)
{
    const float *logits = pf_row(w->rows->logits, i) + first;
    const int32_t token = w->head->kernels->argmax(logits, n);
    if (token >= 0) keep_better(&w->share->best[i], (pf_best){ first + token, logits[token] });
    if (w->share->invalid[i] >= 0) return;
    const int32_t invalid = w->head->kernels->find_invalid(logits, n);
    if (invalid >= 0) w->share->invalid[i] = first + invalid;
}

/* Multiplies the marked panels, one run of them after the other. */
static void multiply_marked(const worker *w)
{
    const uint8_t *marks = w->pass->marks;
    const pf_head_rows *rows = w->rows;
    const int32_t best_of = w->pass->best_of;
    w->share->n_computed = 0;
    for (int32_t i = 0; i < rows->n_rows; i++) w->share->best[i].token = w->share->invalid[i] = -1;
    for (int32_t p = w->panels.begin, end; p < w->panels.end; p = end) {
        for (end = p + 1; end < w->panels.end && marks[end] == marks[p];) end++;
        if (!marks[p]) continue;
        pf_head_gemm(w->head)->multiply(&w->head->full.weights, rows->input, rows->n_rows, p, end, rows->logits.data,
                                        rows->logits.stride, PF_GEMM_STORE, rows->scratch);
        const int32_t first = p * PF_GEMM_PANEL, last = end * PF_GEMM_PANEL;
        for (int32_t i = 0; i < rows->n_rows; i++) add_best(w, i, first, (last < best_of ? last : best_of) - first);
        w->share->n_computed += end - p;
    }
}

void pf_bounded_head_find_best(const pf_lm_head *head, pf_head_pass *pass, const pf_head_rows *rows)
{
    const int32_t id = rows->member.id;
    worker w = { .head = head, .pass = pass, .rows = rows, .share = &pass->shares[id], .scratch = &pass->scratch[id] };
    share_columns(&w);
    pack_parts(&w);
    find_floors(&w);
    memset(pass->marks + w.panels.begin, 0, (size_t)(w.panels.end - w.panels.begin));
    pf_team_barrier(rows->member);
    mark_panels(&w);
    multiply_marked(&w);
}

int32_t pf_bounded_head_best(const pf_head_pass *pass, int32_t n_threads, int32_t i)
{
    pf_best best = { .token = -1 };
    for (int32_t id = 0; id < n_threads; id++) keep_better(&best, pass->shares[id].best[i]);
    return best.token;
}

int32_t pf_bounded_head_find_invalid(const pf_head_pass *pass, int32_t n_threads, int32_t i)
{
    for (int32_t id = 0; id < n_threads; id++)
        if (pass->shares[id].invalid[i] >= 0) return pass->shares[id].invalid[i];
    return -1;
}

void pf_bounded_head_end(const pf_lm_head *head, pf_head_pass *pass, int32_t n_threads)
{
    if (pass->pause > 0) pass->pause--;
    if (pass->best_of == 0) return;
    int32_t n_computed = 0;
    for (int32_t id = 0; id < n_threads; id++) n_computed += pass->shares[id].n_computed;
    if (n_computed > head->full.weights.n_panels / TOO_MANY_OF) pass->pause = PAUSE;
}
