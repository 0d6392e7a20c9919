/* Copies the versioned structs of include/pilotfish.h: smaller ones of older headers, and larger ones of newer headers. */
#ifndef PF_ENGINE_VERSIONED_H
#define PF_ENGINE_VERSIONED_H

#include "base/status.h"

/* Copy *given, whose first member is its size, to out [known]; what *given lacks becomes zero. given NULL: all of it, but for
 * the size. `name` is the struct's.
 * PF_INVALID: the size is less than a size_t, or *given is larger than `known` and not zero there. */
PF_MUST_USE pf_status pf_versioned_copy(const char *name, const void *given, void *out, size_t known, pf_error *error);

#endif
