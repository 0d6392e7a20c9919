#include "worker_drafts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH_TOKENS = 700000 }; /* below the 4 MiB that servers take */
static const uint64_t DEFAULT_WAIT_NS = 250000000;
static const uint64_t UNANSWERED_NS = 1000000000; /* a verdict without an answer counts as lost after this */
static const uint64_t REFUSED_NS = 1000000000;    /* a text that was refused is opened again after this */

typedef struct {
    uint64_t sequence; /* 0: never opened */
    uint32_t incarnation;
    bool is_open;   /* the worker has it, as far as is known */
    uint64_t round; /* of the next verdict */

    int32_t *told; /* [n_told] committed tokens that the worker was told */
    int32_t *read; /* [n_told] as it may read them */
    int32_t n_told, capacity;

    bool is_asked; /* a verdict is out that has no answer yet */
    uint64_t asked_ns;
    uint64_t off_until_ns; /* not asked before */

    int32_t answer[PF_MAX_DRAFT_TOKENS]; /* [n_answer] the last proposal, for the tokens from answer_base on */
    int32_t n_answer, answer_base;
} text;

struct pfd_client {
    pfd_options options; /* texts: unset */
    char *address;
    pf_peer *worker;
    pf_model_info info;
    int32_t excluded[2 * PF_MAX_EXCLUDED];
    int32_t n_excluded;
    text *texts; /* [options.n_texts] */

    pf_open *opens;       /* [n_texts] of the batch of a step */
    pf_verdict *verdicts; /* likewise */
    pf_close *closes;     /* likewise */
    int32_t n_closes;     /* that the next batch has */

    uint64_t stalled_ns; /* since when the worker is silent; 0: it is not */
    uint64_t drafted_ns; /* when the last step had its drafts: what follows is the verification */
    uint32_t told_of;    /* bits of the kinds of trouble that were warned of */
    pfd_figures figures;
};

/* ---- trouble ------------------------------------------------------------------------------------------------------ */

enum { GONE = 0, REFUSED = 1, WRONG = 2 };

static void warn_once(pfd_client *client, int kind, const char *what)
{
    if (client->told_of & 1u << kind || !client->options.warn) return;
    client->told_of |= 1u << kind;
    char sentence[512];
    snprintf(sentence, sizeof sentence, "pilotfish worker %s: %s; decoding goes on without it", client->address, what);
    client->options.warn(client->options.user, sentence);
}

static void lose(text *t)
{
    t->is_open = t->is_asked = false;
    t->n_answer = 0;
}

static void lose_all(pfd_client *client)
{
    pf_error why = { .text = "it is gone" };
    pf_peer_why(client->worker, &why);
    warn_once(client, GONE, why.text);
    for (int32_t i = 0; i < client->options.n_texts; i++) lose(&client->texts[i]);
    client->n_closes = 0;
}

/* ---- connecting --------------------------------------------------------------------------------------------------- */

static pf_status fail(pf_error *error, pf_status status, const char *sentence)
{
    if (error) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "%s", sentence);
    }
    return status;
}

static pf_status check(const pfd_options *o, pf_error *error)
{
    char sentence[128] = "";
    if (!o->address)
        snprintf(sentence, sizeof sentence, "no address, expected host:port or unix:/path");
    else if (o->n_texts < 1 || o->n_texts > PF_MAX_BATCH_SEQUENCES)
        snprintf(sentence, sizeof sentence, "%d texts, expected 1 to %d", o->n_texts, PF_MAX_BATCH_SEQUENCES);
    else if (o->max_draft < 1 || o->max_draft > PF_MAX_DRAFT_TOKENS)
        snprintf(sentence, sizeof sentence, "max_draft is %d, expected 1 to %d", o->max_draft, PF_MAX_DRAFT_TOKENS);
    return sentence[0] ? fail(error, PF_INVALID, sentence) : PF_OK;
}

