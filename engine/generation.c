/*
 * Requests on a session's own thread: a queue of generations, each with an event file descriptor.
 *
 * The thread starts with the first generation and ends with the session. Everything that both threads touch is under the
 * queue's mutex; the token path allocates nothing.
 */
#include "engine/generation.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/team.h"
#include "engine/run.h"
#include "engine/versioned.h"

struct pf_queue {
    pf_session *session;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a generation was queued or has ended, or the session ends */
    pf_generation *first, *last;
    bool closing;
};

struct pf_generation {
    pf_generation *next;
    pf_queue *queue;
    pf_request request; /* its arrays are copies */
    int32_t *prompt, *stop_tokens, *bias_ids, *tokens;
    float *biases;
    char *drafter;
    bool *drafted;
    int32_t n_made, n_read;
    int fd;
    volatile bool cancel;
    bool ended;
    pf_status status;
    pf_error error;
    pf_result result;
};

/* ---- the session's thread ------------------------------------------------------------------------------------------ */

static void signal_fd(const pf_generation *g)
{
    const ssize_t written = write(g->fd, &(uint64_t){ 1 }, sizeof(uint64_t));
    (void)written; /* only a full counter refuses, and that is readable */
}

static bool take_token(void *user, int32_t token, bool drafted)
{
    pf_generation *g = user;
    pthread_mutex_lock(&g->queue->mutex);
    g->tokens[g->n_made] = token;
    g->drafted[g->n_made] = drafted;
    g->n_made++;
    signal_fd(g);
    pthread_mutex_unlock(&g->queue->mutex);
    return !g->request.on_token || g->request.on_token(g->request.user, token, drafted);
}

static void pass_prompt(void *user, int32_t n_read)
{
    const pf_generation *g = user;
    g->request.on_prompt(g->request.user, n_read);
}

static void pass_logprobs(void *user, const pf_token_logprobs *logprobs)
{
    const pf_generation *g = user;
    g->request.on_logprobs(g->request.user, logprobs);
}

static void run_one(pf_generation *g)
{
    pf_request request = g->request;
    request.on_token = take_token;
    if (request.on_prompt) request.on_prompt = pass_prompt;
    if (request.on_logprobs) request.on_logprobs = pass_logprobs;
    request.user = g;
    g->queue->session->cancel = &g->cancel;
    g->status = pf_session_generate(g->queue->session, &request, &g->result, &g->error);
    g->queue->session->cancel = NULL;
}

static void *run_queue(void *arg)
{
    pf_queue *q = arg;
    pthread_mutex_lock(&q->mutex);
    for (;;) {
        while (!q->first && !q->closing) pthread_cond_wait(&q->changed, &q->mutex);
        pf_generation *g = q->first;
        if (!g) break;
        pthread_mutex_unlock(&q->mutex);
        run_one(g);
        pthread_mutex_lock(&q->mutex);
        q->first = g->next;
        if (!q->first) q->last = NULL;
        g->ended = true;
        signal_fd(g);
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

/* ---- the queue ------------------------------------------------------------------------------------------------------ */

typedef struct {
    pf_queue *queue;
    int failure; /* of pthread_create */
} start;

static void start_thread(void *arg)
{
    start *s = arg;
    s->failure = pthread_create(&s->queue->thread, NULL, run_queue, s->queue);
}

static pf_status create_queue(pf_session *session, pf_error *error)
{
    pf_queue *q = calloc(1, sizeof *q);
    if (!q) return pf_fail(error, PF_NOMEM, "no memory for the queue of a session");
    q->session = session;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->changed, NULL);
    start s = { .queue = q };
    pf_team_run_unpinned(start_thread, &s); /* the caller may be pinned, and the thread would inherit its CPU */
    if (s.failure) {
        pthread_cond_destroy(&q->changed);
        pthread_mutex_destroy(&q->mutex);
        free(q);
        return pf_fail(error, PF_LIMIT, "a session's thread cannot be started: %s", strerror(s.failure));
    }
    session->queue = q;
    return PF_OK;
}

void pf_queue_destroy(pf_queue *q)
{
    if (!q) return;
    pthread_mutex_lock(&q->mutex);
    q->closing = true;
    for (pf_generation *g = q->first; g; g = g->next) pf_generation_cancel(g);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->mutex);
    free(q);
}

bool pf_queue_is_busy(pf_queue *q)
{
    if (!q) return false;
    pthread_mutex_lock(&q->mutex);
    const bool busy = q->first != NULL;
    pthread_mutex_unlock(&q->mutex);
    return busy;
}

static void append(pf_queue *q, pf_generation *g)
{
    pthread_mutex_lock(&q->mutex);
    if (q->last)
        q->last->next = g;
    else
        q->first = g;
    q->last = g;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
}

/* ---- a generation ---------------------------------------------------------------------------------------------------- */

static void free_generation(pf_generation *g)
{
    if (g->fd >= 0) close(g->fd);
    free(g->prompt);
    free(g->stop_tokens);
    free(g->bias_ids);
    free(g->drafter);
    free(g->biases);
    free(g->tokens);
    free(g->drafted);
    free(g);
}

/* Of nothing, one byte: NULL is a failure. */
static void *copy_of(const void *data, size_t bytes)
{
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy && bytes > 0) memcpy(copy, data, bytes);
    return copy;
}

