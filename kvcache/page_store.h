/*
 * The store of attention layers: keys and values in pages, shared between forked sequences until one side writes.
 *
 * It fulfils store.h for every length: any length is reachable. kvcache.h draws the pages; pf_kv_config has the fields.
 */
#ifndef PF_KVCACHE_PAGE_STORE_H
#define PF_KVCACHE_PAGE_STORE_H

#include "kvcache/kvcache.h"

typedef struct pf_page_store pf_page_store;

/* As pf_kv_page_bytes, pf_kv_create and pf_kv_populate. The store is ended by its `destroy`. */
size_t pf_page_store_page_bytes(const pf_kv_config *config);
PF_MUST_USE pf_status pf_page_store_create(const pf_kv_config *config, pf_page_store **out, pf_error *error);
void pf_page_store_populate(const pf_page_store *pages, pf_team *team);

/* The same store behind the contract. */
pf_store pf_page_store_as_store(pf_page_store *pages);

/* [pages of the sequence] where a layer's keys or values lie. Borrowed until the next mutation. */
void *const *pf_page_store_keys(const pf_page_store *pages, int32_t place, int32_t layer);
void *const *pf_page_store_values(const pf_page_store *pages, int32_t place, int32_t layer);

const pf_kv_config *pf_page_store_config(const pf_page_store *pages);
size_t pf_page_store_free_pages(const pf_page_store *pages);

#endif
