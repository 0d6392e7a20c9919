#include "sim/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "proto/codec.h"

enum { MILLION = 1000000, MAX_MESSAGE = 1 << 20, PARTS = PF_MAX_BATCH_SEQUENCES };

typedef struct message {
    struct message *next; /* arrives later, or was sent later */
    uint64_t arrives_ns;
    size_t n_bytes;
    uint8_t bytes[];
} message;

typedef struct {
    message *first;
    uint64_t latest_ns; /* arrival of the latest in order */
} queue;

/* One client's stream. Its sequences are known to the server's peer as sequence * n_places + place. */
typedef struct pf_wire_link {
    pf_peer peer;
    pf_wire_server *server;
    pf_process *client;
    pf_wire_line line;
    int32_t place;
    queue to_server, to_client;
    uint64_t up_ns;      /* down until then */
    bool must_tell;      /* a break of which the client has not heard */
    bool has_broken;     /* likewise the server */
    bool is_answered;    /* has not sent anything since its last answer */
    pf_codec *codec;     /* of what the client decodes */
    uint64_t *sequences; /* [n_sequences] that are open at the server, as the peer knows them */
    int32_t n_sequences, capacity;
} pf_wire_link;

struct pf_wire_server {
    pf_world *world;
    pf_process *process;
    pf_wire_server_config config;
    pf_wire_link **links; /* [max_links], n_links of them */
    int32_t n_links, max_links;
    pf_peer *peer; /* NULL: it is down */
    pf_model_info info;
    uint64_t next_restart_ns;
    pf_codec *codec; /* of what the server decodes, and of all encoding */
    pf_wire_counts counts;
    uint8_t bytes[MAX_MESSAGE];
    /* a batch in the making */
    pf_open opens[PARTS];
    pf_close closes[PARTS];
    pf_proposal proposals[PARTS];
    pf_verdict verdicts[PARTS];
    pf_prefix_request prefix_requests[PARTS];
    pf_refusal refusals[PARTS];
};

/* ---- queues ----------------------------------------------------------------------------------------------------- */

