/* The peer interface as the inside includes it: include/pilotfish_peer.h with the message helpers. */
#ifndef PF_PROTO_PEER_H
#define PF_PROTO_PEER_H

#include "proto/messages.h"

#endif
