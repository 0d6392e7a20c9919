/*
 * One request while it runs, and what is between it and its two peers. Internal to engine/.
 *
 *      generate.c       the loop, from the prompt to the last token
 *      run_verifier.c   a round's verdict, through restarts of a far verifier
 *      run_drafter.c    a round's proposal, for as long as it is worth waiting for
 *      run.c            what both links are told
 *      session.c        the peers and the memory that many requests use, one at a time
 *
 * Either link is a pf_stream_owner (proto/stream.h): the engine owns the request, the peer follows.
 * Threads: the caller's of pf_generate.
 */
#ifndef PF_ENGINE_RUN_H
#define PF_ENGINE_RUN_H

#include "engine/draft_wait.h"
#include "engine/engine.h"
#include "proto/stream.h"
#include "proto/vocabulary.h"

struct pf_session {
    pf_session_options options;
    uint64_t *clock_ns;          /* of waiting and measuring: a simulated one (base/clock.h); NULL: the machine's */
    struct pf_queue *queue;      /* of generations (generation.c); NULL: none was started yet */
    const volatile bool *cancel; /* of the generation that runs, besides the request's; NULL: none */
    pf_model_info verifier_info;
    pf_model_info drafter_info; /* zero until drafter_is_known */
    int32_t *committed;         /* [max_context] prompt, then verdicts */
    int32_t n_committed;
    int32_t *as_drafter;          /* [max_context] the same with ids that the drafter has; NULL: there is no drafter */
    pf_vocab_match match;         /* of the drafter's vocabulary, once it is known */
    pf_stream_owner *to_verifier; /* fences of either link */
    pf_stream_owner *to_drafter;
    pf_draft_wait draft_wait;  /* with a far drafter */
    pf_status drafter_trouble; /* what kind of it the last warning told; PF_OK: none, it is there */
    int32_t n_losses;          /* of a drafter that comes and goes, without a minute between */
    uint64_t lost_ns;          /* the last of them; 0: none yet */
    bool drafter_is_known;     /* what it says of itself has been looked at */
    bool drafter_is_unfit;     /* its vocabulary does not fit: it is not asked */
    uint64_t kept_sequence;    /* that the peers keep of the last request; 0: none */
    bool drafter_keeps_it;     /* the drafter, too */
    uint32_t told;             /* kinds of refusals and protocol violations already warned of: bits by pf_status */
};

/* A proposal that came too late, kept until the text has come as far as it went. */
typedef struct {
    int32_t base, n; /* tokens of its chain, behind so many that are committed; n 0: none is kept */
    int32_t tokens[PF_MAX_DRAFT_TOKENS];
} pf_late_proposal;

typedef struct {
    pf_session *session;
    const pf_request *request; /* with its defaults resolved */
    pf_method method;
    pf_result *result;
    pf_error *error;
    uint64_t sequence;
    bool continues;             /* a sequence that the peers have kept */
    uint32_t first_incarnation; /* at the drafter: what it says of an earlier one is of an earlier request */
    int32_t max_tokens;         /* committed length at which the request ends */
    int32_t last_base;          /* committed length before the last verdict */
    int32_t last_accepted;
    uint64_t asked_ns;                         /* when the last batch left */
    uint64_t verified_ns;                      /* what the last verification took; 0: none behind the prompt yet */
    uint64_t away_ns;                          /* how long a far verifier has been away since it last said something */
    bool drafter_refused;                      /* it will not serve this sequence */
    int32_t n_as_drafter;                      /* of session->as_drafter */
    int32_t drafter_stops[PF_MAX_STOP_TOKENS]; /* the request's stop tokens that the drafter has */
    bool drafter_has_it;                       /* an open has left: it keeps a place until it is told of the end */
    pf_proposal proposal;                      /* the round's: its arrays are the drafter's answer's */
    pf_late_proposal late;                     /* a far drafter's */
    bool proposes_late;                        /* the round's proposal is the rest of that one */
    pf_error verifier_trouble;                 /* why a far verifier was lost, the last time */
} pf_run;

/* ---- session.c -------------------------------------------------------------------------------------------------- */

/* To the session's callback, where it has one. */
void pf_session_warn(const pf_session *session, const char *sentence);

/* Let it measure and wait by a simulated clock, which the caller owns; before the first request. */
void pf_session_set_clock(pf_session *session, uint64_t *clock_ns);

/* By its clock: the time, and to wait for so long. */
uint64_t pf_session_now_ns(const pf_session *session);
void pf_session_pause(const pf_session *session, uint64_t ns);

/* PF_INVALID: its size is that of no version. */
PF_MUST_USE pf_status pf_session_check_result(const pf_result *result, pf_error *error);

