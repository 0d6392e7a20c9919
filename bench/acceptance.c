/* Measures acceptance and speed-up over prompts. */
#include "bench/acceptance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "engine/engine.h"

/* ---- figures ---------------------------------------------------------------------------------------------------- */

void pf_speculation_add(pf_speculation *total, const pf_speculation *one)
{
    total->rounds += one->rounds;
    total->fallback_rounds += one->fallback_rounds;
    total->drafted += one->drafted;
    total->branches += one->branches;
    total->accepted += one->accepted;
    total->draft_ns += one->draft_ns;
    total->verify_ns += one->verify_ns;
    const int64_t n_hits = one->ahead_hits < PF_RPC_SAMPLES ? one->ahead_hits : PF_RPC_SAMPLES;
    for (int64_t i = 0; i < n_hits; i++) total->hit_us[total->ahead_hits++ % PF_RPC_SAMPLES] = one->hit_us[i];
    total->ahead_hits += one->ahead_hits - n_hits; /* of a ring that has wrapped */
    total->ahead_misses += one->ahead_misses;
    total->draft_passes += one->draft_passes;
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) {
        total->reached[i] += one->reached[i];
        total->accepted_to[i] += one->accepted_to[i];
    }
    const int64_t n = one->n_rpc < PF_RPC_SAMPLES ? one->n_rpc : PF_RPC_SAMPLES;
    for (int64_t i = 0; i < n; i++) total->rpc_us[total->n_rpc++ % PF_RPC_SAMPLES] = one->rpc_us[i];
    total->n_rpc += one->n_rpc - n; /* likewise */
}

static double rate(int64_t n_tokens, uint64_t ns)
{
    return ns > 0 && n_tokens > 0 ? (double)n_tokens / ((double)ns * 1e-9) : NAN;
}

/* Of the repeats, or of the one that the figures are of. */
static pf_spread spread_of(const pf_acceptance_figures *f, const double *repeats, double one)
{
    return f->n_repeats > 0 ? pf_spread_of(repeats, (size_t)f->n_repeats) : (pf_spread){ one, one, one };
}

static double speedup_of_sums(const pf_acceptance_figures *f)
{
    if (f->speculation.drafted == 0) return NAN;
    return rate(f->speculative_tokens, f->speculative_ns) / rate(f->plain_tokens, f->plain_ns);
}

pf_spread pf_acceptance_plain_spread(const pf_acceptance_figures *f)
{
    return spread_of(f, f->plain_rates, rate(f->plain_tokens, f->plain_ns));
}

pf_spread pf_acceptance_speculative_spread(const pf_acceptance_figures *f)
{
    return spread_of(f, f->speculative_rates, rate(f->speculative_tokens, f->speculative_ns));
}

pf_spread pf_acceptance_speedup_spread(const pf_acceptance_figures *f)
{
    return spread_of(f, f->speedups, speedup_of_sums(f));
}

double pf_acceptance_plain_rate(const pf_acceptance_figures *figures)
{
    return pf_acceptance_plain_spread(figures).median;
}

double pf_acceptance_speculative_rate(const pf_acceptance_figures *figures)
{
    return pf_acceptance_speculative_spread(figures).median;
}

double pf_acceptance_speedup(const pf_acceptance_figures *figures)
{
    return pf_acceptance_speedup_spread(figures).median;
}

double pf_acceptance_predicted_speedup(const pf_acceptance_figures *figures)
{
    const pf_speculation *s = &figures->speculation;
    if (s->rounds == 0 || figures->plain_tokens == 0) return NAN;
    const double plain_ns = (double)figures->plain_ns / (double)figures->plain_tokens;
    const double trips_ns = s->n_rpc > 0 ? 1000.0 * pf_rpc_percentile(s, 0.5) * (double)s->n_rpc : 0.0;
    return plain_ns * (double)figures->speculative_tokens / ((double)s->verify_ns + (double)s->draft_ns + trips_ns);
}

/* ---- one request, both ways ------------------------------------------------------------------------------------- */

typedef struct {
    const pf_acceptance_bench *bench;
    const pf_acceptance_setting *setting;
    pf_acceptance_run *out;
    pf_error *error;
    pf_result plain, speculative; /* with room for max_new_tokens each */
    pf_tokens conversation;
    bool has_categories;
    uint64_t client; /* of its texts: none is proposed to a later run */
} runner;

