/*
 * An engine as a server: the Drafter service of a worker, or the Verifier service of a target, until told to stop.
 *
 * It raises the process's soft limit of open files to its hard one. No fork without exec in this process afterwards (connect.h).
 */
#ifndef PF_ENGINE_SERVE_PEER_H
#define PF_ENGINE_SERVE_PEER_H

#include <stdbool.h>

#include "engine/pilotfish.h"

typedef enum { PF_ROLE_DRAFTER, PF_ROLE_VERIFIER } pf_role;

typedef struct {
    pf_role role;
    const char *address;     /* "host:port", "[ipv6]:port" (port 0: any) or "unix:/path" (mode 0600) */
    pf_role_options playing; /* its `stop` ends the serving too: looked at a few times a second */
    bool (*ready)(void *user, const char *address); /* once connections are accepted: the address, port filled in.
                                                       False: nobody could be told, do not serve */
    void (*log)(void *user, const char *line);      /* what happens meanwhile, from any thread, or NULL */
    void *user;
} pf_serve_options;

/* Serve until *playing.stop, then finish gracefully: health says NOT_SERVING, open streams get a moment, the rest is
 * cancelled. PF_OK also where `ready` says no, and nothing was served. Takes the engine's one role, and
 * gives it back.
 * PF_UNAVAILABLE: the address is in use or cannot be listened on (the sentence names it).  PF_INVALID: not an
 * address, or as for the role (pf_engine_verifier).  PF_LIMIT: too little memory is left for messages.  PF_INTERNAL: the
 * system gives no random bytes.  PF_NOMEM.  Besides what the role failed with as a whole. */
PF_MUST_USE pf_status pf_engine_serve(pf_engine *engine, const pf_serve_options *options, pf_error *error);

#endif
