/*
 * A set keeps its files mapped, its tensors in the order of the files, and pointers to them in the order of names, for the
 * detection of duplicates at open and for lookups. The bytes of tensors are not read here.
 */
#include "model/files/safetensors.h"

#include <assert.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/json.h"
#include "model/config/model_directory.h"

#define INDEX_NAME "model.safetensors.index.json"

enum {
    MAX_HEADER_BYTES = 100000000, /* as the reference implementation allows */
    MAX_INDEX_BYTES = 100000000,
    MAX_FILES = 100000, /* most processes are limited to fewer: a mapped file keeps its descriptor */
};

/* The element types of the format: names and bits. Those that kernels read have a pf_type. */
static const struct {
    const char *name;
    int32_t bits;
    int32_t type; /* pf_type, or -1 */
} DTYPES[] = {
    { "F32", 32, PF_TYPE_F32 },
    { "F16", 16, PF_TYPE_F16 },
    { "BF16", 16, PF_TYPE_BF16 },
    { "F64", 64, -1 },
    { "I64", 64, -1 },
    { "U64", 64, -1 },
    { "C64", 64, -1 },
    { "I32", 32, -1 },
    { "U32", 32, -1 },
    { "I16", 16, -1 },
    { "U16", 16, -1 },
    { "I8", 8, -1 },
    { "U8", 8, -1 },
    { "BOOL", 8, -1 },
    { "F8_E4M3", 8, -1 },
    { "F8_E5M2", 8, -1 },
    { "F8_E4M3FNUZ", 8, -1 },
    { "F8_E5M2FNUZ", 8, -1 },
    { "F8_E8M0", 8, -1 },
    { "F4", 4, -1 },
    { "F6_E2M3", 6, -1 },
    { "F6_E3M2", 6, -1 },
};
enum { N_DTYPES = sizeof DTYPES / sizeof *DTYPES };

/* The beginning of a Git LFS pointer file, which a clone without Git LFS has in place of the weights. */
static const char LFS_POINTER[] = "version https://git-lfs.github.com/spec/";

typedef struct {
    pf_tensor tensor; /* its name is owned */
    int32_t dtype;    /* index into DTYPES */
    int32_t file;
    size_t begin, end; /* in the data of its file */
    bool is_dropped;   /* another file's copy is read */
} entry;

typedef struct {
    char *name; /* without the directory */
    pf_file_map map;
} shard;

struct pf_safetensors {
    char *directory;
    shard *files;
    int32_t n_files;
    entry *entries;  /* in the order of the files */
    entry **by_name; /* [n_entries] */
    int32_t n_entries;
};

static pf_status no_memory(pf_error *error, const char *what)
{
    return pf_fail(error, PF_NOMEM, "no memory for the tensors of %s", what);
}

static uint64_t read_u64_le(const uint8_t *p)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

/* --- one tensor of a header --- */

static pf_status read_dtype(const pf_json *doc, const char *name, const json_t *node, int32_t *out, pf_error *error)
{
    const char *text = json_string_value(json_object_get(node, "dtype"));
    for (int32_t i = 0; text && i < N_DTYPES; i++) {
        if (strcmp(text, DTYPES[i].name) != 0) continue;
        *out = i;
        return PF_OK;
    }
    return pf_fail(error, PF_FORMAT, "%s: tensor %.100s: dtype is %.40s, not one of the format's", doc->name, name,
                   text ? text : "no string");
}

/* Reads the shape and computes its size in bytes. */
static pf_status read_shape(const pf_json *doc, const char *name, const json_t *node, entry *out, size_t *bytes,
                            pf_error *error)
{
    const json_t *shape = json_object_get(node, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > PF_MAX_DIMENSIONS)
        return pf_fail(error, PF_FORMAT, "%s: tensor %.100s: shape must be a list of at most %d sizes", doc->name, name,
                       PF_MAX_DIMENSIONS);
    size_t bits = (size_t)DTYPES[out->dtype].bits;
    bool fits = true;
    out->tensor.n_dimensions = (int32_t)json_array_size(shape);
    for (int32_t i = 0; i < out->tensor.n_dimensions; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return pf_fail(error, PF_FORMAT, "%s: tensor %.100s: shape[%d] is not a size", doc->name, name, i);
        out->tensor.shape[i] = json_integer_value(size);
        fits = fits && pf_size_mul(bits, (size_t)out->tensor.shape[i], &bits);
    }
    if (!fits || bits % 8 != 0)
        return pf_fail(error, PF_FORMAT, "%s: tensor %.100s: its shape is too large, or not a whole number of bytes",
                       doc->name, name);
    *bytes = bits / 8;
    return PF_OK;
}

