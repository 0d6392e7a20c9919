/* Routes, and the replies that need no text to be generated. */
#include "serve/api.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/json_values.h"
#include "serve/api_parts.h"
#include "serve/embedded.h"
#include "serve/metrics_endpoint.h"
#include "serve/translate.h"
#include "tokenizer/decode/detokenize.h"
#include "tokenizer/tokenizer_parts.h"

const char pf_api_json_type[] = "application/json";
const char pf_api_timeout_body[] = "{\"error\":{\"message\":\"the request did not come in time\","
                                   "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}";
const char pf_api_too_long_body[] = "{\"error\":{\"message\":\"the body is longer than 8 MiB\","
                                    "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}";

/* ---- replies ------------------------------------------------------------------------------------------------------ */

void pf_api_reply_json(pf_http_exchange *x, int32_t status, json_t *document)
{
    static const char no_memory[] = "{\"error\":{\"message\":\"no memory\",\"type\":\"server_error\"}}";
    char *text = document ? pf_json_print(document, JSON_COMPACT | JSON_REAL_PRECISION(DBL_DIG)) : NULL;
    json_decref(document);
    if (text)
        pf_http_reply(x, status, pf_api_json_type, text, strlen(text));
    else
        pf_http_reply(x, 500, pf_api_json_type, no_memory, sizeof no_memory - 1);
    free(text);
}

static const char messages_path[] = "/v1/messages";

json_t *pf_api_error_shape(const pf_http_exchange *x, const pf_api_error *error)
{
    const bool is_message = strncmp(pf_http_path(x), messages_path, sizeof messages_path - 1) == 0;
    return is_message ? pf_api_error_message(error) : pf_api_error_document(error);
}

void pf_api_reply_error(pf_http_exchange *x, const pf_api_error *error)
{
    if (error->status == 401) pf_http_add_header(x, "WWW-Authenticate", "Bearer");
    if (error->status == 429 || error->status == 503) pf_http_add_header(x, "Retry-After", "1");
    pf_api_reply_json(x, error->status, pf_api_error_shape(x, error));
}

bool pf_api_check_model(const pf_api *api, const char *model, pf_api_error *error)
{
    if (!model || strcmp(model, api->options.model) == 0) return true;
    (void)pf_api_refuse(error, 404, "model", "there is no model %.100s here, only %.100s", model, api->options.model);
    error->code = "model_not_found";
    return false;
}

/* ---- GET ------------------------------------------------------------------------------------------------------------ */

/* It takes nothing from elsewhere, and no other page shows it in a frame. */
static const char content_policy[] = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void get_page(pf_api *api, pf_http_exchange *x)
{
    (void)api;
    pf_http_add_header(x, "X-Content-Type-Options", "nosniff");
    pf_http_add_header(x, "Content-Security-Policy", content_policy);
    pf_http_add_header(x, "Referrer-Policy", "no-referrer");
    pf_http_reply(x, 200, "text/html; charset=utf-8", (const char *)pf_page, pf_page_bytes);
}

static void get_health(pf_api *api, pf_http_exchange *x)
{
    pf_api_reply_json(x, api->drains ? 503 : 200, json_pack("{s:s}", "status", api->drains ? "draining" : "ok"));
}

static void get_metrics(pf_api *api, pf_http_exchange *x)
{
    pf_metrics_reply(api->options.metrics, x);
}

static void get_openapi(pf_api *api, pf_http_exchange *x)
{
    (void)api;
    pf_http_reply(x, 200, pf_api_json_type, (const char *)pf_openapi, pf_openapi_bytes);
}

static json_t *drafter_names(const pf_api *api)
{
    json_t *names = json_array();
    for (int32_t i = 0; i < api->options.n_drafters; i++)
        json_array_append_new(names, json_string(api->options.drafters[i]));
    return names;
}

