#include "tests/support/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/team.h"
#include "base/topology.h"
#include "base/yield.h"
#include "tests/support/alloc_count.h"
#include "tests/support/threading.h"

enum { MOST = 9 };

/* The claims hold for both implementations (tests/support/threading.h). Claims about pinning, about what a waiting thread does
 * between steps and about starting threads are those of own threads: main leaves them out on OpenMP, whose runtime does that.
 * ThreadSanitizer does not see the synchronisation inside libgomp; that of a team is its own, so nothing is left out under it. */

/* Plain memory, written by members: ThreadSanitizer sees whether the team orders the accesses. */
typedef struct {
    int runs[MOST];
    int seen[MOST];
    int n_steps, input;
    int cpu[MOST];
} board;

static pf_team *make(int32_t n_threads)
{
    pf_team *team;
    pf_error error;
    assert_ok(pf_test_team_create(n_threads, &team, &error), error);
    assert_int_equal(pf_team_size(team), n_threads);
    assert_int_equal(pf_team_threading(team), pf_test_threading());
    return team;
}

/* Pinned to these CPUs, where the team pins at all. */
static pf_team *make_on_two(int32_t n_threads, const int32_t cores[2])
{
    if (pf_test_threading() == PF_THREADING_OPENMP) return make(n_threads);
    pf_team *team;
    pf_error error;
    assert_ok(pf_team_create(n_threads, cores, 2, &team, &error), error);
    return team;
}

static void count_run(pf_member member, void *arg)
{
    board *b = arg;
    b->runs[member.id]++;
    b->seen[member.id] = b->input;
}

static void every_thread_runs_each_step_once_and_sees_what_the_caller_wrote(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= MOST; n++) {
        pf_team *team = make(n);
        board b = { 0 };
        for (int step = 1; step <= 200; step++) {
            b.input = step;
            pf_team_run(team, count_run, &b);
            for (int32_t id = 0; id < MOST; id++) {
                assert_int_equal(b.runs[id], id < n ? step : 0);
                assert_int_equal(b.seen[id], id < n ? step : 0);
            }
        }
        pf_team_destroy(team);
    }
}

/* A ring: each writes its place, and after a barrier reads its neighbour's. */
static void pass_round(pf_member member, void *arg)
{
    board *b = arg;
    for (int step = 1; step <= b->n_steps; step++) {
        b->seen[member.id] = step;
        pf_team_barrier(member);
        if (b->seen[(member.id + 1) % member.n_threads] != step) b->runs[member.id]++; /* a mistake */
        pf_team_barrier(member);
    }
}

static void a_barrier_opens_when_all_threads_have_arrived(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= MOST; n += 2) { /* the last with more members than cores on most machines */
        pf_team *team = make(n);
        board b = { .n_steps = 300 };
        for (int run = 0; run < 3; run++) pf_team_run(team, pass_round, &b);
        for (int32_t id = 0; id < n; id++) assert_int_equal(b.runs[id], 0);
        pf_team_destroy(team);
    }
}

static void phases_wrap_without_a_lost_wakeup(void **state)
{
    (void)state;
    for (int32_t n = 2; n <= 3; n++) { /* a barrier by counting, and one by flags */
        pf_team *team = make(n);
        board b = { .n_steps = 3 };
        for (int i = 1; i <= 65536 - 100; i++)
            pf_team_run(team, count_run, &b); /* each opens all but the barrier of three */
        for (int32_t id = 0; id < n; id++) assert_int_equal(b.runs[id], 65536 - 100);
        memset(b.runs, 0, sizeof b.runs);
        for (int i = 0; i < 200; i++) pf_team_run(team, pass_round, &b);
        b.n_steps = 33000;
        pf_team_run(team, pass_round, &b);
        for (int32_t id = 0; id < n; id++) assert_int_equal(b.runs[id], 0);
        pf_team_destroy(team);
    }
}

static void add_one(pf_member member, void *arg)
{
    pf_team_barrier(member);
    atomic_fetch_add((atomic_int *)arg, 1);
    pf_team_barrier(member);
}

static void hundreds_of_threads_meet_at_a_barrier(void **state)
{
    (void)state;
    pf_team *team = make(300);
    atomic_int n = 0;
    for (int step = 1; step <= 3; step++) {
        pf_team_run(team, add_one, &n);
        assert_int_equal(atomic_load(&n), 300 * step);
    }
    pf_team_destroy(team);
}