static void clear(queue *q)
{
    for (message *m = q->first, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    *q = (queue){ 0 };
}

static void insert(queue *q, message *m)
{
    message **at = &q->first;
    while (*at && (*at)->arrives_ns <= m->arrives_ns) at = &(*at)->next;
    m->next = *at;
    *at = m;
}

static message *take(queue *q, uint64_t now_ns)
{
    message *m = q->first;
    if (!m || m->arrives_ns > now_ns) return NULL;
    q->first = m->next;
    return m;
}

static bool happens(pf_world *world, uint32_t in_a_million)
{
    return in_a_million > 0 && pf_world_draw_below(world, MILLION) < in_a_million;
}

/* At now_ns: what is under way is lost, and the line is down until until_ns. */
static void break_line(pf_wire_link *link, uint64_t now_ns, uint64_t until_ns)
{
    clear(&link->to_server);
    clear(&link->to_client);
    link->must_tell = link->has_broken = true;
    if (until_ns > link->up_ns) link->up_ns = until_ns;
    pf_process_wake(link->server->process, now_ns);
    if (link->client) pf_process_wake(link->client, now_ns);
}

/* PF_UNAVAILABLE: the line has broken instead. */
static pf_status send_over(pf_wire_link *link, bool to_server, const pf_batch *batch, uint64_t now_ns)
{
    pf_wire_server *server = link->server;
    pf_world *world = server->world;
    size_t n_bytes;
    server->counts.n_messages++;
    if (happens(world, link->line.broken)) {
        server->counts.n_breaks++;
        break_line(link, now_ns, now_ns + pf_world_draw_below(world, 2 * link->line.down_ns));
        return PF_UNAVAILABLE;
    }
    PF_TRY(pf_codec_encode_batch(server->codec, batch, server->bytes, MAX_MESSAGE, &n_bytes));
    const uint64_t delay_ns = link->line.least_ns + pf_world_draw_below(world, link->line.spread_ns);
    if (happens(world, link->line.lost)) {
        server->counts.n_lost++;
        return PF_OK;
    }
    message *m = malloc(sizeof *m + n_bytes);
    if (!m) return PF_NOMEM;
    queue *q = to_server ? &link->to_server : &link->to_client;
    const bool overtakes = happens(world, link->line.overtaken);
    server->counts.n_overtaken += overtakes;
    m->arrives_ns = now_ns + delay_ns;
    if (!overtakes && m->arrives_ns < q->latest_ns) m->arrives_ns = q->latest_ns;
    if (overtakes) m->arrives_ns = now_ns + link->line.least_ns / 2;
    if (m->arrives_ns > q->latest_ns) q->latest_ns = m->arrives_ns;
    m->n_bytes = n_bytes;
    memcpy(m->bytes, server->bytes, n_bytes);
    insert(q, m);
    pf_process_wake(to_server ? server->process : link->client, m->arrives_ns);
    return PF_OK;
}

/* ---- the client's side ------------------------------------------------------------------------------------------- */

static pf_wire_link *link_of(pf_peer *peer)
{
    return (pf_wire_link *)peer;
}

static uint64_t now_of(const pf_wire_link *link)
{
    return *pf_process_clock(link->client);
}

/* The first call after a break tells of it, and any while the line is down. */
static bool is_gone(pf_wire_link *link)
{
    const bool is_down = now_of(link) < link->up_ns || !link->server->peer;
    if (!is_down && !link->must_tell) return false;
    link->must_tell = false;
    return true;
}

static pf_status client_submit(pf_peer *peer, const pf_batch *batch)
{
    pf_wire_link *link = link_of(peer);
    pf_process_wait(link->client, now_of(link));
    if (is_gone(link)) return PF_UNAVAILABLE;
    const pf_status status = send_over(link, true, batch, now_of(link));
    if (status == PF_UNAVAILABLE) link->must_tell = false;
    return status;
}

static pf_status client_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    pf_wire_link *link = link_of(peer);
    pf_process_wait(link->client, now_of(link));
    for (;;) {
        if (is_gone(link)) return pf_fail(error, PF_UNAVAILABLE, "the simulated line is down");
        message *m = take(&link->to_client, now_of(link));
        if (m) {
            const pf_status status = pf_codec_decode_batch(link->codec, m->bytes, m->n_bytes, out, error);
            free(m);
            return status;
        }
        if (now_of(link) >= deadline_ns || pf_process_is_over(link->client))
            return pf_fail(error, PF_CANCELLED, "nothing came in time");
        const message *next = link->to_client.first;
        pf_process_wait(link->client, next && next->arrives_ns < deadline_ns ? next->arrives_ns : deadline_ns);
    }
}

static pf_status client_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)error;
    *out = link_of(peer)->server->info;
    return PF_OK;
}

static void client_why(pf_peer *peer, pf_error *out)
{
    (void)peer;
    (void)pf_fail(out, PF_UNAVAILABLE, "the simulated line is down");
}

/* Its stream ends, and with it its sequences. */
static void client_destroy(pf_peer *peer)
{
    pf_wire_link *link = link_of(peer);
    pf_process_wake(link->server->process, now_of(link));
    clear(&link->to_server);
    clear(&link->to_client);
    link->client = NULL;
}

static const pf_peer_ops client_ops = { .size = sizeof client_ops,
                                        .submit = client_submit,
                                        .collect = client_collect,
                                        .info = client_info,
                                        .destroy = client_destroy,
                                        .why = client_why };

/* ---- the server's side -------------------------------------------------------------------------------------------- */

static uint64_t inner_id(const pf_wire_link *link, uint64_t sequence)
{
    return sequence * (uint64_t)link->server->max_links + (uint64_t)link->place;
}

static uint64_t outer_id(const pf_wire_server *server, uint64_t sequence)
{
    return sequence / (uint64_t)server->max_links;
}

