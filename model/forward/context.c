/*
 * Creates a context: resolves its configuration, and lays out the buffers of a pass by one walk that first measures and then
 * takes. pass.c and forward.c run in them.
 */
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/run_delay.h"
#include "base/stop.h"
#include "model/forward/pass.h"
#include "model/weights/choices.h"

enum {
    MAX_ROWS = 1 << 16,
    MAX_SEQUENCES = 1 << 16,
    FIRST_LOGIT_ROWS = 8,
    MANY_ROWS = 256,
    PAGES_OF_FORK = 2, /* the last of its parent, which it copies, and one more */
};

/* ---- configuration ------------------------------------------------------------------------------------------------- */

pf_type pf_context_default_kv_type(const pf_model *model)
{
    return model->act == PF_ACT_F32 ? PF_TYPE_F32 : pf_format_row_type(model->format);
}

int32_t pf_context_default_rows(const pf_model *model)
{
    const int32_t group = pf_model_gemm(model)->group_rows;
    return group > 0 ? group : MANY_ROWS;
}

static pf_kv_config kv_config(const pf_model *model, const pf_context_config *config)
{
    return (pf_kv_config){ .type = config->kv_type,
                           .n_layers = model->config.n_layers,
                           .n_kv_heads = model->config.n_kv_heads,
                           .head_dim = model->config.head_dim,
                           .page_tokens = pf_isa_page_tokens(model->kernels.isa),
                           .max_sequences = config->max_sequences + config->max_forks,
                           .max_tokens = config->max_tokens,
                           .budget_bytes = config->kv_budget_bytes };
}

/* The positions that the model was trained on. A longer context changes the results of short texts too (longrope takes its
 * other set of divisors), so it must be asked for. */
static int32_t default_context(const pf_config *config)
{
    int32_t tokens = config->max_position;
    for (int32_t i = 0; i < config->n_ropes; i++) {
        const pf_rope *rope = &config->ropes[i];
        if (rope->type == PF_ROPE_LONGROPE && rope->original_max_position < tokens)
            tokens = (int32_t)rope->original_max_position;
    }
    return tokens < PF_DEFAULT_CONTEXT ? tokens : PF_DEFAULT_CONTEXT;
}

/* At full length, and the page that a fork copies. */
static size_t pages_of_sequence(const pf_kv_config *kv, int32_t max_tokens)
{
    const size_t page_tokens = (size_t)kv->page_tokens;
    return ((size_t)max_tokens + page_tokens - 1) / page_tokens + 1;
}

/* The sequences of full length for which there is memory. */
static int32_t fit_memory(const pf_model *model, const pf_context_config *c)
{
    const pf_kv_config kv = kv_config(model, c);
    const size_t weights = pf_model_packed_bytes(model), memory = model->machine.memory_bytes,
                 room = memory > weights ? (memory - weights) / PF_CONTEXT_KV_SHARE : 0;
    size_t each;
    if (!pf_size_mul(pages_of_sequence(&kv, c->max_tokens), pf_kv_page_bytes(&kv), &each)) return 1;
    if (room / each >= (size_t)c->max_sequences) return c->max_sequences;
    const int32_t n = (int32_t)(room / each);
    return pf_min(n > PF_CONTEXT_FEWEST_KV ? n : PF_CONTEXT_FEWEST_KV, c->max_sequences);
}

