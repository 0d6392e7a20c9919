#include "rpc/poller.h"

#include <time.h>

#include "base/clock.h"
#include "base/yield.h"
#include "rpc/grpc_util.h"

enum {
    LOOK_NS = 50 * 1000 * 1000,
    OVERDUE_NS = 4 * LOOK_NS,    /* a poll that still lasts */
    COARSE_NS = 2 * 1000 * 1000, /* by how much gRPC may oversleep: it counts milliseconds, and rounds up */
    NAP_NS = 50 * 1000,          /* between polls where that is too coarse */
    LOOK_ON_NS =
        8 *
        1000, /* without yielding, once another thread has computed on this core: its message is likely on its way */

    /* Polls past the deadline. Each handles one event of a socket, and a round takes two or three: with one poll a
     * round answers would be delayed more and more. */
    LATE_LOOKS = 4,
};

/* Whether the queue is still open. *came: an event has been handled. */
static bool poll_once(pf_poller *p, gpr_timespec deadline, bool *came)
{
    clockid_t clock = 0;
    (void)pthread_getcpuclockid(pthread_self(), &clock);
    (void)atomic_fetch_add_explicit(&p->n_polls, 1, memory_order_release);
    atomic_store_explicit(&p->polls_clock, clock, memory_order_release);
    const grpc_event event = grpc_completion_queue_next(p->cq, deadline, NULL);
    atomic_store_explicit(&p->polls_clock, 0, memory_order_relaxed);
    *came = event.type == GRPC_OP_COMPLETE;
    if (*came && event.tag != p) p->config.handle(p->config.user, event.tag, event.success != 0);
    return event.type != GRPC_QUEUE_SHUTDOWN;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
}

/* An empty batch completes at once: its event ends the poll. */
static void wake(pf_poller *p)
{
    (void)grpc_call_start_batch(p->wakeup, NULL, 0, p, NULL);
}

/* ---- the back -------------------------------------------------------------------------------------------------- */

/* With the lock held. Sleeps until the back is woken, or until one poll of the front has lasted too long. gRPC 1.51
 * restarts its timeout when a signal interrupts it, and a process that is stopped and continued every few milliseconds
 * is interrupted likewise. */
static void sleep_behind_the_front(pf_poller *p)
{
    const unsigned poll = atomic_load(&p->n_polls);
    const struct timespec until = to_timespec(pf_now_ns() + OVERDUE_NS);
    p->back_sleeps = true;
    const bool woken = pthread_cond_timedwait(&p->turn, &p->lock, &until) == 0;
    p->back_sleeps = false;
    if (!woken && atomic_load(&p->front_polls) && atomic_load(&p->n_polls) == poll) wake(p);
}

/* With the lock held. Waits until the front has not polled for front_idle_ns. A front that polls on and off is checked
 * again after that time; while the front has not stopped since the last check the back sleeps until the front wakes
 * it, which takes 30 us on either side between two virtual CPUs. */
static void await_absence(pf_poller *p)
{
    uint64_t seen_ns = 0;
    for (;;) {
        const bool polls = atomic_load(&p->front_polls);
        if (polls && p->left_ns == seen_ns) {
            sleep_behind_the_front(p);
            continue;
        }
        seen_ns = p->left_ns;
        const uint64_t now_ns = pf_now_ns(), until_ns = (polls ? now_ns : seen_ns) + p->config.front_idle_ns;
        if (now_ns >= until_ns) return;
        const struct timespec until = to_timespec(until_ns);
        (void)pthread_cond_timedwait(&p->turn, &p->lock, &until);
    }
}

static void *run_back(void *arg)
{
    pf_poller *p = arg;
    pthread_mutex_lock(&p->lock);
    for (bool open = true, came; open;) {
        await_absence(p);
        p->back_polls = true;
        pthread_mutex_unlock(&p->lock);
        do {
            open = poll_once(p, pf_grpc_deadline(pf_now_ns() + LOOK_NS), &came);
            if (p->config.look && open) p->config.look(p->config.user);
        } while (open && !atomic_load(&p->front_polls));
        pthread_mutex_lock(&p->lock);
        p->back_polls = false;
        pthread_cond_signal(&p->turn);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- the front ------------------------------------------------------------------------------------------------- */

/* Whether the front polls now; false: the back does, and has not stopped in time. */
static bool take_over(pf_poller *p, uint64_t deadline_ns)
{
    const struct timespec until = to_timespec(deadline_ns);
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->front_polls, true);
    if (p->back_polls && pf_now_ns() < deadline_ns) wake(p);
    while (p->back_polls && pf_now_ns() < deadline_ns) (void)pthread_cond_timedwait(&p->turn, &p->lock, &until);
    const bool polls = !p->back_polls;
    if (!polls) atomic_store(&p->front_polls, false);
    pthread_mutex_unlock(&p->lock);
    return polls;
}

static void hand_back(pf_poller *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->front_polls, false);
    p->left_ns = pf_now_ns();
    const bool needs_wakeup = p->back_sleeps;
    pthread_mutex_unlock(&p->lock);
    if (needs_wakeup) pthread_cond_signal(&p->turn);
}

