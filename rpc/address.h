/*
 * Addresses: "host:port" or "unix:/path".
 */
#ifndef PF_RPC_ADDRESS_H
#define PF_RPC_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { PF_MAX_ADDRESS_BYTES = 272 }; /* "unix:" or a host name of 255, port and NUL */

typedef struct {
    char text[PF_MAX_ADDRESS_BYTES]; /* as given, and as gRPC takes it */
    char host[256];                  /* brackets of an IPv6 address kept; empty for a unix socket */
    int32_t port;                    /* 0 .. 65535 */
    bool is_unix;
    char path[108]; /* of a unix socket, else empty */
} pf_address;

/* PF_INVALID: the sentence says which form was expected. */
PF_MUST_USE pf_status pf_address_parse(const char *text, pf_address *out, pf_error *error);

#endif