static pf_status note_open(pf_wire_link *link, uint64_t sequence)
{
    for (int32_t i = 0; i < link->n_sequences; i++)
        if (link->sequences[i] == sequence) return PF_OK;
    if (link->n_sequences == link->capacity) {
        const int32_t capacity = 2 * link->capacity + 8;
        uint64_t *grown = realloc(link->sequences, (size_t)capacity * sizeof *grown);
        if (!grown) return PF_NOMEM;
        link->sequences = grown;
        link->capacity = capacity;
    }
    link->sequences[link->n_sequences++] = sequence;
    return PF_OK;
}

static void note_close(pf_wire_link *link, uint64_t sequence)
{
    for (int32_t i = 0; i < link->n_sequences; i++)
        if (link->sequences[i] == sequence) {
            link->sequences[i] = link->sequences[--link->n_sequences];
            return;
        }
}

/* A copy of what a client has sent, with the peer's ids. */
static pf_status submit_of(pf_wire_link *link, const pf_batch *in)
{
    pf_wire_server *s = link->server;
    pf_batch batch = *in;
    for (int32_t i = 0; i < in->n_closes; i++) {
        s->closes[i] = in->closes[i];
        s->closes[i].sequence = inner_id(link, in->closes[i].sequence);
        note_close(link, s->closes[i].sequence);
    }
    for (int32_t i = 0; i < in->n_opens; i++) {
        s->opens[i] = in->opens[i];
        s->opens[i].sequence = inner_id(link, in->opens[i].sequence);
        PF_TRY(note_open(link, s->opens[i].sequence));
    }
    for (int32_t i = 0; i < in->n_proposals; i++) {
        s->proposals[i] = in->proposals[i];
        s->proposals[i].sequence = inner_id(link, in->proposals[i].sequence);
    }
    for (int32_t i = 0; i < in->n_verdicts; i++) {
        s->verdicts[i] = in->verdicts[i];
        s->verdicts[i].sequence = inner_id(link, in->verdicts[i].sequence);
    }
    batch.closes = s->closes;
    batch.opens = s->opens;
    batch.proposals = s->proposals;
    batch.verdicts = s->verdicts;
    return pf_peer_submit(s->peer, &batch);
}

static pf_status close_all(pf_wire_link *link)
{
    while (link->n_sequences > 0) {
        pf_close close = { .sequence = link->sequences[--link->n_sequences] };
        const pf_batch batch = { .closes = &close, .n_closes = 1 };
        if (link->server->peer) PF_TRY(pf_peer_submit(link->server->peer, &batch));
    }
    return PF_OK;
}

/* What has arrived on a link. */
static pf_status receive(pf_wire_link *link, uint64_t now_ns)
{
    pf_wire_server *server = link->server;
    if (link->has_broken || !link->client) PF_TRY(close_all(link));
    link->has_broken = false;
    for (message *m; (m = take(&link->to_server, now_ns)) != NULL;) {
        const pf_batch *batch;
        pf_status status = pf_codec_decode_batch(server->codec, m->bytes, m->n_bytes, &batch, &server->counts.error);
        free(m);
        if (status == PF_OK) status = submit_of(link, batch);
        if (status != PF_OK) return status;
    }
    return PF_OK;
}

