#include "host/sequence_host.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/sampling_parameters.h"
#include "proto/drafter_names.h"

enum { LONGEST = 1 << 30 }; /* tokens of a sequence: with a proposal behind them they are still an int32_t */

static pf_host *host_of(pf_peer *peer)
{
    return (pf_host *)peer;
}

uint64_t pf_host_now_ns(const pf_host *host)
{
    return pf_clock_now_ns(host->config.stop.clock_ns);
}

/* ---- the end of a sequence ------------------------------------------------------------------------------------- */

static void end_sequence(pf_host *host, pf_host_sequence *s)
{
    if (s->is_open && host->role->release) host->role->release(host, s);
    s->is_open = s->is_due = false;
}

void pf_host_refuse(pf_host *host, pf_host_sequence *s, pf_status status, const char *text)
{
    pf_answer_refuse(&host->answer, s->sequence, s->incarnation, status, text);
    end_sequence(host, s);
}

/* ---- submit ---------------------------------------------------------------------------------------------------- */

static pf_status check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    const pf_host *host = (const pf_host *)peer;
    const pf_host_config *config = &host->config;
    PF_TRY(pf_sampling_check(&open->sampling, error));
    PF_TRY(pf_answer_check_method(open->method, error));
    if (open->n_tokens < 0 || open->n_tokens > config->max_tokens)
        return pf_fail(error, PF_LIMIT, "the prompt has %d tokens, the %s's context holds %d", open->n_tokens,
                       host->role->model, config->max_tokens);
    const int32_t unknown = pf_count_known(open->tokens, open->n_tokens, config->n_vocab);
    if (unknown < open->n_tokens)
        return pf_fail(error, PF_INVALID, "token %d of the prompt is %d, the %s's vocabulary has %d", unknown,
                       open->tokens[unknown], host->role->model, config->n_vocab);
    return host->role->check_open ? host->role->check_open(host, open, error) : PF_OK;
}

pf_status pf_host_check_draft(const pf_host *host, const pf_open *open, pf_error *error)
{
    PF_TRY(pf_drafter_names_check(&host->info, open->drafter, error));
    if (open->max_draft < 1 || open->max_draft > PF_MAX_DRAFT_TOKENS)
        return pf_fail(error, PF_INVALID, "max_draft is %d, expected 1 to %d", open->max_draft, PF_MAX_DRAFT_TOKENS);
    if (open->max_declared < 0 || open->max_declared > PF_MAX_DECLARED)
        return pf_fail(error, PF_INVALID, "max_declared is %d, expected 0 to %d", open->max_declared, PF_MAX_DECLARED);
    if (open->n_excluded < 0 || open->n_excluded > PF_MAX_EXCLUDED)
        return pf_fail(error, PF_INVALID, "%d ranges of ids are excluded, expected 0 to %d", open->n_excluded,
                       PF_MAX_EXCLUDED);
    return PF_OK;
}

static void start_sequence(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    s->is_open = true;
    s->touched_ns = pf_host_now_ns(host);
    s->is_due = host->role->answers_opens;
    s->is_full = s->is_ended = false;
    s->sampling = open->sampling;
    s->method = open->method;
    s->is_adaptive = open->adaptive_draft;
    s->judges_trees = open->trees;
    s->max_draft = pf_min(open->max_draft, host->config.max_draft);
    s->next_draft = s->max_draft;
    s->propose_by_ns = UINT64_MAX;
    s->max_declared = open->max_declared;
    s->max_tokens = open->max_tokens > 0 ? open->max_tokens : INT32_MAX;
    if (open->n_tokens > 0) memcpy(s->tokens, open->tokens, (size_t)open->n_tokens * sizeof *s->tokens);
    s->n_committed = open->n_tokens;
    s->n_drafted = 0;
    pf_slot_list_add(&host->active, s->slot);
    if (host->role->start) host->role->start(host, s, open);
}

