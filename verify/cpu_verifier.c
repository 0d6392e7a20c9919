/*
 * A submit fences and copies; a collect computes. Between the two a sequence holds at most one piece of work, the rows
 *
 *      tokens   | 0 .. kv length | .. n_committed | n_draft proposed |
 *                                 <------------ a span ------------->    logits of the last n_draft + 1 rows
 *
 * so an open and a proposal differ only in how many rows come before the last committed one. Accepted tokens of a chain are
 * in place already, those of a tree move up to where its path puts them; `next` is written behind them, and verdicts point
 * into the same array. The KV's rows move likewise (pf_kv_keep).
 */
#include "verify/cpu_verifier.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "kvcache/kvcache.h"
#include "proto/answer.h"
#include "proto/tree.h"
#include "verify/judge.h"

enum { ROUND_TOKENS = 32 }; /* that are read beside a proposal's; with more it is a prompt */

typedef struct {
    bool alive;    /* open here; the stream knows it under this slot */
    bool pending;  /* has work for the next collect */
    bool finished; /* waits for its close */
    uint64_t sequence;
    uint32_t incarnation;
    pf_kv_seq kv;
    pf_sampling sampling; /* seed resolved */
    pf_method method;
    int32_t max_tokens; /* of the request; at most what the context holds and one more, which no pass has to read */
    int32_t n_stop;
    int32_t *stop;   /* [PF_MAX_STOP_TOKENS] */
    int32_t *tokens; /* [context's max_tokens + PF_MAX_DRAFT_TOKENS + 1] */
    int32_t n_committed;
    int32_t n_draft;
    bool is_tree;     /* the proposal is one, of these parents; else it is a chain */
    int32_t *parents; /* [max_draft] */
    int32_t *rows;    /* [context's max_rows] the same for the rows of the span */
    bool has_declared;
    pf_declared *declared; /* [max_draft], into the two below */
    int32_t *ids;          /* [max_draft, PF_MAX_DECLARED] */
    float *probabilities;  /* [max_draft, PF_MAX_DECLARED] */
} sequence_state;

typedef struct {
    pf_peer peer;
    pf_context *context;
    pf_kv *kv;
    pf_cpu_verifier_config config;
    pf_arena arena;
    pf_judge judge;
    sequence_state *sequences; /* [max_sequences] by the stream's slot */
    uint64_t n_opened;
    pf_span *spans;       /* [max_sequences] of a part of the batch */
    int32_t *span_slots;  /* [max_sequences] */
    int32_t next_prompt;  /* the slot whose prompt has its turn */
    bool prompts_are_due; /* rounds went before them in the last collect */
    pf_answer answer;
} verifier;

/* ---- the end of a sequence ------------------------------------------------------------------------------------- */

static void end_sequence(verifier *v, sequence_state *s)
{
    pf_kv_release(v->kv, s->kv);
    s->alive = s->pending = false;
}

static void refuse(verifier *v, sequence_state *s, pf_status status, const char *text)
{
    pf_answer_refuse(&v->answer, s->sequence, s->incarnation, status, text);
    end_sequence(v, s);
}

/* ---- submit: fence and copy ---------------------------------------------------------------------------------- */

static int32_t longest_sequence(const verifier *v)
{
    return pf_context_get_config(v->context)->max_tokens;
}

static pf_status check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    const verifier *v = (const verifier *)peer;
    PF_TRY(pf_sampling_check(&open->sampling, error));
    PF_TRY(pf_answer_check_method(open->method, error));
    if (open->n_tokens < 1) return pf_fail(error, PF_INVALID, "the prompt is empty, expected at least one token");
    if (open->n_tokens > longest_sequence(v))
        return pf_fail(error, PF_LIMIT, "the prompt has %d tokens, the context holds %d", open->n_tokens,
                       longest_sequence(v));
    const int32_t n_vocab = pf_context_n_vocab(v->context);
    const int32_t unknown = pf_count_known(open->tokens, open->n_tokens, n_vocab);
    if (unknown < open->n_tokens)
        return pf_fail(error, PF_INVALID, "token %d of the prompt is %d, the vocabulary has %d", unknown,
                       open->tokens[unknown], n_vocab);
    if (open->n_stop_tokens < 0 || open->n_stop_tokens > PF_MAX_STOP_TOKENS)
        return pf_fail(error, PF_INVALID, "%d stop tokens, expected 0 to %d", open->n_stop_tokens, PF_MAX_STOP_TOKENS);
    return PF_OK;
}

