/*
 * Asks a Pilotfish worker for drafts, for the texts of an engine that runs the target itself: one batch a step for all texts.
 *
 *      pfd_options options = { .address = "unix:/run/pilotfish.sock", .n_texts = 4, .max_draft = 8, ... };
 *      pfd_client *client;
 *      if (pfd_connect(&options, &client, &why)) return fail(&why);
 *      each step:
 *          pfd_row rows[] = { { .text = 0, .tokens = committed, .n_tokens = n, .last = sampled, .max_draft = 8 }, ... };
 *          pfd_draft(client, rows, n_rows);
 *          ... verify rows[i].draft [rows[i].n_draft] by the target ...
 *
 * The rules are those of docs/protocol.md, "A minimal client, step by step". What is kept of a text is what the worker was told: a row whose
 * tokens continue it costs one verdict, any other row opens the text again. Drafts are greedy chains: the target accepts a
 * token where it is the one that it samples.
 *
 * A worker that is gone, late or refuses leaves drafts empty. A step waits at most wait_ns, and not at all for a worker that was silent in the
 * step before, until it answers or UNANSWERED_NS have passed.
 *
 * Uses include/pilotfish.h alone. C11, usable from C++. One client belongs to one thread at a time.
 */
#ifndef PFD_WORKER_DRAFTS_H
#define PFD_WORKER_DRAFTS_H

#include <pilotfish.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfd_client pfd_client;

typedef struct {
    const char *address;
    int32_t n_texts;   /* at once: 1 .. PF_MAX_BATCH_SEQUENCES */
    int32_t max_draft; /* 1 .. PF_MAX_DRAFT_TOKENS */
    bool adaptive;     /* max_draft is a bound: the worker chooses the length by measured times */
    uint64_t wait_ns;  /* the most that a step waits for drafts; 0: 250 ms */

    /* The target's vocabulary, for as long as pfd_connect runs: `token` gives the bytes of an id, NULL where there is no such token. A
     * byte-level token is the bytes that its text stands for. */
    int32_t vocab_size;
    pf_vocab_texts texts;

    void (*warn)(void *user, const char *sentence); /* once for each kind of trouble; on the thread that drafts */
    void *user;
} pfd_options;

/* One text in a step: tokens [n_tokens], then `last`, are committed. */
typedef struct {
    int32_t text; /* 0 .. n_texts - 1, each once in a step */
    const int32_t *tokens;
    int32_t n_tokens; /* 1 or more */
    int32_t last;
    int32_t max_draft; /* that this step has room for; at most PF_MAX_DRAFT_TOKENS count */

    int32_t n_draft; /* written: 0 .. max_draft */
    int32_t draft[PF_MAX_DRAFT_TOKENS];
} pfd_row;

/* What was drafted since the client connected. */
typedef struct {
    int64_t n_steps, n_drafted, n_accepted;
    int64_t n_opens, n_late, n_told; /* told: tokens sent in opens and verdicts */
    uint64_t wait_ns;                /* in pfd_draft */
} pfd_figures;

/* Connects and compares the vocabularies. End it with pfd_close.
 * PF_INVALID: not an address, an option is out of range, or the vocabularies share less than 90 % of their ids.  PF_UNAVAILABLE: no
 * worker answers.  PF_FORMAT: another service does.  PF_UNSUPPORTED: another version of the protocol.  PF_NOMEM. */
pf_status pfd_connect(const pfd_options *options, pfd_client **out, pf_error *error);
void pfd_close(pfd_client *client); /* NULL is fine */

/* Fills in n_draft and draft of rows [n_rows, at most n_texts]. Never fails: what does not come is empty. */
void pfd_draft(pfd_client *client, pfd_row *rows, int32_t n_rows);

/* Counts tokens of a draft that the target accepted. The worker hears of them with the tokens that follow. */
void pfd_accept(pfd_client *client, int32_t n_accepted);

/* The text is over: the worker frees its place. row: all of it, for the worker's own figures of the last round; NULL: these are left out. */
void pfd_end_text(pfd_client *client, int32_t text, const pfd_row *row);

void pfd_get_figures(const pfd_client *client, pfd_figures *out);

#ifdef __cplusplus
}
#endif

#endif
