#include "proto/vocabulary.h"

#include <string.h>

#include "base/checked.h"

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

int32_t pf_vocab_block_ids(int32_t n_ids)
{
    int32_t ids = 1;
    while ((n_ids - 1) / ids >= PF_VOCAB_HASHES) ids *= 2;
    return ids;
}

int32_t pf_vocab_n_hashes(int32_t n_ids)
{
    return (n_ids - 1) / pf_vocab_block_ids(n_ids) + 1;
}

static uint64_t fnv1a(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ p[i]) * 0x100000001B3u;
    return hash;
}

static uint64_t fnv1a_u32(uint64_t hash, uint32_t value)
{
    uint8_t bytes[4];
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    return fnv1a(hash, bytes, sizeof bytes);
}

static uint32_t hash_token(int32_t id, const char *bytes, size_t n_bytes)
{
    uint64_t hash = fnv1a_u32(0xCBF29CE484222325u, (uint32_t)id);
    hash = fnv1a_u32(hash, (uint32_t)n_bytes);
    hash = fnv1a(hash, bytes, n_bytes);
    return (uint32_t)(hash ^ hash >> 32);
}

/* NULL: the vocabulary has no such id. */
static const char *text_of(const pf_model_info *info, int32_t id, size_t *n_bytes)
{
    return id < info->vocab_size ? info->texts->token(info->texts->user, id, n_bytes) : NULL;
}

void pf_vocab_hash(pf_model_info *info)
{
    const int32_t block_ids = pf_vocab_block_ids(info->vocab_size);
    info->n_vocab_hashes = pf_vocab_n_hashes(info->vocab_size);
    memset(info->vocab_hashes, 0, sizeof info->vocab_hashes);
    for (int32_t id = 0; id < info->vocab_size; id++) {
        size_t n_bytes = 0;
        const char *bytes = text_of(info, id, &n_bytes);
        if (bytes) info->vocab_hashes[id / block_ids] += hash_token(id, bytes, n_bytes);
    }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

typedef struct {
    const pf_model_info *draft, *target;
    int32_t n_ids, block_ids;
    bool by_text;
} comparison;

/* The hash of ids [first, first + n_ids): a multiple of what each hash covers. */
static uint32_t sum_hashes(const pf_model_info *info, int32_t first, int32_t n_ids)
{
    const int32_t block_ids = pf_vocab_block_ids(info->vocab_size), begin = first / block_ids;
    uint32_t sum = 0;
    for (int32_t i = begin; i < begin + n_ids / block_ids && i < info->n_vocab_hashes; i++)
        sum += info->vocab_hashes[i];
    return sum;
}

static bool is_same_text(const comparison *c, int32_t id)
{
    size_t n_draft = 0, n_target = 0;
    const char *draft = text_of(c->draft, id, &n_draft), *target = text_of(c->target, id, &n_target);
    if (!draft || !target) return draft == target;
    return n_draft == n_target && memcmp(draft, target, n_draft) == 0;
}

static bool is_same_block(const comparison *c, int32_t first)
{
    if (c->by_text) return is_same_text(c, first);
    return sum_hashes(c->draft, first, c->block_ids) == sum_hashes(c->target, first, c->block_ids);
}

static void count_different(const comparison *c, pf_vocab_match *out)
{
    for (int32_t left = c->n_ids; left > 0; left -= c->block_ids) {
        const int32_t first = c->n_ids - left;
        if (is_same_block(c, first)) continue;
        if (out->n_different == 0) out->first_different = first;
        out->n_different += pf_min(left, c->block_ids);
    }
}

/* The draft's ids that differ, as ranges of multiples of `width` ids. Whether they fit. */
static bool exclude(const comparison *c, int32_t width, pf_vocab_match *out)
{
    const int32_t n_draft = c->draft->vocab_size;
    int32_t n = 0, end = 0;
    for (int32_t left = n_draft; left > 0; left -= c->block_ids) {
        const int32_t first = n_draft - left;
        if (first < end || is_same_block(c, first)) continue;
        const int32_t begin = first / width * width;
        end = begin + pf_min(width, n_draft - begin);
        const bool adjoins = n > 0 && out->excluded[2 * n - 1] == begin;
        if (!adjoins && n == PF_MAX_EXCLUDED) return false;
        if (!adjoins) out->excluded[2 * n++] = begin;
        out->excluded[2 * n - 1] = end;
    }
    out->n_excluded = n;
    return true;
}

pf_status pf_vocab_compare(const pf_model_info *draft, const pf_model_info *target, pf_vocab_match *out)
{
    const bool by_text = draft->texts && target->texts;
    if (!by_text && (draft->n_vocab_hashes == 0 || target->n_vocab_hashes == 0)) return PF_UNAVAILABLE;
    const int32_t n_ids = draft->vocab_size > target->vocab_size ? draft->vocab_size : target->vocab_size;
    const comparison c = { draft, target, n_ids, by_text ? 1 : pf_vocab_block_ids(n_ids), by_text };
    *out = (pf_vocab_match){ .n_ids = n_ids, .first_different = -1, .block_ids = c.block_ids };
    count_different(&c, out);
    int32_t width = c.block_ids;
    while (out->n_different > 0 && !exclude(&c, width, out)) width *= 2;
    return PF_OK;
}