/* Keep of the KV what the sequence's old tokens and the open's share, all but the last: its row is to be computed. */
static pf_status keep_shared_prefix(verifier *v, sequence_state *s, const pf_open *open)
{
    int32_t shared = 0;
    const int32_t limit = open->n_tokens - 1, held = pf_kv_length(v->kv, s->kv);
    while (shared < limit && shared < held && s->tokens[shared] == open->tokens[shared]) shared++;
    return pf_kv_truncate(v->kv, s->kv, shared);
}

static void start_sequence(verifier *v, sequence_state *s, const pf_open *open)
{
    s->alive = s->pending = true;
    s->finished = false;
    s->sampling = open->sampling;
    s->method = open->method;
    if (v->config.seed != 0 && open->sampling.seed == 0 && open->method != PF_METHOD_COUPLED)
        s->sampling.seed = pf_noise_derive_seed(v->config.seed, v->n_opened);
    v->n_opened++;
    s->max_tokens = longest_sequence(v) + 1;
    if (open->max_tokens > 0 && open->max_tokens < s->max_tokens) s->max_tokens = open->max_tokens;
    s->n_stop = open->n_stop_tokens;
    if (s->n_stop > 0) memcpy(s->stop, open->stop_tokens, (size_t)s->n_stop * sizeof *s->stop);
    memcpy(s->tokens, open->tokens, (size_t)open->n_tokens * sizeof *s->tokens);
    s->n_committed = open->n_tokens;
    s->n_draft = 0;
    s->is_tree = s->has_declared = false;
}

static void take_open(verifier *v, const pf_open *open)
{
    int32_t slot;
    if (!pf_answer_admit_open(&v->answer, open, &slot)) return;
    sequence_state *s = &v->sequences[slot];
    if (!s->alive) s->kv = -1;
    s->sequence = open->sequence;
    s->incarnation = open->incarnation;

    pf_error error;
    pf_status status = check_open(&v->peer, open, &error);
    if (status == PF_OK) {
        status = s->alive ? keep_shared_prefix(v, s, open) : pf_kv_acquire(v->kv, &s->kv);
        if (status != PF_OK) status = pf_fail(&error, PF_LIMIT, "no room for another sequence in the KV cache");
    }
    if (status == PF_OK)
        start_sequence(v, s, open);
    else
        refuse(v, s, status, error.text);
}

static bool declared_is_usable(const verifier *v, const pf_declared *declared)
{
    return declared->n >= 1 && declared->n <= PF_MAX_DECLARED &&
           pf_count_known(declared->ids, declared->n, v->judge.n_vocab) == declared->n;
}

/* The leading tokens that can be judged: a count that depends on the peer's honesty and on what there is room for,
 * never on what the tokens are worth. */
static int32_t count_usable(const verifier *v, const sequence_state *s, const pf_proposal *proposal)
{
    int32_t n = proposal->n_tokens;
    if (n > v->config.max_draft) n = v->config.max_draft;
    if (n > longest_sequence(v) - s->n_committed) n = longest_sequence(v) - s->n_committed;
    if (n > s->max_tokens - s->n_committed) n = s->max_tokens - s->n_committed;
    if (n > 0 && !pf_judge_is_exact(&s->sampling, s->method)) n = pf_tree_chain(proposal->parents, n);
    n = pf_count_known(proposal->tokens, n, v->judge.n_vocab);
    for (int32_t i = 0; i < n; i++) {
        if (proposal->parents && (proposal->parents[i] < -1 || proposal->parents[i] >= i)) return i;
        if (proposal->declared && !declared_is_usable(v, &proposal->declared[i])) return i;
    }
    return n;
}

static void copy_declared(sequence_state *s, int32_t i, const pf_declared *from)
{
    int32_t *ids = s->ids + (ptrdiff_t)i * PF_MAX_DECLARED;
    float *probabilities = s->probabilities + (ptrdiff_t)i * PF_MAX_DECLARED;
    memcpy(ids, from->ids, (size_t)from->n * sizeof *ids);
    memcpy(probabilities, from->probabilities, (size_t)from->n * sizeof *probabilities);
    s->declared[i] = (pf_declared){ ids, probabilities, from->n };
}

