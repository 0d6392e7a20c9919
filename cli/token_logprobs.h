/* The log-probabilities of the tokens of a text, as JSON and as lines for people. */
#ifndef PF_CLI_TOKEN_LOGPROBS_H
#define PF_CLI_TOKEN_LOGPROBS_H

#include <jansson.h>

#include "cli/output.h"
#include "include/pilotfish.h"

/* An array of {"token", "text", "logprob", "top": [the same of the likeliest tokens]}; text is null without a tokenizer (NULL),
 * logprob where the token has no probability. NULL: out of memory. */
json_t *pf_json_token_logprobs(const pf_token_logprobs *logprobs, int32_t n, const pf_tokenizer *tokenizer);

/* A line a token, on standard output: its log-probability, its text in quotation marks, and the same of the likeliest; between them tabs. */
void pf_out_token_logprobs(pf_out *out, const pf_token_logprobs *logprobs, int32_t n, const pf_tokenizer *tokenizer);

#endif
