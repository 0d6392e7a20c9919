/*
 * Texts for a request: its prompts as ids, a choice for each text, a task for each choice.
 *
 *      exchange -> completion -> choice 0 .. n-1, each on a thread with a session
 *                                  |  text stream: whole characters, up to a stop text
 *                                  +-> events (stream), or the document once the last choice has ended
 *
 * A stream begins with the first token, so that what fails before it has its status of HTTP. Text that the client does not take is
 * held back once UNSENT_BYTES wait, and then sent in one piece: what waits for a slow client is bounded by that and its text.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/sampling_parameters.h"
#include "base/utf8.h"
#include "serve/api_parts.h"
#include "serve/output_form.h"
#include "serve/reply.h"
#include "serve/tool_calls.h"
#include "tokenizer/decode/text_stream.h"

enum { UNSENT_BYTES = 256 << 10 };

typedef struct completion completion;

typedef struct {
    pf_task task; /* the first member */
    completion *of;
    const pf_tokens *prompt;
    uint64_t seed;
    const pf_result *result; /* of the session that generates it */
    pf_text_stream text;
    pf_status text_status;
    pf_reply_choice reply;
    pf_constraint *constraint;   /* NULL: it may be any text */
    pf_token_logprobs *logprobs; /* [reply.n_logprobs] */
    int32_t logprobs_capacity;
    pf_tool_scan scan;
    pf_reply_part *parts; /* [reply.n_parts] its calls own their texts */
    int32_t parts_capacity;
    pf_reply_progress progress;
    size_t n_shown; /* bytes of the text that were made into events, or are held back by the scan */
    bool opened;    /* its first event is sent */
    pf_bytes events;
} choice;

static const struct {
    const char *prefix; /* of ids */
    const pf_reply_format *format;
} kinds[] = {
    [PF_API_COMPLETION] = { "cmpl-", &pf_reply_completion },
    [PF_API_CHAT] = { "chatcmpl-", &pf_reply_chat },
    [PF_API_RESPONSE] = { "resp_", &pf_reply_response },
    [PF_API_MESSAGE] = { "msg_", &pf_reply_message },
};

struct completion {
    pf_api *api;
    pf_http_exchange *exchange; /* retained */
    const pf_reply_format *format;
    pf_api_request request;
    pf_reply_head head;
    char id[48];
    int64_t n_events;
    uint64_t client;     /* of its texts: a number of its own, so that none is ever proposed to another request */
    pf_tokens *prompts;  /* [request.n_prompts] */
    pf_grammar *grammar; /* of its texts; NULL: any */
    choice *choices;     /* [n_choices] */
    int32_t n_choices;
    pthread_mutex_t mutex;
    int32_t n_left;
    pf_api_error error; /* the first */
    bool streams;       /* the stream has begun */
};

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static void end_part(pf_reply_part *part)
{
    free((char *)(uintptr_t)part->id);
    free((char *)(uintptr_t)part->name);
    free((char *)(uintptr_t)part->arguments);
}

static void destroy(completion *c)
{
    for (int32_t i = 0; i < c->n_choices && c->choices; i++) {
        choice *ch = &c->choices[i];
        for (int32_t k = 0; k < ch->reply.n_parts; k++) end_part(&ch->parts[k]);
        free(ch->parts);
        free(ch->logprobs);
        pf_constraint_destroy(ch->constraint);
        pf_tool_scan_end(&ch->scan);
        pf_text_stream_end(&ch->text);
        pf_bytes_clear(&ch->events);
    }
    for (int32_t i = 0; i < c->request.n_prompts && c->prompts; i++) pf_tokens_clear(&c->prompts[i]);
    pthread_mutex_destroy(&c->mutex);
    pf_grammar_close(c->grammar);
    pf_api_request_end(&c->request);
    pf_http_release(c->exchange);
    free(c->prompts);
    free(c->choices);
    free(c);
}

static void record(completion *c, const pf_api_error *error)
{
    pthread_mutex_lock(&c->mutex);
    if (c->error.status == 0) c->error = *error;
    pthread_mutex_unlock(&c->mutex);
}

/* ---- events ---------------------------------------------------------------------------------------------------------- */

