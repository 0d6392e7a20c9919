/*
 * Writes a call whose arguments stand between tags (serve/tool_tags.h) as rules of a grammar: what is written so is read as a call whose
 * arguments the tool's schema allows.
 *
 *      <function=NAME>
 *      <parameter=KEY>          the properties in the schema's order, those that are not required perhaps
 *      VALUE                    JSON where the schema allows no string, else text
 *      </parameter>
 *      </function>
 *
 * A text is any that has neither </parameter> nor </function>, or one of enum, const, minLength and maxLength where its schema is of type
 * string and says no more. JSON between tags has no < in its strings. Other properties than those that are named are not written.
 *
 * Pure; any thread.
 */
#ifndef PF_SERVE_TOOL_TAGS_FORM_H
#define PF_SERVE_TOOL_TAGS_FORM_H

#include <jansson.h>

#include "base/bytes.h"
#include "base/status.h"

/* Appends the rules that all calls share, once: those of grammar/json_schema.h, and tag-text. PF_NOMEM. */
PF_MUST_USE pf_status pf_tool_tags_add_common(pf_bytes *out);

/* Appends the rule `rule` of a call of the function {"name", "parameters"}; the names of others begin with `prefix`, at most 20 bytes.
 * PF_UNSUPPORTED, PF_INVALID, PF_LIMIT: as of pf_json_schema_add, or a name that no tag can have.  PF_NOMEM. */
PF_MUST_USE pf_status pf_tool_tags_add_call(const json_t *function, const char *rule, const char *prefix, pf_bytes *out,
                                            pf_error *error);

#endif
