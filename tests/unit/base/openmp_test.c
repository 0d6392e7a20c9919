/* Each claim runs in a child process of its own, since a runtime that has been loaded stays loaded. */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/openmp.h"
#include "tests/support/temp_dir.h"

static const char *const SYSTEM[] = { "libgomp.so.1", NULL };

/* The claim returns 0 where it holds, or the number of the line where it does not. */
static void in_a_child(int (*claim)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int line = claim();
        if (line != 0) fprintf(stderr, "line %d does not hold\n", line);
        _exit(line != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define DEMAND(condition) \
    if (!(condition)) return __LINE__

static int absent(void)
{
    const char *const names[] = { "libgomp-absent.so.9", "libomp-absent.so", NULL };
    pf_openmp openmp = { .path = "untouched" };
    pf_error error;
    DEMAND(pf_openmp_find_among(names, &openmp, &error) == PF_UNAVAILABLE);
    DEMAND(strstr(error.text, "no OpenMP runtime is loaded"));
    DEMAND(strcmp(openmp.path, "untouched") == 0);
    return 0;
}

static void a_process_without_a_runtime_gets_a_sentence(void **state)
{
    (void)state;
    in_a_child(absent);
}

static int loads_the_systems(void)
{
    pf_openmp openmp;
    DEMAND(pf_openmp_find_among(SYSTEM, &openmp, NULL) == PF_OK);
    DEMAND(strstr(openmp.path, "/libgomp.so.1"));
    DEMAND(openmp.num_threads() == 1);
    DEMAND(openmp.max_threads() >= 1);
    return 0;
}

static void the_systems_runtime_is_loaded_where_there_is_none(void **state)
{
    (void)state;
    in_a_child(loads_the_systems);
}

/* The copy is loaded as a wheel's is: under another name, here with the same soname. */
static char copy[PATH_MAX];

static int prefers_the_copy(void)
{
    pf_openmp openmp;
    DEMAND(dlopen(copy, RTLD_NOW | RTLD_LOCAL));
    DEMAND(pf_openmp_find_among(SYSTEM, &openmp, NULL) == PF_OK);
    DEMAND(strcmp(openmp.path, copy) == 0);
    return 0;
}

static int prefers_the_copy_beside_the_systems(void)
{
    pf_openmp openmp;
    DEMAND(dlopen(SYSTEM[0], RTLD_NOW | RTLD_LOCAL));
    DEMAND(dlopen(copy, RTLD_NOW | RTLD_LOCAL));
    DEMAND(pf_openmp_find_among(SYSTEM, &openmp, NULL) == PF_OK);
    DEMAND(strcmp(openmp.path, copy) == 0);
    return 0;
}

static int prefers_the_hosts(void)
{
    pf_openmp openmp;
    const char *const other[] = { "libgomp-absent.so.9", "libgomp.so.1", NULL };
    DEMAND(dlopen(copy, RTLD_NOW | RTLD_LOCAL));
    DEMAND(pf_openmp_find_among(other, &openmp, NULL) == PF_OK);
    DEMAND(strcmp(openmp.path, copy) == 0);
    return 0;
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;) assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* The path of the system's, from a child, so that it is not loaded here. */
static void find_path(char *out, size_t capacity)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pf_openmp openmp;
        if (pf_openmp_find_among(SYSTEM, &openmp, NULL) != PF_OK) _exit(1);
        _exit(write(ends[1], openmp.path, strlen(openmp.path)) < 0);
    }
    close(ends[1]);
    const ssize_t n = read(ends[0], out, capacity - 1);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(n > 0);
    out[n] = '\0';
}

static void a_runtime_that_the_host_has_loaded_is_used(void **state)
{
    (void)state;
    char path[PATH_MAX];
    pf_temp_dir folder;
    find_path(path, sizeof path);
    pf_temp_dir_make(&folder);
    const char *const names[] = { "libgomp-a34b3233.so.1.0.0", "libomp-14.so.5", "libiomp5.so" };
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        pf_temp_path(&folder, names[i], copy);
        copy_file(path, copy);
        in_a_child(prefers_the_copy);
        in_a_child(prefers_the_copy_beside_the_systems);
        in_a_child(prefers_the_hosts);
    }
    pf_temp_dir_remove(&folder);
}

static int ignores_the_copy(void)
{
    pf_openmp openmp;
    const char *const names[] = { "libgomp-absent.so.9", NULL };
    DEMAND(dlopen(copy, RTLD_NOW | RTLD_LOCAL));
    DEMAND(pf_openmp_find_among(names, &openmp, NULL) == PF_UNAVAILABLE);
    return 0;
}

static void plugins_and_libraries_with_a_similar_name_are_not_runtimes(void **state)
{
    (void)state;
    char path[PATH_MAX];
    pf_temp_dir folder;
    find_path(path, sizeof path);
    pf_temp_dir_make(&folder);
    const char *const names[] = { "libgomp-plugin-nvptx.so.1", "libomptarget.so", "libompd.so", "libgompfake.so" };
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        pf_temp_path(&folder, names[i], copy);
        copy_file(path, copy);
        in_a_child(ignores_the_copy);
    }
    pf_temp_dir_remove(&folder);
}

static int follows_the_environment(void)
{
    pf_openmp openmp;
    setenv("OMP_NUM_THREADS", "3", 1);
    setenv("OMP_THREAD_LIMIT", "2", 1);
    DEMAND(pf_openmp_find_among(SYSTEM, &openmp, NULL) == PF_OK);
    DEMAND(pf_openmp_threads(&openmp) == 2);
    return 0;
}

static void the_default_number_of_threads_is_the_runtimes(void **state)
{
    (void)state;
    in_a_child(follows_the_environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_without_a_runtime_gets_a_sentence),
        cmocka_unit_test(the_systems_runtime_is_loaded_where_there_is_none),
        cmocka_unit_test(a_runtime_that_the_host_has_loaded_is_used),
        cmocka_unit_test(plugins_and_libraries_with_a_similar_name_are_not_runtimes),
        cmocka_unit_test(the_default_number_of_threads_is_the_runtimes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
