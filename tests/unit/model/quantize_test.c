/*
 * Tests that a converted directory gives the logits of the original bit for bit, is created atomically, and is refused by name
 * when it was tampered with.
 */
#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "model/files/checkpoint.h"
#include "model/forward/context.h"
#include "model/files/quantize.h"
#include "tests/support/alloc_count.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

static pf_temp_dir dir;
static char from[PF_TEMP_PATH_BYTES], to[PF_TEMP_PATH_BYTES];

/* Rows that are not a multiple of a group, and an odd row length: the last nibble of `down` has no partner. */
static const pf_tiny_model ODD = {
    .hidden = 72, .heads = 6, .kv_heads = 3, .head_dim = 20, .intermediate = 101, .vocab = 97, .seed = 5
};
static const pf_tiny_model TIED = { .tied = true, .attention_bias = true, .mlp_bias = true, .type = PF_TYPE_BF16 };
static const pf_tiny_model HALF = { .type = PF_TYPE_F16, .rotary_buffers = true };

static int make_dir(void **state)
{
    (void)state;
    pf_temp_dir_make(&dir);
    pf_temp_path(&dir, "from", from);
    pf_temp_path(&dir, "to", to);
    return mkdir(from, 0777);
}

static int remove_dir(void **state)
{
    (void)state;
    pf_temp_dir_remove(&dir);
    return 0;
}

static pf_status quantize_with(pf_dtype dtype, const volatile bool *cancel, pf_model_quantize_result *result,
                               pf_error *error)
{
    pf_team *team;
    PF_TRY(pf_team_create(2, NULL, 0, &team, error));
    const pf_model_quantize_options options = { .dtype = dtype, .team = team, .cancel = cancel };
    const pf_status status = pf_model_quantize(from, to, &options, result, error);
    pf_team_destroy(team);
    return status;
}

static void quantize(pf_dtype dtype)
{
    pf_model_quantize_result result;
    pf_error error = { 0 };
    pf_temp_path(&dir, "to", to);
    assert_ok(quantize_with(dtype, NULL, &result, &error), error);
}

static pf_status load(const char *directory, pf_dtype dtype, pf_activations act, pf_model **out, pf_error *error)
{
    pf_team *team;
    PF_TRY(pf_team_create(2, NULL, 0, &team, error));
    const pf_model_options options = { .dtype = dtype, .activations = act, .isa = pf_cpu_best_isa(), .team = team };
    const pf_status status = pf_model_load(directory, &options, out, error);
    pf_team_destroy(team);
    return status;
}

enum { N_TOKENS = 5, MAX_VOCAB = 160 };

/* The logits of every token of a short text: out [N_TOKENS, vocab]. Returns the vocabulary size. */
static int32_t logits_of(const char *directory, pf_dtype dtype, pf_activations act, float *out)
{
    static const int32_t tokens[N_TOKENS] = { 5, 9, 3, 90, 41 };
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_kv_seq seq;
    pf_error error = { 0 };
    assert_ok(load(directory, dtype, act, &model, &error), error);
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    const pf_context_config config = { .max_sequences = 1,
                                       .max_rows = N_TOKENS,
                                       .max_logit_rows = N_TOKENS,
                                       .kv_type = pf_context_default_kv_type(model) };
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(context), &seq), PF_OK);
    const pf_span span = { seq, tokens, N_TOKENS, N_TOKENS, NULL, 0 };
    assert_int_equal(pf_context_forward(context, &span, 1), PF_OK);
    const int32_t n_vocab = pf_context_n_vocab(context);
    for (int32_t i = 0; i < N_TOKENS; i++)
        memcpy(out + i * n_vocab, pf_context_logits(context, i), (size_t)n_vocab * sizeof *out);
    pf_context_destroy(context);
    pf_team_destroy(team);
    pf_model_release(model);
    return n_vocab;
}

static void remove_to(void)
{
    pf_tiny_model_remove(to);
}

static void assert_holds_only(const char *path, const char *name)
{
    DIR *listing = opendir(path);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && strcmp(entry->d_name, name) != 0)
            fail_msg("%s is left in %s", entry->d_name, path);
    closedir(listing);
}

/* Whether `from` is the only entry: neither `to` nor its temporary folder exists. */
static void assert_nothing_is_left(void)
{
    assert_holds_only(dir.path, "from");
}

