#include "cli/acceptance_page.h"

#include <math.h>

void pf_page_text(FILE *f, const char *text)
{
    for (; text && *text; text++) switch (*text) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        default: fputc(*text, f);
        }
}

double pf_page_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool pf_page_varies(const json_t *runs, const char *key)
{
    const json_t *first = json_object_get(json_array_get(runs, 0), key);
    for (size_t i = 1; i < json_array_size(runs); i++)
        if (!json_equal(first, json_object_get(json_array_get(runs, i), key))) return true;
    return false;
}

void pf_page_name(FILE *f, const json_t *runs, const json_t *run)
{
    const json_t *length = json_object_get(run, "draft_len");
    if (pf_page_varies(runs, "drafter")) {
        pf_page_text(f, json_string_value(json_object_get(run, "drafter")));
        fputs(", ", f);
    }
    if (json_is_string(length))
        fprintf(f, "length %s", json_string_value(length));
    else
        fprintf(f, "length %d", (int)json_integer_value(length));
    if (pf_page_varies(runs, "method")) {
        fputs(", ", f);
        pf_page_text(f, json_string_value(json_object_get(run, "method")));
        if (json_is_true(json_object_get(run, "lossy"))) fputs(" (lossy)", f);
    }
    if (pf_page_varies(runs, "temperature")) fprintf(f, ", temperature %g", pf_page_number(run, "temperature"));
}
