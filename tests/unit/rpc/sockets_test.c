/* Addresses, and where a server listens: what is in use stays in use, what is dead is taken over, what is another's is left alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/listener/sockets.h"
#include "tests/support/ipv6.h"
#include "tests/support/test.h"

static char directory[] = "/tmp/pf-sockets-XXXXXX";

static pf_address address_of(const char *text)
{
    pf_address address;
    pf_error error;
    assert_ok(pf_address_parse(text, &address, &error), error);
    return address;
}

static pf_address file_address(void)
{
    char text[128];
    snprintf(text, sizeof text, "unix:%s/s", directory);
    return address_of(text);
}

static pf_sockets listening(const pf_address *address)
{
    pf_sockets sockets;
    pf_error error;
    assert_ok(pf_sockets_listen(address, &sockets, &error), error);
    return sockets;
}

static void assert_refused(const pf_address *address, const char *why)
{
    pf_sockets sockets;
    pf_error error;
    assert_status(pf_sockets_listen(address, &sockets, &error), PF_UNAVAILABLE);
    assert_says(error, address->text);
    assert_says(error, why);
}

/* A chroot of the least packages may lack /etc/hosts. */
static bool has_localhost(void)
{
    struct addrinfo *found = NULL;
    const bool has = getaddrinfo("localhost", NULL, NULL, &found) == 0;
    if (has) freeaddrinfo(found);
    return has;
}

/* By the linker in the place of getaddrinfo: a host called "two" has two addresses, the second of them twice. */
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    static const char *const two[] = { "127.0.0.1", "127.0.0.2", "127.0.0.2" };
    if (strcmp(node, "two") != 0) return __real_getaddrinfo(node, service, hints, out);
    for (size_t i = 0; i < PF_COUNT(two); out = &(*out)->ai_next, i++)
        assert_int_equal(__real_getaddrinfo(two[i], service, hints, out), 0);
    return 0;
}

/* Likewise, and fails once it is told. */
int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
static bool listen_fails;

int __wrap_listen(int fd, int backlog)
{
    if (!listen_fails) return __real_listen(fd, backlog);
    errno = ENOBUFS;
    return -1;
}

/* And lets others go first. */
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

int __wrap_unlink(const char *path)
{
    sched_yield();
    return __real_unlink(path);
}

static bool answers(const char *ip, int32_t port)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    const bool is_v4 = inet_pton(AF_INET, ip, &v4.sin_addr) == 1;
    if (!is_v4) assert_int_equal(inet_pton(AF_INET6, ip, &v6.sin6_addr), 1);
    const int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    const bool connected = is_v4 ? connect(fd, (const struct sockaddr *)&v4, sizeof v4) == 0
                                 : connect(fd, (const struct sockaddr *)&v6, sizeof v6) == 0;
    close(fd);
    return connected;
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static void a_host_called_like_a_scheme_is_a_host(void **state)
{
    (void)state;
    const struct {
        const char *text, *uri;
    } of[] = { { "dns:5000", "dns:///dns:5000" },
               { "ipv4:80", "dns:///ipv4:80" },
               { "[fe80::1%lo]:7", "dns:///%5Bfe80::1%25lo%5D:7" },
               { "unix:///a?b", "unix:/a%3Fb" } };
    for (size_t i = 0; i < PF_COUNT(of); i++) {
        const pf_address address = address_of(of[i].text);
        char uri[PF_MAX_URI_BYTES];
        pf_address_to_uri(&address, uri);
        assert_string_equal(uri, of[i].uri);
    }
}

/* A server says where it listens, in words that a client must understand. */
static void an_ipv4_address_that_no_client_can_resolve_is_none(void **state)
{
    (void)state;
    const char *const bad[] = { "127.1:0", "127:1", "0:5000", "0x7f.0.0.1:80", "0177.0.0.1:80", "2130706433:1" };
    for (size_t i = 0; i < PF_COUNT(bad); i++) {
        pf_address address;
        pf_error error;
        assert_status(pf_address_parse(bad[i], &address, &error), PF_INVALID);
        assert_says(error, bad[i]);
        assert_says(error, "four decimal numbers");
    }
    const char *const good[] = { "127.0.0.1:0", "0.0.0.0:80", "10.example:1", "1.2.3.4.5:1", "[::1]:1" };
    for (size_t i = 0; i < PF_COUNT(good); i++) (void)address_of(good[i]);
}