static pf_status read_range(const pf_json *doc, const char *name, const json_t *node, size_t data_bytes, entry *out,
                            pf_error *error)
{
    const json_t *range = json_object_get(node, "data_offsets");
    const json_t *begin = json_array_get(range, 0), *end = json_array_get(range, 1);
    if (json_array_size(range) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return pf_fail(error, PF_FORMAT, "%s: tensor %.100s: data_offsets must be [begin, end]", doc->name, name);
    const json_int_t b = json_integer_value(begin), e = json_integer_value(end);
    if (b < 0 || e < b || (uint64_t)e > data_bytes)
        return pf_fail(error, PF_FORMAT,
                       "%s: tensor %.100s: data_offsets are %lld to %lld, expected a range in the %zu bytes of data",
                       doc->name, name, (long long)b, (long long)e, data_bytes);
    out->begin = (size_t)b;
    out->end = (size_t)e;
    return PF_OK;
}

static pf_status read_entry(const pf_json *doc, const char *name, const json_t *node, size_t data_bytes, entry *out,
                            pf_error *error)
{
    size_t bytes = 0;
    if (!json_is_object(node))
        return pf_fail(error, PF_FORMAT, "%s: tensor %.100s: expected an object", doc->name, name);
    PF_TRY(read_dtype(doc, name, node, &out->dtype, error));
    PF_TRY(read_shape(doc, name, node, out, &bytes, error));
    PF_TRY(read_range(doc, name, node, data_bytes, out, error));
    if (bytes != out->end - out->begin)
        return pf_fail(error, PF_FORMAT, "%s: tensor %.100s: its shape takes %zu bytes, data_offsets span %zu",
                       doc->name, name, bytes, out->end - out->begin);
    return PF_OK;
}

/* --- one file --- */

static int by_range(const void *a, const void *b)
{
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Checks that the byte ranges cover the data from the first byte to the last: no overlap, no hole. */
static pf_status check_ranges(const pf_json *doc, entry *entries, size_t n, size_t data_bytes, pf_error *error)
{
    entry **sorted = calloc(n + 1, sizeof *sorted);
    if (!sorted) return no_memory(error, doc->name);
    for (size_t i = 0; i < n; i++) sorted[i] = &entries[i];
    qsort(sorted, n, sizeof *sorted, by_range);

    pf_status status = PF_OK;
    size_t end = 0;
    for (size_t i = 0; i < n && status == PF_OK; i++) {
        if (sorted[i]->begin != end)
            status = pf_fail(error, PF_FORMAT, "%s: tensor %.100s begins at byte %zu of the data, expected %zu: %s",
                             doc->name, sorted[i]->tensor.name, sorted[i]->begin, end,
                             sorted[i]->begin < end ? "it overlaps another" : "bytes of no tensor lie before it");
        end = sorted[i]->end;
    }
    if (status == PF_OK && end != data_bytes)
        status = pf_fail(error, PF_FORMAT, "%s: %zu bytes follow the last tensor", doc->name, data_bytes - end);
    free(sorted);
    return status;
}

static pf_status append_entries(pf_safetensors *set, int32_t file, const pf_json *doc, const uint8_t *data,
                                size_t data_bytes, pf_error *error)
{
    const size_t n_old = (size_t)set->n_entries, n_most = n_old + json_object_size(doc->root);
    if (n_most >= INT32_MAX) return pf_fail(error, PF_FORMAT, "%s: more tensors than can be counted", doc->name);
    entry *grown = realloc(set->entries, (n_most + 1) * sizeof *grown);
    if (!grown) return no_memory(error, doc->name);
    set->entries = grown;

    const char *name;
    json_t *node;
    json_object_foreach(doc->root, name, node)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        entry e = { .file = file };
        PF_TRY(read_entry(doc, name, node, data_bytes, &e, error));
        e.tensor.data = data + e.begin;
        e.tensor.data_bytes = e.end - e.begin;
        e.tensor.type = (pf_type)(DTYPES[e.dtype].type < 0 ? PF_TYPE_F32 : DTYPES[e.dtype].type);
        e.tensor.name = strdup(name);
        if (!e.tensor.name) return no_memory(error, doc->name);
        set->entries[set->n_entries++] = e;
    }
    return check_ranges(doc, set->entries + n_old, (size_t)set->n_entries - n_old, data_bytes, error);
}

static pf_status read_file(pf_safetensors *set, int32_t file, const char *path, pf_error *error)
{
    const pf_file_map *map = &set->files[file].map;
    if (map->size < 8)
        return pf_fail(error, PF_FORMAT, "%s: %zu bytes long, expected 8 and a header: it is cut short", path,
                       map->size);
    if (map->size > strlen(LFS_POINTER) && memcmp(map->data, LFS_POINTER, strlen(LFS_POINTER)) == 0)
        return pf_fail(error, PF_FORMAT,
                       "%s: is a pointer of Git LFS, expected what it points to: git lfs pull fetches it", path);
    const uint64_t header_bytes = read_u64_le(map->data);
    if (header_bytes > MAX_HEADER_BYTES)
        return pf_fail(error, PF_FORMAT, "%s: the header's length is %llu, expected at most %d", path,
                       (unsigned long long)header_bytes, MAX_HEADER_BYTES);
    if (header_bytes > map->size - 8)
        return pf_fail(error, PF_FORMAT, "%s: the header's length is %llu, but only %zu bytes follow: it is cut short",
                       path, (unsigned long long)header_bytes, map->size - 8);

    pf_json doc = { 0 };
    const uint8_t *data = map->data + 8 + header_bytes;
    const size_t data_bytes = map->size - 8 - (size_t)header_bytes;
    PF_TRY(pf_json_parse(path, (const char *)map->data + 8, (size_t)header_bytes, MAX_HEADER_BYTES, &doc, error));
    const pf_status status = append_entries(set, file, &doc, data, data_bytes, error);
    pf_json_close(&doc);
    return status;
}

/* Maps DIR/name as the next file of the set and adds its tensors. */
static pf_status add_file(pf_safetensors *set, const char *name, pf_error *error)
{
    char path[PF_FILE_PATH_BYTES];
    PF_TRY(pf_file_join(set->directory, name, path, error));
    shard *grown = realloc(set->files, ((size_t)set->n_files + 1) * sizeof *grown);
    if (!grown) return no_memory(error, path);
    set->files = grown;
    set->files[set->n_files] = (shard){ .name = strdup(name) };
    if (!set->files[set->n_files].name) return no_memory(error, path);
    const int32_t file = set->n_files++;
    PF_TRY(pf_file_open_map(path, &set->files[file].map, error));
    return read_file(set, file, path, error);
}

/* --- the names of all files together --- */

static int by_name(const void *a, const void *b)
{
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;
    return strcmp(x->tensor.name, y->tensor.name);
}

static int name_to_entry(const void *name, const void *element)
{
    return strcmp(name, (*(entry *const *)element)->tensor.name);
}

static entry **find_name(const pf_safetensors *set, const char *name)
{
    return bsearch(name, set->by_name, (size_t)set->n_entries, sizeof *set->by_name, name_to_entry);
}

static const entry *find(const pf_safetensors *set, const char *name)
{
    entry **found = find_name(set, name);
    return found ? *found : NULL;
}

static bool is_called(const pf_safetensors *set, entry *const *at, const char *name)
{
    return at >= set->by_name && at < set->by_name + set->n_entries && strcmp((*at)->tensor.name, name) == 0;
}

/* The one in a file, where several may have the name. */
static const entry *find_in(const pf_safetensors *set, const char *name, const char *file)
{
    entry *const *at = find_name(set, name);
    if (!at) return NULL;
    while (is_called(set, at - 1, name)) at--;
    for (; is_called(set, at, name); at++)
        if (strcmp(set->files[(*at)->file].name, file) == 0) return *at;
    return NULL;
}

static void sort_names(pf_safetensors *set)
{
    for (int32_t i = 0; i < set->n_entries; i++) set->by_name[i] = &set->entries[i];
    qsort(set->by_name, (size_t)set->n_entries, sizeof *set->by_name, by_name);
}

static pf_status refuse_duplicates(const pf_safetensors *set, pf_error *error)
{
    for (int32_t i = 1; i < set->n_entries; i++) {
        const entry *a = set->by_name[i - 1], *b = set->by_name[i];
        if (strcmp(a->tensor.name, b->tensor.name) == 0)
            return pf_fail(error, PF_FORMAT, "%s: tensor %.100s is both in %s and in %s", set->directory,
                           a->tensor.name, set->files[a->file].name, set->files[b->file].name);
    }
    return PF_OK;
}

/* The file that the index names for a tensor, or NULL. `map`: NULL where there is no index. */
static const char *indexed_file(const json_t *map, const char *name)
{
    return json_string_value(json_object_get(map, name));
}

/* Of the tensors that several files hold, keeps the ones that the index names. */
static void drop_copies(pf_safetensors *set, const json_t *map)
{
    int32_t n_kept = 0;
    for (int32_t i = 0; i < set->n_entries; i++) {
        entry *e = &set->entries[i];
        const char *file = indexed_file(map, e->tensor.name);
        const entry *named =
            file && strcmp(set->files[e->file].name, file) != 0 ? find_in(set, e->tensor.name, file) : NULL;
        e->is_dropped = named != NULL;
    }
    for (int32_t i = 0; i < set->n_entries; i++) {
        if (set->entries[i].is_dropped)
            free((char *)(uintptr_t)set->entries[i].tensor.name);
        else
            set->entries[n_kept++] = set->entries[i];
    }
    set->n_entries = n_kept;
}

/* All files are there: one tensor for each name. */
static pf_status index_names(pf_safetensors *set, const json_t *map, pf_error *error)
{
    set->by_name = calloc((size_t)set->n_entries + 1, sizeof(entry *));
    if (!set->by_name) return no_memory(error, set->directory);
    sort_names(set);
    if (map) {
        drop_copies(set, map);
        sort_names(set);
    }
    return refuse_duplicates(set, error);
}

/* --- shards --- */

/* Whether the path stays in the directory or below it: it is relative and has no component "..". */
static bool stays_below(const char *path, size_t n_bytes)
{
    if (n_bytes == 0 || strlen(path) != n_bytes || path[0] == '/') return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t n = strcspn(part, "/");
        if (n == 2 && memcmp(part, "..", 2) == 0) return false;
    }
    return true;
}

