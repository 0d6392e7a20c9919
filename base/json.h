/*
 * JSON documents from disk, read field by field with errors that name the file and the field.
 * A thin layer over jansson; a caller that walks arrays uses jansson itself.
 */
#ifndef PF_BASE_JSON_H
#define PF_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* A parsed document and the name to use for it in errors. */
typedef struct {
    json_t *root;   /* owned */
    char name[256]; /* the file's path, or what stands for it */
} pf_json;

/* The memory that a parsed document may take, for each byte that its text may have: one number bounds both. As measured, a
 * tokenizer takes six times its text, the header of a safetensors file ten times, a list of zeros sixteen and one of empty
 * objects eighty times; what is real among these is much shorter than what may be. */
enum { PF_JSON_MEMORY_A_BYTE = 8 };

/* PF_LIMIT where a text is longer than max_bytes, or could take more than PF_JSON_MEMORY_A_BYTE times max_bytes when it is
 * parsed: counted, from above, before any of it is taken. */
PF_MUST_USE pf_status pf_json_check_size(const char *name, const char *text, size_t bytes, size_t max_bytes,
                                         pf_error *error);

/* Parse a text that passes pf_json_check_size and whose top is an object. Of a key that is there twice the last value
 * counts, as it does for Python and for the libraries of these files. Strings may hold \u0000. An integer that 64 bits do
 * not hold is a real (transformers writes 10^30 where a tokenizer has no longest text).
 * PF_LIMIT (size), PF_NOMEM, PF_FORMAT (names line and column); of a file PF_UNAVAILABLE where it is absent and PF_INVALID
 * where it cannot be read. The caller ends it with pf_json_close. */
PF_MUST_USE pf_status pf_json_open(const char *path, size_t max_bytes, pf_json *out, pf_error *error);
PF_MUST_USE pf_status pf_json_parse(const char *name, const char *text, size_t bytes, size_t max_bytes, pf_json *out,
                                    pf_error *error);
void pf_json_close(pf_json *doc); /* zeroed is fine */

/* The same of a text whose top may be a list too, into *out, which the caller ends with json_decref. An integer that 64 bits do
 * not hold is PF_FORMAT. */
PF_MUST_USE pf_status pf_json_parse_exactly(const char *name, const char *text, size_t bytes, size_t max_bytes,
                                            json_t **out, pf_error *error);

/* Have jansson allocate by pf_json_malloc, so that parsing and printing say where memory was short: by itself jansson then
 * calls a text wrong, or leaves a word or a key out and goes on. For the whole process: a program's to call, as it begins. */
void pf_json_watch_memory(void);

/* malloc for what a document is made of. */
void *pf_json_malloc(size_t n_bytes);

/* As json_dumps, the caller's to free; NULL also where memory was short for what is printed or while it is, of which jansson
 * may leave out a quotation mark and go on. */
char *pf_json_print(const json_t *value, size_t flags);

/* An object of a document as a document by itself: errors name it behind the document's name. Borrowed: it is not closed. */
pf_json pf_json_within(const pf_json *doc, const json_t *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Read one field of `object` (a node of doc) into *out, checking type and range.
 * Absent or null: *out keeps its value when `required` is false, else PF_FORMAT. */
PF_MUST_USE pf_status pf_json_get_int(const pf_json *doc, const json_t *object, const char *field, bool required,
                                      int64_t min, int64_t max, int64_t *out, pf_error *error);
PF_MUST_USE pf_status pf_json_get_int32(const pf_json *doc, const json_t *object, const char *field, bool required,
                                        int32_t min, int32_t max, int32_t *out, pf_error *error);
PF_MUST_USE pf_status pf_json_get_double(const pf_json *doc, const json_t *object, const char *field, bool required,
                                         double min, double max, double *out, pf_error *error);
PF_MUST_USE pf_status pf_json_get_bool(const pf_json *doc, const json_t *object, const char *field, bool required,
                                       bool *out, pf_error *error);
/* Whether it is a string, and no NUL is in it: what json_string_value tells of it is all. */
bool pf_json_is_text(const json_t *value);

/* A text, borrowed from the document. */
PF_MUST_USE pf_status pf_json_get_string(const pf_json *doc, const json_t *object, const char *field, bool required,
                                         const char **out, pf_error *error);
/* A string that is one of names [n], at least two and 200 bytes in all: which. */
PF_MUST_USE pf_status pf_json_get_choice(const pf_json *doc, const json_t *object, const char *field, bool required,
                                         const char *const *names, int n, int *out, pf_error *error);

#endif