/* The part of an answer that is for a link. */
static void send_part(pf_wire_link *link, const pf_batch *all, uint64_t now_ns)
{
    pf_wire_server *s = link->server;
    const uint64_t n = (uint64_t)s->max_links, place = (uint64_t)link->place;
    pf_batch part = { .proposals = s->proposals,
                      .verdicts = s->verdicts,
                      .prefix_requests = s->prefix_requests,
                      .refusals = s->refusals,
                      .timing = all->timing };
    for (int32_t i = 0; i < all->n_proposals; i++)
        if (all->proposals[i].sequence % n == place) {
            s->proposals[part.n_proposals] = all->proposals[i];
            s->proposals[part.n_proposals++].sequence = outer_id(s, all->proposals[i].sequence);
        }
    for (int32_t i = 0; i < all->n_verdicts; i++)
        if (all->verdicts[i].sequence % n == place) {
            s->verdicts[part.n_verdicts] = all->verdicts[i];
            s->verdicts[part.n_verdicts++].sequence = outer_id(s, all->verdicts[i].sequence);
        }
    for (int32_t i = 0; i < all->n_prefix_requests; i++)
        if (all->prefix_requests[i].sequence % n == place) {
            s->prefix_requests[part.n_prefix_requests] = all->prefix_requests[i];
            s->prefix_requests[part.n_prefix_requests++].sequence = outer_id(s, all->prefix_requests[i].sequence);
        }
    for (int32_t i = 0; i < all->n_refusals; i++)
        if (all->refusals[i].sequence % n == place) {
            note_close(link, all->refusals[i].sequence);
            s->refusals[part.n_refusals] = all->refusals[i];
            s->refusals[part.n_refusals++].sequence = outer_id(s, all->refusals[i].sequence);
        }
    if (part.n_proposals + part.n_verdicts + part.n_prefix_requests + part.n_refusals == 0 || !link->client) return;
    link->is_answered = part.n_proposals + part.n_verdicts > 0;
    const pf_status status = send_over(link, false, &part, now_ns);
    if (status != PF_OK && status != PF_UNAVAILABLE) s->counts.status = status;
}

static void plan_restart(pf_wire_server *s, uint64_t now_ns)
{
    s->next_restart_ns =
        s->config.restart_ns > 0 ? now_ns + 1 + pf_world_draw_below(s->world, 2 * s->config.restart_ns) : UINT64_MAX;
}

static void end_peer(pf_wire_server *s)
{
    if (!s->peer) return;
    pf_peer_destroy(s->peer);
    s->peer = NULL;
    if (s->config.ended) s->config.ended(s->config.user);
}

static pf_status restart(pf_wire_server *s)
{
    uint64_t *clock_ns = pf_process_clock(s->process);
    s->counts.n_restarts++;
    end_peer(s);
    const uint64_t up_ns = *clock_ns + 1 + pf_world_draw_below(s->world, 2 * s->config.down_ns);
    for (int32_t i = 0; i < s->n_links; i++) {
        s->links[i]->n_sequences = 0;
        break_line(s->links[i], *clock_ns, up_ns);
    }
    while (*clock_ns < up_ns && !pf_process_is_over(s->process)) pf_process_wait(s->process, up_ns);
    plan_restart(s, *clock_ns);
    return s->config.make(s->config.user, clock_ns, &s->peer, &s->counts.error);
}

static uint64_t next_arrival_ns(const pf_wire_server *s)
{
    uint64_t next_ns = s->next_restart_ns;
    for (int32_t i = 0; i < s->n_links; i++) {
        const message *m = s->links[i]->to_server.first;
        if (m && m->arrives_ns < next_ns) next_ns = m->arrives_ns;
    }
    return next_ns;
}

/* Whether a link that has been answered has sent nothing that is there. */
static bool is_awaited(const pf_wire_link *link, uint64_t now_ns)
{
    const message *m = link->to_server.first;
    return link->is_answered && link->client && !link->has_broken && (!m || m->arrives_ns > now_ns);
}

static void gather(pf_wire_server *s)
{
    const uint64_t *clock_ns = pf_process_clock(s->process), limit_ns = *clock_ns + s->config.gather_ns;
    bool waits = s->config.gather_ns > 0;
    while (waits && *clock_ns < limit_ns && !pf_process_is_over(s->process)) {
        pf_process_wait(s->process, limit_ns);
        waits = false;
        for (int32_t i = 0; i < s->n_links; i++) waits |= is_awaited(s->links[i], *clock_ns);
    }
    for (int32_t i = 0; i < s->n_links; i++) s->links[i]->is_answered = false;
}