static bool is_absent(const pf_safetensors *set, const char *file)
{
    char path[PF_FILE_PATH_BYTES];
    return pf_file_join(set->directory, file, path, NULL) == PF_OK && pf_file_is_absent(path);
}

/* Opens each file that the index names and that is there, once, in the order of the index. */
static pf_status add_indexed_files(pf_safetensors *set, const pf_json *index, const json_t *map, json_t *seen,
                                   pf_error *error)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        const char *file = json_string_value(value);
        if (!file || !stays_below(file, json_string_length(value)))
            return pf_fail(error, PF_FORMAT,
                           "%s: weight_map: tensor %.100s: expected the name of a file beside it, or in a folder there",
                           index->name, name);
        if (json_object_get(seen, file)) continue;
        if (set->n_files == MAX_FILES)
            return pf_fail(error, PF_FORMAT, "%s: weight_map names more than %d files", index->name, MAX_FILES);
        if (json_object_set_new(seen, file, json_integer(set->n_files)) != 0) return no_memory(error, index->name);
        if (!is_absent(set, file)) PF_TRY(add_file(set, file, error)); /* check_index: another may hold its tensors */
    }
    return PF_OK;
}

static bool has_file(const pf_safetensors *set, const char *name)
{
    for (int32_t i = 0; i < set->n_files; i++)
        if (strcmp(set->files[i].name, name) == 0) return true;
    return false;
}

