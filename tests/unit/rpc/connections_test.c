/* Which connection is evicted when a place is needed. Socketpairs stand for connections; tests set timestamps back. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/listener/connections.h"
#include "tests/support/test.h"

enum { N = 4, MOST_CALLS = 100 };
static const uint64_t HOUR_NS = UINT64_C(3600) * 1000 * 1000 * 1000;

typedef struct {
    pf_connections connections;
    int theirs[N];
} fixture;

/* n that are gRPC's, all of them here for long. */
static void add_connections(pf_connections *cs, int *theirs, int n)
{
    assert_true(pf_connections_begin(cs, n));
    for (int i = 0; i < n; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        theirs[i] = ends[1];
        pf_connections_add(cs, ends[0]);
        cs->all[i].since_ns = 0;
        pf_connections_advance(cs, &cs->all[i], PF_CONNECTION_HANDED_OFF);
    }
}

static void remove_connections(pf_connections *cs, const int *theirs, int n)
{
    for (int i = 0; i < n; i++) close(theirs[i]);
    while (cs->n > 0) pf_connections_drop(cs, &cs->all[0]);
    pf_connections_end(cs);
}

static void set_up(fixture *f)
{
    add_connections(&f->connections, f->theirs, N);
}

static void tear_down(fixture *f)
{
    remove_connections(&f->connections, f->theirs, N);
}

/* n calls of one of them begin and are over; for long, or just now. */
static void end_calls(fixture *f, int i, int n, bool for_long)
{
    pf_connection *c = &f->connections.all[i];
    for (int call = 0; call < n; call++) {
        pf_connections_call_started(&f->connections, c->fd, MOST_CALLS);
        pf_connections_call_finished(&f->connections, c->fd);
    }
    if (for_long) c->finished_ns = 0;
}

static bool is_cut(const fixture *f, int i)
{
    struct pollfd it = { .fd = f->theirs[i], .events = POLLIN };
    return poll(&it, 1, 0) == 1 && (it.revents & POLLHUP);
}

static void assert_cut(const fixture *f, bool first, bool second, bool third, bool fourth)
{
    const bool expected[N] = { first, second, third, fourth };
    for (int i = 0; i < N; i++) assert_int_equal(is_cut(f, i), expected[i]);
}

static void the_most_back_pressured_connections_are_cut_until_few_enough_calls_are_kept(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    end_calls(&f, 0, 5, true);
    end_calls(&f, 1, 30, true);
    end_calls(&f, 2, 20, true);
    assert_int_equal(pf_connections_disconnect_back_pressured(&f.connections, 55), 0);
    assert_cut(&f, false, false, false, false);
    assert_int_equal(pf_connections_disconnect_back_pressured(&f.connections, 54), 1);
    assert_cut(&f, false, true, false, false);
    struct stat spare;
    assert_int_equal(fstat(f.connections.spare, &spare), 0);
    assert_false(S_ISSOCK(spare.st_mode)); /* only gRPC holds it */
    assert_int_equal(pf_connections_disconnect_back_pressured(&f.connections, 5),
                     1); /* a cut connection does not count */
    assert_cut(&f, false, true, true, false);
    tear_down(&f);
}

static void a_connection_is_not_cut_before_it_has_had_a_second_to_read(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    end_calls(&f, 0, 50, false);
    assert_int_equal(pf_connections_disconnect_back_pressured(&f.connections, 0), 0);
    for (int i = 0; i < 50; i++) pf_connections_call_freed(&f.connections, f.connections.all[0].fd);
    f.connections.all[0].finished_ns = 1;
    end_calls(&f, 0, 1, false); /* all of the former are let go of: a new second begins */
    assert_int_equal(pf_connections_disconnect_back_pressured(&f.connections, 0), 0);
    f.connections.all[0].finished_ns = 0;
    end_calls(&f, 0, 1, false); /* and none for another */
    assert_int_equal(pf_connections_disconnect_back_pressured(&f.connections, 0), 1);
    assert_cut(&f, true, false, false, false);
    tear_down(&f);
}

