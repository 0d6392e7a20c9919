/* What the tests of grammars share: a vocabulary of all bytes and some longer tokens, and whether a text fits. */
#ifndef PF_TESTS_GRAMMAR_RIG_H
#define PF_TESTS_GRAMMAR_RIG_H

#include "tests/support/test.h"

#include "grammar/matcher.h"

/* Ids 0 .. 255 are the bytes. */
static const char *const longer_tokens[] = { "ab", "abc", "\":", "{\"", "true", "tru", "e}", "\xc3\xa9", "\xa9x", "" };
enum { N_BYTES = 256, N_RIG_IDS = N_BYTES + 10 };

static inline const char *rig_text(void *user, int32_t id, size_t *n_bytes)
{
    char *byte = user;
    *byte = (char)(id & 0xff);
    *n_bytes = id < N_BYTES ? 1 : strlen(longer_tokens[id - N_BYTES]);
    return id < N_BYTES ? byte : longer_tokens[id - N_BYTES];
}

static inline pf_token_order rig_order(void)
{
    char byte;
    pf_token_order order;
    assert_int_equal(pf_token_order_make(N_RIG_IDS, rig_text, &byte, &order), PF_OK);
    return order;
}

static inline int32_t run_text(pf_matcher *m, const char *text, size_t n)
{
    int32_t at = 0;
    for (size_t i = 0; i < n && at >= 0; i++) at = pf_matcher_step(m, at, (uint8_t)text[i]);
    return at;
}

/* Whether the whole text fits; *is_begin: whether it may at least go on. */
static inline bool fits_grammar(const char *source, const char *text, bool *is_begin)
{
    pf_grammar *grammar = NULL;
    pf_matcher *m = NULL;
    pf_error error = { 0 };
    pf_token_order order = rig_order();
    if (pf_grammar_parse(source, strlen(source), &grammar, &error) != PF_OK) fail_msg("%s\n%s", error.text, source);
    assert_int_equal(pf_matcher_create(grammar, &order, &m), PF_OK);
    const int32_t at = run_text(m, text, strlen(text));
    const bool fits = pf_matcher_accepts(m, at);
    *is_begin = at >= 0;
    assert_int_equal(pf_matcher_status(m), PF_OK);
    pf_matcher_destroy(m);
    pf_grammar_close(grammar);
    pf_token_order_clear(&order);
    return fits;
}

static inline void assert_fits(const char *source, const char *text)
{
    bool is_begin;
    if (!fits_grammar(source, text, &is_begin)) fail_msg("%s does not fit\n%s", text, source);
}

static inline void assert_unfit(const char *source, const char *text)
{
    bool is_begin;
    if (fits_grammar(source, text, &is_begin)) fail_msg("%s fits\n%s", text, source);
}

/* It is no begin of a text that fits either. */
static inline void assert_dead(const char *source, const char *text)
{
    bool is_begin;
    (void)fits_grammar(source, text, &is_begin);
    if (is_begin) fail_msg("%s may go on\n%s", text, source);
}

#endif