static pf_status compare_vocabularies(pfd_client *client, pf_error *error)
{
    pf_model_info *target = calloc(1, sizeof *target);
    if (!target) return fail(error, PF_NOMEM, "out of memory");
    target->vocab_size = client->options.vocab_size;
    target->texts = &client->options.texts;
    snprintf(target->model_id, sizeof target->model_id, "of this engine");
    pf_error warning = { 0 };
    const pf_status status =
        pf_vocabulary_match(&client->info, target, client->excluded, &client->n_excluded, &warning, error);
    if (status == PF_OK && warning.text[0] && client->options.warn)
        client->options.warn(client->options.user, warning.text);
    free(target);
    client->options.texts = (pf_vocab_texts){ 0 };
    return status;
}

static pf_status set_up(pfd_client *client, pf_error *error)
{
    const size_t n = (size_t)client->options.n_texts;
    client->texts = calloc(n, sizeof *client->texts);
    client->opens = calloc(n, sizeof *client->opens);
    client->verdicts = calloc(n, sizeof *client->verdicts);
    client->closes = calloc(n, sizeof *client->closes);
    client->address = strdup(client->options.address);
    if (!client->address || !client->texts || !client->opens || !client->verdicts || !client->closes)
        return fail(error, PF_NOMEM, "out of memory");
    pf_connect_options connect = PF_INIT(pf_connect_options);
    connect.must_answer = true;
    pf_status status = pf_connect_drafter(client->address, &connect, &client->worker, error);
    if (status == PF_OK) status = pf_peer_info(client->worker, &client->info, error);
    if (status == PF_OK) status = compare_vocabularies(client, error);
    return status;
}

pf_status pfd_connect(const pfd_options *options, pfd_client **out, pf_error *error)
{
    *out = NULL;
    const pf_status valid = check(options, error);
    if (valid != PF_OK) return valid;
    pfd_client *client = calloc(1, sizeof *client);
    if (!client) return fail(error, PF_NOMEM, "out of memory");
    client->options = *options;
    if (client->options.wait_ns == 0) client->options.wait_ns = DEFAULT_WAIT_NS;
    const pf_status status = set_up(client, error);
    if (status != PF_OK) {
        pfd_close(client);
        return status;
    }
    *out = client;
    return PF_OK;
}

void pfd_close(pfd_client *client)
{
    if (!client) return;
    pf_peer_destroy(client->worker); /* closes what is open */
    for (int32_t i = 0; client->texts && i < client->options.n_texts; i++) {
        free(client->texts[i].told);
        free(client->texts[i].read);
    }
    free(client->texts);
    free(client->opens);
    free(client->verdicts);
    free(client->closes);
    free(client->address);
    free(client);
}

/* ---- a step: what is told ----------------------------------------------------------------------------------------- */

static int32_t row_length(const pfd_row *row)
{
    return row->n_tokens + 1;
}

static int32_t token_of(const pfd_row *row, int32_t i)
{
    return i < row->n_tokens ? row->tokens[i] : row->last;
}

/* Whether the row's text begins with what the worker was told. */
static bool continues(const text *t, const pfd_row *row)
{
    const int32_t n = t->n_told <= row->n_tokens ? t->n_told : row->n_tokens;
    if (t->n_told > row_length(row)) return false;
    if (t->n_told == row_length(row) && t->told[n] != row->last) return false;
    return n == 0 || memcmp(t->told, row->tokens, (size_t)n * sizeof *t->told) == 0;
}

/* An id that the draft's embedding has no row for becomes 0: what it drafts is a guess in any case. */
static int32_t readable(const pfd_client *client, int32_t id)
{
    const int32_t n_ids = client->info.n_ids ? client->info.n_ids : client->info.vocab_size;
    return id >= 0 && (client->info.any_vocabulary || id < n_ids) ? id : 0;
}