static void take_proposal(verifier *v, const pf_proposal *proposal)
{
    int32_t slot;
    if (!pf_answer_admit_proposal(&v->answer, proposal, &slot)) return;
    sequence_state *s = &v->sequences[slot];
    if (s->finished || s->pending) return;

    s->pending = true;
    s->n_draft = count_usable(v, s, proposal);
    s->is_tree = pf_tree_chain(proposal->parents, s->n_draft) < s->n_draft;
    if (s->is_tree) memcpy(s->parents, proposal->parents, (size_t)s->n_draft * sizeof *s->parents);
    s->has_declared = proposal->declared != NULL;
    if (s->n_draft > 0) memcpy(s->tokens + s->n_committed, proposal->tokens, (size_t)s->n_draft * sizeof *s->tokens);
    for (int32_t i = 0; s->has_declared && i < s->n_draft; i++) copy_declared(s, i, &proposal->declared[i]);
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    verifier *v = (verifier *)peer;
    pf_answer_begin(&v->answer);
    int32_t slot;
    for (int32_t i = 0; i < batch->n_closes; i++)
        if (pf_answer_admit_close(&v->answer, &batch->closes[i], &slot)) end_sequence(v, &v->sequences[slot]);
    for (int32_t i = 0; i < batch->n_opens; i++) take_open(v, &batch->opens[i]);
    for (int32_t i = 0; i < batch->n_proposals; i++) take_proposal(v, &batch->proposals[i]);
    return PF_OK;
}

/* ---- collect: compute ---------------------------------------------------------------------------------------- */

static bool is_stop(const sequence_state *s, int32_t token)
{
    for (int32_t i = 0; i < s->n_stop; i++)
        if (s->stop[i] == token) return true;
    return false;
}

/* Of `n` new tokens behind the committed ones, how many are kept, and whether that is the end. */
static int32_t cut(const sequence_state *s, int32_t n, pf_finish *finish)
{
    const int32_t room = s->max_tokens - s->n_committed;
    if (n > room) n = room > 0 ? room : 0;
    *finish = n >= room ? PF_FINISH_LENGTH : PF_FINISH_NONE;
    for (int32_t i = 0; i < n; i++) {
        if (is_stop(s, s->tokens[s->n_committed + i])) {
            *finish = PF_FINISH_EOS;
            return i + 1;
        }
    }
    return n;
}

/* A verdict on the work of a sequence, which moves on to the next round. */
static void answer(verifier *v, int32_t slot, pf_verdict verdict)
{
    sequence_state *s = &v->sequences[slot];
    pf_stream_answerer_commit(v->answer.stream, slot, verdict.n_tokens, &verdict);
    v->answer.batch.verdicts[v->answer.batch.n_verdicts++] = verdict;
    s->pending = false;
    s->finished = verdict.finish != PF_FINISH_NONE;
}

/* The proposed tokens of `path` and `next` are what the round gives. Returns how many were kept. */
static int32_t commit(verifier *v, int32_t slot, pf_acceptance acceptance, const int32_t *path)
{
    sequence_state *s = &v->sequences[slot];
    int32_t *tokens = s->tokens + s->n_committed;
    for (int32_t i = 0; i < acceptance.n_accepted; i++) tokens[i] = tokens[path[i]];
    tokens[acceptance.n_accepted] = acceptance.next;

    pf_finish finish;
    const int32_t n = cut(s, acceptance.n_accepted + 1, &finish);
    answer(v, slot,
           (pf_verdict){ .tokens = tokens,
                         .n_tokens = n,
                         .n_accepted = acceptance.n_accepted < n ? acceptance.n_accepted : n,
                         .finish = finish });
    s->n_committed += n;
    s->n_draft = 0;
    return n;
}

static void judge_span(verifier *v, int32_t slot, int32_t first_row)
{
    sequence_state *s = &v->sequences[slot];
    const int32_t n_committed = s->n_committed;
    const pf_drafted drafted = { .tokens = s->tokens + n_committed,
                                 .parents = s->is_tree ? s->parents : NULL,
                                 .declared = s->has_declared ? s->declared : NULL,
                                 .n = s->n_draft };
    int32_t path[PF_MAX_DRAFT_TOKENS];
    pf_acceptance acceptance;
    pf_status status =
        pf_judge_proposal(&v->judge, &s->sampling, s->method, &drafted, first_row, n_committed, &acceptance, path);
    if (status != PF_OK) {
        refuse(v, s, PF_UNSUPPORTED, "the model's logits hold no number to choose by");
        return;
    }
    const int32_t n_kept = commit(v, slot, acceptance, path);
    /* Not the last one's row: the next pass computes it. */
    status = pf_kv_keep(v->kv, s->kv, n_committed, path, n_kept - 1);
    if (status != PF_OK) refuse(v, s, PF_UNSUPPORTED, "the KV cache lost the sequence");
}

