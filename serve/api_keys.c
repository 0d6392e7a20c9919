/* API keys as digests. */
#include "serve/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"

enum { DIGEST_BYTES = 32, MAX_FILE_BYTES = 1 << 20 };

struct pf_api_keys {
    size_t n;
    unsigned char digests[][DIGEST_BYTES]; /* [n] SHA-256 */
};

static bool digest(const char *key, size_t n, unsigned char out[DIGEST_BYTES])
{
    return EVP_Digest(key, n, out, NULL, EVP_sha256(), NULL) == 1;
}

/* The text of a line without blanks around it; 0: blank, or a comment. */
static size_t trim(const char **line, size_t n)
{
    while (n > 0 && strchr(" \t\r", **line)) ++*line, n--;
    while (n > 0 && strchr(" \t\r", (*line)[n - 1])) n--;
    return n > 0 && **line == '#' ? 0 : n;
}

static pf_status read_lines(pf_api_keys *keys, const char *text, size_t n_bytes)
{
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line = at;
        const size_t n = trim(&line, (size_t)((newline ? newline : end) - at));
        if (n > 0 && !digest(line, n, keys->digests[keys->n++])) return PF_UNAVAILABLE;
        at = newline ? newline + 1 : end;
    }
    return PF_OK;
}

pf_status pf_api_keys_open(const char *path, pf_api_keys **out, pf_error *error)
{
    char *text;
    size_t n_bytes, n_lines = 1;
    PF_TRY(pf_file_read(path, MAX_FILE_BYTES, &text, &n_bytes, error));
    for (size_t i = 0; i < n_bytes; i++) n_lines += text[i] == '\n';
    pf_api_keys *keys = calloc(1, sizeof *keys + n_lines * DIGEST_BYTES);
    pf_status status = keys ? read_lines(keys, text, n_bytes) : PF_NOMEM;
    if (status == PF_OK && keys->n == 0)
        status = pf_fail(error, PF_FORMAT, "%s: holds no API key, expected one a line", path);
    else if (status != PF_OK)
        status = pf_fail(error, status, "%s: no digest can be made of its keys", path);
    OPENSSL_cleanse(text, n_bytes);
    free(text);
    if (status == PF_OK)
        *out = keys;
    else
        free(keys);
    return status;
}

void pf_api_keys_close(pf_api_keys *keys)
{
    free(keys);
}

static bool allows(const pf_api_keys *keys, const char *key)
{
    unsigned char presented[DIGEST_BYTES];
    if (!key || !digest(key, strlen(key), presented)) return false;
    int found = 0;
    for (size_t i = 0; i < keys->n; i++) found |= CRYPTO_memcmp(presented, keys->digests[i], DIGEST_BYTES) == 0;
    return found != 0;
}

bool pf_api_keys_allow(const pf_api_keys *keys, const char *authorization, const char *x_api_key)
{
    static const char bearer[] = "Bearer ";
    const bool is_bearer = authorization && strncasecmp(authorization, bearer, sizeof bearer - 1) == 0;
    const bool by_bearer = allows(keys, is_bearer ? authorization + sizeof bearer - 1 : NULL);
    return allows(keys, x_api_key) || by_bearer;
}
