/*
 * Serves the HTTP API of a model until it is told to stop: the address, the connections, the API behind them, and the end.
 *
 * The end: new requests are refused, those that run are finished for a while, then what is left is cut off.
 */
#ifndef PF_SERVE_WEB_H
#define PF_SERVE_WEB_H

#include "serve/api.h"

typedef struct {
    pf_api_options api;
    const char *address;                     /* "host:port", "[ipv6]:port" (port 0: any) or "unix:/path" (mode 0600) */
    const char *certificate_file, *key_file; /* PEM, both or none: TLS */
    const volatile bool *stop;               /* set: serving ends */
    uint64_t drain_ns;                       /* for requests that run by then */
    bool (*ready)(void *user, const char *address); /* connections are accepted there; return false to end */
    void *user;
} pf_web_options;

/* On the calling thread, until *stop.
 * PF_INVALID: not an address; a certificate or a key that is none.  As pf_file_read of these files.  PF_UNAVAILABLE: it cannot be listened on.  PF_LIMIT: no threads or descriptors are left.  PF_NOMEM. */
PF_MUST_USE pf_status pf_web_serve(const pf_web_options *options, pf_error *error);

#endif