/* ---- the same model ---------------------------------------------------------------------------------------------- */

static void a_written_directory_gives_the_logits_of_the_original_in_that_format(void **state)
{
    (void)state;
    const pf_tiny_model shapes[] = { ODD, TIED, HALF };
    static float expected[N_TOKENS * MAX_VOCAB], found[N_TOKENS * MAX_VOCAB];
    for (size_t s = 0; s < PF_COUNT(shapes); s++) {
        pf_tiny_model_write(from, &shapes[s]);
        for (int d = 0; d < PF_N_DTYPES; d++) {
            const pf_dtype dtype = (pf_dtype)d;
            if (!pf_dtype_is_written(dtype)) continue;
            quantize(dtype);
            for (int act = 0; act < PF_N_ACTS; act++) {
                if (!pf_format_takes(pf_dtype_format(dtype), (pf_act)act)) continue;
                const pf_activations asked = (pf_activations)(PF_ACTIVATIONS_ACTS + act);
                const int32_t n = logits_of(from, dtype, asked, expected);
                logits_of(to, PF_DTYPE_AUTO, asked, found);
                if (memcmp(found, expected, (size_t)(N_TOKENS * n) * sizeof *found) != 0)
                    fail_msg("shape %zu, %s times %s: other logits", s, pf_dtype_name(dtype), pf_act_name((pf_act)act));
            }
            remove_to();
        }
    }
}

static void an_f16_directory_can_be_converted_again_and_loses_its_mark(void **state)
{
    (void)state;
    static float expected[N_TOKENS * MAX_VOCAB], found[N_TOKENS * MAX_VOCAB];
    pf_model *model;
    pf_error error = { 0 };
    pf_tiny_model_write(from, &ODD);
    quantize(PF_DTYPE_F16);
    assert_ok(load(to, PF_DTYPE_AUTO, PF_ACTIVATIONS_AUTO, &model, &error), error);
    assert_int_equal(pf_model_dtype(model), PF_DTYPE_F16);
    pf_model_release(model);
    const int32_t n =
        logits_of(to, PF_DTYPE_BF16, PF_ACTIVATIONS_AUTO, expected); /* F16 values, so any format can be written */

    assert_int_equal(rename(from, pf_temp_path(&dir, "original", (char[PF_TEMP_PATH_BYTES]){ 0 })), 0);
    assert_int_equal(rename(to, from), 0);
    quantize(PF_DTYPE_BF16);
    logits_of(to, PF_DTYPE_AUTO, PF_ACTIVATIONS_AUTO, found);
    assert_memory_equal(found, expected, (size_t)(N_TOKENS * n) * sizeof *found);
}

static void files_beside_the_weights_are_copied_and_the_sizes_reported(void **state)
{
    (void)state;
    pf_model_quantize_result result;
    pf_error error = { 0 };
    char path[PF_TEMP_PATH_BYTES], *text;
    size_t n_bytes;
    pf_tiny_model_write(from, &TIED);
    static const char *const beside[] = { "generation_config.json",
                                          "tokenizer.json",
                                          "tokenizer_config.json",
                                          "tokenizer.model",
                                          "special_tokens_map.json",
                                          "added_tokens.json",
                                          "vocab.json",
                                          "merges.txt",
                                          "chat_template.jinja",
                                          "chat_template.json" };
    char name[64];
    for (size_t i = 0; i < PF_COUNT(beside); i++) {
        snprintf(name, sizeof name, "from/%s", beside[i]);
        pf_temp_write(&dir, name, "{\"some\": 1}", 11);
    }
    pf_temp_write(&dir, "from/pytorch_model.bin", "no", 2);
    assert_ok(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), error);
    for (size_t i = 0; i < PF_COUNT(beside); i++) {
        snprintf(name, sizeof name, "to/%s", beside[i]);
        assert_ok(pf_file_read(pf_temp_path(&dir, name, path), 100, &text, &n_bytes, &error), error);
        assert_string_equal(text, "{\"some\": 1}");
        free(text);
    }
    assert_status(pf_file_read(pf_temp_path(&dir, "to/pytorch_model.bin", path), 100, &text, &n_bytes, NULL),
                  PF_UNAVAILABLE);

    pf_checkpoint written;
    assert_ok(pf_checkpoint_open(to, NULL, NULL, &written, &error), error);
    assert_int_equal(written.n_bytes, result.bytes_after);
    assert_int_equal(written.n_tensors, result.n_tensors);
    assert_true(result.bytes_after < result.bytes_before && result.bytes_before < 3 * result.bytes_after);
    pf_checkpoint_close(&written);
}

