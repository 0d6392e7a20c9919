/*
 * Reads the tokenizer of a model: a GGUF file, or a directory, of whose forms the first that is there is taken:
 *
 *   tokenizer.json
 *   tokenizer.model              SentencePiece, or lines as tiktoken has them
 *   qwen.tiktoken
 *   vocab.json and merges.txt
 *
 * Every other form becomes the document of a tokenizer.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/files/gguf_tokenizer.h"
#include "tokenizer/files/sentencepiece_tokenizer.h"
#include "tokenizer/files/tiktoken.h"
#include "tokenizer/files/tokenizer_config.h"
#include "tokenizer/files/vocab_merges.h"
#include "tokenizer/tokenizer_parts.h"

typedef struct {
    const char *path;
    pf_json doc;       /* of tokenizer.json, or what stands for it */
    pf_json beside[3]; /* tokenizer_config.json, special_tokens_map.json, added_tokens.json */
    pf_tokenizer_files files;
    pf_error *error;
} directory;

static pf_status join(const directory *d, const char *name, char out[PF_FILE_PATH_BYTES])
{
    if (pf_file_join(d->path, name, out, NULL) == PF_OK) return PF_OK;
    return pf_fail(d->error, PF_INVALID, "the path of the tokenizer is longer than %d bytes", PF_FILE_PATH_BYTES);
}

/* Whether a file is there; *path: its path. */
static pf_status find(const directory *d, const char *name, char path[PF_FILE_PATH_BYTES], bool *found)
{
    PF_TRY(join(d, name, path));
    *found = !pf_file_is_absent(path);
    return PF_OK;
}

/* Open a file that may be absent; then *out stays zeroed and *view NULL. */
static pf_status open_optional(const directory *d, const char *name, pf_json *out, const pf_json **view)
{
    char path[PF_FILE_PATH_BYTES];
    pf_error why = { 0 };
    PF_TRY(join(d, name, path));
    const pf_status status = pf_json_open(path, PF_MAX_TOKENIZER_CONFIG_BYTES, out, &why);
    if (status == PF_OK) *view = out;
    if (status != PF_OK && status != PF_UNAVAILABLE && d->error) *d->error = why;
    return status == PF_UNAVAILABLE ? PF_OK : status;
}

static pf_status open_beside(directory *d)
{
    PF_TRY(open_optional(d, "tokenizer_config.json", &d->beside[0], &d->files.config));
    if (!pf_tokenizer_config_is_old(d->files.config)) return PF_OK;
    PF_TRY(open_optional(d, "special_tokens_map.json", &d->beside[1], &d->files.special_map));
    return open_optional(d, "added_tokens.json", &d->beside[2], &d->files.added);
}