static void take_open(pf_host *host, const pf_open *open)
{
    int32_t slot;
    if (!pf_answer_admit_open(&host->answer, open, &slot)) return;
    pf_host_sequence *s = &host->sequences[slot];
    s->sequence = open->sequence;
    s->incarnation = open->incarnation;

    pf_error error;
    pf_status status = check_open(&host->peer, open, &error);
    if (status == PF_OK && host->role->acquire && host->role->acquire(host, s, open) != PF_OK)
        status = pf_fail(&error, PF_LIMIT, "no room for another sequence in the KV cache");
    if (status == PF_OK)
        start_sequence(host, s, open);
    else
        pf_host_refuse(host, s, status, error.text);
}

static void take_close(pf_host *host, const pf_close *close)
{
    int32_t slot;
    if (pf_answer_admit_close(&host->answer, close, &slot)) end_sequence(host, &host->sequences[slot]);
}

/* What the owner asks of the next proposal. */
static void take_wanted(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict)
{
    enum { NS_PER_US = 1000 };
    s->is_due = verdict->finish == PF_FINISH_NONE && verdict->next_draft != PF_NO_DRAFT;
    s->next_draft = verdict->next_draft > 0 ? pf_min(verdict->next_draft, s->max_draft) : s->max_draft;
    s->touched_ns = pf_host_now_ns(host);
    s->propose_by_ns = UINT64_MAX;
    if (verdict->propose_within_us > 0)
        s->propose_by_ns = s->touched_ns + (uint64_t)verdict->propose_within_us * NS_PER_US;
}

static void take_verdict(pf_host *host, const pf_verdict *verdict)
{
    int32_t slot;
    if (!pf_answer_admit_verdict(&host->answer, verdict, &slot)) return;
    pf_host_sequence *s = &host->sequences[slot];
    if (pf_count_known(verdict->tokens, verdict->n_tokens, host->config.n_vocab) < verdict->n_tokens) {
        pf_host_refuse(host, s, PF_INVALID, "a committed token is not in the draft's vocabulary");
        return;
    }
    if (verdict->n_tokens > host->config.max_tokens - s->n_committed) s->is_full = true;
    if (host->role->follow && host->role->follow(host, s, verdict) != PF_OK) {
        pf_host_refuse(host, s, PF_LIMIT, "the KV cache lost the sequence");
        return;
    }
    s->n_drafted = 0;
    pf_slot_list_add(&host->active, slot);
    take_wanted(host, s, verdict);
    if (s->is_full || verdict->n_tokens == 0) return;
    memcpy(s->tokens + s->n_committed, verdict->tokens, (size_t)verdict->n_tokens * sizeof *s->tokens);
    s->n_committed += verdict->n_tokens;
}

static void take_proposal(pf_host *host, const pf_proposal *proposal)
{
    int32_t slot;
    if (!pf_answer_admit_proposal(&host->answer, proposal, &slot)) return;
    pf_host_sequence *s = &host->sequences[slot];
    if (s->is_ended || s->is_due) return;
    host->role->take_proposal(host, s, proposal);
    s->touched_ns = pf_host_now_ns(host);
    s->is_due = true;
    pf_slot_list_add(&host->active, slot);
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    pf_host *host = host_of(peer);
    pf_answer_begin(&host->answer);
    host->told = batch->timing;
    host->n_submits++;
    for (int32_t i = 0; i < batch->n_closes; i++) take_close(host, &batch->closes[i]);
    for (int32_t i = 0; i < batch->n_opens; i++) take_open(host, &batch->opens[i]);
    if (host->role->take_proposal)
        for (int32_t i = 0; i < batch->n_proposals; i++) take_proposal(host, &batch->proposals[i]);
    else
        for (int32_t i = 0; i < batch->n_verdicts; i++) take_verdict(host, &batch->verdicts[i]);
    return PF_OK;
}

