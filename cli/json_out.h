/* Writes JSON to the caller: a document in one piece. */
#ifndef PF_CLI_JSON_OUT_H
#define PF_CLI_JSON_OUT_H

#include <jansson.h>

#include "base/json_values.h"
#include "cli/output.h"

/* The document on one line, a real number with fifteen digits, as many as a double always keeps; takes the reference. Its
 * text is made whole before the first byte is written. Where memory was short, which pf_json_watch_memory lets it know
 * and of which a NULL document is a sign too, it is nothing and a sentence. Returns an exit status. */
PF_MUST_USE int pf_out_json(pf_out *out, json_t *document);

#endif