static void a_quantised_directory_loads_in_its_own_format_only(void **state)
{
    (void)state;
    pf_model *model = NULL;
    pf_error error = { 0 };
    pf_tiny_model_write(from, &TIED);
    quantize(PF_DTYPE_INT4);
    const pf_dtype others[] = { PF_DTYPE_F32, PF_DTYPE_BF16, PF_DTYPE_F16, PF_DTYPE_INT8 };
    for (size_t i = 0; i < PF_COUNT(others); i++) {
        assert_status(load(to, others[i], PF_ACTIVATIONS_AUTO, &model, &error), PF_UNSUPPORTED);
        assert_says(error, "quantised to int4");
        assert_says(error, pf_dtype_name(others[i]));
    }
    assert_ok(load(to, PF_DTYPE_INT4, PF_ACTIVATIONS_AUTO, &model, &error), error);
    assert_int_equal(pf_model_dtype(model), PF_DTYPE_INT4);
    pf_model_release(model);

    pf_model_quantize_result result;
    assert_int_equal(rename(from, pf_temp_path(&dir, "original", (char[PF_TEMP_PATH_BYTES]){ 0 })), 0);
    assert_int_equal(rename(to, from), 0);
    assert_status(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), PF_UNSUPPORTED);
    assert_says(error, "quantised to int4 already");
}

/* Fields of a config.json: `head`, n times `open`, n times `close`, `tail`. */
typedef struct {
    const char *head, *open, *close, *tail;
    int n;
} fields;

/* Inserts them in front of the original fields. */
static void add_fields(fields f)
{
    const size_t n = (size_t)f.n * (strlen(f.open) + strlen(f.close));
    char *text = malloc(strlen(f.head) + n + strlen(f.tail) + 1);
    assert_non_null(text);
    char *end = stpcpy(text, f.head);
    for (int i = 0; i < f.n; i++) end = stpcpy(end, f.open);
    for (int i = 0; i < f.n; i++) end = stpcpy(end, f.close);
    stpcpy(end, f.tail);
    pf_tiny_model_write(from, &TIED);
    pf_temp_edit(from, "config.json", "{", text);
    free(text);
}

/* The caller frees it. */
static char *read_config(const char *directory)
{
    char path[PF_TEMP_PATH_BYTES], *text;
    size_t n_bytes;
    pf_error error = { 0 };
    snprintf(path, sizeof path, "%s/config.json", directory);
    assert_ok(pf_file_read(path, 1 << 20, &text, &n_bytes, &error), error);
    return text;
}

