/*
 * Tests what is particular to a team on OpenMP: regions that get fewer threads, regions inside regions, forks. The claims that
 * both implementations share are in team_test.c.
 *
 * A runtime reads its environment when it is loaded, so such claims run in a child process that has not loaded one.
 */
#include "tests/support/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/openmp.h"
#include "base/team.h"

#if defined(__SANITIZE_THREAD__)
enum { UNDER_TSAN = 1 };
#else
enum { UNDER_TSAN = 0 };
#endif
enum { N = 3, STEPS = 50, CHILD_SECONDS = 60 };

#define DEMAND(condition) \
    if (!(condition)) return __LINE__

/* The claim returns 0 where it holds, or the number of the line where it does not. A child that hangs is ended by SIGALRM. */
static void in_a_child(int (*claim)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(CHILD_SECONDS);
        const int line = claim();
        if (line != 0) fprintf(stderr, "line %d does not hold\n", line);
        exit(line != 0); /* with the runtime's threads: exit has to be clean */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) fail_msg("the child was ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

typedef struct {
    int seen[N], n_wrong;
    int n_threads;
} board;

/* Each writes its place and looks at all others behind a barrier. */
static void meet(pf_member member, void *arg)
{
    board *b = arg;
    b->seen[member.id]++;
    pf_team_barrier(member);
    for (int32_t id = 1; id < member.n_threads; id++)
        if (member.id == 0 && b->seen[id] != b->seen[0]) b->n_wrong++;
    if (member.id == 0) b->n_threads = member.n_threads;
    pf_team_barrier(member);
}

/* Whether N threads run each of the steps. */
static int run_steps(pf_team *team)
{
    board b = { .n_wrong = 0 };
    for (int step = 1; step <= STEPS; step++) {
        pf_team_run(team, meet, &b);
        DEMAND(b.n_wrong == 0 && b.n_threads == N);
        for (int id = 0; id < N; id++) DEMAND(b.seen[id] == step);
    }
    return 0;
}

static int limited(void)
{
    pf_team *team = NULL;
    pf_error error;
    setenv("OMP_THREAD_LIMIT", "2", 1);
    DEMAND(pf_team_create_on(PF_THREADING_OPENMP, N, NULL, 0, &team, &error) == PF_UNAVAILABLE);
    DEMAND(strstr(error.text, "gives 2 of 3 threads"));
    DEMAND(!team);
    int32_t n_threads;
    DEMAND(pf_threading_limit(PF_THREADING_OPENMP, N, &n_threads, NULL) == PF_OK && n_threads <= 2);
    DEMAND(pf_team_create_on(PF_THREADING_OPENMP, n_threads, NULL, 0, &team, &error) == PF_OK);
    pf_team_destroy(team);
    return 0;
}

static void a_thread_limit_below_the_team_is_refused_in_a_sentence(void **state)
{
    (void)state;
    in_a_child(limited);
}

static int dynamic(void)
{
    pf_team *team;
    pf_openmp openmp;
    setenv("OMP_DYNAMIC", "true", 1); /* with more threads than CPUs, or on a busy machine, regions then get fewer */
    DEMAND(pf_team_create_on(PF_THREADING_OPENMP, N, NULL, 0, &team, NULL) == PF_OK);
    DEMAND(run_steps(team) == 0);
    DEMAND(pf_openmp_find(&openmp, NULL) == PF_OK && openmp.get_dynamic());
    pf_team_destroy(team);
    return 0;
}

static void dynamic_adjustment_changes_neither_the_team_nor_the_hosts_setting(void **state)
{
    (void)state;
    in_a_child(dynamic);
}

typedef struct {
    pf_team *team;
    pf_openmp openmp;
    int line;
} nested_job;

static void run_inside(void *arg)
{
    nested_job *job = arg;
    if (job->openmp.thread_num() == 0) job->line = run_steps(job->team);
}

static int nested(void)
{
    nested_job job;
    DEMAND(pf_openmp_find(&job.openmp, NULL) == PF_OK);
    DEMAND(pf_team_create_on(PF_THREADING_OPENMP, N, NULL, 0, &job.team, NULL) == PF_OK);
    DEMAND(run_steps(job.team) == 0);
    job.line = -1;
    job.openmp.parallel(run_inside, &job, 2, 0);
    DEMAND(job.line == 0);
    DEMAND(run_steps(job.team) == 0); /* outside again */
    pf_team_destroy(job.team);
    return 0;
}

static int nested_without_levels(void)
{
    setenv("OMP_MAX_ACTIVE_LEVELS", "1", 1);
    return nested();
}

static int nested_with_levels(void)
{
    setenv("OMP_MAX_ACTIVE_LEVELS", "4", 1);
    return nested();
}

static void a_team_runs_inside_a_parallel_region_of_the_host(void **state)
{
    (void)state;
    in_a_child(nested_without_levels);
    in_a_child(nested_with_levels);
}

static pf_team *inherited;

static int run_inherited(void)
{
    DEMAND(run_steps(inherited) == 0);
    pf_team_destroy(inherited);
    return 0;
}

static int exit_only(void)
{
    return 0;
}

static int fork_with_a_team(void)
{
    DEMAND(pf_team_create_on(PF_THREADING_OPENMP, N, NULL, 0, &inherited, NULL) == PF_OK);
    DEMAND(run_steps(inherited) == 0);
    in_a_child(exit_only);
    in_a_child(run_inherited);
    DEMAND(run_steps(inherited) == 0);
    pf_team_destroy(inherited);
    return 0;
}

/* Skipped under ThreadSanitizer, which refuses to start threads in the child of a process that has several. */
static void the_child_of_a_fork_runs_a_team_and_the_parent_keeps_it(void **state)
{
    (void)state;
    if (UNDER_TSAN) skip();
    in_a_child(fork_with_a_team);
}

static void the_hosts_regions_and_a_teams_steps_alternate(void **state)
{
    (void)state;
    nested_job job;
    assert_status(pf_openmp_find(&job.openmp, NULL), PF_OK);
    assert_status(pf_team_create_on(PF_THREADING_OPENMP, N, NULL, 0, &job.team, NULL), PF_OK);
    assert_string_equal(pf_team_runtime(job.team), job.openmp.path);
    for (int i = 0; i < 20; i++) {
        job.line = -1;
        job.openmp.parallel(run_inside, &job, (unsigned)(1 + i % 4), 0);
        assert_int_equal(job.line, 0);
        assert_int_equal(run_steps(job.team), 0);
    }
    pf_team_destroy(job.team);
}

static void cores_are_refused(void **state)
{
    (void)state;
    pf_team *team = NULL;
    pf_error error;
    const int32_t core = 0;
    assert_status(pf_team_create_on(PF_THREADING_OPENMP, 2, &core, 1, &team, &error), PF_INVALID);
    assert_says(error, "OMP_PLACES");
    assert_status(pf_team_create_on(PF_N_THREADINGS, 2, NULL, 0, &team, &error), PF_INVALID);
    assert_says(error, "threading 2: expected 0 (own) or 1 (openmp)");
    assert_null(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* in children, before a runtime is loaded here */
        cmocka_unit_test(a_thread_limit_below_the_team_is_refused_in_a_sentence),
        cmocka_unit_test(dynamic_adjustment_changes_neither_the_team_nor_the_hosts_setting),
        cmocka_unit_test(a_team_runs_inside_a_parallel_region_of_the_host),
        cmocka_unit_test(the_child_of_a_fork_runs_a_team_and_the_parent_keeps_it),
        cmocka_unit_test(the_hosts_regions_and_a_teams_steps_alternate),
        cmocka_unit_test(cores_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