static pf_status generate(runner *r, pf_session *session, uint64_t seed, pf_result *result)
{
    const pf_acceptance_bench *b = r->bench;
    pf_request request = {
        .size = sizeof(pf_request),
        .prompt = r->conversation.ids,
        .n_prompt = r->conversation.n,
        .max_new_tokens = b->max_new_tokens,
        .sampling = b->sampling,
        .method = r->setting->method,
        .typical = r->setting->typical,
        .draft_len = r->setting->draft_len,
        .drafter = session == b->speculative ? r->setting->drafter : NULL,
        .siblings = r->setting->siblings,
        .stop_tokens = b->stop_tokens,
        .n_stop_tokens = b->n_stop_tokens,
        .cancel = b->cancel,
        .client = r->client,
    };
    request.sampling.temperature = r->setting->temperature;
    request.sampling.seed = seed;
    return pf_generate(session, &request, result, r->error);
}

/* NULL: out of memory. */
static pf_acceptance_figures *figures_of(pf_acceptance_run *out, const char *category)
{
    for (size_t i = 0; i < out->n_categories; i++)
        if (strcmp(out->categories[i].category, category) == 0) return &out->categories[i];
    pf_acceptance_figures *grown = realloc(out->categories, (out->n_categories + 1) * sizeof *grown);
    if (!grown) return NULL;
    out->categories = grown;
    grown[out->n_categories] = (pf_acceptance_figures){ .category = category };
    return &grown[out->n_categories++];
}

void pf_acceptance_run_clear(pf_acceptance_run *run)
{
    free(run->categories);
    *run = (pf_acceptance_run){ .total = { .category = "" } };
}

/* http://www.isthe.com/chongo/tech/comp/fnv/, a token at a time. */
static uint64_t fnv1a(uint64_t hash, const int32_t *tokens, int32_t n)
{
    if (hash == 0) hash = 0xCBF29CE484222325u;
    for (int32_t i = 0; i < n; i++) hash = (hash ^ (uint32_t)tokens[i]) * 0x100000001B3u;
    return hash;
}

static void count(pf_acceptance_figures *f, const pf_result *plain, const pf_result *speculative)
{
    f->n_requests++;
    f->n_identical += plain->n_tokens == speculative->n_tokens &&
                      memcmp(plain->tokens, speculative->tokens, (size_t)plain->n_tokens * sizeof(int32_t)) == 0;
    f->checksum = fnv1a(f->checksum, speculative->tokens, speculative->n_tokens);
    f->plain_tokens += plain->n_tokens > 0 ? plain->n_tokens - 1 : 0;
    f->speculative_tokens += speculative->n_tokens > 0 ? speculative->n_tokens - 1 : 0;
    f->plain_ns += plain->decode_ns;
    f->speculative_ns += speculative->decode_ns;
    pf_speculation_add(&f->speculation, &speculative->speculation);
}

static void add_repeat(pf_acceptance_figures *sum, const pf_acceptance_figures *one)
{
    if (sum->n_repeats == 0) sum->checksum = one->checksum;
    sum->n_requests += one->n_requests;
    sum->n_identical += one->n_identical;
    sum->plain_tokens += one->plain_tokens;
    sum->speculative_tokens += one->speculative_tokens;
    sum->plain_ns += one->plain_ns;
    sum->speculative_ns += one->speculative_ns;
    pf_speculation_add(&sum->speculation, &one->speculation);
    if (sum->n_repeats == PF_ACCEPTANCE_REPEATS) return;
    sum->plain_rates[sum->n_repeats] = pf_acceptance_plain_rate(one);
    sum->speculative_rates[sum->n_repeats] = pf_acceptance_speculative_rate(one);
    sum->speedups[sum->n_repeats++] = pf_acceptance_speedup(one);
}

pf_status pf_acceptance_run_add(pf_acceptance_run *sum, const pf_acceptance_run *repeat)
{
    if (!sum->total.category) sum->total.category = "";
    for (size_t i = 0; i < repeat->n_categories; i++) {
        pf_acceptance_figures *figures = figures_of(sum, repeat->categories[i].category);
        if (!figures) return PF_NOMEM;
        add_repeat(figures, &repeat->categories[i]);
    }
    add_repeat(&sum->total, &repeat->total);
    sum->n_skipped += repeat->n_skipped;
    return PF_OK;
}

