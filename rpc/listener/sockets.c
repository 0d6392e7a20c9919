#include "rpc/listener/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/grpc_util.h"

static pf_status refused(const pf_address *address, int reason, pf_error *error)
{
    return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: %s", address->text,
                   reason == EADDRINUSE ? "address in use" : strerror(reason));
}

/* ---- unix ------------------------------------------------------------------------------------------------------ */

static struct sockaddr_un unix_name(const pf_address *address)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    strcpy(un.sun_path, address->path);
    return un;
}

/* 0: a process accepts the connection, else errno. */
static int probe(const pf_address *address, int type)
{
    const struct sockaddr_un un = unix_name(address);
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    const int result = connect(fd, (const struct sockaddr *)&un, sizeof un) == 0 ? 0 : errno;
    close(fd);
    return result;
}

/* ECONNREFUSED: no process. A process that has bound the file and does not listen yet refuses a stream as well, but a
 * datagram fails with EPROTOTYPE. */
static int find_owner(const pf_address *address)
{
    int reason = probe(address, SOCK_STREAM);
    if (reason == ECONNREFUSED) reason = probe(address, SOCK_DGRAM);
    return reason == 0 || reason == EAGAIN || reason == EPROTOTYPE ? EADDRINUSE : reason;
}

static void name_directory(const pf_address *address, char out[sizeof address->path])
{
    strcpy(out, address->path);
    char *slash = strrchr(out, '/');
    if (slash)
        slash[slash == out ? 1 : 0] = '\0';
    else
        strcpy(out, ".");
}

static pf_status check_directory(const pf_address *address, pf_error *error)
{
    struct stat st;
    char directory[sizeof address->path];
    name_directory(address, directory);
    if (stat(directory, &st) == 0 && S_ISDIR(st.st_mode)) return PF_OK;
    return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: there is no directory %s", address->text, directory);
}

/* For a second at most: any process that may read the directory may keep it locked. */
static void try_to_lock(int directory)
{
    for (int n_ms = 0; n_ms < 1000 && flock(directory, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; n_ms += 2)
        usleep(2 * 1000);
}

/* Removes the file of a dead process: 0 where none is left, else errno. The directory is locked meanwhile, where that
 * is possible: another process that found the same file would remove ours, once ours has replaced it. */
static int remove_dead(const pf_address *address)
{
    char directory[sizeof address->path];
    name_directory(address, directory);
    const int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0) try_to_lock(lock);
    int reason = find_owner(address);
    if (reason == ECONNREFUSED) reason = unlink(address->path) == 0 ? 0 : errno;
    if (lock >= 0) close(lock);
    return reason == ENOENT ? 0 : reason;
}

static pf_status claim(const pf_address *address, pf_error *error)
{
    struct stat st;
    if (lstat(address->path, &st) != 0)
        return errno == ENOENT ? check_directory(address, error) : refused(address, errno, error);
    if (!S_ISSOCK(st.st_mode))
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: that file exists and is not a socket",
                       address->text);
    const int reason = remove_dead(address);
    return reason == 0 ? PF_OK : refused(address, reason, error);
}

static pf_status listen_unix(const pf_address *address, pf_sockets *out, pf_error *error)
{
    PF_TRY(claim(address, error));
    const struct sockaddr_un un = unix_name(address);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return refused(address, errno, error);
    pf_sockets made = { .fds = { fd }, .n = 1 };
    struct stat st;
    /* The file is made with the mode of the socket: no other user can open it at any time, and the umask is not
     * touched. */
    bool listens = fchmod(fd, 0600) == 0 && bind(fd, (const struct sockaddr *)&un, sizeof un) == 0 &&
                   lstat(address->path, &st) == 0;
    if (listens) {
        made.file_device = st.st_dev;
        made.file_inode = st.st_ino;
        strcpy(made.path, address->path);
        listens = listen(fd, SOMAXCONN) == 0;
    }
    if (!listens) {
        const int reason = errno;
        pf_sockets_close(&made);
        return refused(address, reason, error);
    }
    *out = made;
    return PF_OK;
}

