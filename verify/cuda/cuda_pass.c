#include "verify/cuda/cuda_pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify/cuda/cuda_device.h"
#include "verify/cuda/page_tables.h"

_Static_assert((int)PF_CUDA_MOST_HEAD_DIM == (int)PF_CUDA_MAX_HEAD_DIM, "the plan's limit is that of the kernels");
_Static_assert((int)PF_CUDA_MOST_ROWS == (int)PF_CUDA_MAX_ROWS, "the limit of rows is that of the kernels");
_Static_assert((int)PF_PAGE_TOKENS == (int)PF_CUDA_PAGE_TOKENS, "the tables and the kernels have the same pages");

/* Return from the calling function when `call` of the runtime, or a launch, fails. */
#define TRY(call)                             \
    do {                                      \
        const cudaError_t try_ = (call);      \
        if (try_ != cudaSuccess) return try_; \
    } while (0)

/* ---- a pass ----------------------------------------------------------------------------------------------------- */

int64_t pf_cuda_pass_layer_elements(const pf_cuda_pass *p)
{
    return (int64_t)p->n_pages * 2 * p->config->n_kv_heads * PF_CUDA_PAGE_TOKENS * p->config->head_dim;
}

pf_cuda_cache pf_cuda_pass_cache(const pf_cuda_pass *p, int32_t layer)
{
    return (pf_cuda_cache){ .pages = p->pages + layer * pf_cuda_pass_layer_elements(p),
                            .page_tables = p->page_tables,
                            .table_pages = p->table_pages,
                            .n_heads = p->config->n_heads,
                            .n_kv_heads = p->config->n_kv_heads,
                            .head_dim = p->config->head_dim };
}

static pf_cuda_norm_kind kind_of(pf_norm_kind kind)
{
    return kind == PF_NORM_LAYER ? PF_CUDA_NORM_LAYER : PF_CUDA_NORM_RMS;
}

/* The residual without anything that joins it, and its norm. */
static pf_cuda_join plain_join(const pf_cuda_pass *p, const pf_cuda_norm *norm)
{
    return (pf_cuda_join){ .x = p->x,
                           .scale = p->config->plan.residual_scale,
                           .out = norm ? p->normed : NULL,
                           .norm = norm ? *norm : (pf_cuda_norm){ 0 },
                           .has_norm = norm != NULL,
                           .kind = kind_of(p->config->plan.norm),
                           .n = p->config->hidden_size,
                           .eps = p->config->norm_eps };
}

/* A block joins the residual, and the next block reads it. */
static pf_cuda_join block_join(const pf_cuda_pass *p, const float *bias, const pf_cuda_norm *post,
                               const pf_cuda_norm *norm)
{
    pf_cuda_join join = plain_join(p, norm);
    join.sum = p->sum;
    join.bias = bias;
    join.post = *post;
    join.has_post = p->config->plan.post_norm;
    join.out = p->normed;
    join.has_norm = norm != NULL && p->config->plan.pre_norm;
    return join;
}

static cudaError_t queue_attention(const pf_cuda_pass *p, int32_t l, int32_t n_segments)
{
    const pf_config *c = p->config;
    const pf_layer_kind *kind = pf_config_layer(c, l);
    const pf_cuda_layer *layer = &p->weights->layers[l];
    const pf_cuda_cache cache = pf_cuda_pass_cache(p, l);
    const float *angles = c->plan.positions == PF_POSITIONS_ROTARY && kind->rope >= 0 ? p->angles[kind->rope] : NULL;
    const size_t n_angles = (size_t)p->max_tokens * (size_t)c->rotary_dim / 2;
    const pf_cuda_heads heads = { .qkv = p->qkv,
                                  .bias = layer->qkv_bias,
                                  .q_norm = layer->q_norm,
                                  .k_norm = layer->k_norm,
                                  .has_head_norm = c->plan.head_norm != PF_HEAD_NORM_NONE,
                                  .kind = kind_of(c->plan.head_norm_kind),
                                  .eps = c->norm_eps,
                                  .cosines = angles,
                                  .sines = angles ? angles + n_angles : NULL,
                                  .rotary_dim = c->rotary_dim,
                                  .interleaved = c->plan.rope_interleaved };
    const pf_cuda_attention attention = { .q = p->qkv,
                                          .q_stride = p->by_qkv.n,
                                          .out = p->inner,
                                          .parts = p->parts,
                                          .n_segments = n_segments,
                                          .segment_tokens = p->segment_tokens,
                                          .window = kind->window,
                                          .scale = c->plan.attention_scale,
                                          .softcap = c->plan.attention_softcap };
    TRY(pf_cuda_products_run(p->products, p->by_qkv, p->normed, layer->qkv, p->qkv));
    TRY(pf_cuda_launch_heads(&heads, &cache, &p->rows, p->n_rows, p->stream));
    TRY(pf_cuda_launch_attention(&attention, &cache, &p->rows, p->n_rows, p->stream));
    return pf_cuda_products_run(p->products, p->by_o, p->inner, layer->o, p->sum);
}

