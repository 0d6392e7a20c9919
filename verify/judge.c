#include "verify/judge.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "proto/tree.h"

/* The uses of PF_NOISE_ACCEPT at a position. Of a tree, further siblings; of a block, which uses numbers of tokens that it does not
 * keep, all numbers at the position where the round begins, so that no later round uses them again. */
enum { USE_KEEP = 0, USE_NEXT = 1, USE_SIBLINGS = 2, USE_BLOCK = 1 << 16 };

pf_judge pf_judge_create(pf_forward_backend backend, const float *synthetic, pf_arena *arena)
{
    const int32_t n_vocab = backend.limits.n_vocab;
    const size_t n_rows = pf_forward_can_draw(&backend) ? (size_t)backend.limits.max_logit_rows : 0;
    return (pf_judge){
        .backend = backend,
        .n_vocab = n_vocab,
        .p = pf_arena_take(arena, (size_t)n_vocab, sizeof(float)),
        .q = pf_arena_take(arena, (size_t)n_vocab, sizeof(float)),
        .r = pf_arena_take(arena, (size_t)n_vocab, sizeof(float)),
        .scratch = pf_arena_take(arena, pf_sampling_scratch_bytes(n_vocab), 1),
        .draws = n_rows > 0 ? pf_arena_take(arena, n_rows, sizeof(pf_draw)) : NULL,
        .drawn = n_rows > 0 ? pf_arena_take(arena, n_rows, sizeof(pf_drawn)) : NULL,
        .counts = pf_arena_take(arena, (size_t)n_vocab, sizeof(int32_t)),
        .at = pf_arena_take(arena, (size_t)PF_MAX_DRAFT_TOKENS * PF_MAX_DECLARED, sizeof(float)),
        .synthetic = synthetic,
    };
}

/* The rows of one sequence. */
typedef struct {
    const pf_judge *judge;
    const pf_judged *sequence;
    const pf_drafted *drafted;
    int32_t first_row, position;
    bool is_changed[PF_MAX_DRAFT_TOKENS + 1]; /* by the sequence's rules, row by row */
} judged_rows;

/* The draft tokens before a row: those of its path. */
static int32_t find_path(const pf_drafted *drafted, int32_t row, int32_t path[PF_MAX_DRAFT_TOKENS])
{
    int32_t n = 0;
    for (int32_t node = row - 1; node >= 0; node = drafted->parents ? drafted->parents[node] : node - 1) n++;
    for (int32_t node = row - 1, i = n; node >= 0; node = drafted->parents ? drafted->parents[node] : node - 1)
        path[--i] = drafted->tokens[node];
    return n;
}

/* A row, with the sequence's rules, which are applied once. */
static const float *logits_of(judged_rows *r, int32_t row)
{
    const pf_judge *judge = r->judge;
    float *logits = pf_forward_logits(&judge->backend, r->first_row + row);
    if (!r->sequence->rules->is_active || r->is_changed[row]) return logits;
    r->is_changed[row] = true;
    int32_t path[PF_MAX_DRAFT_TOKENS];
    pf_rules_apply(r->sequence->rules, r->sequence->tokens, r->position, path, find_path(r->drafted, row, path),
                   judge->counts, logits, judge->n_vocab);
    return logits;
}

/* Whether each row decides its token by itself, as in plain sampling: without a proposal by every method. */
static bool judges_exactly(const pf_judge *judge, const pf_judged *sequence, const pf_drafted *drafted)
{
    return judge->synthetic || pf_judge_is_exact(sequence->sampling, sequence->method) || drafted->n == 0;
}

/* Whether a backend that draws does so for this sequence. Rows that rules change or typical-p filters, and what is no plain draw or chain
 * by rejection, are drawn from here. */
static bool can_be_drawn(const pf_judge *judge, const pf_judged *sequence, const pf_drafted *drafted)
{
    const float typical_p = sequence->sampling->typical_p;
    if (sequence->sampling->temperature == 0.0f || sequence->rules->is_active) return false;
    if (typical_p > 0.0f && typical_p < 1.0f) return false;
    return judges_exactly(judge, sequence, drafted) || (sequence->method == PF_METHOD_REJECTION && !drafted->parents);
}

static bool uses_drawn(const judged_rows *r)
{
    return r->judge->drawn && can_be_drawn(r->judge, r->sequence, r->drafted);
}

static const float *make_p(void *rows, int32_t row)
{
    judged_rows *r = rows;
    const pf_judge *judge = r->judge;
    const pf_status status = pf_sampling_distribution(r->sequence->sampling, judge->backend.kernels, logits_of(r, row),
                                                      judge->n_vocab, judge->p, judge->scratch);
    return status == PF_OK ? judge->p : NULL;
}

