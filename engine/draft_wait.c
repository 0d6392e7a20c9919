#include "engine/draft_wait.h"

static const double SMOOTHING = 1.0 / 8.0;
static const double DECAY = 15.0 / 16.0; /* of the weight of older rounds with a proposal */
static const double OUTLIER = 4.0;       /* larger samples are clamped: the target was stopped meanwhile */
static const double UNDONE = 8.0;     /* a mean this many times a sample is replaced: the first samples were outliers */
static const double HOUR_NS = 3600e9; /* the longest plausible verification */

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double smooth(double before, double value)
{
    return before > 0.0 ? before + SMOOTHING * (value - before) : value;
}

static double smooth_verification(double before, double ns)
{
    return before > UNDONE * ns ? ns : smooth(before, ns);
}

void pf_draft_wait_init(pf_draft_wait *draft_wait)
{
    *draft_wait = (pf_draft_wait){ .keeps_up = true, .tokens = PF_DRAFT_WAIT_CREDIT };
}

static uint64_t limit_ns(const pf_draft_wait *p)
{
    const uint64_t worth = p->verify_ns * PF_DRAFT_WAIT_VERIFY_FACTOR;
    return worth > PF_DRAFT_WAIT_FLOOR_NS ? worth : PF_DRAFT_WAIT_FLOOR_NS;
}

/* Time of a token without a drafter; until a round had none, the time of any round. */
static double plain_ns(const pf_draft_wait *p)
{
    return p->plain_ns > 0.0 ? p->plain_ns : (double)p->verify_ns;
}

static bool pays(const pf_draft_wait *p)
{
    if (p->latency_ns <= PF_DRAFT_WAIT_FLOOR_NS) return true; /* near */
    return p->rounds * p->latency_ns + p->judge_ns <= p->tokens * plain_ns(p);
}

uint64_t pf_draft_wait_limit_ns(const pf_draft_wait *p, uint64_t now_ns)
{
    return p->verify_ns > 0 && pays(p) && (p->keeps_up || now_ns >= p->probe_ns) ? limit_ns(p) : 0;
}

/* The next probe comes once waited_ns is 1 / PF_DRAFT_WAIT_SHARE of the time. */
static void put_off_probe(pf_draft_wait *p, uint64_t now_ns, uint64_t waited_ns)
{
    p->probe_ns = now_ns + PF_DRAFT_WAIT_SHARE * waited_ns;
}

uint64_t pf_draft_wait_asked(pf_draft_wait *p, uint64_t round, uint64_t now_ns)
{
    p->looked_ns = p->last_ns;
    p->last_ns = now_ns;
    p->last_round = round;
    p->asked_round[round % PF_DRAFT_WAIT_ROUNDS] = round;
    p->asked_ns[round % PF_DRAFT_WAIT_ROUNDS] = now_ns;
    if (!pays(p)) return 0;
    if (p->keeps_up) return limit_ns(p);
    if (now_ns < p->probe_ns) return 0;
    put_off_probe(p, now_ns, limit_ns(p));
    return limit_ns(p);
}

void pf_draft_wait_answered(pf_draft_wait *p, uint64_t round, uint64_t now_ns)
{
    const uint64_t asked_ns = p->asked_ns[round % PF_DRAFT_WAIT_ROUNDS];
    if (p->asked_round[round % PF_DRAFT_WAIT_ROUNDS] != round) return;
    if (now_ns - asked_ns > limit_ns(p)) { /* a probe would time out, too */
        put_off_probe(p, now_ns, limit_ns(p));
        return;
    }
    p->keeps_up = true;
    /* A stale one arrived after the request before the last, when the queue was last read: that is the earliest time. */
    const uint64_t came_ns = round == p->last_round ? now_ns : p->looked_ns;
    p->latency_ns = smooth(p->latency_ns, came_ns > asked_ns ? (double)(came_ns - asked_ns) : 0.0);
}

void pf_draft_wait_timed_out(pf_draft_wait *p, uint64_t now_ns)
{
    p->keeps_up = false;
    put_off_probe(p, now_ns, now_ns - p->last_ns);
}

static void count_proposal(pf_draft_wait *p, double judge_ns, int32_t n_tokens)
{
    if (p->judge_ns > UNDONE * p->rounds * judge_ns) p->judge_ns = p->rounds * judge_ns;
    p->rounds = DECAY * p->rounds + 1.0;
    p->judge_ns = DECAY * p->judge_ns + judge_ns;
    p->tokens = DECAY * p->tokens + n_tokens;
}

void pf_draft_wait_verified(pf_draft_wait *p, uint64_t verify_ns, bool proposed, int32_t n_tokens)
{
    const double most = p->verify_ns > 0 ? OUTLIER * (double)p->verify_ns : HOUR_NS;
    const double ns = least((double)verify_ns, most);
    p->verify_ns = (uint64_t)smooth_verification((double)p->verify_ns, ns);
    if (proposed)
        count_proposal(p, ns, n_tokens);
    else
        p->plain_ns = smooth_verification(p->plain_ns, ns);
}

void pf_draft_wait_in_hindsight(pf_draft_wait *p, int32_t n_tokens)
{
    count_proposal(p, p->rounds > 0.0 ? p->judge_ns / p->rounds : plain_ns(p), n_tokens);
}