static json_t *model_document(const pf_api *api)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:i, s:b, s:b, s:o}", "id", api->options.model, "object", "model", "created",
                     (json_int_t)api->created, "owned_by", "pilotfish", "max_model_len", api->options.max_context,
                     "has_chat_template", api->options.chat_template != NULL, "has_drafter",
                     api->options.plain_sessions != NULL, "drafters", drafter_names(api));
}

static void get_models(pf_api *api, pf_http_exchange *x)
{
    pf_api_reply_json(x, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_document(api)));
}

static const char one_model[] = "/v1/models/";

static void get_model(pf_api *api, pf_http_exchange *x)
{
    pf_api_error error = { 0 };
    if (pf_api_check_model(api, pf_http_path(x) + sizeof one_model - 1, &error))
        pf_api_reply_json(x, 200, model_document(api));
    else
        pf_api_reply_error(x, &error);
}

/* ---- ids and texts -------------------------------------------------------------------------------------------------- */

static bool encode(const pf_api *api, const char *param, const char *text, size_t n_bytes, bool add_special,
                   pf_tokens *out, pf_api_error *error)
{
    const pf_status status = pf_tokenizer_encode(api->options.tokenizer, text, n_bytes, add_special, NULL, out);
    return status == PF_OK ||
           pf_api_refuse(error, status == PF_NOMEM ? 500 : 400, param,
                         "a text of %zu bytes cannot be cut into tokens: %s", n_bytes, pf_tokenizer_refusal(status));
}

bool pf_api_tokenize_text(const pf_api *api, const char *text, size_t n_bytes, bool add_special, pf_tokens *out,
                          pf_api_error *error)
{
    return encode(api, "prompt", text, n_bytes, add_special, out, error);
}

bool pf_api_tokenize_chat(const pf_api *api, const json_t *conversation, pf_tokens *out, pf_api_error *error)
{
    pf_bytes text = { 0 };
    pf_error why = { 0 };
    if (!api->options.chat_template) return pf_api_refuse(error, 400, "messages", "%s", api->options.no_chat_template);
    const pf_status status = pf_chat_template_render(api->options.chat_template, conversation, &text, &why);
    bool made = status == PF_OK || pf_api_refuse(error, status == PF_NOMEM ? 500 : 400, "messages", "%s", why.text);
    made = made && encode(api, "messages", text.data ? text.data : "", text.n, false, out, error);
    pf_bytes_clear(&text);
    return made;
}

bool pf_api_read_ids(const pf_api *api, const char *param, const json_t *ids, pf_tokens *out, pf_api_error *error)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        const json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value >= api->options.n_ids)
            return pf_api_refuse(error, 400, param, "%s[%zu] is no token id, expected 0 to %d", param, i,
                                 api->options.n_ids - 1);
        if (pf_tokens_push(out, (int32_t)value) != PF_OK)
            return pf_api_refuse(error, 500, NULL, "no memory for %zu token ids", json_array_size(ids));
    }
    return true;
}

/* Of a boolean that may be absent or null. */
static bool read_flag(const json_t *root, const char *name, bool otherwise, bool *out, pf_api_error *error)
{
    const json_t *value = json_object_get(root, name);
    *out = value && !json_is_null(value) ? json_is_true(value) : otherwise;
    return !value || json_is_null(value) || json_is_boolean(value) ||
           pf_api_refuse(error, 400, name, "%s: expected a boolean", name);
}

static bool tokenize(const pf_api *api, const json_t *root, pf_tokens *out, pf_api_error *error)
{
    bool add_special;
    const json_t *prompt = json_object_get(root, "prompt");
    if (!read_flag(root, "add_special_tokens", true, &add_special, error)) return false;
    if (json_object_get(root, "messages")) {
        json_t *conversation = pf_api_conversation(root, error);
        const bool made = conversation && pf_api_tokenize_chat(api, conversation, out, error);
        json_decref(conversation);
        return made;
    }
    if (!json_is_string(prompt))
        return pf_api_refuse(error, 400, "prompt", "prompt is missing or no string, and there are no messages");
    return pf_api_tokenize_text(api, json_string_value(prompt), json_string_length(prompt), add_special, out, error);
}

