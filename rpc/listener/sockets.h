/*
 * The sockets that a server listens on: one, or as many as its host's name has addresses.
 *
 * What is accepted from a TCP socket inherits its options: no delay, and unanswered bytes break the connection as soon
 * as unanswered pings do.
 */
#ifndef PF_RPC_SOCKETS_H
#define PF_RPC_SOCKETS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "rpc/address.h"

enum { PF_MAX_SOCKETS = 8 };

typedef struct {
    int fds[PF_MAX_SOCKETS]; /* [n] they do not block */
    int32_t n;
    int32_t port;      /* the one chosen where 0 was asked for; 0 for a unix socket */
    char path[108];    /* of a unix socket, else empty */
    dev_t file_device; /* its file: not unlinked when it has become another's */
    ino_t file_inode;
} pf_sockets;

/* Listen. A unix socket is 0600 from its first moment, and takes over the file of a process that is gone: of several that do so
 * at once, one. The caller ends it with pf_sockets_close.
 * PF_UNAVAILABLE: the sentence names the address and why: in use (also where one of several addresses is), no such
 * directory, not a socket, ... */
PF_MUST_USE pf_status pf_sockets_listen(const pf_address *address, pf_sockets *out, pf_error *error);

/* The address with the port that was chosen; cut off where it is longer than `capacity`. */
void pf_sockets_print(const pf_sockets *sockets, const pf_address *address, char *out, size_t capacity);

void pf_sockets_close(pf_sockets *sockets); /* and removes the file of a unix socket; twice is fine */

#endif
