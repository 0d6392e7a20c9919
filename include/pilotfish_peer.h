/*
 * pilotfish_peer.h: the peer interface and the messages that drafters and verifiers exchange.
 *
 * Include this header to write a drafter or a verifier of your own, or to talk to one without a session. Programs that only
 * generate need pilotfish.h, which includes this one.
 *
 * A peer takes batches of messages and answers with batches. A model drafter, a reference verifier, a worker behind gRPC and
 * an implementation of yours are all peers, so the generation loop does not know which of them it talks to.
 *
 * The rounds of a sequence (E: the side that owns the request, P: its peer):
 *
 *      a drafter: E engine, P drafter                      a verifier: E engine or worker, P target
 *      E -> P  open      prompt, incarnation 1             E -> P  open
 *      E -> P  verdict   round 0, base = |prompt|, [t0]    P -> E  verdict   round 0, base = |prompt|, [t0]
 *      P -> E  proposal  round 1, base = |prompt|+1        E -> P  proposal  round 1, base = |prompt|+1
 *      E -> P  verdict   round 1, same base, tokens        P -> E  verdict   round 1, same base, tokens
 *      ...                                                 ...
 *      E -> P  close                                       E -> P  close
 *
 * The committed length of a sequence is the number of tokens that the target has decided: the prompt and all verdicts. A
 * verdict moves it from base to base + n_tokens. The proposal of round r starts at the committed length after the verdict of
 * round r - 1, and the verdict of round r answers it. (sequence, incarnation, round) fence: a message that does not fit is
 * stale and is dropped. A peer that lacks a sequence, or part of it, sends a prefix request; E then opens the sequence again
 * with a higher incarnation and all committed tokens as the prompt. E may also open it again for its next request, at round 0 with
 * another prompt, so that P keeps what both share.
 *
 * An open is always followed by the verdict of its next_round. A drafter waits for that verdict: an open alone lets it read
 * the prompt early. A verifier answers an open with that verdict. A peer that cannot serve a sequence answers with a refusal
 * of it. Within a batch, closes take effect first, then opens, then the rest.
 *
 * Ownership: arrays in messages are borrowed, in `submit` for the call, in an answer until the next call on the peer.
 * Threads: a peer has one caller at a time.
 * Versioning: messages are plain structs, fixed within one soname. A message that is zeroed before it is filled in stays
 * valid when a field is added.
 */
#ifndef PILOTFISH_PEER_H
#define PILOTFISH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status and error --------------------------------------------------------------------------------------------- */

/* Out-parameters are untouched unless the status is PF_OK. */
typedef enum {
    PF_OK = 0,
    PF_INVALID,     /* an argument is outside the documented range */
    PF_FORMAT,      /* a file or a message is malformed */
    PF_NOMEM,       /* the system refused memory */
    PF_LIMIT,       /* a budget that was fixed at creation is used up; try later or smaller */
    PF_UNSUPPORTED, /* well-formed, but not implemented here */
    PF_UNAVAILABLE, /* a peer, a file or a device is not there (now) */
    PF_CANCELLED,   /* a cancel flag was set, or a deadline passed */
    PF_INTERNAL,    /* a fault of the library */
} pf_status;

#if defined(__GNUC__)
#define PF_MUST_USE __attribute__((warn_unused_result))
#else
#define PF_MUST_USE
#endif

/* "ok", "invalid", "format", ...: a static string. */
const char *pf_status_name(pf_status status);

/* One sentence that names what failed, where, the value found and what was expected. Every function that takes one accepts
 * NULL. */
typedef struct {
    pf_status status;
    char text[512]; /* NUL-terminated UTF-8 without a line end; a longer sentence is cut in its middle */
} pf_error;

/* CLOCK_MONOTONIC in nanoseconds: the time of all deadlines. */
uint64_t pf_now_ns(void);

/* ---- sampling ----------------------------------------------------------------------------------------------------- */

