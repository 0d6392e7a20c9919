/* The life of an HTTP server. */
#include "serve/web.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "rpc/address.h"
#include "serve/api_request.h"

enum { RUN_MS = 50, REQUEST_S = 30, MAX_CONNECTIONS = 1024, OTHER_DESCRIPTORS = 128 };

/* As many connections as there may be descriptors for. */
static int32_t max_connections(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return OTHER_DESCRIPTORS;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur > MAX_CONNECTIONS + OTHER_DESCRIPTORS) return MAX_CONNECTIONS;
    return limit.rlim_cur > 2 * OTHER_DESCRIPTORS ? (int32_t)limit.rlim_cur - OTHER_DESCRIPTORS : OTHER_DESCRIPTORS;
}

static void drain(const pf_web_options *options, pf_api *api, pf_http_server *server)
{
    const uint64_t until_ns = pf_now_ns() + options->drain_ns;
    pf_api_drain(api);
    while (pf_http_server_pending(server) > 0 && pf_now_ns() < until_ns) {
        pf_http_server_run(server, RUN_MS);
        pf_api_sweep(api);
    }
}

/* PEM of the two files; NULL where there is no TLS. The caller frees both. */
typedef struct {
    char *certificate, *key;
} pem;

static pf_status read_pem(const pf_web_options *options, pem *out, pf_error *error)
{
    enum { MAX_PEM_BYTES = 1 << 20 };
    size_t n_bytes;
    if (!options->key_file) return PF_OK;
    PF_TRY(pf_file_read(options->certificate_file, MAX_PEM_BYTES, &out->certificate, &n_bytes, error));
    return pf_file_read(options->key_file, MAX_PEM_BYTES, &out->key, &n_bytes, error);
}

static pf_status serve(const pf_web_options *options, const pf_address *address, const pf_sockets *sockets,
                       const pem *tls, pf_api *api, pf_error *error)
{
    char text[PF_MAX_ADDRESS_BYTES + 16];
    pf_http_server *server;
    const pf_http_options http = { .sockets = sockets,
                                   .max_connections = max_connections(),
                                   .max_body_bytes = PF_API_MAX_BODY_BYTES,
                                   .certificate = tls->certificate,
                                   .key = tls->key,
                                   .request_ns = (uint64_t)REQUEST_S * 1000000000u,
                                   .check = pf_api_check,
                                   .handle = pf_api_handle,
                                   .user = api,
                                   .content_type = pf_api_json_type,
                                   .timeout_body = pf_api_timeout_body,
                                   .too_long_body = pf_api_too_long_body };
    PF_TRY(pf_http_server_create(&http, &server, error));
    pf_sockets_print(sockets, address, text, sizeof text);
    if (options->ready(options->user, text)) {
        while (!*options->stop) {
            pf_http_server_run(server, RUN_MS);
            pf_api_sweep(api);
        }
        drain(options, api, server);
    }
    pf_http_server_stop(server); /* clients are gone, and so texts end */
    pf_api_destroy(api);
    pf_http_server_destroy(server);
    return PF_OK;
}

pf_status pf_web_serve(const pf_web_options *options, pf_error *error)
{
    pf_address address;
    pf_sockets sockets;
    pf_api *api;
    pem tls = { 0 };
    PF_TRY(pf_address_parse(options->address, &address, error));
    PF_TRY(pf_sockets_listen(&address, &sockets, error));
    pf_status status = read_pem(options, &tls, error);
    if (status == PF_OK) status = pf_api_create(&options->api, &api, error);
    if (status == PF_OK) {
        status = serve(options, &address, &sockets, &tls, api, error);
        if (status != PF_OK) pf_api_destroy(api);
    }
    pf_sockets_close(&sockets);
    if (tls.key) explicit_bzero(tls.key, strlen(tls.key));
    free(tls.certificate);
    free(tls.key);
    return status;
}