/* What plain decoding takes there. */
static int32_t choose(void *rows, int32_t row, int32_t n_kept)
{
    judged_rows *r = rows;
    const pf_judge *judge = r->judge;
    const pf_sampling *sampling = r->sequence->sampling;
    if (sampling->temperature == 0.0f && r->sequence->rules->is_active) {
        const float *logits = logits_of(r, row);
        const int32_t best = judge->backend.kernels->argmax(logits, judge->n_vocab);
        return best >= 0 && logits[best] > -INFINITY ? best : -1; /* rules may leave no token */
    }
    if (sampling->temperature == 0.0f) return pf_forward_best(&judge->backend, r->first_row + row, judge->n_vocab);
    if (uses_drawn(r)) return judge->drawn[r->first_row + row].token;
    const float *p = make_p(rows, row);
    return p ? judge->backend.kernels->race(p, judge->n_vocab, sampling->seed, PF_NOISE_TARGET, r->position + n_kept)
             : -1;
}

static pf_accept_decision take_decision(void *rows, int32_t row)
{
    const judged_rows *r = rows;
    const pf_drawn drawn = r->judge->drawn[r->first_row + row];
    return (pf_accept_decision){ .is_kept = drawn.is_kept, .next = drawn.token };
}

/* Of the token at this position. */
static pf_accept_uniforms uniforms_at(uint64_t seed, int32_t position)
{
    return (pf_accept_uniforms){ .keep = pf_noise_uniform(seed, PF_NOISE_ACCEPT, position, USE_KEEP),
                                 .next = pf_noise_uniform(seed, PF_NOISE_ACCEPT, position, USE_NEXT) };
}

static pf_acceptance judge_by_rejection(const pf_judge *judge, const pf_drafted *drafted, judged_rows *rows,
                                        int32_t *path)
{
    if (uses_drawn(rows)) return pf_accept_chain(drafted->tokens, drafted->n, take_decision, rows, path);
    const uint64_t seed = rows->sequence->sampling->seed;
    pf_accept_uniforms uniforms[PF_MAX_DRAFT_TOKENS + 1];
    assert(drafted->n <= PF_MAX_DRAFT_TOKENS);
    for (int32_t i = 0; i <= drafted->n; i++) uniforms[i] = uniforms_at(seed, rows->position + i);
    return pf_accept_rejection(drafted, judge->n_vocab, make_p, rows, uniforms, judge->q, path);
}

/* A chain as a block, or a tree from its leaves. */
static pf_acceptance judge_together(const pf_judge *judge, const pf_drafted *drafted, judged_rows *rows, int32_t *path)
{
    const uint64_t seed = rows->sequence->sampling->seed;
    pf_accept_uniforms uniforms[PF_MAX_DRAFT_TOKENS + 1];
    assert(drafted->n <= PF_MAX_DRAFT_TOKENS);
    for (int32_t i = 0; i <= drafted->n; i++)
        uniforms[i] = (pf_accept_uniforms){
            .keep = pf_noise_uniform(seed, PF_NOISE_ACCEPT, rows->position, USE_BLOCK + 2 * i),
            .next = pf_noise_uniform(seed, PF_NOISE_ACCEPT, rows->position, USE_BLOCK + 2 * i + 1),
        };
    if (drafted->parents)
        return pf_accept_traversal(drafted, judge->n_vocab, make_p, rows, uniforms, judge->r, judge->at, path);
    return pf_accept_block(drafted, judge->n_vocab, make_p, rows, uniforms, judge->r, path);
}

/* pf_accept_uniform. */
static float uniform_of(void *rows, int32_t n_kept, int32_t use)
{
    const judged_rows *r = rows;
    const int32_t of_noise = use == 0 ? USE_NEXT : use == 1 ? USE_KEEP : USE_SIBLINGS + use - 2;
    return pf_noise_uniform(r->sequence->sampling->seed, PF_NOISE_ACCEPT, r->position + n_kept, of_noise);
}

static pf_acceptance judge_by_sampling(const pf_judge *judge, const pf_drafted *drafted, judged_rows *rows,
                                       int32_t *path)
{
    const pf_method method = rows->sequence->method;
    if (method == PF_METHOD_TYPICAL)
        return pf_accept_typical(drafted, judge->n_vocab, rows->sequence->typical, make_p, uniform_of, rows, path);
    if (method == PF_METHOD_TRAVERSAL) return judge_together(judge, drafted, rows, path);
    if (drafted->parents) return pf_accept_tree(drafted, judge->n_vocab, make_p, uniform_of, rows, judge->r, path);
    return method == PF_METHOD_BLOCK ? judge_together(judge, drafted, rows, path)
                                     : judge_by_rejection(judge, drafted, rows, path);
}

int32_t pf_judge_best_of(const pf_judge *judge, const pf_sampling *sampling, const pf_rules *rules, bool wants_logprobs)
{
    return sampling->temperature == 0.0f && !rules->is_active && !wants_logprobs ? judge->n_vocab : 0;
}

