/*
 * Checks API keys against those of a file. The time of a check does not depend on the key that is presented, but for its length:
 * digests are compared, each of them whole.
 */
#ifndef PF_SERVE_API_KEYS_H
#define PF_SERVE_API_KEYS_H

#include <stdbool.h>

#include "base/status.h"

typedef struct pf_api_keys pf_api_keys;

/* A key a line; blank lines and those that begin with # are left out.
 * PF_UNAVAILABLE, PF_INVALID: as pf_file_read. PF_FORMAT: there is no key. PF_LIMIT: more than a MiB. PF_NOMEM. End it with
 * pf_api_keys_close. */
PF_MUST_USE pf_status pf_api_keys_open(const char *path, pf_api_keys **out, pf_error *error);
void pf_api_keys_close(pf_api_keys *keys); /* NULL is fine */

/* Whether the values of the headers Authorization ("Bearer KEY") or X-Api-Key (NULL: absent) have a key. */
bool pf_api_keys_allow(const pf_api_keys *keys, const char *authorization, const char *x_api_key);

#endif
