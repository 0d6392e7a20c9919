/*
 * From the door to gRPC: a connection's first words, and no more connections at once than are read. Internal to rpc/.
 *
 * gRPC serves in turn, so one who is connected would wait for a thousand newcomers. It is given few that it has not begun
 * to read, and whoever comes faster than that waits here, and not everybody who is connected with him. Who has hung up when
 * his turn comes is dropped: gRPC would set everything up, start his calls, and then find that nobody is there.
 */
#ifndef PF_RPC_PREFACE_CHECK_H
#define PF_RPC_PREFACE_CHECK_H

#include "rpc/listener/connections.h"

enum { PF_PREFACE_CHECK_MOST_UNREAD = 8 };

typedef enum {
    PF_PREFACE_PART,  /* nothing else has been said so far, perhaps nothing at all */
    PF_PREFACE_WHOLE, /* HTTP/2's preface is what is to be read first */
    PF_PREFACE_NONE,  /* something else, or the end */
} pf_preface;

/* What a socket has to say first, which stays there to be read. Never waits. */
pf_preface pf_preface_of(int fd);

/* Gives away who has spoken, the oldest first, while fewer than PF_PREFACE_CHECK_MOST_UNREAD of those that were given still have
 * their preface to be read, and drops who has gone. On the listener's thread. In how many milliseconds to go on; -1: there
 * is nobody left. */
int pf_preface_hand_off(pf_connections *cs, void (*give)(void *user, int fd), void *user);

#endif
