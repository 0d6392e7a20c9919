/*
 * Serves HTTP by libmicrohttpd: requests come whole, replies leave whole or as a stream, made on any thread.
 *
 *      pf_http_server_run (the owner's thread): accept, libmicrohttpd -> check, handle (that thread, must not block)
 *                                                                          |  pf_http_retain
 *      reply, or stream and end (any thread) <-----------------------------+
 *
 * While a reply is not there, its connection is suspended and takes no time. Bounds: connections, the bytes of headers and of a
 * body, the time for headers and a body, the time a connection may be idle. Where all connections are taken, a new one closes
 * the one that has been idle longest.
 *
 * An exchange is a request and its reply. Its `gone` flag is set once the client has closed its connection, which is looked for
 * while the reply is awaited.
 */
#ifndef PF_SERVE_HTTP_SERVER_H
#define PF_SERVE_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "rpc/listener/sockets.h"

typedef struct pf_http_server pf_http_server;
typedef struct pf_http_exchange pf_http_exchange;

typedef struct {
    const pf_sockets *sockets; /* borrowed for the server's life */
    int32_t max_connections;
    size_t max_body_bytes;
    const char *certificate, *key; /* PEM, both or none: TLS; borrowed for the server's life */
    uint64_t request_ns;           /* for the headers and the body to come, and for a connection to be idle */

    /* The headers are there. It replies where the body is not wanted, such as for a wrong key; else it does nothing. */
    void (*check)(void *user, pf_http_exchange *exchange);

    /* The request is there. It replies, or retains the exchange for a thread that will. */
    void (*handle)(void *user, pf_http_exchange *exchange);
    void *user;

    /* Bodies of the replies that the server makes itself: 408 and 413. Static. */
    const char *content_type, *timeout_body, *too_long_body;
} pf_http_options;

/* PF_INVALID: the certificate and the key are none, or do not belong together.  PF_UNSUPPORTED: libmicrohttpd has no TLS.
 * PF_LIMIT: libmicrohttpd does not start, for want of memory or descriptors. End it with pf_http_server_destroy. */
PF_MUST_USE pf_status pf_http_server_create(const pf_http_options *options, pf_http_server **out, pf_error *error);

/* Serves for `wait_ms`: accepts connections, reads requests, writes replies, and closes connections whose time is over. One
 * thread, the owner's, calls it in a loop. */
void pf_http_server_run(pf_http_server *server, int32_t wait_ms);

/* Exchanges whose reply has not left whole. */
int32_t pf_http_server_pending(pf_http_server *server);

/* Closes all connections: clients are gone, and replies that are still made go nowhere. */
void pf_http_server_stop(pf_http_server *server);

/* Stops it, where that has not been done. An exchange that is retained outlives it. NULL is fine. */
void pf_http_server_destroy(pf_http_server *server);

/* ---- the request: from `check` and `handle` on, until it is released ------------------------------------------- */

const char *pf_http_method(const pf_http_exchange *exchange);
const char *pf_http_path(const pf_http_exchange *exchange);
const char *pf_http_body(const pf_http_exchange *exchange, size_t *n_bytes);

/* In `check` and `handle` only. NULL: there is none. Borrowed. */
const char *pf_http_header(const pf_http_exchange *exchange, const char *name);

void pf_http_retain(pf_http_exchange *exchange);
void pf_http_release(pf_http_exchange *exchange);
const volatile bool *pf_http_gone(const pf_http_exchange *exchange); /* valid while it is retained */

/* ---- the reply: once; any thread -------------------------------------------------------------------------------- */

/* The whole of it; the bytes are copied. What cannot be sent for want of memory closes the connection. */
void pf_http_reply(pf_http_exchange *exchange, int32_t status, const char *content_type, const char *body,
                   size_t n_bytes);

/* A header of the reply, before it. name: static. At most PF_HTTP_MAX_HEADERS; a value is cut at PF_HTTP_HEADER_BYTES - 1. */
enum { PF_HTTP_MAX_HEADERS = 6, PF_HTTP_HEADER_BYTES = 256 };
void pf_http_add_header(pf_http_exchange *exchange, const char *name, const char *value);

/* A reply in pieces: begin, any number of sends, end. A send never waits: what the client has not taken is kept. */
void pf_http_begin_stream(pf_http_exchange *exchange, const char *content_type);
void pf_http_send(pf_http_exchange *exchange, const char *bytes, size_t n_bytes);
void pf_http_end_stream(pf_http_exchange *exchange);
size_t pf_http_unsent_bytes(pf_http_exchange *exchange);

#endif