static void a_converted_config_keeps_its_values_and_stays_short_enough_to_read(void **state)
{
    (void)state;
    static const struct {
        fields fields;
        const char *part;
    } cases[] = {
        { { "{\"id2label\": [0.1, 0.25], ", "", "", "", 0 }, "[\n    0.1,\n    0.25\n  ]" },
        { { "{\"id2label\": [0.1, 0.30000000000000004], ", "", "", "", 0 }, "\n    0.30000000000000004\n" },
        { { "{\"id2label\": [0.1", ",0.1", "", "], ", 120000 }, "0.1,0.1,0.1" },
        { { "{\"id2label\": ", "[", "]", ", ", 1000 }, "[[[[[]]]]]" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        add_fields(cases[i].fields);
        quantize(PF_DTYPE_INT8);
        char *before = read_config(from), *after = read_config(to);
        json_t *was = json_loads(before, 0, NULL), *is = json_loads(after, 0, NULL);
        assert_non_null(strstr(after, cases[i].part));
        assert_true(json_equal(json_object_get(was, "id2label"), json_object_get(is, "id2label")));
        json_decref(was);
        json_decref(is);
        free(before);
        free(after);
        remove_to();
    }
}

/* expected NULL: the key must be absent. */
static void assert_field(const json_t *object, const char *name, const char *expected)
{
    const char *found = json_string_value(json_object_get(object, name));
    assert_string_equal(found ? found : "none", expected ? expected : "none");
}

static void both_names_of_the_type_are_set_where_they_exist(void **state)
{
    (void)state;
    static const struct {
        const char *head, *dtype, *torch_dtype;
    } cases[] = {
        { "{", NULL, "bfloat16" },
        { "{\"dtype\": \"float32\", ", "bfloat16", NULL },
        { "{\"torch_dtype\": \"float32\", ", NULL, "bfloat16" },
        { "{\"dtype\": \"float32\", \"torch_dtype\": \"float32\", ", "bfloat16", "bfloat16" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        add_fields((fields){ cases[i].head, "", "", "", 0 });
        quantize(PF_DTYPE_BF16);
        char *text = read_config(to);
        json_t *is = json_loads(text, 0, NULL);
        assert_field(is, "dtype", cases[i].dtype);
        assert_field(is, "torch_dtype", cases[i].torch_dtype);
        json_decref(is);
        free(text);
        remove_to();
    }
}

/* ---- atomicity ----------------------------------------------------------------------------------------- */

static void a_directory_that_is_not_empty_is_refused_and_unchanged(void **state)
{
    (void)state;
    pf_model_quantize_result result;
    pf_error error = { 0 };
    pf_tiny_model_write(from, &TIED);
    pf_temp_write(&dir, "to/thesis.tex", "x", 1);
    assert_status(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), PF_INVALID);
    assert_says(error, "not empty");
    pf_temp_write(&dir, "file", "x", 1);
    pf_temp_path(&dir, "file", to);
    assert_status(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), PF_INVALID);
    pf_temp_path(&dir, "nowhere/to", to);
    assert_status(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), PF_UNAVAILABLE);
    assert_says(error, "nowhere/to");

    pf_temp_path(&dir, "link", to);
    assert_int_equal(symlink("nothing", to), 0);
    assert_status(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), PF_INVALID);
    assert_says(error, "a link that leads nowhere"); /* before anything is written */

    pf_temp_path(&dir, "empty/", to); /* with a trailing slash, as shells complete it */
    assert_int_equal(mkdir(to, 0777), 0);
    assert_ok(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), error);
    assert_int_equal(access(pf_temp_path(&dir, "empty/model.safetensors", to), R_OK), 0);
}

/* Creates `to` as an empty directory. */
static struct stat make_to(mode_t mode)
{
    struct stat made;
    assert_int_equal(mkdir(to, 0777), 0);
    assert_int_equal(chmod(to, mode), 0); /* the umask does not apply */
    assert_int_equal(stat(to, &made), 0);
    return made;
}

static void an_empty_directory_is_filled_in_place(void **state)
{
    (void)state;
    struct stat after;
    pf_tiny_model_write(from, &TIED);
    const struct stat before = make_to(02770);
    quantize(PF_DTYPE_INT8);
    assert_int_equal(stat(to, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mode, before.st_mode);
    pf_tiny_model_remove(to);
    assert_int_equal(access(to, F_OK), -1); /* no temporary folder is left */
}

static void a_config_too_long_to_read_is_refused_before_anything_is_written(void **state)
{
    (void)state;
    pf_model_quantize_result result;
    pf_error error = { 0 };
    add_fields((fields){ "{\"id2label\": [1e14", ",1e14", "", "], ", 60000 });
    make_to(0777);
    assert_status(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), PF_LIMIT);
    assert_says(error, "config.json for converted weights: is ");
    assert_holds_only(to, "");
}

/* The name of the last file moved to a watched directory, and the number of the others. */
static int read_moves(int watch, char last[NAME_MAX + 1])
{
    _Alignas(struct inotify_event) char events[4096];
    const ssize_t n_bytes = read(watch, events, sizeof events);
    int n_moved = 0;
    for (ssize_t at = 0; at < n_bytes; n_moved++) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)(events + at);
        snprintf(last, NAME_MAX + 1, "%s", event->name);
        at += (ssize_t)(sizeof *event + event->len);
    }
    return n_moved;
}

