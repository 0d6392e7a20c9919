/*
 * Serves GET /metrics and GET /health on an address of its own, for a process whose service is no HTTP.
 *
 * A thread of its own accepts and replies, so a scrape neither waits for a pass nor delays one.
 */
#ifndef PF_SERVE_METRICS_ENDPOINT_H
#define PF_SERVE_METRICS_ENDPOINT_H

#include "metrics/metrics.h"
#include "serve/http_server.h"

typedef struct pf_metrics_endpoint pf_metrics_endpoint;

/* Listens at "host:port" (port 0: any) or "unix:/path" (mode 0600). The metrics are borrowed. End it with
 * pf_metrics_endpoint_destroy.
 * PF_INVALID: not an address.  PF_UNAVAILABLE: it cannot be listened on.  PF_LIMIT, PF_NOMEM: no thread or memory. */
PF_MUST_USE pf_status pf_metrics_endpoint_create(const char *address, pf_metrics *metrics, pf_metrics_endpoint **out,
                                                 pf_error *error);
void pf_metrics_endpoint_destroy(pf_metrics_endpoint *endpoint); /* NULL is fine */

/* Where it listens, the port filled in. Belongs to the endpoint. */
const char *pf_metrics_endpoint_address(const pf_metrics_endpoint *endpoint);

/* Replies with the metrics: 200, or 500 where there is no memory. */
void pf_metrics_reply(pf_metrics *metrics, pf_http_exchange *exchange);

#endif
