#include "cli/hub_gguf.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 2, MAX_SHOWN = 12 }; /* a folder for each quantisation is usual */

typedef struct {
    const char *tag; /* NULL: every file matches */
    int n_files, n_matches;
    bool has_safetensors;
    char match[PF_MAX_PATH]; /* the last that matches */
    char shown[1024];        /* names of the files, or of those that match where there are several */
    char shown_matches[1024];
} survey;

static bool ends_with(const char *name, const char *suffix)
{
    const size_t n = strlen(name), n_suffix = strlen(suffix);
    return n >= n_suffix && strcasecmp(name + n - n_suffix, suffix) == 0;
}

/* A part of a split file but the first: NAME-00002-of-00003.gguf. */
static bool is_later_part(const char *name)
{
    static const char example[] = "-00001-of-00003.gguf";
    const size_t n = strlen(name), n_end = sizeof example - 1;
    if (n < n_end) return false;
    const char *end = name + n - n_end;
    for (size_t i = 0; i < n_end; i++)
        if (isdigit((unsigned char)example[i]) ? !isdigit((unsigned char)end[i]) : end[i] != example[i]) return false;
    return strncmp(end, "-00001-", 7) != 0;
}

static bool is_model(const char *name)
{
    return ends_with(name, ".gguf") && !is_later_part(name) && strncasecmp(name, "mmproj", 6) != 0 &&
           strcasestr(name, "imatrix") == NULL;
}

/* Whether the tag is a word of the name: Q4_K is none of Q4_K_M, Q4_XS none of IQ4_XS. */
static bool has_word(const char *name, const char *tag)
{
    const size_t n = strlen(tag);
    for (const char *at = name; (at = strcasestr(at, tag)) != NULL; at++) {
        const bool begins = at == name || strchr("-._/", at[-1]) != NULL;
        if (begins && strchr("-./", at[n]) != NULL) return true; /* the end of the text is there too */
    }
    return false;
}

static void show(char *list, size_t capacity, int n_before, const char *name)
{
    const size_t n = strlen(list);
    if (n_before < MAX_SHOWN)
        snprintf(list + n, capacity - n, "%s%.120s", n_before > 0 ? ", " : "", name);
    else if (n_before == MAX_SHOWN)
        snprintf(list + n, capacity - n, ", ...");
}

static void look_at(survey *s, const char *path, const char *name)
{
    if (ends_with(name, ".safetensors")) s->has_safetensors = true;
    const char *slash = strrchr(name, '/');
    if (!is_model(slash != NULL ? slash + 1 : name)) return;
    show(s->shown, sizeof s->shown, s->n_files++, name);
    if (s->tag != NULL && !has_word(name, s->tag)) return;
    show(s->shown_matches, sizeof s->shown_matches, s->n_matches++, name);
    snprintf(s->match, sizeof s->match, "%s", path);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* prefix: of the folder within the repository, "" or "Q4_K_M/". */
static void look_in(survey *s, const char *directory, const char *prefix, int depth)
{
    struct dirent **names;
    const int n = scandir(directory, &names, is_shown, compare_names);
    for (int i = 0; i < n; i++) {
        char path[PF_MAX_PATH], name[PF_MAX_PATH];
        struct stat st;
        const int n_path = snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
        const int n_name = snprintf(name, sizeof name, "%s%s", prefix, names[i]->d_name);
        free(names[i]);
        if (n_path >= PF_MAX_PATH || n_name + 1 >= PF_MAX_PATH || stat(path, &st) != 0) continue;
        if (S_ISREG(st.st_mode)) look_at(s, path, name);
        if (!S_ISDIR(st.st_mode) || depth == MAX_DEPTH) continue;
        memcpy(name + n_name, "/", 2);
        look_in(s, path, name, depth + 1);
    }
    if (n >= 0) free(names);
}

bool pf_hub_is_gguf_only(const char *directory)
{
    survey s = { .tag = NULL };
    look_in(&s, directory, "", 1);
    return s.n_files > 0 && !s.has_safetensors;
}

pf_status pf_hub_find_gguf(const char *directory, const char *name, const char *tag, char out[PF_MAX_PATH],
                           pf_error *error)
{
    survey s = { .tag = tag };
    look_in(&s, directory, "", 1);
    if (s.n_matches == 1) {
        memcpy(out, s.match, sizeof s.match);
        return PF_OK;
    }
    if (s.n_matches > 1)
        return pf_fail(error, PF_INVALID,
                       "%s: the Hugging Face cache has %d GGUF files of it%s%s (%s): give %s:TAG, with a "
                       "word that only one of these names has",
                       name, s.n_matches, tag != NULL ? " with " : "", tag != NULL ? tag : "", s.shown_matches, name);
    const char *wanted = tag != NULL ? tag : "anything"; /* NULL: there is none at all */
    return pf_fail(
        error, PF_UNAVAILABLE,
        "%s: no GGUF file in the Hugging Face cache (%.200s) has %s in its name; there %s %s; to download it: "
        "hf download %s --include \"*%s*.gguf\"",
        name, directory, wanted, s.n_files == 1 ? "is" : "are", s.n_files > 0 ? s.shown : "none", name,
        tag != NULL ? tag : "");
}
