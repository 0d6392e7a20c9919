/* Text and ids that come in. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/interrupt.h"
#include "jinja/chat_template.h"

enum { MAX_INPUT_BYTES = 1 << 28, MAX_CHAT_BYTES = 1 << 26 };

bool pf_input_wait(int descriptor)
{
    enum { LOOK_AGAIN_MS = 100 };
    struct pollfd wanted = { .fd = descriptor, .events = POLLIN };
    while (!*pf_interrupt_flag())
        if (poll(&wanted, 1, LOOK_AGAIN_MS) > 0) return true;
    return false;
}

/* All of a stream, to its end, which is waited for. */
static pf_status read_stream(int descriptor, const char *name, char **out, size_t *n_bytes, pf_error *error)
{
    size_t n = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    while (text) {
        if (!pf_input_wait(descriptor)) {
            free(text);
            return pf_fail(error, PF_CANCELLED, "%s: interrupted", name);
        }
        const ssize_t got = read(descriptor, text + n, capacity - n - 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) {
            const int why = errno;
            free(text);
            return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be read: %s", name, strerror(why));
        }
        n += (size_t)got;
        if (n > MAX_INPUT_BYTES) {
            free(text);
            return pf_fail(error, PF_LIMIT, "%s: has more than %d bytes, the most that is read", name, MAX_INPUT_BYTES);
        }
        if (got == 0) {
            text[n] = '\0';
            *out = text;
            *n_bytes = n;
            return PF_OK;
        }
        if (n + 1 == capacity) {
            char *larger = realloc(text, capacity *= 2);
            if (!larger) free(text);
            text = larger;
        }
    }
    return pf_fail(error, PF_NOMEM, "%s: no memory to read it", name);
}

const char *pf_input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* O_NONBLOCK: a FIFO without a writer would block open(), and a signal that came just before would be missed. */
pf_status pf_input_read(const char *path, char **out, size_t *n_bytes, pf_error *error)
{
    const char *name = pf_input_name(path);
    if (name != path) return read_stream(STDIN_FILENO, name, out, n_bytes, error);
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be opened: %s", path, strerror(errno));
    const pf_status status = read_stream(descriptor, path, out, n_bytes, error);
    close(descriptor);
    return status;
}

pf_status pf_input_encode(const pf_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
                          pf_tokens *out, pf_error *error)
{
    const pf_status status = pf_tokenizer_encode(tokenizer, text, n_bytes, add_special, pf_interrupt_flag(), out);
    if (status == PF_OK || status == PF_CANCELLED) return status;
    return pf_fail(error, status, "a text of %zu bytes cannot be cut into tokens: %s", n_bytes,
                   pf_tokenizer_refusal(status));
}

pf_status pf_input_read_json(const char *path, json_t **out, pf_error *error)
{
    char *text = NULL;
    size_t n_bytes = 0;
    PF_TRY(pf_input_read(path, &text, &n_bytes, error));
    const pf_status status = pf_json_parse_exactly(pf_input_name(path), text, n_bytes, MAX_CHAT_BYTES, out, error);
    free(text);
    return status;
}

pf_status pf_input_read_chat(const char *path, const char *directory, const pf_tokenizer *tokenizer, pf_bytes *text,
                             pf_tokens *out, pf_error *error)
{
    json_t *conversation = NULL;
    pf_chat_template *chat = NULL;
    pf_error why = { 0 };
    PF_TRY(pf_input_read_json(path, &conversation, error));
    pf_status status = pf_chat_template_open(directory, &chat, error);
    if (status == PF_OK) {
        status = pf_chat_template_render(chat, conversation, text, &why);
        if (status != PF_OK) status = pf_fail(error, status, "%s: %s", pf_input_name(path), why.text);
    }
    if (status == PF_OK) status = pf_input_encode(tokenizer, text->data ? text->data : "", text->n, false, out, error);
    pf_chat_template_close(chat);
    json_decref(conversation);
    return status;
}

pf_status pf_input_check_ids(const pf_tokens *ids, int32_t n_ids, pf_error *error)
{
    for (int32_t i = 0; i < ids->n; i++)
        if (ids->ids[i] >= n_ids)
            return pf_fail(error, PF_INVALID, "entry %d of --tokens is %d, expected a token id from 0 to %d", i + 1,
                           ids->ids[i], n_ids - 1);
    return PF_OK;
}

pf_status pf_input_read_prompt(const pf_options *options, const pf_tokenizer *tokenizer, pf_tokens *out,
                               pf_error *error)
{
    if (!tokenizer) return pf_fail(error, PF_INVALID, "the model has no tokenizer: give the prompt as --tokens");
    char *file = NULL;
    const char *text = options->prompt;
    size_t n_bytes = text ? strlen(text) : 0;
    if (options->prompt_file) {
        PF_TRY(pf_input_read(options->prompt_file, &file, &n_bytes, error));
        text = file;
    }
    const pf_status status = pf_input_encode(tokenizer, text, n_bytes, true, out, error);
    free(file);
    return status;
}