uint64_t pf_host_idle_ns(const void *user, int32_t slot)
{
    static const uint64_t LEAST_NS = 1000000000;
    const pf_host *host = user;
    const pf_host_sequence *s = &host->sequences[slot];
    const uint64_t idle_ns = pf_host_now_ns(host) - s->touched_ns;
    return s->is_open && !s->is_due && idle_ns >= LEAST_NS ? idle_ns : 0;
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

int32_t pf_host_draft_room(const pf_host *host, const pf_host_sequence *s)
{
    return pf_host_draft_room_at(host, s, s->n_committed);
}

int32_t pf_host_draft_room_at(const pf_host *host, const pf_host_sequence *s, int32_t n_committed)
{
    if (s->is_full || n_committed == 0) return 0;
    const int32_t to_commit = s->max_tokens - n_committed;
    if (to_commit <= 0) return 0;
    /* The last token of a proposal is not fed, so the context may be full when it is drawn. */
    const int32_t room = host->config.max_tokens - n_committed + 1;
    return pf_min(pf_min(s->next_draft, room), to_commit > 1 ? to_commit - 1 : 1);
}

void pf_host_begin_proposal(const pf_host *host, const pf_host_sequence *s, pf_proposal *out)
{
    *out = (pf_proposal){ 0 };
    pf_stream_answerer_propose(host->answer.stream, s->slot, out);
}

void pf_host_propose(pf_host *host, pf_host_sequence *s, const pf_proposal *proposal)
{
    pf_batch *batch = &host->answer.batch;
    batch->proposals[batch->n_proposals++] = *proposal;
    s->is_due = false;
}

void pf_host_commit(pf_host *host, pf_host_sequence *s, pf_verdict verdict)
{
    pf_batch *batch = &host->answer.batch;
    verdict.tokens = s->tokens + s->n_committed;
    pf_stream_answerer_commit(host->answer.stream, s->slot, verdict.n_tokens, &verdict);
    batch->verdicts[batch->n_verdicts++] = verdict;
    s->n_committed += verdict.n_tokens;
    s->n_drafted = 0;
    s->is_due = false;
    s->is_ended = verdict.finish != PF_FINISH_NONE;
}

/* ---- collect --------------------------------------------------------------------------------------------------- */

static int32_t count_answers(const pf_host *host)
{
    return host->answer.batch.n_proposals + host->answer.batch.n_verdicts;
}

static pf_host_turn turn_of(pf_host *host, int32_t slot, int32_t *n_tokens)
{
    const pf_host_sequence *s = &host->sequences[slot];
    host->n_turns++;
    return s->is_open ? host->role->turn(host, s, n_tokens) : PF_HOST_IDLE;
}

static void run(pf_host *host)
{
    if (host->role->run) host->role->run(host);
}

/* Forget those that need nothing, until their next message; but what their models have given is told first. */
static void forget_idle(pf_host *host)
{
    int32_t n_tokens, n_kept = 0;
    pf_slot_list *active = &host->active;
    for (int32_t i = 0; i < active->n; i++) {
        const int32_t slot = active->slots[i];
        active->has[slot] = turn_of(host, slot, &n_tokens) != PF_HOST_IDLE || host->sequences[slot].invalid.n_rows > 0;
        if (active->has[slot]) active->slots[n_kept++] = slot;
    }
    active->n = n_kept;
}

/* Entries of a kind that the answer in the making still takes. */
static int32_t answer_room(const pf_host *host)
{
    const pf_batch *batch = &host->answer.batch;
    const int32_t n_refusals = host->role->refuses_in_answer ? batch->n_refusals : 0;
    return PF_MAX_BATCH_SEQUENCES - count_answers(host) - n_refusals;
}

/* Answer all that are ready, as many as an answer takes; of more, those behind the last one first next time. */
static void answer_ready(pf_host *host)
{
    const pf_slot_list *active = &host->active;
    int32_t room = answer_room(host);
    const int32_t first = pf_slot_list_from(active, host->next_answer);
    host->next_answer = 0;
    for (int32_t i = 0; i < active->n; i++) {
        const int32_t slot = active->slots[(first + i) % active->n];
        pf_host_sequence *s = &host->sequences[slot];
        int32_t n_tokens = 0;
        if (turn_of(host, slot, &n_tokens) != PF_HOST_READY) continue;
        if (room-- == 0) {
            host->next_answer = slot;
            break;
        }
        if (host->role->add(host, s)) continue;
        run(host);
        (void)host->role->add(host, s);
    }
    run(host);
}

/* One pass over prompts, of each in turn: a part of one, or the ends of as many as fit. Whether there was any. */
static bool run_prompts(pf_host *host)
{
    const pf_slot_list *active = &host->active;
    bool any = false;
    int32_t room = answer_room(host);
    for (int32_t i = 0, first = pf_slot_list_from(active, host->next_prompt); i < active->n; i++) {
        const int32_t slot = active->slots[(first + i) % active->n];
        pf_host_sequence *s = &host->sequences[slot];
        int32_t n_tokens = 0;
        const pf_host_turn turn = turn_of(host, slot, &n_tokens);
        if (turn != PF_HOST_CHUNK && turn != PF_HOST_END) continue;
        if (turn == PF_HOST_CHUNK && any) break;
        if (turn == PF_HOST_END && (room-- == 0 || !host->role->add(host, s))) break;
        any = true;
        host->next_prompt = (slot + 1) % host->config.max_sequences;
        if (turn == PF_HOST_END) continue;
        host->role->feed(host, s, n_tokens);
        return true;
    }
    if (any) run(host);
    return any;
}

static bool read_prompts(pf_host *host)
{
    const uint64_t start = pf_host_now_ns(host);
    const bool any = run_prompts(host);
    if (any) host->read_ns += pf_host_now_ns(host) - start;
    return any;
}

static bool has_answer(const pf_host *host)
{
    const pf_batch *batch = &host->answer.batch;
    return count_answers(host) + batch->n_prefix_requests + batch->n_refusals > 0;
}

/* What is ready, and a pass over a prompt: before it where it is due, after it where nothing was ready. Whether a prompt had
 * a pass. */
static bool compute(pf_host *host)
{
    forget_idle(host);
    if (answer_room(host) == 0) return false; /* computing may refuse as many as it answers */
    bool has_read = host->prompts_are_due && read_prompts(host);
    answer_ready(host);
    const bool has_answered = has_answer(host);
    if (!has_read && !has_answered && !pf_stop_is_due(&host->config.stop)) has_read = read_prompts(host);
    host->prompts_are_due = !has_read && has_answered;
    return has_read;
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    pf_host *host = host_of(peer);
    pf_answer_begin(&host->answer);
    const uint64_t start = pf_host_now_ns(host);
    bool has_computed = false;
    host->read_ns = 0;
    do {
        const bool has_read = compute(host);
        has_computed |= has_read || count_answers(host) > 0;
        if (host->config.least_answer_ns > 0 && count_answers(host) > 0)
            pf_stop_or_wait(&host->config.stop, start + host->config.least_answer_ns);
        if (has_computed) host->answer.batch.timing.compute_ns = pf_host_now_ns(host) - start;
        if (pf_answer_hand_out(&host->answer, out)) return PF_OK;
        if (pf_stop_is_due(&host->config.stop))
            return pf_fail(error, PF_CANCELLED, "the %s was told to stop", host->role->name);
        if (!has_read) return pf_fail(error, PF_CANCELLED, "nothing was asked of the %s", host->role->name);
    } while (pf_host_now_ns(host) < deadline_ns);
    *out = &host->answer.batch; /* empty: it is still computing */
    return PF_OK;
}

static bool work_ahead(pf_peer *peer)
{
    pf_host *host = host_of(peer);
    if (!host->role->work_ahead || pf_stop_is_due(&host->config.stop)) return false;
    forget_idle(host);
    for (int32_t i = 0, n_tokens = 0; i < host->active.n; i++)
        if (turn_of(host, host->active.slots[i], &n_tokens) != PF_HOST_IDLE) return false;
    return host->role->work_ahead(host);
}

/* ---- the rest of a peer ---------------------------------------------------------------------------------------- */

static pf_status get_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)error;
    *out = host_of(peer)->info;
    return PF_OK;
}