/* From logits to a distribution, in transformers' order: temperature, top-k, top-p, min-p, typical-p. All zero is greedy. */
typedef struct {
    float temperature; /* 0: greedy; the fields below are then checked and unused */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 0 or 1: off */
    float min_p;       /* 0: off */
    float typical_p;   /* locally typical sampling (Meister et al. arXiv:2202.00666); 0 or 1: off */
    uint64_t seed;
} pf_sampling;

/* Which tokens may come next, for grammars: sets bit id % 32 of mask[id / 32] for each of them, of ids below n_ids; mask is zero before.
 * The text so far is the prompt, then the generated tokens text [n_text], which only grow, then those of a proposal, path [n_path],
 * which are tried and may never come. Called for each row of logits that decides a token, of the target and of a drafter of the same
 * process, by the thread that computes; the answer depends on the tokens alone. Where no bit is set the request ends with PF_UNSUPPORTED. */
typedef void (*pf_allow_tokens)(void *user, const int32_t *text, int32_t n_text, const int32_t *path, int32_t n_path,
                                uint32_t *mask, int32_t n_ids);

/* What is done to a row of the target's logits before the temperature, in this order, by the tokens before it. All zero: nothing.
 * A drafter that is told of it drafts by it; one that is not costs acceptance only. */
typedef struct {
    const int32_t *bias_ids; /* [n_biases] distinct */
    const float *biases;     /* [n_biases] added to the logits of these ids; minus infinity: never chosen */
    int32_t n_biases;        /* 0 .. PF_MAX_LOGIT_BIASES */
    int32_t min_tokens;      /* stop tokens are not chosen before so many tokens are generated */
    float
        repetition_penalty; /* logits of ids that the text has, prompt included, are divided by it where they are positive,
                                 multiplied where not (Keskar et al. arXiv:1909.05858, section 4.1); 0 or 1: off */
    float frequency_penalty; /* subtracted as often as the id has been generated; -2 .. 2 */
    float presence_penalty;  /* subtracted once where it has; -2 .. 2 */
    int32_t n_prompt;        /* tokens at the sequence's begin that count as prompt, not as generated; by the session */
    pf_allow_tokens allow;   /* others are never chosen; NULL: all may be. Not on the wire: of peers of this process */
    void *allow_user;
} pf_logit_rules;

enum { PF_MAX_LOGPROBS = 20 };

/* Natural logarithms of the softmax of the row that decided a token: of the target's logits, changed by the rules of the request, before
 * temperature and filters. */
typedef struct {
    int32_t token;
    float logprob;
    int32_t n_top; /* the likeliest tokens, in falling order, ties to the lowest id; `token` need not be one of them */
    int32_t top[PF_MAX_LOGPROBS];        /* [n_top] */
    float top_logprobs[PF_MAX_LOGPROBS]; /* [n_top] */
} pf_token_logprobs;

/* How a proposal is verified. */
typedef enum {
    PF_METHOD_AUTO = 0,      /* of a request: greedy at temperature 0, else rejection; never in a message */
    PF_METHOD_GREEDY = 1,    /* temperature 0: equality with the argmax */
    PF_METHOD_REJECTION = 2, /* Leviathan et al. arXiv:2211.17192; needs draft distributions, else one-hot */
    PF_METHOD_BLOCK = 3,     /* Sun et al. arXiv:2403.10444 */
    PF_METHOD_COUPLED = 4,   /* shared Gumbel noise, arXiv:2408.07978; the only method that sends the seed */
    PF_METHOD_TYPICAL =
        5, /* typical acceptance, Cai et al. arXiv:2401.10774: the one lossy method, never chosen by auto */
    PF_METHOD_TRAVERSAL = 6, /* Weng et al. arXiv:2505.12398: block verification of trees */
} pf_method;

/* Of PF_METHOD_TYPICAL: a draft token x is accepted where p(x) > min(epsilon, delta * exp(-H(p))), p being the target's distribution
 * with the request's temperature and filters, H its entropy in nats. */
