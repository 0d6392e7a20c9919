/* JSON that goes out. */
#include "cli/json_out.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/options.h"

int pf_out_json(pf_out *out, json_t *document)
{
    char *text = pf_json_print(document, JSON_COMPACT | JSON_REAL_PRECISION(DBL_DIG));
    json_decref(document);
    if (!text) return pf_out_fail("no memory for the JSON document");
    pf_out_write(out, text, strlen(text));
    pf_out_write(out, "\n", 1);
    free(text);
    return pf_out_flush(out) ? PF_EXIT_DONE : PF_EXIT_FAILED;
}
