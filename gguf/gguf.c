/*
 * A file is read once from front to back by a cursor that never passes its end; tables grow with what was read, so a hostile count
 * takes no memory. Values stay in the mapping. The bytes of tensors are not read here.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "gguf/gguf_parts.h"

static const char MAGIC[4] = { 'G', 'G', 'U', 'F' };

enum {
    MAX_KEYS = 1 << 16,
    MAX_TENSORS = 1 << 20,
    MAX_NAME_BYTES = 1 << 12, /* of a key or a tensor */
    MAX_PARTS = 99999,        /* as many as the names have digits for */
    DEFAULT_ALIGNMENT = 32,
    LEAST_KEY_BYTES = 13,  /* empty name, type, one byte */
    LEAST_INFO_BYTES = 24, /* empty name, no sizes */
};

/* The position in a part. Its functions take `what`, the field that is read, for errors. */
typedef struct {
    const char *path;
    const uint8_t *data;
    size_t at, size;
    pf_error *error;
} cursor;

static pf_status no_memory(const char *path, pf_error *error)
{
    return pf_fail(error, PF_NOMEM, "%s: no memory for its metadata and tensors", path);
}

static pf_status take(cursor *c, size_t n_bytes, const char *what, const uint8_t **out)
{
    if (n_bytes > c->size - c->at)
        return pf_fail(c->error, PF_FORMAT,
                       "%s: %s at byte %zu needs %zu bytes, but only %zu follow: the file is cut short", c->path, what,
                       c->at, n_bytes, c->size - c->at);
    *out = c->data + c->at;
    c->at += n_bytes;
    return PF_OK;
}

static pf_status take_u32(cursor *c, const char *what, uint32_t *out)
{
    const uint8_t *p;
    PF_TRY(take(c, 4, what, &p));
    *out = (uint32_t)pf_gguf_read_le(p, 4);
    return PF_OK;
}

static pf_status take_u64(cursor *c, const char *what, uint64_t *out)
{
    const uint8_t *p;
    PF_TRY(take(c, 8, what, &p));
    *out = pf_gguf_read_le(p, 8);
    return PF_OK;
}

/* n elements of `bytes` each, where n comes from the file. */
static pf_status take_many(cursor *c, uint64_t n, size_t bytes, const char *what, const uint8_t **out)
{
    size_t total;
    if (n > SIZE_MAX || !pf_size_mul((size_t)n, bytes, &total)) total = SIZE_MAX;
    return take(c, total, what, out);
}

/* A count that the rest of the file can hold. */
static pf_status take_count(cursor *c, const char *what, size_t least_bytes, uint64_t max, uint64_t *out)
{
    uint64_t n;
    PF_TRY(take_u64(c, what, &n));
    if (n > (c->size - c->at) / least_bytes)
        return pf_fail(c->error, PF_FORMAT, "%s: %s is %llu, more than the %zu bytes that follow can hold", c->path,
                       what, (unsigned long long)n, c->size - c->at);
    if (n > max)
        return pf_fail(c->error, PF_LIMIT, "%s: %s is %llu, expected at most %llu", c->path, what,
                       (unsigned long long)n, (unsigned long long)max);
    *out = n;
    return PF_OK;
}

/* A name, as an owned text without NUL. */
static pf_status take_name(cursor *c, const char *what, char **out)
{
    uint64_t n;
    const uint8_t *text;
    PF_TRY(take_u64(c, what, &n));
    PF_TRY(take_many(c, n, 1, what, &text));
    if (n > MAX_NAME_BYTES)
        return pf_fail(c->error, PF_LIMIT, "%s: %s is %llu bytes long, expected at most %d", c->path, what,
                       (unsigned long long)n, MAX_NAME_BYTES);
    if (n == 0 || memchr(text, '\0', (size_t)n) != NULL)
        return pf_fail(c->error, PF_FORMAT, "%s: %s at byte %zu is empty or holds a NUL", c->path, what, c->at);
    *out = strndup((const char *)text, (size_t)n);
    return *out != NULL ? PF_OK : no_memory(c->path, c->error);
}