static void config_json_is_moved_last(void **state)
{
    (void)state;
    static const char *const beside[] = { "from/tokenizer.json", "from/vocab.json", "from/chat_template.jinja" };
    char last[NAME_MAX + 1] = "";
    pf_tiny_model_write(from, &TIED);
    for (size_t i = 0; i < PF_COUNT(beside); i++) pf_temp_write(&dir, beside[i], "{}", 2);
    make_to(0777);
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(watch >= 0);
    assert_true(inotify_add_watch(watch, to, IN_MOVED_TO) >= 0);
    quantize(PF_DTYPE_INT8);
    assert_int_equal(read_moves(watch, last), 2 + PF_COUNT(beside));
    assert_string_equal(last, "config.json");
    close(watch);
}

static void a_name_may_be_as_long_as_the_file_system_allows(void **state)
{
    (void)state;
    char name[NAME_MAX + 1] = "";
    pf_model_quantize_result result;
    pf_error error = { 0 };
    pf_tiny_model_write(from, &TIED);
    memset(name, 'n', NAME_MAX);
    for (int i = 0; i < 2; i++) { /* absent, then existing and empty */
        pf_temp_path(&dir, name, to);
        if (i == 1) make_to(0777);
        assert_ok(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), error);
        remove_to();
    }
    assert_nothing_is_left();
}

static void a_failure_leaves_no_files(void **state)
{
    (void)state;
    pf_model_quantize_result result;
    pf_error error = { 0 };
    pf_tiny_model_write(from, &ODD);

    const volatile bool cancel = true;
    assert_status(quantize_with(PF_DTYPE_INT8, &cancel, &result, &error), PF_CANCELLED);
    assert_nothing_is_left();

    pf_temp_write(&dir, "from/tokenizer.json/file", "x", 1); /* a directory where a file is expected */
    assert_status(quantize_with(PF_DTYPE_INT8, NULL, &result, &error), PF_INVALID);
    assert_says(error, "tokenizer.json");
    assert_nothing_is_left();
    char path[PF_TEMP_PATH_BYTES];
    unlink(pf_temp_path(&dir, "from/tokenizer.json/file", path));
    rmdir(pf_temp_path(&dir, "from/tokenizer.json", path));

    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 100; limit < 60000; limit *= 3) { /* like a full disk: in config.json, ... */
        const struct rlimit small = { limit, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const pf_status status = quantize_with(PF_DTYPE_INT8, NULL, &result, &error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, PF_UNAVAILABLE);
        assert_says(error, "cannot be written");
        assert_nothing_is_left();
    }
    signal(SIGXFSZ, handler);
}

/* Progress of a conversion, which is cancelled after so many tensors. */
typedef struct {
    int n, end_at;
    size_t done_bytes, total_bytes;
    volatile bool cancel;
} watcher;

static void note_progress(void *user, size_t done_bytes, size_t total_bytes)
{
    watcher *w = user;
    w->done_bytes = done_bytes;
    w->total_bytes = total_bytes;
    if (++w->n == w->end_at) w->cancel = true;
}

static int n_written, n_over; /* directories */

static void note_directory(const char *directory)
{
    n_written += directory != NULL;
    n_over += directory == NULL;
}

static pf_status quantize_watched(pf_dtype dtype, watcher *w)
{
    pf_team *team;
    pf_error error;
    pf_model_quantize_result result;
    PF_TRY(pf_team_create(2, NULL, 0, &team, &error));
    const pf_model_quantize_options options = { .dtype = dtype,
                                                .team = team,
                                                .cancel = &w->cancel,
                                                .progress = note_progress,
                                                .progress_user = w,
                                                .writing = note_directory };
    const pf_status status = pf_model_quantize(from, to, &options, &result, &error);
    pf_team_destroy(team);
    return status;
}

static void cancellation_between_any_two_tensors_leaves_no_files(void **state)
{
    (void)state;
    pf_tiny_model_write(from, &ODD);
    static const pf_dtype dtypes[] = { PF_DTYPE_F32, PF_DTYPE_INT8 };
    for (size_t i = 0; i < PF_COUNT(dtypes); i++) {
        const pf_dtype dtype = dtypes[i];
        watcher all = { .end_at = 0 };
        n_written = n_over = 0;
        assert_int_equal(quantize_watched(dtype, &all), PF_OK);
        assert_int_equal(all.done_bytes, all.total_bytes);
        assert_int_equal(n_written, 1);
        assert_int_equal(n_over, 1);
        remove_to();
        for (int n = 1; n < all.n; n++) {
            watcher w = { .end_at = n };
            assert_int_equal(quantize_watched(dtype, &w), PF_CANCELLED);
            assert_nothing_is_left();
        }
        assert_int_equal(n_written, n_over);
    }
}