static pf_cuda_activation activation_of(pf_activation activation)
{
    switch (activation) {
    case PF_ACTIVATION_GELU: return PF_CUDA_GELU;
    case PF_ACTIVATION_GELU_TANH: return PF_CUDA_GELU_TANH;
    case PF_ACTIVATION_RELU: return PF_CUDA_RELU;
    default: return PF_CUDA_SILU; /* pf_cuda_check_plan refuses others */
    }
}

static cudaError_t queue_layer(const pf_cuda_pass *p, int32_t l, int32_t n_segments)
{
    const pf_config *c = p->config;
    const pf_cuda_layer *layer = &p->weights->layers[l];
    const pf_cuda_norm *next = l + 1 < c->n_layers ? &p->weights->layers[l + 1].attention_norm : NULL;
    const pf_cuda_join attended = block_join(p, layer->o_bias, &layer->attention_post, &layer->mlp_norm),
                       fed = block_join(p, layer->down_bias, &layer->mlp_post, next);
    TRY(queue_attention(p, l, n_segments));
    TRY(pf_cuda_launch_join(&attended, &p->rows, p->n_rows, p->stream));
    TRY(pf_cuda_products_run(p->products, p->by_gate_up, p->normed, layer->gate_up, p->qkv));
    TRY(pf_cuda_launch_activate(p->inner, p->qkv, layer->gate_up_bias, activation_of(c->plan.activation), c->plan.gated,
                                &p->rows, p->n_rows, c->intermediate_size, p->stream));
    TRY(pf_cuda_products_run(p->products, p->by_down, p->inner, layer->down, p->sum));
    return pf_cuda_launch_join(&fed, &p->rows, p->n_rows, p->stream);
}

static cudaError_t queue_head(const pf_cuda_pass *p)
{
    const size_t n_rows = (size_t)p->n_rows, n_chunks = n_rows * PF_CUDA_CHOICE_CHUNKS;
    pf_cuda_join last = plain_join(p, &p->weights->final_norm);
    last.has_norm = p->config->plan.final_norm;
    last.of_logit_rows = true;
    const pf_cuda_choice choice = { .logits = p->logits,
                                    .n_vocab = p->config->vocab_size,
                                    .scale = p->config->plan.logit_scale,
                                    .softcap = p->config->plan.logit_softcap,
                                    .chunk_values = p->chunk_values,
                                    .chunk_best = p->chunks,
                                    .chunk_invalid = p->chunks + n_chunks,
                                    .best = p->chosen,
                                    .invalid = p->chosen + n_rows };
    TRY(pf_cuda_launch_join(&last, &p->rows, p->n_rows, p->stream));
    TRY(pf_cuda_products_run(p->products, p->by_head, p->normed, p->weights->head, p->logits));
    TRY(pf_cuda_launch_choose(&choice, &p->rows, p->n_rows, p->stream));
    return cudaMemcpyAsync(p->out, p->chosen, 2 * n_rows * sizeof *p->out, cudaMemcpyDeviceToHost, p->stream);
}

static cudaError_t queue_all(const pf_cuda_pass *p, int32_t n_segments, bool with_head)
{
    const pf_config *c = p->config;
    pf_cuda_join first = plain_join(p, &p->weights->layers[0].attention_norm);
    first.has_norm = c->plan.pre_norm;
    TRY(pf_cuda_launch_embed(p->x, p->weights->embedding, &p->rows, p->n_rows, c->hidden_size, c->plan.embedding_scale,
                             p->stream));
    TRY(pf_cuda_launch_join(&first, &p->rows, p->n_rows, p->stream));
    for (int32_t l = 0; l < c->n_layers; l++) TRY(queue_layer(p, l, n_segments));
    return with_head ? queue_head(p) : cudaSuccess;
}