/* ---- metadata ---- */

static pf_status take_kind(cursor *c, const char *key, pf_gguf_kind *out)
{
    uint32_t kind;
    PF_TRY(take_u32(c, key, &kind));
    if (kind >= PF_N_GGUF_KINDS)
        return pf_fail(c->error, PF_UNSUPPORTED, "%s: %.100s is of type %u, expected a type below %d", c->path, key,
                       kind, PF_N_GGUF_KINDS);
    *out = (pf_gguf_kind)kind;
    return PF_OK;
}

static pf_status take_array(cursor *c, pf_gguf_key *key)
{
    PF_TRY(take_kind(c, key->name, &key->element));
    PF_TRY(take_u64(c, key->name, &key->n));
    key->value = c->data + c->at;
    if (key->element == PF_GGUF_ARRAY)
        return pf_fail(c->error, PF_UNSUPPORTED, "%s: %.100s is an array of arrays, which is not read", c->path,
                       key->name);
    const uint8_t *skipped;
    if (key->element != PF_GGUF_STRING)
        return take_many(c, key->n, pf_gguf_kind_bytes(key->element), key->name, &skipped);
    for (uint64_t i = 0; i < key->n; i++) { /* every string takes 8 bytes at least, so a hostile n ends soon */
        uint64_t n_bytes;
        PF_TRY(take_u64(c, key->name, &n_bytes));
        PF_TRY(take_many(c, n_bytes, 1, key->name, &skipped));
    }
    return PF_OK;
}

static pf_status take_value(cursor *c, pf_gguf_key *key)
{
    PF_TRY(take_kind(c, key->name, &key->kind));
    if (key->kind == PF_GGUF_ARRAY) return take_array(c, key);
    if (key->kind != PF_GGUF_STRING) return take(c, pf_gguf_kind_bytes(key->kind), key->name, &key->value);
    PF_TRY(take_u64(c, key->name, &key->n));
    return take_many(c, key->n, 1, key->name, &key->value);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const pf_gguf_key *)a)->name, ((const pf_gguf_key *)b)->name);
}

static void free_keys(pf_gguf *g)
{
    for (size_t i = 0; i < g->n_keys; i++) free(g->keys[i].name);
    free(g->keys);
    g->keys = NULL;
    g->n_keys = 0;
}

/* Reads the keys of a part in place of those of the part before it. */
static pf_status take_keys(cursor *c, pf_gguf *g, uint64_t n)
{
    free_keys(g);
    g->keys = calloc((size_t)n + 1, sizeof *g->keys);
    if (g->keys == NULL) return no_memory(c->path, c->error);
    for (uint64_t i = 0; i < n; i++) {
        pf_gguf_key *key = &g->keys[g->n_keys];
        PF_TRY(take_name(c, "the name of a key", &key->name));
        g->n_keys++;
        PF_TRY(take_value(c, key));
    }
    qsort(g->keys, g->n_keys, sizeof *g->keys, compare_keys);
    for (size_t i = 1; i < g->n_keys; i++)
        if (strcmp(g->keys[i - 1].name, g->keys[i].name) == 0)
            return pf_fail(c->error, PF_FORMAT, "%s: the key %.100s is there twice", c->path, g->keys[i].name);
    return PF_OK;
}

/* ---- tensors ---- */

static pf_status take_shape(cursor *c, pf_gguf_tensor *t, uint64_t *n_elements)
{
    uint32_t n;
    PF_TRY(take_u32(c, t->name, &n));
    if (n > PF_GGUF_MAX_DIMENSIONS)
        return pf_fail(c->error, PF_FORMAT, "%s: tensor %.100s has %u dimensions, expected at most %d", c->path,
                       t->name, n, PF_GGUF_MAX_DIMENSIONS);
    *n_elements = 1;
    t->n_dimensions = (int32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t size;
        PF_TRY(take_u64(c, t->name, &size));
        if (size == 0 || size > INT64_MAX || __builtin_mul_overflow(*n_elements, size, n_elements))
            return pf_fail(c->error, PF_FORMAT,
                           "%s: tensor %.100s: size %u is %llu, expected one that makes a number of elements", c->path,
                           t->name, i, (unsigned long long)size);
        t->shape[n - 1 - i] = (int64_t)size;
    }
    return PF_OK;
}

