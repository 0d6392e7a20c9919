/*
 * How strictly a model's files are read: what is reported and ignored, or, strictly, refused.
 *
 * A published file often holds more than a model needs: keys of other programs in config.json, tensors of a value head.
 * What cannot change the logits is ignored with a warning; what could is refused whatever the policy is.
 */
#ifndef PF_MODEL_LOAD_POLICY_H
#define PF_MODEL_LOAD_POLICY_H

#include <stdbool.h>

#include "base/status.h"

/* Zeroed, and NULL where a pointer to one is taken: not strict, and warnings go nowhere. */
typedef struct {
    bool strict;                                    /* refuse what a warning would report */
    void (*warn)(void *user, const char *sentence); /* one sentence without a line end; or NULL */
    void *warn_user;
} pf_load_policy;

/* Reports something in a file that is ignored. PF_OK.  PF_UNSUPPORTED with the same sentence: the policy is strict. */
PF_MUST_USE pf_status pf_load_warn(const pf_load_policy *policy, pf_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
