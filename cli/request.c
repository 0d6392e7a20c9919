/* A request by options. */
#include "cli/request.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "cli/interrupt.h"

pf_status pf_request_seed(const pf_options *options, uint64_t *out, pf_error *error)
{
    uint64_t seed = options->sampling.seed;
    if (!options->seed_given) {
        if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
            return pf_fail(error, PF_UNAVAILABLE, "no seed could be drawn: %s; give one as --seed", strerror(errno));
        seed >>= 11;
    }
    *out = seed;
    return PF_OK;
}

enum { REPEATABLE_DRAFT_LEN = 4 };

/* A length that adapts to the clock gives rejection sampling a different text in every run. With target and drafter in this
 * process and a given seed the text can repeat, so the length is fixed unless --draft-len is given. */
static int32_t draft_length(const pf_options *options)
{
    if (options->draft_len != PF_DRAFT_LEN_UNSET) return options->draft_len;
    const bool rejection = options->sampling.temperature > 0.0f && options->method != PF_METHOD_COUPLED;
    const bool is_here = options->draft || pf_setup_looks_up(options);
    const bool repeatable = rejection && options->seed_given && is_here && !options->verifier;
    return repeatable ? REPEATABLE_DRAFT_LEN : PF_DRAFT_LEN_AUTO;
}

pf_request pf_request_by_options(const pf_options *options, const pf_setup *setup, uint64_t seed)
{
    pf_request request = {
        .size = sizeof request,
        .sampling = options->sampling,
        .method = options->method,
        .typical = options->typical,
        .draft_len = draft_length(options),
        .siblings = options->siblings,
        .ignore_eos = options->ignore_eos,
        .cancel = pf_interrupt_flag(),
        .rules = options->rules,
        .drafter = pf_setup_asked_drafter(options),
    };
    request.sampling.seed = seed;
    request.rules.bias_ids = options->bias_ids;
    request.rules.biases = options->biases;
    pf_setup_stop_tokens(setup, options, &request.stop_tokens, &request.n_stop_tokens);
    return request;
}

double pf_request_tokens_per_second(const pf_result *result)
{
    if (result->n_tokens < 2 || result->decode_ns == 0) return NAN;
    return (double)(result->n_tokens - 1) / ((double)result->decode_ns * 1e-9);
}

const char *pf_request_text_failure(pf_status status)
{
    return status == PF_LIMIT ? "the tokenizer's decoder makes a token longer by more than a MiB"
                              : "no memory for the text";
}

int pf_request_check(const pf_command *command, const pf_options *o)
{
    if (o->verifier) {
        if (o->model) return pf_options_misuse(command, "--verifier has the target: give -d DRAFT, and no -m");
        if (!o->draft) return pf_options_misuse(command, "--verifier needs a draft here: -d DRAFT");
        if (o->draft_worker) return pf_options_misuse(command, "--verifier and --draft-worker do not go together");
    } else if (!o->model) {
        return pf_options_misuse(command, "a model is needed: -m MODEL, or --verifier ADDR with -d DRAFT");
    }
    const int usage = pf_setup_check_drafter(command, o);
    if (usage != PF_EXIT_DONE) return usage;
    if (o->method == PF_METHOD_GREEDY && o->sampling.temperature > 0.0f)
        return pf_options_misuse(command, "--method greedy is for --temperature 0, not %g",
                                 (double)o->sampling.temperature);
    return pf_setup_check_trial(command, o);
}