/* Reads one info. t->data_bytes is its size; *offset lies in the data of the part, which begin later. */
static pf_status take_info(cursor *c, pf_gguf_tensor *t, uint64_t *offset)
{
    uint64_t n_elements;
    uint32_t type;
    PF_TRY(take_shape(c, t, &n_elements));
    PF_TRY(take_u32(c, t->name, &type));
    PF_TRY(take_u64(c, t->name, offset));
    const pf_ggml_type_info *info = pf_ggml_type_get(type);
    if (info == NULL)
        return pf_fail(c->error, PF_UNSUPPORTED, "%s: tensor %.100s is of type %u, which is not known", c->path,
                       t->name, type);
    t->type = (pf_ggml_type)type;
    const uint64_t row = t->n_dimensions > 0 ? (uint64_t)t->shape[t->n_dimensions - 1] : 1;
    if (row % (uint64_t)info->block_elements != 0)
        return pf_fail(c->error, PF_FORMAT,
                       "%s: tensor %.100s has rows of %llu elements, expected whole blocks of %d (%s)", c->path,
                       t->name, (unsigned long long)row, info->block_elements, info->name);
    const uint64_t n_blocks = n_elements / (uint64_t)info->block_elements;
    if (n_blocks > SIZE_MAX || !pf_size_mul((size_t)n_blocks, (size_t)info->block_bytes, &t->data_bytes))
        return pf_fail(c->error, PF_FORMAT, "%s: tensor %.100s is larger than can be addressed", c->path, t->name);
    return PF_OK;
}

static pf_status read_alignment(const pf_gguf *g, const cursor *c, size_t *out)
{
    int64_t alignment = DEFAULT_ALIGNMENT;
    PF_TRY(pf_gguf_get_int(g, "general.alignment", false, 1, INT32_MAX, &alignment, c->error));
    if ((alignment & (alignment - 1)) != 0)
        return pf_fail(c->error, PF_FORMAT, "%s: general.alignment is %lld, expected a power of two", c->path,
                       (long long)alignment);
    *out = (size_t)alignment;
    return PF_OK;
}

/* Turns the offset of a tensor into its address. */
static pf_status place(const cursor *c, pf_gguf_tensor *t, uint64_t offset, size_t begin, size_t alignment)
{
    if (offset % alignment != 0)
        return pf_fail(c->error, PF_FORMAT, "%s: tensor %.100s begins at offset %llu, expected a multiple of %zu",
                       c->path, t->name, (unsigned long long)offset, alignment);
    const size_t n_data = c->size - begin;
    if (offset > n_data || t->data_bytes > n_data - (size_t)offset)
        return pf_fail(c->error, PF_FORMAT,
                       "%s: tensor %.100s takes %zu bytes from offset %llu, but the file has %zu bytes of data: it is "
                       "cut short",
                       c->path, t->name, t->data_bytes, (unsigned long long)offset, n_data);
    t->data = c->data + begin + (size_t)offset;
    return PF_OK;
}

static int compare_places(const void *a, const void *b)
{
    const uint8_t *x = (*(pf_gguf_tensor *const *)a)->data, *y = (*(pf_gguf_tensor *const *)b)->data;
    return (x > y) - (x < y);
}