static bool detokenize(const pf_api *api, const json_t *root, json_t **out, pf_api_error *error)
{
    pf_tokens ids = { 0 };
    pf_bytes text = { 0 };
    pf_detokenizer *d = NULL;
    if (!json_is_array(json_object_get(root, "tokens")))
        return pf_api_refuse(error, 400, "tokens", "tokens is missing or no list of token ids");
    bool made = pf_api_read_ids(api, "tokens", json_object_get(root, "tokens"), &ids, error);
    pf_status status = made ? pf_detokenizer_create(api->options.tokenizer, &d) : PF_OK;
    for (int32_t i = 0; i < ids.n && made && status == PF_OK; i++) {
        status = pf_detokenizer_push(d, ids.ids[i], &text);
        if (status == PF_INVALID) status = PF_OK; /* a row of the embedding without a token has no text */
    }
    if (made && status == PF_OK) status = pf_detokenizer_finish(d, &text);
    if (made && status != PF_OK)
        made = pf_api_refuse(error, pf_api_status_of(status), "tokens", "the text of %d tokens is too long", ids.n);
    if (made) *out = pf_json_text(text.data ? text.data : "", text.n);
    pf_detokenizer_destroy(d);
    pf_bytes_clear(&text);
    pf_tokens_clear(&ids);
    return made;
}

static bool open_body(const pf_api *api, const pf_http_exchange *x, json_t **root, pf_api_error *error)
{
    size_t n_bytes;
    const char *body = pf_http_body(x, &n_bytes);
    return pf_api_parse_object(body, n_bytes, root, error) &&
           pf_api_check_model(api, json_string_value(json_object_get(*root, "model")), error);
}

static void post_tokenize(pf_api *api, pf_http_exchange *x)
{
    pf_api_error error = { 0 };
    pf_tokens ids = { 0 };
    json_t *root = NULL;
    if (open_body(api, x, &root, &error) && tokenize(api, root, &ids, &error))
        pf_api_reply_json(x, 200,
                          json_pack("{s:i, s:i, s:o}", "count", ids.n, "max_model_len", api->options.max_context,
                                    "tokens", pf_json_ids(ids.ids, ids.n)));
    else
        pf_api_reply_error(x, &error);
    pf_tokens_clear(&ids);
    json_decref(root);
}

static void post_detokenize(pf_api *api, pf_http_exchange *x)
{
    pf_api_error error = { 0 };
    json_t *root = NULL, *text = NULL;
    if (open_body(api, x, &root, &error) && detokenize(api, root, &text, &error))
        pf_api_reply_json(x, 200, json_pack("{s:o}", "prompt", text));
    else
        pf_api_reply_error(x, &error);
    json_decref(root);
}

static void post_count_tokens(pf_api *api, pf_http_exchange *x)
{
    pf_api_error error = { 0 };
    pf_tokens ids = { 0 };
    json_t *root = NULL, *chat = NULL, *conversation = NULL;
    bool made = open_body(api, x, &root, &error);
    if (made && !json_object_get(root, "max_tokens")) json_object_set_new(root, "max_tokens", json_integer(1));
    if (made) chat = pf_api_translate_message(root, &error);
    if (chat) conversation = pf_api_conversation(chat, &error);
    if (conversation && pf_api_tokenize_chat(api, conversation, &ids, &error))
        pf_api_reply_json(x, 200, json_pack("{s:i}", "input_tokens", ids.n));
    else
        pf_api_reply_error(x, &error);
    pf_tokens_clear(&ids);
    json_decref(conversation);
    json_decref(chat);
    json_decref(root);
}

static void post_chat(pf_api *api, pf_http_exchange *x)
{
    pf_api_complete(api, x, PF_API_CHAT);
}

