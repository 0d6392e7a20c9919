/*
 * Answers the requests of the HTTP API: which path is what, with which key, and the replies that need no text to be generated.
 *
 *      check        path, method, key, origin: on the HTTP thread, before the body
 *      handle       GET: replies at once.  POST: a task of a preparing thread, which parses, renders and tokenizes
 *      completion.c then one task for each text, on the threads that generate: as many as there are sessions
 *
 * Paths: / (the page), /openapi.json (which describes the others), /health, /metrics, /v1/models, /v1/chat/completions, /v1/completions,
 * /v1/responses, /v1/messages (and /count_tokens), /tokenize, /detokenize.
 */
#ifndef PF_SERVE_API_H
#define PF_SERVE_API_H

#include "jinja/chat_template.h"
#include "metrics/metrics.h"
#include "serve/api_keys.h"
#include "serve/http_server.h"
#include "serve/tool_calls.h"
#include "tokenizer/tokenizer.h"

typedef struct pf_api pf_api;

/* All borrowed for the API's life. */
typedef struct {
    const char *model; /* the name that requests give */
    const pf_tokenizer *tokenizer;
    const pf_chat_template *chat_template; /* NULL: chats are refused with the next sentence */
    const char *no_chat_template;

    /* [n_sessions] each used by one thread: with the drafter, and of the same verifier without it (NULL: there is no drafter). */
    pf_session *const *sessions, *const *plain_sessions;
    int32_t n_sessions;
    int64_t kv_tokens;          /* that the KV cache has room for, of all texts; 0: not bounded */
    int32_t max_context, n_ids; /* tokens of a text; ids that a prompt may have are below n_ids */
    const int32_t *chat_ends;   /* [n_chat_ends] that end an answer of a chat */
    int32_t n_chat_ends;
    bool keeps_prompts;  /* the KV cache, for later texts */
    int32_t max_waiting; /* texts that wait for a session */
    int32_t draft_len;   /* of requests that do not say: 0: the drafter chooses */
    pf_method method;    /* likewise, above temperature 0 */
    int32_t siblings;    /* pf_request.siblings of all */
    pf_typical typical;  /* likewise, of the method typical */
    const char *drafter; /* likewise: as pf_request.drafter */

    const char *const
        *drafters; /* [n_drafters] that requests may name; none: a drafter elsewhere says itself, when it is asked */
    int32_t n_drafters;
    const pf_api_keys *keys;    /* NULL: none is asked for */
    pf_metrics *metrics;        /* of /metrics */
    pf_tool_format tool_format; /* of the template */
    bool tool_names_before;     /* NAME[ARGS]{...}, of Mistral */
} pf_api_options;

/* PF_NOMEM, PF_LIMIT: no more threads. */
PF_MUST_USE pf_status pf_api_create(const pf_api_options *options, pf_api **out, pf_error *error);

/* Callbacks of pf_http_options; `user` is the API. */
void pf_api_check(void *user, pf_http_exchange *exchange);
void pf_api_handle(void *user, pf_http_exchange *exchange);

/* Now and then: gives up what waits and is wanted by no client any more. */
void pf_api_sweep(pf_api *api);

/* From here on new requests are refused with 503. */
void pf_api_drain(pf_api *api);

/* Waits for the texts that are generated; those whose client is gone end soon. NULL is fine. */
void pf_api_destroy(pf_api *api);

/* JSON of the replies that the HTTP server makes itself. */
extern const char pf_api_json_type[], pf_api_timeout_body[], pf_api_too_long_body[];

#endif