static void send_events(choice *ch)
{
    completion *c = ch->of;
    pthread_mutex_lock(&c->mutex);
    if (!c->streams) pf_http_begin_stream(c->exchange, "text/event-stream; charset=utf-8");
    c->streams = true;
    pthread_mutex_unlock(&c->mutex);
    pf_http_send(c->exchange, ch->events.data, ch->events.n);
    ch->events.n = 0;
}

/* The end of the piece that begins at `at`: where the mark changes, if that is asked for. A character has the mark of its first
 * byte. */
static size_t piece_end(const choice *ch, size_t at, size_t end)
{
    const bool drafted = ch->text.drafted[at];
    if (!ch->of->request.marks_drafted) return end;
    while (at < end && ch->text.drafted[at] == drafted) {
        bool valid;
        at += pf_utf8_length(ch->text.bytes.data + at, end - at, &valid);
    }
    return at;
}

/* Room for another part; its place behind those that are there. */
static pf_status reserve_part(choice *ch)
{
    enum { USUAL_PARTS = 4 };
    if (ch->reply.n_parts < ch->parts_capacity) return PF_OK;
    const int32_t capacity = ch->parts_capacity > 0 ? 2 * ch->parts_capacity : USUAL_PARTS;
    pf_reply_part *parts = realloc(ch->parts, (size_t)capacity * sizeof *parts);
    if (!parts) return PF_NOMEM;
    ch->reply.parts = ch->parts = parts;
    ch->parts_capacity = capacity;
    return PF_OK;
}

/* Text from `begin` to `end`: more of the last part, where that is one. */
static pf_status add_text(choice *ch, size_t begin, size_t end)
{
    pf_reply_part *last = ch->reply.n_parts > 0 ? &ch->parts[ch->reply.n_parts - 1] : NULL;
    if (last && !last->id && last->end == begin) {
        last->end = end;
    } else {
        PF_TRY(reserve_part(ch));
        ch->parts[ch->reply.n_parts++] = (pf_reply_part){ .begin = begin, .end = end };
    }
    const completion *c = ch->of;
    while (c->request.stream && begin < end) {
        const size_t next = piece_end(ch, begin, end);
        const pf_reply_piece piece = { ch->text.bytes.data + begin, next - begin, ch->text.drafted[begin] };
        PF_TRY(c->format->delta(&c->head, &ch->reply, &piece, &ch->events));
        begin = next;
    }
    return PF_OK;
}

/* Ids of calls are letters and digits, nine as the templates of Mistral want them: a hash of the request's id and the call's place. */
static char *name_call(const choice *ch)
{
    enum { ID_BYTES = 9 };
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const completion *c = ch->of;
    uint64_t hash = c->client ^ ((uint64_t)(uint32_t)ch->reply.index << 32 | (uint32_t)ch->reply.n_calls);
    char *id = calloc(1, ID_BYTES + 1);
    for (int32_t i = 0; id && i < ID_BYTES; i++) {
        hash = (hash ^ hash >> 31) * UINT64_C(0x9e3779b97f4a7c15);
        id[i] = digits[(hash >> 32) % (sizeof digits - 1)];
    }
    return id;
}

static pf_status add_call(choice *ch, pf_tool_part *call)
{
    const completion *c = ch->of;
    pf_reply_part part = { .id = name_call(ch), .name = call->name, .arguments = call->arguments };
    if (!part.id || reserve_part(ch) != PF_OK) {
        end_part(&part);
        return PF_NOMEM;
    }
    ch->parts[ch->reply.n_parts++] = part;
    ch->reply.n_calls++;
    return c->request.stream ? c->format->call(&c->head, &ch->reply, &ch->events) : PF_OK;
}

/* Parts of the text up to `end`, and their events. is_whole: it is all of it. */
static pf_status show(choice *ch, size_t end, bool is_whole)
{
    const completion *c = ch->of;
    pf_tool_part part;
    ch->reply.text = ch->text.bytes.data;
    ch->reply.n_bytes = end;
    if (c->request.stream && !ch->opened) PF_TRY(c->format->open(&c->head, &ch->reply, &ch->events));
    ch->opened = true;
    ch->n_shown = end;
    while (pf_tool_scan_next(&ch->scan, ch->text.bytes.data, end, is_whole, &part))
        PF_TRY(part.is_call ? add_call(ch, &part) : add_text(ch, part.begin, part.end));
    return PF_OK;
}

/* ---- a choice, on a thread with a session ----------------------------------------------------------------------------- */