static void cancellation_leaves_an_empty_directory_empty(void **state)
{
    (void)state;
    pf_tiny_model_write(from, &ODD);
    const struct stat before = make_to(02750);
    struct stat after;
    for (int n = 1; n < 6; n++) {
        watcher w = { .end_at = n };
        assert_int_equal(quantize_watched(PF_DTYPE_INT8, &w), PF_CANCELLED);
        assert_holds_only(to, "");
    }
    assert_int_equal(stat(to, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mode, before.st_mode);
}

static void take_a_name(void *user, size_t done_bytes, size_t total_bytes)
{
    (void)done_bytes, (void)total_bytes;
    char name[64];
    snprintf(name, sizeof name, "to/%s/file", (const char *)user);
    pf_temp_write(&dir, name, "x", 1);
}

/* Another process creates directories of these names meanwhile. */
static void a_file_that_cannot_be_moved_takes_the_others_back(void **state)
{
    (void)state;
    pf_team *team;
    pf_error error = { 0 };
    pf_model_quantize_result result;
    static const char *const names[] = { "config.json", "model.safetensors", "tokenizer.json" };
    pf_tiny_model_write(from, &TIED);
    pf_temp_write(&dir, "from/tokenizer.json", "{}", 2);
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        char name[64], path[PF_TEMP_PATH_BYTES];
        snprintf(name, sizeof name, "taken-%zu", i);
        pf_temp_path(&dir, "to", to);
        make_to(0777);
        const pf_model_quantize_options options = {
            .dtype = PF_DTYPE_INT8, .team = team, .progress = take_a_name, .progress_user = (void *)(uintptr_t)names[i]
        };
        assert_status(pf_model_quantize(from, to, &options, &result, &error), PF_UNAVAILABLE);
        assert_says(error, "cannot be moved");
        assert_holds_only(to, names[i]);
        assert_int_equal(rename(to, pf_temp_path(&dir, name, path)), 0);
    }
    pf_team_destroy(team);
}

static void running_out_of_memory_leaves_no_files(void **state)
{
    (void)state;
    pf_model_quantize_result result;
    pf_error error = { 0 };
    pf_tiny_model_write(from, &(pf_tiny_model){ .layers = 1 });
    bool was_refused = true;
    int64_t n = 0;
    for (; was_refused; n++) {
        pf_alloc_refuse_after(n);
        const pf_status status = quantize_with(PF_DTYPE_INT4, NULL, &result, &error);
        was_refused = pf_alloc_refuse_after(-1);
        if (status == PF_OK) { /* no allocation failed */
            pf_model *model;
            assert_ok(load(to, PF_DTYPE_AUTO, PF_ACTIVATIONS_AUTO, &model, &error), error);
            pf_model_release(model);
            remove_to();
        } else if (status != PF_NOMEM) {
            fail_msg("allocation %lld: %s: %s", (long long)n, pf_status_name(status), error.text);
        }
        assert_nothing_is_left();
    }
    assert_true(n > 500); /* jansson's allocations included */
}

static void an_output_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    pf_model_quantize_result result;
    pf_error error = { 0 };
    pf_tiny_model_write(from, &TIED);
    assert_status(quantize_with(PF_DTYPE_AUTO, NULL, &result, &error), PF_INVALID);
    assert_says(error, "auto");
    assert_status(quantize_with(PF_DTYPE_BF16_12, NULL, &result, &error), PF_INVALID);
    assert_says(error, "bf16-12");
    assert_nothing_is_left();
}

/* ---- tampered directories ----------------------------------------------------------------- */

