/* Tasks in order on a few threads. */
#include "serve/task_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/team.h"

struct pf_task_queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a task has come, or the queue is closed */
    pf_task *first, **end;
    int32_t n_waiting, max_waiting, n_running;
    bool closed;
    int32_t n_threads, n_numbered; /* threads; those that have taken their number */
    pthread_t threads[];           /* [n_threads] */
};

static pf_task *take(pf_task_queue *q)
{
    while (!q->first && !q->closed) pthread_cond_wait(&q->changed, &q->mutex);
    pf_task *task = q->first;
    if (!task) return NULL;
    q->first = task->next;
    if (!q->first) q->end = &q->first;
    q->n_waiting--;
    q->n_running++;
    return task;
}

static void *work(void *arg)
{
    pf_task_queue *q = arg;
    pthread_mutex_lock(&q->mutex);
    const int32_t thread = q->n_numbered++;
    for (pf_task *task; (task = take(q)) != NULL;) {
        pthread_mutex_unlock(&q->mutex);
        task->run(task, *task->cancelled ? PF_TASK_DROPPED : thread);
        pthread_mutex_lock(&q->mutex);
        q->n_running--;
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

typedef struct {
    pf_task_queue *queue;
    int32_t n_wanted;
    int failure;
} start;

static void start_threads(void *arg)
{
    start *s = arg;
    pf_task_queue *q = s->queue;
    while (q->n_threads < s->n_wanted && s->failure == 0) {
        s->failure = pthread_create(&q->threads[q->n_threads], NULL, work, q);
        if (s->failure == 0) q->n_threads++;
    }
}

pf_status pf_task_queue_create(int32_t n_threads, int32_t max_waiting, pf_task_queue **out, pf_error *error)
{
    pf_task_queue *q = calloc(1, sizeof *q + (size_t)n_threads * sizeof *q->threads);
    if (!q) return pf_fail(error, PF_NOMEM, "no memory for a queue of %d threads", n_threads);
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->end = &q->first;
    q->max_waiting = max_waiting;
    start s = { .queue = q, .n_wanted = n_threads };
    pf_team_run_unpinned(start_threads, &s); /* the caller may be pinned, and its threads would inherit the CPU */
    if (s.failure != 0) {
        pf_task_queue_destroy(q);
        return pf_fail(error, PF_LIMIT, "%d threads cannot be started: %s", n_threads, strerror(s.failure));
    }
    *out = q;
    return PF_OK;
}

pf_status pf_task_queue_push(pf_task_queue *q, pf_task *first)
{
    int32_t n = 0;
    pf_task **end = &first;
    for (; *end; end = &(*end)->next) n++;
    pf_status status = PF_OK;
    pthread_mutex_lock(&q->mutex);
    const int32_t n_free = q->n_threads - q->n_running;
    if (q->closed)
        status = PF_CANCELLED;
    else if (q->n_waiting + n > q->max_waiting + n_free)
        status = PF_LIMIT;
    else if (first) {
        *q->end = first;
        q->end = end;
        q->n_waiting += n;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->mutex);
    return status;
}

/* Takes out the waiting tasks that are cancelled, or all of them, and drops them. */
static void drop(pf_task_queue *q, bool all)
{
    pf_task *dropped = NULL, **dropped_end = &dropped;
    pthread_mutex_lock(&q->mutex);
    if (all) q->closed = true;
    for (pf_task **at = &q->first; *at;) {
        pf_task *task = *at;
        if (!all && !*task->cancelled) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        *dropped_end = task;
        dropped_end = &task->next;
        q->n_waiting--;
    }
    *dropped_end = NULL;
    for (q->end = &q->first; *q->end;) q->end = &(*q->end)->next;
    if (all) pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
    while (dropped) {
        pf_task *task = dropped;
        dropped = task->next;
        task->run(task, PF_TASK_DROPPED);
    }
}

void pf_task_queue_sweep(pf_task_queue *q)
{
    drop(q, false);
}

void pf_task_queue_close(pf_task_queue *q)
{
    drop(q, true);
}

pf_task_counts pf_task_queue_count(pf_task_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    const pf_task_counts counts = { q->n_waiting, q->n_running };
    pthread_mutex_unlock(&q->mutex);
    return counts;
}

void pf_task_queue_destroy(pf_task_queue *q)
{
    if (!q) return;
    pf_task_queue_close(q);
    for (int32_t i = 0; i < q->n_threads; i++) pthread_join(q->threads[i], NULL);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->mutex);
    free(q);
}
