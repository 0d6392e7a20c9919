/* Names the two services of proto/pilotfish.proto on the wire. */
#ifndef PF_RPC_SERVICE_H
#define PF_RPC_SERVICE_H

/* DRAFTER: the server proposes. VERIFIER: the client does. */
typedef enum { PF_SERVICE_DRAFTER, PF_SERVICE_VERIFIER, PF_N_SERVICES } pf_service;

typedef struct {
    const char *name;          /* asked for in health checks */
    const char *stream_method; /* a stream of batches each way */
    const char *info_method;   /* GetModelInfo */
} pf_service_names;

extern const pf_service_names pf_services[PF_N_SERVICES];

#endif
