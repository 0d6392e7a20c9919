/*
 * Renders chat templates: the subset of Jinja that published chat templates use, in a sandbox.
 *
 * A template sees the data that it is given and nothing else: it opens no file, calls nothing outside, and ends within the limits
 * on steps, depth, memory and output. The text is what transformers' apply_chat_template gives: Jinja 2 with trim_blocks and
 * lstrip_blocks, loop controls, `tojson` as json.dumps(ensure_ascii=False), `raise_exception` and `strftime_now`.
 *
 *   statements    if, for (else, if, break, continue), set (also of a block or of a namespace's field), macro, call, filter, with,
 *                 raw, generation
 *   refused       include, import, extends, block, do: one sentence with the line
 *
 * Source: the Jinja 2 documentation, Template Designer; transformers, utils/chat_template_utils.py.
 *
 * Threads: a parsed template is immutable; any number of threads may render it.
 */
#ifndef PF_JINJA_H
#define PF_JINJA_H

#include <jansson.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/status.h"

typedef struct pf_jinja pf_jinja;

enum {
    PF_JINJA_MAX_SOURCE = 1 << 20, /* bytes of a template */
    PF_JINJA_MAX_DEPTH = 1000,     /* nested expressions, blocks and calls */
    PF_JINJA_MAX_STEPS = 1 << 24,  /* of one rendering */
    PF_JINJA_MAX_MEMORY = 1 << 28, /* bytes of values of one rendering */
    PF_JINJA_MAX_OUTPUT = 1 << 26, /* bytes */
};

/* Parses a template. `name` stands for it in errors; both are copied.
 * PF_FORMAT: names the line and what was expected.  PF_UNSUPPORTED: a statement that is not known.  PF_LIMIT: it is too long or
 * too deeply nested.  PF_NOMEM. The caller ends it with pf_jinja_release. */
PF_MUST_USE pf_status pf_jinja_parse(const char *name, const char *source, size_t n_bytes, pf_jinja **out,
                                     pf_error *error);
void pf_jinja_release(pf_jinja *tmpl); /* NULL is fine */

/* Whether the text stands anywhere in the source. */
bool pf_jinja_mentions(const pf_jinja *tmpl, const char *text);

/* Renders it with `variables`, an object; appends the text to *out.
 * PF_INVALID: the template raises an exception (the sentence is its own), or uses a value in a way that it does not have.
 * PF_UNSUPPORTED: an unknown filter, test, method or function.  PF_LIMIT: one of the limits above.  PF_NOMEM. */
PF_MUST_USE pf_status pf_jinja_render(const pf_jinja *tmpl, const json_t *variables, pf_bytes *out, pf_error *error);

#endif
