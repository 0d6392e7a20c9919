/* Any bytes as a template: parsed and rendered within the limits, or refused with a sentence. */
#include <stdint.h>
#include <stdlib.h>

#include "jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char messages[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"bos_token\": \"<s>\","
                                   " \"tools\": [{\"name\": \"f\", \"parameters\": {\"a\": [1, 2.5, null, true]}}]}";
    json_t *variables = json_loads(messages, 0, NULL);
    pf_jinja *t = NULL;
    pf_bytes out = { .n = 0 };
    pf_error error = { 0 };
    pf_status status = pf_jinja_parse("fuzz", (const char *)data, size, &t, &error);
    if (status == PF_OK) status = pf_jinja_render(t, variables, &out, &error);
    if (status != PF_OK && error.text[0] == '\0') abort();
    pf_jinja_release(t);
    pf_bytes_clear(&out);
    json_decref(variables);
    return 0;
}
