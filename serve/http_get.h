/*
 * Reads one document over HTTP/1.0: what `pilotfish top` asks of a server.
 *
 * Bounds: the bytes of the answer, and the time for all of it.
 */
#ifndef PF_SERVE_HTTP_GET_H
#define PF_SERVE_HTTP_GET_H

#include "base/bytes.h"
#include "base/status.h"

enum { PF_HTTP_GET_MAX_BYTES = 8 << 20 };

/* GET `path` from "host:port" or "unix:/path" into *body, which the caller ends with pf_bytes_clear.
 * PF_INVALID: not an address.  PF_UNAVAILABLE: nothing answers there in time, or with another status than 200.  PF_FORMAT: it is not
 * HTTP.  PF_LIMIT: the answer is too long.  PF_NOMEM. */
PF_MUST_USE pf_status pf_http_get(const char *address, const char *path, uint64_t timeout_ns, pf_bytes *body,
                                  pf_error *error);

#endif
