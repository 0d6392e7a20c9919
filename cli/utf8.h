/* UTF-8 at the edge of the process: where characters end, and what stands for bytes that are none (Unicode, section 3.9). */
#ifndef PF_CLI_UTF8_H
#define PF_CLI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the longest prefix of the bytes that ends at a character's end: where a terminal may be left. Bytes that
 * can be no part of a character count as characters. */
size_t pf_utf8_complete(const char *bytes, size_t n_bytes);

/* Length in bytes of the character that begins here, 1 .. 4, and *valid; of bytes that are none, the longest beginning of a
 * character that they are, 1 .. 3, and not: one U+FFFD stands for it. */
size_t pf_utf8_length(const char *bytes, size_t n_bytes, bool *valid);

/* The bytes into out [3 * n_bytes], for every one may become U+FFFD. Returns the length; *all_valid: nothing had to be
 * replaced. */
size_t pf_utf8_repair(const char *bytes, size_t n_bytes, char *out, bool *all_valid);

#endif
