/*
 * Reads what the layers of a model differ in: the window, the rotary table, whether the feed-forward block has experts. Each
 * of these is a list of config.json with an entry a layer, or follows a rule of the architecture.
 */
#include <string.h>

#include "model/config/config_parts.h"

/* What decides about the layers, as read. */
typedef struct {
    const json_t *types;       /* layer_types; NULL: absent */
    int32_t window;            /* 0: there is none */
    int32_t interval;          /* of layers without a window (PF_WINDOWS_INTERVAL) */
    int32_t max_window_layers; /* PF_WINDOWS_LAST, PF_WINDOWS_EVEN_FIRST */
    const json_t *has_rope;    /* no_rope_layers, in which 1 is a layer that rotates; NULL: absent */
    int32_t nope_interval;     /* 0: all layers rotate */
    const json_t *dense;       /* mlp_only_layers; NULL: none */
    int32_t sparse_step;
} layer_rules;

/* ---- lists ------------------------------------------------------------------------------------------------------------- */

/* A list with an entry for each layer, or more: a model may be cut after its first layers. */
static pf_status find_list(pf_reader *r, const char *key, size_t n_min, const json_t **out)
{
    *out = pf_key_find(r, key);
    if (*out == NULL || (json_is_array(*out) && json_array_size(*out) >= n_min)) return PF_OK;
    return pf_fail(r->error, PF_FORMAT, "%s: %s must be a list, with an entry for each of %zu layers", r->doc->name,
                   key, n_min);
}

static bool list_contains(const json_t *list, int32_t number)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_number_value(json_array_get(list, i)) == (double)number) return true;
    return false;
}

/* ---- windows ----------------------------------------------------------------------------------------------------------- */

static pf_status read_window(pf_reader *r, layer_rules *rules)
{
    const char *name;
    bool is_on = !r->row->window_switch;
    PF_TRY(pf_key_name(r, PF_KEY_WINDOW, &name));
    if (r->row->window_switch) PF_TRY(pf_key_bool(r, "use_sliding_window", &is_on));
    const bool is_null = json_is_null(json_object_get(r->doc->root, pf_key_usual_name(r->row, PF_KEY_WINDOW)));
    if (!is_on || (name == NULL && (is_null || r->row->defaults[PF_KEY_WINDOW] == 0))) return PF_OK;
    return pf_key_read(r, PF_KEY_WINDOW, INT32_MAX, &rules->window);
}

static pf_status read_window_rules(pf_reader *r, const pf_config *c, layer_rules *rules)
{
    const pf_architecture *row = r->row;
    if (row->windows == PF_WINDOWS_NONE) { /* layer_types must agree, and may be of any length */
        rules->types = pf_key_find(r, "layer_types");
        if (rules->types == NULL || json_is_array(rules->types)) return PF_OK;
        return pf_fail(r->error, PF_FORMAT, "%s: layer_types must be a list, a word for each layer", r->doc->name);
    }
    PF_TRY(read_window(r, rules));
    PF_TRY(find_list(r, "layer_types", (size_t)c->n_layers, &rules->types));
    rules->interval = row->window_interval;
    rules->max_window_layers = 28; /* of all configurations that have the key */
    if (row->windows == PF_WINDOWS_INTERVAL)
        PF_TRY(pf_key_int(r, "sliding_window_pattern", 1, PF_MAX_LAYERS, &rules->interval));
    if (row->windows == PF_WINDOWS_LAST || row->windows == PF_WINDOWS_EVEN_FIRST)
        PF_TRY(pf_key_int(r, "max_window_layers", 0, INT32_MAX, &rules->max_window_layers));
    return PF_OK;
}

static bool has_rope(const layer_rules *rules, int32_t layer)
{
    if (rules->has_rope) return json_number_value(json_array_get(rules->has_rope, (size_t)layer)) != 0.0;
    return rules->nope_interval == 0 || (layer + 1) % rules->nope_interval != 0;
}

/* Whether a layer has a window where layer_types is absent. */
static bool is_sliding_by_rule(const pf_architecture *row, const layer_rules *rules, int32_t layer)
{
    switch (row->windows) {
    case PF_WINDOWS_NONE: return false;
    case PF_WINDOWS_ALL:
    case PF_WINDOWS_TYPES: return rules->window != 0;
    case PF_WINDOWS_INTERVAL: return rules->interval > 0 && (layer + 1) % rules->interval != 0;
    case PF_WINDOWS_LAST: return rules->window != 0 && layer >= rules->max_window_layers;
    case PF_WINDOWS_EVEN_FIRST: return rules->window != 0 && layer % 2 == 0 && layer < rules->max_window_layers;
    case PF_WINDOWS_NOPE: return rules->window != 0 && !has_rope(rules, layer);
    }
    return false;
}