/* Tensors of the part, from the one numbered `first`, must not overlap. */
static pf_status check_overlap(const cursor *c, const pf_gguf *g, int32_t first)
{
    const size_t n = (size_t)(g->n_tensors - first);
    pf_gguf_tensor **sorted = calloc(n + 1, sizeof *sorted);
    if (sorted == NULL) return no_memory(c->path, c->error);
    for (size_t i = 0; i < n; i++) sorted[i] = &g->tensors[first + (int32_t)i];
    qsort(sorted, n, sizeof *sorted, compare_places);
    pf_status status = PF_OK;
    for (size_t i = 1; i < n && status == PF_OK; i++)
        if (sorted[i - 1]->data_bytes > (size_t)(sorted[i]->data - sorted[i - 1]->data))
            status = pf_fail(c->error, PF_FORMAT, "%s: tensors %.100s and %.100s overlap", c->path, sorted[i - 1]->name,
                             sorted[i]->name);
    free(sorted);
    return status;
}

/* Reads the infos of a part and finds their data behind them. offsets [n]. */
static pf_status take_infos(cursor *c, pf_gguf *g, uint64_t n, uint64_t *offsets)
{
    const int32_t first = g->n_tensors;
    size_t alignment, begin;
    for (uint64_t i = 0; i < n; i++) {
        pf_gguf_tensor *t = &g->tensors[g->n_tensors];
        char *name;
        *t = (pf_gguf_tensor){ .name = NULL };
        PF_TRY(take_name(c, "the name of a tensor", &name));
        t->name = name;
        g->n_tensors++;
        PF_TRY(take_info(c, t, &offsets[i]));
    }
    PF_TRY(read_alignment(g, c, &alignment));
    begin = c->at % alignment == 0 ? c->at : c->at + (alignment - c->at % alignment); /* at most 2^31 more */
    if (n > 0 && begin > c->size)
        return pf_fail(c->error, PF_FORMAT, "%s: the data begin at byte %zu, but the file has %zu: it is cut short",
                       c->path, begin, c->size);
    for (uint64_t i = 0; i < n; i++) PF_TRY(place(c, &g->tensors[first + (int32_t)i], offsets[i], begin, alignment));
    return check_overlap(c, g, first);
}

static pf_status grow_tensors(cursor *c, pf_gguf *g, uint64_t n)
{
    const uint64_t wanted = (uint64_t)g->n_tensors + n;
    if (wanted > MAX_TENSORS)
        return pf_fail(c->error, PF_LIMIT, "%s: %llu tensors in all parts, expected at most %d", c->path,
                       (unsigned long long)wanted, MAX_TENSORS);
    pf_gguf_tensor *grown = realloc(g->tensors, ((size_t)wanted + 1) * sizeof *grown);
    if (grown == NULL) return no_memory(c->path, c->error);
    g->tensors = grown;
    return PF_OK;
}

/* ---- one part ---- */

static pf_status check_version(cursor *c)
{
    uint32_t version;
    if (c->size < sizeof MAGIC || memcmp(c->data, MAGIC, sizeof MAGIC) != 0)
        return pf_fail(c->error, PF_FORMAT, "%s: does not begin with \"GGUF\": it is no GGUF file", c->path);
    c->at = sizeof MAGIC;
    PF_TRY(take_u32(c, "the version", &version));
    if (version == 2 || version == 3) return PF_OK;
    if ((version & 0xFFFFu) == 0)
        return pf_fail(c->error, PF_UNSUPPORTED, "%s: the file is big-endian, expected little-endian", c->path);
    return pf_fail(c->error, PF_UNSUPPORTED, "%s: the version is %u, expected 2 or 3", c->path, version);
}

static pf_status read_part(pf_gguf *g, const pf_gguf_part *part, pf_error *error)
{
    cursor c = { .path = part->path, .data = part->map.data, .size = part->map.size, .error = error };
    uint64_t n_tensors, n_keys;
    PF_TRY(check_version(&c));
    PF_TRY(take_count(&c, "the number of tensors", LEAST_INFO_BYTES, MAX_TENSORS, &n_tensors));
    PF_TRY(take_count(&c, "the number of keys", LEAST_KEY_BYTES, MAX_KEYS, &n_keys));
    PF_TRY(take_keys(&c, g, n_keys));
    PF_TRY(grow_tensors(&c, g, n_tensors));
    uint64_t *offsets = calloc((size_t)n_tensors + 1, sizeof *offsets);
    if (offsets == NULL) return no_memory(part->path, error);
    const pf_status status = take_infos(&c, g, n_tensors, offsets);
    free(offsets);
    return status;
}

