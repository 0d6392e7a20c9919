/* The queue of a session's generations and the thread that runs them. Internal to engine/. */
#ifndef PF_ENGINE_GENERATION_H
#define PF_ENGINE_GENERATION_H

#include <stdbool.h>

#include "include/pilotfish.h"

typedef struct pf_queue pf_queue;

/* Run what is queued as cancelled, and end the thread. NULL is fine. */
void pf_queue_destroy(pf_queue *queue);

/* Whether a generation waits or runs. NULL: none does. */
bool pf_queue_is_busy(pf_queue *queue);

#endif