void pf_poller_leave(pf_poller *p)
{
    pthread_mutex_lock(&p->lock);
    const bool is_there = p->back_polls;
    p->left_ns = 0;
    pthread_mutex_unlock(&p->lock);
    if (!is_there) pthread_cond_signal(&p->turn);
}

bool pf_poller_front_polls(const pf_poller *poller)
{
    return atomic_load(&poller->front_polls);
}

bool pf_poller_sample(const pf_poller *poller, uint32_t *poll, uint64_t *cpu_ns)
{
    struct timespec time;
    *poll = atomic_load_explicit(&poller->n_polls, memory_order_acquire);
    const clockid_t clock = atomic_load_explicit(&poller->polls_clock, memory_order_acquire);
    if (clock == 0 || clock_gettime(clock, &time) != 0) return false;
    if (atomic_load_explicit(&poller->n_polls, memory_order_relaxed) != *poll)
        return false; /* another thread polls now */
    *cpu_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    return true;
}

void pf_poller_notify(pf_poller *poller)
{
    atomic_store(&poller->news, true);
}

void pf_poller_wait(pf_poller *p, uint64_t spin_until_ns, uint64_t deadline_ns)
{
    if (atomic_exchange(&p->news, false) || !take_over(p, deadline_ns)) return;
    const gpr_timespec at_once = gpr_time_0(GPR_CLOCK_MONOTONIC);
    bool came;
    uint64_t look_until_ns = 0;
    for (int n_late = 0; n_late < LATE_LOOKS;) {
        (void)poll_once(p, at_once, &came);
        if (atomic_exchange(&p->news, false)) break;
        if (came) continue;
        uint64_t now_ns = pf_now_ns();
        const uint64_t left_ns = deadline_ns - now_ns;
        if (now_ns >= deadline_ns) {
            n_late++;
        } else if (now_ns < spin_until_ns && !pf_contention_is_present(&p->contention, now_ns)) {
            if (now_ns >= look_until_ns && pf_contention_yield(&p->contention, &now_ns) != PF_YIELD_OTHERS_LOOKED)
                look_until_ns = now_ns + LOOK_ON_NS;
        } else if (left_ns < COARSE_NS) {
            nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
        } else {
            const uint64_t sleep_ns = left_ns - COARSE_NS < LOOK_NS ? left_ns - COARSE_NS : LOOK_NS;
            (void)poll_once(p, pf_grpc_deadline(now_ns + sleep_ns), &came);
            if (sleep_ns == LOOK_NS && (!came || pf_now_ns() - now_ns > LOOK_NS)) break;
        }
    }
    hand_back(p);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void dismantle(pf_poller *p)
{
    grpc_call_unref(p->wakeup);
    grpc_channel_destroy(p->wakeup_channel);
    grpc_completion_queue_destroy(p->cq);
    pthread_cond_destroy(&p->turn);
    pthread_mutex_destroy(&p->lock);
}

bool pf_poller_start(pf_poller *p, const pf_poller_config *config)
{
    *p = (pf_poller){ .config = *config };
    p->cq = grpc_completion_queue_create_for_next(NULL);
    p->wakeup_channel = grpc_lame_client_channel_create("wakeup", GRPC_STATUS_UNAVAILABLE, "wakeups only");
    p->wakeup = grpc_channel_create_call(p->wakeup_channel, NULL, GRPC_PROPAGATE_DEFAULTS, p->cq,
                                         grpc_slice_from_static_string("/wakeup"), NULL,
                                         gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&p->turn, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&p->lock, NULL);
    if (pthread_create(&p->back, NULL, run_back, p) == 0) return true;
    grpc_completion_queue_shutdown(p->cq);
    dismantle(p);
    return false;
}

void pf_poller_stop(pf_poller *p)
{
    grpc_completion_queue_shutdown(p->cq);
    pthread_join(p->back, NULL);
    dismantle(p);
}
