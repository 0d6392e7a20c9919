/*
 * Decodes base64 (RFC 4648, section 4) with its padding: no line ends, no other characters.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_BASE64_H
#define PF_TOKENIZER_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text [n] into out [3 * (n / 4)]; *n_out: how many bytes. False: it is not base64. */
bool pf_base64_decode(const char *text, size_t n, uint8_t *out, size_t *n_out);

#endif
