#include "draft/ngram_drafter.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "draft/drafter_kind.h"
#include "host/sequence_host.h"

typedef struct {
    pf_host host; /* a lookup needs nothing besides the committed tokens */
} ngram_drafter;

/* How many of the tokens before `end` equal the last ones of tokens [n], at most PF_NGRAM_MAX. */
static int32_t count_matching(const int32_t *tokens, int32_t n, int32_t end)
{
    int32_t k = 0;
    while (k < PF_NGRAM_MAX && k < end && tokens[end - 1 - k] == tokens[n - 1 - k]) k++;
    return k;
}

/* Where the latest occurrence of the longest suffix of tokens [n] ends, before n; 0: it has none. */
static int32_t find_suffix(const int32_t *tokens, int32_t n)
{
    int32_t best_end = 0, best = 0;
    for (int32_t end = n - 1; end > 0 && best < PF_NGRAM_MAX; end--) {
        const int32_t k = count_matching(tokens, n, end);
        if (k <= best) continue;
        best = k;
        best_end = end;
    }
    return best_end;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is that of the hosts' function */
static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    (void)host;
    (void)n_tokens;
    return s->is_due ? PF_HOST_READY : PF_HOST_IDLE;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    int32_t n = pf_host_draft_room(host, s);
    if (s->is_adaptive) n = pf_min(n, PF_NGRAM_ADAPTIVE_DRAFT);
    const int32_t end = n > 0 ? find_suffix(s->tokens, s->n_committed) : 0;
    s->n_drafted = end > 0 ? n : 0;
    /* What is copied may run into the proposal itself: a period goes on. */
    for (int32_t i = 0; i < s->n_drafted; i++) s->tokens[s->n_committed + i] = s->tokens[end + i];

    pf_proposal proposal;
    pf_host_begin_proposal(host, s, &proposal);
    proposal.tokens = s->tokens + s->n_committed;
    proposal.n_tokens = s->n_drafted;
    pf_host_propose(host, s, &proposal);
    return true;
}

static const pf_host_role role = {
    .name = "n-gram drafter",
    .model = "target",
    .check_open = pf_host_check_draft,
    .turn = turn,
    .add = add,
};

pf_status pf_ngram_drafter_create(const pf_model_info *target, int32_t max_sequences, int32_t max_draft, pf_peer **out,
                                  pf_error *error)
{
    ngram_drafter *d = calloc(1, sizeof *d);
    if (!d) return pf_fail(error, PF_NOMEM, "no memory for the n-gram drafter");
    pf_model_info info = *target;
    memcpy(info.model_id, "ngram", sizeof "ngram");
    pf_drafts_by_state(PF_DRAFTS_BY_NGRAM, &info);
    info.max_sequences = max_sequences;
    info.max_draft = max_draft;
    info.max_declared = 0;
    info.judges_trees = false;
    const pf_host_config config = { .max_sequences = max_sequences,
                                    .max_draft = max_draft,
                                    .max_tokens = target->max_context,
                                    .n_vocab = pf_model_ids(target),
                                    .info = &info };
    return pf_host_create(&d->host, &role, &config, out, error);
}