/* Who was told to stop says nothing. */
static void refuse_forward(verifier *v, int32_t slot, pf_status status)
{
    if (status == PF_CANCELLED) return;
    refuse(v, &v->sequences[slot], PF_LIMIT, "the KV cache has no page left for the sequence");
}

/* Run the first n spans, and judge each. What one of them lacks it lacks alone: after a failure each runs by itself. */
static void run_spans(verifier *v, int32_t n)
{
    if (n == 0) return;
    if (pf_context_forward(v->context, v->spans, n) == PF_OK) {
        for (int32_t i = 0, row = 0; i < n; row += v->spans[i].n_logits, i++) judge_span(v, v->span_slots[i], row);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const pf_status status = pf_context_forward(v->context, &v->spans[i], 1);
        if (status == PF_OK)
            judge_span(v, v->span_slots[i], 0);
        else
            refuse_forward(v, v->span_slots[i], status);
    }
}

/* Tokens to be fed before it is a sequence's turn: all but what one pass takes together with the rows to be judged. */
static int32_t count_backlog(const verifier *v, const sequence_state *s)
{
    return s->n_committed + s->n_draft - pf_kv_length(v->kv, s->kv) - pf_context_get_config(v->context)->max_rows;
}

/* The span's rows as a tree: n_before committed tokens, one behind the other, then the proposal's. */
static const int32_t *follow_tree(const sequence_state *s, int32_t n_before)
{
    for (int32_t i = 0; i < n_before; i++) s->rows[i] = i - 1;
    for (int32_t i = 0; i < s->n_draft; i++) s->rows[n_before + i] = n_before + s->parents[i];
    return s->rows;
}

/* Of a sequence without a backlog: whether it has rows to run; if not, it has been answered. */
static bool prepare(verifier *v, int32_t slot, pf_span *out)
{
    sequence_state *s = &v->sequences[slot];
    if (s->n_committed >= s->max_tokens) { /* asked for a token too many: nothing, and the end */
        answer(v, slot, (pf_verdict){ .tokens = s->tokens + s->n_committed, .finish = PF_FINISH_LENGTH });
        return false;
    }
    const int32_t held = pf_kv_length(v->kv, s->kv);
    *out = (pf_span){ .sequence = s->kv,
                      .tokens = s->tokens + held,
                      .n_tokens = s->n_committed + s->n_draft - held,
                      .n_logits = s->n_draft + 1,
                      .best_of = pf_judge_best_of(&v->judge, &s->sampling) };
    if (s->is_tree) out->parents = follow_tree(s, s->n_committed - held);
    return true;
}

/* What a pass may take. */
typedef struct {
    int32_t n, n_rows, n_logits;
} load;

/* Whether one more span fits. */
static bool take_span(verifier *v, load *l, const pf_span *span, int32_t slot)
{
    const pf_context_config *limits = pf_context_get_config(v->context);
    if (l->n_rows + span->n_tokens > limits->max_rows || l->n_logits + span->n_logits > limits->max_logit_rows)
        return false;
    l->n_rows += span->n_tokens;
    l->n_logits += span->n_logits;
    v->spans[l->n] = *span;
    v->span_slots[l->n++] = slot;
    return true;
}

/* Pending, with no more than a few tokens to be read before those that are judged, or nothing to be judged. */
static bool is_round(const verifier *v, const sequence_state *s)
{
    if (!s->pending || s->n_committed >= s->max_tokens) return s->pending;
    return count_backlog(v, s) <= 0 && s->n_committed - pf_kv_length(v->kv, s->kv) <= ROUND_TOKENS;
}

/* All rounds, in as few passes as the context's rows allow. */
static void run_rounds(verifier *v)
{
    load l = { 0 };
    for (int32_t slot = 0; slot < v->config.max_sequences; slot++) {
        pf_span span;
        if (!is_round(v, &v->sequences[slot]) || !prepare(v, slot, &span)) continue;
        if (take_span(v, &l, &span, slot)) continue;
        run_spans(v, l.n);
        l = (load){ 0 };
        (void)take_span(v, &l, &span, slot);
    }
    run_spans(v, l.n);
}

