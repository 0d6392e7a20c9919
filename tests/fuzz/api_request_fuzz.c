/* Any bytes as the body of a request: read within the bounds, or refused with a status and a sentence. */
#include <stdint.h>
#include <stdlib.h>

#include "serve/api_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) abort();
}

static void check(const pf_api_request *r)
{
    require(r->n >= 1 && r->n_prompts >= 1 && r->n * r->n_prompts <= PF_API_MAX_CHOICES);
    require(r->n_stops >= 0 && r->n_stops <= PF_API_MAX_STOPS && r->max_tokens >= 0);
    require(r->sampling.temperature >= 0.0f && r->draft_len >= 0 && r->draft_len <= PF_MAX_DRAFT_TOKENS);
    for (int32_t i = 0; i < r->n_stops; i++) require(r->stops[i][0] != '\0');
    require(r->kind == PF_API_COMPLETION || json_array_size(json_object_get(r->conversation, "messages")) > 0);
    for (int32_t i = 0; i < r->n_prompts && r->kind == PF_API_COMPLETION; i++) {
        const json_t *ids = NULL;
        size_t n_bytes;
        require(pf_api_prompt(r, i, &n_bytes, &ids) != NULL || json_array_size(ids) > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const pf_api_kind kinds[] = { PF_API_COMPLETION, PF_API_CHAT, PF_API_RESPONSE, PF_API_MESSAGE };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pf_api_request request = { 0 };
        pf_api_error error = { 0 };
        if (pf_api_request_parse(kinds[i], (const char *)data, size, &request, &error)) {
            check(&request);
            pf_api_request_end(&request);
        } else {
            require(error.status >= 400 && error.text[0] != '\0' && request.root == NULL);
        }
    }
    return 0;
}