/* Fills in the defaults, and checks the rest. */
static pf_status resolve(const pf_model *model, const pf_context_config *asked, pf_context_config *out, pf_error *error)
{
    pf_context_config c = *asked;
    if (c.max_tokens == 0) c.max_tokens = default_context(&model->config);
    if (c.max_tokens < 1 || c.max_tokens > model->config.max_context)
        return pf_fail(error, PF_INVALID, "context is %d tokens, expected 1 to %d, as far as the model's positions go",
                       c.max_tokens, model->config.max_context);
    if (c.max_sequences < 1 || c.max_sequences > MAX_SEQUENCES)
        return pf_fail(error, PF_INVALID, "max_sequences is %d, expected 1 to %d", c.max_sequences, MAX_SEQUENCES);
    if (c.max_forks < 0 || c.max_forks > MAX_SEQUENCES)
        return pf_fail(error, PF_INVALID, "max_forks is %d, expected 0 to %d", c.max_forks, MAX_SEQUENCES);
    if (c.max_rows < 1 || c.max_rows > MAX_ROWS)
        return pf_fail(error, PF_INVALID, "max_rows is %d, expected 1 to %d", c.max_rows, MAX_ROWS);
    if (c.max_logit_rows < 1 || c.max_logit_rows > c.max_rows)
        return pf_fail(error, PF_INVALID, "max_logit_rows is %d, expected 1 to max_rows (%d)", c.max_logit_rows,
                       c.max_rows);
    if (c.kv_type != PF_TYPE_F32 && c.kv_type != PF_TYPE_BF16)
        return pf_fail(error, PF_INVALID, "the KV type is %d, expected f32 or bf16", (int)c.kv_type);

    if (c.kv_sequences > c.max_sequences)
        return pf_fail(error, PF_INVALID, "kv_sequences is %d, expected 0 to max_sequences (%d)", c.kv_sequences,
                       c.max_sequences);
    if (c.kv_sequences < 0) c.kv_sequences = fit_memory(model, &c);
    if (c.kv_sequences == 0) c.kv_sequences = c.max_sequences;

    if (c.kv_budget_bytes == 0) { /* so many sequences at full length, and a page each for what a fork copies */
        const pf_kv_config kv = kv_config(model, &c);
        const size_t pages = pages_of_sequence(&kv, c.max_tokens);
        size_t n_pages;
        if (!pf_size_mul(pages, (size_t)c.kv_sequences, &n_pages) ||
            !pf_size_add(n_pages, PAGES_OF_FORK * (size_t)c.max_forks, &n_pages) ||
            !pf_size_mul(n_pages, pf_kv_page_bytes(&kv), &c.kv_budget_bytes))
            return pf_fail(error, PF_LIMIT, "the KV cache of %d x %d tokens is larger than can be addressed",
                           c.kv_sequences, c.max_tokens);
    }
    *out = c;
    return PF_OK;
}

/* ---- layout -------------------------------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Rows with columns in n_parts that lie apart (pf_worker_apart). The stride is an odd number of cache lines, so that the rows of
 * a column lie in different sets of a cache; with a power of two all would lie in the same few. */
static pf_rows take_rows_apart(pf_arena *arena, int32_t n_rows, int32_t n_columns, int32_t n_parts)
{
    const size_t stride = pf_round_up((size_t)n_columns, PF_LINE_FLOATS) | PF_LINE_FLOATS;
    const size_t apart = ((size_t)n_parts - 1) * PF_APART_FLOATS, lines = (size_t)n_parts * (size_t)n_rows;
    const size_t n_floats = (size_t)n_rows * stride + apart + lines * PF_LINE_FLOATS;
    return (pf_rows){ pf_arena_take(arena, n_floats, sizeof(float)), stride };
}

static pf_rows take_rows(pf_arena *arena, int32_t n_rows, int32_t n_columns)
{
    return take_rows_apart(arena, n_rows, n_columns, 1);
}

int32_t pf_context_feed_forward_size(const pf_config *config)
{
    int32_t size = config->plan.shared_size;
    for (int32_t l = 0; l < config->n_layers; l++)
        if (!pf_config_layer(config, l)->experts && config->intermediate_size > size) size = config->intermediate_size;
    return size;
}

