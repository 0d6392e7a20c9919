/* Encodes and decodes the two messages of grpc.health.v1. Servers answer health checks; only tests send them. */
#ifndef PF_PROTO_HEALTH_H
#define PF_PROTO_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum {
    PF_HEALTH_UNKNOWN = 0,
    PF_HEALTH_SERVING = 1,
    PF_HEALTH_NOT_SERVING = 2,
    PF_HEALTH_SERVICE_UNKNOWN = 3,
} pf_health;

enum {
    PF_MAX_SERVICE_BYTES = 128, /* of a service's full name, its NUL included */
    PF_MAX_HEALTH_BYTES = 192,  /* of either message encoded */
};

/* service: which one is asked about, "" for the server as a whole.
 * PF_FORMAT: not a HealthCheckRequest.  PF_LIMIT: an unknown name: longer than any known one, or with a NUL in it. */
PF_MUST_USE pf_status pf_health_decode_request(const uint8_t *bytes, size_t n_bytes,
                                               char service[PF_MAX_SERVICE_BYTES]);
/* PF_LIMIT: so long a name, or more than capacity. */
PF_MUST_USE pf_status pf_health_encode_request(const char *service, uint8_t *out, size_t capacity, size_t *n_bytes);

/* PF_LIMIT: more than capacity. */
PF_MUST_USE pf_status pf_health_encode_response(pf_health health, uint8_t *out, size_t capacity, size_t *n_bytes);
/* PF_FORMAT: not a HealthCheckResponse. */
PF_MUST_USE pf_status pf_health_decode_response(const uint8_t *bytes, size_t n_bytes, pf_health *out);

#endif
