/*
 * The naive forward pass. Rows of activations are [n, width] doubles, one behind the other; `layer`, `attend` and `feed_forward`
 * follow the drawing of model/config/plan.h. Weights and memory: forward_ref_rows.h.
 */
#include "model/forward/forward_ref.h"

#include <math.h>
#include <string.h>

#include "model/forward/forward_ref_rows.h"

/* ---- operations ----------------------------------------------------------------------------------------------------- */

/* y [n, rows] = x [n, columns] * W^T + bias. */
static void multiply(pf_ref_pass *p, pf_tensor_role role, int32_t expert, const double *x, double *y)
{
    int32_t rows, columns;
    const float *w = pf_ref_matrix(p, role, expert, &rows, &columns), *bias = pf_ref_bias(p, role, expert);
    for (ptrdiff_t m = 0; m < p->n; m++)
        for (ptrdiff_t i = 0; i < rows; i++) {
            double sum = bias ? bias[i] : 0.0;
            for (ptrdiff_t k = 0; k < columns; k++) sum += x[m * columns + k] * w[i * columns + k];
            y[m * rows + i] = sum;
        }
}

/* Each run of n values of x [n_values] by itself, with weights and biases [n] that all share, or [width] for the runs of a row. */
static void norm_runs(pf_ref_pass *p, pf_tensor_role role, pf_norm_kind kind, double *x, ptrdiff_t n_values,
                      ptrdiff_t n, ptrdiff_t width)
{
    const float *w = pf_ref_vector(p, role), *bias = pf_ref_bias(p, role, 0);
    for (ptrdiff_t at = 0; at < n_values; at += n) {
        double mean = 0.0, squares = 0.0;
        for (ptrdiff_t i = at; i < at + n; i++) mean += kind == PF_NORM_LAYER ? x[i] / (double)n : 0.0;
        for (ptrdiff_t i = at; i < at + n; i++) squares += (x[i] - mean) * (x[i] - mean) / (double)n;
        for (ptrdiff_t i = at; i < at + n; i++) {
            const double weight = (w ? w[i % width] : 1.0) + (kind == PF_NORM_RMS_PLUS_ONE ? 1.0 : 0.0);
            x[i] = (x[i] - mean) / sqrt(squares + p->c->norm_eps) * weight + (bias ? bias[i % width] : 0.0);
        }
    }
}

static void norm(pf_ref_pass *p, pf_tensor_role role, double *x)
{
    norm_runs(p, role, p->plan->norm, x, p->n * p->hidden, p->hidden, p->hidden);
}

static void norm_heads(pf_ref_pass *p, pf_tensor_role role, double *x, ptrdiff_t width)
{
    const pf_head_norm by = p->plan->head_norm;
    if (by != PF_HEAD_NORM_NONE)
        norm_runs(p, role, p->plan->head_norm_kind, x, p->n * width, by == PF_HEAD_NORM_WHOLE ? width : p->d,
                  by == PF_HEAD_NORM_SHARED ? p->d : width);
}

static double cap(double x, double most) /* most 0: none */
{
    return most > 0.0 ? most * tanh(x / most) : x;
}

static double clamp(double x, double most)
{
    return fmax(-most, fmin(x, most));
}

static double activate(pf_activation activation, double x)
{
    switch (activation) {
    case PF_ACTIVATION_SILU: return x / (1.0 + exp(-x));
    case PF_ACTIVATION_GELU: return 0.5 * x * erfc(-x / sqrt(2.0));
    case PF_ACTIVATION_GELU_TANH: return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case PF_ACTIVATION_QUICK_GELU: return x / (1.0 + exp(-1.702 * x));
    case PF_ACTIVATION_RELU: return fmax(x, 0.0);
    case PF_ACTIVATION_RELU2: return fmax(x, 0.0) * fmax(x, 0.0);
    default: return NAN;
    }
}