/* The packed left side of any product of n_rows rows but those of experts and of a coarse head. */
static size_t input_bytes(const pf_model *model, int32_t n_rows)
{
    const size_t of_hidden = pf_gemm_input_bytes(n_rows, model->config.hidden_size);
    const size_t of_embedding = pf_gemm_input_bytes(n_rows, model->config.embedding_size);
    const size_t of_attended = pf_gemm_input_bytes(n_rows, model->q_dim);
    const int32_t size = pf_context_feed_forward_size(&model->config);
    const size_t of_gated = size > 0 ? pf_gemm_input_bytes(n_rows, size) : 0;
    return larger(larger(of_hidden, of_embedding), larger(of_attended, of_gated));
}

/* The most rows of a tile of any product. */
static int32_t most_tile_rows(const pf_model *model)
{
    int32_t most = pf_model_gemm(model)->tile_rows;
    const int32_t of_head = pf_head_gemm(&model->head)->tile_rows;
    const int32_t of_router = model->kernels.gemm[PF_FORMAT_F32][PF_ACT_F32].tile_rows;
    if (of_head > most) most = of_head;
    return model->config.plan.n_experts > 0 && of_router > most ? of_router : most;
}

static void lay_out_member(pf_context *c, const pf_model *model, pf_member_scratch *member, pf_arena *arena)
{
    const pf_config *m = &model->config;
    const int32_t tile_rows = most_tile_rows(model);
    member->normed = take_rows(arena, tile_rows, m->hidden_size);
    if (c->joins_late) member->x = take_rows(arena, tile_rows, m->hidden_size);
    member->input = pf_arena_take(arena, input_bytes(model, tile_rows), 1);
    member->gemm = pf_arena_take(arena, pf_gemm_scratch_bytes(c->config.max_rows), 1);
    member->attention = pf_arena_take(arena, pf_attn_scratch_bytes(m->head_dim), 1);
}

/* Floats for the partial results of shared keys (attend.c): of at most PF_SHARED_KEYS_ROWS rows, of fewer where they take much
 * memory, of one at least. 0: each thread has a key head, or there are few keys. */
static size_t count_attention_parts(const pf_context *c, const pf_config *m, int32_t n_threads)
{
    enum { MUCH_BYTES = 4 << 20 };
    const int32_t n_segments = (c->config.max_tokens - 1) / PF_ATTN_SEGMENT + 1;
    if (n_threads <= m->n_kv_heads || n_segments < PF_SHARED_KEYS_SEGMENTS) return 0;
    const size_t row = (size_t)m->n_heads * (size_t)n_segments * pf_attn_part_floats(m->head_dim);
    size_t n_rows = MUCH_BYTES / sizeof(float) / row;
    if (n_rows < 1) n_rows = 1;
    return row * (n_rows < PF_SHARED_KEYS_ROWS ? n_rows : PF_SHARED_KEYS_ROWS);
}

static void lay_out_experts(pf_context *c, const pf_model *model, pf_arena *arena)
{
    const pf_config *m = &model->config;
    const pf_plan *plan = &m->plan;
    const int32_t max_rows = c->config.max_rows, n_places = max_rows * plan->n_experts_used;
    const int32_t widest = plan->expert_size > m->hidden_size ? plan->expert_size : m->hidden_size;
    pf_expert_buffers *b = &c->experts;
    b->logits = take_rows(arena, max_rows, plan->n_experts + 1);
    pf_routing_lay_out(plan, max_rows, arena, &b->routing);
    b->rows = take_rows(arena, n_places, m->hidden_size);
    b->gate = take_rows(arena, n_places, plan->expert_size);
    b->up = take_rows(arena, n_places, plan->expert_size);
    b->sixteen_bytes = pf_gemm_input_bytes(PF_SIXTEEN_ROWS, widest);
    b->input = pf_arena_take(arena, (size_t)(n_places / PF_SIXTEEN_ROWS + plan->n_experts + 1), b->sixteen_bytes);
    if (plan->shared_size > 0) b->shared = take_rows(arena, max_rows, m->hidden_size);
}