static void needs_two_cores(int32_t cores[2])
{
    cpu_set_t all;
    int32_t n = 0;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (int32_t cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
        if (CPU_ISSET((size_t)cpu, &all)) cores[n++] = cpu;
    if (n < 2) skip();
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

static void be_late(pf_member member, void *arg)
{
    if (member.id == 1) nap();
    count_run(member, arg);
    pf_team_barrier(member);
    if (member.id == 0) nap();
    pf_team_barrier(member);
}

static void sleeping_threads_are_woken(void **state)
{
    (void)state;
    pf_team *team = make(3);
    board b = { 0 };
    for (int step = 1; step <= 10; step++) {
        nap(); /* longer than members spin and yield */
        pf_team_run(team, be_late, &b);
        for (int32_t id = 0; id < 3; id++) assert_int_equal(b.runs[id], step);
    }
    pf_team_destroy(team);
}

/* A ring whose members come late at random, by nothing, by microseconds, or by so much that others fall asleep. */
static void pass_round_late(pf_member member, void *arg)
{
    board *b = arg;
    uint32_t random = (uint32_t)(b->input * MOST + member.id + 1);
    for (int step = 1; step <= b->n_steps; step++) {
        random = random * 1664525u + 1013904223u;
        if (random >> 26 == 0)
            nanosleep(&(struct timespec){ .tv_nsec = 400 * 1000 }, NULL); /* threads that share CPUs yield for less */
        else if (random >> 29 == 1)
            pf_wait_until(pf_now_ns() + (random >> 16 & 4095));
        b->seen[member.id] = step;
        pf_team_barrier(member);
        for (int32_t id = 0; id < member.n_threads; id++)
            if (b->seen[id] != step) b->runs[member.id]++; /* a mistake */
        pf_team_barrier(member);
    }
}

static void threads_that_arrive_late_at_random_meet_at_each_barrier(void **state)
{
    (void)state;
    int32_t cores[2];
    needs_two_cores(cores);
    for (int32_t n = 2; n < MOST; n++) {
        pf_team *team = make_on_two(n, cores);
        board b = { .n_steps = 20 };
        for (b.input = 0; b.input < 25; b.input++) pf_team_run(team, pass_round_late, &b);
        for (int32_t id = 0; id < n; id++) assert_int_equal(b.runs[id], 0);
        pf_team_destroy(team);
    }
}

static void count_and_meet(pf_member member, void *arg)
{
    board *b = arg;
    count_run(member, arg);
    pf_team_barrier(member);
    for (int32_t id = 0; id < member.n_threads; id++)
        if (b->seen[id] != b->input) b->n_steps++; /* a mistake */
}

/* 1, 2, 4, ... below n_threads, or all. */
static int32_t some_of(int32_t n_threads, uint32_t random)
{
    const int32_t n = 1 << random % 5;
    return n < n_threads ? n : n_threads;
}

static void a_step_may_run_on_the_first_threads_only(void **state)
{
    (void)state;
    for (int32_t n = 2; n <= MOST; n++) {
        pf_team *team = make(n);
        board b = { 0 };
        int expected[MOST] = { 0 };
        uint32_t random = (uint32_t)n;
        for (b.input = 1; b.input <= 600; b.input++) {
            random = random * 1664525u + 1013904223u;
            const int32_t n_members = some_of(n, random >> 16);
            if (b.input % 100 == 0) nap();
            pf_team_run_some(team, n_members, count_and_meet, &b);
            for (int32_t id = 0; id < n_members; id++) expected[id]++;
            assert_memory_equal(b.runs, expected, sizeof expected);
        }
        assert_int_equal(b.n_steps, 0);
        pf_team_destroy(team);
    }
}

static void note_own_sleeps(pf_member member, void *arg)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) == 0) ((board *)arg)->seen[member.id] = (int)usage.ru_nvcsw;
}

static void threads_that_are_not_in_a_step_stay_asleep(void **state)
{
    (void)state;
    pf_team *team = make(8);
    for (int32_t n_members = 1; n_members <= 4; n_members *= 2) {
        board before = { 0 }, after = { 0 };
        pf_team_run(team, note_own_sleeps, &before);
        nap();
        for (int step = 0; step < 200; step++) pf_team_run_some(team, n_members, count_and_meet, &after);
        pf_team_run(team, note_own_sleeps, &after);
        for (int32_t id = n_members; id < 8; id++) assert_true(after.seen[id] - before.seen[id] <= 2);
    }
    pf_team_destroy(team);
}

