/*
 * The messages of a chat: what was said, as JSON that the model's chat template takes and files hold.
 *
 *      system ...   user  assistant   user  assistant   user
 *      |- head -|   |-- a turn --|    |-- a turn --|    |- the turn that is to be answered
 *
 * The head stays when the oldest turn is dropped and when the chat is reset. Other variables of the template, such as "tools",
 * are kept beside the messages.
 */
#ifndef PF_CLI_CONVERSATION_H
#define PF_CLI_CONVERSATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct {
    json_t *root; /* {"messages": [...], ...}; owned */
} pf_conversation;

/* An empty conversation. PF_NOMEM. The caller ends it with pf_conversation_end. */
PF_MUST_USE pf_status pf_conversation_begin(pf_conversation *conversation);
void pf_conversation_end(pf_conversation *conversation); /* zeroed is fine */

/* The same messages, of which each may then drop and append its own. PF_NOMEM. */
PF_MUST_USE pf_status pf_conversation_copy(const pf_conversation *conversation, pf_conversation *out);

/* Appends a message; in the text, bytes that are no UTF-8 become U+FFFD. PF_NOMEM: nothing has changed. */
PF_MUST_USE pf_status pf_conversation_push(pf_conversation *conversation, const char *role, const char *text,
                                           size_t n_bytes);

/* Takes the last message back. */
void pf_conversation_pop(pf_conversation *conversation);

/* Puts one system message in the place of those at the head; n_bytes 0: none. PF_NOMEM. */
PF_MUST_USE pf_status pf_conversation_set_system(pf_conversation *conversation, const char *text, size_t n_bytes);

/* Drops all messages but the head. */
void pf_conversation_reset(pf_conversation *conversation);

/* Drops the oldest turn. Returns how many messages it had; 0: there is one turn alone, and it stays. */
size_t pf_conversation_drop_turn(pf_conversation *conversation);

/* Whether an answer to the user is what comes next. */
bool pf_conversation_awaits_answer(const pf_conversation *conversation);

size_t pf_conversation_count(const pf_conversation *conversation); /* messages */

/* Reads a file with a list of messages, or with an object that has "messages". Errors leave the conversation as it is: as
 * pf_input_read_json, and PF_FORMAT where a message is no object with a "role". */
PF_MUST_USE pf_status pf_conversation_load(pf_conversation *conversation, const char *path, pf_error *error);

/* Writes the list of messages, or the object where there are other variables. PF_UNAVAILABLE: the file cannot be written.
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_conversation_save(const pf_conversation *conversation, const char *path, pf_error *error);

#endif