bool pf_judge_is_exact(const pf_sampling *sampling, pf_method method)
{
    return method == PF_METHOD_GREEDY || method == PF_METHOD_COUPLED || sampling->temperature == 0.0f;
}

/* ---- where the backend draws ------------------------------------------------------------------------------------ */

bool pf_judge_asks(const pf_judge *judge)
{
    return judge->draws != NULL;
}

static pf_draw ask_race(const pf_sampling *sampling, int32_t position)
{
    return (pf_draw){ .kind = PF_DRAW_RACE, .sampling = sampling, .position = position, .token = -1 };
}

static pf_draw ask_judgement(const pf_sampling *sampling, const pf_drafted *drafted, int32_t i, int32_t position)
{
    const pf_accept_uniforms uniforms = uniforms_at(sampling->seed, position + i);
    pf_draw draw = { .kind = PF_DRAW_JUDGE,
                     .sampling = sampling,
                     .token = i < drafted->n ? drafted->tokens[i] : -1,
                     .keep = uniforms.keep,
                     .next = uniforms.next };
    if (i == drafted->n || !drafted->declared) return draw;
    draw.ids = drafted->declared[i].ids;
    draw.probabilities = drafted->declared[i].probabilities;
    draw.n_ids = drafted->declared[i].n;
    return draw;
}

void pf_judge_ask(pf_judge *judge, const pf_judged *sequence, const pf_drafted *drafted, int32_t first_row,
                  int32_t position)
{
    pf_draw *draws = judge->draws + first_row;
    const pf_sampling *sampling = sequence->sampling;
    const bool exact = judges_exactly(judge, sequence, drafted);
    int32_t depths[PF_MAX_DRAFT_TOKENS + 1] = { 0 }; /* accepted tokens before a row */
    assert(drafted->n <= PF_MAX_DRAFT_TOKENS);
    for (int32_t row = 0; row <= drafted->n; row++) {
        if (row > 0) depths[row] = 1 + depths[drafted->parents ? 1 + drafted->parents[row - 1] : row - 1];
        if (!can_be_drawn(judge, sequence, drafted))
            draws[row] = (pf_draw){ .kind = PF_DRAW_NONE };
        else
            draws[row] =
                exact ? ask_race(sampling, position + depths[row]) : ask_judgement(sampling, drafted, row, position);
    }
}

pf_status pf_judge_draw(pf_judge *judge, int32_t n_rows)
{
    return pf_forward_draw(&judge->backend, judge->draws, n_rows, judge->drawn);
}

pf_status pf_judge_proposal(pf_judge *judge, const pf_judged *sequence, const pf_drafted *drafted, int32_t first_row,
                            int32_t position, pf_acceptance *out, int32_t *path)
{
    judged_rows rows = {
        .judge = judge, .sequence = sequence, .drafted = drafted, .first_row = first_row, .position = position
    };
    if (judge->synthetic)
        *out = pf_accept_synthetic(drafted, judge->synthetic, uniform_of, choose, &rows, path);
    else
        *out = judges_exactly(judge, sequence, drafted) ? pf_accept_exact(drafted, choose, &rows, path)
                                                        : judge_by_sampling(judge, drafted, &rows, path);
    return out->next >= 0 ? PF_OK : PF_UNSUPPORTED;
}

/* ---- what comes in, and what goes out ------------------------------------------------------------------------- */

static bool declared_is_usable(const pf_judge *judge, const pf_declared *declared)
{
    return declared->n >= 1 && declared->n <= PF_MAX_DECLARED &&
           pf_count_known(declared->ids, declared->n, judge->n_vocab) == declared->n;
}

int32_t pf_judge_count_usable(const pf_judge *judge, const pf_proposal *proposal, int32_t n_most)
{
    int32_t n = proposal->n_tokens < n_most ? proposal->n_tokens : n_most;
    if (n <= 0) return 0;
    n = pf_count_known(proposal->tokens, n, judge->n_vocab);
    for (int32_t i = 0; i < n; i++) {
        if (proposal->parents && (proposal->parents[i] < -1 || proposal->parents[i] >= i)) return i;
        if (proposal->declared && !declared_is_usable(judge, &proposal->declared[i])) return i;
    }
    return n;
}

int32_t pf_judge_cut(const int32_t *tokens, int32_t n, int32_t room, const int32_t *stop, int32_t n_stop,
                     pf_finish *finish)
{
    if (n > room) n = room > 0 ? room : 0;
    *finish = n >= room ? PF_FINISH_LENGTH : PF_FINISH_NONE;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n_stop; k++)
            if (tokens[i] == stop[k]) {
                *finish = PF_FINISH_EOS;
                return i + 1;
            }
    return n;
}
