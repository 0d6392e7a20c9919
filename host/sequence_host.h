/*
 * Opens, follows, refuses and closes sequences, schedules proposals and long prompts, and answers batches before a deadline: the
 * part that every peer of this process shares. It knows no model.
 *
 *      pf_peer (proto/peer.h)      submit, collect
 *      sequence host               fences, slots, committed tokens, turns, the answer            this file
 *      role                        drafting, verifying, lookup                                   pf_host_role
 *
 * A role is a struct with a pf_host as its first member, and a table of callbacks. What a slot holds:
 *
 *      tokens   | 0 .. n_committed | n_drafted of the latest proposal |
 *
 * Per collect a sequence is idle, ready, or behind with its prompt (pf_host_turn). All that are ready are answered together;
 * then one pass of one prompt is run, of each in turn, and so on until there is an answer or the deadline has passed. A
 * sequence that is ready goes before a prompt, but only once in a row, so that neither waits without end.
 *
 * While nothing is due a role may compute what may be asked next (work_ahead): one pass a call, so that a message which arrives
 * meanwhile waits for one pass at most.
 *
 * A step looks at the sequences that have had a message and may need something. Those that are idle cost it nothing.
 *
 * An error of one sequence refuses that sequence; the others go on.
 * Memory: one arena, made at creation; a round allocates nothing. Threads: those of pf_peer, one caller at a time.
 */
#ifndef PF_HOST_SEQUENCE_HOST_H
#define PF_HOST_SEQUENCE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/model_figures.h"
#include "base/status.h"
#include "base/stop.h"
#include "host/answer.h"
#include "host/prepared_answers.h"
#include "host/slot_list.h"
#include "proto/peer.h"

/* A sequence, from its open to its close. Written by the host; by the role where that is said. */
typedef struct {
    int32_t slot;        /* its number, 0 .. max_sequences - 1: the role's index for what it keeps */
    bool is_open;        /* the stream knows it under this slot */
    bool is_due;         /* a proposal or a verdict is to be answered */
    bool is_full;        /* it has committed more than max_tokens: nothing is proposed until it is closed */
    bool is_ended;       /* a verdict has ended it: waits for its close */
    uint64_t touched_ns; /* when its owner last said something of it */
    uint64_t sequence;
    uint32_t incarnation;
    pf_sampling sampling; /* of the open; start() may resolve the seed */
    pf_method method;
    bool is_adaptive;       /* max_draft is a bound */
    bool judges_trees;      /* proposals may be trees */
    int32_t max_draft;      /* of a proposal: the open's, at most the host's */
    int32_t next_draft;     /* of the next proposal, at most max_draft; the latest verdict's */
    uint64_t propose_by_ns; /* when the next proposal is of no use any more; UINT64_MAX: never */
    int32_t max_declared;
    int32_t max_tokens; /* the committed length at which it ends; INT32_MAX: unknown. start() may lower it */
    int32_t *tokens;    /* [host's max_tokens + PF_MAX_DRAFT_TOKENS + 1]; the role writes behind the committed ones */
    int32_t n_committed;
    int32_t n_drafted; /* by the role: tokens of the proposal, behind the committed ones */
    pf_declared
        *declared; /* [host's max_draft] of those tokens, by the role, into the two below; NULL: a role without */
    int32_t *ids;  /* [host's max_draft, PF_MAX_DECLARED] */
    float *probabilities;      /* [host's max_draft, PF_MAX_DECLARED] */
    pf_invalid_logits invalid; /* of this slot, since pf_peer_take_invalid_logits; by the role */
} pf_host_sequence;

/* What a sequence needs at a collect. */
typedef enum {
    PF_HOST_IDLE,  /* nothing */
    PF_HOST_READY, /* an answer, by add() and run() */
    PF_HOST_CHUNK, /* a pass over a part of its prompt, by feed() */
    PF_HOST_END, /* the last part of its prompt, and then an answer, by add() and run(): may share a pass with others */
} pf_host_turn;

typedef struct pf_host pf_host;

