#include "bench/bare_read.h"

#include <string.h>

#include "base/clock.h"

enum { LINE = 64 };

size_t pf_bare_read_share(pf_member member, size_t n_bytes, size_t *end)
{
    const size_t lines = n_bytes / LINE, n = (size_t)member.n_threads, id = (size_t)member.id;
    *end = id + 1 == n ? n_bytes : lines * (id + 1) / n * LINE;
    return lines * id / n * LINE;
}

static uint8_t *share(const pf_bare_read *b, pf_member member, size_t *n_bytes)
{
    size_t end;
    const size_t begin = pf_bare_read_share(member, b->n_bytes, &end);
    *n_bytes = end - begin;
    return b->bytes + begin;
}

static void write_share(pf_member member, void *arg)
{
    size_t n_bytes;
    uint8_t *bytes = share(arg, member, &n_bytes);
    memset(bytes, 1, n_bytes);
}

static void read_share(pf_member member, void *arg)
{
    pf_bare_read *b = arg;
    size_t n_bytes;
    const uint8_t *bytes = share(b, member, &n_bytes);
    if (n_bytes > 0) b->checksum ^= b->read(bytes, n_bytes);
}

static void flush_share(pf_member member, void *arg)
{
    size_t n_bytes;
    const uint8_t *bytes = share(arg, member, &n_bytes);
    pf_read_flush(bytes, n_bytes);
}

pf_status pf_bare_read_create(pf_team *team, size_t n_bytes, pf_bare_read *out, pf_error *error)
{
    *out = (pf_bare_read){ .team = team, .n_bytes = n_bytes };
    if (pf_arena_create(n_bytes, &out->arena) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for %zu bytes to be read bare", n_bytes);
    out->bytes = pf_arena_take(&out->arena, n_bytes, 1);
    pf_team_run(team, write_share, out);
    return PF_OK;
}

void pf_bare_read_destroy(pf_bare_read *b)
{
    pf_arena_destroy(&b->arena);
}

void pf_bare_read_flush(pf_bare_read *b)
{
    pf_team_run(b->team, flush_share, b);
}

uint64_t pf_bare_read_ns(pf_bare_read *b, pf_read_fn *read)
{
    const uint64_t begin_ns = pf_now_ns();
    b->read = read;
    pf_team_run(b->team, read_share, b);
    return pf_now_ns() - begin_ns;
}
