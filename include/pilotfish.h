/*
 * pilotfish.h: load models, generate text with speculative decoding, and serve drafters and verifiers.
 *
 *      pf_engine      a loaded model with its tokenizer and threads
 *      pf_peer        a drafter or a verifier: an engine's role, a worker behind an address, or your own (pilotfish_peer.h)
 *      pf_hub         shares such peers between many sessions, each on its own thread
 *      pf_session     one verifier, at most one drafter, and the memory of one request at a time; it may keep a request's
 *                     sequence for the next one
 *      pf_generate    one request, on the caller's thread
 *      pf_generation  one request, on the session's thread, with a file descriptor for event loops
 *
 *      pf_engine_options options = PF_INIT(pf_engine_options);
 *      pf_session_options peers = PF_INIT(pf_session_options);
 *      pf_request request = PF_INIT(pf_request);
 *      pf_result result = PF_INIT(pf_result);
 *      pf_engine *target, *draft;
 *      pf_session *session;
 *      pf_error why;
 *      int32_t prompt[256], text[128];
 *      if (pf_engine_open("models/target", &options, &target, &why)) return fail(&why);
 *      options.threads_of = target;
 *      if (pf_engine_open("models/draft", &options, &draft, &why)) return fail(&why);
 *      if (pf_engine_verifier(target, NULL, &peers.verifier, &why)) return fail(&why);
 *      if (pf_engine_drafter(draft, NULL, &peers.drafter, &why)) return fail(&why);
 *      if (pf_session_create(&peers, &session, &why)) return fail(&why);
 *      ... fill in request.prompt and result.tokens ...
 *      if (pf_generate(session, &request, &result, &why)) return fail(&why);
 *
 * The text does not depend on the drafter: with the methods greedy and coupled it is bit for bit what plain decoding gives,
 * with rejection it has the same distribution. A drafter that is slow, gone or wrong costs speed only.
 *
 * Ownership. Each object is ended by its own function (close, destroy), in the opposite order of creation: a session borrows
 * its peers, a peer its engine, an engine with `threads_of` that other engine. Ending NULL does nothing. Strings and arrays in
 * options are borrowed for the call, unless the field says otherwise.
 *
 * Threads. An engine, the peers made of it and the sessions that use these belong to one thread at a time; with pf_generation
 * that is the session's own thread until the generation ends. Sessions on peers of a hub are independent of each other. Different
 * engines are independent, unless one uses the other's threads. A tokenizer may be used by any number of threads. Callbacks run on the thread that generates, and must not call
 * the objects they are called from. A flag (`cancel`, `stop`) may be set by any thread with __atomic_store_n(&flag, true,
 * __ATOMIC_RELAXED), or by a signal handler. The thread that opens an engine or generates computes, too, and may be pinned to
 * a CPU until its engines are closed.
 *
 * Errors. Functions that can fail return pf_status and list the causes. PF_NOMEM is possible wherever memory is allocated,
 * PF_INVALID wherever options have a wrong `size`, and neither is repeated below. The optional pf_error takes one sentence. The
 * library never prints and never exits. One exception cannot be handled: weights are read from mapped files, and a file
 * that shrinks while it is mapped raises SIGBUS.
 *
 * Versioning. `size` is the first member of each options struct; PF_INIT sets it. A smaller struct of an older header is
 * accepted. A larger one is accepted if what this version does not know is zero, else it is PF_INVALID. Zero is the default
 * of every field. The soname changes when the ABI does.
 */
#ifndef PILOTFISH_H
#define PILOTFISH_H

#include "pilotfish_peer.h"

