/* Model names. */
#include "cli/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

/* org/name, neither of them empty, "." or "..", of the characters that Hugging Face allows. */
static bool is_repository_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t organisation = strspn(name, allowed);
    if (organisation == 0 || name[organisation] != '/' || name[0] == '.') return false;
    const char *repository = name + organisation + 1;
    const size_t length = strspn(repository, allowed);
    return length > 0 && repository[length] == '\0' && repository[0] != '.';
}

static bool cache_directory(char *out, size_t capacity)
{
    const char *hub = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *cache = getenv("XDG_CACHE_HOME");
    int n;
    if (hub && *hub)
        n = snprintf(out, capacity, "%s", hub);
    else if (home && *home)
        n = snprintf(out, capacity, "%s/hub", home);
    else if (cache && *cache)
        n = snprintf(out, capacity, "%s/huggingface/hub", cache);
    else
        n = snprintf(out, capacity, "%s/.cache/huggingface/hub", getenv("HOME") ? getenv("HOME") : "");
    return n > 0 && (size_t)n < capacity;
}

/* The commit that refs/main names, or false. */
static bool read_revision(const char *reference_path, char out[80])
{
    char *text;
    size_t n;
    if (pf_file_read(reference_path, 64, &text, &n, NULL) != PF_OK) return false;
    const size_t length = strspn(text, "0123456789abcdefABCDEF");
    snprintf(out, 80, "%.*s", (int)(length < 79 ? length : 79), text);
    free(text);
    return length > 0;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool find_in_cache(const char *cache, const char *name, char out[PF_MAX_PATH])
{
    char folder[PF_MAX_PATH], reference[PF_MAX_PATH + 16], revision[80];
    const char *slash = strchr(name, '/');
    const int n = snprintf(folder, sizeof folder, "%s/models--%.*s--%s", cache, (int)(slash - name), name, slash + 1);
    if (n < 0 || (size_t)n >= sizeof folder) return false;
    snprintf(reference, sizeof reference, "%s/refs/main", folder);
    if (!read_revision(reference, revision)) return false;
    const int length = snprintf(out, PF_MAX_PATH, "%.*s/snapshots/%s", n, folder, revision);
    return length > 0 && length < PF_MAX_PATH && is_directory(out);
}

pf_status pf_hub_find_model(const char *name, char out[PF_MAX_PATH], pf_error *error)
{
    struct stat st;
    if (!*name) return pf_fail(error, PF_INVALID, "the model's name is empty, expected a directory or org/name");
    if (strlen(name) >= PF_MAX_PATH)
        return pf_fail(error, PF_INVALID, "the model's path has more than %d bytes", PF_MAX_PATH - 1);
    if (stat(name, &st) == 0) {
        if (!S_ISDIR(st.st_mode))
            return pf_fail(error, PF_INVALID, "%s is not a directory, expected one with config.json and safetensors",
                           name);
        snprintf(out, PF_MAX_PATH, "%s", name);
        return PF_OK;
    }
    if (errno != ENOENT && errno != ENOTDIR) return pf_fail(error, PF_UNAVAILABLE, "%s: %s", name, strerror(errno));
    if (!is_repository_name(name)) return pf_fail(error, PF_UNAVAILABLE, "%s: there is no such directory", name);

    char cache[PF_MAX_PATH], found[PF_MAX_PATH];
    if (!cache_directory(cache, sizeof cache))
        return pf_fail(error, PF_UNAVAILABLE, "%s: there is no such directory", name);
    if (!find_in_cache(cache, name, found))
        return pf_fail(error, PF_UNAVAILABLE,
                       "%s: there is no such directory, and no such repository in the Hugging Face cache (%.200s); to "
                       "download it: hf download %s (older clients: huggingface-cli download %s)",
                       name, cache, name, name);
    memcpy(out, found, sizeof found);
    return PF_OK;
}