/* One pass over a part of a long prompt. */
static void feed(verifier *v, int32_t slot, int32_t n_tokens)
{
    const sequence_state *s = &v->sequences[slot];
    const int32_t *tokens = s->tokens + pf_kv_length(v->kv, s->kv);
    const pf_status status = pf_context_prefill(v->context, s->kv, tokens, n_tokens, false);
    if (status != PF_OK) refuse_forward(v, slot, status);
}

/* One pass over prompts, of each in turn: a part of one that is longer than a pass, or the ends of as many as it takes. Whether
 * there was any: between two, whoever has a round goes first. */
static bool run_prompts(verifier *v)
{
    const int32_t max_rows = pf_context_get_config(v->context)->max_rows, n_slots = v->config.max_sequences;
    load l = { 0 };
    bool any = false;
    for (int32_t i = 0, first = v->next_prompt; i < n_slots; i++) {
        const int32_t slot = (first + i) % n_slots;
        const sequence_state *s = &v->sequences[slot];
        if (!s->pending || is_round(v, s)) continue;
        const int32_t backlog = count_backlog(v, s);
        if (backlog > 0 && any) break;
        pf_span span;
        if (backlog > 0)
            feed(v, slot, backlog < max_rows ? backlog : max_rows);
        else if (prepare(v, slot, &span) && !take_span(v, &l, &span, slot))
            break;
        any = true;
        v->next_prompt = (slot + 1) % n_slots;
        if (backlog > 0) break;
    }
    run_spans(v, l.n);
    return any;
}

/* Computing may end every sequence, and each is to have its refusal. */
static bool has_room_for_refusals(const verifier *v)
{
    return v->answer.batch.n_refusals + v->config.max_sequences <= PF_MAX_BATCH_SEQUENCES;
}

/* Who is ready goes before who has a prompt to be fed, and is answered before it; but only once, since there may always be
 * somebody. Whether a prompt had a pass. */
static bool run_both(verifier *v)
{
    if (!has_room_for_refusals(v)) return false;
    bool fed = v->prompts_are_due && run_prompts(v);
    run_rounds(v);
    if (!fed && v->answer.batch.n_verdicts == 0) fed = run_prompts(v);
    v->prompts_are_due = !fed && v->answer.batch.n_verdicts > 0;
    return fed;
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    verifier *v = (verifier *)peer;
    pf_answer_begin(&v->answer);
    const uint64_t start = pf_now_ns();
    do {
        const bool fed = run_both(v);
        if (v->answer.batch.n_verdicts > 0) {
            pf_stop_or_wait(&v->config.stop, start + v->config.simulate_step_ns);
            v->answer.batch.timing.compute_ns = pf_now_ns() - start;
        }
        if (pf_answer_hand_out(&v->answer, out)) return PF_OK;
        if (pf_stop_is_due(&v->config.stop)) return pf_fail(error, PF_CANCELLED, "the verifier was told to stop");
        if (!fed) return pf_fail(error, PF_CANCELLED, "nothing was asked of the verifier");
    } while (pf_now_ns() < deadline_ns);
    *out = &v->answer.batch; /* nothing in it: it is at work still */
    return PF_OK;
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static pf_status tell_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)error;
    *out = ((verifier *)peer)->config.info;
    return PF_OK;
}

static int32_t tell_backlog(const pf_peer *peer)
{
    const verifier *v = (const verifier *)peer;
    int32_t n = 0;
    for (int32_t slot = 0; slot < v->config.max_sequences; slot++) {
        const sequence_state *s = &v->sequences[slot];
        if (s->pending) n += s->n_committed - pf_kv_length(v->kv, s->kv);
    }
    return n;
}

static void destroy(pf_peer *peer)
{
    verifier *v = (verifier *)peer;
    for (int32_t i = 0; v->sequences && i < v->config.max_sequences; i++)
        if (v->sequences[i].alive) end_sequence(v, &v->sequences[i]);
    pf_context_set_stop(v->context, NULL);
    pf_stream_answerer_destroy(v->answer.stream);
    pf_arena_destroy(&v->arena);
    free(v);
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    const verifier *v = (const verifier *)peer;
    const int32_t slot = pf_stream_answerer_find(v->answer.stream, sequence);
    return slot >= 0 && v->sequences[slot].pending;
}