static pf_status fill(pf_generation *g, pf_error *error)
{
    pf_request *r = &g->request;
    const int32_t n_tokens = pf_session_new_tokens(g->queue->session, r);
    g->prompt = copy_of(r->prompt, (size_t)r->n_prompt * sizeof *r->prompt);
    g->stop_tokens = copy_of(r->stop_tokens, (size_t)r->n_stop_tokens * sizeof *r->stop_tokens);
    g->bias_ids = copy_of(r->rules.bias_ids, (size_t)r->rules.n_biases * sizeof *r->rules.bias_ids);
    g->biases = copy_of(r->rules.biases, (size_t)r->rules.n_biases * sizeof *r->rules.biases);
    g->drafter = r->drafter ? copy_of(r->drafter, strlen(r->drafter) + 1) : NULL;
    g->tokens = malloc(((size_t)n_tokens + 1) * sizeof *g->tokens);
    g->drafted = malloc(((size_t)n_tokens + 1) * sizeof *g->drafted);
    if (!g->prompt || !g->stop_tokens || !g->bias_ids || !g->biases || !g->tokens || !g->drafted ||
        (r->drafter && !g->drafter))
        return pf_fail(error, PF_NOMEM, "no memory for a request of %d tokens", n_tokens);
    r->prompt = g->prompt;
    r->stop_tokens = r->stop_tokens ? g->stop_tokens : NULL;
    r->rules.bias_ids = g->bias_ids;
    r->rules.biases = g->biases;
    r->drafter = g->drafter;
    g->result = PF_INIT(pf_result);
    g->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (g->fd < 0) return pf_fail(error, PF_LIMIT, "no event file descriptor: %s", strerror(errno));
    return PF_OK;
}

pf_status pf_generation_start(pf_session *session, const pf_request *request, pf_generation **out, pf_error *error)
{
    pf_request given;
    PF_TRY(pf_versioned_copy("pf_request", request, &given, sizeof given, error));
    if (given.n_prompt < 0 || given.n_stop_tokens < 0 || given.rules.n_biases < 0)
        return pf_fail(error, PF_INVALID,
                       "n_prompt is %d, n_stop_tokens %d and rules.n_biases %d, expected no negative number",
                       given.n_prompt, given.n_stop_tokens, given.rules.n_biases);
    if (!session->queue) PF_TRY(create_queue(session, error));
    pf_generation *g = calloc(1, sizeof *g);
    if (!g) return pf_fail(error, PF_NOMEM, "no memory for a request");
    g->fd = -1;
    g->queue = session->queue;
    g->request = given;
    const pf_status status = fill(g, error);
    if (status != PF_OK) {
        free_generation(g);
        return status;
    }
    append(g->queue, g);
    *out = g;
    return PF_OK;
}

int pf_generation_fd(const pf_generation *g)
{
    return g->fd;
}

int32_t pf_generation_read(pf_generation *g, int32_t *tokens, bool *drafted, int32_t capacity)
{
    pthread_mutex_lock(&g->queue->mutex);
    const int32_t ready = g->n_made - g->n_read, n = ready < capacity ? ready : capacity;
    for (int32_t i = 0; i < n; i++) {
        tokens[i] = g->tokens[g->n_read];
        if (drafted) drafted[i] = g->drafted[g->n_read];
        g->n_read++;
    }
    if (g->n_read == g->n_made && !g->ended) {
        uint64_t count;
        const ssize_t got = read(g->fd, &count, sizeof count);
        (void)got; /* nothing to read is as good */
    }
    pthread_mutex_unlock(&g->queue->mutex);
    return n > 0 ? n : 0;
}

bool pf_generation_ended(const pf_generation *g)
{
    pthread_mutex_lock(&g->queue->mutex);
    const bool ended = g->ended && g->n_read == g->n_made;
    pthread_mutex_unlock(&g->queue->mutex);
    return ended;
}

void pf_generation_cancel(pf_generation *g)
{
    __atomic_store_n(&g->cancel, true, __ATOMIC_RELAXED);
}

static void await_end(pf_generation *g)
{
    pthread_mutex_lock(&g->queue->mutex);
    while (!g->ended) pthread_cond_wait(&g->queue->changed, &g->queue->mutex);
    pthread_mutex_unlock(&g->queue->mutex);
}

pf_status pf_generation_finish(pf_generation *g, pf_result *result, pf_error *error)
{
    await_end(g);
    if (result) {
        PF_TRY(pf_session_check_result(result, error));
        if (result->tokens && result->capacity < g->n_made)
            return pf_fail(error, PF_INVALID, "pf_result.capacity is %d, but %d tokens were made", result->capacity,
                           g->n_made);
        int32_t *tokens = result->tokens;
        const int32_t capacity = result->capacity;
        const size_t size = result->size;
        *result = g->result;
        result->size = size;
        result->tokens = tokens;
        result->capacity = capacity;
        if (tokens) memcpy(tokens, g->tokens, (size_t)g->n_made * sizeof *tokens);
    }
    if (g->status != PF_OK && error) *error = g->error;
    return g->status;
}

void pf_generation_destroy(pf_generation *g)
{
    if (!g) return;
    pf_generation_cancel(g);
    await_end(g);
    free_generation(g);
}
