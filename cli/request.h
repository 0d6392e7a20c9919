/* A request of pf_generate by the options that the generating commands share. */
#ifndef PF_CLI_REQUEST_H
#define PF_CLI_REQUEST_H

#include "cli/setup.h"

/* The seed of --seed, or one that is drawn: 53 bits, a JSON number that every reader keeps exactly. PF_UNAVAILABLE: the system
 * has no random bytes. */
PF_MUST_USE pf_status pf_request_seed(const pf_options *options, uint64_t *out, pf_error *error);

/* Sampling, method, draft length, stop tokens and the interrupt flag by the options. The caller adds the prompt, the number of
 * new tokens and the callbacks. */
pf_request pf_request_by_options(const pf_options *options, const pf_setup *setup, uint64_t seed);

/* Decode speed; the first token is the prefill's. NaN: nothing was decoded. */
double pf_request_tokens_per_second(const pf_result *result);

/* What a status of tokenizer/decode/text_stream.h means: a static sentence. */
const char *pf_request_text_failure(pf_status status);

/* Whether the options name a target, a drafter that fits it, and a method that fits the temperature: PF_EXIT_DONE, or as
 * pf_options_misuse. */
int pf_request_check(const pf_command *command, const pf_options *options);

#endif
