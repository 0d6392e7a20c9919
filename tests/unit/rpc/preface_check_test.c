/* The first bytes of a connection, and how many unread connections are handed off: socketpairs, and a function that notes what
 * it is given in place of gRPC. */
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/listener/preface_check.h"
#include "tests/support/test.h"

enum { N = 3 * PF_PREFACE_CHECK_MOST_UNREAD };

static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

typedef struct {
    pf_connections connections;
    int theirs[N];
    int given[N], n_given;
} fixture;

static void give(void *user, int fd)
{
    fixture *f = user;
    f->given[f->n_given++] = fd;
}

/* N connections that have sent their preface. */
static void set_up(fixture *f)
{
    *f = (fixture){ .n_given = 0 };
    assert_true(pf_connections_begin(&f->connections, N));
    for (int i = 0; i < N; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        f->theirs[i] = ends[1];
        assert_int_equal(write(ends[1], PREFACE, sizeof PREFACE - 1), sizeof PREFACE - 1);
        pf_connections_add(&f->connections, ends[0]);
        pf_connections_advance(&f->connections, &f->connections.all[i], PF_CONNECTION_READY);
    }
}

static void tear_down(fixture *f)
{
    for (int i = 0; i < N; i++) close(f->theirs[i]);
    while (f->connections.n > 0) pf_connections_drop(&f->connections, &f->connections.all[0]);
    pf_connections_end(&f->connections);
}

static void read_from(int fd)
{
    char said[sizeof PREFACE];
    assert_int_equal(read(fd, said, sizeof said), sizeof PREFACE - 1);
}

static void no_more_are_given_than_are_read_the_oldest_first(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int i = 0; i < 3; i++)
        assert_true(pf_preface_hand_off(&f.connections, give, &f) >= 0); /* again and again: no more */
    assert_int_equal(f.n_given, PF_PREFACE_CHECK_MOST_UNREAD);
    read_from(f.given[5]); /* each that is read admits one */
    assert_true(pf_preface_hand_off(&f.connections, give, &f) >= 0);
    assert_int_equal(f.n_given, PF_PREFACE_CHECK_MOST_UNREAD + 1);
    for (int i = 0; i < f.n_given; i++)
        if (i != 5) read_from(f.given[i]);
    assert_true(pf_preface_hand_off(&f.connections, give, &f) >= 0);
    assert_int_equal(f.n_given, 2 * PF_PREFACE_CHECK_MOST_UNREAD + 1);
    for (int i = 0; i < f.n_given; i++) assert_int_equal(f.given[i], f.connections.all[i].fd);
    tear_down(&f);
}

static void all_are_given_in_the_end(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int n_read = 0; pf_preface_hand_off(&f.connections, give, &f) >= 0;)
        while (n_read < f.n_given) read_from(f.given[n_read++]);
    assert_int_equal(f.n_given, N);
    assert_int_equal(pf_connections_count(&f.connections, PF_CONNECTION_HANDED_OFF), N);
    assert_int_equal(pf_preface_hand_off(&f.connections, give, &f), -1);
    tear_down(&f);
}

static void a_closed_connection_is_not_waited_for(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    assert_true(pf_preface_hand_off(&f.connections, give, &f) >= 0);
    read_from(f.given[0]);
    assert_int_equal(shutdown(f.theirs[0], SHUT_WR), 0); /* its end is all there is to be read now */
    assert_int_equal(shutdown(f.given[1], SHUT_RDWR), 0);
    read_from(f.given[1]);
    assert_true(pf_preface_hand_off(&f.connections, give, &f) >= 0);
    assert_int_equal(f.n_given, PF_PREFACE_CHECK_MOST_UNREAD + 2);
    tear_down(&f);
}

static void a_connection_that_closes_before_its_turn_is_dropped(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (int i = 0; i < N; i++)
        if (i % 3 != 0) assert_int_equal(shutdown(f.theirs[i], SHUT_WR), 0); /* as a closed connection, over TCP */
    assert_int_equal(pf_preface_hand_off(&f.connections, give, &f), -1);
    assert_int_equal(f.n_given, N / 3);
    assert_int_equal(f.connections.n, N / 3);
    for (int i = 0; i < f.n_given; i++) assert_int_equal(f.given[i], f.connections.all[i].fd);
    tear_down(&f);
}

static void a_closed_connection_is_dropped_while_others_are_unread(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    assert_true(pf_preface_hand_off(&f.connections, give, &f) >= 0);
    assert_int_equal(shutdown(f.theirs[PF_PREFACE_CHECK_MOST_UNREAD], SHUT_WR), 0);
    assert_true(pf_preface_hand_off(&f.connections, give, &f) >= 0);
    assert_int_equal(f.n_given, PF_PREFACE_CHECK_MOST_UNREAD);
    assert_int_equal(f.connections.n, N - 1);
    tear_down(&f);
}

static void first_bytes_are_the_preface_part_of_it_or_something_else(void **state)
{
    (void)state;
    static const struct {
        const char *said;
        pf_preface what;
    } cases[] = { { "", PF_PREFACE_PART },
                  { "PRI", PF_PREFACE_PART },
                  { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r", PF_PREFACE_PART },
                  { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", PF_PREFACE_WHOLE },
                  { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore", PF_PREFACE_WHOLE },
                  { "GET / HTTP/1.1\r\n\r\n", PF_PREFACE_NONE },
                  { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", PF_PREFACE_NONE } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        assert_int_equal(write(ends[1], cases[i].said, strlen(cases[i].said)), strlen(cases[i].said));
        for (int twice = 0; twice < 2; twice++) assert_int_equal(pf_preface_of(ends[0]), cases[i].what); /* it stays */
        close(ends[1]);
        if (*cases[i].said == '\0') assert_int_equal(pf_preface_of(ends[0]), PF_PREFACE_NONE);
        close(ends[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_are_given_than_are_read_the_oldest_first),
        cmocka_unit_test(all_are_given_in_the_end),
        cmocka_unit_test(a_closed_connection_is_not_waited_for),
        cmocka_unit_test(a_connection_that_closes_before_its_turn_is_dropped),
        cmocka_unit_test(a_closed_connection_is_dropped_while_others_are_unread),
        cmocka_unit_test(first_bytes_are_the_preface_part_of_it_or_something_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
