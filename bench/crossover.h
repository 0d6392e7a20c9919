/*
 * Measures the crossover: the number of rows at which the multiplies of a pass take as long as reading its weights.
 *
 *      rows = bytes of a weight * multiply-adds a second / bytes read a second
 *
 * `--simulate-token-ms` uses it: a pass of a simulated larger draft takes one unit for each full group of so many rows.
 */
#ifndef PF_BENCH_CROSSOVER_H
#define PF_BENCH_CROSSOVER_H

#include "base/status.h"
#include "engine/engine.h"

/* Measures for the engine's multiply instruction, weight format and threads, reading 32 MiB of uncached memory for 0.1 s.
 * *out is at least 1. cancel may be NULL; when set, PF_CANCELLED. PF_NOMEM. */
PF_MUST_USE pf_status pf_crossover_measure(pf_engine *engine, const volatile bool *cancel, int32_t *out,
                                           pf_error *error);

#endif