static pf_status is_sliding(const pf_reader *r, const layer_rules *rules, int32_t layer, bool *out)
{
    const pf_architecture *row = r->row;
    *out = is_sliding_by_rule(row, rules, layer);
    if (rules->types && (size_t)layer < json_array_size(rules->types)) {
        const char *type = json_string_value(json_array_get(rules->types, (size_t)layer));
        const bool is_full = type && strcmp(type, "full_attention") == 0;
        const bool is_window = type && strcmp(type, "sliding_attention") == 0;
        const bool is_fixed = row->windows == PF_WINDOWS_NONE || row->windows == PF_WINDOWS_ALL;
        if ((!is_full && !is_window) || (is_fixed && is_window != *out))
            return pf_fail(r->error, PF_UNSUPPORTED, "%s: layer_types[%d] is \"%.60s\", only %s is known", r->doc->name,
                           layer, type ? type : "not a string",
                           !is_fixed ? "\"full_attention\" or \"sliding_attention\""
                           : *out    ? "\"sliding_attention\""
                                     : "\"full_attention\"");
        *out = is_window;
    }
    if (*out && rules->window == 0)
        return pf_fail(r->error, PF_FORMAT, "%s: layer %d has sliding attention, but %s is absent", r->doc->name, layer,
                       pf_key_usual_name(row, PF_KEY_WINDOW));
    return PF_OK;
}

/* ---- experts ----------------------------------------------------------------------------------------------------------- */

pf_status pf_config_read_experts(pf_reader *r, pf_config *c)
{
    pf_plan *plan = &c->plan;
    const char *size_name;
    PF_TRY(pf_key_read(r, PF_KEY_EXPERTS, PF_MAX_EXPERTS, &plan->n_experts));
    PF_TRY(pf_key_read(r, PF_KEY_EXPERTS_USED, PF_MAX_EXPERTS, &plan->n_experts_used));
    if (plan->n_experts_used > plan->n_experts)
        return pf_fail(r->error, PF_FORMAT, "%s: %s is %d, expected 1 to %d, all experts", r->doc->name,
                       pf_key_usual_name(r->row, PF_KEY_EXPERTS_USED), plan->n_experts_used, plan->n_experts);
    PF_TRY(pf_key_name(r, PF_KEY_EXPERT_SIZE, &size_name));
    plan->expert_size = c->intermediate_size;
    if (size_name == NULL && r->row->defaults[PF_KEY_EXPERT_SIZE] == 0) return PF_OK;
    return pf_key_read(r, PF_KEY_EXPERT_SIZE, PF_MAX_INTERMEDIATE, &plan->expert_size);
}

static bool has_experts(const pf_config *c, const layer_rules *rules, int32_t layer)
{
    if (c->plan.n_experts == 0 || list_contains(rules->dense, layer)) return false;
    return (layer + 1) % rules->sparse_step == 0;
}

/* ---- all layers -------------------------------------------------------------------------------------------------------- */

static pf_status read_rules(pf_reader *r, const pf_config *c, layer_rules *rules)
{
    *rules = (layer_rules){ .sparse_step = 1, .nope_interval = r->row->nope_interval };
    if (r->row->nope_interval) {
        PF_TRY(pf_key_int(r, "no_rope_layer_interval", 1, PF_MAX_LAYERS, &rules->nope_interval));
        PF_TRY(find_list(r, "no_rope_layers", (size_t)c->n_layers, &rules->has_rope));
    }
    if (r->row->sparse_layers) {
        PF_TRY(pf_key_int(r, "decoder_sparse_step", 1, PF_MAX_LAYERS, &rules->sparse_step));
        PF_TRY(find_list(r, "mlp_only_layers", 0, &rules->dense));
    }
    return read_window_rules(r, c, rules);
}

static bool is_same(const pf_layer_kind *a, const pf_layer_kind *b)
{
    return a->window == b->window && a->rope == b->rope && a->experts == b->experts;
}

/* The index of a kind among those of the plan, to which it is added where it is new. All kinds that the rules can give are
 * fewer than PF_MAX_LAYER_KINDS: two windows, two tables or none, with experts or without. */
static uint8_t kind_index(pf_plan *plan, const pf_layer_kind *kind)
{
    int32_t i = 0;
    while (i < plan->n_kinds && !is_same(&plan->kinds[i], kind)) i++;
    if (i == plan->n_kinds) plan->kinds[plan->n_kinds++] = *kind;
    return (uint8_t)i;
}

pf_status pf_config_read_layers(pf_reader *r, pf_config *c)
{
    layer_rules rules;
    PF_TRY(read_rules(r, c, &rules));
    c->plan.n_kinds = 0;
    for (int32_t layer = 0; layer < c->n_layers; layer++) {
        bool slides;
        PF_TRY(is_sliding(r, &rules, layer, &slides));
        const bool rotates = c->n_ropes > 0 && has_rope(&rules, layer) && (slides || !r->row->ropes_in_windows_only);
        const pf_layer_kind kind = { .window = slides ? rules.window : 0,
                                     .rope = (int8_t)(!rotates                   ? -1
                                                      : slides && c->n_ropes > 1 ? 1
                                                                                 : 0),
                                     .experts = has_experts(c, &rules, layer) };
        c->layer_kinds[layer] = kind_index(&c->plan, &kind);
    }
    return PF_OK;
}