/* At once, while members spin, while they yield, and after they fell asleep: behind gaps that were as long, and that were not. */
static void steps_may_come_after_any_time(void **state)
{
    (void)state;
    static const uint64_t gaps_us[] = { 0, 2, 8, 20, 120, 600, 990, 1010 };
    pf_team *team = make(2);
    board b = { 0 };
    uint32_t random = 1;
    for (int step = 1; step <= 1000; step++) {
        random = random * 1664525u + 1013904223u;
        pf_wait_until(pf_now_ns() + 1000 * gaps_us[random >> 29]);
        pf_team_run(team, count_run, &b);
        for (int32_t id = 0; id < 2; id++) assert_int_equal(b.runs[id], step);
    }
    pf_team_destroy(team);
}

static void note_sleeps(pf_member member, void *arg)
{
    struct rusage usage;
    if (member.id == 1 && getrusage(RUSAGE_THREAD, &usage) == 0) *(long *)arg = usage.ru_nvcsw;
}

static void look_for_others(pf_member member, void *arg)
{
    (void)member;
    pf_contention contention = { 0 };
    uint64_t now_ns = pf_now_ns();
    for (const uint64_t until_ns = now_ns + 5 * 1000 * 1000; now_ns < until_ns;)
        if (pf_contention_yield(&contention, &now_ns) == PF_YIELD_CONTENDED) atomic_store((atomic_bool *)arg, true);
}

/* Whether no other thread computes on the CPUs of the team. */
static bool is_alone(pf_team *team)
{
    atomic_bool others = false;
    pf_team_run(team, look_for_others, &others);
    return !atomic_load(&others);
}

/* Before how many of n_steps, half a millisecond apart, member 1 slept; *alone: no other thread computed there before or after them. */
static long count_sleeps(pf_team *team, int n_steps, bool *alone)
{
    long before = 0, after = 0;
    *alone = is_alone(team);
    pf_team_run(team, note_sleeps, &before);
    for (int step = 0; step < n_steps; step++) {
        const uint64_t until_ns = pf_now_ns() + 500 * 1000;
        while (pf_now_ns() < until_ns) continue;
        pf_team_run(team, note_sleeps, &after);
    }
    if (!is_alone(team)) *alone = false;
    return after - before;
}

/* A worker's pass comes once a round, behind a verification in another process: waking a thread takes as long as the pass. Under
 * CPU contention the thread does sleep (base/yield.h), and the test is skipped. */
static void a_step_after_half_a_millisecond_wakes_no_thread(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__ /* a step and a look at it take many times as long */
    skip();
#endif
    enum { STEPS = 20, TRIES = 50, ENOUGH = 10 };
    int32_t cores[2];
    needs_two_cores(cores);
    pf_team *team;
    pf_error error;
    assert_ok(pf_team_create(2, cores, 2, &team, &error), error);
    long fewest = STEPS;
    int n_alone = 0;
    for (int i = 0; i < TRIES && fewest > STEPS / 2; i++) {
        bool alone;
        const long n = count_sleeps(team, STEPS, &alone);
        if (n < fewest) fewest = n;
        n_alone += alone;
    }
    pf_team_destroy(team);
    if (fewest > STEPS / 2 && n_alone < ENOUGH) skip();
    if (fewest > STEPS / 2) fail_msg("a member slept before %ld of %d steps", fewest, STEPS);
}

static atomic_bool hog_is_over;

static void *hog(void *user)
{
    (void)user;
    while (!atomic_load(&hog_is_over)) continue;
    return NULL;
}

enum { PHASES = 20, PHASED_STEPS = 100 };

/* Of some microseconds each. */
static void run_phases(pf_member member, void *arg)
{
    (void)arg;
    for (int i = 0; i < PHASES; i++) {
        for (volatile int k = 0; k < 20000; k++) continue;
        pf_team_barrier(member);
    }
}

/* Nanoseconds that the steps take by a team of whose cores another thread computes on one. */
static uint64_t steps_beside_a_hog(pf_team *team, int32_t core)
{
    pthread_t thread;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    atomic_store(&hog_is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, hog, NULL), 0);
    assert_int_equal(pthread_setaffinity_np(thread, sizeof one, &one), 0);
    const uint64_t begin_ns = pf_now_ns();
    for (int step = 0; step < PHASED_STEPS; step++) pf_team_run(team, run_phases, NULL);
    const uint64_t ns = pf_now_ns() - begin_ns;
    atomic_store(&hog_is_over, true);
    pthread_join(thread, NULL);
    return ns;
}

