#include "serve/metrics_endpoint.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/address.h"

enum { RUN_MS = 50, MAX_CONNECTIONS = 16, MAX_BODY_BYTES = 1024, REQUEST_S = 10 };

static const char plain_type[] = "text/plain; charset=utf-8";
static const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";

struct pf_metrics_endpoint {
    pf_metrics *metrics;
    pf_address address;
    pf_sockets sockets;
    bool listens;
    char text[PF_MAX_ADDRESS_BYTES + 16];
    pf_http_server *http;
    pthread_t thread;
    bool has_thread;
    volatile bool stop;
};

/* ---- replies ---------------------------------------------------------------------------------------------------- */

/* The text grows while it is printed, where a series is added: then it is printed again. NULL: no memory. */
static char *print(pf_metrics *metrics, size_t *n_bytes)
{
    char *text = NULL;
    for (size_t capacity = 0;; capacity = *n_bytes) {
        char *larger = realloc(text, capacity > 0 ? capacity : 1);
        if (larger) text = larger;
        if (!larger || pf_metrics_print(metrics, text, capacity, n_bytes) != PF_OK) {
            free(text);
            return NULL;
        }
        if (*n_bytes <= capacity) return text;
    }
}

static void reply_text(pf_http_exchange *x, int32_t status, const char *text)
{
    pf_http_reply(x, status, plain_type, text, strlen(text));
}

void pf_metrics_reply(pf_metrics *metrics, pf_http_exchange *x)
{
    size_t n_bytes = 0;
    char *text = print(metrics, &n_bytes);
    if (text)
        pf_http_reply(x, 200, metrics_type, text, n_bytes);
    else
        reply_text(x, 500, "no memory\n");
    free(text);
}

/* Before the body, which no path here takes. */
static void check(void *user, pf_http_exchange *x)
{
    (void)user;
    const char *path = pf_http_path(x);
    if (strcmp(path, "/metrics") != 0 && strcmp(path, "/health") != 0)
        reply_text(x, 404, "there are /metrics and /health\n");
    else if (strcmp(pf_http_method(x), "GET") != 0)
        reply_text(x, 405, "only GET is served\n");
}

static void handle(void *user, pf_http_exchange *x)
{
    pf_metrics_endpoint *e = user;
    if (strcmp(pf_http_path(x), "/metrics") == 0)
        pf_metrics_reply(e->metrics, x);
    else
        reply_text(x, 200, "ok\n");
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static void *serve_all(void *user)
{
    pf_metrics_endpoint *e = user;
    while (!__atomic_load_n(&e->stop, __ATOMIC_RELAXED)) pf_http_server_run(e->http, RUN_MS);
    return NULL;
}

static pf_status open_endpoint(pf_metrics_endpoint *e, const char *address, pf_error *error)
{
    PF_TRY(pf_address_parse(address, &e->address, error));
    PF_TRY(pf_sockets_listen(&e->address, &e->sockets, error));
    e->listens = true;
    pf_sockets_print(&e->sockets, &e->address, e->text, sizeof e->text);
    const pf_http_options http = { .sockets = &e->sockets,
                                   .max_connections = MAX_CONNECTIONS,
                                   .max_body_bytes = MAX_BODY_BYTES,
                                   .request_ns = (uint64_t)REQUEST_S * 1000000000u,
                                   .check = check,
                                   .handle = handle,
                                   .user = e,
                                   .content_type = plain_type,
                                   .timeout_body = "the request took too long\n",
                                   .too_long_body = "the request is too long\n" };
    PF_TRY(pf_http_server_create(&http, &e->http, error));
    const int failure = pthread_create(&e->thread, NULL, serve_all, e);
    e->has_thread = failure == 0;
    return failure == 0 ? PF_OK : pf_fail(error, PF_LIMIT, "no thread to serve metrics: %s", strerror(failure));
}

pf_status pf_metrics_endpoint_create(const char *address, pf_metrics *metrics, pf_metrics_endpoint **out,
                                     pf_error *error)
{
    pf_metrics_endpoint *e = calloc(1, sizeof *e);
    if (!e) return pf_fail(error, PF_NOMEM, "no memory to serve metrics");
    e->metrics = metrics;
    const pf_status status = open_endpoint(e, address, error);
    if (status != PF_OK) {
        pf_metrics_endpoint_destroy(e);
        return status;
    }
    *out = e;
    return PF_OK;
}

void pf_metrics_endpoint_destroy(pf_metrics_endpoint *e)
{
    if (!e) return;
    __atomic_store_n(&e->stop, true, __ATOMIC_RELAXED);
    if (e->has_thread) pthread_join(e->thread, NULL);
    pf_http_server_destroy(e->http);
    if (e->listens) pf_sockets_close(&e->sockets);
    free(e);
}

const char *pf_metrics_endpoint_address(const pf_metrics_endpoint *e)
{
    return e->text;
}