static const pf_peer_ops ops = {
    .submit = submit,
    .collect = collect,
    .info = tell_info,
    .destroy = destroy,
    .backlog = tell_backlog,
    .owes = owes,
    .check_open = check_open,
};

static void lay_out_sequence(const verifier *v, sequence_state *s, pf_arena *arena)
{
    const size_t n_draft = (size_t)v->config.max_draft;
    sequence_state laid = {
        .stop = pf_arena_take(arena, PF_MAX_STOP_TOKENS, sizeof *s->stop),
        .tokens = pf_arena_take(arena, (size_t)longest_sequence(v) + PF_MAX_DRAFT_TOKENS + 1, sizeof *s->tokens),
        .parents = pf_arena_take(arena, n_draft, sizeof *s->parents),
        .rows = pf_arena_take(arena, (size_t)pf_context_get_config(v->context)->max_rows, sizeof *s->rows),
        .declared = pf_arena_take(arena, n_draft, sizeof *s->declared),
        .ids = pf_arena_take(arena, n_draft * PF_MAX_DECLARED, sizeof *s->ids),
        .probabilities = pf_arena_take(arena, n_draft * PF_MAX_DECLARED, sizeof *s->probabilities),
    };
    if (s) *s = laid;
}

/* Run twice: on a measure, where every pointer is NULL, and on the arena made to that measure. */
static void lay_out(verifier *v, pf_arena *arena)
{
    const size_t n = (size_t)v->config.max_sequences;
    v->judge = pf_judge_create(v->context, arena);
    v->sequences = pf_arena_take(arena, n, sizeof *v->sequences);
    v->spans = pf_arena_take(arena, n, sizeof *v->spans);
    v->span_slots = pf_arena_take(arena, n, sizeof *v->span_slots);
    v->answer.batch.verdicts = pf_arena_take(arena, n, sizeof *v->answer.batch.verdicts);
    pf_answer_lay_out(&v->answer, arena);
    for (size_t i = 0; i < n; i++) lay_out_sequence(v, v->sequences ? &v->sequences[i] : NULL, arena);
}

static pf_status check_config(pf_context *context, const pf_cpu_verifier_config *config, pf_error *error)
{
    const pf_context_config *limits = pf_context_get_config(context);
    int32_t max_sequences = limits->max_sequences;
    if (max_sequences > PF_MAX_BATCH_SEQUENCES) max_sequences = PF_MAX_BATCH_SEQUENCES;
    if (config->max_sequences < 1 || config->max_sequences > max_sequences)
        return pf_fail(error, PF_INVALID, "the verifier's max_sequences is %d, expected 1 to %d", config->max_sequences,
                       max_sequences);
    if (config->max_draft < 1 || config->max_draft > PF_MAX_DRAFT_TOKENS)
        return pf_fail(error, PF_INVALID, "the verifier's max_draft is %d, expected 1 to %d", config->max_draft,
                       PF_MAX_DRAFT_TOKENS);
    if (limits->max_logit_rows < config->max_draft + 1)
        return pf_fail(error, PF_INVALID, "the context has logits for %d rows, a proposal of %d tokens needs %d",
                       limits->max_logit_rows, config->max_draft, config->max_draft + 1);
    return PF_OK;
}

pf_status pf_cpu_verifier_create(pf_context *context, const pf_cpu_verifier_config *config, pf_peer **out,
                                 pf_error *error)
{
    PF_TRY(check_config(context, config, error));
    verifier *v = calloc(1, sizeof *v);
    if (!v) return pf_fail(error, PF_NOMEM, "no memory for the verifier");
    *v = (verifier){ .peer.ops = &ops, .context = context, .kv = pf_context_kv(context), .config = *config };

    pf_arena measure = pf_arena_measure();
    lay_out(v, &measure);
    pf_status status = pf_arena_create(measure.used, &v->arena);
    if (status == PF_OK) {
        pf_arena_populate(&v->arena, PF_ARENA_FIRST_BYTES, NULL);
        lay_out(v, &v->arena);
        status = pf_stream_answerer_create(config->max_sequences, &v->answer.stream);
    }
    pf_context_set_stop(context, &v->config.stop);
    if (status != PF_OK) {
        destroy(&v->peer);
        return pf_fail(error, status, "no memory for the verifier's %d sequences", config->max_sequences);
    }
    *out = &v->peer;
    return PF_OK;
}

size_t pf_cpu_verifier_reserved_bytes(const pf_peer *peer)
{
    return ((const verifier *)peer)->arena.size;
}
