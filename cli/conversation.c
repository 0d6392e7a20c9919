/* The messages of a chat. */
#include "cli/conversation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/utf8.h"
#include "cli/input.h"

static json_t *messages_of(const pf_conversation *c)
{
    return json_object_get(c->root, "messages");
}

static bool has_role(const json_t *message, const char *role)
{
    const char *text = json_string_value(json_object_get(message, "role"));
    return text && strcmp(text, role) == 0;
}

/* Messages of the head. */
static size_t count_head(const json_t *messages)
{
    size_t n = 0;
    while (n < json_array_size(messages) &&
           (has_role(json_array_get(messages, n), "system") || has_role(json_array_get(messages, n), "developer")))
        n++;
    return n;
}

static json_t *make_message(const char *role, const char *text, size_t n_bytes)
{
    bool all_valid;
    char *repaired = malloc(3 * n_bytes + 1);
    if (!repaired) return NULL;
    const size_t n = pf_utf8_repair(text, n_bytes, repaired, 3 * n_bytes, &all_valid);
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", json_stringn(repaired, n));
    free(repaired);
    return message;
}

pf_status pf_conversation_begin(pf_conversation *c)
{
    json_t *root = json_pack("{s:[]}", "messages");
    if (!root) return PF_NOMEM;
    c->root = root;
    return PF_OK;
}

void pf_conversation_end(pf_conversation *c)
{
    json_decref(c->root);
    c->root = NULL;
}

pf_status pf_conversation_copy(const pf_conversation *c, pf_conversation *out)
{
    json_t *root = json_copy(c->root);
    if (json_object_set_new(root, "messages", json_copy(messages_of(c))) != 0) {
        json_decref(root);
        return PF_NOMEM;
    }
    out->root = root;
    return PF_OK;
}

pf_status pf_conversation_push(pf_conversation *c, const char *role, const char *text, size_t n_bytes)
{
    return json_array_append_new(messages_of(c), make_message(role, text, n_bytes)) == 0 ? PF_OK : PF_NOMEM;
}

void pf_conversation_pop(pf_conversation *c)
{
    json_t *messages = messages_of(c);
    if (json_array_size(messages) > 0) (void)json_array_remove(messages, json_array_size(messages) - 1);
}

pf_status pf_conversation_set_system(pf_conversation *c, const char *text, size_t n_bytes)
{
    json_t *messages = messages_of(c);
    const size_t n_head = count_head(messages);
    if (n_bytes > 0 && json_array_insert_new(messages, n_head, make_message("system", text, n_bytes)) != 0)
        return PF_NOMEM;
    for (size_t i = 0; i < n_head; i++) (void)json_array_remove(messages, 0);
    return PF_OK;
}

void pf_conversation_reset(pf_conversation *c)
{
    json_t *messages = messages_of(c);
    const size_t n_head = count_head(messages);
    while (json_array_size(messages) > n_head) pf_conversation_pop(c);
}

size_t pf_conversation_drop_turn(pf_conversation *c)
{
    json_t *messages = messages_of(c);
    const size_t first = count_head(messages);
    size_t next = first + 1;
    while (next < json_array_size(messages) && !has_role(json_array_get(messages, next), "user")) next++;
    if (next >= json_array_size(messages)) return 0;
    for (size_t i = first; i < next; i++) (void)json_array_remove(messages, first);
    return next - first;
}

bool pf_conversation_awaits_answer(const pf_conversation *c)
{
    const json_t *messages = messages_of(c);
    const size_t n = json_array_size(messages);
    return n > 0 && has_role(json_array_get(messages, n - 1), "user");
}

size_t pf_conversation_count(const pf_conversation *c)
{
    return json_array_size(messages_of(c));
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The conversation of a document, of which a reference is taken over; NULL: no memory. */
static json_t *as_object(json_t *document)
{
    json_t *root = json_is_array(document) ? json_pack("{s:o}", "messages", document) : document;
    if (root) (void)json_object_del(root, "add_generation_prompt"); /* an answer always follows */
    return root;
}

static pf_status check_messages(const json_t *document, const char *path, pf_error *error)
{
    const json_t *messages = json_is_object(document) ? json_object_get(document, "messages") : document;
    if (!json_is_array(messages))
        return pf_fail(error, PF_FORMAT, "%s: holds no list of messages, nor an object with \"messages\"",
                       pf_input_name(path));
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (!json_is_string(json_object_get(json_array_get(messages, i), "role")))
            return pf_fail(error, PF_FORMAT, "%s: message %zu has no \"role\" that is a text", pf_input_name(path),
                           i + 1);
    return PF_OK;
}

pf_status pf_conversation_load(pf_conversation *c, const char *path, pf_error *error)
{
    json_t *document = NULL;
    PF_TRY(pf_input_read_json(path, &document, error));
    const pf_status status = check_messages(document, path, error);
    if (status != PF_OK) {
        json_decref(document);
        return status;
    }
    json_t *root = as_object(document);
    if (!root) return pf_fail(error, PF_NOMEM, "%s: no memory for its messages", pf_input_name(path));
    json_decref(c->root);
    c->root = root;
    return PF_OK;
}

static pf_status write_file(const char *path, const char *text, size_t n, pf_error *error)
{
    int why = 0;
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be written: %s", path, strerror(errno));
    while (n > 0 && why == 0) {
        const ssize_t written = write(descriptor, text, n);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            why = errno;
            break;
        }
        text += written;
        n -= (size_t)written;
    }
    if (close(descriptor) != 0 && why == 0) why = errno;
    return why == 0 ? PF_OK : pf_fail(error, PF_UNAVAILABLE, "%s: cannot be written: %s", path, strerror(why));
}

pf_status pf_conversation_save(const pf_conversation *c, const char *path, pf_error *error)
{
    const json_t *document = json_object_size(c->root) == 1 ? messages_of(c) : c->root;
    char *text = pf_json_print(document, JSON_INDENT(2));
    const size_t n = text ? strlen(text) : 0;
    if (!text) return pf_fail(error, PF_NOMEM, "%s: no memory for its messages", path);
    text[n] = '\n'; /* in the place of the NUL */
    const pf_status status = write_file(path, text, n + 1, error);
    free(text);
    return status;
}
