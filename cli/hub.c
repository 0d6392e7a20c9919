/* Finds model directories, by path and in the Hugging Face cache. */
#include "cli/hub.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/hub_gguf.h"
#include "gguf/gguf.h"
#include "model/config/config.h"
#include "model/files/safetensors.h"
#include "tokenizer/tokenizer.h"

/* The length of a name of the characters that Hugging Face allows, at the start of a text. 0: none, or it begins with a dot. */
static size_t name_length(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return text[0] == '.' ? 0 : strspn(text, allowed);
}

/* org/name, or org/name:TAG. */
static bool is_repository_name(const char *name)
{
    const size_t organisation = name_length(name);
    if (organisation == 0 || name[organisation] != '/') return false;
    const char *repository = name + organisation + 1;
    const size_t length = name_length(repository);
    if (length == 0) return false;
    const char *end = repository + length;
    if (*end != ':') return *end == '\0';
    const size_t tag = name_length(end + 1);
    return tag > 0 && end[1 + tag] == '\0';
}

/* The length of a variable, $NAME or ${NAME}, at the start of a text, and its value. 0: none, or it is not set. */
static size_t variable_at(const char *text, const char **value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (text[0] != '$') return 0;
    const size_t brace = text[1] == '{';
    const char *begin = text + 1 + brace;
    const size_t length = brace ? strcspn(begin, "}") : strspn(begin, letters);
    char name[256];
    if (length >= sizeof name || (brace && begin[length] == '\0')) return 0;
    snprintf(name, sizeof name, "%.*s", (int)length, begin);
    const char *found = getenv(name);
    if (found == NULL) return 0;
    *value = found;
    return length + 1 + 2 * brace;
}

/* Appends a text with its variables expanded as by os.path.expandvars: once, unknown ones unchanged. False: it does not fit and
 * is truncated. */
static bool append_expanded(const char *text, char *out, size_t capacity)
{
    size_t n = strlen(out);
    while (*text != '\0') {
        const char *piece = text;
        const size_t variable = variable_at(text, &piece), length = variable > 0 ? strlen(piece) : 1;
        if (length >= capacity - n) return false;
        memcpy(out + n, piece, length);
        n += length;
        out[n] = '\0';
        text += variable > 0 ? variable : 1;
    }
    return true;
}

/* The home directory for ~ and the user name [n] behind it, as os.path.expanduser. NULL: unknown, and ~ stays. */
static const char *home_directory(const char *name, size_t n)
{
    char copy[256];
    const char *home = n == 0 ? getenv("HOME") : NULL;
    if (home != NULL) return home;
    if (n >= sizeof copy) return NULL;
    snprintf(copy, sizeof copy, "%.*s", (int)n, name);
    const struct passwd *user = n == 0 ? getpwuid(getuid()) : getpwnam(copy);
    return user != NULL ? user->pw_dir : NULL;
}

/* The cache directory, as huggingface_hub finds it (constants.py). False: it does not fit and is truncated. */
static bool cache_directory(char *out, size_t capacity)
{
    static const struct {
        const char *variable, *within;
    } places[] = { { "HF_HUB_CACHE", "" },
                   { "HUGGINGFACE_HUB_CACHE", "" },
                   { "HF_HOME", "/hub" },
                   { "XDG_CACHE_HOME", "/huggingface/hub" } };
    const char *base = "~/.cache", *within = "/huggingface/hub";
    for (size_t i = sizeof places / sizeof *places; i-- > 0;) {
        const char *set = getenv(places[i].variable);
        if (set == NULL || *set == '\0') continue;
        base = set;
        within = places[i].within;
    }
    const size_t n_user = base[0] == '~' ? strcspn(base + 1, "/") : 0;
    const char *home = base[0] == '~' ? home_directory(base + 1, n_user) : NULL;
    if (home != NULL) base += 1 + n_user;
    out[0] = '\0';
    return append_expanded(home ? home : "", out, capacity) && append_expanded(base, out, capacity) &&
           append_expanded(within, out, capacity);
}

