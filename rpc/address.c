#include "rpc/address.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static pf_status parse_port(const char *text, const char *digits, int32_t *port, pf_error *error)
{
    int32_t value = 0;
    const char *p = digits;
    for (; *p >= '0' && *p <= '9' && value <= 65535; p++) value = value * 10 + (*p - '0');
    if (p == digits || *p || value > 65535)
        return pf_fail(error, PF_INVALID, "%s: the port is \"%s\", expected 0 to 65535", text, digits);
    *port = value;
    return PF_OK;
}

pf_status pf_address_parse(const char *text, pf_address *out, pf_error *error)
{
    pf_address address = { .port = 0 };
    if (strlen(text) >= sizeof address.text)
        return pf_fail(error, PF_INVALID, "an address of %zu bytes, at most %zu are taken", strlen(text),
                       sizeof address.text - 1);
    strcpy(address.text, text);
    if (strncmp(text, "unix:", 5) == 0) {
        const size_t n = strlen(text + 5);
        if (n == 0 || n >= sizeof address.path)
            return pf_fail(error, PF_INVALID, "%s: a socket's path has 1 to %zu bytes", text, sizeof address.path - 1);
        address.is_unix = true;
        strcpy(address.path, text + 5);
        *out = address;
        return PF_OK;
    }
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text)
        return pf_fail(error, PF_INVALID, "\"%s\" is not an address: expected host:port or unix:/path", text);
    const size_t n_host = (size_t)(colon - text);
    const bool bracketed = text[0] == '[' && text[n_host - 1] == ']';
    if (n_host >= sizeof address.host || (memchr(text, ':', n_host) && !bracketed) || strpbrk(text, "/ \t"))
        return pf_fail(error, PF_INVALID, "\"%s\" is not an address: expected host:port, [ipv6]:port or unix:/path",
                       text);
    memcpy(address.host, text, n_host);
    PF_TRY(parse_port(text, colon + 1, &address.port, error));
    *out = address;
    return PF_OK;
}

/* 0: somebody accepts connections there, else errno. */
static int knock(const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    strcpy(un.sun_path, path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    const int result = connect(fd, (const struct sockaddr *)&un, sizeof un) == 0 ? 0 : errno;
    close(fd);
    return result;
}

pf_status pf_address_claim_unix(const pf_address *address, pf_error *error)
{
    struct stat st;
    if (lstat(address->path, &st) != 0) {
        if (errno != ENOENT)
            return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: %s", address->text, strerror(errno));
        char directory[PF_MAX_ADDRESS_BYTES];
        strcpy(directory, address->path);
        char *slash = strrchr(directory, '/');
        if (!slash) return PF_OK;
        slash[slash == directory ? 1 : 0] = '\0';
        if (stat(directory, &st) == 0 && S_ISDIR(st.st_mode)) return PF_OK;
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: there is no directory %s", address->text,
                       directory);
    }
    if (!S_ISSOCK(st.st_mode))
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: that file exists and is not a socket",
                       address->text);
    const int heard = knock(address->path);
    if (heard == 0 || heard == EAGAIN)
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: address in use", address->text);
    if (heard != ECONNREFUSED || unlink(address->path) != 0)
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: %s", address->text,
                       strerror(heard != ECONNREFUSED ? heard : errno));
    return PF_OK;
}

static int try_bind(const struct addrinfo *where)
{
    const int fd = socket(where->ai_family, where->ai_socktype | SOCK_CLOEXEC, where->ai_protocol);
    if (fd < 0) return errno;
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int result = bind(fd, where->ai_addr, where->ai_addrlen) == 0 ? 0 : errno;
    if (result == 0 && listen(fd, 1) != 0) result = errno;
    close(fd);
    return result;
}

static pf_status explain_tcp(const pf_address *address, pf_error *error)
{
    char host[256], port[16];
    const bool bracketed = address->host[0] == '[';
    const size_t n = strlen(address->host) - (bracketed ? 2 : 0);
    memcpy(host, address->host + (bracketed ? 1 : 0), n);
    host[n] = '\0';
    snprintf(port, sizeof port, "%d", (int)address->port);

    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    const int looked = getaddrinfo(host, port, &hints, &found);
    if (looked != 0)
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: %s", address->text, gai_strerror(looked));
    int reason = 0;
    for (const struct addrinfo *a = found; a && reason == 0; a = a->ai_next) reason = try_bind(a);
    freeaddrinfo(found);
    if (reason == EADDRINUSE)
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: address in use", address->text);
    return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: %s", address->text,
                   reason ? strerror(reason) : "gRPC refuses it");
}

pf_status pf_address_explain(const pf_address *address, pf_error *error)
{
    if (!address->is_unix) return explain_tcp(address, error);
    char directory[PF_MAX_ADDRESS_BYTES];
    strcpy(directory, address->path);
    char *slash = strrchr(directory, '/');
    if (slash) slash[slash == directory ? 1 : 0] = '\0';
    const char *where = slash ? directory : ".";
    if (access(where, W_OK) != 0)
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: %s: %s", address->text, where, strerror(errno));
    return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: gRPC refuses it", address->text);
}
