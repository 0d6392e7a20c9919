/* What any fallible call returns, and the sentence that goes with a failure at a cold boundary. */
#ifndef PF_BASE_STATUS_H
#define PF_BASE_STATUS_H

#include <stddef.h>

/* Out-parameters are untouched unless the status is PF_OK. */
typedef enum {
    PF_OK = 0,
    PF_INVALID,     /* the caller's argument is outside what the function documents */
    PF_FORMAT,      /* a file or a message is not what it should be */
    PF_NOMEM,       /* the system refused memory */
    PF_LIMIT,       /* a budget that was fixed at creation is used up; try later or smaller */
    PF_UNSUPPORTED, /* well-formed, but nothing here can do it */
    PF_UNAVAILABLE, /* a peer, a file or a device that is not there (now) */
    PF_CANCELLED,   /* the caller asked to stop, or a deadline passed */
    PF_INTERNAL,    /* a fault of this library */
} pf_status;

#define PF_MUST_USE __attribute__((warn_unused_result))

/* "invalid", "format", ... : a static string. */
const char *pf_status_name(pf_status status);

/* One sentence that names what failed, where, the value found and what was expected. Passed as an optional
 * pointer (NULL: not wanted) into calls at cold boundaries: loading, parsing, connecting. */
typedef struct {
    pf_status status;
    char text[512]; /* NUL-terminated UTF-8, no line end; of a longer one the middle is left out */
} pf_error;

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
