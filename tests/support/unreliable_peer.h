/*
 * A far peer played by a near one: a wrapper that loses answers, lies, vanishes and comes back as a test tells it, without
 * any wire. What it does at random it does again with the same seed.
 */
#ifndef PF_TESTS_SUPPORT_UNRELIABLE_PEER_H
#define PF_TESTS_SUPPORT_UNRELIABLE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/peer.h"

/* What becomes of an answer. */
typedef enum { HONEST, LOSE_ANSWER, LIE, VANISH, N_MOODS } mood;

enum { REFUSALS = 3 };

/* All but what `unreliable_peer_of` fills in is a test's to set, before it gives the peer away. */
typedef struct {
    pf_peer head;
    pf_peer *inner;
    uint64_t rng;
    int32_t n_vocab;
    uint64_t *clock_ns; /* NULL: the machine's */

    /* Faults drawn for each answer. */
    int32_t faults_in_16; /* how often a mood other than honest is drawn */
    mood only;            /* HONEST: any */

    /* Being away. */
    int32_t vanish_at;  /* the answer, from 1, at which it vanishes; 0: none */
    int32_t gone_for;   /* calls that still find no peer */
    bool stays_away;    /* once it has vanished */
    int32_t stays_for;  /* calls, then; 0: three */
    int32_t full_for;   /* calls that find it far behind, from round 4 on */
    pf_status fails_as; /* each submit; PF_OK: none */
    bool knows_nothing; /* and asks for the prefix again and again */
    pf_error why;       /* it is not there */

    /* Being at work. */
    int32_t computes;   /* looks that find no answer yet, after each open */
    int32_t sign_at;    /* of those, every how manieth finds a sign of life; 0: none */
    uint32_t sleeps_us; /* in a look that finds nothing, deadline or not */

    /* Speaking untruth. */
    bool is_unmet;                        /* says nothing of itself yet */
    int32_t vocab;                        /* what it says then; 0: the truth */
    bool out_of_vocabulary;               /* the last token of each proposal */
    bool declares_unknown;                /* an id of its first token's distribution */
    int32_t empties;                      /* proposals, the first, that have no token */
    int32_t siblings;                     /* wrong ones, beside the first token of each proposal, which has two then */
    bool accept_too_many, accept_another; /* in each verdict */
    bool accept_none;                     /* but commit them */
    int32_t adds;                         /* the last token of each verdict; 0: the truth */
    uint64_t rounds_ahead;                /* each verdict, each proposal */
    uint32_t incarnations_ahead;          /* each verdict */
    int32_t tokens_ahead;                 /* its base */
    int32_t takes;                        /* tokens of a proposal, as it says of itself; 0: the truth, -1: none */
    int32_t declares;                     /* ids of a distribution, likewise */
    uint32_t methods;                     /* likewise: bits, as in pf_model_info; UINT32_MAX: it does not say */
    bool judges_chains;                   /* alone, as it says of itself */
    bool is_old;          /* it says nothing of typical_p, log-probabilities and drafters, and reads no name of one */
    pf_status refuses_as; /* of each sequence, REFUSALS times in ever other words; PF_OK: of none */
    int32_t refuses_late; /* answers that refuse what was open before, as PF_LIMIT */
    int32_t unread;       /* of a prompt, while it computes; 0: it does not tell */
    bool ignore_limits;   /* of an open: a peer that knows no end */
    uint64_t boasts_ns;   /* what it says it computed; 0: the truth */

    /* What has happened. */
    int32_t n_infos;                                    /* how often it was asked what it is */
    int32_t n_answers, n_looks, n_reopened, n_accepted; /* the last: tokens, as a drafter hears of them */
    int32_t n_declared;                                 /* the most ids of a distribution that it was sent */

    /* The last open, and memory for what it says in the place of the truth. */
    pf_open open;
    pf_batch answer;
    pf_proposal proposal;
    pf_verdict verdict;
    pf_prefix_request request;
    pf_refusal refusals[REFUSALS];
    char words[REFUSALS][32];
    int32_t tokens[PF_MAX_DRAFT_TOKENS + 1], parents[PF_MAX_DRAFT_TOKENS];
    pf_declared declared[PF_MAX_DRAFT_TOKENS];
    int32_t ids[PF_MAX_DECLARED];
} unreliable_peer;

/* inner and the clock are borrowed; the wrapper's end is not its end. Every collect moves a clock that is simulated (base/clock.h). */
unreliable_peer unreliable_peer_of(pf_peer *inner, uint64_t seed, int32_t faults_in_16, uint64_t *clock_ns);

#endif