/* What not every plan has. */
static void lay_out_plan(pf_context *c, const pf_model *model, pf_arena *arena)
{
    const pf_config *m = &model->config;
    const int32_t max_rows = c->config.max_rows;
    const bool by_columns = pf_model_gemm(model)->pack_columns != NULL;
    c->embedded = c->x;
    if (m->plan.has[PF_TENSOR_PROJECT_IN]) c->embedded = take_rows(arena, max_rows, m->embedding_size);
    if (m->plan.has[PF_TENSOR_PROJECT_OUT])
        c->projected = take_rows(arena, c->config.max_logit_rows, m->embedding_size);
    for (int32_t i = 0; i < 2 && c->joins_late; i++) c->results[i] = take_rows(arena, max_rows, m->hidden_size);
    c->attended_columns = c->gated_columns;
    if (m->plan.parallel && by_columns) c->attended_columns = pf_arena_take(arena, input_bytes(model, max_rows), 1);
    if (m->plan.positions == PF_POSITIONS_ALIBI)
        c->slopes = pf_arena_take(arena, (size_t)m->n_heads, sizeof *c->slopes);
    if (m->plan.n_experts > 0) lay_out_experts(c, model, arena);
}

static bool joins_late(const pf_plan *plan)
{
    return plan->post_norm || plan->residual_norm || plan->residual_scale != 1.0f;
}

/* Gives every buffer its place. The same walk measures, with an arena without memory, and takes. */
static void lay_out(pf_context *c, const pf_model *model, int32_t n_threads, pf_arena *arena)
{
    const pf_config *m = &model->config;
    const int32_t max_rows = c->config.max_rows, feed_forward_size = pf_context_feed_forward_size(m);
    const size_t n_angles = (size_t)m->rotary_dim / 2 * sizeof(float);
    for (int32_t i = 0; i < m->n_ropes; i++)
        c->ropes[i] = (pf_rope_table){ .cos = pf_arena_take(arena, (size_t)c->config.max_tokens, n_angles),
                                       .sin = pf_arena_take(arena, (size_t)c->config.max_tokens, n_angles),
                                       .rot_dim = m->rotary_dim,
                                       .interleaved = m->plan.rope_interleaved };
    c->x = take_rows(arena, max_rows, m->hidden_size);
    c->normed = take_rows(arena, max_rows, m->hidden_size);
    c->qkv = take_rows_apart(arena, max_rows, model->q_dim + 2 * model->kv_dim, 3 * n_threads);
    c->attended = take_rows_apart(arena, max_rows, model->q_dim, n_threads);
    c->gate = take_rows_apart(arena, max_rows, feed_forward_size, n_threads);
    c->up = take_rows_apart(arena, max_rows, feed_forward_size, n_threads);

    c->input = pf_arena_take(arena, input_bytes(model, max_rows), 1);
    if (pf_model_gemm(model)->pack_columns != NULL)
        c->gated_columns = pf_arena_take(arena, input_bytes(model, max_rows), 1);
    lay_out_plan(c, model, arena);

    pf_head_lay_out_pass(&model->head, n_threads, arena, &c->head);
    c->spans = pf_arena_take(arena, (size_t)(c->config.max_sequences + c->config.max_forks), sizeof *c->spans);
    c->tokens = pf_arena_take(arena, (size_t)max_rows, sizeof *c->tokens);
    c->positions = pf_arena_take(arena, (size_t)max_rows, sizeof *c->positions);
    c->logit_rows = pf_arena_take(arena, (size_t)c->config.max_logit_rows, sizeof *c->logit_rows);

    c->chunks = pf_arena_take(arena, (size_t)n_threads, sizeof *c->chunks);
    c->n_attention_parts = count_attention_parts(c, m, n_threads);
    c->attention_parts = pf_arena_take(arena, c->n_attention_parts, sizeof *c->attention_parts);
    c->members = pf_arena_take(arena, (size_t)n_threads, sizeof *c->members);
    for (int32_t i = 0; i < n_threads; i++) {
        pf_member_scratch measured;
        lay_out_member(c, model, c->members ? &c->members[i] : &measured, arena);
    }
    c->logits = take_rows(arena, c->config.max_logit_rows, m->vocab_size); /* last, see populate */
}

