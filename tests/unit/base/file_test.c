#include "tests/support/test.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/alloc_count.h"
#include "tests/support/temp_dir.h"

static int make_dir(void **state)
{
    static pf_temp_dir dir;
    mallopt(M_PERTURB, 0xA5); /* memory that is new is not zero */
    pf_temp_dir_make(&dir);
    *state = &dir;
    return 0;
}

static int remove_dir(void **state)
{
    pf_temp_dir_remove(*state);
    return 0;
}

static void a_path_is_joined_where_it_has_room(void **state)
{
    (void)state;
    char directory[PF_FILE_PATH_BYTES + 1], path[PF_FILE_PATH_BYTES] = "before";
    pf_error error;
    memset(directory, 'd', sizeof directory);
    for (size_t n = PF_FILE_PATH_BYTES; n >= PF_FILE_PATH_BYTES - 5; n--) {
        directory[n] = '\0';
        assert_status(pf_file_join(directory, "name", path, &error), PF_INVALID);
        assert_says(error, "name in it is longer than 4095 bytes");
        assert_string_equal(path, "before");
    }
    directory[PF_FILE_PATH_BYTES - 6] = '\0';
    assert_ok(pf_file_join(directory, "name", path, &error), error);
    assert_int_equal(strlen(path), PF_FILE_PATH_BYTES - 1);
    assert_string_equal(path + PF_FILE_PATH_BYTES - 7, "d/name");
}

static void a_map_holds_the_bytes_of_the_file(void **state)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_file_map map;
    pf_error error;
    pf_temp_write(*state, "data", "ab\0cd", 5);
    assert_ok(pf_file_open_map(pf_temp_path(*state, "data", path), &map, &error), error);
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "ab\0cd", 5);
    pf_file_unmap(&map);
    pf_file_unmap(&map);
    assert_null(map.data);
}

static void a_file_that_is_written_to_while_it_is_mapped_is_told_from_one_that_is_not(void **state)
{
    char path[PF_TEMP_PATH_BYTES], other[PF_TEMP_PATH_BYTES];
    static const struct timespec long_ago[2];
    pf_error error;
    for (int change = 0; change < 4; change++) {
        pf_file_map map;
        pf_temp_write(*state, "data", "hello", 5);
        assert_ok(pf_file_open_map(pf_temp_path(*state, "data", path), &map, &error), error);
        assert_ok(pf_file_check_map(&map, path, &error), error);
        if (change == 0) assert_int_equal(truncate(path, 3), 0); /* "hel\0\0" is what the map has now */
        if (change == 1) assert_int_equal(truncate(path, 6), 0);
        if (change == 2) assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0); /* as a write sets it to now */
        if (change == 3) { /* another file: the map's is as it was */
            pf_temp_write(*state, "other", "else", 4);
            assert_int_equal(rename(pf_temp_path(*state, "other", other), path), 0);
        }
        assert_status(pf_file_check_map(&map, path, &error), change == 3 ? PF_OK : PF_INVALID);
        if (change < 3) assert_says(error, "data: was written to while it was read");
        pf_file_unmap(&map);
    }
}

static void an_empty_file_is_a_map_of_nothing(void **state)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_file_map map;
    pf_error error;
    pf_temp_write(*state, "empty", "", 0);
    assert_ok(pf_file_open_map(pf_temp_path(*state, "empty", path), &map, &error), error);
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    assert_ok(pf_file_check_map(&map, path, &error), error);
    pf_file_unmap(&map);
}

static void a_whole_read_ends_with_nul(void **state)
{
    char path[PF_TEMP_PATH_BYTES], *text;
    size_t bytes;
    pf_error error;
    pf_temp_write(*state, "data", "hello", 5);
    assert_ok(pf_file_read(pf_temp_path(*state, "data", path), 5, &text, &bytes, &error), error);
    assert_int_equal(bytes, 5);
    assert_string_equal(text, "hello");
    free(text);
}

static void a_file_whose_size_reads_as_zero_is_read_to_its_end(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    pf_error error;
    assert_ok(pf_file_read("/proc/self/maps", 1 << 24, &text, &bytes, &error), error);
    assert_true(bytes > 500);
    assert_int_equal(strlen(text), bytes);
    free(text);
    assert_status(pf_file_read("/proc/self/maps", 500, &text, &bytes, &error), PF_LIMIT);
}

static void a_file_above_the_limit_is_refused(void **state)
{
    char path[PF_TEMP_PATH_BYTES], *text = (char *)"untouched";
    size_t bytes = 77;
    pf_error error;
    pf_temp_write(*state, "data", "hello", 5);
    assert_status(pf_file_read(pf_temp_path(*state, "data", path), 4, &text, &bytes, &error), PF_LIMIT);
    assert_says(error, path);
    assert_says(error, "5 bytes, expected at most 4");
    assert_string_equal(text, "untouched");
    assert_int_equal(bytes, 77);
}

