#include "engine/patience.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void pf_patience_init(pf_patience *patience)
{
    *patience = (pf_patience){ .waiting = true };
}

static uint64_t limit_ns(const pf_patience *patience)
{
    const uint64_t worth = patience->verify_ns * PF_PATIENCE_VERIFY_FACTOR;
    return worth > PF_PATIENCE_FLOOR_NS ? worth : PF_PATIENCE_FLOOR_NS;
}

void pf_patience_verified(pf_patience *patience, uint64_t verify_ns)
{
    /* An hour is more than any verification: larger numbers are a clock's mistake, and would overflow the sum. */
    verify_ns = least(verify_ns, (uint64_t)3600 * 1000 * 1000 * 1000);
    patience->verify_ns = patience->verify_ns ? (patience->verify_ns * 7 + verify_ns) / 8 : verify_ns;
}

uint64_t pf_patience_asked(pf_patience *patience, uint64_t round, uint64_t now_ns)
{
    patience->asked_round[round % PF_PATIENCE_ROUNDS] = round;
    patience->asked_ns[round % PF_PATIENCE_ROUNDS] = now_ns;
    if (patience->waiting) return limit_ns(patience);
    if (now_ns < patience->probe_ns) return 0;
    patience->probe_ns = now_ns + PF_PATIENCE_PROBE_NS;
    return limit_ns(patience);
}

void pf_patience_answered(pf_patience *patience, uint64_t round, uint64_t now_ns)
{
    const uint64_t asked_ns = patience->asked_ns[round % PF_PATIENCE_ROUNDS];
    if (patience->asked_round[round % PF_PATIENCE_ROUNDS] != round || asked_ns == 0) return;
    if (now_ns - asked_ns <= limit_ns(patience)) patience->waiting = true;
}

void pf_patience_timed_out(pf_patience *patience, uint64_t now_ns)
{
    patience->waiting = false;
    patience->probe_ns = now_ns + PF_PATIENCE_PROBE_NS;
}
