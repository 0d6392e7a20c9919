/*
 * Which pages of a device's cache each sequence has, with exact rollback. On the host alone: the device gets the tables and a list
 * of moves.
 *
 * As pf_kv (kvcache/kvcache.h): sequences share pages after a fork, and a page that is shared is copied before one of them writes
 * into it. A copy, and what pf_page_tables_keep moves, is a list of pairs of slots, page * PF_PAGE_TOKENS + position in it, that are
 * copied in their order, in all layers, before the next pass.
 *
 * An extension is first made, then committed or undone: undone, the sequence has the length and the pages it had.
 *
 * Threads: one. Nothing is allocated after creation.
 */
#ifndef PF_VERIFY_PAGE_TABLES_H
#define PF_VERIFY_PAGE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { PF_PAGE_TOKENS = 32 };

typedef struct pf_page_tables pf_page_tables;

typedef struct {
    int32_t max_sequences;
    int32_t max_tokens; /* of a sequence */
    int32_t n_pages;
    int32_t max_rows; /* of an extension: bounds the moves of a call */
    int32_t *tables;  /* [max_sequences, pf_page_tables_width] where the tables are kept; borrowed */
} pf_page_tables_config;

/* Pages of the longest sequence. */
int32_t pf_page_tables_width(int32_t max_tokens);

/* PF_NOMEM. The caller ends it with pf_page_tables_destroy. */
PF_MUST_USE pf_status pf_page_tables_create(const pf_page_tables_config *config, pf_page_tables **out, pf_error *error);
void pf_page_tables_destroy(pf_page_tables *tables); /* NULL is fine */

/* As the functions of pf_forward_ops. */
PF_MUST_USE pf_status pf_page_tables_acquire(pf_page_tables *tables, int64_t *out);
PF_MUST_USE pf_status pf_page_tables_fork(pf_page_tables *tables, int64_t sequence, int32_t length, int64_t *out);
void pf_page_tables_release(pf_page_tables *tables, int64_t sequence);
int32_t pf_page_tables_length(const pf_page_tables *tables, int64_t sequence); /* -1: not acquired */
PF_MUST_USE pf_status pf_page_tables_truncate(pf_page_tables *tables, int64_t sequence, int32_t length);
PF_MUST_USE pf_status pf_page_tables_keep(pf_page_tables *tables, int64_t sequence, int32_t length, const int32_t *rows,
                                          int32_t n_rows);

/* Room for n more tokens. PF_LIMIT: no pages, or beyond max_tokens; nothing has changed. Then commit or undo, once. */
PF_MUST_USE pf_status pf_page_tables_extend(pf_page_tables *tables, int64_t sequence, int32_t n);
void pf_page_tables_commit(pf_page_tables *tables, int64_t sequence);
void pf_page_tables_undo(pf_page_tables *tables, int64_t sequence);

/* The row of `tables` that an acquired sequence has. */
int32_t pf_page_tables_place(int64_t sequence);

/* Whether the row has changed since the last call that asked. */
bool pf_page_tables_take_change(pf_page_tables *tables, int32_t place);
void pf_page_tables_mark_changed(pf_page_tables *tables, int32_t place);

/* Moves that are to be made, [*n][2]; and that they have been made. */
const int32_t *pf_page_tables_moves(const pf_page_tables *tables, int32_t *n);
void pf_page_tables_clear_moves(pf_page_tables *tables);

/* Whether the list has room for another call of extend or keep. */
bool pf_page_tables_has_room(const pf_page_tables *tables);

int32_t pf_page_tables_free_pages(const pf_page_tables *tables); /* for tests */

/* How many pairs of moves there may be at once. */
int32_t pf_page_tables_capacity(const pf_page_tables *tables);

#endif
