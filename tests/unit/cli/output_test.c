/* Text at the edge of the process: bytes that are not UTF-8, figures that are not numbers, JSON
 * that memory or the disk is short for. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/json_out.h"
#include "cli/options.h"
#include "cli/output.h"
#include "tests/support/alloc_count.h"

static void assert_text(const char *bytes, size_t n, const char *text, const char *base64)
{
    json_t *object = json_object();
    pf_json_set_text(object, bytes, n);
    assert_string_equal(json_string_value(json_object_get(object, "text")), text);
    if (base64)
        assert_string_equal(json_string_value(json_object_get(object, "text_base64")), base64);
    else
        assert_null(json_object_get(object, "text_base64"));
    json_decref(object);
}

/* The Unicode Standard, section 3.9, table 3-8: one U+FFFD for each longest part that could have begun a character. */
static void ill_formed_bytes_are_replaced_as_unicode_recommends(void **state)
{
    (void)state;
#define FFFD "\xEF\xBF\xBD"
    static const char bytes[] = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
    assert_text(bytes, sizeof bytes - 1, "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d", "YfGAgOGAwmKAY4C/ZA==");
    assert_text("\xC0\xAF", 2, FFFD FFFD, "wK8=");
    assert_text("\xED\xA0\x80", 3, FFFD FFFD FFFD, "7aCA");
    assert_text("\xF0\x9F\x90", 3, FFFD, "8J+Q");
}

static void text_that_is_utf8_is_given_once(void **state)
{
    (void)state;
    assert_text("", 0, "", NULL);
    assert_text("caf\xC3\xA9 \xF0\x9F\x90\x9F", 10, "caf\xC3\xA9 \xF0\x9F\x90\x9F", NULL);
}

static void a_rate_of_nothing_is_null(void **state)
{
    (void)state;
    json_t *none = pf_json_ratio(0.0, 0.0), *infinite = pf_json_number(INFINITY), *half = pf_json_ratio(1.0, 2.0);
    assert_true(json_is_null(none));
    assert_true(json_is_null(infinite));
    assert_true(json_real_value(half) == 0.5);
    json_decref(none);
    json_decref(infinite);
    json_decref(half);
}

static void a_float_is_the_decimal_that_it_was_given_as(void **state)
{
    (void)state;
    const struct {
        float given;
        double number;
    } cases[] = { { 0.7f, 0.7 },         { 0.9f, 0.9 },   { 0.05f, 0.05 },           { 0.0f, 0.0 },
                  { 1000.0f, 1000.0 },   { 1e-6f, 1e-6 }, { 0.1234567f, 0.1234567 }, { 16777215.0f, 16777215.0 },
                  { 1e-45f, 1.4013e-45 } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        json_t *number = pf_json_float(cases[i].given);
        assert_true(json_real_value(number) == cases[i].number);
        json_decref(number);
    }
    for (float given = 0.001f; given < 1.0f; given = nextafterf(given * 1.01f, 2.0f)) { /* and no other float's */
        json_t *number = pf_json_float(given);
        assert_true((float)json_real_value(number) == given);
        json_decref(number);
    }
}

/* ---- JSON that something is short for ---------------------------------------------------------------------------- */

/* Standard output in a file of memory, standard error nowhere. */
typedef struct {
    int out, err;
} aside;