/* How many new tokens a request asks for, or has room for in the session's context; 0: its prompt has none. */
int32_t pf_session_new_tokens(const pf_session *session, const pf_request *request);

/* pf_generate by a request of this version's size, whatever is queued. */
PF_MUST_USE pf_status pf_session_generate(pf_session *session, const pf_request *request, pf_result *result,
                                          pf_error *error);

/* Compares the vocabularies. *warning: where they differ and fit all the same, a sentence that says in what; else empty.
 * PF_INVALID: too few ids are equal, or it cannot be told which are. */
PF_MUST_USE pf_status pf_session_check_vocabularies(const pf_model_info *drafter, const pf_model_info *verifier,
                                                    pf_vocab_match *out, pf_error *warning, pf_error *error);

/* After the drafter's info has come: checks its vocabulary and warns where it differs. A far drafter that does not fit is not
 * asked; of a near one PF_INVALID. */
PF_MUST_USE pf_status pf_session_accept_drafter(pf_session *session, pf_error *error);

/* ---- run.c: what both peers are told ------------------------------------------------------------------------------ */

/* Takes up the sequence that the peers keep, or begins a new one. It is due for opening at both. Errors as
 * pf_stream_owner_begin and pf_stream_owner_restart, which do not occur. */
PF_MUST_USE pf_status pf_run_begin(pf_run *run);

/* Tells the peers that the sequence is over, or with `keeps` leaves it open for the next request. */
void pf_run_end(pf_run *run, bool keeps);

/* Tells the peers that the kept sequence is over. Without one: nothing happens. */
void pf_session_drop_sequence(pf_session *session);

/* The longest proposal: as the request has it, and as the verifier takes it. 0: it takes none. */
int32_t pf_run_max_draft(const pf_run *run);

/* Ids of a declared distribution, at most: as many as help, and as both peers speak of. 0: none is declared. */
int32_t pf_run_max_declared(const pf_run *run);

/* The open of this sequence at one of the links: all that is committed there. PF_INVALID: the link does not know the
 * sequence. */
PF_MUST_USE pf_status pf_run_make_open(const pf_run *run, pf_stream_owner *link, bool far, pf_open *open);

/* pf_peer_submit, and asked_ns is when. */
PF_MUST_USE pf_status pf_run_submit(pf_run *run, pf_peer *peer, const pf_batch *batch);

/* Into the figures, of an answer that has just come to what left last: onto *compute_ns what its peer computed, as it says but
 * no longer than it was away; and of a far one what the wire and the waking of threads took. */
void pf_run_count_answer(pf_run *run, const pf_batch *answer, bool far, uint64_t *compute_ns);

bool pf_run_is_cancelled(const pf_run *run);

enum { PF_RUN_CANCEL_POLL_NS = 50 * 1000 * 1000 }; /* how often a wait for a far peer checks for cancellation */

/* ---- run_verifier.c ----------------------------------------------------------------------------------------------- */

/* Open the sequence at the verifier, or open it again with all that is committed. A far one that is away gets
 * return_limit_ns to come back, over all calls since it last said something.
 * PF_CANCELLED.  PF_UNAVAILABLE: it is gone. Else what it says to the open. */
PF_MUST_USE pf_status pf_run_reach_verifier(pf_run *run);

/* The verdict of this round, borrowed until the next call on the verifier. *proposal is what it was sent, or NULL; it is
 * NULL afterwards where the verifier was lost meanwhile, since it then decodes plainly.
 * PF_CANCELLED.  PF_UNAVAILABLE: it is gone, or silent for too long.  PF_FORMAT: a verdict that does not fit. Else the
 * status of its refusal. */
PF_MUST_USE pf_status pf_run_await_verdict(pf_run *run, const pf_proposal **proposal, const pf_verdict **out);

/* One round: *proposal (NULL: none) to the verifier, and then as pf_run_await_verdict. */
PF_MUST_USE pf_status pf_run_decide(pf_run *run, const pf_proposal **proposal, const pf_verdict **verdict);

/* ---- run_drafter.c ------------------------------------------------------------------------------------------------ */

/* Let a far drafter read the prompt while the verifier does. */
void pf_run_announce(pf_run *run);

/* Tell the drafter what the last verdict committed, and ask for the coming round's proposal. *out is NULL where none came
 * in time, or none that can be used: the round is then decoded plainly. It is borrowed until the next call on the drafter.
 * PF_CANCELLED. Else a near drafter's own failure: a far one's costs speed alone. */
PF_MUST_USE pf_status pf_run_ask_drafter(pf_run *run, const pf_proposal **out);

#endif
