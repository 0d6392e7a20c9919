/*
 * The slots of a few sequences among many: in rising order, each once, so that a step costs nothing for those that are idle.
 *
 * Memory from an arena. Threads: one at a time.
 */
#ifndef PF_HOST_SLOT_LIST_H
#define PF_HOST_SLOT_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct {
    int32_t *slots; /* [n] rising */
    bool *has;      /* [max] by slot */
    int32_t n;
} pf_slot_list;

/* Room for slots 0 .. max - 1, from the arena (or its measure); it is empty. */
pf_slot_list pf_slot_list_lay_out(int32_t max, pf_arena *arena);

/* Nothing where it is there. */
void pf_slot_list_add(pf_slot_list *list, int32_t slot);

/* Nothing where it is not. */
void pf_slot_list_remove(pf_slot_list *list, int32_t slot);

/* Where the first slot that is not below `slot` is; n: there is none. */
int32_t pf_slot_list_from(const pf_slot_list *list, int32_t slot);

#endif