/* The power of two that covers the segments of n_tokens: its exponent. */
static int32_t size_of(const pf_cuda_pass *p, int32_t n_tokens)
{
    int32_t size = 0;
    while ((int64_t)p->segment_tokens << size < n_tokens) size++;
    return size;
}

cudaError_t pf_cuda_pass_queue(const pf_cuda_pass *p, const pf_cuda_stage *stage, int32_t n_tokens, bool with_head)
{
    const int32_t size = size_of(p, n_tokens);
    const cudaGraphExec_t graph = p->graphs[2 * size + with_head];
    const size_t n_bytes = pf_cuda_input_bytes(p->n_rows);
    TRY(cudaMemcpyAsync(p->input, stage->memory, n_bytes, cudaMemcpyHostToDevice, p->stream));
    TRY(cudaEventRecord(stage->sent, p->stream)); /* the last copy of the stage */
    return graph ? cudaGraphLaunch(graph, p->stream) : queue_all(p, 1 << size, with_head);
}

/* ---- creation --------------------------------------------------------------------------------------------------- */

static pf_status make_input(pf_cuda_pass *p, pf_error *error)
{
    PF_TRY(pf_cuda_allocate(&p->input, pf_cuda_input_bytes(p->n_rows), "the rows of a pass", error));
    const pf_cuda_input in = pf_cuda_input_in(p->input, p->n_rows);
    p->rows = (pf_cuda_rows){ in.counts, in.tokens,  in.tables,    in.bases,  in.firsts,
                              in.depths, in.parents, in.logit_row, in.best_of };
    return PF_OK;
}

static size_t wider(int32_t a, int32_t b)
{
    return (size_t)(a > b ? a : b);
}

