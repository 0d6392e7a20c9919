#include "proto/health.h"

#include <string.h>

#include "health.pb-c.h"

#include "proto/bump.h"

enum { ARENA_BYTES = 4096 };

pf_status pf_health_decode_request(const uint8_t *bytes, size_t n_bytes, char service[PF_MAX_SERVICE_BYTES])
{
    if (n_bytes > PF_MAX_HEALTH_BYTES) return PF_LIMIT;
    max_align_t memory[ARENA_BYTES / sizeof(max_align_t)];
    pf_bump bump = { .bytes = (uint8_t *)memory, .size = sizeof memory };
    ProtobufCAllocator allocator = pf_bump_allocator(&bump);
    const Grpc__Health__V1__HealthCheckRequest *wire =
        grpc__health__v1__health_check_request__unpack(&allocator, n_bytes, bytes);
    if (!wire) return PF_FORMAT;
    const size_t n = wire->service.len;
    if (n >= PF_MAX_SERVICE_BYTES) return PF_LIMIT;
    if (n > 0 && memchr(wire->service.data, '\0', n)) return PF_LIMIT;
    if (n > 0) memcpy(service, wire->service.data, n);
    service[n] = '\0';
    return PF_OK;
}

pf_status pf_health_encode_request(const char *service, uint8_t *out, size_t capacity, size_t *n_bytes)
{
    uint8_t copy[PF_MAX_SERVICE_BYTES];
    const size_t n = strlen(service);
    if (n >= sizeof copy) return PF_LIMIT;
    memcpy(copy, service, n);
    Grpc__Health__V1__HealthCheckRequest wire = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    wire.service = (ProtobufCBinaryData){ .len = n, .data = copy };
    if (grpc__health__v1__health_check_request__get_packed_size(&wire) > capacity) return PF_LIMIT;
    *n_bytes = grpc__health__v1__health_check_request__pack(&wire, out);
    return PF_OK;
}

pf_status pf_health_encode_response(pf_health health, uint8_t *out, size_t capacity, size_t *n_bytes)
{
    Grpc__Health__V1__HealthCheckResponse wire = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    wire.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)health;
    if (grpc__health__v1__health_check_response__get_packed_size(&wire) > capacity) return PF_LIMIT;
    *n_bytes = grpc__health__v1__health_check_response__pack(&wire, out);
    return PF_OK;
}

pf_status pf_health_decode_response(const uint8_t *bytes, size_t n_bytes, pf_health *out)
{
    if (n_bytes > PF_MAX_HEALTH_BYTES) return PF_FORMAT;
    max_align_t memory[ARENA_BYTES / sizeof(max_align_t)];
    pf_bump bump = { .bytes = (uint8_t *)memory, .size = sizeof memory };
    ProtobufCAllocator allocator = pf_bump_allocator(&bump);
    const Grpc__Health__V1__HealthCheckResponse *wire =
        grpc__health__v1__health_check_response__unpack(&allocator, n_bytes, bytes);
    if (!wire || (int)wire->status < PF_HEALTH_UNKNOWN || (int)wire->status > PF_HEALTH_SERVICE_UNKNOWN)
        return PF_FORMAT;
    *out = (pf_health)wire->status;
    return PF_OK;
}