/* The callbacks of a role. Those marked "or NULL" may be absent. */
typedef struct {
    const char *name;       /* in sentences: "drafter" */
    const char *model;      /* likewise, the model with its vocabulary and context: "draft" */
    bool declares;          /* sequences have room for draft distributions */
    bool answers_opens;     /* an open is answered by a verdict: what a verifier does; else by nothing */
    bool refuses_in_answer; /* add, run and feed may refuse sequences */

    /* Besides what the host checks: as pf_peer_check_open. Or NULL. */
    pf_status (*check_open)(const pf_host *host, const pf_open *open, pf_error *error);

    /* Make room for a sequence. Where `s` is open already it is opened again: its old tokens are still there, and what the
     * new ones share with them may be kept. A failure refuses it. Or NULL. */
    pf_status (*acquire)(pf_host *host, pf_host_sequence *s, const pf_open *open);

    /* All of `s` is filled in from the open. Or NULL. */
    void (*start)(pf_host *host, pf_host_sequence *s, const pf_open *open);

    /* Give back what acquire took. Or NULL. */
    void (*release)(pf_host *host, pf_host_sequence *s);

    /* A drafter: the target has committed these tokens, which the host appends afterwards; the latest proposal still stands
     * behind the committed ones. is_full has been set. A failure refuses the sequence. Or NULL. */
    pf_status (*follow)(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict);

    /* A verifier: copy what can be judged of a proposal. NULL at a drafter. */
    void (*take_proposal)(pf_host *host, pf_host_sequence *s, const pf_proposal *proposal);

    /* What an open sequence needs now. *n_tokens: of a chunk, how many. */
    pf_host_turn (*turn)(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens);

    /* Take a sequence into the answers that run() makes; or false: run() must come first. add() may also answer at once. */
    bool (*add)(pf_host *host, pf_host_sequence *s);
    void (*run)(pf_host *host); /* or NULL */

    /* One pass over the next n_tokens of a prompt. NULL where turn never says CHUNK. */
    void (*feed)(pf_host *host, pf_host_sequence *s, int32_t n_tokens);

    /* A pass of what may be asked next, while nothing is due; false: there is nothing left to compute. Leaves the latest answer as it
     * is. Or NULL. */
    bool (*work_ahead)(pf_host *host);

    /* Tokens of the prompt that are unread. NULL: unknown (pf_peer_backlog). */
    int32_t (*unread)(const pf_host *host, const pf_host_sequence *s);

    /* What its model has done and holds; *out is zero before. NULL: there is no model. */
    void (*figures)(const pf_host *host, pf_model_figures *out);

    /* A drafter: nothing pays for its sequences, and it proposes nothing before this time; 0: it drafts. Or NULL. */
    uint64_t (*rests_until_ns)(const pf_host *host);

    /* Take the role's own memory from the arena (or its measure). Or NULL. */
    void (*lay_out)(pf_host *host, pf_arena *arena);

    /* End what the role has besides. The host frees the struct. Or NULL. */
    void (*destroy)(pf_host *host);
} pf_host_role;

typedef struct {
    int32_t
        max_sequences; /* 1 .. PF_MAX_OPEN_SEQUENCES; an answer has PF_MAX_BATCH_SEQUENCES at most, and the rest the next */
    int32_t max_draft;         /* 1 .. PF_MAX_DRAFT_TOKENS */
    int32_t max_tokens;        /* of a sequence */
    int32_t n_vocab;           /* ids that a sequence may have */
    uint64_t least_answer_ns;  /* an answer with proposals or verdicts takes at least this long; 0 */
    pf_stop stop;              /* when it is time to, collect has PF_CANCELLED; its clock is the host's */
    const pf_model_info *info; /* what pf_peer_info answers; copied. NULL: zero */
} pf_host_config;

/* The first member of a role's struct. A role reads it and writes nothing. */
struct pf_host {
    pf_peer peer;
    const pf_host_role *role;
    pf_host_config config; /* its info is the one below */
    pf_model_info info;
    pf_answer answer;
    pf_prepared_answers *prepared; /* by the role, which ends it: proposals that wait for their verdicts; or NULL */
    pf_arena arena;
    pf_host_sequence *sequences; /* [max_sequences] by slot */
    pf_timing told;              /* of the latest batch: what its sender measured of its own step */
    uint64_t n_submits;          /* batches that have been taken */
    pf_slot_list active;         /* that have had a message since they last needed nothing */
    uint64_t n_turns;            /* how often the role has been asked what a sequence needs */
    uint64_t read_ns;            /* what passes over prompts took, of the latest collect */
    int32_t next_prompt;         /* the slot of the next prompt */
    int32_t next_answer;         /* where an answer had no room for it, the slot of the next */
    bool prompts_are_due;        /* the last collect answered and read no prompt */
};

