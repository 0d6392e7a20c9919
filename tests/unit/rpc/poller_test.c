/* Which thread polls when: events are put on the queue by hand, and say which thread handled them. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/grpc_util.h"
#include "rpc/poller.h"
#include "tests/support/test.h"

enum { MS = 1000 * 1000, FRONT_IDLE_NS = 5 * MS };
/* A thread that is not scheduled is late whatever it runs: a wait is judged by the best of so many, the first in time. */
enum { TRIES = 50 };
static const uint64_t SECOND = 1000u * MS;

typedef struct {
    pf_poller poller;
    pthread_t front, poster;
    bool has_poster;
    atomic_bool is_finished;
    atomic_int n_front, n_back, n_inside, n_looks;
    atomic_int handling_us;
    bool overlapped;  /* two events were handled at once */
    bool was_sampled; /* while an event was handled */
} fixture;

static void handle(void *user, void *tag, bool success)
{
    (void)tag;
    (void)success;
    fixture *f = user;
    if (atomic_fetch_add(&f->n_inside, 1) != 0) f->overlapped = true;
    uint32_t poll;
    uint64_t poll_cpu_ns;
    f->was_sampled |= pf_poller_sample(&f->poller, &poll, &poll_cpu_ns);
    usleep(1 + (useconds_t)f->handling_us); /* some 50 us at least: another would overlap */
    atomic_fetch_add(pthread_equal(pthread_self(), f->front) ? &f->n_front : &f->n_back, 1);
    atomic_fetch_sub(&f->n_inside, 1);
    pf_poller_notify(&f->poller);
}

static void look(void *user)
{
    fixture *f = user;
    atomic_fetch_add(&f->n_looks, 1);
}

/* Around each test, so that one that fails leaves no thread behind that goes on with its fixture. */
static int set_up(void **state)
{
    if (pf_grpc_begin(NULL) != PF_OK) return -1;
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->front = pthread_self();
    const pf_poller_config config = { .handle = handle, .look = look, .user = f, .front_idle_ns = FRONT_IDLE_NS };
    assert_true(pf_poller_start(&f->poller, &config));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    if (f->has_poster) pthread_join(f->poster, NULL);
    pf_poller_stop(&f->poller);
    grpc_shutdown_blocking();
    const bool overlapped = f->overlapped;
    free(f);
    assert_false(overlapped);
    return 0;
}

static void post(fixture *f)
{
    assert_int_equal(grpc_call_start_batch(f->poller.wakeup, NULL, 0, &f->n_inside, NULL), GRPC_CALL_OK);
}

static int n_handled(const fixture *f)
{
    return atomic_load(&f->n_front) + atomic_load(&f->n_back);
}

/* The front, until n events have been handled. */
static void wait_for(fixture *f, int n)
{
    const uint64_t limit_ns = pf_now_ns() + 5 * SECOND;
    while (n_handled(f) < n && pf_now_ns() < limit_ns) pf_poller_wait(&f->poller, 0, limit_ns);
    assert_int_equal(n_handled(f), n);
}

static void start_poster(fixture *f, void *(*poster)(void *))
{
    assert_int_equal(pthread_create(&f->poster, NULL, poster, f), 0);
    f->has_poster = true;
}

static void *post_later(void *arg)
{
    usleep(20000);
    post(arg);
    return NULL;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

static void a_front_that_waits_handles_what_comes_itself(void **state)
{
    fixture *f = *state;
    pf_poller_wait(&f->poller, 0, pf_now_ns() + 2 * MS); /* it comes */
    for (int i = 1; i <= 100; i++) {
        post(f);
        wait_for(f, i);
    }
    if (f->n_front < 90) fail_msg("the front handled %d of 100 events itself", f->n_front); /* a pause on a busy host */
}

/* It would have to be woken whenever the front goes, which takes longer than a round trip. */
static void the_back_does_not_wait_to_be_woken_by_a_front_that_comes_and_goes(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 100 };
    int n_asleep = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t until_ns = pf_now_ns() + MS;
        pf_poller_wait(&f->poller, until_ns, until_ns);
        pthread_mutex_lock(&f->poller.lock);
        n_asleep += f->poller.back_sleeps;
        pthread_mutex_unlock(&f->poller.lock);
    }
    if (n_asleep > ROUNDS / 4) fail_msg("the back was asleep in %d of %d rounds", n_asleep, ROUNDS);
}

