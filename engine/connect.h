/*
 * Far peers: a worker that drafts, or a target that verifies, at an address.
 *
 * The channel mends itself: a peer that was restarted is taken up again within a second of its return.
 * gRPC starts threads of its own, which a fork would lose: no fork without exec in this process afterwards.
 */
#ifndef PF_ENGINE_CONNECT_H
#define PF_ENGINE_CONNECT_H

#include "engine/pilotfish.h"

/* PF_INVALID: `address` is neither "host:port" nor "unix:/path"; the sentence says what is wrong with it. Port 0, any, is for
 * who `listens` alone. Whether anybody can listen or answer there is not looked at. */
PF_MUST_USE pf_status pf_connect_check_address(const char *address, bool listens, pf_error *error);

/* Connect and ask who is there. The caller ends *out with pf_peer_destroy. cancel, or NULL: set from outside, it ends the
 * waiting (PF_CANCELLED).
 * PF_INVALID: not an address.  PF_UNAVAILABLE: nobody answers there, of which a verifier has 15 s to convince, and a drafter
 * 2 s, or one attempt of 0.6 s.  PF_FORMAT: who answers talks nonsense, or serves something else. In these two cases a drafter
 * is made all the same, goes on trying, and is the caller's: generation is plain until somebody answers.  PF_UNSUPPORTED:
 * another version of the protocol.  PF_NOMEM: no memory, or too few threads or descriptors for gRPC. */
PF_MUST_USE pf_status pf_connect_drafter(const char *address, const volatile bool *cancel, pf_peer **out,
                                         pf_error *error);
PF_MUST_USE pf_status pf_connect_verifier(const char *address, const volatile bool *cancel, pf_peer **out,
                                          pf_error *error);

#endif