typedef struct {
    float epsilon; /* above 0 to 1; 0: 0.09 */
    float delta;   /* above 0 to 1; 0: 0.3 */
} pf_typical;

typedef enum { PF_FINISH_NONE = 0, PF_FINISH_LENGTH = 1, PF_FINISH_STOP = 2, PF_FINISH_EOS = 3 } pf_finish;

/* ---- messages ----------------------------------------------------------------------------------------------------- */

enum {
    PF_PROTOCOL_VERSION = 1,

    /* Limits on what a peer may send. */
    PF_MAX_BATCH_SEQUENCES = 256, /* entries of each kind in a batch */
    PF_MAX_OPEN_SEQUENCES = 4096, /* of a peer of this process */
    PF_MAX_DRAFT_TOKENS = 64,     /* tokens of a proposal, all nodes of a tree included */
    PF_MAX_VERDICT_TOKENS = PF_MAX_DRAFT_TOKENS + 1,
    PF_NO_DRAFT = -1,               /* pf_verdict.next_draft */
    PF_MAX_SIBLINGS = 4,            /* of a drafted token */
    PF_SIBLINGS_THAT_PAY = 5,       /* pf_open.siblings */
    PF_NO_SIBLINGS = -1,            /* pf_request.siblings */
    PF_MAX_DECLARED = 256,          /* ids of one draft distribution */
    PF_MAX_PROMPT_TOKENS = 1 << 20, /* tokens of an open */
    PF_MAX_STOP_TOKENS = 64,
    PF_MAX_LOGIT_BIASES = 1024,
    PF_MAX_EXCLUDED = 256,           /* ranges of ids in an open */
    PF_VOCAB_HASHES = 8192,          /* of a model info */
    PF_MAX_REFUSAL_BYTES = 255,      /* of a refusal's sentence, without its NUL */
    PF_MAX_DRAFTERS = 8,             /* of a model info */
    PF_DRAFTER_NAME_BYTES = 16,      /* of a drafter's name, with its NUL */
    PF_MAX_MESSAGE_BYTES = 16 << 20, /* an encoded batch */
};

/* A sequence begins, or begins again after a prefix request. */
typedef struct {
    uint64_t sequence;     /* chosen by E, once per stream (pf_peer_new_sequence) */
    uint32_t incarnation;  /* 1, and higher at every reopening */
    uint64_t next_round;   /* the round whose verdict comes next: 0, or later when reopened; below 2^63 */
    const int32_t *tokens; /* [n_tokens] the prompt; when reopened, all committed tokens (to a verifier), or all but
                              those of the verdict of next_round, which follows in the same batch (to a drafter) */
    int32_t n_tokens;
    pf_sampling sampling; /* seed: to a far peer 0 unless the method is coupled */
    pf_method method;
    int32_t max_draft;          /* most tokens of a proposal, 1 .. PF_MAX_DRAFT_TOKENS */
    int32_t max_declared;       /* most ids of a draft distribution; 0: send none */
    int32_t max_tokens;         /* the committed length at which E will close; 0 unknown */
    const int32_t *stop_tokens; /* [n_stop_tokens] the verifier finishes (eos) after committing one of these */
    int32_t n_stop_tokens;
    const int32_t *excluded; /* [2 * n_excluded] ranges that a drafter does not propose: first id, one past the last */
    int32_t n_excluded;      /* 0 .. PF_MAX_EXCLUDED */
    bool adaptive_draft;     /* max_draft is a bound: the drafter chooses the length by what it measures */
    bool trees; /* proposals may be trees: the verifier judges all of a tree, not its leading chain alone */
    /* Not on the wire: a server numbers its streams, a process says whose request it is. A drafter looks texts up for the client that they came
     * from, and for no other. */
    uint64_t client;
    pf_logit_rules rules;
    int32_t logprobs;   /* to a verifier: as pf_request.logprobs */
    pf_typical typical; /* to a verifier */
    char drafter
        [PF_DRAFTER_NAME_BYTES]; /* to a drafter: the one of pf_model_info.drafters that is to propose; empty: the first */
    int32_t
        siblings; /* to a drafter, where trees are allowed and it draws tokens from what it declares: 1 .. PF_MAX_SIBLINGS: so many are
                           drawn beside each token, as far as max_draft has room; PF_SIBLINGS_THAT_PAY: as many as pay, and under coupled
                           second choices that do; 0: none */
} pf_open;

