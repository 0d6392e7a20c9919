/*
 * Writes a JSON Schema as rules of a grammar (grammar/grammar.h): the texts are JSON documents that the schema allows.
 *
 *      type (one or a list), enum, const, anyOf, $ref into the same document, allOf of one; oneOf where no text fits two of its schemas,
 *                which is known by their types, their values, or the values of a property that both require
 *      object    properties, required, additionalProperties        properties come in the schema's order
 *      array     items, minItems, maxItems
 *      string    minLength, maxLength; or pattern (grammar/schema_pattern.h)
 *      number    minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf: of at most 9 digits behind the point; multipleOf where
 *                1,024 rules are enough (grammar/number_range.h): numbers up to 60, and such as 0.01, 0.25 or 1000
 *
 * Words that describe (title, description, default, examples, format, ...) change nothing. Any other keyword is refused by its name: a text
 * that breaks it would be made. Where properties are named and additionalProperties is not, there are no others: that is narrower than the
 * schema. A member's values have no blanks between them but one, or a line end and up to 16 blanks, so that a text cannot go on without end.
 *
 * Source: JSON Schema, draft 2020-12, "Core" and "Validation"; RFC 8259.
 * Pure; any thread.
 */
#ifndef PF_GRAMMAR_JSON_SCHEMA_H
#define PF_GRAMMAR_JSON_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/status.h"

enum { PF_JSON_SCHEMA_MAX_DEPTH = 64, PF_JSON_SCHEMA_NAME_BYTES = 48 };

/* Appends the rules that all schemas of a grammar share, once: json-value, json-object, json-string, json-ws, ... without_less: strings have
 * no < , which JSON writes as \u003c.  PF_NOMEM. */
PF_MUST_USE pf_status pf_json_schema_add_common(bool without_less, pf_bytes *out);

/* Appends the rules of a schema; the names of all begin with `prefix`, and that of the whole is put into `name`. root: the document that a
 * $ref is looked up in. `what` names the schema in the sentence.
 * PF_UNSUPPORTED: a keyword.  PF_INVALID: a keyword's value is none.  PF_LIMIT: too deep, or too long.  PF_NOMEM. */
PF_MUST_USE pf_status pf_json_schema_add(const json_t *root, const json_t *schema, const char *what, const char *prefix,
                                         pf_bytes *out, char name[PF_JSON_SCHEMA_NAME_BYTES], pf_error *error);

/* A text of a literal, quoted. PF_NOMEM. */
PF_MUST_USE pf_status pf_grammar_quote(const char *text, size_t n_bytes, pf_bytes *out);

#endif