/* Reports tensors that are not in the file that the index names; such a file may be absent. An index may also name more than the files have: the hub's
 * converter takes its names from the .bin files and leaves a tied head out. That is for the reader of the tensor to refuse. */
static pf_status check_index(const pf_safetensors *set, const pf_json *index, const json_t *map,
                             const pf_load_policy *policy, pf_error *error)
{
    const char *name;
    json_t *value;
    const entry *first = NULL;
    int32_t n_elsewhere = 0;
    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        const entry *e = find(set, name);
        if (!e && !has_file(set, json_string_value(value)))
            return pf_fail(
                error, PF_UNAVAILABLE,
                "%s: tensor %.100s: %s is not there, nor is the tensor in another file of weight_map: download "
                "the model again",
                index->name, name, json_string_value(value));
        if (!e || strcmp(set->files[e->file].name, json_string_value(value)) == 0) continue;
        if (n_elsewhere++ == 0) first = e;
    }
    if (!first) return PF_OK;
    return pf_load_warn(policy, error,
                        "%s: %d of its tensors %s not in the file that weight_map names: %.100s is in %s, not in %s",
                        index->name, n_elsewhere, n_elsewhere == 1 ? "is" : "are", first->tensor.name,
                        set->files[first->file].name, indexed_file(map, first->tensor.name));
}