/* If each barrier cost one time slice of the other thread, the steps would take seconds. Other processes on the machine have the
 * same effect: the test fails only if every attempt is slow, and is skipped where attempts were not alone. */
static void a_thread_on_the_same_cpu_takes_no_more_than_its_share(void **state)
{
    (void)state;
    enum { MOST_NS = 500 * 1000 * 1000, TRIES = 50, ENOUGH = 5 };
    int32_t cores[2];
    needs_two_cores(cores);
    for (int hogged = 0; hogged < 2; hogged++) {
        pf_team *team = make_on_two(2, cores);
        uint64_t best_ns = UINT64_MAX;
        int n_alone = 0;
        for (int i = 0; i < TRIES && best_ns > MOST_NS && n_alone < ENOUGH; i++) {
            if (!is_alone(team)) continue;
            const uint64_t ns = steps_beside_a_hog(team, cores[hogged]);
            if (ns < best_ns) best_ns = ns;
            n_alone += is_alone(team);
        }
        pf_team_destroy(team);
        if (best_ns > MOST_NS && n_alone < ENOUGH) skip();
        if (best_ns > MOST_NS)
            fail_msg("%d barriers beside another thread took %.1f s", PHASES * PHASED_STEPS, 1e-9 * (double)best_ns);
    }
}

enum { LATE_NS = 20 * 1000 * 1000 };

/* The last member comes late to a barrier. */
static void last_comes_late(pf_member member, void *arg)
{
    (void)arg;
    const struct timespec late = { .tv_nsec = LATE_NS };
    if (member.id == member.n_threads - 1) nanosleep(&late, NULL);
    pf_team_barrier(member);
}

/* Others may be late themselves, on a busy machine: in one of some steps they are not. */
static void the_delay_by_a_late_thread_is_reported(void **state)
{
    (void)state;
    enum { TRIES = 20 };
    for (int32_t n = 2; n <= 5; n++) {
        pf_team *team = make(n);
        assert_int_equal(pf_team_held_up_ns(team), 0);
        uint64_t longest = 0;
        for (int32_t i = 0; i < TRIES && longest < LATE_NS / 2; i++) {
            const uint64_t begin = pf_now_ns();
            pf_team_run(team, last_comes_late, NULL);
            const uint64_t took = pf_now_ns() - begin, held_up = pf_team_held_up_ns(team);
            assert_true(held_up * (uint64_t)(n - 1) <= took * (uint64_t)n); /* each waits no longer than the step */
            longest = held_up > longest ? held_up : longest;
        }
        assert_true(longest >= LATE_NS / 2);
        pf_team_run_some(team, 1, last_comes_late, NULL); /* no thread waits */
        assert_int_equal(pf_team_held_up_ns(team), 0);
        pf_team_destroy(team);
    }
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    pf_alloc_count_reset();
    pf_team *team = make(3);
    assert_true(pf_alloc_count() > 0); /* the counter counts */
    board b = { .n_steps = 10 };
    pf_alloc_count_reset();
    for (int i = 0; i < 50; i++) pf_team_run(team, pass_round, &b);
    assert_int_equal(pf_alloc_count(), 0);
    pf_team_destroy(team);
}

static void shares_cover_everything_in_order_and_evenly(void **state)
{
    (void)state;
    const int32_t totals[] = { 0, 1, 5, 7, 8, 1000, INT32_MAX };
    for (size_t i = 0; i < PF_COUNT(totals); i++) {
        for (int32_t n = 1; n <= MOST; n++) {
            int32_t at = 0, least = INT32_MAX, most = 0;
            for (int32_t id = 0; id < n; id++) {
                int32_t begin, end;
                pf_team_share((pf_member){ .id = id, .n_threads = n }, totals[i], &begin, &end);
                assert_int_equal(begin, at);
                assert_true(end >= begin);
                if (end - begin < least) least = end - begin;
                if (end - begin > most) most = end - begin;
                at = end;
            }
            assert_int_equal(at, totals[i]);
            assert_true(most - least <= 1);
        }
    }
}