static void post_completion(pf_api *api, pf_http_exchange *x)
{
    pf_api_complete(api, x, PF_API_COMPLETION);
}

static void post_response(pf_api *api, pf_http_exchange *x)
{
    pf_api_complete(api, x, PF_API_RESPONSE);
}

static void post_message(pf_api *api, pf_http_exchange *x)
{
    pf_api_complete(api, x, PF_API_MESSAGE);
}

/* ---- routes --------------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *method, *path;
    bool needs_key; /* and is refused while the server drains */
    void (*run)(pf_api *api, pf_http_exchange *exchange);
} route;

static const route routes[] = {
    { "GET", "/", false, get_page },
    { "GET", "/health", false, get_health },
    { "GET", "/metrics", false, get_metrics },
    { "GET", "/openapi.json", false, get_openapi },
    { "GET", "/v1/models", true, get_models },
    { "GET", one_model, true, get_model }, /* and what follows */
    { "POST", "/v1/chat/completions", true, post_chat },
    { "POST", "/v1/completions", true, post_completion },
    { "POST", "/v1/responses", true, post_response },
    { "POST", messages_path, true, post_message },
    { "POST", "/v1/messages/count_tokens", true, post_count_tokens },
    { "POST", "/tokenize", true, post_tokenize },
    { "POST", "/detokenize", true, post_detokenize },
};

static const route *find_route(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const route *r = &routes[i];
        const bool is_prefix = r->path == one_model;
        if (is_prefix ? strncmp(path, r->path, sizeof one_model - 1) == 0 : strcmp(path, r->path) == 0) return r;
    }
    return NULL;
}

static bool is_get(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* A page of another site, which a browser would let send a request though not read the reply. */
static bool is_from_elsewhere(const pf_http_exchange *x)
{
    const char *origin = pf_http_header(x, "Origin"), *host = pf_http_header(x, "Host");
    const char *scheme_end = origin ? strstr(origin, "://") : NULL;
    return origin && (!host || !scheme_end || strcmp(scheme_end + 3, host) != 0);
}

static bool check(const pf_api *api, pf_http_exchange *x, pf_api_error *error)
{
    const char *path = pf_http_path(x), *method = pf_http_method(x);
    const route *r = find_route(path);
    if (!r) return pf_api_refuse(error, 404, NULL, "there is no path %.100s here", path);
    if (is_get(r->method) ? !is_get(method) : strcmp(method, r->method) != 0) {
        pf_http_add_header(x, "Allow", r->method);
        return pf_api_refuse(error, 405, NULL, "%.100s takes %s, not %s", path, r->method, method);
    }
    if (!r->needs_key) return true;
    const pf_api_keys *keys = api->options.keys;
    if (keys && !pf_api_keys_allow(keys, pf_http_header(x, "Authorization"), pf_http_header(x, "X-Api-Key"))) {
        (void)pf_api_refuse(error, 401, NULL, "the API key is missing or wrong: expected Authorization: Bearer KEY");
        error->code = "invalid_api_key";
        return false;
    }
    if (is_from_elsewhere(x)) return pf_api_refuse(error, 403, NULL, "requests from pages of other sites are refused");
    return !api->drains || pf_api_refuse(error, 503, NULL, "the server is being shut down");
}

void pf_api_check(void *user, pf_http_exchange *x)
{
    pf_api *api = user;
    pf_api_error error = { 0 };
    if (check(api, x, &error)) return;
    if (api->drains) pf_http_add_header(x, "Connection", "close");
    pf_api_reply_error(x, &error);
}

/* ---- preparing ------------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_task task; /* the first member */
    pf_api *api;
    pf_http_exchange *exchange;
    const route *route;
} job;

static void run_job(pf_task *task, int32_t thread)
{
    job *j = (job *)task;
    if (thread != PF_TASK_DROPPED)
        j->route->run(j->api, j->exchange);
    else
        pf_api_reply_error(j->exchange, &(pf_api_error){ .status = 503, .text = "the server is being shut down" });
    pf_http_release(j->exchange);
    free(j);
}