/* Half a pair would be another host to listen on than the one that is written. */
static void brackets_stand_as_a_pair_round_ipv6_alone(void **state)
{
    (void)state;
    const char *const bad[] = {
        "[:8123", "]:1",        "[]:1",          "[[]:1",    "[::1:80",   "::1]:80", "[0]:8151",
        "[a]:80", "[127.1]:80", "[127.0.0.1:80", "[[::1]:1", "[[::1]]:1", "a[b]:80", "[::1]a:80"
    };
    for (size_t i = 0; i < PF_COUNT(bad); i++) {
        pf_address address;
        pf_error error;
        assert_status(pf_address_parse(bad[i], &address, &error), PF_INVALID);
        assert_says(error, bad[i]);
        assert_says(error, "[ipv6]:port");
    }
    assert_string_equal(address_of("[::1]:80").host, "::1");
    assert_string_equal(address_of("a:80").host, "a");
}

static void the_longest_address_makes_a_uri(void **state)
{
    (void)state;
    char text[PF_MAX_ADDRESS_BYTES] = "", uri[PF_MAX_URI_BYTES];
    memset(text, '%', 255);
    strcat(text, ":65535");
    const pf_address host = address_of(text);
    pf_address_to_uri(&host, uri);
    assert_int_equal(strlen(uri), strlen("dns:///:65535") + 3 * 255);
    memset(text, '\xff', 5 + 107);
    memcpy(text, "unix:", 5);
    text[5 + 107] = '\0';
    const pf_address path = address_of(text);
    pf_address_to_uri(&path, uri);
    assert_int_equal(strlen(uri), strlen("unix:") + 3 * 107);
}

static void a_port_is_chosen_and_never_shared(void **state)
{
    (void)state;
    const char *const hosts[] = { "127.0.0.1", "[::1]", "localhost" };
    for (size_t i = 0; i < PF_COUNT(hosts); i++) {
        if ((i == 1 && !loopback_has_ipv6()) || (i == 2 && !has_localhost())) continue;
        char text[64];
        snprintf(text, sizeof text, "%s:0", hosts[i]);
        pf_address address = address_of(text);
        pf_sockets sockets = listening(&address);
        assert_in_range(sockets.port, 1, 65535);
        snprintf(text, sizeof text, "%s:%d", hosts[i], (int)sockets.port);
        address = address_of(text);
        assert_refused(&address, "address in use");
        pf_sockets_close(&sockets);
        sockets = listening(&address); /* at once */
        pf_sockets_close(&sockets);
    }
}

static void a_name_is_every_address_that_it_has(void **state)
{
    (void)state;
    const pf_address address = address_of("two:0");
    pf_sockets sockets = listening(&address);
    assert_int_equal(sockets.n, 2);
    assert_true(answers("127.0.0.1", sockets.port));
    assert_true(answers("127.0.0.2", sockets.port));
    pf_sockets_close(&sockets);
}

static void a_connection_inherits_no_delay(void **state)
{
    (void)state;
    const pf_address address = address_of("127.0.0.1:0");
    pf_sockets sockets = listening(&address);
    struct sockaddr_in name;
    socklen_t n = sizeof name;
    assert_int_equal(getsockname(sockets.fds[0], (struct sockaddr *)&name, &n), 0);
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&name, sizeof name), 0);
    const int served = accept(sockets.fds[0], NULL, NULL);
    assert_true(served >= 0);
    int value = 0;
    n = sizeof value;
    assert_int_equal(getsockopt(served, IPPROTO_TCP, TCP_NODELAY, &value, &n), 0);
    assert_int_not_equal(value, 0);
    assert_int_equal(getsockopt(served, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &n), 0);
    assert_int_not_equal(value, 0);
    close(served);
    close(client);
    pf_sockets_close(&sockets);
}

static void a_socket_file_is_private_and_leaves_with_its_owner(void **state)
{
    (void)state;
    struct stat st;
    const pf_address address = file_address();
    const mode_t mask = umask(0);
    pf_sockets sockets = listening(&address);
    umask(mask);
    assert_int_equal(stat(address.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_refused(&address, "address in use");
    pf_sockets_close(&sockets);
    assert_int_not_equal(access(address.path, F_OK), 0);
}

/* A socket of that name, which does not listen. */
static int bound(const pf_address *address)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    strcpy(un.sun_path, address->path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&un, sizeof un), 0);
    return fd;
}

static void a_dead_file_is_taken_over_and_another_s_left_alone(void **state)
{
    (void)state;
    const pf_address address = file_address();
    close(bound(&address));
    pf_sockets sockets = listening(&address);
    assert_int_equal(unlink(address.path), 0);
    const int other = bound(&address);
    pf_sockets_close(&sockets);
    assert_int_equal(access(address.path, F_OK), 0);
    close(other);
    assert_int_equal(unlink(address.path), 0);
}

