/* Fuzzes config.json and, after a NUL, generation_config.json. Of an accepted configuration the dimensions, the plan, the
 * frequencies and the places of tensors are in their documented ranges. */
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

static void check_dimensions(const pf_config *c)
{
    require(c->vocab_size >= 1 && c->vocab_size <= PF_MAX_VOCAB && c->hidden_size >= 1 && c->embedding_size >= 1);
    require(c->intermediate_size >= 1 && c->intermediate_size <= PF_MAX_INTERMEDIATE);
    require(c->n_layers >= 1 && c->n_layers <= PF_MAX_LAYERS && c->n_heads <= PF_MAX_HEADS);
    require(c->n_kv_heads >= 1 && c->n_heads % c->n_kv_heads == 0);
    require(c->head_dim >= 2 && c->head_dim % 2 == 0 && c->head_dim <= PF_MAX_HEAD_DIM);
    require(c->max_position >= 1 && c->max_context >= 1 && c->max_context <= PF_MAX_POSITIONS);
    require(c->norm_eps >= 0.0f && c->norm_eps <= 1.0f && c->n_eos <= PF_MAX_EOS_IDS);
    require(c->pard_token >= -1 && c->pard_token < c->vocab_size);
}

static void check_plan(const pf_config *c)
{
    const pf_plan *p = &c->plan;
    const float scales[] = { p->embedding_scale,   p->residual_scale, p->attention_scale, p->alibi_scale,
                             p->attention_softcap, p->qkv_clip,       p->logit_scale,     p->logit_softcap };
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) require(isfinite(scales[i]));
    require(p->attention_softcap >= 0.0f && p->logit_softcap >= 0.0f && p->qkv_clip >= 0.0f);
    require(p->activation < PF_N_ACTIVATIONS && p->n_kinds >= 1 && p->n_kinds <= PF_MAX_LAYER_KINDS);
    require(p->n_experts >= 0 && p->n_experts <= PF_MAX_EXPERTS && p->n_experts_used <= p->n_experts);
    require(p->n_experts == 0 || (p->n_experts_used >= 1 && p->expert_size >= 1));
    require(p->query_growth == 0.0f || p->query_growth_step >= 1);
    require(!p->has[PF_TENSOR_SHARED_UP] || p->shared_size >= 1);
    require((p->positions == PF_POSITIONS_ROTARY) == (c->n_ropes > 0));
    require((p->positions == PF_POSITIONS_LEARNT) == (c->n_positions > 0));
    for (int32_t i = 0; i < p->n_kinds; i++) {
        require(p->kinds[i].window >= 0 && p->kinds[i].rope >= -1 && p->kinds[i].rope < c->n_ropes);
        require(!p->kinds[i].experts || p->n_experts > 0);
    }
    for (int32_t layer = 0; layer < c->n_layers; layer++) require(c->layer_kinds[layer] < p->n_kinds);
}

static void check_ropes(const pf_config *c)
{
    static const int32_t contexts[] = { 1, 4096, 1 << 28 };
    float inv_freq[PF_MAX_HEAD_DIM / 2], scale;
    require(c->n_ropes >= 0 && c->n_ropes <= PF_MAX_ROPES && c->rotary_dim <= c->head_dim && c->rotary_dim % 2 == 0);
    for (int32_t which = 0; which < c->n_ropes; which++)
        for (size_t k = 0; k < sizeof contexts / sizeof *contexts; k++) {
            pf_rope_frequencies(c, which, contexts[k], inv_freq, &scale);
            for (int32_t i = 0; i < c->rotary_dim / 2; i++) require(isfinite(inv_freq[i]));
            require(isfinite(scale));
        }
}

/* Names are whole, and the rows of a role lie within its tensor. */
static void check_tensors(const pf_config *c)
{
    for (int i = 0; i < PF_N_TENSOR_ROLES; i++) {
        const pf_tensor_role role = (pf_tensor_role)i;
        char name[PF_MAX_TENSOR_NAME];
        int32_t rows, columns;
        if (!c->plan.has[role]) continue;
        pf_config_tensor_name(c, (pf_tensor_id){ role, PF_MAX_LAYERS, PF_MAX_EXPERTS }, "weight", name);
        require(name[0] != '\0' && strlen(name) < PF_MAX_TENSOR_NAME - 1);
        pf_config_shape(c, role, &rows, &columns);
        const pf_row_map map = pf_config_rows(c, role);
        require(rows >= 1 && columns >= 0 && map.block_rows * map.n_blocks == rows);
        require(map.first + (int64_t)map.stride * (map.n_blocks - 1) + map.block_rows <= map.file_rows);
    }
}

static void check(const pf_config *c)
{
    check_dimensions(c);
    check_plan(c);
    check_ropes(c);
    check_tensors(c);
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
