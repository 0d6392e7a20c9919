#include "host/slot_list.h"

#include <string.h>

pf_slot_list pf_slot_list_lay_out(int32_t max, pf_arena *arena)
{
    pf_slot_list list = { .slots = pf_arena_take(arena, (size_t)max, sizeof *list.slots),
                          .has = pf_arena_take(arena, (size_t)max, sizeof *list.has) };
    if (list.has) memset(list.has, 0, (size_t)max * sizeof *list.has);
    return list;
}

int32_t pf_slot_list_from(const pf_slot_list *list, int32_t slot)
{
    int32_t low = 0, high = list->n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (list->slots[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void pf_slot_list_add(pf_slot_list *list, int32_t slot)
{
    if (list->has[slot]) return;
    const int32_t at = pf_slot_list_from(list, slot);
    memmove(list->slots + at + 1, list->slots + at, (size_t)(list->n - at) * sizeof *list->slots);
    list->slots[at] = slot;
    list->has[slot] = true;
    list->n++;
}

void pf_slot_list_remove(pf_slot_list *list, int32_t slot)
{
    if (!list->has[slot]) return;
    const int32_t at = pf_slot_list_from(list, slot);
    list->n--;
    memmove(list->slots + at, list->slots + at + 1, (size_t)(list->n - at) * sizeof *list->slots);
    list->has[slot] = false;
}