static pf_status make_buffers(pf_cuda_pass *p, int32_t max_sequences, pf_error *error)
{
    const pf_config *c = p->config;
    const size_t r = (size_t)p->n_rows, hidden = (size_t)c->hidden_size, q = (size_t)p->by_o.k;
    const size_t n_segments = (size_t)1 << size_of(p, p->max_tokens), n_chunks = r * PF_CUDA_CHOICE_CHUNKS;
    const struct {
        void **out;
        size_t n_bytes;
        const char *what;
    } all[] = {
        { (void **)&p->page_tables, (size_t)max_sequences * (size_t)p->table_pages * 4, "the tables of pages" },
        { (void **)&p->pages, (size_t)pf_cuda_pass_layer_elements(p) * (size_t)c->n_layers * 2,
          "the cache of keys and values" },
        { (void **)&p->x, r * hidden * 4, "activations" },
        { (void **)&p->sum, r * hidden * 4, "activations" },
        { (void **)&p->qkv, r * wider(p->by_qkv.n, p->by_gate_up.n) * 4, "activations" },
        { (void **)&p->normed, r * hidden * 2, "activations" },
        { (void **)&p->inner, r * wider(p->by_o.k, p->by_down.k) * 2, "activations" },
        { (void **)&p->parts, r * (q + 2 * (size_t)c->n_heads) * n_segments * 4, "the parts of attention" },
        { (void **)&p->logits, r * (size_t)c->vocab_size * 4, "logits" },
        { (void **)&p->chunk_values, n_chunks * 4, "logits" },
        { (void **)&p->chunks, 2 * n_chunks * 4, "logits" },
        { (void **)&p->chosen, 2 * r * 4, "logits" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        PF_TRY(pf_cuda_allocate(all[i].out, all[i].n_bytes, all[i].what, error));
    PF_TRY(pf_cuda_allocate_pinned((void **)&p->out, 2 * r * sizeof *p->out, error));
    return pf_cuda_allocate_pinned((void **)&p->out_logits, r * (size_t)c->vocab_size * sizeof(float), error);
}

/* cos and sin of every position's angles, as model/forward/context.c forms them. */
static void fill_angles(const pf_cuda_pass *p, int32_t which, float *cosines, float *sines)
{
    float inv_freq[PF_MAX_HEAD_DIM / 2], scale;
    pf_rope_frequencies(p->config, which, p->max_tokens, inv_freq, &scale);
    for (int32_t position = 0; position < p->max_tokens; position++)
        for (int32_t i = 0; i < p->config->rotary_dim / 2; i++) {
            const float angle = (float)position * inv_freq[i];
            *cosines++ = (float)cos((double)angle) * scale;
            *sines++ = (float)sin((double)angle) * scale;
        }
}

static pf_status make_angles(pf_cuda_pass *p, pf_error *error)
{
    const size_t n = (size_t)p->max_tokens * (size_t)p->config->rotary_dim / 2, n_bytes = 2 * n * sizeof(float);
    for (int32_t i = 0; i < p->config->n_ropes; i++) {
        void *pinned = NULL;
        PF_TRY(pf_cuda_allocate((void **)&p->angles[i], n_bytes, "the angles of positions", error));
        PF_TRY(pf_cuda_allocate_pinned(&pinned, n_bytes, error));
        fill_angles(p, i, pinned, (float *)pinned + n);
        cudaError_t sent = cudaMemcpyAsync(p->angles[i], pinned, n_bytes, cudaMemcpyHostToDevice, p->stream);
        const cudaError_t waited = cudaStreamSynchronize(p->stream);
        if (sent == cudaSuccess) sent = waited;
        (void)cudaFreeHost(pinned);
        PF_CUDA_TRY(sent, "the upload of angles", error);
    }
    return PF_OK;
}

static pf_status make_products(pf_cuda_pass *p, pf_error *error)
{
    const pf_config *c = p->config;
    const int32_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    const int32_t up = c->plan.gated ? 2 * c->intermediate_size : c->intermediate_size;
    PF_TRY(pf_cuda_products_create(p->n_rows, 5, p->stream, &p->products, error));
    PF_TRY(pf_cuda_products_find(p->products, q + 2 * kv, c->hidden_size, &p->by_qkv, error));
    PF_TRY(pf_cuda_products_find(p->products, c->hidden_size, q, &p->by_o, error));
    PF_TRY(pf_cuda_products_find(p->products, up, c->hidden_size, &p->by_gate_up, error));
    PF_TRY(pf_cuda_products_find(p->products, c->hidden_size, c->intermediate_size, &p->by_down, error));
    return pf_cuda_products_find(p->products, c->vocab_size, c->hidden_size, &p->by_head, error);
}

static pf_status make_graph(pf_cuda_pass *p, int32_t size, bool with_head, pf_error *error)
{
    cudaGraph_t graph = NULL;
    PF_CUDA_TRY(cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal), "the capture of a graph", error);
    const cudaError_t queued = queue_all(p, 1 << size, with_head), ended = cudaStreamEndCapture(p->stream, &graph);
    cudaError_t made = queued != cudaSuccess ? queued : ended;
    if (made == cudaSuccess) made = cudaGraphInstantiate(&p->graphs[2 * size + with_head], graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    PF_CUDA_TRY(made, "the capture of a graph", error);
    return PF_OK;
}

pf_status pf_cuda_pass_create(pf_cuda_pass *p, int32_t max_sequences, bool with_graphs, pf_error *error)
{
    const int32_t least = (p->max_tokens + PF_CUDA_MAX_SEGMENTS - 1) / PF_CUDA_MAX_SEGMENTS;
    const int32_t wanted = least > p->segment_tokens ? least : p->segment_tokens;
    p->segment_tokens = (wanted + PF_CUDA_PAGE_TOKENS - 1) / PF_CUDA_PAGE_TOKENS * PF_CUDA_PAGE_TOKENS;
    PF_TRY(make_products(p, error));
    PF_TRY(make_input(p, error));
    PF_TRY(make_buffers(p, max_sequences, error));
    PF_TRY(make_angles(p, error));
    for (int32_t size = 0; with_graphs && size <= size_of(p, p->max_tokens); size++) {
        PF_TRY(make_graph(p, size, false, error));
        PF_TRY(make_graph(p, size, true, error));
    }
    PF_CUDA_TRY(cudaStreamSynchronize(p->stream), "the preparation of passes", error);
    return PF_OK;
}

void pf_cuda_pass_destroy(pf_cuda_pass *p)
{
    void *const on_device[] = { p->input, p->page_tables, p->pages,  p->x,      p->sum,          p->qkv,   p->normed,
                                p->inner, p->parts,       p->logits, p->chunks, p->chunk_values, p->chosen };
    for (int32_t i = 0; i < PF_CUDA_GRAPHS; i++)
        if (p->graphs[i]) (void)cudaGraphExecDestroy(p->graphs[i]);
    for (size_t i = 0; i < sizeof on_device / sizeof *on_device; i++) (void)cudaFree(on_device[i]);
    for (int32_t i = 0; i < PF_MAX_ROPES; i++) (void)cudaFree(p->angles[i]);
    (void)cudaFreeHost(p->out);
    (void)cudaFreeHost(p->out_logits);
    pf_cuda_products_destroy(p->products);
}
