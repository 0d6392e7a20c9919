/*
 * Writes what a request made, in the documents and the events of an API: one table of functions for each.
 *
 *      a stream       open, delta or call ..., close for each choice, in turn or interleaved; then end
 *      else           whole
 *
 * Functions that write events append them to *out; PF_NOMEM: what was appended is no whole event. Pure; any thread.
 */
#ifndef PF_SERVE_REPLY_H
#define PF_SERVE_REPLY_H

#include <jansson.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "serve/api_request.h"

typedef struct {
    int64_t n_prompt, n_cached, n_completion; /* tokens; cached: of the prompt, that were not computed again */
    int64_t rounds, fallback_rounds, drafted, accepted;
    char drafter[PF_DRAFTER_NAME_BYTES]; /* as pf_result.drafter */
} pf_usage;

typedef struct {
    const char *id, *model;
    int64_t created; /* seconds since 1970 */
    const pf_api_request *request;
    bool has_drafter;
    bool keeps_prompts; /* what is read of a prompt is kept for later ones */
    int64_t *n_events;  /* of a stream that numbers them */
    const char *(*token_text)(const void *texts, int32_t id, size_t *n_bytes); /* of log-probabilities */
    const void *texts;
} pf_reply_head;

/* What a choice has, in order: texts and calls of tools. */
typedef struct {
    size_t begin, end;                 /* of a text: in the choice's text */
    const char *id, *name, *arguments; /* of a call; id NULL: it is a text. arguments: JSON, an object */
} pf_reply_part;

/* What a stream has begun of a choice; zero before its open. */
typedef struct {
    int32_t n_items;     /* that are whole: texts and calls */
    bool in_text;        /* another one, a text, has begun */
    int32_t part;        /* which it is of the choice's */
    int32_t n_logprobs;  /* tokens whose log-probabilities were sent */
    int64_t text_offset; /* characters of their texts */
} pf_reply_progress;

typedef struct {
    int32_t index;
    const char *text; /* [n_bytes] the whole of it */
    size_t n_bytes;
    const pf_reply_part *parts; /* [n_parts] NULL: the whole text is one */
    int32_t n_parts, n_calls;
    const pf_token_logprobs *logprobs; /* [n_logprobs] of its tokens, where they are wanted */
    int32_t n_logprobs;
    pf_reply_progress *progress; /* of a stream */
    pf_finish finish;
    const char *stop; /* the stop text that ended it; NULL: none has */
    pf_usage usage;
} pf_reply_choice;

/* A piece of a choice's text: whole characters. */
typedef struct {
    const char *text;
    size_t n_bytes;
    bool drafted; /* as the first of its characters */
} pf_reply_piece;

typedef struct {
    PF_MUST_USE pf_status (*open)(const pf_reply_head *head, const pf_reply_choice *choice, pf_bytes *out);
    PF_MUST_USE pf_status (*delta)(const pf_reply_head *head, const pf_reply_choice *choice,
                                   const pf_reply_piece *piece, pf_bytes *out);

    /* The last of the choice's parts, a call. NULL: the format has none. */
    PF_MUST_USE pf_status (*call)(const pf_reply_head *head, const pf_reply_choice *choice, pf_bytes *out);
    PF_MUST_USE pf_status (*close)(const pf_reply_head *head, const pf_reply_choice *choice, pf_bytes *out);
    PF_MUST_USE pf_status (*end)(const pf_reply_head *head, const pf_usage *usage, pf_bytes *out);

    /* NULL: no memory. The caller ends it with json_decref. */
    json_t *(*whole)(const pf_reply_head *head, const pf_reply_choice *choices, int32_t n, const pf_usage *usage);
} pf_reply_format;

extern const pf_reply_format pf_reply_chat;       /* OpenAI's chat completions: reply_openai.c */
extern const pf_reply_format pf_reply_completion; /* OpenAI's completions */
extern const pf_reply_format pf_reply_response;   /* OpenAI's responses: reply_responses.c */
extern const pf_reply_format pf_reply_message;    /* Anthropic's messages: reply_anthropic.c */

/* Those of tokens from `first` on, as chats have them: {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal"}; or as
 * completions: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, where *offset is that of the first, and then of the next.
 * null where none are wanted; NULL: no memory. */
json_t *pf_reply_chat_logprobs(const pf_reply_head *head, const pf_reply_choice *choice, int32_t first);
json_t *pf_reply_text_logprobs(const pf_reply_head *head, const pf_reply_choice *choice, int32_t first,
                               int64_t *offset);

/* Its parts: at least one, where it has none the empty text. */
int32_t pf_reply_count_parts(const pf_reply_choice *choice);
pf_reply_part pf_reply_part_at(const pf_reply_choice *choice, int32_t index);

/* A part that is a text; NULL: no memory. */
json_t *pf_reply_text(const pf_reply_choice *choice, const pf_reply_part *part);

/* Whether calls of tools have ended it. */
bool pf_reply_has_called(const pf_reply_choice *choice);

/* {"prompt_tokens", "completion_tokens", "total_tokens", ...}; NULL: no memory. */
json_t *pf_reply_usage(const pf_reply_head *head, const pf_usage *usage);

/* {"rounds", "drafted", ...}; NULL: no memory. */
json_t *pf_reply_speculation(const pf_usage *usage);

/* Appends an event of SSE with the document as its data, and takes the reference. name NULL: without a name. PF_NOMEM: also where
 * document is NULL. Source: HTML Living Standard, "Server-sent events". */
PF_MUST_USE pf_status pf_reply_event(const char *name, json_t *document, pf_bytes *out);

#endif
