/* Sends handmade HTTP/2 frames to the server at serving_path, or at serving_port, without gRPC. */
#ifndef PF_TESTS_RAW_CLIENT_H
#define PF_TESTS_RAW_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int raw_client_dial(void); /* a connection; fails the test when there is none */

/* Whether all of it went out at once: the server has closed the connection, or reads no more, otherwise. */
bool raw_client_push(int fd, const void *bytes, size_t n);
bool raw_client_push_frame(int fd, uint8_t type, uint8_t flags, uint32_t stream, const void *bytes, uint32_t n);
bool raw_client_push_preface(int fd); /* and SETTINGS */
bool raw_client_open_stream(int fd, uint32_t stream, const char *path);
bool raw_client_reset_stream(int fd, uint32_t stream);

/* Opens streams and resets them as fast as the server reads, without reading. Whether the server disconnected, or read
 * nothing for three seconds (gRPC does, while 10,000 answers wait to be written), before the n-th. */
bool raw_client_resets_until_refused(int fd, uint32_t n, const char *path);

/* Whether these bytes come within a time; what comes before them is passed over. */
bool raw_client_receives(int fd, const void *bytes, size_t n, int within_ms);

/* Which of several things comes first within a time; -1: none. */
typedef struct {
    const void *bytes;
    size_t n;
} raw_client_bytes;
int raw_client_receives_one_of(int fd, const raw_client_bytes *words, int n_words, int within_ms);

bool raw_client_is_disconnected(int fd, int within_ms);

#endif
