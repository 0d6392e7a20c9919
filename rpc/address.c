#include "rpc/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

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

/* IPv4 as getaddrinfo takes it, and gRPC's resolver does not, or takes it for another: "127.1", "0", "0177.0.0.1". */
static bool is_odd_ipv4(const char *host)
{
    struct in_addr address;
    return inet_aton(host, &address) && inet_pton(AF_INET, host, &address) != 1;
}

static pf_status parse_path(pf_address *address, pf_error *error)
{
    const char *text = address->text, *path = text + 5;
    const size_t n = strlen(path);
    if (n == 0 || n >= sizeof address->path)
        return pf_fail(error, PF_INVALID, "%s: a socket's path has 1 to %zu bytes", text, sizeof address->path - 1);
    if (strchr(text, ',')) return pf_fail(error, PF_INVALID, "%s: a socket's path has no comma", text);
    address->is_unix = true;
    strcpy(address->path, path);
    return PF_OK;
}

/* Brackets stand as a pair round an address with a colon, which stands in nothing else. */
static pf_status parse_host(pf_address *address, const char *colon, pf_error *error)
{
    const char *text = address->text, *host = text;
    size_t n = (size_t)(colon - text);
    const bool is_bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
    if (is_bracketed) {
        host++;
        n -= 2;
    }
    if (n >= sizeof address->host || (memchr(host, ':', n) != NULL) != is_bracketed || memchr(host, '[', n) ||
        memchr(host, ']', n) || strpbrk(text, "/ \t"))
        return pf_fail(error, PF_INVALID, "\"%s\" is not an address: expected host:port, [ipv6]:port or unix:/path",
                       text);
    memcpy(address->host, host, n);
    if (is_odd_ipv4(address->host))
        return pf_fail(error, PF_INVALID, "\"%s\" is not an address: IPv4 is expected as four decimal numbers", text);
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
        PF_TRY(parse_path(&address, error));
        *out = address;
        return PF_OK;
    }
    const char *colon = strrchr(address.text, ':');
    if (!colon || colon == address.text)
        return pf_fail(error, PF_INVALID, "\"%s\" is not an address: expected host:port or unix:/path", text);
    PF_TRY(parse_host(&address, colon, error));
    PF_TRY(parse_port(text, colon + 1, &address.port, error));
    *out = address;
    return PF_OK;
}

static bool stands_for_itself(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("/:-._~", c));
}

void pf_address_to_uri(const pf_address *address, char out[PF_MAX_URI_BYTES])
{
    const char *from = address->is_unix ? address->path : address->text;
    while (from[0] == '/' && from[1] == '/') from++; /* the same file, and not an authority */
    char *to = stpcpy(out, address->is_unix ? "unix:" : "dns:///");
    for (; *from; from++) {
        if (stands_for_itself(*from))
            *to++ = *from;
        else
            to += sprintf(to, "%%%02X", (unsigned)(unsigned char)*from);
    }
    *to = '\0';
}
