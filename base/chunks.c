/* Self-scheduling of a phase's work in chunks. */
#include "base/chunks.h"

void pf_chunks_reset(pf_chunks *all, int32_t n_threads)
{
    for (int32_t i = 0; i < n_threads; i++)
        for (int parity = 0; parity < 2; parity++)
            atomic_store_explicit(&all[i].taken[parity], 0, memory_order_relaxed);
}

void pf_chunks_begin(pf_chunks *all, pf_member member, int32_t phase)
{
    atomic_store_explicit(&all[member.id].taken[(phase + 1) & 1], 0, memory_order_relaxed);
}

/* The end of the chunk that begins at `at`, in a share that ends at `last`. */
static int32_t end_of_chunk(const pf_chunks_cut *cut, int32_t at, int32_t last)
{
    const int32_t run_left = cut->run - at % cut->run, left = last - at, half = (left + 1) / 2;
    const int32_t part = left < run_left ? left : run_left;
    const int32_t guided = half < cut->most ? half : cut->most, size = guided > cut->least ? guided : cut->least;
    return part - size < (cut->least + 1) / 2 ? at + part : at + size;
}

/* Take the next chunk of one thread's share. */
static bool take_from(pf_chunks *all, pf_member whose, int32_t phase, const pf_chunks_cut *cut, int32_t *begin,
                      int32_t *end)
{
    int32_t first, last;
    pf_team_share(whose, cut->total, &first, &last);
    _Atomic int32_t *taken = &all[whose.id].taken[phase & 1];
    int32_t before = atomic_load_explicit(taken, memory_order_relaxed), after;
    do {
        if (first + before >= last) return false;
        after = end_of_chunk(cut, first + before, last) - first;
    } while (!atomic_compare_exchange_weak_explicit(taken, &before, after, memory_order_relaxed, memory_order_relaxed));
    *begin = first + before;
    *end = first + after;
    return true;
}

bool pf_chunks_take(pf_chunks *all, pf_member member, int32_t phase, const pf_chunks_cut *cut, int32_t *begin,
                    int32_t *end)
{
    for (int32_t i = 0, id = member.id; i < member.n_threads; i++, id = id + 1 < member.n_threads ? id + 1 : 0)
        if (take_from(all, (pf_member){ member.team, id, member.n_threads }, phase, cut, begin, end)) return true;
    return false;
}
