/* Answers grpc.health.v1 checks and watches. */
#include "rpc/server/server_internal.h"

#include <string.h>

void pf_call_send_health(pf_call *c)
{
    const pf_health health = c->sent_health == PF_HEALTH_SERVICE_UNKNOWN ? c->sent_health : c->server->health;
    if (c->writing || c->ending || c->ended || (c->opened && c->sent_health == health)) return;
    uint8_t bytes[PF_MAX_HEALTH_BYTES];
    size_t n = 0;
    if (pf_health_encode_response(health, bytes, sizeof bytes, &n) != PF_OK) return;
    c->sent_health = health;
    grpc_byte_buffer *message = pf_grpc_copy(bytes, n);
    grpc_op ops[2];
    size_t n_ops = 0;
    if (!c->opened) ops[n_ops++] = pf_call_metadata_op();
    c->opened = true;
    ops[n_ops++] = pf_call_message_op(message);
    c->writing = pf_call_post(c, ops, n_ops, PF_EV_WRITE);
    grpc_byte_buffer_destroy(message);
}

void pf_server_set_health(pf_server *server, pf_health health)
{
    pthread_mutex_lock(&server->lock);
    server->health = health;
    for (pf_call *c = server->oldest; c; c = c->next)
        if (c->role == PF_CALL_WATCH && c->watches) pf_call_send_health(c);
    pthread_mutex_unlock(&server->lock);
}

static bool is_served(const pf_server *server, const char *service)
{
    for (int i = 0; i < PF_N_SERVICES; i++)
        if (server->dispatch[i] && strcmp(service, pf_services[i].name) == 0) return true;
    return *service == '\0'; /* the process as a whole */
}

void pf_call_answer_health(pf_call *c, const uint8_t *bytes, size_t n_bytes)
{
    pf_server *server = c->server;
    char service[PF_MAX_SERVICE_BYTES];
    const pf_status status = pf_health_decode_request(bytes, n_bytes, service);
    if (status == PF_FORMAT) {
        pf_call_end(c, GRPC_STATUS_INVALID_ARGUMENT, "not a HealthCheckRequest");
        return;
    }
    const bool known = status == PF_OK && is_served(server, service);
    if (c->role == PF_CALL_WATCH) {
        c->sent_health = known ? PF_HEALTH_UNKNOWN : PF_HEALTH_SERVICE_UNKNOWN;
        c->watches = true;
        pf_call_send_health(c);
    } else if (!known) {
        pf_call_end(c, GRPC_STATUS_NOT_FOUND, "no such service here");
    } else {
        uint8_t out[PF_MAX_HEALTH_BYTES];
        size_t n = 0;
        if (pf_health_encode_response(server->health, out, sizeof out, &n) == PF_OK) pf_call_reply(c, out, n);
    }
}