static bool reserve(text *t, int32_t n)
{
    if (n <= t->capacity) return true;
    const int32_t capacity = n + n / 2 + 64;
    int32_t *told = realloc(t->told, (size_t)capacity * sizeof *told);
    if (told) t->told = told;
    int32_t *read = realloc(t->read, (size_t)capacity * sizeof *read);
    if (read) t->read = read;
    if (!told || !read) return false;
    t->capacity = capacity;
    return true;
}

/* The first n tokens of the row are told, those before `from` have been. */
static void tell(const pfd_client *client, text *t, const pfd_row *row, int32_t from, int32_t n)
{
    for (int32_t i = from; i < n; i++) {
        t->told[i] = token_of(row, i);
        t->read[i] = readable(client, t->told[i]);
    }
    t->n_told = n;
}

/* The worker reads all tokens but the last, which the verdict commits. */
static void open_text(pfd_client *client, text *t, pf_batch *batch)
{
    if (t->sequence == 0) t->sequence = pf_peer_new_sequence(client->worker, NULL);
    lose(t);
    t->incarnation++;
    t->round = 0;
    t->is_open = true;
    batch->opens[batch->n_opens++] = (pf_open){
        .sequence = t->sequence,
        .incarnation = t->incarnation,
        .tokens = t->read,
        .n_tokens = t->n_told,
        .method = PF_METHOD_GREEDY,
        .max_draft = client->options.max_draft,
        .adaptive_draft = client->options.adaptive,
        .excluded = client->excluded,
        .n_excluded = client->n_excluded,
    };
    client->figures.n_opens++;
    client->figures.n_told += t->n_told;
}

/* The verdict by which the worker hears of the row's tokens from `base` on. The last of them is the target's own, unless the text
 * ends with it: then it may be a drafted one. */
static pf_verdict make_verdict(pfd_client *client, text *t, const pfd_row *row, int32_t base, pf_finish finish)
{
    const int32_t n_new = row_length(row) - base;
    tell(client, t, row, base, base + n_new);
    client->figures.n_told += n_new;
    const int32_t most = t->answer_base != base ? 0 : finish != PF_FINISH_NONE ? n_new : n_new - 1;
    int32_t n_accepted = 0;
    while (n_accepted < most && n_accepted < t->n_answer && t->answer[n_accepted] == t->told[base + n_accepted])
        n_accepted++;
    return (pf_verdict){ .sequence = t->sequence,
                         .incarnation = t->incarnation,
                         .round = t->round++,
                         .base = base,
                         .tokens = t->read + base,
                         .n_tokens = n_new,
                         .n_accepted = n_accepted,
                         .finish = finish };
}

/* Whether one verdict tells the worker the rest of the row. */
static bool goes_on(const text *t, const pfd_row *row)
{
    return t->is_open && continues(t, row) && row_length(row) - t->n_told <= PF_MAX_VERDICT_TOKENS;
}

/* Adds what the worker has to hear of this row, which asks for a proposal. *room: tokens that the batch may still take. */
static void ask(pfd_client *client, text *t, const pfd_row *row, pf_batch *batch, int32_t *room, uint64_t now_ns)
{
    const int32_t length = row_length(row);
    if (row->max_draft < 1 || now_ns < t->off_until_ns || length >= client->info.max_context) return;
    if (t->is_asked && now_ns - t->asked_ns < UNANSWERED_NS && continues(t, row)) return;
    const bool is_known = goes_on(t, row);
    if (is_known && t->n_told == length) return; /* its answer is there, or was lost */
    const int32_t base = is_known ? t->n_told : length - 1, n_sent = is_known ? length - base : length;
    if (n_sent > *room || !reserve(t, length)) return;
    *room -= n_sent;
    if (!is_known) {
        tell(client, t, row, 0, base);
        open_text(client, t, batch);
    }
    pf_verdict *verdict = &batch->verdicts[batch->n_verdicts++];
    *verdict = make_verdict(client, t, row, base, PF_FINISH_NONE);
    if (row->max_draft < client->options.max_draft) verdict->next_draft = row->max_draft;
    if (is_known)
        verdict->propose_within_us = (uint32_t)(client->options.wait_ns / 1000 / 8 * 7); /* the rest is for the way */
    t->is_asked = true;
    t->asked_ns = now_ns;
    t->n_answer = 0;
}