/* Maps a file as the next part. */
static pf_status add_part(pf_gguf *g, const char *path, pf_error *error)
{
    pf_gguf_part *grown = realloc(g->parts, ((size_t)g->n_parts + 1) * sizeof *grown);
    if (grown == NULL) return no_memory(path, error);
    g->parts = grown;
    pf_gguf_part *part = &g->parts[g->n_parts];
    *part = (pf_gguf_part){ .path = strdup(path) };
    if (part->path == NULL) return no_memory(path, error);
    g->reading = g->n_parts++; /* its path is freed from here on */
    PF_TRY(pf_file_open_map(path, &part->map, error));
    return read_part(g, part, error);
}

/* ---- split files ---- */

typedef struct {
    int64_t number, count, n_tensors;
} split;

static pf_status read_split(const pf_gguf *g, split *out, pf_error *error)
{
    *out = (split){ .count = 1, .n_tensors = -1 };
    PF_TRY(pf_gguf_get_int(g, "split.count", false, 0, MAX_PARTS, &out->count, error));
    PF_TRY(pf_gguf_get_int(g, "split.no", out->count > 1, 0, MAX_PARTS - 1, &out->number, error));
    return pf_gguf_get_int(g, "split.tensors.count", false, 0, MAX_TENSORS, &out->n_tensors, error);
}

/* The path of part i of n: NAME-00001-of-0000N.gguf. */
static pf_status name_part(const char *first, int64_t i, int64_t n, char out[PF_FILE_PATH_BYTES], pf_error *error)
{
    char suffix[32];
    const size_t length = strlen(first);
    snprintf(suffix, sizeof suffix, "-00001-of-%05lld.gguf", (long long)n);
    const size_t n_suffix = strlen(suffix);
    if (length < n_suffix || strcmp(first + length - n_suffix, suffix) != 0)
        return pf_fail(error, PF_FORMAT, "%s: split.count is %lld, so the name must end in %s", first, (long long)n,
                       suffix);
    if (length >= PF_FILE_PATH_BYTES)
        return pf_fail(error, PF_INVALID, "%.200s...: the path is longer than %d bytes", first, PF_FILE_PATH_BYTES - 1);
    snprintf(out, PF_FILE_PATH_BYTES, "%.*s-%05lld-of-%05lld.gguf", (int)(length - n_suffix), first, (long long)i + 1,
             (long long)n);
    return PF_OK;
}

/* Adds parts 1 .. n - 1, whose metadata say that they are, and returns to the metadata of part 0. */
static pf_status add_parts(pf_gguf *g, const split *all, pf_error *error)
{
    pf_gguf first = { .keys = g->keys, .n_keys = g->n_keys };
    pf_status status = PF_OK;
    g->keys = NULL;
    g->n_keys = 0;
    for (int64_t i = 1; i < all->count && status == PF_OK; i++) {
        char path[PF_FILE_PATH_BYTES];
        split found;
        status = name_part(g->parts[0].path, i, all->count, path, error);
        if (status == PF_OK) status = add_part(g, path, error);
        if (status == PF_OK) status = read_split(g, &found, error);
        if (status == PF_OK && (found.number != i || found.count != all->count))
            status =
                pf_fail(error, PF_FORMAT, "%s: split.no and split.count are %lld and %lld, expected %lld and %lld",
                        path, (long long)found.number, (long long)found.count, (long long)i, (long long)all->count);
    }
    free_keys(g);
    g->keys = first.keys;
    g->n_keys = first.n_keys;
    g->reading = 0;
    return status;
}

