/* A chat's turns. */
#include "cli/chat.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "bench/acceptance.h"
#include "cli/figures.h"
#include "cli/hub.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "tokenizer/decode/text_stream.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

pf_status pf_chat_open_template(const pf_options *o, pf_chat_template **out, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_error why = { 0 };
    PF_TRY(pf_hub_find_tokenizer(o->model ? o->model : o->draft, directory, error));
    if (o->chat_template) return pf_chat_template_open_file(directory, o->chat_template, out, error);
    const pf_status status = pf_chat_template_open(directory, out, &why);
    if (status == PF_UNAVAILABLE) return pf_fail(error, status, "%s; give one as --chat-template FILE", why.text);
    return status == PF_OK ? PF_OK : pf_fail(error, status, "%s", why.text);
}

static void add_stop(pf_chat_ends *ends, int32_t id)
{
    for (int32_t i = 0; i < ends->n; i++)
        if (ends->ids[i] == id) return;
    if (ends->n < PF_MAX_STOP_TOKENS) ends->ids[ends->n++] = id;
}

static const char *find_last(const char *text, size_t n, const char *part)
{
    const char *found = NULL;
    for (const char *at = text; (at = memmem(at, n - (size_t)(at - text), part, strlen(part))) != NULL; at++)
        found = at;
    return found;
}

/* The special token behind the text of an assistant's message, as the template writes it; -1: there is none. A template may
 * refuse the conversation that is tried. */
static int32_t find_end_token(const pf_tokenizer *tokenizer, const pf_chat_template *chat)
{
    static const char said[] = "pilotfish";
    pf_bytes text = { 0 };
    pf_tokens ids = { 0 };
    int32_t id = -1;
    json_t *tried = json_pack("{s:[{s:s, s:s}, {s:s, s:s}], s:b}", "messages", "role", "user", "content", "-", "role",
                              "assistant", "content", said, "add_generation_prompt", 0);
    const pf_status status = tried ? pf_chat_template_render(chat, tried, &text, NULL) : PF_NOMEM;
    const char *last = status == PF_OK && text.n > 0 ? find_last(text.data, text.n, said) : NULL;
    if (last) {
        const char *end = last + strlen(said);
        const size_t n = text.n - (size_t)(end - text.data);
        if (pf_input_encode(tokenizer, end, n, false, &ids, NULL) == PF_OK && ids.n > 0 &&
            pf_tokenizer_is_special(tokenizer, ids.ids[0]))
            id = ids.ids[0];
    }
    json_decref(tried);
    pf_tokens_clear(&ids);
    pf_bytes_clear(&text);
    return id;
}

void pf_chat_find_ends(const pf_options *options, const pf_setup *setup, const pf_chat_template *chat,
                       pf_chat_ends *out)
{
    const int32_t *ids;
    int32_t n;
    *out = (pf_chat_ends){ .n = 0 };
    if (options->ignore_eos) return;
    pf_setup_stop_tokens(setup, options, &ids, &n);
    for (int32_t i = 0; i < n; i++) add_stop(out, ids[i]);
    const int32_t end = chat ? find_end_token(setup->tokenizer, chat) : -1;
    if (end >= 0) add_stop(out, end);
}

pf_status pf_chat_open(const pf_options *options, pf_out *out, pf_chat *chat, pf_error *error)
{
    const char *system = options->system;
    chat->options = options;
    chat->out = out;
    PF_TRY(pf_request_seed(options, &chat->seed, error));
    PF_TRY(pf_setup_open(options, false, &chat->setup, error));
    if (!chat->setup.tokenizer) return pf_fail(error, PF_INVALID, "a chat needs text, and the model has no tokenizer");
    PF_TRY(pf_chat_open_template(options, &chat->chat_template, error));
    chat->tokens = calloc((size_t)chat->setup.max_context, sizeof *chat->tokens);
    if (!chat->tokens || pf_conversation_begin(&chat->conversation) != PF_OK ||
        (system && pf_conversation_set_system(&chat->conversation, system, strlen(system)) != PF_OK))
        return pf_fail(error, PF_NOMEM, "no memory for a chat of %d tokens", chat->setup.max_context);
    pf_chat_find_ends(options, &chat->setup, chat->chat_template, &chat->ends);
    return PF_OK;
}

void pf_chat_close(pf_chat *chat)
{
    pf_conversation_end(&chat->conversation);
    pf_chat_template_close(chat->chat_template);
    pf_setup_close(&chat->setup);
    free(chat->tokens);
}

/* ---- the prompt -------------------------------------------------------------------------------------------------- */