enum { MAX_REVISION = 80 }; /* a commit has 40 */

/* Reads the commit from a file in refs/. PF_UNAVAILABLE: none.  PF_INVALID: it cannot be read. */
static pf_status read_revision(const char *reference_path, char out[MAX_REVISION], pf_error *error)
{
    char *text;
    size_t n;
    const pf_status status = pf_file_read(reference_path, MAX_REVISION - 1, &text, &n, error);
    if (status != PF_OK) return status == PF_LIMIT ? PF_UNAVAILABLE : status;
    const size_t length = name_length(text);
    snprintf(out, MAX_REVISION, "%.*s", (int)length, text);
    free(text);
    return length > 0 ? PF_OK : PF_UNAVAILABLE;
}

/* Finds the only revision of a repository without a main branch, which was downloaded by commit or tag. */
static pf_status find_only_revision(const char *snapshots_path, char out[MAX_REVISION], pf_error *error)
{
    int n_found = 0;
    DIR *listing = opendir(snapshots_path);
    if (listing == NULL && errno == ENOENT) return PF_UNAVAILABLE;
    if (listing == NULL) return pf_fail(error, PF_INVALID, "%s: cannot be opened: %s", snapshots_path, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        const size_t length = name_length(entry->d_name);
        if (length == 0 || entry->d_name[length] != '\0') continue;
        n_found++;
        snprintf(out, MAX_REVISION, "%.*s", (int)length, entry->d_name);
    }
    closedir(listing);
    return n_found == 1 ? PF_OK : PF_UNAVAILABLE;
}

static pf_status check_directory(const char *path, pf_error *error)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? PF_OK : pf_fail(error, PF_INVALID, "%s: is not a directory", path);
    if (errno == ENOENT) return PF_UNAVAILABLE;
    return pf_fail(error, PF_INVALID, "%s: cannot be examined: %s", path, strerror(errno));
}

/* PF_UNAVAILABLE: it is not there.  PF_INVALID: the cache cannot be read; the sentence says why. */
static pf_status find_in_cache(const char *cache, const char *name, char out[PF_MAX_PATH], pf_error *error)
{
    char folder[PF_MAX_PATH], path[PF_MAX_PATH + 16], revision[MAX_REVISION];
    const char *slash = strchr(name, '/');
    const int n = snprintf(folder, sizeof folder, "%s/models--%.*s--%s", cache, (int)(slash - name), name, slash + 1);
    if (n < 0 || (size_t)n >= sizeof folder) return PF_UNAVAILABLE;
    snprintf(path, sizeof path, "%s/refs/main", folder);
    if (pf_file_is_absent(path)) {
        snprintf(path, sizeof path, "%s/snapshots", folder);
        PF_TRY(find_only_revision(path, revision, error));
    } else {
        PF_TRY(read_revision(path, revision, error));
    }
    const int length = snprintf(out, PF_MAX_PATH, "%.*s/snapshots/%s", n, folder, revision);
    return length > 0 && length < PF_MAX_PATH ? check_directory(out, error) : PF_UNAVAILABLE;
}

/* Names the part that a directory in the cache lacks; NULL: none. */
typedef const char *find_lack_fn(const char *directory);

