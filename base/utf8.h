/* UTF-8: where characters end, what stands for bytes that are none (Unicode, section 3.9), and for what is never printed. */
#ifndef PF_BASE_UTF8_H
#define PF_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the longest prefix of the bytes that ends at a character's end: where a terminal may be left. Bytes that
 * can be no part of a character count as characters. */
size_t pf_utf8_complete(const char *bytes, size_t n_bytes);

/* How many characters begin in the bytes. */
size_t pf_utf8_count(const char *bytes, size_t n_bytes);

/* Length in bytes of the character that begins here, 1 .. 4, and *valid; of bytes that are none, the longest beginning of a
 * character that they are, 1 .. 3, and not: one U+FFFD stands for it. */
size_t pf_utf8_length(const char *bytes, size_t n_bytes, bool *valid);

/* The bytes into out [capacity]: every one may become U+FFFD, so 3 * n_bytes are always enough. What does not fit is left off,
 * from a character's beginning on. Returns the length; *all_valid: nothing had to be replaced. */
size_t pf_utf8_repair(const char *bytes, size_t n_bytes, char *out, size_t capacity, bool *all_valid);

/* Replace ASCII control characters by `stand_in`, as text of a peer may reach a terminal or a log (cli/output.c handles other
 * control characters for terminals). Writes nothing else, so a constant without any may be passed. */
void pf_utf8_make_printable(char *text, char stand_in);

#endif