static void what_is_not_a_regular_file_is_refused_without_waiting_for_it(void **state)
{
    char path[PF_TEMP_PATH_BYTES], *text;
    size_t bytes;
    pf_file_map map = { .size = 77 };
    pf_error error;
    assert_int_equal(mkfifo(pf_temp_path(*state, "fifo", path), 0600), 0);
    assert_status(pf_file_open_map(path, &map, &error), PF_INVALID);
    assert_status(pf_file_read(path, 100, &text, &bytes, &error), PF_INVALID);
    assert_status(pf_file_open_map("/", &map, &error), PF_INVALID);
    assert_says(error, "is a directory");
    assert_status(pf_file_read("/dev/zero", 100, &text, &bytes, &error), PF_INVALID);
    assert_int_equal(map.size, 77);
}

static void a_file_that_is_not_there_is_named_with_the_reason(void **state)
{
    (void)state;
    pf_file_map map;
    char *text;
    size_t bytes;
    pf_error error;
    assert_status(pf_file_open_map("/nowhere/x.json", &map, &error), PF_UNAVAILABLE);
    assert_says(error, "/nowhere/x.json: cannot be opened: No such file");
    assert_status(pf_file_read("/nowhere/x.json", 1, &text, &bytes, NULL), PF_UNAVAILABLE);
}

static void a_link_that_leads_nowhere_is_there(void **state)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_file_map map;
    pf_error error;
    pf_temp_path(*state, "link", path);
    assert_true(pf_file_is_absent(path));
    assert_int_equal(symlink("nothing", path), 0);
    assert_false(pf_file_is_absent(path));
    assert_status(pf_file_open_map(path, &map, &error), PF_INVALID);
    assert_says(error, "link: cannot be opened");
    assert_true(pf_file_is_absent("/dev/null/x"));
}

/* Not there and there without a word are two things: the first is often as good as empty. */
static void a_file_that_cannot_be_read_is_not_absent(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    pf_error error;
    assert_status(pf_file_read("/proc/self/mem", 1 << 20, &text, &bytes, &error), PF_INVALID); /* EIO at its start */
    assert_says(error, "/proc/self/mem: cannot be read: ");
}

static void too_many_open_files_are_told_of_with_the_remedy(void **state)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_file_map map;
    pf_error error;
    struct rlimit before, none;
    pf_temp_write(*state, "data", "x", 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const pf_status status = pf_file_open_map(pf_temp_path(*state, "data", path), &map, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_status(status, PF_INVALID);
    assert_says(error, "ulimit -n");
}

static void refused_memory_is_a_status(void **state)
{
    char path[PF_TEMP_PATH_BYTES], *text;
    size_t bytes;
    pf_file_map map;
    pf_error error;
    pf_temp_write(*state, "data", "hello", 5);
    pf_temp_path(*state, "data", path);
    pf_alloc_refuse_after(0);
    assert_status(pf_file_read(path, 100, &text, &bytes, &error), PF_NOMEM);
    pf_alloc_refuse_after(1); /* the second is the growth of a file that said 0 */
    assert_status(pf_file_read("/proc/self/maps", 1 << 24, &text, &bytes, &error), PF_NOMEM);
    pf_alloc_refuse_after(0);
    assert_status(pf_file_open_map(path, &map, &error), PF_NOMEM);
    pf_alloc_refuse_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_joined_where_it_has_room),
        cmocka_unit_test(a_map_holds_the_bytes_of_the_file),
        cmocka_unit_test(a_file_that_is_written_to_while_it_is_mapped_is_told_from_one_that_is_not),
        cmocka_unit_test(an_empty_file_is_a_map_of_nothing),
        cmocka_unit_test(a_whole_read_ends_with_nul),
        cmocka_unit_test(a_file_whose_size_reads_as_zero_is_read_to_its_end),
        cmocka_unit_test(a_file_above_the_limit_is_refused),
        cmocka_unit_test(what_is_not_a_regular_file_is_refused_without_waiting_for_it),
        cmocka_unit_test(a_file_that_is_not_there_is_named_with_the_reason),
        cmocka_unit_test(a_link_that_leads_nowhere_is_there),
        cmocka_unit_test(a_file_that_cannot_be_read_is_not_absent),
        cmocka_unit_test(too_many_open_files_are_told_of_with_the_remedy),
        cmocka_unit_test(refused_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