static int32_t first_allowed_cpu(cpu_set_t *allowed)
{
    assert_int_equal(sched_getaffinity(0, sizeof *allowed, allowed), 0);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, allowed)) cpu++;
    return (int32_t)cpu;
}

/* Two members on one CPU of those that this thread may run on. */
static pf_team *make_pinned(cpu_set_t *before)
{
    const int32_t core = first_allowed_cpu(before);
    pf_team *team = NULL;
    assert_int_equal(pf_team_create(2, &core, 1, &team, NULL), PF_OK);
    return team;
}

static void note_cpus(pf_member member, void *arg)
{
    cpu_set_t set;
    board *b = arg;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) b->runs[member.id]++;
    b->cpu[member.id] = sched_getcpu();
    pf_team_barrier(member);
}

static void members_are_pinned_and_the_caller_is_given_back_its_cpus(void **state)
{
    (void)state;
    cpu_set_t before, after;
    const int32_t core = first_allowed_cpu(&before);
    pf_team *team;
    pf_error error;
    board b = { 0 };
    assert_ok(pf_team_create(1, &core, 1, &team, &error), error);
    pf_team_run(team, note_cpus, &b);
    assert_int_equal(b.runs[0], 0);
    assert_int_equal(b.cpu[0], core);

    pf_team *second;
    assert_ok(pf_team_create(3, &core, 1, &second, &error), error);
    pf_team_run(second, note_cpus, &b);
    for (int32_t id = 0; id < 3; id++) {
        assert_int_equal(b.runs[id], 0);
        assert_int_equal(b.cpu[id], core);
    }
    pf_team_destroy(second);
    pf_team_destroy(team);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void a_pinned_caller_may_create_a_team_on_other_cpus(void **state)
{
    (void)state;
    cpu_set_t allowed;
    int32_t cores[2] = { first_allowed_cpu(&allowed), 0 };
    if (CPU_COUNT(&allowed) < 2) skip();
    cores[1] = cores[0] + 1;
    while (!CPU_ISSET((size_t)cores[1], &allowed)) cores[1]++;
    pf_team *both, *second;
    pf_error error;
    board b = { 0 };
    assert_ok(pf_team_create(2, cores, 2, &both, &error), error);
    pf_team_run(both, note_cpus, &b);
    assert_int_equal(b.cpu[1], cores[1]);
    assert_ok(pf_team_create(2, &cores[1], 1, &second, &error), error);
    pf_team_destroy(second);
    pf_team_destroy(both);
}

static void note_affinity(void *arg)
{
    assert_int_equal(sched_getaffinity(0, sizeof(cpu_set_t), arg), 0);
}

/* Run `team`, whose caller's core is given. */
static void run_on(pf_team *team, int32_t core)
{
    board b = { 0 };
    pf_team_run(team, note_cpus, &b);
    assert_int_equal(b.runs[0], 0);
    assert_int_equal(b.cpu[0], core);
}

static void teams_run_in_turns_by_one_thread_pin_it_to_their_own_core_and_end_in_any_order(void **state)
{
    (void)state;
    cpu_set_t before, after;
    int32_t cores[2];
    needs_two_cores(cores);
    note_affinity(&before);
    for (int first = 0; first < 2; first++) {
        pf_team *teams[2];
        for (int t = 0; t < 2; t++) {
            assert_int_equal(pf_team_create(1, &cores[t], 1, &teams[t], NULL), PF_OK);
            run_on(teams[t], cores[t]);
        }
        for (int t = 0; t < 2; t++) run_on(teams[t], cores[t]);
        pf_team_destroy(teams[first]);
        run_on(teams[!first], cores[!first]);
        pf_team_destroy(teams[!first]);
        note_affinity(&after);
        assert_true(CPU_EQUAL(&before, &after));
    }
}

static void note_affinities(pf_member member, void *arg)
{
    note_affinity((cpu_set_t *)arg + member.id);
}

static void threads_started_by_a_pinned_caller_have_the_cpus_of_the_process(void **state)
{
    (void)state;
    int32_t cores[2], listed[CPU_SETSIZE], n_listed = 0;
    needs_two_cores(cores);
    cpu_set_t before, of[2];
    pf_topology without, pinned;
    pf_team *team = NULL;
    note_affinity(&before);
    assert_int_equal(pf_topology_read(&without, NULL), PF_OK);
    assert_int_equal(pf_team_create(1, cores, 1, &team, NULL), PF_OK);
    run_on(team, cores[0]);

    pf_team *second = make(2);
    pf_team_run(second, note_affinities, of);
    assert_int_equal(CPU_COUNT(&of[0]), 1);
    assert_true(CPU_EQUAL(&of[1], &before));
    assert_int_equal(pf_topology_list_cpus(listed, CPU_SETSIZE, &n_listed, NULL), PF_OK);
    assert_int_equal(n_listed, CPU_COUNT(&before));
    assert_int_equal(pf_topology_read(&pinned, NULL), PF_OK);
    assert_int_equal(pinned.n_cpus, without.n_cpus);
    assert_int_equal(pinned.n_cores, without.n_cores);
    pf_team_destroy(second);
    pf_team_destroy(team);
}

static void *run_once(void *team)
{
    board b = { 0 };
    pf_team_run(team, note_cpus, &b);
    return NULL;
}

static void destroying_a_team_that_another_thread_ran_last_restores_the_cpus(void **state)
{
    (void)state;
    cpu_set_t before, after;
    const int32_t core = first_allowed_cpu(&before);
    pf_team *team = NULL;
    pthread_t other;
    assert_int_equal(pf_team_create(2, &core, 1, &team, NULL), PF_OK);
    run_on(team, core);
    assert_int_equal(pthread_create(&other, NULL, run_once, team), 0);
    pthread_join(other, NULL);
    pf_team_destroy(team);
    note_affinity(&after);
    assert_true(CPU_EQUAL(&before, &after));
}

static void note_nothing(pf_member member, void *arg)
{
    (void)member;
    (void)arg;
}

static void a_pinned_caller_is_unpinned_for_a_call(void **state)
{
    (void)state;
    cpu_set_t before, pinned, unpinned, after;
    pf_team *team = make_pinned(&before);
    pf_team *free_team = NULL; /* a thread that may run anywhere: the process may */
    pf_team_run_unpinned(note_affinity, &unpinned);
    assert_int_equal(pf_team_create(2, NULL, 0, &free_team, NULL), PF_OK);
    pf_team_run(team, note_nothing, NULL);
    note_affinity(&pinned);
    pf_team_run_unpinned(note_affinity, &unpinned);
    note_affinity(&after);
    pf_team_destroy(free_team);
    pf_team_destroy(team);
    assert_int_equal(CPU_COUNT(&pinned), 1);
    assert_true(CPU_EQUAL(&unpinned, &before));
    assert_true(CPU_EQUAL(&after, &pinned));
}

static void an_unpinned_caller_is_pinned_again_by_a_run_of_several_members(void **state)
{
    (void)state;
    cpu_set_t before, left, alone, together;
    pf_team *team = make_pinned(&before);
    pf_team_run(team, note_nothing, NULL);
    pf_team_unpin_caller(team);
    note_affinity(&left);
    pf_team_run_some(team, 1, note_nothing, NULL);
    note_affinity(&alone);
    pf_team_run(team, note_nothing, NULL);
    note_affinity(&together);
    pf_team_destroy(team);
    assert_true(CPU_EQUAL(&left, &before));
    assert_true(CPU_EQUAL(&alone, &before));
    assert_int_equal(CPU_COUNT(&together), 1);
}

static void a_team_told_not_to_pin_leaves_its_members_to_the_scheduler(void **state)
{
    (void)state;
    cpu_set_t before, caller;
    pf_team *team = make_pinned(&before);
    if (CPU_COUNT(&before) < 2) skip();
    for (int pins = 0; pins < 4; pins++) {
        board b = { 0 };
        pf_team_pin(team, pins % 2 == 1);
        pf_team_run(team, note_cpus, &b);
        note_affinity(&caller);
        for (int32_t id = 0; id < 2; id++) assert_int_equal(b.runs[id], pins % 2 == 0);
        assert_int_equal(CPU_COUNT(&caller), pins % 2 == 1 ? 1 : CPU_COUNT(&before));
    }
    pf_team_destroy(team);
}

static void note_signals(pf_member member, void *arg)
{
    board *b = arg;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    b->seen[member.id] = sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM);
    b->runs[member.id] = sigismember(&blocked, SIGSEGV) || sigismember(&blocked, SIGBUS);
}

