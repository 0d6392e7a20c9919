/*
 * A request between two engines in this process: a tiny target and a draft that is the target itself, so always right
 * unless a wrapper makes it lie (unreliable_peer.h). For tests of the generation loop; what fails here fails the test.
 */
#ifndef PF_TESTS_SUPPORT_GENERATING_H
#define PF_TESTS_SUPPORT_GENERATING_H

#include "engine/engine.h"
#include "tests/support/tiny_model.h"

enum { CONTEXT = 160, N_NEW = 60, N_PLAIN_PROMPT = 5, VOCAB = 128 };
#define LIMIT_NS 200000000u /* of a verifier's silence and absence: four looks */

typedef struct {
    int32_t tokens[CONTEXT];
    pf_result result;
} generated;

typedef struct {
    pf_engine *target, *draft;
    pf_peer *verifier, *drafter;
    uint64_t *clock_ns; /* of its sessions (base/clock.h); NULL: the machine's */
    int32_t n_warnings;
    pf_error warning; /* the last: its text */
    generated plain;  /* what plain_request gives without a drafter, at any draft_len */
} pair;

/* For cmocka's groups: *state is a pair. */
int open_pair(void **state);
int close_pair(void **state);

/* The caller closes it. threads_of may be NULL. */
pf_engine *open_engine(const pf_tiny_model *model, pf_engine *threads_of);

/* Peers other than the pair's own are far. The caller destroys it. */
pf_session *open_session(pair *p, pf_peer *verifier, pf_peer *drafter);

/* A prompt of N_PLAIN_PROMPT tokens, N_NEW new ones, greedy, proposals of 4. */
pf_request plain_request(void);

pf_status run(pf_session *session, const pf_request *request, generated *out, pf_error *error);

/*
 * The same in a session of its own, to its end; a verifier that vanishes has the product's own limit to return, which a
 * loaded machine keeps. drafter NULL: plain decoding.
 */
void generate(pair *p, pf_peer *verifier, pf_peer *drafter, const pf_request *request, generated *out);

void assert_same_text(const generated *a, const generated *b);

#endif
