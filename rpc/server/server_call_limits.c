/* Limits the number of calls: admits, evicts idle calls, rejects. */
#include "rpc/server/server_internal.h"

#include "base/clock.h"

void pf_call_release_slot(pf_call *c)
{
    if (!c->is_finished && c->grpc)
        pf_listener_call_finished(c->server->listener, c->connection, c->role == PF_CALL_STREAM);
    c->is_finished = true;
    if (!c->has_slot) return;
    c->has_slot = false;
    c->server->n_open--;
    if (c->role == PF_CALL_STREAM) c->server->n_streams--;
}

/* Cancels a call at once. A status would wait until earlier data is written, which a client that does not read
 * prevents. */
void pf_call_reject(pf_call *c, grpc_status_code code, const char *text)
{
    pf_call_release_slot(c);
    c->ended = true;
    (void)grpc_call_cancel_with_status(c->grpc, code, text, NULL);
}

void pf_call_note_sequences(pf_call *c, bool any)
{
    if (c->has_sequences && !any) c->idle_ns = pf_now_ns();
    c->has_sequences = any;
}

/* Whether the call waits for nothing of this server. A unary call is answered as soon as its request arrives, so one
 * that is open has no request yet, is not read, or is a watch. */
static bool is_idle(const pf_call *c)
{
    if (c->role != PF_CALL_STREAM || c->ending || c->ended) return true;
    return !c->has_sequences && !pf_call_is_waiting(c);
}

static pf_call *longest_idle(const pf_server *server, bool stream)
{
    pf_call *idle = NULL;
    for (pf_call *c = server->oldest; c; c = c->next)
        if ((c->role == PF_CALL_STREAM) == stream && c->has_slot && is_idle(c) && (!idle || c->idle_ns < idle->idle_ns))
            idle = c;
    return idle;
}

/* Evicts an idle stream, or an idle call of another kind. */
static bool evict_idle(pf_server *server, bool stream)
{
    pf_call *c = longest_idle(server, stream);
    if (!c) return false;
    pf_call_reject(c, GRPC_STATUS_RESOURCE_EXHAUSTED,
                   stream ? "evicted for another stream: this one has no sequence open" : "evicted for another call");
    return true;
}

/* Watches take free slots only. */
const char *pf_call_admit(pf_call *c)
{
    pf_server *server = c->server;
    const int32_t most = pf_server_max_calls(&server->config);
    const bool stream = c->role == PF_CALL_STREAM;
    if (server->n_calls - server->n_open > most) {
        pf_listener_disconnect_back_pressured(server->listener);
        return "too many calls are ending; try again";
    }
    if (stream && server->n_streams >= server->config.max_streams && !evict_idle(server, true))
        return "as many streams are open as are taken, all of them with sequences";
    if (server->n_open >= most && (c->role == PF_CALL_WATCH || !evict_idle(server, false)))
        return "as many calls are open as are taken";
    c->has_slot = true;
    server->n_open++;
    if (stream) server->n_streams++;
    return NULL;
}
