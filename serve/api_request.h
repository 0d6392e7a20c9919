/*
 * Reads the JSON of a request to generate text: the parameters of OpenAI's completions and chat completions, and those of this
 * server, and those of other APIs that serve/translate.h turns into these. A parameter that would change the text and is not supported is refused by its name; null, and a value that changes
 * nothing, is accepted.
 *
 * Source: OpenAI, API reference, "Completions" and "Chat"; the extensions have the names that vLLM gives them. Defaults are those
 * of the API: temperature 1, of a completion 16 tokens.
 *
 * It knows no model: what must fit one (names, ids, lengths) is checked by its caller. Pure; any thread.
 */
#ifndef PF_SERVE_API_REQUEST_H
#define PF_SERVE_API_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "include/pilotfish.h"
#include "serve/api_error.h"

enum {
    PF_API_MAX_BODY_BYTES = 8 << 20,
    PF_API_MAX_STOPS = 16,
    PF_API_MAX_CHOICES = 64, /* prompts times n */
    PF_API_MAX_DEPTH = 64,   /* of nested lists and objects */
};

/* Responses (OpenAI) and messages (Anthropic) are read as chats, into which serve/translate.h turns them. */
typedef enum { PF_API_COMPLETION, PF_API_CHAT, PF_API_RESPONSE, PF_API_MESSAGE } pf_api_kind;

/* Strings are borrowed from `root`. */
typedef struct {
    pf_api_kind kind;
    json_t *root;         /* owned: of a completion or a chat */
    json_t *original;     /* owned: of a response or a message, before it was translated */
    json_t *conversation; /* of a chat, owned: what pf_chat_template_render takes */
    const json_t *prompt; /* of a completion: a string, a list of strings, of ids, or of lists of ids */
    int32_t n_prompts;
    const char *model;  /* NULL: not named */
    int32_t n;          /* choices for each prompt */
    int32_t max_tokens; /* 0: as many as the context has room for */
    pf_sampling sampling;
    pf_logit_rules rules; /* its arrays are the two below */
    int32_t *bias_ids;    /* owned */
    float *biases;
    bool seed_given;
    const char *stops[PF_API_MAX_STOPS];
    int32_t n_stops;
    pf_bytes grammar;         /* owned: of the text, in GBNF; empty: any text */
    bool must_call;           /* a tool: of this name, where it is not NULL */
    const char *must_call_of; /* its parameters are those of `conversation` */
    int32_t logprobs;         /* as pf_request.logprobs */
    bool ignore_eos, echo;
    bool stream, include_usage, continuous_usage;
    bool speculates, marks_drafted;
    int32_t draft_len; /* 0: the drafter chooses */
    pf_method method;
    pf_typical typical;  /* of the method typical */
    const char *drafter; /* NULL: the default */
} pf_api_request;

/* The body of a request, an object; PF_API_MAX_DEPTH deep at most. The caller ends *out with json_decref. */
bool pf_api_parse_object(const char *body, size_t n_bytes, json_t **out, pf_api_error *error);

/* False: refused. The caller ends *out with pf_api_request_end where it is true. */
bool pf_api_request_parse(pf_api_kind kind, const char *body, size_t n_bytes, pf_api_request *out, pf_api_error *error);
void pf_api_request_end(pf_api_request *request); /* zeroed is fine */

/* What pf_chat_template_render takes of an object with "messages" and, where they are wanted, "tools" and other variables:
 * content in parts becomes one text, the arguments of tool calls become objects. NULL: refused. The caller ends it with json_decref.
 */
json_t *pf_api_conversation(const json_t *root, pf_api_error *error);

/* Prompt `index` of a completion: a text [*n_bytes], or where NULL is returned, the ids of *ids. */
const char *pf_api_prompt(const pf_api_request *request, int32_t index, size_t *n_bytes, const json_t **ids);

#endif