static pf_status render(const pf_chat *chat, pf_tokens *out, pf_error *error)
{
    pf_bytes text = { 0 };
    out->n = 0;
    pf_status status = pf_chat_template_render(chat->chat_template, chat->conversation.root, &text, error);
    if (status == PF_OK)
        status = pf_input_encode(chat->setup.tokenizer, text.data ? text.data : "", text.n, false, out, error);
    pf_bytes_clear(&text);
    return status;
}

/* Tokens that an answer should have room for: those of -n, and no more than a quarter of the context. */
static int32_t wanted_room(const pf_chat *chat)
{
    enum { USUAL_ANSWER = 512 };
    const int32_t wanted = chat->options->n_new_given ? chat->options->n_new : USUAL_ANSWER;
    const int32_t quarter = chat->setup.max_context / 4;
    return pf_min(wanted, quarter > 0 ? quarter : 1);
}

/* The prompt, with the oldest turns dropped until it fits. Then twice the room is made: a dropped turn changes what stands at the
 * beginning, so all that follows is computed again, and that should not happen at each turn. */
static pf_status fit(pf_chat *chat, pf_tokens *prompt, pf_error *error)
{
    const int32_t context = chat->setup.max_context;
    int32_t room = wanted_room(chat);
    size_t n_dropped = 0, n = 1;
    PF_TRY(render(chat, prompt, error));
    while (n > 0 && prompt->n > context - room) {
        n = pf_conversation_drop_turn(&chat->conversation);
        if (n_dropped == 0) room *= 2;
        n_dropped += n;
        if (n > 0) PF_TRY(render(chat, prompt, error));
    }
    if (prompt->n >= context)
        return pf_fail(error, PF_LIMIT, "the last turn alone has %d tokens in the template, the context has %d",
                       prompt->n, context);
    if (prompt->n == 0) return pf_fail(error, PF_INVALID, "the chat template makes no text of the conversation");
    if (n_dropped > 0)
        pf_out_say("pilotfish: the context of %d tokens is full: the oldest %zu messages were dropped", context,
                   n_dropped);
    return PF_OK;
}