static double activate_gated(pf_activation activation, double gate, double up)
{
    if (activation != PF_ACTIVATION_CLAMPED_SWIGLU) return activate(activation, gate) * up;
    return activate(PF_ACTIVATION_QUICK_GELU, fmin(gate, 7.0)) * (clamp(up, 7.0) + 1.0);
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

/* Turns the pairs of every head of row m by m * inv_freq. */
static void rotate(pf_ref_pass *p, double *x, ptrdiff_t n_heads)
{
    const int8_t which = pf_config_layer(p->c, p->layer)->rope;
    const int32_t half = p->c->rotary_dim / 2;
    const bool interleaved = p->plan->rope_interleaved;
    float inv_freq[PF_MAX_HEAD_DIM / 2], scale;
    if (p->plan->positions != PF_POSITIONS_ROTARY || which < 0) return;
    pf_rope_frequencies(p->c, which, p->context_tokens, inv_freq, &scale);
    for (ptrdiff_t head = 0; head < p->n * n_heads; head++)
        for (int32_t i = 0; i < half; i++) {
            double *a = x + head * p->d + (interleaved ? 2 * i : i), *b = a + (interleaved ? 1 : half);
            const double angle = (float)(head / n_heads) * inv_freq[i]; /* rounded to F32, as transformers does */
            const double cosine = cos(angle) * scale, sine = sin(angle) * scale, turned = *a * cosine - *b * sine;
            *b = *b * cosine + *a * sine;
            *a = turned;
        }
}

/* One head of row m: out [d] = softmax(scores of the rows that it sees, and the sink) * v. */
static void attend_head(const pf_ref_pass *p, ptrdiff_t m, ptrdiff_t head, double slope, const float *sink, double *out)
{
    const ptrdiff_t kv_width = p->c->n_kv_heads * p->d, kv = head / (p->c->n_heads / p->c->n_kv_heads) * p->d;
    const double *q = p->q + (m * p->c->n_heads + head) * p->d;
    const ptrdiff_t window = pf_config_layer(p->c, p->layer)->window;
    double total = sink ? exp((double)*sink) : 0.0;
    memset(out, 0, (size_t)p->d * sizeof *out);
    for (ptrdiff_t t = window > 0 && m >= window ? m - window + 1 : 0; t <= m; t++) {
        double score = 0.0;
        for (ptrdiff_t i = 0; i < p->d; i++) score += q[i] * p->k[t * kv_width + kv + i];
        score = cap(score * p->plan->attention_scale, p->plan->attention_softcap) + slope * (double)(t - m);
        const double weight = exp(score); /* of a double: no score is so large that it overflows */
        for (ptrdiff_t i = 0; i < p->d; i++) out[i] += weight * p->v[t * kv_width + kv + i];
        total += weight;
    }
    for (ptrdiff_t i = 0; i < p->d; i++) out[i] /= total;
}

/* sum = O attention(a). */
static void attend(pf_ref_pass *p, const double *a)
{
    const ptrdiff_t q_width = p->c->n_heads * p->d, kv_width = p->c->n_kv_heads * p->d;
    const double most = p->plan->qkv_clip > 0.0f ? p->plan->qkv_clip : INFINITY;
    float slopes[PF_MAX_HEADS] = { 0.0f };
    multiply(p, PF_TENSOR_Q, 0, a, p->q);
    multiply(p, PF_TENSOR_K, 0, a, p->k);
    multiply(p, PF_TENSOR_V, 0, a, p->v);
    for (ptrdiff_t i = 0; i < p->n * q_width; i++) p->q[i] = clamp(p->q[i], most);
    for (ptrdiff_t i = 0; i < p->n * kv_width; i++) p->k[i] = clamp(p->k[i], most), p->v[i] = clamp(p->v[i], most);
    norm_heads(p, PF_TENSOR_Q_NORM, p->q, q_width);
    norm_heads(p, PF_TENSOR_K_NORM, p->k, kv_width);
    if (p->plan->query_growth > 0.0f)
        for (ptrdiff_t i = 0; i < p->n * q_width; i++)
            p->q[i] *= 1.0 + p->plan->query_growth * log(1.0 + (double)(i / q_width / p->plan->query_growth_step));
    rotate(p, p->q, p->c->n_heads);
    rotate(p, p->k, p->c->n_kv_heads);
    if (p->plan->positions == PF_POSITIONS_ALIBI) pf_config_alibi_slopes(p->c, slopes);
    const float *sinks = pf_ref_vector(p, PF_TENSOR_SINKS);
    for (ptrdiff_t m = 0; m < p->n; m++)
        for (ptrdiff_t head = 0; head < p->c->n_heads; head++)
            attend_head(p, m, head, slopes[head], sinks ? sinks + head : NULL, p->attended + m * q_width + head * p->d);
    multiply(p, PF_TENSOR_O, 0, p->attended, p->sum);
}

/* ---- the feed-forward block ----------------------------------------------------------------------------------------- */

/* y = DOWN (act(GATE a) * UP a), or DOWN act(UP a). UP and DOWN are the roles behind `gate`. */
static void feed_forward(pf_ref_pass *p, pf_tensor_role gate, int32_t expert, ptrdiff_t width, const double *a,
                         double *y)
{
    const pf_activation act = p->plan->activation;
    if (p->plan->gated) multiply(p, gate, expert, a, p->gate);
    multiply(p, gate + 1, expert, a, p->up);
    for (ptrdiff_t i = 0; i < p->n * width; i++)
        p->up[i] = p->plan->gated ? activate_gated(act, p->gate[i], p->up[i]) : activate(act, p->up[i]);
    multiply(p, gate + 2, expert, p->up, y);
}

/* Router logits of a row become the shares of the experts: 0 of those that are not among the largest. */
static void choose_experts(const pf_plan *plan, double *row)
{
    bool chosen[PF_MAX_EXPERTS] = { false };
    double all = 0.0, of_chosen = 0.0;
    for (int32_t i = 0; i < plan->n_experts_used; i++) {
        int32_t best = -1;
        for (int32_t e = 0; e < plan->n_experts; e++)
            if (!chosen[e] && (best < 0 || row[e] > row[best])) best = e;
        chosen[best] = true;
        of_chosen += exp(row[best]);
    }
    for (int32_t e = 0; e < plan->n_experts; e++) all += exp(row[e]);
    const double divisor = plan->normalises_experts || plan->softmax_of_chosen ? of_chosen : all;
    for (int32_t e = 0; e < plan->n_experts; e++) row[e] = chosen[e] ? exp(row[e]) / divisor : 0.0;
}

static void run_experts(pf_ref_pass *p, const double *a)
{
    const int32_t n_experts = p->plan->n_experts;
    multiply(p, PF_TENSOR_ROUTER, 0, a, p->shares);
    for (ptrdiff_t m = 0; m < p->n; m++) choose_experts(p->plan, p->shares + m * n_experts);
    memset(p->sum, 0, (size_t)(p->n * p->hidden) * sizeof *p->sum);
    for (int32_t e = 0; e < n_experts; e++) {
        feed_forward(p, PF_TENSOR_EXPERT_GATE, e, p->plan->expert_size, a, p->expert);
        for (ptrdiff_t i = 0; i < p->n * p->hidden; i++)
            p->sum[i] += p->shares[i / p->hidden * n_experts + e] * p->expert[i];
    }
    if (!pf_ref_has(p, PF_TENSOR_SHARED_DOWN)) return;
    feed_forward(p, PF_TENSOR_SHARED_GATE, 0, p->plan->shared_size, a, p->expert);
    if (pf_ref_has(p, PF_TENSOR_SHARED_ROUTER)) multiply(p, PF_TENSOR_SHARED_ROUTER, 0, a, p->shares);
    for (ptrdiff_t i = 0; i < p->n * p->hidden; i++)
        p->sum[i] +=
            p->expert[i] / (pf_ref_has(p, PF_TENSOR_SHARED_ROUTER) ? 1.0 + exp(-p->shares[i / p->hidden]) : 1.0);
}

/* ---- the pass ------------------------------------------------------------------------------------------------------- */

/* What a block reads: x, or its norm. */
static const double *input_of(pf_ref_pass *p, pf_tensor_role role, const double *x)
{
    memcpy(p->normed, x, (size_t)(p->n * p->hidden) * sizeof *x);
    if (p->plan->pre_norm) norm(p, role, p->normed);
    return p->normed;
}

/* x = x + residual_scale * sum, with the norm of the one or the other. */
static void join(pf_ref_pass *p, pf_tensor_role post)
{
    if (p->plan->post_norm) norm(p, post, p->sum);
    for (ptrdiff_t i = 0; i < p->n * p->hidden; i++) p->x[i] += p->plan->residual_scale * p->sum[i];
    if (p->plan->residual_norm) norm(p, post, p->x);
}

static void run_layer(pf_ref_pass *p)
{
    const pf_plan *plan = p->plan;
    memcpy(p->before, p->x, (size_t)(p->n * p->hidden) * sizeof *p->x);
    attend(p, input_of(p, PF_TENSOR_ATTENTION_NORM, p->x));
    join(p, PF_TENSOR_ATTENTION_POST);
    const double *m =
        input_of(p, plan->one_norm ? PF_TENSOR_ATTENTION_NORM : PF_TENSOR_MLP_NORM, plan->parallel ? p->before : p->x);
    if (pf_config_layer(p->c, p->layer)->experts)
        run_experts(p, m);
    else
        feed_forward(p, PF_TENSOR_GATE, 0, p->c->intermediate_size, m, p->sum);
    join(p, PF_TENSOR_MLP_POST);
}

static void embed(pf_ref_pass *p, const int32_t *tokens)
{
    int32_t rows, width;
    const float *table = pf_ref_matrix(p, PF_TENSOR_EMBEDDING, 0, &rows, &width);
    double *out = pf_ref_has(p, PF_TENSOR_PROJECT_IN) ? p->normed : p->x;
    for (ptrdiff_t i = 0; i < p->n * width; i++)
        out[i] = (double)table[(ptrdiff_t)tokens[i / width] * width + i % width] * p->plan->embedding_scale;
    if (pf_ref_has(p, PF_TENSOR_PROJECT_IN)) multiply(p, PF_TENSOR_PROJECT_IN, 0, out, p->x);
    if (p->plan->positions == PF_POSITIONS_LEARNT) {
        table = pf_ref_matrix(p, PF_TENSOR_POSITIONS, 0, &rows, &width);
        for (ptrdiff_t i = 0; i < p->n * width; i++) p->x[i] += table[p->plan->position_offset * (ptrdiff_t)width + i];
    }
    if (pf_ref_has(p, PF_TENSOR_EMBEDDING_NORM)) norm(p, PF_TENSOR_EMBEDDING_NORM, p->x);
}

static void compute_logits(pf_ref_pass *p, double *logits)
{
    const bool projects = pf_ref_has(p, PF_TENSOR_PROJECT_OUT);
    if (p->plan->final_norm) norm(p, PF_TENSOR_FINAL_NORM, p->x);
    if (projects) multiply(p, PF_TENSOR_PROJECT_OUT, 0, p->x, p->normed);
    multiply(p, pf_config_head_role(p->c), 0, projects ? p->normed : p->x, logits);
    for (ptrdiff_t i = 0; i < p->n * p->c->vocab_size; i++)
        logits[i] = cap(logits[i] * p->plan->logit_scale, p->plan->logit_softcap);
}

/* ---- the sequence --------------------------------------------------------------------------------------------------- */

pf_status pf_forward_ref(const pf_checkpoint *files, const int32_t *tokens, int32_t n_tokens, int32_t context_tokens,
                         double *logits, pf_error *error)
{
    pf_ref_pass p;
    PF_TRY(pf_ref_pass_create(files, tokens, n_tokens, context_tokens, &p, error));
    embed(&p, tokens);
    for (p.layer = 0; p.layer < p.c->n_layers; p.layer++) run_layer(&p);
    p.layer = 0;
    compute_logits(&p, logits);
    pf_ref_pass_destroy(&p);
    return p.status;
}