/* Tokens that are no text have none: they end it. */
static void on_logprobs(void *user, const pf_token_logprobs *logprobs)
{
    enum { USUAL_TOKENS = 64 };
    choice *ch = user;
    if (pf_tokenizer_is_special(ch->of->api->options.tokenizer, logprobs->token)) return;
    if (ch->reply.n_logprobs == ch->logprobs_capacity) {
        const int32_t capacity = ch->logprobs_capacity > 0 ? 2 * ch->logprobs_capacity : USUAL_TOKENS;
        pf_token_logprobs *grown = realloc(ch->logprobs, (size_t)capacity * sizeof *grown);
        if (!grown) {
            ch->text_status = PF_NOMEM;
            return;
        }
        ch->reply.logprobs = ch->logprobs = grown;
        ch->logprobs_capacity = capacity;
    }
    ch->logprobs[ch->reply.n_logprobs++] = *logprobs;
}

static bool on_token(void *user, int32_t token, bool drafted)
{
    choice *ch = user;
    const completion *c = ch->of;
    ch->reply.usage.n_completion++;
    ch->reply.usage.n_cached = ch->result->reused_tokens > 0 ? ch->result->reused_tokens : 0;
    const pf_status status = pf_text_stream_push(&ch->text, token, drafted);
    if (status != PF_OK && status != PF_INVALID) ch->text_status = status; /* an id without a token has no text */
    const size_t ready = pf_text_stream_ready(&ch->text);
    if (c->request.stream && ch->text_status == PF_OK && (ready > ch->n_shown || !ch->opened) &&
        pf_http_unsent_bytes(c->exchange) < UNSENT_BYTES) {
        ch->text_status = show(ch, ready, false);
        if (ch->text_status == PF_OK && ch->events.n > 0) send_events(ch);
    }
    return !ch->text.stopped && ch->text_status == PF_OK;
}

enum { REPEATABLE_DRAFT_LEN = 4 };

/* A length that adapts to the clock gives rejection sampling a different text in every run: with a seed it is fixed. */
static int32_t draft_length(const completion *c, pf_method method)
{
    const int32_t given = c->request.draft_len > 0 ? c->request.draft_len : c->api->options.draft_len;
    const bool rejection = c->request.sampling.temperature > 0.0f && method != PF_METHOD_COUPLED;
    return given == 0 && rejection && c->request.seed_given ? REPEATABLE_DRAFT_LEN : given;
}

/* As asked for, else as the server was told where that is for this temperature. */
static pf_method choose_method(const completion *c)
{
    const pf_method given = c->request.method, otherwise = c->api->options.method;
    const bool fits = c->request.sampling.temperature > 0.0f && otherwise != PF_METHOD_GREEDY;
    return given == PF_METHOD_AUTO && fits ? otherwise : given;
}

/* Each threshold likewise. */
static pf_typical choose_typical(const completion *c)
{
    const pf_typical given = c->request.typical, otherwise = c->api->options.typical;
    return (pf_typical){ .epsilon = given.epsilon > 0.0f ? given.epsilon : otherwise.epsilon,
                         .delta = given.delta > 0.0f ? given.delta : otherwise.delta };
}

static const char *choose_drafter(const completion *c)
{
    if (!c->request.speculates) return NULL;
    return c->request.drafter ? c->request.drafter : c->api->options.drafter;
}

static pf_request make_request(const choice *ch)
{
    const completion *c = ch->of;
    const pf_api_options *o = &c->api->options;
    const int32_t room = o->max_context - ch->prompt->n;
    const bool ends_chat = c->request.kind != PF_API_COMPLETION && !c->request.ignore_eos;
    pf_request request = {
        .size = sizeof request,
        .prompt = ch->prompt->ids,
        .n_prompt = ch->prompt->n,
        .max_new_tokens = c->request.max_tokens > 0 && c->request.max_tokens < room ? c->request.max_tokens : room,
        .sampling = c->request.sampling,
        .method = choose_method(c),
        .typical = choose_typical(c),
        .draft_len = draft_length(c, choose_method(c)),
        .drafter = choose_drafter(c),
        .siblings = c->api->options.siblings,
        .stop_tokens = ends_chat ? o->chat_ends : NULL,
        .n_stop_tokens = ends_chat ? o->n_chat_ends : 0,
        .ignore_eos = c->request.ignore_eos,
        .cancel = pf_http_gone(c->exchange),
        .client = c->client,
        .rules = c->request.rules,
        .on_token = on_token,
        .user = (void *)ch,
    };
    request.sampling.seed = ch->seed;
    request.logprobs = c->request.logprobs;
    request.on_logprobs = on_logprobs;
    if (!ch->constraint) return request;
    request.rules.allow = pf_constraint_allow;
    request.rules.allow_user = ch->constraint;
    request.stop_tokens = o->chat_ends;
    request.n_stop_tokens = o->n_chat_ends;
    return request;
}