/* So that what waits in the caller, a read or a sleep, is what Ctrl-C ends; but a member's own fault is its own. */
static void signals_are_blocked_in_team_threads(void **state)
{
    (void)state;
    pf_team *team = make(3);
    board b = { 0 };
    pf_team_run(team, note_signals, &b);
    for (int32_t id = 0; id < 3; id++) {
        assert_int_equal(b.seen[id], id > 0);
        assert_int_equal(b.runs[id], 0);
    }
    pf_team_destroy(team);
}

static void an_impossible_team_is_refused_in_a_sentence(void **state)
{
    (void)state;
    cpu_set_t allowed;
    int32_t cores[] = { first_allowed_cpu(&allowed), -1 };
    pf_team *team = NULL;
    pf_error error;
    assert_status(pf_team_create(0, NULL, 0, &team, &error), PF_INVALID);
    assert_says(error, "0 threads: expected 1 to 1024");
    assert_status(pf_team_create(1025, NULL, 0, &team, &error), PF_INVALID);
    assert_status(pf_team_create(1, cores, 2, &team, &error), PF_INVALID);
    cores[1] = CPU_SETSIZE - 1;
    if (CPU_ISSET((size_t)cores[1], &allowed)) skip();
    assert_status(pf_team_create(2, cores, 2, &team, &error), PF_UNAVAILABLE);
    assert_says(error, "core 1023");
    cores[1] = INT32_MAX;
    assert_status(pf_team_create(2, cores, 2, &team, &error), PF_UNAVAILABLE);
    assert_null(team);
}

