/*
 * Whether two JSON Schemas allow no document in common, as far as that is seen without solving them: by their types, by values that they
 * name, or by the values of a property that both require.
 *
 * Pure; any thread.
 */
#ifndef PF_GRAMMAR_SCHEMA_OVERLAP_H
#define PF_GRAMMAR_SCHEMA_OVERLAP_H

#include <jansson.h>
#include <stdbool.h>

/* The schema at "#/a/b" of the document `root`; NULL: there is none. */
const json_t *pf_schema_find(const json_t *root, const char *reference);

/* The type that a schema is for, where it has no "type", by what else it says; NULL: any. */
const char *pf_schema_implied_type(const json_t *schema);

/* Whether a text in quotes may fit, as far as that is seen. root: as below. */
bool pf_schema_may_be_string(const json_t *root, const json_t *schema);

/* True: no document fits both. False: one may. root: what a $ref is looked up in. */
bool pf_schemas_are_disjoint(const json_t *root, const json_t *a, const json_t *b);

/* Whether `required` of a schema lists this key. */
bool pf_schema_requires(const json_t *schema, const char *key);

#endif
