/* The peer interface as the inside includes it: include/pilotfish_peer.h with the message helpers. */
#ifndef PF_PROTO_PEER_H
#define PF_PROTO_PEER_H

#include "proto/messages.h"

/* The two services of pilotfish.proto. DRAFTER: the server proposes. VERIFIER: the client does. */
typedef enum { PF_SERVICE_DRAFTER, PF_SERVICE_VERIFIER, PF_N_SERVICES } pf_service;

#endif