static void a_refused_allocation_ends_the_threads_that_were_started(void **state)
{
    (void)state;
    pf_team *team = NULL;
    pf_error error;
    int64_t n = 0;
    for (;; n++) {
        pf_alloc_refuse_after(n);
        const pf_status status = pf_team_create(4, NULL, 0, &team, &error);
        pf_alloc_refuse_after(-1);
        if (status == PF_OK) break;
        assert_int_equal(status, PF_NOMEM);
        assert_null(team);
    }
    assert_int_equal(n, 4); /* the team, and three threads */
    pf_team_destroy(team);  /* that has run nothing */
    pf_team_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest both[] = {
        cmocka_unit_test(every_thread_runs_each_step_once_and_sees_what_the_caller_wrote),
        cmocka_unit_test(a_barrier_opens_when_all_threads_have_arrived),
        cmocka_unit_test(phases_wrap_without_a_lost_wakeup),
        cmocka_unit_test(hundreds_of_threads_meet_at_a_barrier),
        cmocka_unit_test(sleeping_threads_are_woken),
        cmocka_unit_test(threads_that_arrive_late_at_random_meet_at_each_barrier),
        cmocka_unit_test(a_step_may_run_on_the_first_threads_only),
        cmocka_unit_test(steps_may_come_after_any_time),
        cmocka_unit_test(the_delay_by_a_late_thread_is_reported),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(shares_cover_everything_in_order_and_evenly),
        cmocka_unit_test(signals_are_blocked_in_team_threads),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(threads_that_are_not_in_a_step_stay_asleep),
        cmocka_unit_test(a_step_after_half_a_millisecond_wakes_no_thread),
        cmocka_unit_test(a_thread_on_the_same_cpu_takes_no_more_than_its_share),
        cmocka_unit_test(members_are_pinned_and_the_caller_is_given_back_its_cpus),
        cmocka_unit_test(a_pinned_caller_may_create_a_team_on_other_cpus),
        cmocka_unit_test(teams_run_in_turns_by_one_thread_pin_it_to_their_own_core_and_end_in_any_order),
        cmocka_unit_test(threads_started_by_a_pinned_caller_have_the_cpus_of_the_process),
        cmocka_unit_test(destroying_a_team_that_another_thread_ran_last_restores_the_cpus),
        cmocka_unit_test(a_pinned_caller_is_unpinned_for_a_call),
        cmocka_unit_test(an_unpinned_caller_is_pinned_again_by_a_run_of_several_members),
        cmocka_unit_test(a_team_told_not_to_pin_leaves_its_members_to_the_scheduler),
        cmocka_unit_test(an_impossible_team_is_refused_in_a_sentence),
        cmocka_unit_test(a_refused_allocation_ends_the_threads_that_were_started),
    };
    const int n_failed = cmocka_run_group_tests(both, NULL, NULL);
    return pf_test_threading() == PF_THREADING_OPENMP ? n_failed : n_failed + cmocka_run_group_tests(own, NULL, NULL);
}
