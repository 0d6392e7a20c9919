/* Which connection is cut for a poll that does not end: socketpairs, a thread that reads one of them as gRPC would, and a poller
 * whose polls and CPU time the tests set. */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/listener/poll_watchdog.h"
#include "tests/support/test.h"

enum { N = 3, READ = 1 /* from this one */, MS = 1000 * 1000 };

typedef struct {
    pf_connections connections;
    int ours[N], theirs[N];
    pf_poller poller; /* polls on this thread, as far as the watch can see */
    pf_poll_watchdog watch;
    atomic_bool stop;
    pthread_t reader;
    atomic_bool reads;
} fixture;

/* Goes on and on: what is read is written again. */
static void *read_on(void *arg)
{
    fixture *f = arg;
    char byte = 0;
    while (atomic_load(&f->reads)) {
        for (int i = 0; i < 50; i++, usleep(100)) (void)recv(f->ours[READ], &byte, 1, MSG_DONTWAIT);
        for (int i = 0; i < 50; i++) (void)send(f->theirs[READ], &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return NULL;
}

/* N that are gRPC's and have said much, the poll before the first. */
static void set_up(fixture *f, bool reads)
{
    static const char much[1000];
    *f = (fixture){ .reads = reads };
    f->watch.poller = &f->poller;
    assert_true(pf_connections_begin(&f->connections, N));
    for (int i = 0; i < N; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        f->ours[i] = ends[0];
        f->theirs[i] = ends[1];
        assert_int_equal(write(ends[1], much, sizeof much), sizeof much);
        pf_connections_add(&f->connections, ends[0]);
        pf_connections_advance(&f->connections, &f->connections.all[i], PF_CONNECTION_HANDED_OFF);
    }
    if (reads) assert_int_equal(pthread_create(&f->reader, NULL, read_on, f), 0);
}

static void tear_down(fixture *f)
{
    if (atomic_exchange(&f->reads, false)) pthread_join(f->reader, NULL);
    for (int i = 0; i < N; i++) close(f->theirs[i]);
    while (f->connections.n > 0) pf_connections_drop(&f->connections, &f->connections.all[0]);
    pf_connections_end(&f->connections);
}

static void begin_poll(fixture *f)
{
    clockid_t clock;
    assert_int_equal(pthread_getcpuclockid(pthread_self(), &clock), 0);
    atomic_store(&f->poller.polls_clock, clock);
    atomic_fetch_add(&f->poller.n_polls, 1);
}

/* More than a poll may. */
static void compute(void)
{
    struct timespec now;
    uint64_t until_ns = 0, now_ns;
    do {
        assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
        now_ns = (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
        if (until_ns == 0) until_ns = now_ns + 120 * MS;
    } while (now_ns < until_ns);
}

static bool look(fixture *f)
{
    return pf_poll_watchdog_check(&f->watch, &f->connections, &f->stop);
}

static bool is_cut(const fixture *f, int i)
{
    struct pollfd it = { .fd = f->theirs[i] };
    return poll(&it, 1, 0) == 1 && (it.revents & POLLHUP);
}

static void assert_none_is_cut(fixture *f)
{
    assert_false(look(f));
    for (int i = 0; i < N; i++) assert_false(is_cut(f, i));
}

static void a_connection_that_is_read_during_an_endless_poll_is_cut(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, true);
    begin_poll(&f);
    assert_none_is_cut(&f); /* seen for the first time */
    compute();
    bool cut = false; /* the reader may be kept from its core for longer than a look takes */
    for (const uint64_t until_ns = pf_now_ns() + UINT64_C(60000) * MS; !cut && pf_now_ns() < until_ns;) cut = look(&f);
    assert_true(cut);
    for (int i = 0; i < N; i++) assert_int_equal(is_cut(&f, i), i == READ);
    assert_false(look(&f)); /* once */
    tear_down(&f);
}

static void a_poll_that_has_computed_little_cuts_no_connection(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, true);
    compute(); /* before it */
    for (int i = 0; i < 3; i++) {
        begin_poll(&f);
        for (int twice = 0; twice < 2; twice++) assert_none_is_cut(&f);
    }
    tear_down(&f);
}

static void polls_that_end_cut_no_connection(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, true);
    for (int i = 0; i < 3; i++) {
        begin_poll(&f);
        assert_none_is_cut(&f);
        compute();
    }
    atomic_store(&f.poller.polls_clock, 0); /* no thread polls now */
    assert_none_is_cut(&f);
    tear_down(&f);
}

static void a_connection_that_was_read_before_the_poll_is_not_cut(void **state)
{
    (void)state;
    char said[500];
    fixture f;
    set_up(&f, false);
    for (int i = 0; i < 2; i++) { /* at first all are looked at, and none is read */
        begin_poll(&f);
        assert_none_is_cut(&f);
        compute();
        if (i > 0) assert_int_equal(read(f.ours[READ], said, sizeof said), sizeof said);
        assert_none_is_cut(&f);
    }
    tear_down(&f);
}

static void a_cut_connection_is_not_checked_again(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, true);
    pf_connections_advance(&f.connections, &f.connections.all[READ], PF_CONNECTION_CLOSING);
    begin_poll(&f);
    assert_none_is_cut(&f);
    compute();
    assert_none_is_cut(&f);
    tear_down(&f);
}

/* Its descriptor belongs to another socket: it is not reported, and no thread waits for it. */
static void a_reused_descriptor_is_not_reported_as_cut(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, true);
    f.connections.all[READ].inode++;
    begin_poll(&f);
    assert_none_is_cut(&f);
    compute();
    for (int i = 0; i < 1000 && f.connections.all[READ].stage == PF_CONNECTION_HANDED_OFF; i++) assert_none_is_cut(&f);
    assert_int_equal(f.connections.all[READ].stage, PF_CONNECTION_CLOSING); /* it was found, all the same */
    tear_down(&f);
}

static void a_stopped_watchdog_does_not_look(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, true);
    begin_poll(&f);
    assert_none_is_cut(&f);
    compute();
    atomic_store(&f.stop, true);
    assert_none_is_cut(&f);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_is_read_during_an_endless_poll_is_cut),
        cmocka_unit_test(a_poll_that_has_computed_little_cuts_no_connection),
        cmocka_unit_test(polls_that_end_cut_no_connection),
        cmocka_unit_test(a_connection_that_was_read_before_the_poll_is_not_cut),
        cmocka_unit_test(a_cut_connection_is_not_checked_again),
        cmocka_unit_test(a_reused_descriptor_is_not_reported_as_cut),
        cmocka_unit_test(a_stopped_watchdog_does_not_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
