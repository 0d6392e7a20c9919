/* Each architecture's config.json, as published and as transformers 5 writes it, and the plan that must follow. */
#include <jansson.h>
#include <stdlib.h>

#include "model/config/config.h"
#include "tests/support/test.h"

/* ---- a plan in words --------------------------------------------------------------------------------------------------- */

typedef struct {
    char text[8192];
} words;

static void add(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(words *w, const char *format, ...)
{
    const size_t n = strlen(w->text);
    va_list args;
    va_start(args, format);
    if (n > 0 && n < sizeof w->text - 1) strcpy(w->text + n, " ");
    vsnprintf(w->text + strlen(w->text), sizeof w->text - strlen(w->text), format, args);
    va_end(args);
}

static void add_if(words *w, bool condition, const char *word)
{
    if (condition) add(w, "%s", word);
}

static void add_unless(words *w, const char *name, float value, float neutral)
{
    if (value != neutral) add(w, "%s=%.6g", name, (double)value);
}

static void add_dimensions(words *w, const pf_config *c)
{
    add(w, "vocab=%d hidden=%d mlp=%d layers=%d heads=%d/%dx%d positions=%d", c->vocab_size, c->hidden_size,
        c->intermediate_size, c->n_layers, c->n_heads, c->n_kv_heads, c->head_dim, c->max_position);
    if (c->max_context != c->max_position) add(w, "context=%d", c->max_context);
    if (c->embedding_size != c->hidden_size) add(w, "embedding=%d", c->embedding_size);
    if (c->n_positions) add(w, "learnt=%d", c->n_positions);
    add(w, "eps=%g", (double)c->norm_eps);
    add_if(w, c->tied_embeddings, "tied");
}

static void add_blocks(words *w, const pf_plan *p)
{
    static const char *const norms[] = { "rms", "rms+1", "layernorm" };
    static const char *const head_norms[] = { "", "shared", "each", "whole" };
    static const char *const acts[] = { "silu", "gelu", "gelu-tanh", "quick-gelu", "relu", "relu2", "clamped" };
    add(w, "| %s", norms[p->norm]);
    add_if(w, p->pre_norm, "pre");
    add_if(w, p->post_norm, "post");
    add_if(w, p->residual_norm, "residual");
    add_if(w, p->final_norm, "final");
    if (p->head_norm) add(w, "head-norm=%s-%s", norms[p->head_norm_kind], head_norms[p->head_norm]);
    add_if(w, p->parallel, "parallel");
    add_if(w, p->one_norm, "one-norm");
    add_if(w, p->gated, "gated");
    add(w, "%s", acts[p->activation]);
    add_unless(w, "embedding-scale", p->embedding_scale, 1.0f);
    add_unless(w, "residual-scale", p->residual_scale, 1.0f);
    add(w, "attention-scale=%.6g", (double)p->attention_scale);
    add_unless(w, "attention-cap", p->attention_softcap, 0.0f);
    if (p->query_growth > 0.0f) add(w, "query-growth=%.6g/%d", (double)p->query_growth, p->query_growth_step);
    add_unless(w, "clip", p->qkv_clip, 0.0f);
    add_unless(w, "logit-scale", p->logit_scale, 1.0f);
    add_unless(w, "logit-cap", p->logit_softcap, 0.0f);
    add_if(w, p->normalised_head, "normalised-head");
}

static void add_positions(words *w, const pf_config *c)
{
    static const char *const names[] = { "rotary", "learnt", "alibi", "none" };
    static const char *const kinds[] = { "paper", "stride" };
    add(w, "| %s", names[c->plan.positions]);
    if (c->plan.positions == PF_POSITIONS_ALIBI) add(w, "%s*%.6g", kinds[c->plan.alibi], (double)c->plan.alibi_scale);
    if (c->plan.position_offset) add(w, "offset=%d", c->plan.position_offset);
    if (c->plan.positions == PF_POSITIONS_ROTARY) add(w, "dim=%d", c->rotary_dim);
    add_if(w, c->plan.rope_interleaved, "interleaved");
    for (const pf_rope *rope = c->ropes; rope < c->ropes + c->n_ropes;
         rope++) { /* type:theta*factor/original context */
        char factor[32] = "", original[32] = "";
        if (rope->factor != 0.0) snprintf(factor, sizeof factor, "*%g", rope->factor);
        if (rope->original_max_position != 0.0) snprintf(original, sizeof original, "/%g", rope->original_max_position);
        add(w, "%s:%g%s%s", pf_rope_type_name(rope->type), rope->theta, factor, original);
    }
}

/* Each layer: its window, its table (- for none), and e where it has experts. */
static void add_layers(words *w, const pf_config *c)
{
    add(w, "|");
    for (int32_t i = 0; i < c->n_layers; i++) {
        const pf_layer_kind *kind = pf_config_layer(c, i);
        char rope[8] = "-";
        if (kind->rope >= 0) snprintf(rope, sizeof rope, "%d", kind->rope);
        add(w, "%d/%s%s", kind->window, rope, kind->experts ? "e" : "");
    }
    if (c->plan.n_experts) add(w, "experts=%d/%dx%d", c->plan.n_experts_used, c->plan.n_experts, c->plan.expert_size);
    if (c->plan.shared_size) add(w, "shared=%d", c->plan.shared_size);
    add_if(w, c->plan.normalises_experts, "normalised");
    add_if(w, c->plan.softmax_of_chosen, "of-chosen");
}

static const char *const ROLES[PF_N_TENSOR_ROLES] = {
    "embedding",
    "positions",
    "embedding-norm",
    "project-in",
    "project-out",
    "final-norm",
    "head",
    "attention-norm",
    "q",
    "k",
    "v",
    "q-norm",
    "k-norm",
    "sinks",
    "o",
    "attention-post",
    "mlp-norm",
    "gate",
    "up",
    "down",
    "router",
    "expert-gate",
    "expert-up",
    "expert-down",
    "shared-router",
    "shared-gate",
    "shared-up",
    "shared-down",
    "mlp-post",
};

static void add_biases(words *w, const pf_config *c)
{
    add(w, "| bias:");
    for (int role = 0; role < PF_N_TENSOR_ROLES; role++)
        add_if(w, c->plan.has[role] && pf_config_has_bias(c, (pf_tensor_role)role), ROLES[role]);
}

static words describe(const pf_config *c)
{
    words w = { "" };
    add(&w, "%s", pf_architecture_name(c->architecture));
    add_dimensions(&w, c);
    add_blocks(&w, &c->plan);
    add_positions(&w, c);
    add_layers(&w, c);
    add_biases(&w, c);
    return w;
}

/* Every tensor of the last layer, and those of no layer; the last expert. */
static pf_status note_tensor(void *user, pf_tensor_id id, const char *part, pf_error *error)
{
    (void)error;
    void **arguments = user;
    const pf_config *c = arguments[0];
    const bool is_last = (id.role < PF_FIRST_LAYER_ROLE || id.layer == c->n_layers - 1) &&
                         (!pf_role_is_of_expert(id.role) || id.expert == c->plan.n_experts - 1);
    if (!is_last || strcmp(part, "weight") != 0) return PF_OK;
    static const char *const layouts[] = { "", "@qkv", "@groups", "@quarters", "@gate-up", "@up-gate", "@pairs" };
    const pf_tensor_pattern *pattern = pf_config_pattern(c, id.role);
    char name[PF_MAX_TENSOR_NAME];
    pf_config_tensor_name(c, id, part, name);
    add(arguments[1], "%s=%s%s%s%s", ROLES[id.role], name, layouts[pattern->layout], pattern->transposed ? "^T" : "",
        pattern->stacked ? "[]" : "");
    return PF_OK;
}

static words tensors_of(const pf_config *c)
{
    words w = { "" };
    pf_error error = { 0 };
    void *arguments[] = { (void *)(uintptr_t)c, &w };
    assert_ok(pf_config_visit_tensors(c, note_tensor, arguments, &error), error);
    return w;
}

/* ---- cases ------------------------------------------------------------------------------------------------------------- */

static json_t *read_cases(void)
{
    json_error_t why;
    json_t *cases = json_load_file("tests/golden/config/architectures.json", 0, &why);
    if (cases == NULL) fail_msg("architectures.json, line %d: %s", why.line, why.text);
    return cases;
}

/* The case's config.json with the keys of `patch` set and those of "drop" left out; its text, to be freed. */
static char *config_text(const json_t *item, const json_t *patch)
{
    json_t *config = json_deep_copy(json_object_get(item, "config"));
    json_t *set = json_object_get(patch, "set"), *key;
    size_t i;
    if (set) assert_int_equal(json_object_update_recursive(config, set), 0);
    json_array_foreach(json_object_get(patch, "drop"), i, key)
        assert_int_equal(json_object_del(config, json_string_value(key)), 0);
    char *text = json_dumps(config, 0);
    json_decref(config);
    assert_non_null(text);
    return text;
}

static pf_status parse(const json_t *item, const json_t *patch, pf_config *out, pf_error *error)
{
    char *text = config_text(item, patch);
    const pf_load_policy policy = { .strict = true }; /* nothing in a published file is a surprise */
    const pf_status status = pf_config_parse("config.json", text, strlen(text), NULL, 0, &policy, out, error);
    free(text);
    return status;
}

static const char *text_of(const json_t *item, const char *key)
{
    const char *text = json_string_value(json_object_get(item, key));
    return text ? text : "";
}

static words parsed(const json_t *item, const json_t *patch, words *tensors)
{
    pf_config c;
    pf_error error = { 0 };
    if (parse(item, patch, &c, &error) != PF_OK) fail_msg("%s: %s", text_of(item, "plan"), error.text);
    if (tensors) *tensors = tensors_of(&c);
    return describe(&c);
}

static void for_each_case(void (*check)(const json_t *item))
{
    json_t *cases = read_cases(), *item;
    size_t i;
    json_array_foreach(cases, i, item) check(item);
    json_decref(cases);
}

static void check_plan(const json_t *item)
{
    words tensors;
    const words plan = parsed(item, NULL, &tensors);
    assert_string_equal(plan.text, text_of(item, "plan"));
    assert_string_equal(tensors.text, text_of(item, "tensors"));
}

static void a_published_config_gives_its_plan(void **state)
{
    (void)state;
    for_each_case(check_plan);
}

static void check_spellings(const json_t *item)
{
    json_t *patch;
    size_t i;
    json_array_foreach(json_object_get(item, "same"), i, patch)
    {
        const words plan = parsed(item, patch, NULL);
        assert_string_equal(plan.text, text_of(item, "plan"));
    }
}

static void another_spelling_gives_the_same_plan(void **state)
{
    (void)state;
    for_each_case(check_spellings);
}

/* "says": a part of the new plan, which the plan of the case lacks. */
static void check_changes(const json_t *item)
{
    json_t *patch;
    size_t i;
    json_array_foreach(json_object_get(item, "changes"), i, patch)
    {
        words tensors;
        words plan = parsed(item, patch, &tensors);
        add(&plan, "| %s", tensors.text);
        const char *part = text_of(patch, "says");
        if (strstr(text_of(item, "plan"), part)) fail_msg("\"%s\" is in the plan before", part);
        if (!strstr(plan.text, part)) fail_msg("no \"%s\" in %s", part, plan.text);
    }
}

static void a_key_changes_the_plan(void **state)
{
    (void)state;
    for_each_case(check_changes);
}

static void check_refusals(const json_t *item)
{
    json_t *patch;
    size_t i;
    json_array_foreach(json_object_get(item, "refused"), i, patch)
    {
        pf_config c;
        pf_error error = { 0 };
        const char *part = text_of(patch, "says");
        if (parse(item, patch, &c, &error) == PF_OK) fail_msg("%s: accepted, expected %s", text_of(item, "plan"), part);
        assert_says(error, part);
        assert_says(error, "config.json");
    }
}

static void a_value_that_is_not_implemented_is_refused_by_name(void **state)
{
    (void)state;
    for_each_case(check_refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_published_config_gives_its_plan),
        cmocka_unit_test(another_spelling_gives_the_same_plan),
        cmocka_unit_test(a_key_changes_the_plan),
        cmocka_unit_test(a_value_that_is_not_implemented_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