static int32_t count_backlog(const pf_peer *peer)
{
    const pf_host *host = (const pf_host *)peer;
    if (!host->role->unread) return -1;
    int32_t n = 0;
    for (int32_t i = 0; i < host->active.n; i++) {
        const pf_host_sequence *s = &host->sequences[host->active.slots[i]];
        if (s->is_open && s->is_due) n += host->role->unread(host, s);
    }
    return n;
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    const pf_host *host = (const pf_host *)peer;
    const int32_t slot = pf_stream_answerer_find(host->answer.stream, sequence);
    return slot >= 0 && host->sequences[slot].is_due;
}

/* Of several sequences the first row is that of the lowest position. */
static void take_invalid_logits(pf_peer *peer, pf_invalid_logits *out)
{
    const pf_host *host = host_of(peer);
    pf_invalid_logits all = { 0 };
    for (int32_t i = 0; i < host->active.n; i++) {
        pf_invalid_logits *of = &host->sequences[host->active.slots[i]].invalid;
        if (of->n_rows == 0) continue;
        const int64_t n_rows = all.n_rows + of->n_rows;
        if (all.n_rows == 0 || of->first_position < all.first_position) all = *of;
        all.n_rows = n_rows;
        *of = (pf_invalid_logits){ 0 };
    }
    *out = all;
}