static bool has_file(const char *directory, const char *name)
{
    char path[PF_MAX_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return !pf_file_is_absent(path);
}

static const char *find_lack_of_model(const char *directory)
{
    /* The loader refuses a model in another form: downloading it again does not help. */
    pf_config config;
    if (!has_file(directory, "config.json"))
        return pf_config_load(directory, NULL, &config, NULL) == PF_UNSUPPORTED ? NULL : "not its config.json";
    pf_safetensors *weights = NULL;
    const pf_status status = pf_safetensors_open(directory, NULL, &weights, NULL);
    pf_safetensors_close(weights);
    return status == PF_UNAVAILABLE ? "not all of its weights" : NULL; /* the loader reports broken files */
}

static const char *find_lack_of_tokenizer(const char *directory)
{
    if (has_file(directory, "tokenizer.json")) return NULL;
    pf_tokenizer *tokenizer = NULL;
    const pf_status status = pf_tokenizer_open(directory, &tokenizer, NULL);
    pf_tokenizer_close(tokenizer);
    return status == PF_OK || status == PF_UNSUPPORTED ? NULL : "not its tokenizer";
}

/* tag: of a GGUF file, or NULL. */
static pf_status find_repository(const char *name, const char *tag, find_lack_fn *find_lack, char out[PF_MAX_PATH],
                                 pf_error *error)
{
    char cache[PF_MAX_PATH], found[PF_MAX_PATH];
    pf_error why = { 0 };
    const bool has_room = cache_directory(cache, sizeof cache);
    const pf_status status = has_room ? find_in_cache(cache, name, found, &why) : PF_UNAVAILABLE;
    if (status != PF_OK && status != PF_UNAVAILABLE)
        return pf_fail(error, status, "%s: there is no such directory, and the Hugging Face cache cannot be read: %s",
                       name, why.text);
    if (status == PF_OK && (tag != NULL || pf_hub_is_gguf_only(found)))
        return pf_hub_find_gguf(found, name, tag, out, error);
    const char *lack = status == PF_OK ? find_lack(found)
                       : has_room      ? "no such repository, or not its main branch"
                                       : "a path that is too long";
    if (lack != NULL)
        return pf_fail(error, PF_UNAVAILABLE,
                       "%s: there is no such directory, and the Hugging Face cache (%.200s) has %s; to download it: "
                       "hf download %s%s%s%s (older clients: huggingface-cli download %s)",
                       name, cache, lack, name, tag != NULL ? " --include \"*" : "", tag != NULL ? tag : "",
                       tag != NULL ? "*.gguf\"" : "", name);
    memcpy(out, found, sizeof found);
    return PF_OK;
}

static pf_status fail_for_file(const char *path, pf_error *error)
{
    const char *dot = strrchr(path, '.');
    if (dot != NULL && strcmp(dot, ".safetensors") == 0)
        return pf_fail(error, PF_INVALID, "%s is not a directory: give the directory that holds it", path);
    return pf_fail(
        error, PF_INVALID,
        "%s is not a directory, nor a GGUF file, expected one with config.json and safetensors, or such a file", path);
}

static pf_status find(const char *name, find_lack_fn *find_lack, char out[PF_MAX_PATH], pf_error *error)
{
    struct stat st;
    if (!*name) return pf_fail(error, PF_INVALID, "the model's name is empty, expected a directory or org/name");
    if (strlen(name) >= PF_MAX_PATH)
        return pf_fail(error, PF_INVALID, "the model's path has more than %d bytes", PF_MAX_PATH - 1);
    if (stat(name, &st) == 0) {
        if (!S_ISDIR(st.st_mode) && !pf_gguf_is_file(name)) return fail_for_file(name, error);
        snprintf(out, PF_MAX_PATH, "%s", name);
        return PF_OK;
    }
    if (errno != ENOENT && errno != ENOTDIR) return pf_fail(error, PF_UNAVAILABLE, "%s: %s", name, strerror(errno));
    if (!is_repository_name(name)) return pf_fail(error, PF_UNAVAILABLE, "%s: there is no such directory", name);
    char repository[PF_MAX_PATH];
    const size_t length = strcspn(name, ":");
    snprintf(repository, sizeof repository, "%.*s", (int)length, name);
    return find_repository(repository, name[length] == ':' ? name + length + 1 : NULL, find_lack, out, error);
}

pf_status pf_hub_find_model(const char *name, char out[PF_MAX_PATH], pf_error *error)
{
    return find(name, find_lack_of_model, out, error);
}

pf_status pf_hub_find_tokenizer(const char *name, char out[PF_MAX_PATH], pf_error *error)
{
    return find(name, find_lack_of_tokenizer, out, error);
}