/* As fit, but where it fails the conversation is what it was. */
static pf_status make_prompt(pf_chat *chat, pf_tokens *prompt, pf_error *error)
{
    pf_conversation before;
    if (pf_conversation_copy(&chat->conversation, &before) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for the conversation");
    const pf_status status = fit(chat, prompt, error);
    if (status != PF_OK) {
        const pf_conversation changed = chat->conversation;
        chat->conversation = before;
        before = changed;
    }
    pf_conversation_end(&before);
    return status;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_chat *chat;
    pf_text_stream text;
    size_t n_shown;
    int32_t n_prompt;
    pf_status status; /* of the text */
    pf_progress progress;
} answer;

static void on_prompt(void *user, int32_t n_read)
{
    answer *a = user;
    if (a->chat->is_typed) pf_progress_update(&a->progress, (size_t)n_read, (size_t)a->n_prompt);
}

static void show(answer *a, size_t end)
{
    if (end <= a->n_shown) return;
    pf_out_write(a->chat->out, a->text.bytes.data + a->n_shown, end - a->n_shown);
    pf_out_flush(a->chat->out);
    a->n_shown = end;
}

static bool on_token(void *user, int32_t token, bool drafted)
{
    answer *a = user;
    pf_progress_end(&a->progress);
    const pf_status status = pf_text_stream_push(&a->text, token, drafted);
    if (status != PF_INVALID) a->status = status; /* an id beyond the tokenizer has no text, and that is no failure */
    show(a, pf_text_stream_ready(&a->text));
    return !a->text.stopped && !a->chat->out->error && a->status == PF_OK;
}

static pf_status generate(answer *a, const pf_tokens *prompt, pf_error *error)
{
    pf_chat *chat = a->chat;
    const pf_options *o = chat->options;
    const int32_t room = chat->setup.max_context - prompt->n;
    pf_request request = pf_request_by_options(o, &chat->setup, chat->seed);
    request.prompt = prompt->ids;
    request.n_prompt = prompt->n;
    request.max_new_tokens = o->n_new_given ? pf_min(o->n_new, room) : room;
    request.stop_tokens = chat->ends.ids;
    request.n_stop_tokens = chat->ends.n;
    request.on_prompt = on_prompt;
    request.on_token = on_token;
    request.user = a;
    request.keep_sequence = true;
    chat->result =
        (pf_result){ .size = sizeof chat->result, .tokens = chat->tokens, .capacity = chat->setup.max_context };
    return pf_generate(chat->setup.session, &request, &chat->result, error);
}

static void count(pf_chat_figures *f, const pf_result *result, int32_t n_prompt)
{
    f->n_answers++;
    f->n_prompt += n_prompt;
    f->n_new += result->n_tokens;
    f->n_decoded += result->n_tokens > 0 ? result->n_tokens - 1 : 0;
    f->n_reused = f->n_reused < 0 || result->reused_tokens < 0 ? -1 : f->n_reused + result->reused_tokens;
    f->prefill_ns += result->prefill_ns;
    f->decode_ns += result->decode_ns;
    pf_speculation_add(&f->speculation, &result->speculation);
}

/* The text that was made, as a message; and whether there is any. */
static pf_status take_answer(answer *a, bool *answered, pf_error *error)
{
    pf_chat *chat = a->chat;
    if (a->status == PF_OK) a->status = pf_text_stream_finish(&a->text);
    if (a->status != PF_OK) return pf_fail(error, a->status, "%s", pf_request_text_failure(a->status));
    show(a, a->text.bytes.n);
    if (chat->result.n_tokens == 0) return PF_OK;
    const bool ended = a->text.bytes.n > 0 && a->text.bytes.data[a->text.bytes.n - 1] == '\n';
    if (!ended) pf_out_write(chat->out, "\n", 1);
    pf_out_flush(chat->out);
    chat->last = (pf_chat_figures){ 0 };
    count(&chat->last, &chat->result, a->n_prompt);
    count(&chat->all, &chat->result, a->n_prompt);
    if (pf_conversation_push(&chat->conversation, "assistant", a->text.bytes.data ? a->text.bytes.data : "",
                             a->text.bytes.n) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for the answer");
    *answered = true;
    if (chat->result.finish == PF_FINISH_LENGTH && a->n_prompt + chat->result.n_tokens >= chat->setup.max_context)
        pf_out_say("pilotfish: the answer was cut: the context of %d tokens is full", chat->setup.max_context);
    return PF_OK;
}

pf_status pf_chat_answer(pf_chat *chat, bool *answered, pf_error *error)
{
    pf_tokens prompt = { 0 };
    answer a = { .chat = chat };
    *answered = false;
    pf_progress_begin(&a.progress, "reading the prompt");
    pf_status status = make_prompt(chat, &prompt, error);
    a.n_prompt = prompt.n;
    if (status == PF_OK) {
        enum { LONG_ANSWER = 1 << 12 };
        status = pf_text_stream_begin(&a.text, chat->setup.tokenizer, chat->options->stops.items,
                                      chat->options->stops.n, &prompt, LONG_ANSWER);
        if (status != PF_OK) status = pf_fail(error, status, "%s", pf_request_text_failure(status));
    }
    if (status == PF_OK) {
        status = generate(&a, &prompt, error);
        pf_progress_end(&a.progress);
        const pf_status taken = take_answer(&a, answered, status == PF_OK ? error : NULL);
        if (status == PF_OK) status = taken;
    }
    pf_text_stream_end(&a.text);
    pf_tokens_clear(&prompt);
    return status;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static double rate(int64_t n, uint64_t ns)
{
    return n > 0 && ns > 0 ? (double)n / ((double)ns * 1e-9) : NAN;
}

static void print_figures(const char *of, const pf_chat_figures *f, bool has_drafter)
{
    char reused[64] = "the verifier does not say how many it reused";
    if (f->n_reused >= 0)
        snprintf(reused, sizeof reused, "%" PRId64 " reused from the cache, %" PRId64 " computed", f->n_reused,
                 f->n_prompt - f->n_reused);
    pf_out_say("%s: %" PRId64 " prompt tokens (%s) in %.1f ms, %" PRId64 " new tokens in %.1f ms (%s tokens/s)", of,
               f->n_prompt, reused, (double)f->prefill_ns * 1e-6, f->n_new, (double)f->decode_ns * 1e-6,
               pf_figure_rate(rate(f->n_decoded, f->decode_ns)).text);
    if (has_drafter) pf_figures_print_speculation(&f->speculation);
}

void pf_chat_print_figures(const pf_chat *chat)
{
    const bool has_drafter = chat->setup.drafter != NULL;
    if (chat->all.n_answers == 0)
        pf_out_say("no answer yet");
    else
        print_figures("last answer", &chat->last, has_drafter);
    if (chat->all.n_answers > 1) print_figures("all answers", &chat->all, has_drafter);
    pf_out_say("context: %" PRId64 " of %d tokens in %zu messages, seed %" PRIu64,
               chat->last.n_prompt + chat->last.n_new, chat->setup.max_context,
               pf_conversation_count(&chat->conversation), chat->seed);
}
