/* Parses and prints addresses: "host:port" or "unix:/path". */
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

/* PF_INVALID: the sentence says which form was expected. A path with a comma is refused: gRPC splits addresses at
 * commas. So is IPv4 in fewer than four numbers or in octal: gRPC resolves it to nothing or to another host. Brackets
 * enclose an IPv6 address, and stand nowhere else. */
PF_MUST_USE pf_status pf_address_parse(const char *text, pf_address *out, pf_error *error);

/* Prints the address as a URI for gRPC, which would otherwise read "dns:5000" as a scheme, and "a?b", "a%20b" and
 * "//a" as parts of a URI. */
void pf_address_to_uri(const pf_address *address, char out[PF_MAX_URI_BYTES]);

#endif