static void a_connection_with_only_ended_calls_is_evicted_and_one_with_live_calls_stays(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int i = 0; i < N; i++) pf_connections_call_started(&f.connections, f.connections.all[i].fd, MOST_CALLS);
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, false, false, false);
    pf_connections_call_finished(&f.connections, f.connections.all[2].fd);
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, false, false, false); /* just now */
    f.connections.all[2].finished_ns = 0;
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, false, true, false);
    pf_connections_call_finished(&f.connections, f.connections.all[1].fd);
    pf_connections_call_freed(&f.connections, f.connections.all[1].fd); /* it has none, and may go at once */
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, true, true, false);
    tear_down(&f);
}

/* Silent connections go before those of gRPC, and the oldest of each kind goes first. gRPC does not own a connection yet that
 * waits for it, and would not close it. */
static void silent_connections_are_evicted_first_then_the_oldest(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    pf_connections_advance(&f.connections, &f.connections.all[0], PF_CONNECTION_READY);
    pf_connections_advance(&f.connections, &f.connections.all[2], PF_CONNECTION_NEW);
    pf_connections_advance(&f.connections, &f.connections.all[3], PF_CONNECTION_NEW);
    static const bool expected[][N] = { { false, false, true, false },
                                        { false, false, true, true },
                                        { false, true, true, true },
                                        { false, true, true, true } };
    for (int i = 0; i < N; i++) {
        (void)pf_connections_make_room(&f.connections);
        assert_cut(&f, expected[i][0], expected[i][1], expected[i][2], expected[i][3]);
    }
    tear_down(&f);
}

static void a_new_grpc_connection_has_time_to_call(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int i = 0; i < N; i++) f.connections.all[i].since_ns = pf_now_ns() + HOUR_NS;
    assert_int_equal(shutdown(f.theirs[0], SHUT_WR), 0); /* gRPC hears of it by itself */
    (void)pf_connections_make_room(&f.connections);
    assert_int_equal(pf_connections_count(&f.connections, PF_CONNECTION_HANDED_OFF), N);
    tear_down(&f);
}

static void no_connection_is_idle_while_a_call_has_no_known_connection(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    pf_connections_call_started(&f.connections, -1, MOST_CALLS);
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, false, false, false);
    tear_down(&f);
}

static void a_connection_with_too_many_calls_is_cut_at_once(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int i = 0; i < MOST_CALLS; i++)
        pf_connections_call_started(&f.connections, f.connections.all[3].fd, MOST_CALLS);
    assert_cut(&f, false, false, false, false);
    pf_connections_call_started(&f.connections, f.connections.all[3].fd, MOST_CALLS);
    assert_cut(&f, false, false, false, true);
    tear_down(&f);
}

static void a_reused_descriptor_is_not_cut(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    end_calls(&f, 0, 9, true);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(dup2(ends[0], f.connections.all[0].fd),
                     f.connections.all[0].fd); /* gRPC has closed it meanwhile */
    assert_int_equal(pf_connections_disconnect_back_pressured(&f.connections, 0), 0);
    assert_false(pf_connections_shut_down(&f.connections, &f.connections.all[0]));
    assert_true(pf_connections_shut_down(&f.connections, &f.connections.all[1]));
    struct pollfd it = { .fd = ends[1], .events = POLLIN };
    assert_int_equal(poll(&it, 1, 0), 0);
    close(ends[0]);
    close(ends[1]);
    tear_down(&f);
}

static void a_reused_descriptor_is_a_new_connection(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    end_calls(&f, 1, 9, true);
    const int number = f.connections.all[1].fd;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(dup2(ends[0], number), number); /* gRPC has closed it, and it is accepted again */
    pf_connections_add(&f.connections, number);
    assert_int_equal(f.connections.n, N);
    const pf_connection *newcomer = pf_connections_find(&f.connections, number);
    assert_ptr_equal(newcomer, &f.connections.all[N - 1]);
    assert_int_equal(newcomer->stage, PF_CONNECTION_NEW);
    assert_int_equal(newcomer->n_calls + newcomer->n_finished, 0);
    close(ends[0]);
    close(ends[1]);
    tear_down(&f);
}