static void destroy(pf_peer *peer)
{
    pf_host *host = host_of(peer);
    for (int32_t i = 0; host->sequences && i < host->config.max_sequences; i++) end_sequence(host, &host->sequences[i]);
    if (host->role->destroy) host->role->destroy(host);
    pf_stream_answerer_destroy(host->answer.stream);
    pf_arena_destroy(&host->arena);
    free(host);
}

static const pf_peer_ops peer_ops = {
    .submit = submit,
    .collect = collect,
    .info = get_info,
    .destroy = destroy,
    .backlog = count_backlog,
    .owes = owes,
    .check_open = check_open,
    .take_invalid_logits = take_invalid_logits,
    .work_ahead = work_ahead,
};

bool pf_host_get_figures(const pf_peer *peer, pf_model_figures *out)
{
    peer = pf_peer_model(peer);
    if (!peer || peer->ops != &peer_ops) return false;
    const pf_host *host = (const pf_host *)peer;
    *out = (pf_model_figures){ 0 };
    if (host->role->figures) host->role->figures(host, out);
    return true;
}

pf_prepared_answers *pf_host_prepared(const pf_peer *peer)
{
    return peer->ops == &peer_ops ? ((const pf_host *)peer)->prepared : NULL;
}

int32_t pf_host_unread(const pf_peer *peer, uint64_t sequence)
{
    if (peer->ops != &peer_ops) return -1;
    const pf_host *host = (const pf_host *)peer;
    const int32_t slot = host->role->unread ? pf_stream_answerer_find(host->answer.stream, sequence) : -1;
    return slot >= 0 ? host->role->unread(host, &host->sequences[slot]) : -1;
}

uint64_t pf_host_read_ns(const pf_peer *peer)
{
    return peer->ops == &peer_ops ? ((const pf_host *)peer)->read_ns : 0;
}

uint64_t pf_host_rests_until_ns(const pf_peer *peer)
{
    const pf_host *host = (const pf_host *)peer;
    return peer->ops == &peer_ops && host->role->rests_until_ns ? host->role->rests_until_ns(host) : 0;
}

/* ---- creation -------------------------------------------------------------------------------------------------- */