/* One round: what has come, one look at the peer, what it answers. *is_idle: it has nothing to do before the next arrival. */
static pf_status serve_once(pf_wire_server *s, bool *is_idle)
{
    uint64_t *clock_ns = pf_process_clock(s->process);
    const pf_batch *answer;
    *is_idle = false;
    pf_process_wait(s->process, *clock_ns);
    if (*clock_ns >= s->next_restart_ns) return restart(s);
    for (int32_t i = 0; i < s->n_links; i++) PF_TRY(receive(s->links[i], *clock_ns));
    const pf_status status = pf_peer_collect(s->peer, *clock_ns, &answer, &s->counts.error);
    *is_idle = status == PF_CANCELLED;
    if (status == PF_CANCELLED) return PF_OK;
    PF_TRY(status);
    for (int32_t i = 0; i < s->n_links; i++) send_part(s->links[i], answer, *clock_ns);
    gather(s);
    return s->counts.status;
}

static void serve(pf_process *process, void *arg)
{
    pf_wire_server *s = arg;
    plan_restart(s, *pf_process_clock(process));
    while (!pf_process_is_over(process) && s->counts.status == PF_OK) {
        bool is_idle;
        const pf_status status = serve_once(s, &is_idle);
        if (status != PF_OK) s->counts.status = status;
        if (is_idle && !pf_peer_work_ahead(s->peer)) pf_process_wait(process, next_arrival_ns(s));
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

pf_status pf_wire_server_create(pf_world *world, const pf_wire_server_config *config, int32_t max_links,
                                pf_wire_server **out, pf_error *error)
{
    pf_wire_server *s = calloc(1, sizeof *s);
    if (!s) return pf_fail(error, PF_NOMEM, "no memory for a simulated server");
    s->world = world;
    s->config = *config;
    s->max_links = max_links;
    s->links = calloc((size_t)max_links, sizeof(pf_wire_link *));
    pf_status status = s->links ? pf_codec_create(MAX_MESSAGE, 0, &s->codec) : PF_NOMEM;
    if (status == PF_OK) status = pf_world_spawn(world, false, serve, s, &s->process);
    if (status != PF_OK) (void)pf_fail(error, status, "no memory for a simulated server");
    if (status == PF_OK) status = config->make(config->user, pf_process_clock(s->process), &s->peer, error);
    if (status == PF_OK) status = pf_peer_info(s->peer, &s->info, error);
    if (status != PF_OK) {
        pf_wire_server_destroy(s);
        return status;
    }
    *out = s;
    return PF_OK;
}

void pf_wire_server_destroy(pf_wire_server *s)
{
    if (!s) return;
    end_peer(s);
    for (int32_t i = 0; i < s->n_links; i++) {
        clear(&s->links[i]->to_server);
        clear(&s->links[i]->to_client);
        pf_codec_destroy(s->links[i]->codec);
        free(s->links[i]->sequences);
        free(s->links[i]);
    }
    pf_codec_destroy(s->codec);
    free(s->links);
    free(s);
}

const pf_wire_counts *pf_wire_server_counts(const pf_wire_server *s)
{
    return &s->counts;
}

pf_status pf_wire_connect(pf_wire_server *s, pf_process *client, const pf_wire_line *line, pf_peer **out)
{
    if (s->n_links == s->max_links) return PF_LIMIT;
    pf_wire_link *link = calloc(1, sizeof *link);
    if (!link) return PF_NOMEM;
    *link = (pf_wire_link){ .peer = { .ops = &client_ops, .is_far = true },
                            .server = s,
                            .client = client,
                            .line = *line,
                            .place = s->n_links };
    const pf_status status = pf_codec_create(MAX_MESSAGE, 0, &link->codec);
    if (status != PF_OK) {
        free(link);
        return status;
    }
    s->links[s->n_links++] = link;
    *out = &link->peer;
    return PF_OK;
}
