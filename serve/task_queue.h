/*
 * Runs tasks on a fixed number of threads, in the order in which they came, and refuses more than a fixed number of waiting ones.
 *
 * A task is part of its owner's memory. It runs exactly once: on a thread of the queue, or with PF_TASK_DROPPED where it was
 * cancelled while it waited or the queue was closed. After `run` the queue does not touch it again.
 *
 * Threads: every function may be called by any thread, but pf_task_queue_destroy by one alone.
 */
#ifndef PF_SERVE_TASK_QUEUE_H
#define PF_SERVE_TASK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { PF_TASK_DROPPED = -1 };

typedef struct pf_task pf_task;
struct pf_task {
    pf_task *next;
    void (*run)(pf_task *task, int32_t thread); /* thread: 0 .. n_threads-1, or PF_TASK_DROPPED */
    const volatile bool *cancelled;
};

typedef struct pf_task_queue pf_task_queue;

/* PF_NOMEM. PF_LIMIT: the system has no more threads. End it with pf_task_queue_destroy. */
PF_MUST_USE pf_status pf_task_queue_create(int32_t n_threads, int32_t max_waiting, pf_task_queue **out,
                                           pf_error *error);

/* All the tasks of the list, or none. PF_LIMIT: too many would wait. PF_CANCELLED: the queue is closed. */
PF_MUST_USE pf_status pf_task_queue_push(pf_task_queue *queue, pf_task *first);

/* Drops the waiting tasks that are cancelled, on the calling thread. */
void pf_task_queue_sweep(pf_task_queue *queue);

typedef struct {
    int32_t n_waiting, n_running;
} pf_task_counts;

pf_task_counts pf_task_queue_count(pf_task_queue *queue);

/* From here on nothing is taken; what waits is dropped, on the calling thread. */
void pf_task_queue_close(pf_task_queue *queue);

/* Closes the queue and waits for the tasks that run. NULL is fine. */
void pf_task_queue_destroy(pf_task_queue *queue);

#endif