static void take_figures(choice *ch, const pf_result *result)
{
    const pf_speculation *s = &result->speculation;
    pf_usage *u = &ch->reply.usage;
    u->rounds = s->rounds;
    u->fallback_rounds = s->fallback_rounds;
    u->drafted = s->drafted;
    u->accepted = s->accepted;
    memcpy(u->drafter, result->drafter, sizeof u->drafter);
    ch->reply.finish = ch->text.stopped ? PF_FINISH_STOP : result->finish;
    ch->reply.stop = ch->text.stopped ? ch->of->request.stops[ch->text.stop] : NULL;
}

static pf_status finish_text(choice *ch)
{
    const completion *c = ch->of;
    PF_TRY(ch->text_status);
    PF_TRY(pf_text_stream_finish(&ch->text));
    PF_TRY(show(ch, ch->text.bytes.n, true));
    if (!c->request.stream) return PF_OK;
    PF_TRY(c->format->close(&c->head, &ch->reply, &ch->events));
    send_events(ch);
    return PF_OK;
}

enum { PAGE_AND_DRAFT_TOKENS = 128 }; /* a page that is begun, and the rows of a proposal */

/* Waits for room of n tokens in the KV cache, behind the texts that asked before. A client that is gone takes none. */
static bool reserve(pf_api *api, int64_t n, const volatile bool *gone)
{
    enum { LOOK_NS = 50 * 1000 * 1000, NS_PER_S = 1000 * 1000 * 1000 };
    const int64_t budget = api->options.kv_tokens;
    pthread_mutex_lock(&api->room_mutex);
    const uint64_t turn = api->n_asked++;
    while (turn != api->n_begun || (!*gone && api->n_reserved > 0 && api->n_reserved + n > budget)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / NS_PER_S;
        until.tv_nsec %= NS_PER_S;
        (void)pthread_cond_timedwait(&api->room_changed, &api->room_mutex, &until);
    }
    const bool takes = !*gone;
    api->n_begun++;
    if (takes) api->n_reserved += n;
    pthread_cond_broadcast(&api->room_changed);
    pthread_mutex_unlock(&api->room_mutex);
    return takes;
}

static void give_back(pf_api *api, int64_t n)
{
    pthread_mutex_lock(&api->room_mutex);
    api->n_reserved -= n;
    pthread_cond_broadcast(&api->room_changed);
    pthread_mutex_unlock(&api->room_mutex);
}