/* A zeroed options struct with its size set. */
#ifdef __cplusplus
template <class T> inline T pf_init_()
{
    T zeroed = T();
    zeroed.size = sizeof(T);
    return zeroed;
}
#define PF_INIT(type) (pf_init_<type>())
extern "C" {
#else
#define PF_INIT(type) ((type){ .size = sizeof(type) })
#endif

/* ---- version ------------------------------------------------------------------------------------------------------ */

#define PF_API_VERSION_MAJOR 0
#define PF_API_VERSION_MINOR 1
#define PF_API_VERSION_PATCH 0

const char *pf_version(void); /* of the library: "0.1.0" */

/* Whether a feature can be used: "onednn" and "cuda" where the library was built with them, "openmp" where the process has a
 * runtime loaded, or the system's can be, which this does. False for an unknown name. */
bool pf_has_feature(const char *name);

/* ---- tokenizer ---------------------------------------------------------------------------------------------------- */

typedef struct pf_tokenizer pf_tokenizer;

/* Open the tokenizer of a model alone: PATH is a directory with tokenizer.json, or with tokenizer.model, a tiktoken file or
 * vocab.json and merges.txt where that is absent, or a GGUF file. An engine has its tokenizer already. End it with
 * pf_tokenizer_close; NULL is fine.
 * PF_UNAVAILABLE: there is none.  PF_UNSUPPORTED: there is only a form that is not read (vocab.txt, ...).  PF_INVALID: it cannot
 * be read, or its path is too long.  PF_FORMAT, PF_UNSUPPORTED: the sentence names file, field and value.  PF_LIMIT: a file or a
 * pattern is too long, or processing the file's own tokens takes too long.  PF_NOMEM. */
PF_MUST_USE pf_status pf_tokenizer_open(const char *path, pf_tokenizer **out, pf_error *error);
void pf_tokenizer_close(pf_tokenizer *tokenizer);

/* The ids of text [n_bytes]. *n_ids is how many there are; the first `capacity` of them are written. Call again with a larger
 * array where *n_ids > capacity. with_special: also what the tokenizer adds by default (BOS and the like).
 * PF_UNSUPPORTED: the text holds what the vocabulary has no token for.  PF_LIMIT: it is too long.  PF_UNAVAILABLE: tokenizer is
 * NULL, as that of an engine without one. */
PF_MUST_USE pf_status pf_tokenize(const pf_tokenizer *tokenizer, const char *text, size_t n_bytes, bool with_special,
                                  int32_t *ids, size_t capacity, size_t *n_ids, pf_error *error);

/* Ids to text as they come: the exact bytes, which need not be UTF-8 and may end inside a character. */
typedef struct pf_text pf_text;

/* The text that follows prompt [n_prompt] (NULL and 0: a whole text): what a decoder does to the start of a text, such as
 * stripping a space, it does to the prompt. The tokenizer is borrowed. End it with pf_text_destroy.
 * PF_LIMIT: as pf_text_push. */
PF_MUST_USE pf_status pf_text_create(const pf_tokenizer *tokenizer, const int32_t *prompt, int32_t n_prompt,
                                     pf_text **out);
void pf_text_destroy(pf_text *text);

/* What the next id adds: *bytes [*n_bytes], borrowed until the next call. pf_text_finish: what was held back until no id
 * follows.  PF_INVALID: the id is not in the vocabulary; nothing has changed.  PF_LIMIT: the tokenizer's decoder makes the
 * token longer than a MiB. */
PF_MUST_USE pf_status pf_text_push(pf_text *text, int32_t id, const char **bytes, size_t *n_bytes);
PF_MUST_USE pf_status pf_text_finish(pf_text *text, const char **bytes, size_t *n_bytes);

/* ---- engine ------------------------------------------------------------------------------------------------------- */

typedef struct pf_engine pf_engine;

/* Formats and implementations are named by the words of the command line; NULL is "auto". `pilotfish generate --help` and
 * docs/library.md list them, and an unknown word is PF_INVALID with the list. */
enum { PF_KV_BY_MEMORY = -1 }; /* pf_engine_options.kv_sequences */

typedef struct {
    size_t size;
    const char *dtype;       /* weights: f32, f16, bf16, int8, int4, ... */
    const char *activations; /* f32, bf16, int8 */
    const char *kv_dtype;    /* f32, bf16 */
    const char *head;        /* LM head: full, bounded; a draft's may be screened */
    const char *gemm;        /* own, onednn */
    const char *isa;         /* scalar, avx2, avx512, avx512bf16, amx; auto: the best of this machine */
    int32_t n_threads;       /* 0: one for each of `cores`, else as many as the cores there are */
    const char *threading;   /* own; openmp: the threads of the OpenMP runtime that the process has loaded */
    const int32_t *cores;    /* [n_cores] CPUs to pin threads to; not with openmp, which pins its threads itself */
    int32_t n_cores;
    pf_engine *threads_of; /* run on this engine's threads, in turn; borrowed until this engine is closed */
    bool serves;           /* another process of this machine waits for this one: the caller takes the last core */
    int32_t max_context;   /* tokens; 0: the model's, at most 4096 */
    int32_t max_sequences; /* open at once; 0: 1 */
    int32_t max_draft;     /* tokens of a proposal; 0: 16 */
    bool strict;           /* refuse keys of config.json and tensors that are not read; else `warn` reports them */
    const volatile bool *cancel; /* set: opening ends with PF_CANCELLED */
    void (*progress)(void *user, size_t done_bytes, size_t total_bytes);
    void (*warn)(void *user, const char *sentence); /* what was ignored in the model's files */
    void *user;                                     /* of both */
    int32_t
        kv_sequences; /* of max_context tokens that the KV cache has pages for, which all sequences share; where they are full,
                             the sequence that has been idle longest, a second at least, is read again when it goes on. 0: max_sequences, at most 8; PF_KV_BY_MEMORY: as many as
                             take a quarter of the memory that the weights leave, 8 at least, max_sequences at most */
    const char *backend; /* where the model runs: cpu; cuda: the first GPU, with weights and cache in BF16 */
    bool
        draft_ahead; /* a drafter drafts for likely outcomes while its proposals are verified: as a server, and beside a far verifier.
                         It takes pages and tables of the KV cache for up to 64 branches */
    int32_t
        draft_branches; /* of draft_ahead: outcomes of a sequence that are drafted for, at most; 0: 16, and 64 of all sequences */
} pf_engine_options;

/* Load a model directory. A model without tokenizer.json, or with one that is not supported, loads all the same; its tokenizer
 * is then NULL. options NULL: all default. End it with pf_engine_close.
 * PF_UNAVAILABLE: no such model, or a file is missing.  PF_FORMAT: a file is malformed.  PF_UNSUPPORTED: an architecture,
 * format or instruction set that is not there, or with `strict` what would be a warning.  PF_LIMIT: more than memory.  PF_INVALID: an option is out of range.
 * PF_CANCELLED.  PF_INTERNAL: the machine's topology or threads cannot be set up. */
PF_MUST_USE pf_status pf_engine_open(const char *model, const pf_engine_options *options, pf_engine **out,
                                     pf_error *error);
void pf_engine_close(pf_engine *engine);

const pf_tokenizer *pf_engine_tokenizer(const pf_engine *engine); /* borrowed; NULL: none */
const char *pf_engine_tokenizer_refusal(const pf_engine *engine); /* why it is not supported; NULL: it is, or absent */
void pf_engine_info(const pf_engine *engine, pf_model_info *out); /* vocabulary, context, limits */

/* What was chosen. Strings are static. */
typedef struct {
    size_t size; /* set by the caller; what lies beyond it is not written */
    const char *dtype, *activations, *kv_dtype, *isa;
    int32_t n_threads;
    int64_t n_parameters;
    uint64_t weight_bytes; /* packed in memory */
    uint64_t step_bytes;   /* of weights that one decode step reads */
    uint64_t kv_bytes;     /* reserved for the context */
} pf_engine_details;

/* PF_INVALID: out->size. */
PF_MUST_USE pf_status pf_engine_describe(pf_engine *engine, pf_engine_details *out, pf_error *error);

/* ---- metrics ------------------------------------------------------------------------------------------------------ */

/* Figures of a server, printed in Prometheus' text format: counters, gauges and histograms under the names that vLLM uses
 * (docs/metrics.md). Given to pf_serve_options or pf_hub_options, and read by any thread meanwhile. */
typedef struct pf_metrics pf_metrics;

/* End it with pf_metrics_destroy, after whatever it was given to. PF_NOMEM. */
PF_MUST_USE pf_status pf_metrics_create(pf_metrics **out);
void pf_metrics_destroy(pf_metrics *metrics);

/* The text, without a NUL. *n_bytes is its length; the first `capacity` bytes of it are written. The next text may be longer.
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_metrics_print(pf_metrics *metrics, char *out, size_t capacity, size_t *n_bytes);

/* ---- peers -------------------------------------------------------------------------------------------------------- */

typedef struct {
    size_t size;
    uint64_t simulate_ns;  /* a drafter's pass, or a verification, takes at least so long, as a larger model's would */
    int32_t simulate_rows; /* of a drafter: a pass of n rows takes max(1, n / simulate_rows) times as long; 0: once */
    const volatile bool
        *stop; /* set: a drafter proposes nothing more, a verifier ends requests with PF_CANCELLED; borrowed
                                  for the peer's life */
    bool
        no_prefix_cache; /* read every prompt, also where an open or a closed sequence has begun with the same tokens */

    /* Of a drafter whose model has pard_token (PARD, arXiv:2504.18583): a proposal is drafted in "1" pass, in "2", or in "k", one a token.
     * NULL, "auto": by what is measured. Of other models "auto" and "k" alone. */
    const char *draft_passes;

    /* Of a drafter: the directory, or GGUF file, of the tokenizer of its targets, where that is not the model's own. The drafter then
     * speaks that vocabulary and proposes what both have (arXiv:2502.05202). NULL: the model's own. */
    const char *target_tokenizer;

    /* Of a verifier, for benchmarks: the i-th draft token of a proposal is accepted with probability synthetic_acceptance[i] where those
     * before it are, whatever the tokens are, so the text is not the model's. [64], borrowed for the peer's life; may change between
     * requests. NULL: proposals are judged. */
    const float *synthetic_acceptance;
} pf_role_options;

/* The engine's model as a verifier or as a drafter; one role for each engine. options NULL: all default. End with
 * pf_peer_destroy, before the engine.
 * PF_INVALID: the engine has a role already; a verifier's LM head is screened. */
PF_MUST_USE pf_status pf_engine_verifier(pf_engine *engine, const pf_role_options *options, pf_peer **out,
                                         pf_error *error);
PF_MUST_USE pf_status pf_engine_drafter(pf_engine *engine, const pf_role_options *options, pf_peer **out,
                                        pf_error *error);

/* Any drafter of this process, or several as one peer, by the words of the command line:
 *
 *      model     the draft's model (NULL)
 *      ngram     what followed the latest tokens when they occurred last in the text
 *      suffix    what followed them most often, in the text and in outputs of earlier requests
 *      cascade   of suffix and model, round by round, the one that is expected to commit more in its time
 *
 * Of several, "model,suffix", a request chooses (pf_request.drafter); the first is the default. They share the draft's model, and one corpus.
 */
typedef struct {
    size_t size;
    const char *drafter;
    pf_engine
        *draft; /* where one is model or cascade: plays its one role here, and the lookups are for its vocabulary */
    const pf_role_options *role; /* likewise; NULL: all default */
    pf_peer *verifier;           /* of ngram and suffix alone: whose texts are looked up */
    int32_t max_sequences;       /* likewise: of these at once; 0: as many as the verifier has, 1 where it is far */

    /* Of suffix and cascade: memory for outputs of earlier requests, the oldest of which are evicted. 0: none are kept; else at least 65536. */
    uint64_t suffix_corpus_bytes;
} pf_drafter_options;

/* End it with pf_peer_destroy, before the engine. PF_INVALID: an unknown word, or one twice, or an engine, a verifier or a size that the drafter
 * needs or does not take; and as pf_engine_drafter. Else as pf_peer_info of the verifier. */
PF_MUST_USE pf_status pf_drafter_create(const pf_drafter_options *options, pf_peer **out, pf_error *error);

/* The drafter `ngram` for this verifier. */
PF_MUST_USE pf_status pf_ngram_drafter_for(pf_peer *verifier, pf_peer **out, pf_error *error);

typedef struct {
    size_t size;
    bool
        must_answer; /* of a drafter: fail where none answers. Else it is connected when it does, and decoding is plain */
    const volatile bool *cancel; /* set: connecting ends with PF_CANCELLED */
} pf_connect_options;

/* A worker or a verifier at "host:port" or "unix:/path". A peer that restarts is reconnected within a second of its return.
 * gRPC starts threads: the process must not fork without exec afterwards. options NULL: all default.
 * PF_INVALID: not an address.  PF_UNAVAILABLE: nothing answers (a verifier within 15 s; a drafter within 2 s, with
 * must_answer).  PF_FORMAT: another service answers.  PF_UNSUPPORTED: another version of the protocol.  PF_CANCELLED. */
PF_MUST_USE pf_status pf_connect_drafter(const char *address, const pf_connect_options *options, pf_peer **out,
                                         pf_error *error);
PF_MUST_USE pf_status pf_connect_verifier(const char *address, const pf_connect_options *options, pf_peer **out,
                                          pf_error *error);

/* For programs that ask a drafter without a session, as adapters to other engines do: whether its vocabulary fits the target's, and
 * the ranges of ids for pf_open.excluded (docs/protocol.md, "Vocabularies that differ"). target: vocab_size and texts are read, of
 * pf_model_info, and vocab_fingerprint, n_vocab_hashes and model_id where they are set. *warning is a sentence where the two differ and
 * fit all the same, else empty.
 * PF_INVALID: they share less than 90 % of their ids, or it cannot be told which they share; the sentence says in what they differ. */
PF_MUST_USE pf_status pf_vocabulary_match(const pf_model_info *drafter, const pf_model_info *target,
                                          int32_t excluded[2 * PF_MAX_EXCLUDED], int32_t *n_excluded, pf_error *warning,
                                          pf_error *error);

/* PF_INVALID: not an address, or port 0 where nothing is to listen. */
PF_MUST_USE pf_status pf_check_address(const char *address, bool listens, pf_error *error);

/* PF_ROLE_NGRAM_DRAFTER: PF_ROLE_DRAFTER with the drafter `ngram`. */
typedef enum { PF_ROLE_DRAFTER = 0, PF_ROLE_VERIFIER = 1, PF_ROLE_NGRAM_DRAFTER = 2 } pf_role;

typedef struct {
    size_t size;
    pf_role role;
    const char *address; /* "host:port", "[ipv6]:port" (port 0: any) or "unix:/path" (mode 0600) */
    uint64_t simulate_ns;
    int32_t simulate_rows;                          /* both as in pf_role_options */
    const volatile bool *stop;                      /* set: serving ends within a fraction of a second; NULL: never */
    bool (*ready)(void *user, const char *address); /* connections are accepted there; return false to end */
    void (*log)(void *user, const char *line);      /* one event; from any thread */
    void *user;
    bool no_prefix_cache;               /* as in pf_role_options */
    int32_t max_sequences, max_context; /* of a drafter without a model: as in pf_engine_options; 0: 256, and 32768 */
    pf_metrics *metrics;                /* counts what is served; borrowed; NULL: nothing is counted */
    const char
        *drafter; /* of PF_ROLE_DRAFTER: as in pf_drafter_options; ngram and suffix alone serve every vocabulary */
    uint64_t suffix_corpus_bytes; /* likewise; outputs are kept for the stream that they came from, and for no other */
    const char *draft_passes;     /* as in pf_role_options */
    const char *target_tokenizer; /* as in pf_role_options */
} pf_serve_options;

/* Serve the engine's model as a worker (drafter) or a verifier until *stop. Takes the engine's one role and gives it back. engine is
 * NULL for a drafter without a model alone.
 * PF_UNAVAILABLE: the address cannot be listened on.  PF_INVALID: not an address, or as pf_engine_verifier.  PF_LIMIT: too
 * little memory for messages.  PF_INTERNAL: no random bytes.  Besides, what the role fails with as a whole. */
PF_MUST_USE pf_status pf_engine_serve(pf_engine *engine, const pf_serve_options *options, pf_error *error);

/* ---- hub ---------------------------------------------------------------------------------------------------------- */

/* Lets sessions on many threads share the peers of this process: the hub's own thread computes, and batches what has arrived. */
typedef struct pf_hub pf_hub;

typedef struct {
    size_t size;
    pf_peer *verifier;        /* of this process; used by the hub alone until pf_hub_destroy; required */
    pf_peer *drafter;         /* likewise; NULL: none */
    const char *draft_worker; /* address of a worker, instead of a drafter: pf_hub_drafter then connects, and the worker
                                 batches what its connections ask for */
    int32_t max_sequences;    /* open at once; 0: as many as the peers take */
    int32_t max_waiting; /* opens that wait for a place, in order of arrival; further ones are refused with PF_LIMIT.
                                 0: 256; -1: none may wait */
    uint64_t gather_ns;  /* a pass waits for sequences that have just been answered, until none of them has gone on
                                 for so long, at most a second; 0: 200 us */
    void (*warn)(void *user, const char *sentence); /* on the hub's thread: logits are NaN, ... */
    void *user;
    pf_metrics *metrics; /* counts what the verifier is asked and answers; borrowed; NULL: the hub's own */
} pf_hub_options;

/* Start the hub's thread. The engines of the peers are computed by it: nothing else may use them meanwhile.
 * PF_INVALID: no verifier, or one behind an address; a drafter and a draft_worker; a number is out of range.  PF_LIMIT: the
 * thread cannot be started. Besides, as pf_peer_info of the peers. */
PF_MUST_USE pf_status pf_hub_create(const pf_hub_options *options, pf_hub **out, pf_error *error);

/* Ends the thread. The hub's peers have been destroyed before. */
void pf_hub_destroy(pf_hub *hub);

/* A verifier, or a drafter, for one session: each follows one sequence at a time. These functions may be called by any thread;
 * the peer itself belongs to the session's. End it with pf_peer_destroy, after the session: what it has open is closed.
 * Of a drafter: PF_UNSUPPORTED: the hub has none. With draft_worker as pf_connect_drafter, without must_answer. */
PF_MUST_USE pf_status pf_hub_verifier(pf_hub *hub, pf_peer **out, pf_error *error);
PF_MUST_USE pf_status pf_hub_drafter(pf_hub *hub, pf_peer **out, pf_error *error);

/* From any thread, and at once: new sequences are refused with PF_UNAVAILABLE, those that are open go on for grace_ns, and
 * then end with PF_CANCELLED. A second call may shorten the time. */
void pf_hub_stop(pf_hub *hub, uint64_t grace_ns);

/* What has been done since the hub was created. */
typedef struct {
    size_t size;                              /* set by the caller; what lies beyond it is not written */
    int32_t n_running, n_waiting;             /* sequences of the verifier: open, and waiting for a place */
    int64_t n_sequences;                      /* that have been opened */
    int64_t prompt_tokens, cached_tokens;     /* of their prompts; those that were in the cache */
    int64_t new_tokens;                       /* committed behind the prompts */
    int64_t drafts, drafted, accepted;        /* proposals that were verified, their tokens, and those accepted */
    int64_t accepted_to[PF_MAX_DRAFT_TOKENS]; /* proposals whose tokens 0 .. i were all accepted */
    int64_t passes, rows;                     /* forward passes of the verifier's model, and rows of them */
    int64_t draft_passes, draft_rows;         /* of the drafter's */
    int64_t pages, used_pages;                /* of the verifier's cache; 0: not known */
    int64_t invalid_rows;                     /* of logits, of both models: they held NaN or infinity */
} pf_hub_figures;

/* From any thread. PF_INVALID: out->size. */
PF_MUST_USE pf_status pf_hub_get_figures(pf_hub *hub, pf_hub_figures *out, pf_error *error);

/* ---- session ------------------------------------------------------------------------------------------------------ */

typedef struct pf_session pf_session;

typedef struct {
    size_t size;
    pf_peer *verifier;                              /* borrowed for the session's life; required */
    pf_peer *drafter;                               /* borrowed likewise; NULL: plain decoding */
    int32_t max_context;                            /* tokens of a request, prompt included; 0: the verifier's */
    uint64_t verdict_limit_ns;                      /* a far verifier that is silent for longer is gone; 0: 60 s */
    uint64_t return_limit_ns;                       /* how long one that is gone may take to come back; 0: 5 s */
    void (*warn)(void *user, const char *sentence); /* a drafter is lost, back or unfit; logits are NaN; ... */
    void *warn_user;
} pf_session_options;

/* Where the vocabularies differ and fit, the drafter proposes only ids that are equal, and a warning says what differs. A far
 * drafter that does not answer, or does not fit, is a warning.
 * PF_INVALID: no verifier; max_context is not 0 to PF_MAX_PROMPT_TOKENS; fewer than 90 % of the ids of the two vocabularies
 * are equal.  PF_UNAVAILABLE: the verifier was never reached. */
PF_MUST_USE pf_status pf_session_create(const pf_session_options *options, pf_session **out, pf_error *error);
void pf_session_destroy(pf_session *session); /* after its generations, before its peers */

/* ---- generation --------------------------------------------------------------------------------------------------- */

typedef struct {
    size_t size;
    const int32_t *prompt; /* [n_prompt] at least one token */
    int32_t n_prompt;
    int32_t max_new_tokens; /* 0: as many as the context, and result->capacity, have room for */
    pf_sampling sampling;   /* zeroed: greedy */
    pf_method method;
    int32_t draft_len;          /* tokens of a proposal, 1 .. PF_MAX_DRAFT_TOKENS; 0: the drafter chooses */
    const int32_t *stop_tokens; /* [n_stop_tokens] ids that end the text; NULL: those of the verifier's model */
    int32_t n_stop_tokens;
    bool ignore_eos;             /* the ids of the verifier's model do not end the text */
    const volatile bool *cancel; /* looked at in every round; set: PF_CANCELLED, with what was made so far */

    /* Now and then while a verifier of this process reads the prompt. */
    void (*on_prompt)(void *user, int32_t n_read);

    /* For each committed token, in order; `drafted`: it was proposed and accepted. Return false to end with
     * PF_FINISH_STOP: the token is kept, nothing after it is. */
    bool (*on_token)(void *user, int32_t token, bool drafted);
    void *user; /* of these, and of on_logprobs */

    /* The peers keep the sequence after this request, so that the next request of the session computes only what its prompt
     * does not share with the tokens of this one: the turns of a chat. The text does not depend on it. The sequence counts as
     * open (pf_engine_options.max_sequences) until a request that does not keep it has ended, or the session. Not with rules.allow,
     * which is not called once the request has ended. */
    bool keep_sequence;

    bool no_speculation; /* the session's drafter is not asked */

    /* Whose text it is, where a process serves many: a drafter that keeps earlier outputs proposes them to requests of the same
     * client alone. A worker takes each connection for a client of its own. */
    uint64_t client;

    pf_logit_rules rules; /* penalties, biases, min_tokens, allowed tokens; n_prompt is not read: the prompt is */

    /* Log-probabilities: 0: none; 1 + n: of each committed token, and of the n likeliest there, up to
     * PF_MAX_LOGPROBS. on_logprobs is called with them, before on_token of the same token; what it points to is borrowed for the
     * call. They cost a pass over the logits of each token, and change no text. */
    int32_t logprobs;
    void (*on_logprobs)(void *user, const pf_token_logprobs *logprobs);

    pf_typical typical; /* thresholds of PF_METHOD_TYPICAL; zeroed: those of the paper's code */

    /* Which of the session's drafters proposes, by the names of pf_model_info.drafters; NULL, empty: the first. What a far drafter does not
     * offer costs speed alone where it was not there yet when the request began. */
    const char *drafter;

    /* Trees. 0: as the drafter's method and measurements have it. 1 .. PF_MAX_SIBLINGS: where a model's tokens are drawn (rejection, block,
     * traversal above temperature 0) so many others beside each, a proposal having draft_len * (1 + siblings) tokens at most;
     * PF_SIBLINGS_THAT_PAY: as many as pay, with draft_len 0, and under coupled second choices that do. PF_NO_SIBLINGS:
     * proposals are chains, under every method. */
    int32_t siblings;
} pf_request;

enum { PF_RPC_SAMPLES = 4096 };

/* Figures of one request, or of many added up. */
typedef struct {
    int64_t rounds;                           /* target passes that verified a proposal */
    int64_t fallback_rounds;                  /* passes after prefill without one */
    int64_t drafted, accepted;                /* drafted: of a tree, along its longest path; accepted: and kept */
    int64_t branches;                         /* other tokens of trees */
    int64_t reached[PF_MAX_DRAFT_TOKENS];     /* proposals longer than i */
    int64_t accepted_to[PF_MAX_DRAFT_TOKENS]; /* of those, tokens 0 .. i all accepted */
    uint64_t draft_ns, verify_ns;             /* compute, as each side measured it */
    uint32_t rpc_us[PF_RPC_SAMPLES];          /* a ring: round trip less the peer's compute */
    int64_t n_rpc;                            /* samples ever taken */
    int64_t ahead_hits, ahead_misses;         /* of drafting ahead */
    int64_t draft_passes;                     /* of the draft, for proposals that were sent; 0: not stated */
    uint32_t hit_us[PF_RPC_SAMPLES]; /* a ring of ahead_hits: from the verdict to the proposal, drafting included */
} pf_speculation;

typedef struct {
    size_t size;      /* at least that of version 0.1 */
    int32_t *tokens;  /* [capacity] the caller's array: new tokens, a closing EOS included; NULL: not wanted */
    int32_t capacity; /* at least max_new_tokens, unless tokens is NULL */
    int32_t n_tokens;
    pf_finish finish; /* PF_FINISH_NONE when cancelled or failed */
    uint64_t prefill_ns, first_token_ns, decode_ns;
    int64_t invalid_rows; /* of logits, of peers in this process: they held NaN or infinity, and pf_session_options.warn
                             was told */
    int64_t
        reused_tokens; /* of the prompt: the verifier had read them in a kept sequence, that of a hub in any; -1: a far one,
                              which does not say */
    char drafter[PF_DRAFTER_NAME_BYTES]; /* whose proposals the request asked for; empty: none, or it has no name */
    uint64_t reserved[4];
    pf_speculation speculation;
} pf_result;

/* Run one request on the calling thread. *result is filled in also on failure, with what was committed before.
 * PF_INVALID: the prompt is empty, holds an id that does not exist, or fills the context; a parameter or a rule is out of range; the
 * session has a generation under way.  PF_CANCELLED.  PF_UNAVAILABLE: a far verifier is gone or silent for too long.
 * PF_FORMAT: its verdict does not fit.  PF_UNSUPPORTED: it does not support the method, or rules; the drafter is not offered.  PF_LIMIT: the verifier has no room.
 * Besides, what a peer fails with as a whole. */
PF_MUST_USE pf_status pf_generate(pf_session *session, const pf_request *request, pf_result *result, pf_error *error);

/* A request on the session's own thread. Requests of one session run in the order in which they were started. */
typedef struct pf_generation pf_generation;

/* Start a request; what it points to is copied, except `cancel` and `user`. End it with pf_generation_destroy. Failures of the
 * request itself come from pf_generation_finish.  PF_LIMIT: no file descriptor or thread is left. */
PF_MUST_USE pf_status pf_generation_start(pf_session *session, const pf_request *request, pf_generation **out,
                                          pf_error *error);

/* Readable (poll, epoll) while tokens or the end wait to be taken. Owned by the generation; do not read or close it. */
int pf_generation_fd(const pf_generation *generation);

/* Take up to `capacity` tokens that have been made; never blocks. drafted [capacity] or NULL. Returns how many; 0: none now. */
int32_t pf_generation_read(pf_generation *generation, int32_t *tokens, bool *drafted, int32_t capacity);

/* Whether the request has ended and all its tokens have been read. */
bool pf_generation_ended(const pf_generation *generation);

/* Ask the request to end early, from any thread. The end comes as usual, with PF_CANCELLED. */
void pf_generation_cancel(pf_generation *generation);

/* Wait for the end. Returns the status of the request, as pf_generate; the figures go to *result (NULL: not wanted), whose
 * `tokens`, where given, takes all tokens of the request.  PF_INVALID: result->size or capacity is too small. */
PF_MUST_USE pf_status pf_generation_finish(pf_generation *generation, pf_result *result, pf_error *error);

/* Cancels the request if it is under way, and waits for its end. */
void pf_generation_destroy(pf_generation *generation);

/* ---- quantize ----------------------------------------------------------------------------------------------------- */

typedef struct {
    size_t size;
    const char *dtype;    /* f32, f16, bf16, int8, int4, ...; required */
    int32_t n_threads;    /* as in pf_engine_options */
    const int32_t *cores; /* [n_cores] */
    int32_t n_cores;
    bool strict; /* as in pf_engine_options */
    const volatile bool *cancel;
    void (*progress)(void *user, size_t done_bytes, size_t total_bytes);
    void (*warn)(void *user, const char *sentence);
    void *user;                             /* of both */
    void (*writing)(const char *directory); /* a temporary directory is being written; NULL: no longer. A signal handler
                                               may have to remove it */
} pf_quantize_options;

typedef struct {
    uint64_t bytes_before, bytes_after; /* of all tensors in the files */
    int32_t n_tensors;
} pf_quantize_result;

/* Rewrite the model directory with its weights rounded to another format; `output` appears whole or not at all. *result may be
 * NULL.
 * PF_INVALID: dtype is missing or not one that files hold; output exists.  PF_CANCELLED.  Else as pf_engine_open, and
 * PF_UNAVAILABLE where the output cannot be written. */
PF_MUST_USE pf_status pf_quantize(const char *model, const char *output, const pf_quantize_options *options,
                                  pf_quantize_result *result, pf_error *error);

#ifdef __cplusplus
}
#endif

#endif
