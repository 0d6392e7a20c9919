#include "tests/support/raw_client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/running_server.h"
#include "tests/support/test.h"

static int dial_port(int port)
{
    const struct sockaddr_in in = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int room = 4096; /* a socket that is not read is full soon */
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&in, sizeof in), 0);
    return fd;
}

int raw_client_dial(void)
{
    if (serving_port) return dial_port(serving_port);
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    strcpy(un.sun_path, serving_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&un, sizeof un), 0);
    return fd;
}

bool raw_client_push(int fd, const void *bytes, size_t n)
{
    return send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

bool raw_client_push_frame(int fd, uint8_t type, uint8_t flags, uint32_t stream, const void *bytes, uint32_t n)
{
    static uint8_t frame[9 + 16384];
    const uint8_t head[9] = {
        (uint8_t)(n >> 16),      (uint8_t)(n >> 8),      (uint8_t)n,     type, flags, (uint8_t)(stream >> 24),
        (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream
    };
    memcpy(frame, head, sizeof head);
    if (n > 0) memcpy(frame + sizeof head, bytes, n);
    return raw_client_push(fd, frame, sizeof head + n);
}

bool raw_client_push_preface(int fd)
{
    return raw_client_push(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24) && raw_client_push_frame(fd, 4, 0, 0, NULL, 0);
}

bool raw_client_open_stream(int fd, uint32_t stream, const char *path)
{
    const char *const fields[][2] = { { ":method", "POST" }, { ":scheme", "http" },
                                      { ":path", path },     { ":authority", "x" },
                                      { "te", "trailers" },  { "content-type", "application/grpc" } };
    uint8_t block[256];
    size_t n = 0;
    for (size_t i = 0; i < PF_COUNT(fields); i++) {
        block[n++] = 0; /* literal, not indexed */
        for (int side = 0; side < 2; side++) {
            const size_t length = strlen(fields[i][side]);
            block[n++] = (uint8_t)length;
            memcpy(block + n, fields[i][side], length);
            n += length;
        }
    }
    return raw_client_push_frame(fd, 1, 4, stream, block, (uint32_t)n); /* HEADERS, END_HEADERS */
}

bool raw_client_reset_stream(int fd, uint32_t stream)
{
    return raw_client_push_frame(fd, 3, 0, stream, "\0\0\0\x08", 4);
}

bool raw_client_resets_until_refused(int fd, uint32_t n, const char *path)
{
    for (uint32_t i = 0; i < n; i++) {
        struct pollfd it = { .fd = fd, .events = POLLOUT };
        if (poll(&it, 1, 3000) <= 0) return true;
        if (it.revents & (POLLHUP | POLLERR)) return true;
        const uint32_t stream = 2 * i + 1; /* a writable socket has room for both frames */
        if (!raw_client_open_stream(fd, stream, path) || !raw_client_reset_stream(fd, stream)) return true;
    }
    return false;
}

/* More of what comes: how much; 0 at the end; -1: nothing in time. */
static ssize_t hear(int fd, uint8_t *bytes, size_t n, uint64_t until_ns)
{
    struct pollfd it = { .fd = fd, .events = POLLIN };
    const uint64_t now_ns = pf_now_ns();
    const int left_ms = until_ns > now_ns ? (int)((until_ns - now_ns) / (1000 * 1000)) + 1 : 0;
    if (poll(&it, 1, left_ms) <= 0) return -1;
    const ssize_t got = recv(fd, bytes, n, MSG_DONTWAIT);
    return got < 0 ? 0 : got; /* reset: an end too */
}

int raw_client_receives_one_of(int fd, const raw_client_bytes *words, int n_words, int within_ms)
{
    static uint8_t heard[64 << 10];
    size_t n_heard = 0;
    const uint64_t until_ns = pf_now_ns() + (uint64_t)within_ms * 1000 * 1000;
    while (n_heard < sizeof heard) {
        const ssize_t more = hear(fd, heard + n_heard, sizeof heard - n_heard, until_ns);
        if (more <= 0) return -1;
        n_heard += (size_t)more;
        for (int i = 0; i < n_words; i++)
            if (memmem(heard, n_heard, words[i].bytes, words[i].n)) return i;
    }
    return -1;
}

bool raw_client_receives(int fd, const void *bytes, size_t n, int within_ms)
{
    return raw_client_receives_one_of(fd, &(raw_client_bytes){ bytes, n }, 1, within_ms) == 0;
}

bool raw_client_is_disconnected(int fd, int within_ms)
{
    uint8_t heard[4096];
    const uint64_t until_ns = pf_now_ns() + (uint64_t)within_ms * 1000 * 1000;
    ssize_t n;
    do n = hear(fd, heard, sizeof heard, until_ns);
    while (n > 0);
    return n == 0;
}
