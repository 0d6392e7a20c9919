/* Names the two services of proto/pilotfish.proto on the wire. */
#ifndef PF_RPC_SERVICE_H
#define PF_RPC_SERVICE_H

#include "proto/peer.h"

typedef struct {
    const char *name;          /* asked for in health checks */
    const char *stream_method; /* a stream of batches each way */
    const char *info_method;   /* GetModelInfo */
} pf_service_names;

extern const pf_service_names pf_services[PF_N_SERVICES];

#endif
