/*
 * The words that a drafter and a verifier exchange, as plain C.
 *
 * Both services of pilotfish.proto speak one message, the batch; these are its parts. Whoever proposes and
 * whoever disposes, near or far, takes a batch and answers with a batch (proto/peer.h), so the generation loop
 * is the same for a drafter in this process, a worker on another host, and a verifier across the wire.
 *
 * A round, in the order of a sequence's life (E: whoever owns the request, P: its peer):
 *
 *      Drafter service: E engine, P worker                 Verifier service: E worker, P target
 *      E -> P  open      prompt, incarnation 1             E -> P  open
 *      E -> P  verdict   round 0, base = |prompt|, [t0]    P -> E  verdict   round 0, base = |prompt|, [t0]
 *      P -> E  proposal  round 1, base = |prompt|+1        E -> P  proposal  round 1, base = |prompt|+1
 *      E -> P  verdict   round 1, same base, tokens        P -> E  verdict   round 1, same base, tokens
 *      ...                                                 ...
 *      E -> P  close                                       E -> P  close
 *
 * The committed length is a sequence's number of tokens that the target has decided: prompt and verdicts. A
 * verdict moves it from base to base + n_tokens. A proposal of round r starts at the committed length after the
 * verdict of round r - 1; the verdict of round r answers it. (incarnation, sequence, round) fence: what does not
 * fit is stale and dropped. A peer that lacks a sequence, or part of it, sends a prefix request, and E opens the
 * sequence again with a higher incarnation and the committed tokens as the prompt.
 *
 * An open is always followed by the verdict of its next_round: a drafter waits for that verdict (an open alone never
 * asks for a proposal, it lets the drafter prefill early), a verifier answers with it. What P cannot take (no room,
 * a context too long) it answers with a refusal of that sequence. Within a batch the order of effect is: closes,
 * opens, then the rest.
 *
 * Ownership: token and probability arrays are borrowed; a decoded batch owns what its parts point to until it is
 * decoded into again (proto/codec.h).
 */
#ifndef PF_PROTO_MESSAGES_H
#define PF_PROTO_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sampling_parameters.h"
#include "base/status.h"

enum {
    PF_PROTOCOL_VERSION = 1,

    /* Limits on what a peer may send: larger than any use, small enough that a hostile batch stays cheap. */
    PF_MAX_BATCH_SEQUENCES = 256, /* entries of each kind in a batch */
    PF_MAX_DRAFT_TOKENS = 64,     /* tokens of a proposal, a tree's nodes included */
    PF_MAX_VERDICT_TOKENS = PF_MAX_DRAFT_TOKENS + 1,
    PF_MAX_DECLARED = 256,          /* ids of one declared distribution */
    PF_MAX_PROMPT_TOKENS = 1 << 20, /* tokens of an open */
    PF_MAX_STOP_TOKENS = 64,
    PF_MAX_EXCLUDED = 256,           /* ranges of ids in an open */
    PF_VOCAB_HASHES = 8192,          /* of a model info */
    PF_MAX_REFUSAL_BYTES = 255,      /* of a refusal's sentence, without its NUL */
    PF_MAX_MESSAGE_BYTES = 16 << 20, /* an encoded batch */
};

/* How a proposal is judged. */
typedef enum {
    PF_METHOD_GREEDY = 1,    /* temperature 0: argmax equality */
    PF_METHOD_REJECTION = 2, /* Leviathan et al. arXiv:2211.17192; needs declared distributions, else one-hot */
    PF_METHOD_BLOCK = 3,     /* Sun et al. arXiv:2403.10444 */
    PF_METHOD_COUPLED = 4,   /* shared Gumbel noise, arXiv:2408.07978; the only method that sends the seed */
} pf_method;

typedef enum { PF_FINISH_NONE = 0, PF_FINISH_LENGTH = 1, PF_FINISH_STOP = 2, PF_FINISH_EOS = 3 } pf_finish;

/* A sequence begins, or begins again after a prefix request. */
typedef struct {
    uint64_t sequence;     /* chosen by E, once on a stream (pf_peer_new_sequence) */
    uint32_t incarnation;  /* 1, and one more at every reopening */
    uint64_t next_round;   /* the round whose verdict comes next: 0, or later when reopened; below 2^63 */
    const int32_t *tokens; /* [n_tokens] the prompt; when reopened, all committed tokens (Verifier), or all but
                                 those of the verdict of next_round, which follows in the same batch (Drafter) */
    int32_t n_tokens;
    pf_sampling sampling; /* seed: to a far peer 0 unless the method is coupled */
    pf_method method;
    int32_t max_draft;          /* tokens that a proposal may have, 1 .. PF_MAX_DRAFT_TOKENS */
    int32_t max_declared;       /* ids that a declared distribution may have; 0: declare none */
    int32_t max_tokens;         /* the committed length at which E will close; 0 unknown */
    const int32_t *stop_tokens; /* [n_stop_tokens] the verifier finishes (eos) after committing one of these */
    int32_t n_stop_tokens;
    const int32_t
        *excluded;       /* [2 * n_excluded] ranges of ids that a drafter does not propose: first, one past the last;
                                  ascending, not empty, with a gap between */
    int32_t n_excluded;  /* 0 .. PF_MAX_EXCLUDED; 0: none is excluded */
    bool adaptive_draft; /* max_draft is a bound: the drafter chooses by what it measures */
    bool trees;          /* proposals may be trees: whoever disposes judges all of one, not its leading chain alone */
} pf_open;