static pf_status read_parts(pf_gguf *g, pf_error *error)
{
    split all;
    PF_TRY(read_split(g, &all, error));
    if (all.number != 0)
        return pf_fail(error, PF_INVALID, "%s: is part %lld of %lld, expected the first part", g->parts[0].path,
                       (long long)all.number + 1, (long long)all.count);
    if (all.count > 1) PF_TRY(add_parts(g, &all, error));
    if (all.n_tensors >= 0 && all.n_tensors != g->n_tensors)
        return pf_fail(error, PF_FORMAT, "%s: split.tensors.count is %lld, but the parts have %d tensors",
                       g->parts[0].path, (long long)all.n_tensors, g->n_tensors);
    return PF_OK;
}

/* ---- open and close ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(pf_gguf_tensor *const *)a)->name, (*(pf_gguf_tensor *const *)b)->name);
}

static pf_status index_tensors(pf_gguf *g, pf_error *error)
{
    const size_t n = (size_t)g->n_tensors;
    g->by_name = calloc(n + 1, sizeof *g->by_name);
    if (g->by_name == NULL) return no_memory(g->parts[0].path, error);
    for (size_t i = 0; i < n; i++) g->by_name[i] = &g->tensors[i];
    qsort(g->by_name, n, sizeof *g->by_name, compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(g->by_name[i - 1]->name, g->by_name[i]->name) == 0)
            return pf_fail(error, PF_FORMAT, "%s: the tensor %.100s is there twice", g->parts[0].path,
                           g->by_name[i]->name);
    return PF_OK;
}

pf_status pf_gguf_open(const char *path, pf_gguf **out, pf_error *error)
{
    pf_gguf *g = calloc(1, sizeof *g);
    if (g == NULL) return no_memory(path, error);
    pf_status status = add_part(g, path, error);
    if (status == PF_OK) status = read_parts(g, error);
    if (status == PF_OK) status = index_tensors(g, error);
    if (status != PF_OK)
        pf_gguf_close(g);
    else
        *out = g;
    return status;
}

void pf_gguf_close(pf_gguf *g)
{
    if (g == NULL) return;
    free_keys(g);
    for (int32_t i = 0; i < g->n_tensors; i++) free((char *)(uintptr_t)g->tensors[i].name);
    for (int32_t i = 0; i < g->n_parts; i++) {
        pf_file_unmap(&g->parts[i].map);
        free(g->parts[i].path);
    }
    free(g->tensors);
    free(g->by_name);
    free(g->parts);
    free(g);
}

bool pf_gguf_is_file(const char *path)
{
    struct stat info;
    char magic[sizeof MAGIC] = { 0 };
    const size_t n = strlen(path);
    if (stat(path, &info) != 0) return n > 5 && strcmp(path + n - 5, ".gguf") == 0;
    if (!S_ISREG(info.st_mode)) return false;
    if (n > 5 && strcmp(path + n - 5, ".gguf") == 0) return true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    const bool is_gguf = read(fd, magic, sizeof magic) == sizeof magic && memcmp(magic, MAGIC, sizeof magic) == 0;
    close(fd);
    return is_gguf;
}

pf_status pf_gguf_check(const pf_gguf *g, pf_error *error)
{
    for (int32_t i = 0; i < g->n_parts; i++) PF_TRY(pf_file_check_map(&g->parts[i].map, g->parts[i].path, error));
    return PF_OK;
}

const char *pf_gguf_path(const pf_gguf *g)
{
    return g->parts[g->reading].path;
}

int32_t pf_gguf_n_parts(const pf_gguf *g)
{
    return g->n_parts;
}

int32_t pf_gguf_n_tensors(const pf_gguf *g)
{
    return g->n_tensors;
}

const pf_gguf_tensor *pf_gguf_tensor_at(const pf_gguf *g, int32_t i)
{
    return &g->tensors[i];
}

const pf_gguf_tensor *pf_gguf_find_tensor(const pf_gguf *g, const char *name)
{
    size_t low = 0, high = (size_t)g->n_tensors;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, g->by_name[middle]->name);
        if (order == 0) return g->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
