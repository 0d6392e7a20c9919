#include "tests/support/delay_proxy.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/test.h"

enum { MAX_WAYS = 32, MAX_PIECES = 256, PIECE_BYTES = 4096 };

typedef struct {
    uint64_t due_ns;
    ssize_t n; /* 0: the end */
    uint8_t bytes[PIECE_BYTES];
} piece;

/* One direction of a connection. The socket `from` is its own, `to` is the other direction's. */
typedef struct {
    int from, to;
    bool ended; /* nothing more comes in */
    int first, n;
    piece *pieces; /* [MAX_PIECES] a ring */
} way;

struct delay_proxy {
    int listening, delay_ms;
    struct sockaddr_un from, to;
    way ways[MAX_WAYS];
    int n_ways;
    atomic_bool stop;
    pthread_t thread;
};

static struct sockaddr_un name_of(const char *path)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    assert_true(strlen(path) < sizeof name.sun_path);
    strcpy(name.sun_path, path);
    return name;
}

static void add_way(delay_proxy *line, int from, int to)
{
    piece *pieces = calloc(MAX_PIECES, sizeof *pieces);
    assert_non_null(pieces);
    line->ways[line->n_ways++] = (way){ .from = from, .to = to, .pieces = pieces };
}

static void take_connection(delay_proxy *line)
{
    const int near = accept(line->listening, NULL, NULL), far = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(near >= 0 && far >= 0 && line->n_ways + 2 <= MAX_WAYS);
    if (connect(far, (const struct sockaddr *)&line->to, sizeof line->to) != 0) {
        close(near);
        close(far);
        return;
    }
    add_way(line, near, far);
    add_way(line, far, near);
}

static void take_piece(delay_proxy *line, way *w)
{
    assert_true(w->n < MAX_PIECES);
    piece *p = &w->pieces[(w->first + w->n++) % MAX_PIECES];
    p->n = recv(w->from, p->bytes, sizeof p->bytes, 0);
    p->due_ns = pf_now_ns() + (uint64_t)line->delay_ms * 1000 * 1000;
    if (p->n < 0) p->n = 0;
    w->ended = p->n == 0;
}

static void pass_on(way *w)
{
    for (; w->n > 0 && w->pieces[w->first].due_ns <= pf_now_ns(); w->n--, w->first = (w->first + 1) % MAX_PIECES) {
        const piece *p = &w->pieces[w->first];
        if (p->n == 0)
            (void)shutdown(w->to, SHUT_WR);
        else
            (void)!send(w->to, p->bytes, (size_t)p->n, MSG_NOSIGNAL);
    }
}

static void *run(void *arg)
{
    delay_proxy *line = arg;
    while (!atomic_load(&line->stop)) {
        struct pollfd polled[MAX_WAYS + 1];
        const int n = line->n_ways;
        for (int i = 0; i < n; i++)
            polled[i] = (struct pollfd){ .fd = line->ways[i].ended ? -1 : line->ways[i].from, .events = POLLIN };
        polled[n] = (struct pollfd){ .fd = line->listening, .events = POLLIN };
        (void)poll(polled, (nfds_t)n + 1, 1);
        for (int i = 0; i < n; i++) {
            if (polled[i].revents) take_piece(line, &line->ways[i]);
            pass_on(&line->ways[i]);
        }
        if (polled[n].revents) take_connection(line);
    }
    return NULL;
}

delay_proxy *delay_proxy_begin(const char *from, const char *to, int delay_ms)
{
    delay_proxy *line = calloc(1, sizeof *line);
    assert_non_null(line);
    line->delay_ms = delay_ms;
    line->from = name_of(from);
    line->to = name_of(to);
    line->listening = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(line->listening, (const struct sockaddr *)&line->from, sizeof line->from), 0);
    assert_int_equal(listen(line->listening, 8), 0);
    assert_int_equal(pthread_create(&line->thread, NULL, run, line), 0);
    return line;
}

void delay_proxy_end(delay_proxy *line)
{
    atomic_store(&line->stop, true);
    pthread_join(line->thread, NULL);
    for (int i = 0; i < line->n_ways; i++) {
        close(line->ways[i].from);
        free(line->ways[i].pieces);
    }
    close(line->listening);
    unlink(line->from.sun_path);
    free(line);
}