static void a_sleeping_front_is_woken_by_the_event(void **state)
{
    fixture *f = *state;
    pf_poller_wait(&f->poller, 0, pf_now_ns() + 2 * MS);
    const uint64_t begin_ns = pf_now_ns();
    start_poster(f, post_later);
    wait_for(f, 1);
    const uint64_t took_ns = pf_now_ns() - begin_ns;
    if (took_ns > 500 * MS) fail_msg("an event after 20 ms was seen after %.0f ms", (double)took_ns * 1e-6);
    assert_int_equal(f->n_front, 1);
}

static void the_back_polls_while_the_front_is_away(void **state)
{
    fixture *f = *state;
    pf_poller_wait(&f->poller, 0, pf_now_ns() + 2 * MS);
    for (int n = 1; n <= 3; n++) {
        post(f);
        for (int i = 0; i < 2000 && n_handled(f) < n; i++) usleep(1000);
    }
    assert_int_equal(f->n_back, 3);
    assert_true(f->n_looks > 0);
}

static void the_back_yields_at_once(void **state)
{
    fixture *f = *state;
    uint64_t least_ns = SECOND;
    for (int i = 1; i <= TRIES && least_ns > 30 * MS; i++) {
        usleep(2 * FRONT_IDLE_NS / 1000); /* away: the back sleeps in the queue, for 50 ms without a wakeup */
        const uint64_t begin_ns = pf_now_ns();
        pf_poller_wait(&f->poller, 0, begin_ns + 3 * MS);
        post(f);
        wait_for(f, i);
        least_ns = lesser(least_ns, pf_now_ns() - begin_ns);
    }
    assert_true(f->n_front > 0);
    if (least_ns > 30 * MS) fail_msg("the front came back after %.1f ms", (double)least_ns * 1e-6);
}

static void what_the_back_has_handled_ends_the_next_wait(void **state)
{
    fixture *f = *state;
    uint64_t least_ns = SECOND;
    for (int n = 1; n <= TRIES && least_ns >= 40 * MS; n++) {
        post(f);
        for (int i = 0; i < 2000 && n_handled(f) < n; i++) usleep(1000);
        const uint64_t begin_ns = pf_now_ns();
        pf_poller_wait(&f->poller, 0, begin_ns + SECOND);
        least_ns = lesser(least_ns, pf_now_ns() - begin_ns);
    }
    if (least_ns >= 40 * MS) fail_msg("a wait for what had come already took %.0f ms", (double)least_ns * 1e-6);
}

static void a_wait_ends_at_its_deadline_and_not_a_millisecond_before(void **state)
{
    static const uint64_t waits_ns[] = { 0, MS / 10, MS, 5 * MS, 20 * MS };
    fixture *f = *state;
    pf_poller_wait(&f->poller, 0, pf_now_ns() + 2 * MS);
    for (size_t i = 0; i < PF_COUNT(waits_ns); i++) {
        uint64_t least_ns = UINT64_MAX;
        for (int k = 0; k < TRIES && least_ns > waits_ns[i] + MS; k++) {
            const uint64_t begin_ns = pf_now_ns();
            pf_poller_wait(&f->poller, 0, begin_ns + waits_ns[i]);
            const uint64_t took_ns = pf_now_ns() - begin_ns;
            assert_true(took_ns >= waits_ns[i]);
            least_ns = lesser(least_ns, took_ns);
        }
        if (least_ns > waits_ns[i] + MS) /* gRPC alone would add one or two, every time */
            fail_msg("a wait of %.1f ms took %.1f ms", (double)waits_ns[i] * 1e-6, (double)least_ns * 1e-6);
    }
}

static void on_signal(int number)
{
    (void)number;
}

/* So often that no poll of 50 ms ends; for five seconds at most. */
static void *send_signals(void *arg)
{
    fixture *f = arg;
    for (int n = 0; n < 1000 && !atomic_load(&f->is_finished); n++) {
        pthread_kill(f->front, SIGUSR1);
        usleep(5000);
    }
    return NULL;
}