/* ---- a step: what comes ------------------------------------------------------------------------------------------- */

static text *text_of(const pfd_client *client, uint64_t sequence, uint32_t incarnation)
{
    for (int32_t i = 0; i < client->options.n_texts; i++) {
        text *t = &client->texts[i];
        if (t->sequence == sequence && t->is_open && t->incarnation == incarnation) return t;
    }
    return NULL;
}

static void take_proposal(pfd_client *client, const pf_proposal *p)
{
    text *t = text_of(client, p->sequence, p->incarnation);
    if (!t || !t->is_asked || p->round != t->round || p->base != t->n_told) return;
    t->is_asked = false;
    t->n_answer = 0;
    t->answer_base = p->base;
    if (p->parents) {
        warn_once(client, WRONG, "it proposes a tree, which was not asked for");
        return;
    }
    for (int32_t i = 0; i < p->n_tokens; i++)
        if (p->tokens[i] < 0 || p->tokens[i] >= client->options.vocab_size) {
            warn_once(client, WRONG, "it proposes a token that the target does not have");
            return;
        }
    t->n_answer = p->n_tokens < PF_MAX_DRAFT_TOKENS ? p->n_tokens : PF_MAX_DRAFT_TOKENS;
    if (t->n_answer > 0) memcpy(t->answer, p->tokens, (size_t)t->n_answer * sizeof *t->answer);
}

static void take(pfd_client *client, const pf_batch *answer, uint64_t now_ns)
{
    client->stalled_ns = 0;
    for (int32_t i = 0; i < answer->n_proposals; i++) take_proposal(client, &answer->proposals[i]);
    for (int32_t i = 0; i < answer->n_prefix_requests; i++) {
        text *t = text_of(client, answer->prefix_requests[i].sequence, answer->prefix_requests[i].incarnation);
        if (t) lose(t);
    }
    for (int32_t i = 0; i < answer->n_refusals; i++) {
        const pf_refusal *refusal = &answer->refusals[i];
        text *t = text_of(client, refusal->sequence, refusal->incarnation);
        if (!t) continue;
        warn_once(client, REFUSED, refusal->text);
        lose(t);
        t->off_until_ns = now_ns + REFUSED_NS;
    }
}

static bool is_answered(const pfd_client *client, const pfd_row *rows, int32_t n_rows)
{
    for (int32_t i = 0; i < n_rows; i++)
        if (client->texts[rows[i].text].is_asked) return false;
    return true;
}

/* Waits for the answers to these rows. Reads what has come where the worker is silent already. */
static void await(pfd_client *client, const pfd_row *rows, int32_t n_rows, uint64_t begin_ns)
{
    const uint64_t deadline_ns = client->stalled_ns ? 0 : begin_ns + client->options.wait_ns;
    for (;;) {
        const pf_batch *answer = NULL;
        const pf_status status = pf_peer_collect(client->worker, deadline_ns, &answer, NULL);
        const uint64_t now_ns = pf_now_ns();
        if (status == PF_OK) {
            take(client, answer, now_ns);
            if (is_answered(client, rows, n_rows) || now_ns >= begin_ns + client->options.wait_ns) return;
        } else if (status == PF_CANCELLED) {
            if (deadline_ns == 0) return;
            client->figures.n_late++;
            client->stalled_ns = now_ns;
            return;
        } else {
            lose_all(client);
            return;
        }
    }
}