typedef struct {
    uint64_t sequence;
} pf_close;

/* A draft distribution, truncated to its largest entries before the token was drawn: exactly what was sampled from. */
typedef struct {
    const int32_t *ids;         /* [n] distinct */
    const float *probabilities; /* [n] positive, summing to 1 */
    int32_t n;
} pf_declared;

/* Of a proposal: whether its first tokens were drafted before the verdict that it follows. */
typedef enum {
    PF_AHEAD_NONE = 0, /* nothing was drafted ahead, or it is not stated */
    PF_AHEAD_HIT = 1,  /* for the outcome that the verdict had */
    PF_AHEAD_MISS = 2, /* for other outcomes */
} pf_ahead;

typedef struct {
    uint64_t sequence;
    uint32_t incarnation;
    uint64_t round;
    int32_t base;                /* the committed length that it continues */
    const int32_t *tokens;       /* [n_tokens] */
    int32_t n_tokens;            /* 0: decode plainly */
    const int32_t *parents;      /* [n_tokens] a tree: parents[i] < i is the node before i, -1 the committed text;
                                    NULL: a chain */
    const pf_declared *declared; /* [n_tokens] draft distributions; NULL: tokens only, judged as one-hot */
    pf_ahead ahead;              /* what drafting ahead found */
    int32_t passes;              /* of the draft, since the verdict; 0: not stated */
} pf_proposal;

typedef struct {
    uint64_t sequence;
    uint32_t incarnation;
    uint64_t round;
    int32_t base;          /* the committed length before */
    const int32_t *tokens; /* [n_tokens] committed since base: the accepted ones, then the correction or bonus */
    int32_t n_tokens;
    int32_t n_accepted; /* of the round's proposal */
    pf_finish finish;
    int32_t
        next_draft; /* to a drafter: the most tokens of the next proposal, at most the open's max_draft counts; 0: as
                                    opened; PF_NO_DRAFT: none is wanted before the next verdict */
    uint32_t
        propose_within_us; /* to a drafter: when the next proposal is of no use any more: it is cut short to be in time, to
                                    nothing if need be; 0: no limit */
    const pf_token_logprobs *logprobs; /* [n_tokens] of a verifier, where the open wants them; else NULL */
} pf_verdict;

/* "I do not have this sequence (any more): open it again." */
typedef struct {
    uint64_t sequence;
    uint32_t incarnation; /* the one that was addressed */
    int32_t known;        /* committed tokens that the sender still has; 0 none */
} pf_prefix_request;

/* "I cannot serve this sequence": it is too long, there are too many, a parameter is not supported. The sequence is closed
 * at the sender; others are not affected. */
typedef struct {
    uint64_t sequence;
    uint32_t incarnation;
    pf_status status; /* PF_LIMIT, PF_INVALID or PF_UNSUPPORTED */
    const char *text; /* one sentence, NUL-terminated, at most PF_MAX_REFUSAL_BYTES; received: never empty */
} pf_refusal;

/* What the sender measured of its own step. Nanoseconds; 0 not measured. */
typedef struct {
    uint64_t compute_ns; /* inside forward passes and acceptance */
    uint64_t queue_ns;   /* from arrival to the start of compute */
} pf_timing;