static pf_status open_shards(pf_safetensors *set, const char *index_path, const pf_load_policy *policy, pf_error *error)
{
    pf_json index = { 0 };
    PF_TRY(pf_json_open(index_path, MAX_INDEX_BYTES, &index, error));
    const json_t *map = json_object_get(index.root, "weight_map");
    json_t *seen = json_object();
    pf_status status;
    if (!json_is_object(map) || json_object_size(map) == 0)
        status =
            pf_fail(error, PF_FORMAT, "%s: weight_map must be an object that names a file for each tensor", index.name);
    else if (!seen)
        status = no_memory(error, index.name);
    else
        status = add_indexed_files(set, &index, map, seen, error);
    if (status == PF_OK) status = index_names(set, map, error);
    if (status == PF_OK) status = check_index(set, &index, map, policy, error);
    json_decref(seen);
    pf_json_close(&index);
    return status;
}

/* --- files without an index --- */

/* The number of shards in a name such as "NAME-00002-of-00003.safetensors", and the number of this one. 0: not a shard. */
static int32_t shard_count(const char *name, int32_t *number)
{
    int32_t i = 0, n = 0;
    int end = 0;
    const char *of = strstr(name, "-of-");
    /* NOLINTNEXTLINE(cert-err34-c): a number has five digits at most */
    if (!of || of - name < 6 || sscanf(of - 6, "-%5d-of-%5d.safetensors%n", &i, &n, &end) != 2) return 0;
    if (end == 0 || of[end - 6] != '\0' || i < 1 || i > n) return 0;
    *number = i;
    return n;
}