/* ---- TCP ------------------------------------------------------------------------------------------------------- */

static int port_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t n = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &n) != 0) return 0;
    return ntohs(name.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&name)->sin6_port
                                            : ((const struct sockaddr_in *)&name)->sin_port);
}

static void set_port(struct sockaddr_storage *name, int32_t port)
{
    if (name->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)name)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)name)->sin_port = htons((uint16_t)port);
}

static void set_option(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

/* The socket, or -1 and errno. */
static int open_tcp(const struct addrinfo *where, int32_t port)
{
    struct sockaddr_storage name;
    memcpy(&name, where->ai_addr, where->ai_addrlen);
    set_port(&name, port);
    const int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, where->ai_protocol);
    if (fd < 0) return -1;
    if (where->ai_family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0); /* [::] takes IPv4 too */
    set_option(fd, SOL_SOCKET, SO_REUSEADDR,
               1); /* after a server that has just ended; two servers never share a port */
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, PF_RPC_KEEPALIVE_TIMEOUT_MS);
    if (bind(fd, (const struct sockaddr *)&name, where->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    const int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

static bool is_repeated(const struct addrinfo *first, const struct addrinfo *it)
{
    for (const struct addrinfo *a = first; a != it; a = a->ai_next)
        if (a->ai_addrlen == it->ai_addrlen && memcmp(a->ai_addr, it->ai_addr, it->ai_addrlen) == 0) return true;
    return false;
}

/* Listens on each address, except for families that this machine lacks. */
static pf_status listen_each(const pf_address *address, const struct addrinfo *found, pf_sockets *out, pf_error *error)
{
    pf_sockets made = { .port = address->port };
    int reason = EADDRNOTAVAIL;
    for (const struct addrinfo *a = found; a && made.n < PF_MAX_SOCKETS; a = a->ai_next) {
        if (is_repeated(found, a)) continue;
        const int fd = open_tcp(a, made.port);
        if (fd >= 0) {
            made.fds[made.n++] = fd;
            if (made.port == 0) made.port = port_of(fd);
            continue;
        }
        reason = errno;
        if (reason == EADDRNOTAVAIL || reason == EAFNOSUPPORT) continue;
        pf_sockets_close(&made);
        break;
    }
    if (made.n == 0) return refused(address, reason, error);
    *out = made;
    return PF_OK;
}

static pf_status listen_tcp(const pf_address *address, pf_sockets *out, pf_error *error)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    const int looked = getaddrinfo(address->host, NULL, &hints, &found);
    if (looked != 0)
        return pf_fail(error, PF_UNAVAILABLE, "cannot listen on %s: %s", address->text, gai_strerror(looked));
    const pf_status status = listen_each(address, found, out, error);
    freeaddrinfo(found);
    return status;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

pf_status pf_sockets_listen(const pf_address *address, pf_sockets *out, pf_error *error)
{
    return address->is_unix ? listen_unix(address, out, error) : listen_tcp(address, out, error);
}

void pf_sockets_print(const pf_sockets *sockets, const pf_address *address, char *out, size_t capacity)
{
    if (address->is_unix)
        snprintf(out, capacity, "%s", address->text);
    else
        snprintf(out, capacity, strchr(address->host, ':') ? "[%s]:%d" : "%s:%d", address->host, (int)sockets->port);
}

void pf_sockets_close(pf_sockets *sockets)
{
    struct stat st;
    if (sockets->n > 0 && sockets->path[0] && lstat(sockets->path, &st) == 0 && st.st_dev == sockets->file_device &&
        st.st_ino == sockets->file_inode)
        (void)unlink(sockets->path);
    while (sockets->n > 0) close(sockets->fds[--sockets->n]);
}
