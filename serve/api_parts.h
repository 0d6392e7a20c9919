/* What the files of the API share. Internal to serve/. */
#ifndef PF_SERVE_API_PARTS_H
#define PF_SERVE_API_PARTS_H

#include <pthread.h>

#include "serve/api.h"
#include "serve/api_error.h"
#include "serve/api_request.h"
#include "serve/constraint.h"
#include "serve/task_queue.h"

struct pf_api {
    pf_api_options options;
    int64_t created;           /* seconds since 1970 */
    pf_task_queue *preparing;  /* bodies are read, templates rendered, texts tokenized */
    pf_task_queue *generating; /* a thread for each session */
    pf_result *results;        /* [n_sessions] one for each of those threads */
    volatile bool drains;
    int32_t marks[4], n_marks; /* [n_marks] special tokens that are text where calls of tools are looked for */

    /* The texts of all tokens, made when they are first wanted. */
    pthread_mutex_t order_mutex;
    bool has_order;
    pf_token_order order;

    /* Texts begin in order, each once the KV cache has room for all that it may become. */
    pthread_mutex_t room_mutex;
    pthread_cond_t room_changed;
    int64_t n_reserved;        /* tokens */
    uint64_t n_asked, n_begun; /* texts */
};

/* Replies. document: its reference is taken; NULL: no memory. */
void pf_api_reply_json(pf_http_exchange *exchange, int32_t status, json_t *document);
void pf_api_reply_error(pf_http_exchange *exchange, const pf_api_error *error);

/* The document of an error as the API of the path has it; NULL: no memory. */
json_t *pf_api_error_shape(const pf_http_exchange *exchange, const pf_api_error *error);

/* Whether the model that a request names is the one that is served; NULL: it names none. */
bool pf_api_check_model(const pf_api *api, const char *model, pf_api_error *error);

/* Of all ids; NULL: no memory. Any thread. */
const pf_token_order *pf_api_token_order(pf_api *api);

/* The ids of a conversation by the chat template, or of a text. */
bool pf_api_tokenize_chat(const pf_api *api, const json_t *conversation, pf_tokens *out, pf_api_error *error);
bool pf_api_tokenize_text(const pf_api *api, const char *text, size_t n_bytes, bool add_special, pf_tokens *out,
                          pf_api_error *error);
bool pf_api_read_ids(const pf_api *api, const char *param, const json_t *ids, pf_tokens *out, pf_api_error *error);

/* Generates what the exchange asks for (completion.c). On a preparing thread; the reply comes later. */
void pf_api_complete(pf_api *api, pf_http_exchange *exchange, pf_api_kind kind);

#endif