static size_t arena_bytes(const pf_model *model, int32_t n_threads, const pf_context_config *config)
{
    pf_context measured = { .config = *config, .joins_late = joins_late(&model->config.plan) };
    pf_arena arena = pf_arena_measure();
    lay_out(&measured, model, n_threads, &arena);
    return arena.used;
}

/* ---- creation ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const pf_rope_table *table;
    int32_t n; /* angles of a position */
    int32_t n_positions;
    float inv_freq[PF_MAX_HEAD_DIM / 2], scale;
    const volatile bool *cancel; /* or NULL */
} rope_job;

/* cos and sin of every position's angles, in float32 as transformers forms them: position * inv_freq is rounded, then
 * its cosine, then the product with the attention scale. */
static void fill_rope_row(const rope_job *job, int32_t position)
{
    const size_t first = (size_t)position * (size_t)job->n;
    float *cosines = (float *)(uintptr_t)job->table->cos + first, *sines = (float *)(uintptr_t)job->table->sin + first;
    for (int32_t i = 0; i < job->n; i++) {
        const float angle = (float)position * job->inv_freq[i];
        cosines[i] = (float)cos((double)angle) * job->scale;
        sines[i] = (float)sin((double)angle) * job->scale;
    }
}

static void fill_rope_share(pf_member member, void *arg)
{
    const rope_job *job = arg;
    int32_t begin, end;
    pf_team_share(member, job->n_positions, &begin, &end);
    for (int32_t p = begin; p < end && !pf_is_told(job->cancel); p++) fill_rope_row(job, p);
}

static void fill_rope_tables(pf_context *c)
{
    for (int32_t i = 0; i < c->model->config.n_ropes; i++) {
        rope_job job = { .table = &c->ropes[i],
                         .n = c->model->config.rotary_dim / 2,
                         .n_positions = c->config.max_tokens,
                         .cancel = c->config.cancel };
        pf_rope_frequencies(&c->model->config, i, c->config.max_tokens, job.inv_freq, &job.scale);
        pf_team_run(c->team, fill_rope_share, &job);
    }
}

/* Touches the memory that a first prompt writes. Rows of logits are wide and made for many sequences: a few of them. */
static void populate(const pf_context *c)
{
    const size_t before = (size_t)((const unsigned char *)c->logits.data - c->arena.base);
    pf_arena_populate(&c->arena, before + FIRST_LOGIT_ROWS * c->logits.stride * sizeof(float), c->team);
    pf_kv_populate(c->kv, c->team);
}

static pf_status create(pf_context *c, pf_error *error)
{
    const int32_t n_threads = pf_team_size(c->team);
    const size_t bytes = arena_bytes(c->model, n_threads, &c->config);
    const size_t weights = pf_model_packed_bytes(c->model), memory_bytes = c->model->machine.memory_bytes;
    size_t total;
    if (!pf_size_add(bytes, c->config.kv_budget_bytes, &total) || !pf_size_add(total, weights, &total) ||
        (memory_bytes > 0 && total > memory_bytes))
        return pf_fail(
            error, PF_LIMIT,
            "%zu MiB of KV cache for %d sequence%s of %d tokens and %zu MiB of buffers for passes of %d rows "
            "are needed beside %zu MiB of weights, and this machine has %zu MiB left",
            c->config.kv_budget_bytes >> 20, c->config.max_sequences, c->config.max_sequences == 1 ? "" : "s",
            c->config.max_tokens, bytes >> 20, c->config.max_rows, weights >> 20, memory_bytes >> 20);

    const pf_kv_config kv = kv_config(c->model, &c->config);
    PF_TRY(pf_kv_create(&kv, &c->kv, error));
    const pf_status status = pf_arena_create(bytes, &c->arena);
    if (status != PF_OK) return pf_fail(error, status, "no memory for %zu MiB of buffers", bytes >> 20);
    lay_out(c, c->model, n_threads, &c->arena);
    if (c->arena.used > c->arena.size) return pf_fail(error, PF_INTERNAL, "the buffers do not fit what was measured");
    if (c->slopes != NULL) pf_config_alibi_slopes(&c->model->config, c->slopes);
    populate(c);
    fill_rope_tables(c);
    const bool cancelled = pf_is_told(c->config.cancel);
    c->config.cancel = NULL;
    return cancelled ? pf_fail(error, PF_CANCELLED, "interrupted while buffers were made") : PF_OK;
}