/* Names the tokenizer that is there in another form, and how transformers converts it. */
static pf_status fail_without_tokenizer(const directory *d)
{
    static const char *const others[] = { "spiece.model", "sentencepiece.bpe.model", "tekken.json", "vocab.json",
                                          "vocab.txt" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[PF_FILE_PATH_BYTES];
        if (pf_file_join(d->path, others[i], path, NULL) != PF_OK || pf_file_is_absent(path)) continue;
        return pf_fail(d->error, PF_UNSUPPORTED,
                       "%s: there is no tokenizer.json, and %s is not read: transformers makes one of it, "
                       "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                       d->path, others[i]);
    }
    return pf_fail(d->error, PF_UNAVAILABLE, "%s: there is no tokenizer.json, nor another tokenizer", d->path);
}

/* ---- forms ---- */

static pf_status open_model(directory *d, const char *path)
{
    char *text = NULL;
    size_t n = 0;
    PF_TRY(pf_file_read(path, PF_MAX_SENTENCEPIECE_BYTES, &text, &n, d->error));
    pf_status status;
    if (pf_tiktoken_is_file(text, n)) {
        d->files.ranked = true;
        status = pf_tiktoken_document(path, text, n, false, &d->files, &d->doc, d->error);
    } else {
        status = pf_sentencepiece_document(path, (const uint8_t *)text, n, &d->files, &d->doc, d->error);
    }
    free(text);
    return status;
}

static pf_status open_qwen(directory *d, const char *path)
{
    char *text = NULL;
    size_t n = 0;
    PF_TRY(pf_file_read(path, PF_MAX_TIKTOKEN_BYTES, &text, &n, d->error));
    d->files.ranked = true;
    const pf_status status = pf_tiktoken_document(path, text, n, true, &d->files, &d->doc, d->error);
    free(text);
    return status;
}

static pf_status open_vocab(directory *d, const char *vocab_path, const char *merges_path)
{
    char *text = NULL;
    size_t n = 0;
    pf_json vocab = { 0 };
    PF_TRY(pf_json_open(vocab_path, PF_MAX_TOKENIZER_BYTES, &vocab, d->error));
    pf_status status = pf_file_read(merges_path, PF_MAX_MERGES_BYTES, &text, &n, d->error);
    if (status == PF_OK) status = pf_vocab_merges_document(&vocab, merges_path, text, n, &d->files, &d->doc, d->error);
    free(text);
    pf_json_close(&vocab);
    return status;
}

static pf_status open_form(directory *d)
{
    char path[PF_FILE_PATH_BYTES], second[PF_FILE_PATH_BYTES];
    bool found = false, has_merges = false;
    PF_TRY(find(d, "tokenizer.json", path, &found));
    if (found) return pf_json_open(path, PF_MAX_TOKENIZER_BYTES, &d->doc, d->error);
    PF_TRY(find(d, "tokenizer.model", path, &found));
    if (found) return open_model(d, path);
    PF_TRY(find(d, "qwen.tiktoken", path, &found));
    if (found) return open_qwen(d, path);
    PF_TRY(find(d, "vocab.json", path, &found));
    PF_TRY(find(d, "merges.txt", second, &has_merges));
    return found && has_merges ? open_vocab(d, path, second) : fail_without_tokenizer(d);
}

bool pf_tokenizer_is_there(const char *path)
{
    static const char *const forms[][2] = { { "tokenizer.json", NULL },
                                            { "tokenizer.model", NULL },
                                            { "qwen.tiktoken", NULL },
                                            { "vocab.json", "merges.txt" } };
    if (pf_gguf_is_file(path)) return true;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        bool found = true;
        for (int k = 0; k < 2 && forms[i][k] && found; k++) {
            char file[PF_FILE_PATH_BYTES];
            found = pf_file_join(path, forms[i][k], file, NULL) == PF_OK && !pf_file_is_absent(file);
        }
        if (found) return true;
    }
    return false;
}

static pf_status read_directory(directory *d, pf_tokenizer *t)
{
    PF_TRY(open_beside(d));
    PF_TRY(open_form(d));
    d->files.tokenizer = &d->doc;
    return pf_tokenizer_read_documents(&d->files, t, d->error);
}

/* From the metadata of a GGUF file. */
static pf_status read_gguf(const char *path, pf_tokenizer *t, pf_error *error)
{
    pf_gguf *file = NULL;
    pf_json doc = { 0 };
    const pf_tokenizer_files files = { .tokenizer = &doc };
    PF_TRY(pf_gguf_open(path, &file, error));
    pf_status status = pf_gguf_tokenizer_document(file, &doc, error);
    if (status == PF_OK) status = pf_tokenizer_read_documents(&files, t, error);
    pf_json_close(&doc);
    pf_gguf_close(file);
    return status;
}

pf_status pf_tokenizer_read(const char *path, pf_tokenizer *t, pf_error *error)
{
    if (pf_gguf_is_file(path)) return read_gguf(path, t, error);
    directory d = { .path = path, .error = error };
    const pf_status status = read_directory(&d, t);
    for (int i = 0; i < 3; i++) pf_json_close(&d.beside[i]);
    pf_json_close(&d.doc);
    return status;
}
