/* Splits a batch that is larger than a message may be. */
#ifndef PF_PROTO_BATCH_HALVES_H
#define PF_PROTO_BATCH_HALVES_H

#include <stdbool.h>

#include "proto/messages.h"

/* Two batches that say the same one after the other, with fewer parts each: closes and opens first, as they take effect first in one batch.
 * Both have the timing. They borrow from `batch`. False: it has one part, or none. */
bool pf_batch_halve(const pf_batch *batch, pf_batch *first, pf_batch *second);

#endif
