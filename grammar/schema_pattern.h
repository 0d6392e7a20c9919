/*
 * Writes a regular expression of JSON Schema ("pattern") as a part of a grammar (grammar/grammar.h): the JSON strings, without their
 * quotes, whose text it matches.
 *
 *      a  \.  .  [a-z_]  [^0-9]  \d \D \w \W \s \S  \t \n \r \f     a character: one of its set, escaped as JSON has it
 *      (...)  (?:...)  x|y  x*  x+  x?  x{2}  x{2,}  x{2,5}         and the lazy forms of these
 *      ^ at the beginning of an alternative, $ at its end           without them any characters may stand there
 *
 * Characters outside of ASCII stand for themselves, but not in brackets. Whatever else ECMA-262 has, such as \b, (?=...) and \1, is refused
 * by name. Control characters other than \t \n \r \f are never made.
 *
 * Source: ECMA-262, "RegExp patterns"; JSON Schema, draft 2020-12, "Core", section 6.4.
 * Pure; any thread.
 */
#ifndef PF_GRAMMAR_SCHEMA_PATTERN_H
#define PF_GRAMMAR_SCHEMA_PATTERN_H

#include "base/bytes.h"
#include "base/status.h"

enum { PF_SCHEMA_PATTERN_MAX_BYTES = 1024, PF_SCHEMA_PATTERN_MAX_DEPTH = 32 };

/* Appends one group; it uses the rule json-char. pattern: NUL-terminated UTF-8. The sentence of *error says what and where.
 * PF_UNSUPPORTED: a part that is not in the list.  PF_INVALID: no regular expression, or none of its characters is ever made.
 * PF_LIMIT: too long or too deep.  PF_NOMEM. */
PF_MUST_USE pf_status pf_schema_pattern_write(const char *pattern, pf_bytes *out, pf_error *error);

#endif