static void a_wait_ends_though_signals_do_not(void **state)
{
    fixture *f = *state;
    const struct sigaction action = { .sa_handler = on_signal };
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    start_poster(f, send_signals);
    const uint64_t begun_ns = pf_now_ns();
    pf_poller_wait(&f->poller, 0, begun_ns + 100 * MS);     /* at its deadline, and */
    pf_poller_wait(&f->poller, 0, begun_ns + 100 * SECOND); /* after 50 ms asleep */
    const uint64_t took_ns = pf_now_ns() - begun_ns;
    atomic_store(&f->is_finished, true);
    assert_in_range(took_ns, 0, 3 * SECOND);
}

static void waiting_costs_no_computing(void **state)
{
    fixture *f = *state;
    uint64_t begin_ns = cpu_ns();
    for (int i = 0; i < 6; i++) pf_poller_wait(&f->poller, 0, UINT64_MAX); /* 50 ms each */
    const uint64_t front_ns = cpu_ns() - begin_ns;
    begin_ns = cpu_ns();
    usleep(300000);
    const uint64_t back_ns = cpu_ns() - begin_ns;
    if (front_ns > 30 * MS || back_ns > 30 * MS)
        fail_msg("300 ms of waiting cost %.1f ms on the front, and %.1f ms on the back", (double)front_ns * 1e-6,
                 (double)back_ns * 1e-6);
}

static void the_back_polls_on_where_the_front_did_not_wait_for_it_to_yield(void **state)
{
    fixture *f = *state;
    usleep(2 * FRONT_IDLE_NS / 1000);
    f->handling_us = 200 * 1000;
    post(f);
    while (f->n_inside == 0) usleep(1000);
    pf_poller_wait(&f->poller, 0, pf_now_ns() + 5 * MS);
    f->handling_us = 0;
    post(f);
    for (int i = 0; i < 5000 && n_handled(f) < 2; i++) usleep(1000);
    assert_int_equal(f->n_back, 2);
}

/* The watchdog would otherwise take the computing for a poll that does not end. */
static void a_poll_is_sampled_until_its_event_is_handled(void **state)
{
    fixture *f = *state;
    uint32_t poll;
    uint64_t poll_cpu_ns;
    bool sampled = false;
    usleep(2 * FRONT_IDLE_NS / 1000);
    for (int i = 0; i < 5000 && !sampled; i++, usleep(1000))
        sampled = pf_poller_sample(&f->poller, &poll, &poll_cpu_ns);
    assert_true(sampled); /* the back's */
    post(f);
    wait_for(f, 1);
    assert_false(f->was_sampled);
}

static void *post_many(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        post(arg);
        if (i % 100 == 0) usleep((useconds_t)(i % 3) * 3000);
    }
    return NULL;
}

static void no_event_is_lost_while_front_and_back_take_turns(void **state)
{
    fixture *f = *state;
    start_poster(f, post_many);
    for (int i = 0; n_handled(f) < 2000 && i < 20000; i++) {
        pf_poller_wait(&f->poller, pf_now_ns() + (uint64_t)(i % 2) * MS / 10, pf_now_ns() + (uint64_t)(i % 4) * MS);
        if (i % 16 == 0) usleep(FRONT_IDLE_NS / 1000 + 1000);
    }
    assert_int_equal(n_handled(f), 2000);
}

#define TEST(claim) cmocka_unit_test_setup_teardown(claim, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_front_that_waits_handles_what_comes_itself),
        TEST(the_back_does_not_wait_to_be_woken_by_a_front_that_comes_and_goes),
        TEST(a_sleeping_front_is_woken_by_the_event),
        TEST(the_back_polls_while_the_front_is_away),
        TEST(the_back_yields_at_once),
        TEST(what_the_back_has_handled_ends_the_next_wait),
        TEST(a_wait_ends_at_its_deadline_and_not_a_millisecond_before),
        TEST(a_wait_ends_though_signals_do_not),
        TEST(waiting_costs_no_computing),
        TEST(the_back_polls_on_where_the_front_did_not_wait_for_it_to_yield),
        TEST(a_poll_is_sampled_until_its_event_is_handled),
        TEST(no_event_is_lost_while_front_and_back_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
