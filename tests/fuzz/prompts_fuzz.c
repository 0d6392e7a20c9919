/* Prompts of any bytes, one a line or Spec-Bench's JSONL: it gives prompts, each with something to say, or a
 * sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/prompts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 5 };

static void require(int condition)
{
    if (!condition) abort();
}

static void check(const pf_prompts *prompts)
{
    require(prompts->n >= 1 && prompts->n <= MOST);
    for (size_t i = 0; i < prompts->n; i++) {
        const pf_prompt *p = &prompts->items[i];
        require(p->category != NULL && p->n_turns >= 1);
        for (size_t k = 0; k < p->n_turns; k++) require(p->turns[k] != NULL && strchr(p->turns[k], '\0') != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    pf_prompts prompts = { 0 };
    pf_error error = { .text = "" };
    if (pf_prompts_parse("prompts", text, size, MOST, &prompts, &error) == PF_OK)
        check(&prompts);
    else
        require(error.text[0] != '\0' && prompts.items == NULL);
    pf_prompts_clear(&prompts);
    free(text);
    return 0;
}
