/* Who is cut for what no call has claimed: connections of TCP that are read in gRPC's stead. */
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
static void come(fixture *f)
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

static void go(fixture *f)
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

static void of_what_nobody_claims_the_most_is_cut_until_little_enough_is_left(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    say_and_read(&f, 0, 2000);
    say_and_read(&f, 1, 5000);
    say_and_read(&f, 2, 3000);
    assert_int_equal(look(&f, BYTES), 0);
    assert_int_equal(look(&f, 2000), 2);
    for (int i = 0; i < N; i++) assert_int_equal(is_cut(&f, i), i > 0);
    assert_int_equal(look(&f, 2000), 0);
    go(&f);
}

static void calls_and_messages_claim_what_they_take_and_no_more(void **state)
{
    (void)state;
    fixture f;
    come(&f);
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
    go(&f);
}

static void who_has_no_calls_left_begins_anew(void **state)
{
    (void)state;
    fixture f;
    come(&f);
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
    go(&f);
}

static void what_has_not_been_read_is_not_counted(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    say(&f, 0, 5000);
    assert_int_equal(look(&f, 1000), 0);
    go(&f);
}

static void pings_are_forgiven(void **state)
{
    (void)state;
    enum { LOOKS_PER_SECOND = 20, MINUTES = 10 };
    fixture f;
    come(&f);
    for (int second = 0; second < 60 * MINUTES; second++) {
        say_and_read(&f, 0, (17 + 17)); /* his own, and the answer to ours */
        for (int i = 0; i < LOOKS_PER_SECOND; i++) assert_int_equal(look(&f, 100), 0);
    }
    go(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_what_nobody_claims_the_most_is_cut_until_little_enough_is_left),
        cmocka_unit_test(calls_and_messages_claim_what_they_take_and_no_more),
        cmocka_unit_test(who_has_no_calls_left_begins_anew),
        cmocka_unit_test(what_has_not_been_read_is_not_counted),
        cmocka_unit_test(pings_are_forgiven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
