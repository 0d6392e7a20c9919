/*
 * Checks the HTTP/2 preface of new connections, and hands few of them to gRPC at a time. Internal to rpc/.
 *
 * gRPC serves connections in turn, so connected clients would wait for a thousand new ones. It is handed only a few that it has
 * not begun to read; further ones wait here. A connection that the client has closed meanwhile is dropped: gRPC would set
 * everything up and start its calls before it noticed.
 */
#ifndef PF_RPC_PREFACE_CHECK_H
#define PF_RPC_PREFACE_CHECK_H

#include "rpc/listener/connections.h"

enum { PF_PREFACE_CHECK_MOST_UNREAD = 8 };

typedef enum {
    PF_PREFACE_PART,  /* a part of it has arrived, or nothing */
    PF_PREFACE_WHOLE, /* all of it has arrived */
    PF_PREFACE_NONE,  /* other bytes, or the end */
} pf_preface;

/* What has arrived at a socket, which stays there to be read. Never waits. */
pf_preface pf_preface_of(int fd);

/* Hands off connections in stage READY, the oldest first, while fewer than PF_PREFACE_CHECK_MOST_UNREAD of those
 * handed off are unread, and drops closed ones. On the listener's thread. Returns in how many milliseconds to
 * continue; -1: none is left. */
int pf_preface_hand_off(pf_connections *cs, void (*give)(void *user, int fd), void *user);

#endif
