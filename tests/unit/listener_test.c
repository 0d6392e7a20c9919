/*
 * Crowds at the door of a server that has few descriptors: those who say nothing, those who do nothing, those who stay.
 * The server is a process of its own, for its limits are; this one speaks to it in frames, without gRPC.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/server.h"
#include "tests/support/mute_peer.h"
#include "tests/support/running_server.h"
#include "tests/support/stranger.h"
#include "tests/support/test.h"

enum { MS = 1000 * 1000, FEW_FILES = 48, CROWD = 100 };

/* ---- the server, a child ----------------------------------------------------------------------------------------- */

static volatile bool stop;

static void on_signal(int number)
{
    (void)number;
    stop = true;
}

/* The main thread is the one that polls while there is nothing to compute: nobody does until SIGUSR2. */
static void on_pause(int number)
{
    (void)number;
    sigset_t all_but_one;
    sigfillset(&all_but_one);
    sigdelset(&all_but_one, SIGUSR2);
    (void)sigsuspend(&all_but_one);
}

static void on_resume(int number)
{
    (void)number;
}

static void allow_pauses(void)
{
    sigset_t resume;
    sigemptyset(&resume);
    sigaddset(&resume, SIGUSR2);
    (void)pthread_sigmask(SIG_BLOCK, &resume, NULL); /* but while it is waited for */
    signal(SIGUSR2, on_resume);
    signal(SIGUSR1, on_pause);
}

static int serve(pf_server_config config, rlim_t n_files, int ready)
{
    const struct rlimit files = { n_files, n_files };
    pf_peer mute = { &mute_peer_ops };
    pf_server *server;
    pf_error error;
    config.address = serving_address;
    config.drafter = &mute;
    config.grace_ns = 20 * MS;
    signal(SIGTERM, on_signal);
    allow_pauses();
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || pf_server_create(&config, &server, &error) != PF_OK) return 1;
    if (write(ready, "r", 1) != 1) return 1;
    const pf_status status = pf_server_run(server, &stop, &error);
    pf_server_destroy(server);
    return status == PF_OK ? 0 : 1;
}

static pid_t begin(pf_server_config config, rlim_t n_files)
{
    int ready[2];
    char r;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to outlive a test that fails */
        exit(serve(config, n_files, ready[1]));
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &r, 1), 1);
    close(ready[0]);
    return child;
}

static void end(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_not_equal(access(serving_path, F_OK), 0); /* the socket is gone with it */
}

/* ---- who comes --------------------------------------------------------------------------------------------------- */

/* Asks for the server's health: once, or (Watch) for as long as the connection lasts. */
static int ask(const char *path)
{
    const int fd = stranger_dial();
    assert_true(stranger_push_preface(fd) && stranger_open_stream(fd, 1, path));
    assert_true(stranger_push_frame(fd, 0, 1, 1, "\0\0\0\0\0", 5)); /* an empty message, and no more */
    return fd;
}

static int watcher(void)
{
    return ask("/grpc.health.v1.Health/Watch");
}

static int mute(void)
{
    return stranger_dial();
}

static int idler(void)
{
    const int fd = stranger_dial();
    assert_true(stranger_push_preface(fd));
    return fd;
}

static bool is_told(int fd, int within_ms)
{
    return stranger_hears(fd, "\0\0\0\0\2\x08\1", 7, within_ms); /* SERVING */
}

static bool is_served(int within_ms)
{
    const int fd = ask("/grpc.health.v1.Health/Check");
    const bool served = is_told(fd, within_ms);
    close(fd);
    return served;
}

static void crowd(int fds[CROWD], int (*one)(void))
{
    for (int i = 0; i < CROWD; i++) fds[i] = one();
}