typedef struct {
    pf_open *opens;
    pf_close *closes;
    pf_proposal *proposals;
    pf_verdict *verdicts;
    pf_prefix_request *prefix_requests;
    pf_refusal *refusals;
    /* each 0 .. PF_MAX_BATCH_SEQUENCES */
    int32_t n_opens, n_closes, n_proposals, n_verdicts, n_prefix_requests, n_refusals;
    pf_timing timing;
} pf_batch;

/* The tokens of a model in this process, borrowed from it. token: the bytes of an id; NULL: the id has no token. */
typedef struct {
    const char *(*token)(const void *user, int32_t id, size_t *n_bytes);
    const void *user;
} pf_vocab_texts;

/* A peer's description of itself. */
typedef struct {
    uint32_t protocol_version;
    char model_id[128];            /* its name; UTF-8, NUL-terminated */
    int32_t vocab_size;            /* tokens that exist, not the embedding's padding: what may be proposed */
    int32_t n_ids;                 /* rows of the embedding: what a text may hold; 0: as many as tokens */
    uint8_t vocab_fingerprint[32]; /* SHA-256 of the vocabulary; all zero: no tokenizer, only the size counts */
    const pf_vocab_texts *texts;   /* not on the wire; NULL: a far peer, or no tokenizer */
    int32_t n_vocab_hashes;        /* as many as the vocabulary has blocks of ids; 0: not stated */
    uint32_t vocab_hashes[PF_VOCAB_HASHES]; /* [n_vocab_hashes] of blocks of ids (docs/protocol.md) */
    int32_t max_context;                    /* tokens */
    int32_t max_sequences;
    int32_t max_draft;
    int32_t max_declared;
    uint32_t methods;  /* bit 1 << pf_method for each that is supported; 0: not stated */
    bool judges_trees; /* of a verifier: under every method */
    bool names_ends;   /* `ends` is stated */
    int32_t n_ends;
    int32_t ends[PF_MAX_STOP_TOKENS]; /* [n_ends] ids that end a text (EOS) */
    bool any_vocabulary; /* of a drafter that proposes tokens of the text itself: it fits every vocabulary */
    bool applies_rules;  /* it takes the pf_logit_rules of an open: a session sends none to a verifier that does not */
    bool applies_typical_p; /* likewise pf_sampling.typical_p */
    bool gives_logprobs;    /* of a verifier: it answers pf_open.logprobs */

    /* Of a drafter: the names that an open may have, letters, digits, '-' and '_'; the first is the default. None: it has one, and does not
     * name it. */
    char drafters[PF_MAX_DRAFTERS][PF_DRAFTER_NAME_BYTES]; /* [n_drafters] */
    int32_t n_drafters;
    bool draws_siblings; /* of a drafter: it takes pf_open.siblings */
} pf_model_info;

/* Rows of logits that hold NaN or plus infinity: the model is damaged, or its arithmetic overflows. A NaN is never chosen. */
typedef struct {
    int64_t n_rows;         /* 0: none, and the rest means nothing */
    int32_t first_position; /* of the token behind which the first of them stands: its index in its sequence */
    int32_t first_id;       /* the lowest id there whose logit is invalid */
} pf_invalid_logits;

/* ---- peers -------------------------------------------------------------------------------------------------------- */

typedef struct pf_peer pf_peer;