static void a_new_connection_that_has_disconnected_is_evicted_and_a_silent_one_stays(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int i = 0; i < N; i++) {
        pf_connections_advance(&f.connections, &f.connections.all[i], PF_CONNECTION_NEW);
        f.connections.all[i].since_ns = pf_now_ns() + HOUR_NS; /* young, however long this takes */
    }
    assert_true(pf_connections_make_room(&f.connections) > 0);
    assert_int_equal(f.connections.n, N);

    const int gone = f.connections.all[2].fd;
    assert_int_equal(shutdown(f.theirs[2], SHUT_WR), 0);
    assert_int_equal(pf_connections_make_room(&f.connections), 0);
    assert_int_equal(f.connections.n, N - 1);
    assert_null(pf_connections_find(&f.connections, gone));
    tear_down(&f);
}

/* What keeps descriptors as few as connections may be: gRPC closes when it comes to it. */
static void a_cut_connection_counts_until_it_is_closed(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int i = 0; i < N; i++) assert_true(pf_connections_make_room(&f.connections) > 0);
    assert_cut(&f, true, true, true, true);
    f.connections.counted_ns = 0;
    (void)pf_connections_make_room(&f.connections);
    assert_int_equal(f.connections.n, N);

    close(f.connections.all[1].fd); /* now it has */
    assert_int_equal(pf_connections_make_room(&f.connections), 0);
    assert_int_equal(f.connections.n, N - 1);
    tear_down(&f);
}

static void few_connections_are_cut_at_once_and_the_next_after_a_close(void **state)
{
    (void)state;
    enum { MANY = 64 };
    pf_connections cs;
    int theirs[MANY];
    add_connections(&cs, theirs, MANY);
    for (int i = 0; i < MANY; i++) assert_true(pf_connections_make_room(&cs) > 0);
    const int32_t few = pf_connections_count(&cs, PF_CONNECTION_CLOSING);
    assert_in_range(few, 1, MANY / 2);
    close(cs.all[0].fd);
    assert_int_equal(pf_connections_make_room(&cs), 0);
    assert_int_equal(pf_connections_count(&cs, PF_CONNECTION_CLOSING), few - 1);
    assert_true(pf_connections_make_room(&cs) > 0);
    assert_int_equal(pf_connections_count(&cs, PF_CONNECTION_CLOSING), few);
    remove_connections(&cs, theirs, MANY);
}

static void no_connection_is_evicted_while_a_place_is_free(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    close(f.connections.all[3].fd); /* by gRPC, of itself */
    assert_int_equal(pf_connections_make_room(&f.connections), 0);
    assert_int_equal(f.connections.n, N - 1);
    assert_cut(&f, false, false, false, true);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_back_pressured_connections_are_cut_until_few_enough_calls_are_kept),
        cmocka_unit_test(a_connection_is_not_cut_before_it_has_had_a_second_to_read),
        cmocka_unit_test(a_connection_with_only_ended_calls_is_evicted_and_one_with_live_calls_stays),
        cmocka_unit_test(silent_connections_are_evicted_first_then_the_oldest),
        cmocka_unit_test(a_new_grpc_connection_has_time_to_call),
        cmocka_unit_test(no_connection_is_idle_while_a_call_has_no_known_connection),
        cmocka_unit_test(a_connection_with_too_many_calls_is_cut_at_once),
        cmocka_unit_test(a_reused_descriptor_is_not_cut),
        cmocka_unit_test(a_reused_descriptor_is_a_new_connection),
        cmocka_unit_test(a_new_connection_that_has_disconnected_is_evicted_and_a_silent_one_stays),
        cmocka_unit_test(a_cut_connection_counts_until_it_is_closed),
        cmocka_unit_test(few_connections_are_cut_at_once_and_the_next_after_a_close),
        cmocka_unit_test(no_connection_is_evicted_while_a_place_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
