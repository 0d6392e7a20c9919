/*
 * A chat: a conversation, the model that answers, and what the answers took.
 *
 *      messages --chat template--> text --tokenizer--> ids --session (keeps the sequence)--> answer --> messages
 *
 * Each turn is rendered as a whole. The session computes only the tokens that its kept sequence does not begin with, so a turn
 * costs its own tokens. Where the conversation no longer fits the context, the oldest turns are dropped.
 */
#ifndef PF_CLI_CHAT_H
#define PF_CLI_CHAT_H

#include "cli/conversation.h"
#include "cli/request.h"
#include "jinja/chat_template.h"

typedef struct {
    int64_t n_answers, n_prompt, n_new;
    int64_t n_reused; /* of the prompt; -1: a far verifier, which does not say */
    uint64_t prefill_ns, decode_ns;
    int64_t n_decoded; /* in decode_ns */
    pf_speculation speculation;
} pf_chat_figures;

/* Tokens that end an answer: the model's, and the one that ends a message of the template. */
typedef struct {
    int32_t ids[PF_MAX_STOP_TOKENS]; /* [n] */
    int32_t n;
} pf_chat_ends;

typedef struct {
    const pf_options *options;
    pf_out *out;
    bool is_typed; /* on a terminal: a bar while a prompt is read */
    pf_setup setup;
    pf_chat_template *chat_template;
    pf_conversation conversation;
    uint64_t seed;
    pf_chat_ends ends;
    pf_result result;
    int32_t *tokens; /* [setup.max_context] of the answer */
    pf_chat_figures last, all;
} pf_chat;

/* The template of --chat-template, or of the model whose tokenizer is used. PF_UNAVAILABLE: there is none; the sentence names
 * --chat-template. Else as pf_chat_template_open. */
PF_MUST_USE pf_status pf_chat_open_template(const pf_options *options, pf_chat_template **out, pf_error *error);

/* None under --ignore-eos. chat NULL: those of the model alone. */
void pf_chat_find_ends(const pf_options *options, const pf_setup *setup, const pf_chat_template *chat,
                       pf_chat_ends *out);

/* Loads all that the options name. Errors as pf_setup_open and pf_chat_template_open; a missing template names
 * --chat-template. The caller ends it with pf_chat_close, whatever is returned. */
PF_MUST_USE pf_status pf_chat_open(const pf_options *options, pf_out *out, pf_chat *chat, pf_error *error);
void pf_chat_close(pf_chat *chat);

/* Answers the conversation: shows the text as it is made, a line end behind it, and appends it as a message.
 * PF_CANCELLED: interrupted; what was made is a message, if it is any. PF_LIMIT: the last turn alone does not fit the context.
 * Also as pf_chat_template_render, pf_input_encode and pf_generate. *answered: a message was appended. */
PF_MUST_USE pf_status pf_chat_answer(pf_chat *chat, bool *answered, pf_error *error);

/* The figures of the last answer and of all of them, on standard error. */
void pf_chat_print_figures(const pf_chat *chat);

#endif