static aside put_aside(void)
{
    const aside real = { dup(STDOUT_FILENO), dup(STDERR_FILENO) };
    const int file = memfd_create("stdout", 0), nowhere = open("/dev/null", O_WRONLY);
    assert_true(dup2(file, STDOUT_FILENO) >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
    close(file);
    close(nowhere);
    return real;
}

/* What has been written to standard output, which is then as it was. */
static size_t put_back(aside real, char *written, size_t capacity)
{
    const ssize_t n = pread(STDOUT_FILENO, written, capacity - 1, 0);
    dup2(real.out, STDOUT_FILENO);
    dup2(real.err, STDERR_FILENO);
    close(real.out);
    close(real.err);
    assert_true(n >= 0);
    written[n] = '\0';
    return (size_t)n;
}

/* As commands make theirs: with what failed left out, or in the middle of it. */
static json_t *make_document(void)
{
    static const int32_t ids[] = { 5, 6, 7, 8, 9, 10, 11, 12, 13 };
    json_t *root = json_pack("{s:o, s:o}", "prompt_tokens", pf_json_ids(ids, 2), "tokens", pf_json_ids(ids, 9));
    if (!root) return NULL;
    pf_json_set_text(root, "caf\xC3", 4);
    json_object_set_new(root, "finish_reason", json_string("length"));
    json_object_set_new(root, "timing", json_pack("{s:f, s:o}", "prefill_ms", 1.5, "rate", pf_json_ratio(0.0, 0.0)));
    return root;
}

static void a_document_that_memory_is_short_for_is_nothing(void **state)
{
    (void)state;
    static const char expected[] =
        "{\"prompt_tokens\":[5,6],\"tokens\":[5,6,7,8,9,10,11,12,13],\"text\":\"caf\xEF\xBF\xBD\","
        "\"text_base64\":\"Y2Fmww==\",\"finish_reason\":\"length\","
        "\"timing\":{\"prefill_ms\":1.5,\"rate\":null}}\n";
    pf_json_watch_memory();
    int n_refused = 0;
    for (int64_t n = 0;; n++) {
        char written[512];
        pf_out out = { .n = 0 };
        const aside real = put_aside();
        pf_alloc_refuse_after(n);
        const int code = pf_out_json(&out, make_document());
        pf_alloc_refuse_after(-1);
        put_back(real, written, sizeof written);
        assert_string_equal(written, code == PF_EXIT_DONE ? expected : "");
        if (code == PF_EXIT_DONE) break;
        assert_int_equal(code, PF_EXIT_FAILED);
        n_refused++;
    }
    assert_true(n_refused > 40);
}

static void a_short_piece_of_a_document_needs_no_memory(void **state)
{
    (void)state;
    pf_out out = { .n = 0 };
    pf_alloc_refuse_after(0);
    assert_true(pf_out_print(&out, "%.9g", 1.5));
    pf_alloc_refuse_after(-1);
    assert_memory_equal(out.buffer, "1.5", out.n);
    for (int n = 250; n < 260; n++) { /* few bytes, and one more */
        out = (pf_out){ .n = 0 };
        assert_true(pf_out_print(&out, "%*d", n, 5));
        assert_int_equal(out.n, n);
        assert_int_equal(out.buffer[n - 1], '5');
    }
}

/* Two lines, of which `limit` bytes have room; the second is longer than what is buffered. Others write a byte behind it. */
static size_t write_with_room(rlim_t limit, bool whole_lines, bool others, char *written, size_t capacity)
{
    enum { LONG = 20000 };
    static char line[LONG];
    memset(line, '5', LONG);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);

    pf_out out = { .whole_lines = whole_lines };
    const aside real = put_aside();
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ limit, before.rlim_max });
    pf_out_print(&out, "[1,2,3]\n[");
    pf_out_flush(&out);
    pf_out_write(&out, line, LONG);
    pf_out_print(&out, "]\n");
    setrlimit(RLIMIT_FSIZE, &before);
    if (others) assert_int_equal(pwrite(STDOUT_FILENO, "!", 1, (off_t)limit), 1);
    const int descriptor = dup(STDOUT_FILENO); /* pf_out_finish closes it */
    assert_int_equal(pf_out_finish(&out, PF_EXIT_DONE), PF_EXIT_FAILED);
    dup2(descriptor, STDOUT_FILENO);
    close(descriptor);
    return put_back(real, written, capacity);
}

static void of_json_on_a_full_disk_whole_lines_stay(void **state)
{
    (void)state;
    char written[16384];
    assert_int_equal(write_with_room(5, true, false, written, sizeof written), 0);
    assert_int_equal(write_with_room(8, true, false, written, sizeof written), 8);
    assert_int_equal(write_with_room(9000, true, false, written, sizeof written), 8);
    assert_memory_equal(written, "[1,2,3]\n", 8);
    assert_int_equal(write_with_room(9000, false, false, written, sizeof written),
                     9000);                                                             /* a text: all that there is */
    assert_int_equal(write_with_room(9000, true, true, written, sizeof written), 9001); /* not what is another's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ill_formed_bytes_are_replaced_as_unicode_recommends),
        cmocka_unit_test(text_that_is_utf8_is_given_once),
        cmocka_unit_test(a_rate_of_nothing_is_null),
        cmocka_unit_test(a_float_is_the_decimal_that_it_was_given_as),
        cmocka_unit_test(a_document_that_memory_is_short_for_is_nothing),
        cmocka_unit_test(a_short_piece_of_a_document_needs_no_memory),
        cmocka_unit_test(of_json_on_a_full_disk_whole_lines_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
