/* Who goes when others need the place, on socketpairs in a server's stead; time is told by setting it back. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/connections.h"
#include "tests/support/test.h"

enum { N = 4, MOST_CALLS = 100 };
static const uint64_t HOUR_NS = UINT64_C(3600) * 1000 * 1000 * 1000;

typedef struct {
    pf_connections connections;
    int theirs[N];
} fixture;

/* N that are gRPC's, all of them here for long. */
static void come(fixture *f)
{
    assert_true(pf_connections_begin(&f->connections, N));
    for (int i = 0; i < N; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        f->theirs[i] = ends[1];
        pf_connections_add(&f->connections, ends[0]);
        f->connections.all[i].since_ns = 0;
        pf_connections_advance(&f->connections, &f->connections.all[i], PF_CONNECTION_GIVEN);
    }
}

static void go(fixture *f)
{
    for (int i = 0; i < N; i++) close(f->theirs[i]);
    while (f->connections.n > 0) pf_connections_drop(&f->connections, &f->connections.all[0]);
    pf_connections_end(&f->connections);
}

/* n calls of one of them begin and are over; for long, or just now. */
static void end_calls(fixture *f, int i, int n, bool for_long)
{
    pf_connection *c = &f->connections.all[i];
    for (int call = 0; call < n; call++) {
        pf_connections_enter(&f->connections, c->fd, MOST_CALLS);
        pf_connections_over(&f->connections, c->fd);
    }
    if (for_long) c->over_ns = 0;
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

static void the_worst_clogged_is_cut_until_few_enough_calls_are_kept(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    end_calls(&f, 0, 5, true);
    end_calls(&f, 1, 30, true);
    end_calls(&f, 2, 20, true);
    assert_int_equal(pf_connections_unclog(&f.connections, 55), 0);
    assert_cut(&f, false, false, false, false);
    assert_int_equal(pf_connections_unclog(&f.connections, 54), 1);
    assert_cut(&f, false, true, false, false);
    struct stat spare;
    assert_int_equal(fstat(f.connections.spare, &spare), 0);
    assert_false(S_ISSOCK(spare.st_mode));                         /* nobody holds it but gRPC */
    assert_int_equal(pf_connections_unclog(&f.connections, 5), 1); /* who is cut already does not count */
    assert_cut(&f, false, true, true, false);
    go(&f);
}

static void who_has_had_no_second_to_read_is_not_cut(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    end_calls(&f, 0, 50, false);
    assert_int_equal(pf_connections_unclog(&f.connections, 0), 0);
    for (int i = 0; i < 50; i++) pf_connections_leave(&f.connections, f.connections.all[0].fd);
    f.connections.all[0].over_ns = 1;
    end_calls(&f, 0, 1, false); /* all of the former are let go of: a new second begins */
    assert_int_equal(pf_connections_unclog(&f.connections, 0), 0);
    f.connections.all[0].over_ns = 0;
    assert_int_equal(pf_connections_unclog(&f.connections, 0), 1);
    assert_cut(&f, true, false, false, false);
    go(&f);
}

static void who_has_only_calls_that_are_over_makes_room_and_who_has_others_stays(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    for (int i = 0; i < N; i++) pf_connections_enter(&f.connections, f.connections.all[i].fd, MOST_CALLS);
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, false, false, false);
    pf_connections_over(&f.connections, f.connections.all[2].fd);
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, false, false, false); /* just now */
    f.connections.all[2].over_ns = 0;
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, false, true, false);
    pf_connections_over(&f.connections, f.connections.all[1].fd);
    pf_connections_leave(&f.connections, f.connections.all[1].fd); /* it has none, and may go at once */
    (void)pf_connections_make_room(&f.connections);
    assert_cut(&f, false, true, true, false);
    go(&f);
}

static void who_has_more_calls_than_are_allowed_is_cut_at_once(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    for (int i = 0; i < MOST_CALLS; i++) pf_connections_enter(&f.connections, f.connections.all[3].fd, MOST_CALLS);
    assert_cut(&f, false, false, false, false);
    pf_connections_enter(&f.connections, f.connections.all[3].fd, MOST_CALLS);
    assert_cut(&f, false, false, false, true);
    go(&f);
}

static void a_number_that_is_anothers_by_now_is_left_alone(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    end_calls(&f, 0, 9, true);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(dup2(ends[0], f.connections.all[0].fd),
                     f.connections.all[0].fd); /* gRPC has closed it meanwhile */
    assert_int_equal(pf_connections_unclog(&f.connections, 0), 1);
    struct pollfd it = { .fd = ends[1], .events = POLLIN };
    assert_int_equal(poll(&it, 1, 0), 0);
    close(ends[0]);
    close(ends[1]);
    go(&f);
}

static void a_newcomer_who_has_hung_up_makes_way_and_one_who_has_only_not_spoken_stays(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    for (int i = 0; i < N; i++) {
        pf_connections_advance(&f.connections, &f.connections.all[i], PF_CONNECTION_SILENT);
        f.connections.all[i].since_ns = pf_now_ns() + HOUR_NS; /* young, however long this takes */
    }
    assert_true(pf_connections_make_room(&f.connections) > 0);
    assert_int_equal(f.connections.n, N);

    const int gone = f.connections.all[2].fd;
    assert_int_equal(shutdown(f.theirs[2], SHUT_WR), 0);
    assert_int_equal(pf_connections_make_room(&f.connections), 0);
    assert_int_equal(f.connections.n, N - 1);
    assert_null(pf_connections_find(&f.connections, gone));
    go(&f);
}

/* What keeps descriptors as few as connections may be: gRPC closes when it comes to it. */
static void who_was_cut_keeps_his_place_until_he_is_closed(void **state)
{
    (void)state;
    fixture f;
    come(&f);
    for (int i = 0; i < N; i++) assert_true(pf_connections_make_room(&f.connections) > 0);
    assert_cut(&f, true, true, true, true);
    f.connections.counted_ns = 0;
    (void)pf_connections_make_room(&f.connections);
    assert_int_equal(f.connections.n, N);

    close(f.connections.all[1].fd); /* now it has */
    assert_int_equal(pf_connections_make_room(&f.connections), 0);
    assert_int_equal(f.connections.n, N - 1);
    go(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_clogged_is_cut_until_few_enough_calls_are_kept),
        cmocka_unit_test(who_has_had_no_second_to_read_is_not_cut),
        cmocka_unit_test(who_has_only_calls_that_are_over_makes_room_and_who_has_others_stays),
        cmocka_unit_test(who_has_more_calls_than_are_allowed_is_cut_at_once),
        cmocka_unit_test(a_number_that_is_anothers_by_now_is_left_alone),
        cmocka_unit_test(a_newcomer_who_has_hung_up_makes_way_and_one_who_has_only_not_spoken_stays),
        cmocka_unit_test(who_was_cut_keeps_his_place_until_he_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