static pf_status compare(runner *r, size_t number, const char *category)
{
    const uint64_t seed = r->bench->sampling.seed + (uint64_t)number;
    const bool plain_first = number % 2 == 0;
    if (plain_first) PF_TRY(generate(r, r->bench->plain, seed, &r->plain));
    PF_TRY(generate(r, r->bench->speculative, seed, &r->speculative));
    if (!plain_first) PF_TRY(generate(r, r->bench->plain, seed, &r->plain));
    count(&r->out->total, &r->plain, &r->speculative);
    if (!r->has_categories) return PF_OK;
    pf_acceptance_figures *figures = figures_of(r->out, category);
    if (!figures) return pf_fail(r->error, PF_NOMEM, "no memory for the figures of the category \"%.60s\"", category);
    count(figures, &r->plain, &r->speculative);
    return PF_OK;
}

/* ---- prompts ---------------------------------------------------------------------------------------------------- */

/* The separator between an answer and the next turn. */
static const char SEPARATOR[] = "\n\n";

static pf_status refuse_text(const runner *r, pf_status status, const char *what, size_t turn, size_t number, size_t n)
{
    return pf_fail(r->error, status, "%s turn %zu of prompt %zu, %zu bytes, cannot be cut into tokens: %s", what,
                   turn + 1, number + 1, n, pf_tokenizer_refusal(status));
}

static pf_status add_text(runner *r, const char *text, size_t turn, size_t number)
{
    const pf_tokenizer *tokenizer = r->bench->tokenizer;
    const size_t n = strlen(text), n_between = sizeof SEPARATOR - 1;
    const volatile bool *cancel = r->bench->cancel;
    pf_status status = PF_OK;
    if (turn > 0) status = pf_tokenizer_encode(tokenizer, SEPARATOR, n_between, false, cancel, &r->conversation);
    if (status != PF_OK) return refuse_text(r, status, "the empty line before", turn, number, n_between);
    status = pf_tokenizer_encode(tokenizer, text, n, turn == 0, cancel, &r->conversation);
    return status == PF_OK ? PF_OK : refuse_text(r, status, "the text of", turn, number, n);
}

static pf_status add_answer(runner *r)
{
    for (int32_t i = 0; i < r->plain.n_tokens; i++) PF_TRY(pf_tokens_push(&r->conversation, r->plain.tokens[i]));
    return PF_OK;
}

static pf_status run_prompt(runner *r, size_t number, const pf_prompt *prompt)
{
    r->conversation.n = 0;
    for (size_t turn = 0; turn < prompt->n_turns; turn++) {
        if (turn > 0) PF_TRY(add_answer(r));
        PF_TRY(add_text(r, prompt->turns[turn], turn, number));
        if (r->conversation.n < 1 || r->conversation.n >= r->bench->max_context) {
            r->out->n_skipped += (int64_t)(prompt->n_turns - turn);
            return PF_OK;
        }
        PF_TRY(compare(r, number, prompt->category));
    }
    return PF_OK;
}

static pf_status run_prompts(runner *r)
{
    const pf_prompts *prompts = r->bench->prompts;
    for (size_t i = 0; i < prompts->n; i++) r->has_categories |= *prompts->items[i].category != '\0';
    for (size_t i = 0; i < prompts->n; i++) {
        if (pf_is_told(r->bench->cancel)) return PF_CANCELLED;
        PF_TRY(run_prompt(r, i, &prompts->items[i]));
        if (r->bench->progress) r->bench->progress(r->bench->progress_user, i + 1, prompts->n);
    }
    return PF_OK;
}

pf_status pf_bench_acceptance(const pf_acceptance_bench *bench, const pf_acceptance_setting *setting,
                              pf_acceptance_run *out, pf_error *error)
{
    *out = (pf_acceptance_run){ .total = { .category = "" } };
    runner *r = calloc(1, sizeof *r);
    int32_t *tokens = calloc(2 * (size_t)bench->max_new_tokens, sizeof *tokens);
    pf_status status = PF_NOMEM;
    if (r && tokens) {
        *r = (runner){ .bench = bench, .setting = setting, .out = out, .error = error, .client = pf_now_ns() };
        r->plain.tokens = tokens;
        r->speculative.tokens = tokens + bench->max_new_tokens;
        r->plain.size = r->speculative.size = sizeof r->plain;
        r->plain.capacity = r->speculative.capacity = bench->max_new_tokens;
        status = run_prompts(r);
        pf_tokens_clear(&r->conversation);
    }
    if (status == PF_NOMEM && error && !error->text[0])
        status = pf_fail(error, PF_NOMEM, "no memory for the measurement");
    free(tokens);
    free(r);
    return status;
}