void pf_api_handle(void *user, pf_http_exchange *x)
{
    pf_api *api = user;
    const route *r = find_route(pf_http_path(x));
    if (is_get(r->method)) {
        r->run(api, x);
        return;
    }
    job *j = calloc(1, sizeof *j);
    pf_http_retain(x);
    if (j) *j = (job){ { .run = run_job, .cancelled = pf_http_gone(x) }, api, x, r };
    const pf_status status = j ? pf_task_queue_push(api->preparing, &j->task) : PF_NOMEM;
    if (status == PF_OK) return;
    pf_api_reply_error(x, &(pf_api_error){ .status = status == PF_LIMIT ? 429 : pf_api_status_of(status),
                                           .text = "too many requests are waiting" });
    pf_http_release(x);
    free(j);
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static pf_status start(pf_api *api, pf_error *error)
{
    enum { PREPARING_THREADS = 2, PREPARING_WAITING = 1024 };
    const int32_t n = api->options.n_sessions;
    api->results = calloc((size_t)n, sizeof *api->results);
    if (!api->results) return pf_fail(error, PF_NOMEM, "no memory for the figures of %d texts", n);
    PF_TRY(pf_task_queue_create(PREPARING_THREADS, PREPARING_WAITING, &api->preparing, error));
    return pf_task_queue_create(n, api->options.max_waiting, &api->generating, error);
}

const pf_token_order *pf_api_token_order(pf_api *api)
{
    const pf_api_options *o = &api->options;
    pthread_mutex_lock(&api->order_mutex);
    if (!api->has_order)
        api->has_order = pf_constraint_order(o->tokenizer, o->n_ids, api->marks, api->n_marks, &api->order) == PF_OK;
    pthread_mutex_unlock(&api->order_mutex);
    return api->has_order ? &api->order : NULL;
}

/* The marks of calls that are special tokens of the model. */
static void find_marks(pf_api *api)
{
    const pf_tokenizer *tokenizer = api->options.tokenizer;
    const char *const *mark = pf_tool_format_marks(api->options.tool_format);
    for (; *mark && api->n_marks < (int32_t)(sizeof api->marks / sizeof *api->marks); mark++) {
        const int32_t id = pf_tokenizer_find_added(tokenizer, *mark);
        if (id >= 0) api->marks[api->n_marks++] = id;
    }
}

pf_status pf_api_create(const pf_api_options *options, pf_api **out, pf_error *error)
{
    pf_api *api = calloc(1, sizeof *api);
    if (!api) return pf_fail(error, PF_NOMEM, "no memory for the API");
    api->options = *options;
    pthread_mutex_init(&api->room_mutex, NULL);
    pthread_mutex_init(&api->order_mutex, NULL);
    pthread_cond_init(&api->room_changed, NULL);
    api->created = (int64_t)time(NULL);
    find_marks(api);
    const pf_status status = start(api, error);
    if (status == PF_OK)
        *out = api;
    else
        pf_api_destroy(api);
    return status;
}

void pf_api_sweep(pf_api *api)
{
    pf_task_queue_sweep(api->preparing);
    pf_task_queue_sweep(api->generating);
}

void pf_api_drain(pf_api *api)
{
    __atomic_store_n(&api->drains, true, __ATOMIC_RELAXED);
}

void pf_api_destroy(pf_api *api)
{
    if (!api) return;
    pf_task_queue_destroy(api->preparing); /* its tasks give work to the other */
    pf_task_queue_destroy(api->generating);
    pthread_cond_destroy(&api->room_changed);
    pthread_mutex_destroy(&api->room_mutex);
    pthread_mutex_destroy(&api->order_mutex);
    pf_token_order_clear(&api->order);
    free(api->results);
    free(api);
}
