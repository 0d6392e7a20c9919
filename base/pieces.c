/* Pieces of a phase's work, taken by whoever has time. */
#include "base/pieces.h"

void pf_pieces_reset(pf_pieces *all, int32_t n_threads)
{
    for (int32_t i = 0; i < n_threads; i++)
        for (int parity = 0; parity < 2; parity++)
            atomic_store_explicit(&all[i].taken[parity], 0, memory_order_relaxed);
}

void pf_pieces_begin(pf_pieces *all, pf_member member, int32_t phase)
{
    atomic_store_explicit(&all[member.id].taken[(phase + 1) & 1], 0, memory_order_relaxed);
}

/* Another piece of somebody's share. Members who find nothing count on, so one looks before it counts. */
static bool take_from(pf_pieces *all, pf_member whose, int32_t phase, int32_t total, int32_t size, int32_t *begin,
                      int32_t *end)
{
    int32_t first, last;
    pf_team_share(whose, total, &first, &last);
    const int32_t n_pieces = (last - first + size - 1) / size;
    _Atomic int32_t *taken = &all[whose.id].taken[phase & 1];
    if (atomic_load_explicit(taken, memory_order_relaxed) >= n_pieces) return false;
    const int32_t piece = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
    if (piece >= n_pieces) return false;
    *begin = first + piece * size;
    *end = last - *begin > size ? *begin + size : last;
    return true;
}

bool pf_pieces_take(pf_pieces *all, pf_member member, int32_t phase, int32_t total, int32_t size, int32_t *begin,
                    int32_t *end)
{
    for (int32_t i = 0, id = member.id; i < member.n_threads; i++, id = id + 1 < member.n_threads ? id + 1 : 0)
        if (take_from(all, (pf_member){ member.team, id, member.n_threads }, phase, total, size, begin, end))
            return true;
    return false;
}
