/* A peer that takes everything and has nothing to say: for tests of what is below messages. No state. */
#ifndef PF_TESTS_UNRESPONSIVE_PEER_H
#define PF_TESTS_UNRESPONSIVE_PEER_H

#include "proto/peer.h"

extern const pf_peer_ops unresponsive_peer_ops;

#endif