static void generate(choice *ch, int32_t thread)
{
    completion *c = ch->of;
    const pf_api_options *o = &c->api->options;
    const bool plain = o->plain_sessions && !c->request.speculates;
    pf_session *session = (plain ? o->plain_sessions : o->sessions)[thread];
    const pf_request request = make_request(ch);
    pf_result *result = &c->api->results[thread];
    *result = (pf_result){ .size = sizeof *result };
    ch->result = result;
    pf_error why = { 0 };
    const int64_t all = (int64_t)request.n_prompt + request.max_new_tokens + PAGE_AND_DRAFT_TOKENS;
    const int64_t n_reserved = o->kv_tokens > 0 ? (all < o->max_context ? all : o->max_context) : 0;
    const bool has_room = n_reserved == 0 || reserve(c->api, n_reserved, pf_http_gone(c->exchange));
    pf_status status = has_room ? pf_generate(session, &request, result, &why) : PF_CANCELLED;
    if (has_room && n_reserved > 0) give_back(c->api, n_reserved);
    if (status == PF_OK) {
        take_figures(ch, result);
        status = finish_text(ch);
        if (status != PF_OK) pf_error_set(&why, status, "no memory for the text");
    }
    if (status == PF_OK) return;
    pf_api_error error;
    (void)pf_api_refuse(&error, pf_api_status_of(status), NULL, "%s", why.text[0] ? why.text : pf_status_name(status));
    record(c, &error);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------- */

static pf_usage sum_usage(const completion *c)
{
    pf_usage sum = { 0 };
    for (int32_t i = 0; i < c->n_choices; i++) {
        const pf_usage *u = &c->choices[i].reply.usage;
        if (i % c->request.n == 0) {
            sum.n_prompt += u->n_prompt; /* of several choices of a prompt, once */
            sum.n_cached += u->n_cached;
        }
        sum.n_completion += u->n_completion;
        sum.rounds += u->rounds;
        sum.fallback_rounds += u->fallback_rounds;
        sum.drafted += u->drafted;
        sum.accepted += u->accepted;
        memcpy(sum.drafter, u->drafter, sizeof sum.drafter); /* the same of all */
    }
    return sum;
}

static void end_stream(completion *c)
{
    pf_bytes events = { 0 };
    const pf_usage usage = sum_usage(c);
    const pf_status status = c->error.status != 0 ? pf_reply_event(c->request.kind == PF_API_MESSAGE ? "error" : NULL,
                                                                   pf_api_error_shape(c->exchange, &c->error), &events)
                                                  : c->format->end(&c->head, &usage, &events);
    if (status == PF_OK) pf_http_send(c->exchange, events.data, events.n);
    pf_http_end_stream(c->exchange);
    pf_bytes_clear(&events);
}

static void reply_whole(completion *c)
{
    const pf_usage usage = sum_usage(c);
    pf_reply_choice *replies = calloc((size_t)c->n_choices, sizeof *replies);
    for (int32_t i = 0; i < c->n_choices && replies; i++) replies[i] = c->choices[i].reply;
    pf_api_reply_json(c->exchange, 200, replies ? c->format->whole(&c->head, replies, c->n_choices, &usage) : NULL);
    free(replies);
}

static void run_choice(pf_task *task, int32_t thread)
{
    choice *ch = (choice *)task;
    completion *c = ch->of;
    if (thread != PF_TASK_DROPPED)
        generate(ch, thread);
    else
        record(c, &(pf_api_error){ .status = 503, .text = "the server is being shut down" });
    pthread_mutex_lock(&c->mutex);
    const bool is_last = --c->n_left == 0;
    pthread_mutex_unlock(&c->mutex);
    if (!is_last) return;
    if (c->streams)
        end_stream(c);
    else if (c->error.status != 0)
        pf_api_reply_error(c->exchange, &c->error);
    else
        reply_whole(c);
    destroy(c);
}

/* ---- preparing ------------------------------------------------------------------------------------------------------- */

static bool read_prompts(completion *c, pf_api_error *error)
{
    const pf_api_request *r = &c->request;
    for (int32_t i = 0; i < r->n_prompts; i++) {
        pf_tokens *ids = &c->prompts[i];
        const json_t *given = NULL;
        size_t n_bytes = 0;
        const char *text = r->kind != PF_API_COMPLETION ? NULL : pf_api_prompt(r, i, &n_bytes, &given);
        const bool read = r->kind != PF_API_COMPLETION ? pf_api_tokenize_chat(c->api, r->conversation, ids, error)
                          : text                       ? pf_api_tokenize_text(c->api, text, n_bytes, true, ids, error)
                                                       : pf_api_read_ids(c->api, "prompt", given, ids, error);
        if (!read) return false;
    }
    return true;
}

static bool check_length(const completion *c, const pf_tokens *ids, pf_api_error *error)
{
    const char *param = c->request.kind != PF_API_COMPLETION ? "messages" : "prompt";
    const int32_t context = c->api->options.max_context;
    if (ids->n == 0) return pf_api_refuse(error, 400, param, "%s has no tokens, expected at least one", param);
    if (ids->n < context && c->request.max_tokens <= context - ids->n) return true;
    if (c->request.max_tokens > 0)
        (void)pf_api_refuse(error, 400, param,
                            "%d tokens of the prompt and %d new ones are more than the context of %d", ids->n,
                            c->request.max_tokens, context);
    else
        (void)pf_api_refuse(error, 400, param, "%d tokens of the prompt fill the context of %d", ids->n, context);
    error->code = "context_length_exceeded";
    return false;
}

static bool check_rules(const completion *c, pf_api_error *error)
{
    pf_error why = { 0 };
    return pf_logit_rules_check(&c->request.rules, c->api->options.n_ids, &why) == PF_OK ||
           pf_api_refuse(error, 400, "logit_bias", "%s", why.text); /* the rest has been checked as it was read */
}

/* A worker elsewhere says itself what it offers, once the text begins. */
static bool check_drafter(const completion *c, pf_api_error *error)
{
    static const char param[] = "speculative.drafter";
    const pf_api_options *o = &c->api->options;
    const char *asked = c->request.speculates ? c->request.drafter : NULL;
    char offered[PF_MAX_DRAFTERS * (PF_DRAFTER_NAME_BYTES + 1)] = "";
    if (!asked) return true;
    if (!o->plain_sessions)
        return pf_api_refuse(error, 400, param, "%s is %.40s, but there is no drafter here", param, asked);
    for (int32_t i = 0; i < o->n_drafters; i++) {
        if (strcmp(o->drafters[i], asked) == 0) return true;
        pf_list_word(offered, sizeof offered, ", ", o->drafters[i]);
    }
    return o->n_drafters == 0 ||
           pf_api_refuse(error, 400, param, "%s is %.40s, but what is offered is %s", param, asked, offered);
}

static bool draw_seed(pf_api_request *r, pf_api_error *error)
{
    if (r->seed_given || getrandom(&r->sampling.seed, sizeof r->sampling.seed, 0) == (ssize_t)sizeof r->sampling.seed)
        return true;
    return pf_api_refuse(error, 500, "seed", "no seed could be drawn: %s", strerror(errno));
}

/* What is not in the prompt: the text before the new one, where it is asked for. */
static bool begin_text(choice *ch, pf_api_error *error)
{
    enum { USUAL_TOKENS = 256 };
    const completion *c = ch->of;
    static const pf_tokens none = { 0 };
    const pf_tokens *before = c->request.echo ? &none : ch->prompt;
    pf_status status = pf_text_stream_begin(&ch->text, c->api->options.tokenizer, c->request.stops, c->request.n_stops,
                                            before, USUAL_TOKENS);
    if (c->request.echo) {
        ch->text.n_stops = 0;
        for (int32_t i = 0; i < ch->prompt->n && status == PF_OK; i++)
            status = pf_text_stream_push(&ch->text, ch->prompt->ids[i], false);
        if (status == PF_INVALID) status = PF_OK;
        ch->text.n_stops = c->request.n_stops;
    }
    const json_t *tools = json_object_get(c->request.conversation, "tools");
    pf_tool_scan_begin(&ch->scan, tools ? c->api->options.tool_format : PF_TOOLS_NONE, tools);
    if (ch->scan.format != PF_TOOLS_NONE) {
        ch->text.shown = c->api->marks;
        ch->text.n_shown = c->api->n_marks;
    }
    return status == PF_OK || pf_api_refuse(error, pf_api_status_of(status), NULL, "no memory for the text");
}

/* The grammar of the texts, where the request has one. */
static bool make_grammar(completion *c, pf_api_error *error)
{
    pf_api_request *r = &c->request;
    const pf_api_options *o = &c->api->options;
    pf_error why = { 0 };
    if (r->must_call &&
        !pf_api_write_call(o->tool_format, o->tool_names_before, json_object_get(r->conversation, "tools"),
                           r->must_call_of, &r->grammar, error))
        return false;
    if (r->grammar.n == 0) return true;
    const char *param = r->must_call ? "tools" : json_object_get(r->root, "grammar") ? "grammar" : "response_format";
    if (o->n_chat_ends == 0)
        return pf_api_refuse(error, 400, param, "the model has no token that ends a text, which its form needs");
    const pf_status status = pf_grammar_parse(r->grammar.data, r->grammar.n, &c->grammar, &why);
    return status == PF_OK || pf_api_refuse(error, status == PF_NOMEM ? 500 : 400, param, "%s", why.text);
}

static bool constrain(choice *ch, pf_api_error *error)
{
    const completion *c = ch->of;
    const pf_api_options *o = &c->api->options;
    if (!c->grammar) return true;
    const pf_status status =
        pf_constraint_create(c->grammar, &c->api->order, o->chat_ends, o->n_chat_ends, &ch->constraint);
    if (status == PF_FORMAT) return pf_api_refuse(error, 400, "grammar", "no text fits the grammar");
    return status == PF_OK || pf_api_refuse(error, 500, NULL, "no memory for the form of a text");
}

/* Where forms and log-probabilities need the texts of all tokens. */
static bool make_order(const completion *c, pf_api_error *error)
{
    const bool needs = c->grammar || c->request.logprobs > 0;
    return !needs || pf_api_token_order(c->api) || pf_api_refuse(error, 500, NULL, "no memory for the texts of tokens");
}

static bool make_choices(completion *c, pf_api_error *error)
{
    for (int32_t i = 0; i < c->n_choices; i++) {
        choice *ch = &c->choices[i];
        ch->of = c;
        ch->prompt = &c->prompts[i / c->request.n];
        ch->seed = c->request.sampling.seed + (uint64_t)(i % c->request.n);
        ch->task = (pf_task){ .run = run_choice, .cancelled = pf_http_gone(c->exchange) };
        if (i + 1 < c->n_choices) ch->task.next = &c->choices[i + 1].task;
        ch->reply.index = i;
        ch->reply.progress = &ch->progress;
        ch->reply.usage.n_prompt = ch->prompt->n;
        if (!check_length(c, ch->prompt, error) || !begin_text(ch, error) || !constrain(ch, error)) return false;
    }
    return true;
}

static bool allocate(completion *c, pf_api_error *error)
{
    c->n_choices = c->request.n * c->request.n_prompts;
    c->n_left = c->n_choices;
    c->prompts = calloc((size_t)c->request.n_prompts, sizeof *c->prompts);
    c->choices = calloc((size_t)c->n_choices, sizeof *c->choices);
    return (c->prompts && c->choices) || pf_api_refuse(error, 500, NULL, "no memory for %d texts", c->n_choices);
}

/* What a token adds to a text; of one that adds none its name. */
static const char *token_text(const void *texts, int32_t id, size_t *n_bytes)
{
    const pf_api *api = texts;
    int32_t n = 0;
    const char *text = pf_token_order_text(&api->order, id, &n);
    *n_bytes = (size_t)n;
    if (!text) text = pf_tokenizer_token_bytes(api->options.tokenizer, id, n_bytes);
    return text ? text : "";
}

static bool name_it(completion *c, pf_api_error *error)
{
    uint64_t id[2];
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
        return pf_api_refuse(error, 500, NULL, "no id could be drawn: %s", strerror(errno));
    snprintf(c->id, sizeof c->id, "%s%016llx%016llx", kinds[c->request.kind].prefix, (unsigned long long)id[0],
             (unsigned long long)id[1]);
    c->client = id[0] | 1;
    c->head = (pf_reply_head){ .id = c->id,
                               .model = c->api->options.model,
                               .created = (int64_t)time(NULL),
                               .request = &c->request,
                               .n_events = &c->n_events,
                               .token_text = token_text,
                               .texts = c->api,
                               .has_drafter = c->api->options.plain_sessions != NULL,
                               .keeps_prompts = c->api->options.keeps_prompts };
    return true;
}

static bool prepare(completion *c, pf_api_kind kind, pf_api_error *error)
{
    size_t n_bytes;
    const char *body = pf_http_body(c->exchange, &n_bytes);
    return pf_api_request_parse(kind, body, n_bytes, &c->request, error) &&
           pf_api_check_model(c->api, c->request.model, error) && check_rules(c, error) && check_drafter(c, error) &&
           draw_seed(&c->request, error) && name_it(c, error) && make_grammar(c, error) && make_order(c, error) &&
           allocate(c, error) && read_prompts(c, error) && make_choices(c, error);
}

static bool submit(completion *c, pf_api_error *error)
{
    const pf_status status = pf_task_queue_push(c->api->generating, &c->choices[0].task);
    return status == PF_OK || pf_api_refuse(error, status == PF_LIMIT ? 429 : 503, NULL, "%s",
                                            status == PF_LIMIT ? "too many texts are waiting to be generated"
                                                               : "the server is being shut down");
}

void pf_api_complete(pf_api *api, pf_http_exchange *x, pf_api_kind kind)
{
    completion *c = calloc(1, sizeof *c);
    pf_api_error error = { .status = 500, .text = "no memory for the request" };
    if (c) {
        c->api = api;
        c->exchange = x;
        c->format = kinds[kind].format;
        pf_http_retain(x);
        pthread_mutex_init(&c->mutex, NULL);
        error = (pf_api_error){ 0 };
        if (prepare(c, kind, &error) && submit(c, &error)) return;
        destroy(c);
    }
    pf_api_reply_error(x, &error);
}