/* Makes a host of a role's struct, which comes from calloc. The host owns it from here on, and frees it also on failure. The caller ends the peer with pf_peer_destroy.
 * PF_INVALID: a limit of config is out of range (the sentence names it).  PF_NOMEM. */
PF_MUST_USE pf_status pf_host_create(pf_host *host, const pf_host_role *role, const pf_host_config *config,
                                     pf_peer **out, pf_error *error);

/* Of its model's peer (pf_peer_model). False: that is no host's, or there is none, and *out untouched. */
bool pf_host_get_figures(const pf_peer *peer, pf_model_figures *out);

/* NULL: the peer is no host's, or prepares nothing. */
pf_prepared_answers *pf_host_prepared(const pf_peer *peer);

/* Tokens of a sequence that its model has not read yet, right after its open: of the prompt those that were not in the cache.
 * -1: the peer is no host's, does not know, or has no such sequence. */
int32_t pf_host_unread(const pf_peer *peer, uint64_t sequence);

/* What the latest collect took for passes over prompts, of the time that its answer states. 0: the peer is no host's. */
uint64_t pf_host_read_ns(const pf_peer *peer);

/* Until when a drafter proposes nothing, by pf_host_now_ns; 0: it drafts, or the peer is no host's. */
uint64_t pf_host_rests_until_ns(const pf_peer *peer);

/* Bytes reserved for its sequences. 0: the peer is no host's. */
size_t pf_host_reserved_bytes(const pf_peer *peer);

/* By config.stop's clock. */
uint64_t pf_host_now_ns(const pf_host *host);

/* check_open of a drafter: PF_INVALID where max_draft, max_declared or n_excluded is out of range; and as pf_drafter_names_check, of the
 * names that its info offers. */
PF_MUST_USE pf_status pf_host_check_draft(const pf_host *host, const pf_open *open, pf_error *error);

/* Tokens that a proposal for `s` may have: what was asked for, what the context has room for, and one fewer than may still be
 * committed, but at least 1; 0: nothing is to be proposed. */
int32_t pf_host_draft_room(const pf_host *host, const pf_host_sequence *s);

/* Likewise, once n_committed tokens are committed. */
int32_t pf_host_draft_room_at(const pf_host *host, const pf_host_sequence *s, int32_t n_committed);

/* How long a sequence has had no message, where it is open, is not due and has had none for a second; else 0. The second keeps
 * sequences that all go on from taking a full cache from each other in every round. host: a pf_host. */
uint64_t pf_host_idle_ns(const void *host, int32_t slot);

/* Put the fences of the sequence's next proposal into *out: sequence, incarnation, round, base. */
void pf_host_begin_proposal(const pf_host *host, const pf_host_sequence *s, pf_proposal *out);

/* Answer a sequence that is due. tokens, parents and declared are borrowed until the next call on the peer. */
void pf_host_propose(pf_host *host, pf_host_sequence *s, const pf_proposal *proposal);

/* Likewise of a verifier: fills in the verdict's fences, and commits its tokens, which stand behind the committed ones. */
void pf_host_commit(pf_host *host, pf_host_sequence *s, pf_verdict verdict);

/* Refuse a sequence, and close it here. */
void pf_host_refuse(pf_host *host, pf_host_sequence *s, pf_status status, const char *text);

/* Room for the i-th token's draft distribution. */
static inline int32_t *pf_host_ids(const pf_host_sequence *s, int32_t i)
{
    return s->ids + (ptrdiff_t)i * PF_MAX_DECLARED;
}

static inline float *pf_host_probabilities(const pf_host_sequence *s, int32_t i)
{
    return s->probabilities + (ptrdiff_t)i * PF_MAX_DECLARED;
}

#endif
