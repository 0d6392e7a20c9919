/* Which connection is cut for bytes of no call: TCP connections that the tests read as gRPC would. */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/listener/unattributed_bytes.h"
#include "tests/support/test.h"

enum { N = 3, MOST_CALLS = 100, BYTES = 10000 };

typedef struct {
    pf_connections connections;
    int ours[N], theirs[N];
} fixture;

static void connect_two(int listening, int *ours, int *theirs)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &n), 0);
    *theirs = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(*theirs, (struct sockaddr *)&at, sizeof at), 0);
    *ours = accept(listening, NULL, NULL);
    assert_true(*ours >= 0);
}

/* N that are gRPC's. */
static void set_up(fixture *f)
{
    const struct sockaddr_in any_port = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listening, (const struct sockaddr *)&any_port, sizeof any_port), 0);
    assert_int_equal(listen(listening, N), 0);
    assert_true(pf_connections_begin(&f->connections, N));
    for (int i = 0; i < N; i++) {
        connect_two(listening, &f->ours[i], &f->theirs[i]);
        pf_connections_add(&f->connections, f->ours[i]);
        pf_connections_advance(&f->connections, &f->connections.all[i], PF_CONNECTION_HANDED_OFF);
    }
    close(listening);
}

static void tear_down(fixture *f)
{
    for (int i = 0; i < N; i++) close(f->theirs[i]);
    while (f->connections.n > 0) pf_connections_drop(&f->connections, &f->connections.all[0]);
    pf_connections_end(&f->connections);
}

static void say(const fixture *f, int i, size_t n)
{
    static char bytes[BYTES];
    assert_true(n <= sizeof bytes);
    assert_int_equal(send(f->theirs[i], bytes, n, 0), n);
}

static void say_and_read(const fixture *f, int i, size_t n)
{
    static char bytes[BYTES];
    say(f, i, n);
    assert_int_equal(recv(f->ours[i], bytes, n, MSG_WAITALL), n);
}

static bool is_cut(const fixture *f, int i)
{
    struct pollfd it = { .fd = f->theirs[i], .events = POLLRDHUP };
    return poll(&it, 1, 0) == 1;
}

static int look(fixture *f, size_t most_bytes)
{
    return pf_unattributed_bytes_check(&f->connections, most_bytes);
}

static void connections_with_the_most_unattributed_bytes_are_cut_until_few_enough_are_left(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    say_and_read(&f, 0, 2000);
    say_and_read(&f, 1, 5000);
    say_and_read(&f, 2, 3000);
    assert_int_equal(look(&f, BYTES), 0);
    assert_int_equal(look(&f, 2000), 2);
    for (int i = 0; i < N; i++) assert_int_equal(is_cut(&f, i), i > 0);
    assert_int_equal(look(&f, 2000), 0);
    tear_down(&f);
}

static void calls_and_messages_account_for_their_bytes_and_no_more(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    say_and_read(&f, 0, 1000);
    pf_connections_call_started(&f.connections, f.ours[0], MOST_CALLS);
    assert_int_equal(look(&f, 100), 0);
    for (int i = 0; i < 100; i++) {
        say_and_read(&f, 0, 5000 + 9 + 5 + 26); /* in a frame, with two window updates */
        pf_connections_attribute(&f.connections, f.ours[0], 5000);
        assert_int_equal(look(&f, 100), 0);
    }
    for (int i = 0; i < 4; i++) { /* as much again trails each call, and waits with it */
        say_and_read(&f, 0, 5000);
        pf_connections_call_started(&f.connections, f.ours[0], MOST_CALLS);
        pf_connections_attribute(&f.connections, f.ours[0], 0);
        assert_int_equal(look(&f, 12000), i == 3);
    }
    tear_down(&f);
}

static void the_count_restarts_when_no_calls_are_left(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int i = 0; i < 10; i++) {
        pf_connections_call_started(&f.connections, f.ours[0], MOST_CALLS);
        pf_connections_call_started(&f.connections, f.ours[0], MOST_CALLS);
        say_and_read(&f, 0, 5000);
        for (int call = 0; call < 2; call++) {
            assert_int_equal(look(&f, 5000), 0);
            pf_connections_call_finished(&f.connections, f.ours[0]);
            pf_connections_call_freed(&f.connections, f.ours[0]);
        }
    }
    assert_int_equal(look(&f, 100), 0);
    tear_down(&f);
}

static void unread_bytes_are_not_counted(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    say(&f, 0, 5000);
    assert_int_equal(look(&f, 1000), 0);
    tear_down(&f);
}

static void pings_are_not_counted(void **state)
{
    (void)state;
    enum { LOOKS_PER_SECOND = 20, MINUTES = 10 };
    fixture f;
    set_up(&f);
    for (int second = 0; second < 60 * MINUTES; second++) {
        say_and_read(&f, 0, (17 + 17)); /* its own, and the answer to ours */
        for (int i = 0; i < LOOKS_PER_SECOND; i++) assert_int_equal(look(&f, 100), 0);
    }
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_with_the_most_unattributed_bytes_are_cut_until_few_enough_are_left),
        cmocka_unit_test(calls_and_messages_account_for_their_bytes_and_no_more),
        cmocka_unit_test(the_count_restarts_when_no_calls_are_left),
        cmocka_unit_test(unread_bytes_are_not_counted),
        cmocka_unit_test(pings_are_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
