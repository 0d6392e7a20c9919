/*
 * How many rows a pass may have before multiplies take longer than memory takes to give the weights that the rows share:
 *
 *      rows = bytes of a weight * multiply-adds a second / bytes read a second
 *
 * Some 14 on two cores of a Zen 4 in BF16 and INT8 and 4 in INT4, 20 of a Zen 5, more with AMX. It is what
 * --simulate-token-ms goes by.
 */
#ifndef PF_BENCH_CROSSOVER_H
#define PF_BENCH_CROSSOVER_H

#include "base/status.h"
#include "engine/pilotfish.h"

/* Of the instruction that the engine's products are made of, its weights' format and its threads; read is memory that no
 * cache holds, 32 MiB, for a tenth of a second. *out is at least 1. cancel, or NULL: then PF_CANCELLED. PF_NOMEM. */
PF_MUST_USE pf_status pf_crossover_measure(pf_engine *engine, const volatile bool *cancel, int32_t *out,
                                           pf_error *error);

#endif
