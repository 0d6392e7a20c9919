/* The two services of proto/pilotfish.proto, and what they are called on the wire. */
#ifndef PF_RPC_SERVICE_H
#define PF_RPC_SERVICE_H

/* Which way proposals go. */
typedef enum { PF_SERVICE_DRAFTER, PF_SERVICE_VERIFIER, PF_N_SERVICES } pf_service;

typedef struct {
    const char *name;          /* by which its health is asked for */
    const char *stream_method; /* a stream of batches each way */
    const char *info_method;   /* who is there: GetModelInfo */
} pf_service_names;

extern const pf_service_names pf_services[PF_N_SERVICES];

#endif