static void a_bound_socket_that_does_not_listen_yet_keeps_the_file(void **state)
{
    (void)state;
    const pf_address address = file_address();
    const int early = bound(&address);
    assert_refused(&address, "address in use");
    assert_int_equal(listen(early, 1), 0);
    assert_refused(&address, "address in use");
    close(early);
    assert_int_equal(unlink(address.path), 0);
}

/* One of many that begin at once, before the same dead file. */
typedef struct {
    pf_address address;
    pthread_barrier_t *gate;
    pf_sockets sockets;
    pf_status status;
} starter;

static void *start(void *arg)
{
    starter *s = arg;
    (void)pthread_barrier_wait(s->gate);
    s->status = pf_sockets_listen(&s->address, &s->sockets, NULL);
    return NULL;
}

static void of_many_that_find_a_dead_file_one_takes_it_over(void **state)
{
    (void)state;
    enum { N_STARTERS = 8, N_TRIES = 100 };
    const pf_address address = file_address();
    for (int i = 0; i < N_TRIES; i++) {
        close(bound(&address));
        pthread_barrier_t gate;
        pthread_t threads[N_STARTERS];
        starter starters[N_STARTERS];
        int n_listening = 0;
        assert_int_equal(pthread_barrier_init(&gate, NULL, N_STARTERS), 0);
        for (int k = 0; k < N_STARTERS; k++) {
            starters[k] = (starter){ .address = address, .gate = &gate };
            assert_int_equal(pthread_create(&threads[k], NULL, start, &starters[k]), 0);
        }
        for (int k = 0; k < N_STARTERS; k++) {
            assert_int_equal(pthread_join(threads[k], NULL), 0);
            n_listening += starters[k].status == PF_OK;
        }
        for (int k = 0; k < N_STARTERS; k++)
            if (starters[k].status == PF_OK) pf_sockets_close(&starters[k].sockets);
        assert_int_equal(pthread_barrier_destroy(&gate), 0);
        assert_int_equal(n_listening, 1);
    }
}

/* By any process that may read it. */
static void a_directory_that_stays_locked_blocks_no_process_from_a_dead_file(void **state)
{
    (void)state;
    const pf_address address = file_address();
    close(bound(&address));
    const int locked = open(directory, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(locked, LOCK_EX), 0);
    pf_sockets sockets = listening(&address);
    pf_sockets_close(&sockets);
    close(locked);
}

static void a_file_that_cannot_be_listened_on_does_not_stay(void **state)
{
    (void)state;
    const pf_address address = file_address();
    listen_fails = true;
    assert_refused(&address, "No buffer space");
    listen_fails = false;
    assert_int_not_equal(access(address.path, F_OK), 0);
}

static void what_cannot_be_listened_on_says_why(void **state)
{
    (void)state;
    const struct {
        const char *text, *why;
    } bad[] = { { "unix:/no/such/directory/x.sock", "/no/such/directory" },
                { "unix:/etc/passwd", "not a socket" },
                { "192.0.2.1:1", "assign requested address" },
                { "no-such-host.invalid:1", "cannot listen on" } };
    for (size_t i = 0; i < PF_COUNT(bad); i++) {
        const pf_address address = address_of(bad[i].text);
        assert_refused(&address, bad[i].why);
    }
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_called_like_a_scheme_is_a_host),
        cmocka_unit_test(an_ipv4_address_that_no_client_can_resolve_is_none),
        cmocka_unit_test(brackets_stand_as_a_pair_round_ipv6_alone),
        cmocka_unit_test(the_longest_address_makes_a_uri),
        cmocka_unit_test(a_port_is_chosen_and_never_shared),
        cmocka_unit_test(a_name_is_every_address_that_it_has),
        cmocka_unit_test(a_connection_inherits_no_delay),
        cmocka_unit_test(a_socket_file_is_private_and_leaves_with_its_owner),
        cmocka_unit_test(a_dead_file_is_taken_over_and_another_s_left_alone),
        cmocka_unit_test(a_bound_socket_that_does_not_listen_yet_keeps_the_file),
        cmocka_unit_test(of_many_that_find_a_dead_file_one_takes_it_over),
        cmocka_unit_test(a_directory_that_stays_locked_blocks_no_process_from_a_dead_file),
        cmocka_unit_test(a_file_that_cannot_be_listened_on_does_not_stay),
        cmocka_unit_test(what_cannot_be_listened_on_says_why),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
