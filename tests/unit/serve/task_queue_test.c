/* Tests the queue of tasks: order, the bound on waiting ones, what is dropped, and that each task runs once. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "serve/task_queue.h"

typedef struct {
    pf_task task; /* the first member */
    atomic_int n_runs, thread;
    volatile bool cancelled;
    atomic_bool *blocked; /* it waits while this is set; NULL: it does not */
    atomic_int *order;
    int32_t place;
} noted;

static void note(pf_task *task, int32_t thread)
{
    noted *n = (noted *)task;
    while (n->blocked && atomic_load(n->blocked)) usleep(1000);
    if (n->order) n->place = atomic_fetch_add(n->order, 1);
    atomic_store(&n->thread, thread);
    atomic_fetch_add(&n->n_runs, 1);
}

static void prepare(noted *n, atomic_bool *blocked, atomic_int *order)
{
    *n = (noted){ .blocked = blocked, .order = order };
    n->task = (pf_task){ .run = note, .cancelled = &n->cancelled };
}

static void wait_for(noted *n)
{
    for (int32_t i = 0; i < 5000 && atomic_load(&n->n_runs) == 0; i++) usleep(1000);
    assert_int_equal(atomic_load(&n->n_runs), 1);
}

static pf_task_queue *make(int32_t n_threads, int32_t max_waiting)
{
    pf_task_queue *queue;
    pf_error error;
    assert_ok(pf_task_queue_create(n_threads, max_waiting, &queue, &error), error);
    return queue;
}

static void tasks_run_in_order(void **state)
{
    (void)state;
    enum { N = 20 };
    noted tasks[N];
    atomic_int order = 0;
    pf_task_queue *queue = make(1, N);
    for (int32_t i = 0; i < N; i++) {
        prepare(&tasks[i], NULL, &order);
        assert_int_equal(pf_task_queue_push(queue, &tasks[i].task), PF_OK);
    }
    for (int32_t i = 0; i < N; i++) {
        wait_for(&tasks[i]);
        assert_int_equal(tasks[i].place, i);
        assert_int_equal(atomic_load(&tasks[i].thread), 0);
    }
    pf_task_queue_destroy(queue);
}

static void a_list_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    noted first, list[3];
    atomic_bool blocked = true;
    pf_task_queue *queue = make(1, 2);
    prepare(&first, &blocked, NULL);
    assert_int_equal(pf_task_queue_push(queue, &first.task), PF_OK);
    while (pf_task_queue_count(queue).n_running == 0) usleep(1000);
    for (int32_t i = 0; i < 3; i++) {
        prepare(&list[i], NULL, NULL);
        if (i > 0) list[i - 1].task.next = &list[i].task;
    }
    assert_int_equal(pf_task_queue_push(queue, &list[0].task), PF_LIMIT);
    assert_int_equal(pf_task_queue_count(queue).n_waiting, 0);
    list[1].task.next = NULL;
    assert_int_equal(pf_task_queue_push(queue, &list[0].task), PF_OK);
    assert_int_equal(pf_task_queue_count(queue).n_waiting, 2);
    atomic_store(&blocked, false);
    wait_for(&list[1]);
    assert_int_equal(atomic_load(&list[2].n_runs), 0);
    pf_task_queue_destroy(queue);
}

static void a_sweep_drops_the_cancelled_and_keeps_the_order_of_the_rest(void **state)
{
    (void)state;
    enum { N = 6 };
    noted first, tasks[N], last;
    atomic_bool blocked = true;
    atomic_int order = 0;
    pf_task_queue *queue = make(1, 2 * N);
    prepare(&first, &blocked, NULL);
    assert_int_equal(pf_task_queue_push(queue, &first.task), PF_OK);
    for (int32_t i = 0; i < N; i++) {
        prepare(&tasks[i], NULL, i % 2 ? NULL : &order);
        assert_int_equal(pf_task_queue_push(queue, &tasks[i].task), PF_OK);
    }
    for (int32_t i = 1; i < N; i += 2) tasks[i].cancelled = true; /* the last one, too */
    pf_task_queue_sweep(queue);
    for (int32_t i = 1; i < N; i += 2) {
        assert_int_equal(atomic_load(&tasks[i].n_runs), 1);
        assert_int_equal(atomic_load(&tasks[i].thread), PF_TASK_DROPPED);
    }
    prepare(&last, NULL, &order);
    assert_int_equal(pf_task_queue_push(queue, &last.task), PF_OK);
    atomic_store(&blocked, false);
    wait_for(&last);
    for (int32_t i = 0; i < N; i += 2) assert_int_equal(tasks[i].place, i / 2);
    assert_int_equal(last.place, N / 2);
    pf_task_queue_destroy(queue);
}

static void a_closed_queue_drops_what_waits_and_takes_nothing(void **state)
{
    (void)state;
    noted first, waiting, late;
    atomic_bool blocked = true;
    pf_task_queue *queue = make(1, 4);
    prepare(&first, &blocked, NULL);
    prepare(&waiting, NULL, NULL);
    prepare(&late, NULL, NULL);
    assert_int_equal(pf_task_queue_push(queue, &first.task), PF_OK);
    while (pf_task_queue_count(queue).n_running == 0) usleep(1000);
    assert_int_equal(pf_task_queue_push(queue, &waiting.task), PF_OK);
    pf_task_queue_close(queue);
    assert_int_equal(atomic_load(&waiting.thread), PF_TASK_DROPPED);
    assert_int_equal(pf_task_queue_push(queue, &late.task), PF_CANCELLED);
    atomic_store(&blocked, false);
    pf_task_queue_destroy(queue);
    assert_int_equal(atomic_load(&first.n_runs), 1);
    assert_int_equal(atomic_load(&first.thread), 0);
    assert_int_equal(atomic_load(&late.n_runs), 0);
}

static void tasks_run_on_all_threads_at_once(void **state)
{
    (void)state;
    enum { N = 4 };
    noted tasks[N];
    atomic_bool blocked = true;
    pf_task_queue *queue = make(N, 0);
    for (int32_t i = 0; i < N; i++) {
        prepare(&tasks[i], &blocked, NULL);
        assert_int_equal(pf_task_queue_push(queue, &tasks[i].task), PF_OK);
    }
    for (int32_t i = 0; i < 5000 && pf_task_queue_count(queue).n_running < N; i++) usleep(1000);
    assert_int_equal(pf_task_queue_count(queue).n_running, N);
    atomic_store(&blocked, false);
    pf_task_queue_destroy(queue);
    int32_t seen = 0;
    for (int32_t i = 0; i < N; i++) seen |= 1 << atomic_load(&tasks[i].thread);
    assert_int_equal(seen, (1 << N) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_in_order),
        cmocka_unit_test(a_list_is_taken_whole_or_not_at_all),
        cmocka_unit_test(a_sweep_drops_the_cancelled_and_keeps_the_order_of_the_rest),
        cmocka_unit_test(a_closed_queue_drops_what_waits_and_takes_nothing),
        cmocka_unit_test(tasks_run_on_all_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