/* What a peer implements. Operations marked optional may be NULL. */
typedef struct {
    size_t size; /* sizeof(pf_peer_ops); 0: the operations of version 0.1 */

    /* Take a batch. What it points to is borrowed for the call only. Several batches may be submitted before a collect;
     * each has at most one answer, and one that asks for nothing (an open alone, a close) may have none. The refusals and
     * prefix requests for all of them come in the next answer: of more than PF_MAX_BATCH_SEQUENCES of a kind, the first.
     * PF_UNAVAILABLE: the peer is not there now (pf_peer_why gives the reason); it may come back.  PF_LIMIT: the batch is
     * too large, or too many are unanswered. */
    pf_status (*submit)(pf_peer *peer, const pf_batch *batch);

    /* The next answer, waiting until deadline_ns (pf_now_ns time; 0: do not wait). A peer of this process may compute here,
     * whatever the deadline. *out is borrowed until the next call on this peer. An empty answer means that the peer is
     * still at work.
     * PF_CANCELLED: nothing came in time, or nothing is to come.  PF_UNAVAILABLE: the peer is gone, and all it knew with
     * it: reopen sequences when it is back. A failure of one sequence comes as a refusal in the answer; another status
     * here is a failure of the whole peer. */
    pf_status (*collect)(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error);

    /* What the peer says of itself. PF_UNAVAILABLE: never reached. */
    pf_status (*info)(pf_peer *peer, pf_model_info *out, pf_error *error);

    void (*destroy)(pf_peer *peer);

    /* Optional. The reason behind the last PF_UNAVAILABLE of submit; its status is PF_UNSUPPORTED where another service
     * answers at the address. */
    void (*why)(pf_peer *peer, pf_error *out);

    /* Optional. How many tokens of prompts the peer has still to read. */
    int32_t (*backlog)(const pf_peer *peer);

    /* Optional. Whether a later collect will answer for a sequence. */
    bool (*owes)(const pf_peer *peer, uint64_t sequence);

    /* Optional. What makes an open impossible to serve, whatever else is open: the status and the sentence of the refusal
     * that its submit would bring. */
    pf_status (*check_open)(const pf_peer *peer, const pf_open *open, pf_error *error);

    /* Optional. The invalid rows of logits that its model has given since the last call, over all sequences. A session and
     * a server warn of them. */
    void (*take_invalid_logits)(pf_peer *peer, pf_invalid_logits *out);

    /* Optional. One pass of what the next messages may ask for, while nothing is due; false: there is nothing left to compute until
     * then. The latest answer stays as it is. */
    bool (*work_ahead)(pf_peer *peer);

    /* Optional. Of a peer that stands before others the one that has a model, borrowed: whose passes and cache are counted. NULL: none has. */
    const pf_peer *(*model)(const pf_peer *peer);
} pf_peer_ops;

/* The first member of every implementation. Zero it, set ops, and is_far where answers may come late or never. */
struct pf_peer {
    const pf_peer_ops *ops;
    uint64_t last_sequence; /* the last id given out by pf_peer_new_sequence; 0: none */
    bool is_far;            /* a session waits for it for a bounded time and goes on without it */
};

/* Call an operation. pf_peer_why leaves *out untouched where the peer gives no reason; pf_peer_backlog is -1, pf_peer_owes
 * true, pf_peer_check_open PF_OK, pf_peer_take_invalid_logits zero, pf_peer_work_ahead false and pf_peer_model the peer itself where the peer does not implement
 * them. pf_peer_destroy takes NULL. */
PF_MUST_USE pf_status pf_peer_submit(pf_peer *peer, const pf_batch *batch);
PF_MUST_USE pf_status pf_peer_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error);
PF_MUST_USE pf_status pf_peer_info(pf_peer *peer, pf_model_info *out, pf_error *error);
void pf_peer_why(pf_peer *peer, pf_error *out);
int32_t pf_peer_backlog(const pf_peer *peer);
bool pf_peer_owes(const pf_peer *peer, uint64_t sequence);
PF_MUST_USE pf_status pf_peer_check_open(const pf_peer *peer, const pf_open *open, pf_error *error);
void pf_peer_take_invalid_logits(pf_peer *peer, pf_invalid_logits *out);
bool pf_peer_work_ahead(pf_peer *peer);
const pf_peer *pf_peer_model(const pf_peer *peer);
void pf_peer_destroy(pf_peer *peer);

/* An id for a sequence that neither peer has seen before, so that an answer to a closed sequence is never taken for another
 * one's. b may be NULL. */
uint64_t pf_peer_new_sequence(pf_peer *a, pf_peer *b);

#ifdef __cplusplus
}
#endif

#endif
