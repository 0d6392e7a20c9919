/*
 * Addresses: "host:port" or "unix:/path".
 */
#ifndef PF_RPC_ADDRESS_H
#define PF_RPC_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PF_MAX_ADDRESS_BYTES = 272, /* "unix:" or a host name of 255, port and NUL */
    PF_MAX_URI_BYTES = 3 * PF_MAX_ADDRESS_BYTES + 8,
};

typedef struct {
    char text[PF_MAX_ADDRESS_BYTES]; /* as given */
    char host[256];                  /* of IPv6 without brackets; empty for a unix socket */
    int32_t port;                    /* 0 .. 65535 */
    bool is_unix;
    char path[108]; /* of a unix socket, else empty */
} pf_address;

/* PF_INVALID: the sentence says which form was expected. A path with a comma is none: gRPC takes it for two. Nor
 * is IPv4 in fewer than four numbers, or in octal ones: gRPC finds nobody there, or another host. Brackets stand as a
 * pair round an IPv6 address, and nowhere else. */
PF_MUST_USE pf_status pf_address_parse(const char *text, pf_address *out, pf_error *error);

/* The same as gRPC takes it, which would read the plain text in its own way: "dns:5000" for a scheme, and "a?b", "a%20b" and
 * "//a" for what they are in a URI. */
void pf_address_to_uri(const pf_address *address, char out[PF_MAX_URI_BYTES]);

#endif