/* Overwrites bytes of a tensor. */
static void poke(const char *tensor, size_t at, const void *bytes, size_t n)
{
    char path[PF_TEMP_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    FILE *f = fopen(path, "r+b");
    uint64_t length;
    assert_non_null(f);
    assert_int_equal(fread(&length, sizeof length, 1, f), 1);
    char *text = malloc(length);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, length, f), length);
    json_t *header = json_loadb(text, length, 0, NULL);
    const json_t *range = json_object_get(json_object_get(header, tensor), "data_offsets");
    assert_non_null(range);
    const long begin = (long)json_integer_value(json_array_get(range, 0));
    assert_int_equal(fseek(f, (long)(8 + length) + begin + (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    json_decref(header);
    free(text);
}

static void assert_refused(pf_status expected, const char *part)
{
    pf_model *model = NULL;
    pf_error error = { 0 };
    assert_status(load(to, PF_DTYPE_AUTO, PF_ACTIVATIONS_AUTO, &model, &error), expected);
    assert_null(model);
    assert_says(error, part);
    assert_says(error, to);
}

#define LAYER "model.layers.1."

static void names_shapes_and_types_that_do_not_fit_are_refused_by_name(void **state)
{
    (void)state;
    pf_tiny_model_write(from, &TIED);
    const struct {
        pf_dtype dtype;
        const char *old, *new;
        pf_status status;
        const char *says;
    } headers[] = {
        { PF_DTYPE_INT4, LAYER "mlp.up_proj.weight_scale", LAYER "mlp.up_proj.weight_scald", PF_FORMAT,
          "no tensor \"" LAYER "mlp.up_proj.weight_scale\"" },
        { PF_DTYPE_INT4, LAYER "mlp.up_proj.weight_head", LAYER "mlp.up_proj.weight_heae", PF_FORMAT,
          "no tensor \"" LAYER "mlp.up_proj.weight_head\"" },
        { pf_dtype_of(PF_FORMAT_INT4_ASYM_CHANNEL), LAYER "mlp.up_proj.weight_zero", LAYER "mlp.up_proj.weight_zerp",
          PF_FORMAT, "no tensor \"" LAYER "mlp.up_proj.weight_zero\"" },
        { PF_DTYPE_INT8, "\"dtype\":\"I8\"", "\"dtype\":\"U8\"", PF_FORMAT, "expected I8" },
        { PF_DTYPE_INT4, "\"dtype\":\"F32\"", "\"dtype\":\"I32\"", PF_FORMAT, "expected F32" },
        { PF_DTYPE_INT4, "\"dtype\":\"U8\",\"shape\":[128,2]", "\"dtype\":\"U8\",\"shape\":[64, 4]", PF_FORMAT,
          "weight_head\" has shape [64, 4], config.json makes it [128, 2]" },
    };
    for (size_t i = 0; i < PF_COUNT(headers); i++) {
        quantize(headers[i].dtype);
        pf_temp_edit(to, "model.safetensors", headers[i].old, headers[i].new);
        assert_refused(headers[i].status, headers[i].says);
        remove_to();
    }

    quantize(PF_DTYPE_INT4); /* another format in config.json than in the file */
    pf_temp_edit(to, "config.json", "\"format\": \"int4\"", "\"format\": \"int8\"");
    assert_refused(PF_UNSUPPORTED, "version is 2");
    pf_temp_edit(to, "config.json", "\"version\": 2", "\"version\": 1");
    assert_refused(PF_FORMAT, "bits");
    pf_temp_edit(to, "config.json", "\"bits\": 4", "\"bots\": 8");
    assert_refused(PF_FORMAT, "group_size");
    pf_temp_edit(to, "config.json", "\"group_size\": 32", "\"group_size\": 0 ");
    assert_refused(PF_UNSUPPORTED, "bots");
    pf_temp_edit(to, "config.json", "\"bots\": 8", "\"bits\": 8");
    assert_refused(PF_FORMAT, "expected I8");
    remove_to();
}

static void invalid_numbers_are_refused_by_name(void **state)
{
    (void)state;
    pf_tiny_model_write(from, &TIED);
    const float nan = (float)strtod("nan", NULL), infinity = -(float)strtod("inf", NULL);
    const uint8_t sixteen = 0x10, lowest = 0x80, steep = 0x9F, odd = 0x16;
    const pf_dtype asymmetric = pf_dtype_of(PF_FORMAT_INT4_ASYM_G32);
    const struct {
        pf_dtype dtype;
        const char *tensor;
        size_t at;
        const void *bytes;
        size_t n;
        const char *says;
    } cases[] = {
        { PF_DTYPE_INT4, LAYER "mlp.up_proj.weight_scale", 12, &nan, 4, "has a scale that is not finite" },
        { PF_DTYPE_INT4, "model.embed_tokens.weight_scale", 0, &infinity, 4, "has a scale that is not finite" },
        { PF_DTYPE_INT8, LAYER "self_attn.k_proj.weight_scale", 8, &nan, 4, "has a scale that is not finite" },
        { PF_DTYPE_INT8, LAYER "self_attn.k_proj.weight", 77, &lowest, 1, "has a value of -128" },
        { PF_DTYPE_INT4, LAYER "mlp.up_proj.weight_head", 190, &odd, 1,
          "has a byte of 0x16, expected m << 4 | z with a z of 7 or 8" },
        { asymmetric, LAYER "mlp.up_proj.weight_head", 0, &steep, 1,
          "has a byte of 0x9f, expected m << 4 | z with m * max(z, 15 - z)" },
        { pf_dtype_of(PF_FORMAT_INT4_ASYM_CHANNEL), LAYER "self_attn.o_proj.weight_zero", 3, &sixteen, 1,
          "has a byte of 0x10, expected at most 0x0f" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        quantize(cases[i].dtype);
        poke(cases[i].tensor, cases[i].at, cases[i].bytes, cases[i].n);
        assert_refused(PF_FORMAT, cases[i].tensor);
        assert_refused(PF_FORMAT, cases[i].says);
        remove_to();
    }
}

/* Their groups had F16 scales and config.json no version. Formats without groups are unchanged. */
static void groups_of_an_earlier_version_are_refused_with_the_remedy(void **state)
{
    (void)state;
    pf_tiny_model_write(from, &TIED);
    for (pf_format format = PF_FORMAT_INT8; format < PF_N_FORMATS; format++) {
        quantize(pf_dtype_of(format));
        char *text = read_config(to);
        const bool has_version = strstr(text, "\"version\"") != NULL;
        free(text);
        assert_int_equal(has_version, pf_format_get(format)->group != 0);
        if (has_version) {
            pf_temp_edit(to, "config.json", ",\n    \"version\": 2", "");
            assert_refused(PF_UNSUPPORTED, pf_format_get(format)->name);
            assert_refused(PF_UNSUPPORTED,
                           "written by an earlier version, with F16 scales of groups: quantize the original again");
        }
        remove_to();
    }
}

static void a_truncated_file_is_refused(void **state)
{
    (void)state;
    char path[PF_TEMP_PATH_BYTES];
    struct stat st;
    pf_tiny_model_write(from, &TIED);
    quantize(PF_DTYPE_INT4);
    assert_int_equal(stat(pf_temp_path(&dir, "to/model.safetensors", path), &st), 0);
    for (off_t cut = 1; cut < st.st_size; cut = cut * 7 + 1) {
        assert_int_equal(truncate(path, st.st_size - cut), 0);
        assert_refused(PF_FORMAT, "model.safetensors");
    }
}

int main(void)
{
    pf_json_watch_memory();
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        CASE(a_written_directory_gives_the_logits_of_the_original_in_that_format),
        CASE(an_f16_directory_can_be_converted_again_and_loses_its_mark),
        CASE(files_beside_the_weights_are_copied_and_the_sizes_reported),
        CASE(a_quantised_directory_loads_in_its_own_format_only),
        CASE(a_converted_config_keeps_its_values_and_stays_short_enough_to_read),
        CASE(both_names_of_the_type_are_set_where_they_exist),
        CASE(a_directory_that_is_not_empty_is_refused_and_unchanged),
        CASE(an_empty_directory_is_filled_in_place),
        CASE(a_config_too_long_to_read_is_refused_before_anything_is_written),
        CASE(config_json_is_moved_last),
        CASE(a_name_may_be_as_long_as_the_file_system_allows),
        CASE(a_failure_leaves_no_files),
        CASE(cancellation_between_any_two_tensors_leaves_no_files),
        CASE(cancellation_leaves_an_empty_directory_empty),
        CASE(a_file_that_cannot_be_moved_takes_the_others_back),
        CASE(running_out_of_memory_leaves_no_files),
        CASE(an_output_that_cannot_be_written_is_named),
        CASE(names_shapes_and_types_that_do_not_fit_are_refused_by_name),
        CASE(invalid_numbers_are_refused_by_name),
        CASE(groups_of_an_earlier_version_are_refused_with_the_remedy),
        CASE(a_truncated_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