/* What the last answer proposes behind the row's tokens: one that came late counts from where the target has come to. */
static void give(pfd_client *client, text *t, pfd_row *row)
{
    const int32_t length = row_length(row), n_past = length - t->answer_base;
    if (n_past < 0 || n_past >= t->n_answer) return;
    for (int32_t i = 0; i < n_past; i++)
        if (t->answer[i] != token_of(row, t->answer_base + i)) return;
    const int32_t n_left = t->n_answer - n_past;
    const int32_t most = row->max_draft < PF_MAX_DRAFT_TOKENS ? row->max_draft : PF_MAX_DRAFT_TOKENS;
    row->n_draft = n_left < most ? n_left : most;
    if (row->n_draft < 1) return;
    memcpy(row->draft, t->answer + n_past, (size_t)row->n_draft * sizeof *row->draft);
    client->figures.n_drafted += row->n_draft;
}

/* ---- a step ------------------------------------------------------------------------------------------------------- */

static bool may_ask(const pfd_client *client, uint64_t now_ns)
{
    return client->stalled_ns == 0 || now_ns - client->stalled_ns >= UNANSWERED_NS;
}

void pfd_draft(pfd_client *client, pfd_row *rows, int32_t n_rows)
{
    const uint64_t begin_ns = pf_now_ns();
    client->figures.n_steps++;
    for (int32_t i = 0; i < n_rows; i++) rows[i].n_draft = 0;
    pf_batch batch = { .opens = client->opens,
                       .verdicts = client->verdicts,
                       .closes = client->closes,
                       .n_closes = client->n_closes,
                       .timing.compute_ns = client->drafted_ns ? begin_ns - client->drafted_ns : 0 };
    const bool asks = may_ask(client, begin_ns);
    int32_t room = MAX_BATCH_TOKENS;
    for (int32_t i = 0; asks && i < n_rows; i++)
        ask(client, &client->texts[rows[i].text], &rows[i], &batch, &room, begin_ns);
    pf_status status = PF_OK;
    if (batch.n_verdicts > 0 || batch.n_closes > 0) {
        if (asks) client->stalled_ns = 0;
        status = pf_peer_submit(client->worker, &batch);
        client->n_closes = 0;
    }
    if (status == PF_LIMIT) /* it is far behind, and has not taken the batch */
        for (int32_t i = 0; i < n_rows; i++) lose(&client->texts[rows[i].text]);
    else if (status != PF_OK)
        lose_all(client);
    else if (!is_answered(client, rows, n_rows))
        await(client, rows, n_rows, begin_ns);
    for (int32_t i = 0; i < n_rows; i++) give(client, &client->texts[rows[i].text], &rows[i]);
    client->drafted_ns = pf_now_ns();
    client->figures.wait_ns += client->drafted_ns - begin_ns;
}

void pfd_accept(pfd_client *client, int32_t n_accepted)
{
    client->figures.n_accepted += n_accepted;
}

/* What the last round made of its proposal. */
static void send_last_verdict(pfd_client *client, text *t, const pfd_row *row)
{
    if (!goes_on(t, row) || t->n_told == row_length(row) || t->is_asked || !reserve(t, row_length(row))) return;
    pf_verdict verdict = make_verdict(client, t, row, t->n_told, PF_FINISH_STOP);
    const pf_batch batch = { .verdicts = &verdict, .n_verdicts = 1 };
    if (pf_peer_submit(client->worker, &batch) != PF_OK) lose(t);
}

void pfd_end_text(pfd_client *client, int32_t index, const pfd_row *row)
{
    text *t = &client->texts[index];
    if (row) send_last_verdict(client, t, row);
    if (t->is_open) client->closes[client->n_closes++] = (pf_close){ .sequence = t->sequence };
    lose(t);
    t->sequence = 0; /* answers to it may be on the way */
    t->incarnation = 0;
    t->n_told = 0;
    t->off_until_ns = 0;
}

void pfd_get_figures(const pfd_client *client, pfd_figures *out)
{
    *out = client->figures;
}