typedef struct {
    uint64_t sequence;
} pf_close;

/* A draft distribution, truncated to its largest entries *before* the token was drawn: exactly what was sampled. */
typedef struct {
    const int32_t *ids;         /* [n] distinct */
    const float *probabilities; /* [n] positive, summing to 1 */
    int32_t n;
} pf_declared;

typedef struct {
    uint64_t sequence;
    uint32_t incarnation;
    uint64_t round;
    int32_t base;                /* the committed length that it continues */
    const int32_t *tokens;       /* [n_tokens] */
    int32_t n_tokens;            /* 0: decode plainly */
    const int32_t *parents;      /* [n_tokens] a tree, proto/tree.h; NULL: a chain */
    const pf_declared *declared; /* [n_tokens], or NULL: tokens only, judged as one-hot */
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
} pf_verdict;

/* "I do not have this sequence (any more): open it again." */
typedef struct {
    uint64_t sequence;
    uint32_t incarnation; /* the one that was addressed */
    int32_t known;        /* committed tokens that the sender still has; 0 none */
} pf_prefix_request;

/* "I cannot serve this sequence": it is too long, there are too many, a parameter is not spoken here. The
 * sequence is closed at the sender; others are unharmed. */
typedef struct {
    uint64_t sequence;
    uint32_t incarnation;
    pf_status status; /* PF_LIMIT, PF_INVALID or PF_UNSUPPORTED */
    const char *text; /* one sentence, NUL-terminated, at most PF_MAX_REFUSAL_BYTES; received: never empty */
} pf_refusal;

/* What the sender measured of its own step, so that the other can plan. Nanoseconds; 0 not measured. */
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

/* The texts of a model in this process, borrowed from it. token: the bytes of an id; NULL: the id has no token. */
typedef struct {
    const char *(*token)(const void *user, int32_t id, size_t *n_bytes);
    const void *user;
} pf_vocab_texts;

/* What a peer says of itself before the first batch. */
typedef struct {
    uint32_t protocol_version;
    char model_id[128];            /* its name; UTF-8, NUL-terminated */
    int32_t vocab_size;            /* tokens that exist, not the embedding's padding: what may be proposed */
    int32_t n_ids;                 /* rows of the embedding: what a text may hold; 0: as many as tokens */
    uint8_t vocab_fingerprint[32]; /* SHA-256, tokenizer/tokenizer.h; all zero: no tokenizer, only the size counts */
    const pf_vocab_texts *texts;   /* not on the wire; NULL: a peer across it, or no tokenizer */
    int32_t n_vocab_hashes;        /* 0, or as many as proto/vocabulary.h says; 0: it does not say */
    uint32_t vocab_hashes[PF_VOCAB_HASHES]; /* [n_vocab_hashes] of blocks of ids */
    int32_t max_context;                    /* tokens */
    int32_t max_sequences;
    int32_t max_draft;
    int32_t max_declared;
    uint32_t methods;  /* bit 1 << pf_method for each that is spoken */
    bool judges_trees; /* of a verifier: of greedy and coupled proposals */
    bool names_ends;   /* else it does not say what ends its texts */
    int32_t n_ends;
    int32_t ends[PF_MAX_STOP_TOKENS]; /* [n_ends]: any of them does; each an id of pf_model_ids */
} pf_model_info;

/* How many ids a text of the model may hold. */
static inline int32_t pf_model_ids(const pf_model_info *info)
{
    return info->n_ids > info->vocab_size ? info->n_ids : info->vocab_size;
}

enum { PF_FINGERPRINT_TEXT_BYTES = 2 * 32 + 1 };

/* Its vocabulary's fingerprint in hexadecimal digits. */
static inline void pf_model_print_fingerprint(const pf_model_info *info, char out[PF_FINGERPRINT_TEXT_BYTES])
{
    for (size_t i = 0; i < sizeof info->vocab_fingerprint; i++) {
        *out++ = "0123456789abcdef"[info->vocab_fingerprint[i] >> 4];
        *out++ = "0123456789abcdef"[info->vocab_fingerprint[i] & 15];
    }
    *out = '\0';
}

/* How many of the first tokens [n] a vocabulary of n_vocab has; n: it has all. */
static inline int32_t pf_count_known(const int32_t *tokens, int32_t n, int32_t n_vocab)
{
    int32_t i = 0;
    while (i < n && tokens[i] >= 0 && tokens[i] < n_vocab) i++;
    return i;
}

/* Whether a refusal of that incarnation is in the batch. */
static inline bool pf_batch_refuses(const pf_batch *batch, uint64_t sequence, uint32_t incarnation)
{
    for (int32_t i = 0; i < batch->n_refusals; i++)
        if (batch->refusals[i].sequence == sequence && batch->refusals[i].incarnation == incarnation) return true;
    return false;
}

#endif
