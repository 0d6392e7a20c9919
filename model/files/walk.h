/* Reports progress over the tensors of a checkpoint, and polls for cancellation. Internal to model/. */
#ifndef PF_MODEL_WALK_H
#define PF_MODEL_WALK_H

#include "base/status.h"
#include "base/stop.h"

typedef struct {
    const char *path;            /* of the input or the output, for the sentence */
    const char *action;          /* what is done to it: "loaded" */
    const volatile bool *cancel; /* set from outside; or NULL */
    void (*report)(void *user, size_t done_bytes, size_t total_bytes); /* or NULL */
    void *user;
    size_t done_bytes, total_bytes;
} pf_walk;

static inline void pf_walk_on(pf_walk *walk, size_t bytes)
{
    walk->done_bytes += bytes;
    if (walk->report != NULL) walk->report(walk->user, walk->done_bytes, walk->total_bytes);
}

/* PF_CANCELLED, where it is to end. */
PF_MUST_USE static inline pf_status pf_walk_check(const pf_walk *walk, pf_error *error)
{
    if (!pf_is_told(walk->cancel)) return PF_OK;
    return pf_fail(error, PF_CANCELLED, "%s: interrupted while it was %s", walk->path, walk->action);
}

#endif