static pf_host_sequence lay_out_sequence(const pf_host *host, int32_t slot, pf_arena *arena)
{
    const size_t n_declared = host->role->declares ? (size_t)host->config.max_draft : 0;
    return (pf_host_sequence){
        .slot = slot,
        .tokens = pf_arena_take(arena, (size_t)host->config.max_tokens + PF_MAX_DRAFT_TOKENS + 1, sizeof(int32_t)),
        .declared = pf_arena_take(arena, n_declared, sizeof(pf_declared)),
        .ids = pf_arena_take(arena, n_declared * PF_MAX_DECLARED, sizeof(int32_t)),
        .probabilities = pf_arena_take(arena, n_declared * PF_MAX_DECLARED, sizeof(float)),
    };
}

/* Run twice: on a measure, where every pointer is NULL, and on the arena made to that measure. */
static void lay_out(pf_host *host, pf_arena *arena)
{
    const size_t n = (size_t)host->config.max_sequences;
    pf_batch *batch = &host->answer.batch;
    if (host->role->lay_out) host->role->lay_out(host, arena);
    host->sequences = pf_arena_take(arena, n, sizeof *host->sequences);
    host->active = pf_slot_list_lay_out(host->config.max_sequences, arena);
    batch->proposals = pf_arena_take(arena, n, sizeof *batch->proposals);
    batch->verdicts = pf_arena_take(arena, n, sizeof *batch->verdicts);
    pf_answer_lay_out(&host->answer, arena);
    for (int32_t slot = 0; slot < host->config.max_sequences; slot++) {
        const pf_host_sequence s = lay_out_sequence(host, slot, arena);
        if (host->sequences) host->sequences[slot] = s;
    }
}

static pf_status check_config(const pf_host_role *role, const pf_host_config *config, pf_error *error)
{
    if (config->max_sequences < 1 || config->max_sequences > PF_MAX_OPEN_SEQUENCES)
        return pf_fail(error, PF_INVALID, "the %s's max_sequences is %d, expected 1 to %d", role->name,
                       config->max_sequences, PF_MAX_OPEN_SEQUENCES);
    if (config->max_draft < 1 || config->max_draft > PF_MAX_DRAFT_TOKENS)
        return pf_fail(error, PF_INVALID, "the %s's max_draft is %d, expected 1 to %d", role->name, config->max_draft,
                       PF_MAX_DRAFT_TOKENS);
    if (config->max_tokens < 1 || config->max_tokens > LONGEST)
        return pf_fail(error, PF_INVALID, "the %s's max_tokens is %d, expected 1 to %d", role->name, config->max_tokens,
                       LONGEST);
    return PF_OK;
}

static pf_status make_memory(pf_host *host)
{
    pf_arena measure = pf_arena_measure();
    lay_out(host, &measure);
    PF_TRY(pf_arena_create(measure.used, &host->arena));
    pf_arena_populate(&host->arena, PF_ARENA_FIRST_BYTES, NULL);
    lay_out(host, &host->arena);
    return pf_stream_answerer_create(host->config.max_sequences, &host->answer.stream);
}

pf_status pf_host_create(pf_host *host, const pf_host_role *role, const pf_host_config *config, pf_peer **out,
                         pf_error *error)
{
    host->peer.ops = &peer_ops;
    host->role = role;
    host->config = *config;
    if (config->info) host->info = *config->info;
    host->config.info = &host->info;
    pf_status status = check_config(role, config, error);
    if (status == PF_OK) {
        status = make_memory(host);
        if (status != PF_OK)
            status = pf_fail(error, status, "no memory for the %s's %d sequences", role->name, config->max_sequences);
    }
    if (status != PF_OK) {
        destroy(&host->peer);
        return status;
    }
    *out = &host->peer;
    return PF_OK;
}

size_t pf_host_reserved_bytes(const pf_peer *peer)
{
    return peer->ops == &peer_ops ? ((const pf_host *)peer)->arena.size : 0;
}
