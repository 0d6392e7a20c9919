/* One gRPC call with bytes of a test's own making: neither our client nor our codec on this side. */
#ifndef PF_TESTS_SUPPORT_RAW_CALL_H
#define PF_TESTS_SUPPORT_RAW_CALL_H

#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

typedef struct {
    grpc_status_code code;
    char text[512];
    uint8_t reply[256]; /* the last message, cut */
    size_t n_reply;     /* 0: none */
} raw_result;

/* What is done about each message that comes, on the caller's thread. */
typedef void raw_listener(void *user, const raw_result *so_far);

/* Send one message to a method ("/package.Service/Method"), close, and wait for the end, timeout_ms at most. */
raw_result raw_call(const char *address, const char *method, const void *bytes, size_t n_bytes, int timeout_ms);
raw_result raw_call_heard(const char *address, const char *method, const void *bytes, size_t n_bytes, int timeout_ms,
                          raw_listener *listener, void *user);

#endif