static int is_weights(const struct dirent *file)
{
    const char *name = file->d_name;
    return fnmatch("*.safetensors", name, FNM_PERIOD) == 0 && fnmatch("adapter_model*", name, 0) != 0 &&
           fnmatch("consolidated*", name, 0) != 0;
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Whether the files are shards 1 to n of one model, in this order. */
static pf_status check_shards(const pf_safetensors *set, struct dirent **files, int n, pf_error *error)
{
    int32_t number = 0;
    const int32_t count = shard_count(files[0]->d_name, &number);
    if (count == 0 && n == 1) return PF_OK;
    for (int i = 0; i < n; i++) {
        const int32_t of = shard_count(files[i]->d_name, &number);
        if (of != count || count == 0)
            return pf_fail(error, PF_FORMAT, "%s: %s and %s are not shards of one model, and there is no %s",
                           set->directory, files[0]->d_name, files[i == 0 ? 1 : i]->d_name, INDEX_NAME);
        if (number != i + 1)
            return pf_fail(error, PF_UNAVAILABLE,
                           "%s: of %d shards number %d is not there, nor is %s: download the model again",
                           set->directory, count, i + 1, INDEX_NAME);
    }
    if (n == count) return PF_OK;
    return pf_fail(error, PF_UNAVAILABLE,
                   "%s: of %d shards number %d is not there, nor is %s: download the model again", set->directory,
                   count, n + 1, INDEX_NAME);
}

static pf_status add_listed_files(pf_safetensors *set, struct dirent **files, int n, const pf_load_policy *policy,
                                  pf_error *error)
{
    PF_TRY(check_shards(set, files, n, error));
    for (int i = 0; i < n; i++) PF_TRY(add_file(set, files[i]->d_name, error));
    PF_TRY(index_names(set, NULL, error));
    if (n == 1)
        return pf_load_warn(policy, error, "%s: there is no model.safetensors: %s is read", set->directory,
                            files[0]->d_name);
    return pf_load_warn(policy, error, "%s: there is no %s: all %d shards are read without it", set->directory,
                        INDEX_NAME, n);
}

static pf_status open_without_index(pf_safetensors *set, const pf_load_policy *policy, pf_error *error)
{
    struct dirent **files = NULL;
    const int n = scandir(set->directory, &files, is_weights, compare_entries);
    const pf_status status =
        n > 0 ? add_listed_files(set, files, n, policy, error)
              : pf_model_directory_explain(set->directory, "model.safetensors or " INDEX_NAME, error);
    for (int i = 0; i < n; i++) free(files[i]);
    free(files);
    return status;
}

/* --- public functions --- */

static pf_status open_set(pf_safetensors *set, const pf_load_policy *policy, pf_error *error)
{
    char path[PF_FILE_PATH_BYTES];
    PF_TRY(pf_file_join(set->directory, "model.safetensors", path, error));
    if (!pf_file_is_absent(path)) {
        PF_TRY(add_file(set, "model.safetensors", error));
        return index_names(set, NULL, error);
    }
    PF_TRY(pf_file_join(set->directory, INDEX_NAME, path, error));
    return pf_file_is_absent(path) ? open_without_index(set, policy, error) : open_shards(set, path, policy, error);
}

pf_status pf_safetensors_open(const char *directory, const pf_load_policy *policy, pf_safetensors **out,
                              pf_error *error)
{
    pf_safetensors *set = calloc(1, sizeof *set);
    if (set) set->directory = strdup(directory);
    pf_status status = set && set->directory ? open_set(set, policy, error) : no_memory(error, directory);
    if (status != PF_OK)
        pf_safetensors_close(set);
    else
        *out = set;
    return status;
}

pf_status pf_safetensors_check(const pf_safetensors *set, pf_error *error)
{
    char path[PF_FILE_PATH_BYTES];
    for (int32_t i = 0; i < set->n_files; i++) {
        PF_TRY(pf_file_join(set->directory, set->files[i].name, path, error));
        PF_TRY(pf_file_check_map(&set->files[i].map, path, error));
    }
    return PF_OK;
}

void pf_safetensors_close(pf_safetensors *set)
{
    if (!set) return;
    for (int32_t i = 0; i < set->n_entries; i++) free((char *)(uintptr_t)set->entries[i].tensor.name);
    for (int32_t i = 0; i < set->n_files; i++) {
        pf_file_unmap(&set->files[i].map);
        free(set->files[i].name);
    }
    free(set->entries);
    free(set->by_name);
    free(set->files);
    free(set->directory);
    free(set);
}

int32_t pf_safetensors_count(const pf_safetensors *set)
{
    return set->n_entries;
}

const char *pf_safetensors_dtype(pf_type type)
{
    for (int32_t i = 0; i < N_DTYPES; i++)
        if (DTYPES[i].type == (int32_t)type) return DTYPES[i].name;
    assert(false && "every type of a tensor has a name");
    return NULL;
}

const char *pf_safetensors_dtype_of(const pf_safetensors *set, const char *name)
{
    const entry *e = find(set, name);
    return e ? DTYPES[e->dtype].name : NULL;
}

const char *pf_safetensors_name(const pf_safetensors *set, int32_t i)
{
    return set->entries[i].tensor.name;
}

int32_t pf_safetensors_dimensions(const pf_safetensors *set, int32_t i)
{
    return set->entries[i].tensor.n_dimensions;
}

const char *pf_safetensors_type_name(const pf_safetensors *set, int32_t i)
{
    return DTYPES[set->entries[i].dtype].name;
}

pf_status pf_safetensors_find(const pf_safetensors *set, const char *name, pf_tensor *out, pf_error *error)
{
    const entry *e = find(set, name);
    if (!e) return pf_fail(error, PF_UNAVAILABLE, "%s: there is no tensor %.100s", set->directory, name);
    if (DTYPES[e->dtype].type < 0)
        return pf_fail(error, PF_UNSUPPORTED, "%s/%s: tensor %.100s: elements of type %s, expected F32, F16 or BF16",
                       set->directory, set->files[e->file].name, name, DTYPES[e->dtype].name);
    *out = e->tensor;
    return PF_OK;
}

pf_status pf_safetensors_find_bytes(const pf_safetensors *set, const char *name, const char *dtype, pf_tensor *out,
                                    pf_error *error)
{
    const entry *e = find(set, name);
    if (!e) return pf_fail(error, PF_UNAVAILABLE, "%s: there is no tensor %.100s", set->directory, name);
    if (strcmp(DTYPES[e->dtype].name, dtype) != 0)
        return pf_fail(error, PF_FORMAT, "%s/%s: tensor %.100s: elements of type %s, expected %s", set->directory,
                       set->files[e->file].name, name, DTYPES[e->dtype].name, dtype);
    *out = e->tensor;
    return PF_OK;
}