static void leave(const int fds[CROWD])
{
    for (int i = 0; i < CROWD; i++) close(fds[i]);
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static void a_server_out_of_descriptors_serves_again_once_some_are_free(void **state)
{
    (void)state;
    int fds[CROWD];
    const pid_t server = begin((pf_server_config){ .max_connections = 1000 }, FEW_FILES);
    for (int round = 0; round < 2; round++) {
        assert_true(is_served(5000));
        crowd(fds, watcher); /* all with a call: none can be sent away */
        assert_false(is_served(300));
        leave(fds);
    }
    assert_true(is_served(5000));
    end(server);
}

static void who_is_silent_or_idle_makes_way(void **state)
{
    (void)state;
    int silent[CROWD], idle[CROWD];
    const pf_server_config configs[] = { { .max_connections = 1000 }, { .max_connections = 0 } };
    for (size_t i = 0; i < PF_COUNT(configs); i++) { /* for want of descriptors, and past the limit */
        const pid_t server = begin(configs[i], FEW_FILES);
        crowd(silent, mute);
        assert_true(is_served(5000));
        crowd(idle, idler);
        assert_true(is_served(5000));
        leave(silent);
        leave(idle);
        end(server);
    }
}

static void who_has_a_call_stays(void **state)
{
    (void)state;
    int fds[CROWD];
    const pid_t server = begin((pf_server_config){ .max_connections = 20 }, 1000);
    const int kept = watcher();
    assert_true(is_told(kept, 5000));
    crowd(fds, idler);
    assert_true(is_served(5000));
    assert_true(stranger_push_frame(kept, 6, 0, 0, "12345678", 8)); /* PING, and its answer */
    assert_true(stranger_hears(kept, "\0\0\x08\6\1\0\0\0\00012345678", 17, 5000));
    leave(fds);
    close(kept);
    end(server);
}

/* Note to whom gRPC says its first words, which it does when it is given a connection. How many there are in all. */
static int count_given(const int fds[CROWD], bool given[CROWD], int within_ms)
{
    int n = 0;
    for (int i = 0; i < CROWD; i++) {
        if (!given[i]) given[i] = stranger_hears(fds[i], "\4\0\0\0\0\0", 6, within_ms); /* SETTINGS */
        n += given[i];
    }
    return n;
}

static void who_comes_faster_than_he_is_read_waits_at_the_door(void **state)
{
    (void)state;
    int fds[CROWD];
    const pid_t server = begin((pf_server_config){ .max_connections = 0 }, 1000);
    assert_true(is_served(5000));
    assert_int_equal(kill(server, SIGUSR1), 0);
    usleep(100 * 1000);
    crowd(fds, idler);
    usleep(400 * 1000);
    bool given[CROWD] = { false };
    const int n_given = count_given(fds, given, 1);
    if (n_given > 8) print_message("%d were let in: gRPC's own poller read them meanwhile\n", n_given);
    assert_int_equal(kill(server, SIGUSR2), 0);
    assert_true(is_served(30000));
    assert_int_equal(count_given(fds, given, 5000), CROWD); /* the others, now */
    leave(fds);
    end(server);
}

static void who_does_not_speak_is_hung_up_on_after_a_while(void **state)
{
    (void)state;
    const pid_t server = begin((pf_server_config){ .silence_ns = 200 * MS }, 1000);
    const int idle = idler(), silent = mute(), half = mute(), other = mute();
    assert_true(stranger_push(half, "PRI * HTTP/2.0\r\n", 16));
    assert_false(stranger_is_hung_up_on(silent, 100));
    assert_true(stranger_push(other, "GET / HTTP/1.1\r\n\r\n", 18));
    assert_true(stranger_is_hung_up_on(other, 5000));
    assert_true(stranger_is_hung_up_on(silent, 5000));
    assert_true(stranger_is_hung_up_on(half, 5000));
    assert_false(stranger_is_hung_up_on(idle, 300));
    close(idle);
    close(silent);
    close(half);
    close(other);
    end(server);
}

static void who_resets_streams_without_end_is_stopped_and_others_go_on(void **state)
{
    (void)state;
    const pid_t server = begin((pf_server_config){ .max_streams = 0 }, 1000);
    const int kept = watcher();
    assert_true(is_told(kept, 5000));
    const int wild = idler();
    assert_true(stranger_resets_until_refused(wild, 200 * 1000, "/pilotfish.v1.Drafter/Draft"));
    assert_true(stranger_push_frame(kept, 6, 0, 0, "12345678", 8));
    assert_true(stranger_hears(kept, "\0\0\x08\6\1\0\0\0\00012345678", 17, 5000));
    close(wild);         /* while gRPC reads him no more, his calls may hold every place */
    bool served = false; /* once its streams have been swept up */
    for (int i = 0; i < 100 && !served; i++, usleep(100 * 1000)) served = is_served(5000);
    assert_true(served);
    close(kept);
    end(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_out_of_descriptors_serves_again_once_some_are_free),
        cmocka_unit_test(who_is_silent_or_idle_makes_way),
        cmocka_unit_test(who_has_a_call_stays),
        cmocka_unit_test(who_comes_faster_than_he_is_read_waits_at_the_door),
        cmocka_unit_test(who_does_not_speak_is_hung_up_on_after_a_while),
        cmocka_unit_test(who_resets_streams_without_end_is_stopped_and_others_go_on),
    };
    return cmocka_run_group_tests(tests, serving_make_directory, serving_remove_directory);
}