/* Products by shares are cut once, for all threads: where fewer cannot take whole shares each, all run every pass. */
static void choose_threads(pf_context *c)
{
    const int32_t n_threads = pf_team_size(c->team);
    const bool by_shares = pf_model_gemm(c->model)->by_shares;
    const bool is_cut_evenly = !by_shares || (n_threads & (n_threads - 1)) == 0;
    c->config.may_back_off = c->config.may_back_off && !by_shares && n_threads > 1;
    uint64_t run_ns = 0, delay_ns = 0;
    (void)pf_run_delay_read(&run_ns, &delay_ns);
    const pf_thread_count_config config = {
        .n_threads = n_threads,
        .fewest = c->config.fewest_members > 0 && is_cut_evenly ? c->config.fewest_members : n_threads,
        .backs_off = c->config.may_back_off,
        .is_in_cache =
            c->model->machine.l3_bytes > 0 && !pf_model_is_beyond_cache(c->model, pf_model_step_bytes(c->model)),
        .run_ns = run_ns,
        .delay_ns = delay_ns,
    };
    c->thread_count = pf_thread_count_of(&config);
}

pf_status pf_context_create(const pf_model *model, pf_team *team, const pf_context_config *config, pf_context **out,
                            pf_error *error)
{
    pf_context_config resolved;
    PF_TRY(resolve(model, config, &resolved, error));
    pf_context *c = calloc(1, sizeof *c);
    if (c == NULL) return pf_fail(error, PF_NOMEM, "no memory for a context");
    const pf_plan *plan = &model->config.plan;
    *c = (pf_context){ .model = model,
                       .team = team,
                       .config = resolved,
                       .joins_late = joins_late(plan),
                       .prepares_heads =
                           plan->head_norm != PF_HEAD_NORM_NONE || plan->qkv_clip > 0.0f || plan->query_growth > 0.0f };
    const pf_status status = create(c, error);
    choose_threads(c);
    if (status != PF_OK) {
        pf_context_destroy(c);
        return status;
    }
    *out = c;
    return PF_OK;
}

void pf_context_set_stop(pf_context *context, pf_stop *stop)
{
    context->stop = stop;
}

void pf_context_destroy(pf_context *context)
{
    if (context == NULL) return;
    pf_kv_destroy(context->kv);
    pf_arena_destroy(&context->arena);
    free(context);
}

size_t pf_context_reserved_bytes(const pf_context *context)
{
    return context->arena.size + context->config.kv_budget_bytes;
}

/* ---- queries ----------------------------------------------------------------------------------------------- */

int32_t pf_context_n_threads(const pf_context *context)
{
    return pf_team_size(context->team);
}

int32_t pf_context_n_vocab(const pf_context *context)
{
    return context->model->config.vocab_size;
}

pf_kv *pf_context_kv(pf_context *context)
{
    return context->kv;
}

const pf_model *pf_context_model(const pf_context *context)
{
    return context->model;
}

const pf_context_config *pf_context_get_config(const pf_context *context)
{
    return &context->config;
}
