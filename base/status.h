/* Helpers around pf_status and pf_error, which include/pilotfish_peer.h defines. */
#ifndef PF_BASE_STATUS_H
#define PF_BASE_STATUS_H

#include "include/pilotfish_peer.h"

/* Fill *error (when not NULL) and yield `status`, so that a failing function reads
 *     return pf_fail(error, PF_FORMAT, "%s: %s is %lld, expected 1 to %d", path, field, value, max);
 * A macro, so that the compiler sees that what is returned is not PF_OK. */
#define pf_fail(error, status, ...)                   \
    __extension__({                                   \
        const pf_status pf_fail_ = (status);          \
        pf_error_set((error), pf_fail_, __VA_ARGS__); \
        pf_fail_;                                     \
    })
void pf_error_set(pf_error *error, pf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One more word of a list that a sentence has: behind `between` where it is not the first. `list` is text, "" at first; what
 * has no room there is cut off. */
void pf_list_word(char *list, size_t capacity, const char *between, const char *word);

/* Return from the calling function when `call` fails. */
#define PF_TRY(call)                          \
    do {                                      \
        const pf_status pf_try_ = (call);     \
        if (pf_try_ != PF_OK) return pf_try_; \
    } while (0)

#endif
