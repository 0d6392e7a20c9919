/*
 * Computes Unicode's normal forms as Hugging Face's library does (Unicode 9).
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_NORMAL_FORMS_H
#define PF_TOKENIZER_NORMAL_FORMS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/status.h"

typedef enum { PF_NFC, PF_NFD, PF_NFKC, PF_NFKD } pf_normal_form;

/* Appends the normal form of text [n], valid UTF-8. cancel, or NULL: once it is true the call returns PF_CANCELLED.
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_normal_form_append(pf_normal_form form, const char *text, size_t n,
                                            const volatile bool *cancel, pf_bytes *out);

#endif
