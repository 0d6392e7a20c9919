/* Fuzzes config.json and, after a NUL, generation_config.json. An accepted configuration has finite frequencies and dimensions in
 * their documented ranges. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) abort();
}

/* Warnings are one printable line. */
static void check_warning(void *user, const char *sentence)
{
    (void)user;
    require(sentence[0] != '\0' && strchr(sentence, '\n') == NULL);
}

static void check(const pf_config *c)
{
    static const int32_t contexts[] = { 1, 4096, 1 << 28 };
    float inv_freq[PF_MAX_HEAD_DIM / 2], scale;
    char name[PF_MAX_TENSOR_NAME];
    require(c->vocab_size >= 1 && c->vocab_size <= PF_MAX_VOCAB && c->n_heads % c->n_kv_heads == 0);
    require(c->head_dim % 2 == 0 && c->head_dim <= PF_MAX_HEAD_DIM && c->rotary_dim <= c->head_dim);
    require(c->max_context >= c->max_position && c->n_eos <= PF_MAX_EOS_IDS);
    for (size_t k = 0; k < sizeof contexts / sizeof *contexts; k++) {
        pf_rope_frequencies(c, 0, contexts[k], inv_freq, &scale);
        for (int32_t i = 0; i < c->rotary_dim / 2; i++) require(isfinite(inv_freq[i]));
        require(isfinite(scale));
    }
    for (int role = 0; role < PF_N_TENSOR_ROLES; role++)
        pf_config_tensor_name(c, (pf_tensor_id){ (pf_tensor_role)role, c->n_layers - 1, 0 }, "weight", name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
    const size_t n = end ? (size_t)(end - data) : size;
    const pf_load_policy policy = { .warn = check_warning };
    pf_config c;
    pf_error error;
    if (pf_config_parse("config.json", (const char *)data, n, end ? (const char *)end + 1 : NULL,
                        end ? size - n - 1 : 0, &policy, &c, &error) == PF_OK)
        check(&c);
    return 0;
}
