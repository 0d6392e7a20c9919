/* What the formats of replies share. */
#include "serve/reply.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_values.h"

json_t *pf_reply_speculation(const pf_usage *u)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:o, s:o}", "drafter",
                     u->drafter[0] ? json_string(u->drafter) : json_null(), "rounds", (json_int_t)u->rounds,
                     "fallback_rounds", (json_int_t)u->fallback_rounds, "drafted", (json_int_t)u->drafted, "accepted",
                     (json_int_t)u->accepted, "acceptance_rate", pf_json_ratio((double)u->accepted, (double)u->drafted),
                     "mean_accepted_length",
                     u->rounds > 0 ? pf_json_number(1.0 + (double)u->accepted / (double)u->rounds) : json_null());
}

json_t *pf_reply_usage(const pf_reply_head *head, const pf_usage *u)
{
    json_t *usage = json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)u->n_prompt, "completion_tokens",
                              (json_int_t)u->n_completion, "total_tokens", (json_int_t)(u->n_prompt + u->n_completion),
                              "prompt_tokens_details", "cached_tokens", (json_int_t)u->n_cached);
    if (head->has_drafter && json_object_set_new(usage, "speculative", pf_reply_speculation(u)) != 0) {
        json_decref(usage);
        return NULL;
    }
    return usage;
}

int32_t pf_reply_count_parts(const pf_reply_choice *c)
{
    return c->n_parts > 0 ? c->n_parts : 1;
}

pf_reply_part pf_reply_part_at(const pf_reply_choice *c, int32_t i)
{
    return c->n_parts > 0 ? c->parts[i] : (pf_reply_part){ .end = c->n_bytes };
}

json_t *pf_reply_text(const pf_reply_choice *c, const pf_reply_part *part)
{
    return pf_json_text(part->end > part->begin ? c->text + part->begin : "", part->end - part->begin);
}

bool pf_reply_has_called(const pf_reply_choice *c)
{
    return c->n_calls > 0 && c->finish != PF_FINISH_LENGTH;
}

pf_status pf_reply_event(const char *name, json_t *document, pf_bytes *out)
{
    char *data = document ? pf_json_print(document, JSON_COMPACT | JSON_REAL_PRECISION(DBL_DIG)) : NULL;
    json_decref(document);
    pf_status status = data ? PF_OK : PF_NOMEM;
    if (status == PF_OK && name) status = pf_bytes_append(out, "event: ", 7);
    if (status == PF_OK && name) status = pf_bytes_append(out, name, strlen(name));
    if (status == PF_OK && name) status = pf_bytes_append(out, "\n", 1);
    if (status == PF_OK) status = pf_bytes_append(out, "data: ", 6);
    if (status == PF_OK) status = pf_bytes_append(out, data, strlen(data));
    if (status == PF_OK) status = pf_bytes_append(out, "\n\n", 2);
    free(data);
    return status;
}
