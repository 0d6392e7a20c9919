#include "serve/http_get.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/address.h"

enum { NS_PER_MS = 1000 * 1000, REQUEST_BYTES = 1024 };

/* A connection, and the time that is left for it. */
typedef struct {
    const char *address;
    int fd;
    uint64_t until_ns;
    pf_error *error;
} conversation;

static pf_status fail(const conversation *c, const char *what, int code)
{
    return pf_fail(c->error, PF_UNAVAILABLE, "%s: %s: %s", c->address, what, strerror(code));
}

/* Until the descriptor is ready. */
static pf_status await(const conversation *c, short events)
{
    for (;;) {
        const uint64_t now_ns = pf_now_ns();
        struct pollfd p = { .fd = c->fd, .events = events };
        if (now_ns >= c->until_ns) return fail(c, "no answer", ETIMEDOUT);
        const int n = poll(&p, 1, (int)((c->until_ns - now_ns) / NS_PER_MS) + 1);
        if (n > 0) return PF_OK;
        if (n < 0 && errno != EINTR) return fail(c, "no answer", errno);
        if (n < 0) return pf_fail(c->error, PF_CANCELLED, "%s: interrupted", c->address);
    }
}

/* ---- connecting ------------------------------------------------------------------------------------------------- */

static int error_of(int fd)
{
    int code = 0;
    socklen_t n = sizeof code;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &n) == 0 ? code : errno;
}

static pf_status connect_to(conversation *c, const struct sockaddr *to, socklen_t n_bytes)
{
    c->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0) return fail(c, "no socket", errno);
    pf_status status = PF_OK;
    int code = connect(c->fd, to, n_bytes) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
        status = await(c, POLLOUT);
        code = error_of(c->fd);
    }
    if (status == PF_OK && code != 0) status = fail(c, "cannot connect", code);
    if (status == PF_OK) return PF_OK;
    close(c->fd);
    c->fd = -1;
    return status;
}

static pf_status connect_unix(conversation *c, const pf_address *address)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    snprintf(to.sun_path, sizeof to.sun_path, "%s", address->path);
    return connect_to(c, (const struct sockaddr *)&to, sizeof to);
}

/* To the first of its addresses that answers. */
static pf_status connect_tcp(conversation *c, const pf_address *address)
{
    char port[16];
    struct addrinfo *all = NULL;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    snprintf(port, sizeof port, "%d", (int)address->port);
    const int code = getaddrinfo(address->host, port, &hints, &all);
    if (code != 0) return pf_fail(c->error, PF_UNAVAILABLE, "%s: %s", c->address, gai_strerror(code));
    pf_status status = PF_UNAVAILABLE;
    for (const struct addrinfo *a = all; a && status != PF_OK; a = a->ai_next)
        status = connect_to(c, a->ai_addr, a->ai_addrlen);
    freeaddrinfo(all);
    return status;
}

/* ---- the exchange ----------------------------------------------------------------------------------------------- */

static pf_status send_request(const conversation *c, const char *path)
{
    char request[REQUEST_BYTES];
    const int n = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", path);
    for (size_t sent = 0; sent < (size_t)n;) {
        PF_TRY(await(c, POLLOUT));
        const ssize_t more = send(c->fd, request + sent, (size_t)n - sent, MSG_NOSIGNAL);
        if (more < 0 && errno != EAGAIN && errno != EINTR) return fail(c, "cannot ask", errno);
        if (more > 0) sent += (size_t)more;
    }
    return PF_OK;
}

/* All until the server closes the connection. */
static pf_status read_answer(const conversation *c, pf_bytes *out)
{
    char some[1 << 14];
    for (;;) {
        PF_TRY(await(c, POLLIN));
        const ssize_t n = recv(c->fd, some, sizeof some, 0);
        if (n == 0) return PF_OK;
        if (n < 0 && errno != EAGAIN && errno != EINTR) return fail(c, "cannot read", errno);
        if (n > 0 && out->n + (size_t)n > PF_HTTP_GET_MAX_BYTES)
            return pf_fail(c->error, PF_LIMIT, "%s: the answer is longer than %d bytes", c->address,
                           PF_HTTP_GET_MAX_BYTES);
        if (n > 0 && pf_bytes_append(out, some, (size_t)n) != PF_OK)
            return pf_fail(c->error, PF_NOMEM, "%s: no memory for the answer", c->address);
    }
}

/* Leaves the body of an answer alone in it. */
static pf_status take_body(const conversation *c, pf_bytes *answer)
{
    static const char blank_line[] = "\r\n\r\n";
    int status = 0;
    if (pf_bytes_append(answer, "", 1) != PF_OK) return pf_fail(c->error, PF_NOMEM, "no memory for the answer");
    answer->n--;
    const char *end = strstr(answer->data, blank_line);
    /* NOLINTNEXTLINE(cert-err34-c): three digits are in range */
    if (!end || sscanf(answer->data, "HTTP/1.%*1[01] %3d ", &status) != 1)
        return pf_fail(c->error, PF_FORMAT, "%s: the answer is not HTTP", c->address);
    if (status != 200) return pf_fail(c->error, PF_UNAVAILABLE, "%s: the answer has the status %d", c->address, status);
    const size_t head = (size_t)(end - answer->data) + sizeof blank_line - 1;
    memmove(answer->data, answer->data + head, answer->n - head);
    answer->n -= head;
    return PF_OK;
}

pf_status pf_http_get(const char *text, const char *path, uint64_t timeout_ns, pf_bytes *body, pf_error *error)
{
    pf_address address;
    conversation c = { .address = text, .fd = -1, .until_ns = pf_now_ns() + timeout_ns, .error = error };
    PF_TRY(pf_address_parse(text, &address, error));
    PF_TRY(address.is_unix ? connect_unix(&c, &address) : connect_tcp(&c, &address));
    pf_bytes answer = { 0 };
    pf_status status = send_request(&c, path);
    if (status == PF_OK) status = read_answer(&c, &answer);
    if (status == PF_OK) status = take_body(&c, &answer);
    close(c.fd);
    if (status == PF_OK)
        *body = answer;
    else
        pf_bytes_clear(&answer);
    return status;
}
