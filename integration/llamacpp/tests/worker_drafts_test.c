/* worker_drafts.h against a worker of this process that looks tokens up: what is told, drafted, taken late and survived. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "integration/llamacpp/worker_drafts.h"
#include "tests/support/test.h"

enum { N_TEXTS = 3, VOCABULARY = 1000, PERIOD = 5 };

typedef struct {
    char address[64];
    pthread_t thread;
    volatile bool stop;
    volatile bool is_ready;
    pf_status status;
    pf_error error;
} served;

typedef struct {
    served worker;
    pfd_client *client;
    int n_warnings;
    char warning[512];
} fixture;

static bool on_ready(void *user, const char *address)
{
    (void)address;
    __atomic_store_n(&((served *)user)->is_ready, true, __ATOMIC_RELEASE);
    return true;
}

static void *serve(void *user)
{
    served *s = user;
    pf_serve_options options = PF_INIT(pf_serve_options);
    options.drafter = "ngram";
    options.address = s->address;
    options.stop = &s->stop;
    options.ready = on_ready;
    options.user = s;
    options.max_sequences = N_TEXTS - 1; /* one text too many is refused */
    s->status = pf_engine_serve(NULL, &options, &s->error);
    return NULL;
}

static void start_worker(served *s)
{
    s->stop = s->is_ready = false;
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
    while (!__atomic_load_n(&s->is_ready, __ATOMIC_ACQUIRE)) usleep(1000);
}

static void stop_worker(served *s)
{
    __atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
    pthread_join(s->thread, NULL);
    assert_int_equal(s->status, PF_OK);
}

static const char *token(const void *user, int32_t id, size_t *n_bytes)
{
    static const char letter[] = "abcdefghijklmnopqrstuvwxyz";
    (void)user;
    *n_bytes = 1;
    return letter + id % 26;
}

static void on_warning(void *user, const char *sentence)
{
    fixture *f = user;
    f->n_warnings++;
    snprintf(f->warning, sizeof f->warning, "%s", sentence);
}

static pfd_options options_of(fixture *f)
{
    return (pfd_options){ .address = f->worker.address,
                          .n_texts = N_TEXTS,
                          .max_draft = 4,
                          .wait_ns = 20000000000, /* long: an answer that comes is never late here */
                          .vocab_size = VOCABULARY,
                          .texts = { token, NULL },
                          .warn = on_warning,
                          .user = f };
}

static int begin(void **state)
{
    static fixture f;
    f = (fixture){ 0 };
    snprintf(f.worker.address, sizeof f.worker.address, "unix:/tmp/pf-worker-drafts-%d", (int)getpid());
    start_worker(&f.worker);
    const pfd_options options = options_of(&f);
    pf_error error = { 0 };
    assert_ok(pfd_connect(&options, &f.client, &error), error);
    *state = &f;
    return 0;
}

static int end(void **state)
{
    fixture *f = *state;
    pfd_close(f->client);
    if (f->worker.is_ready) stop_worker(&f->worker);
    return 0;
}

/* A text that repeats itself: the lookup drafts its next tokens. */
static void fill_periodic(int32_t *tokens, int32_t n, int32_t first)
{
    for (int32_t i = 0; i < n; i++) tokens[i] = first + i % PERIOD;
}

static pfd_row row_of(int32_t text, const int32_t *tokens, int32_t n, int32_t max_draft)
{
    return (
        pfd_row){ .text = text, .tokens = tokens, .n_tokens = n - 1, .last = tokens[n - 1], .max_draft = max_draft };
}

static void assert_drafts(const pfd_row *row, const int32_t *tokens, int32_t n, int32_t n_draft)
{
    assert_int_equal(row->n_draft, n_draft);
    for (int32_t i = 0; i < n_draft; i++) assert_int_equal(row->draft[i], tokens[n + i]);
}

/* A step of one text, which drafts what follows. */
static void draft_alone(fixture *f, const int32_t *tokens, int32_t n, int32_t max_draft)
{
    pfd_row row = row_of(0, tokens, n, max_draft);
    pfd_draft(f->client, &row, 1);
    assert_drafts(&row, tokens, n, max_draft);
}

static pfd_figures figures_of(const fixture *f)
{
    pfd_figures figures;
    pfd_get_figures(f->client, &figures);
    return figures;
}

static void texts_of_a_step_are_one_batch_and_told_once(void **state)
{
    fixture *f = *state;
    int32_t a[64], b[64];
    fill_periodic(a, 64, 10);
    fill_periodic(b, 64, 500);
    int32_t n = 20;
    for (int step = 0; step < 6; step++, n += 5) {
        pfd_row rows[] = { row_of(0, a, n, 4), row_of(1, b, n, step == 3 ? 2 : 4) };
        pfd_draft(f->client, rows, 2);
        assert_drafts(&rows[0], a, n, 4);
        assert_drafts(&rows[1], b, n, step == 3 ? 2 : 4);
        pfd_accept(f->client, 8);
    }
    const pfd_figures figures = figures_of(f);
    assert_int_equal(figures.n_opens, 2);
    assert_int_equal(figures.n_told, 2 * (n - 5));
    assert_int_equal(figures.n_drafted, 2 * 6 * 4 - 2);
    assert_int_equal(figures.n_accepted, 6 * 8);
    assert_int_equal(figures.n_late, 0);
    assert_int_equal(f->n_warnings, 0);
}

static void a_text_that_changes_is_opened_again(void **state)
{
    fixture *f = *state;
    int32_t a[64], b[64];
    fill_periodic(a, 64, 10);
    fill_periodic(b, 64, 20);
    draft_alone(f, a, 30, 4);
    draft_alone(f, b, 32, 4); /* another text, which is longer */
    draft_alone(f, b, 25, 4); /* cut short */
    draft_alone(f, b, 25, 4); /* the same again: its proposal is still there */
    draft_alone(f, b, 25, 2); /* less of it */
    assert_int_equal(figures_of(f).n_opens, 3);
}

static void a_row_without_room_asks_for_nothing(void **state)
{
    fixture *f = *state;
    int32_t a[32];
    fill_periodic(a, 32, 10);
    pfd_row row = row_of(0, a, 20, 0);
    pfd_draft(f->client, &row, 1);
    assert_int_equal(row.n_draft, 0);
    assert_int_equal(figures_of(f).n_opens, 0);
}

static void a_text_beyond_the_workers_places_drafts_nothing_until_another_ends(void **state)
{
    fixture *f = *state;
    int32_t a[64];
    fill_periodic(a, 64, 10);
    pfd_row rows[N_TEXTS];
    for (int32_t i = 0; i < N_TEXTS; i++) rows[i] = row_of(i, a, 20, 4);
    pfd_draft(f->client, rows, N_TEXTS);
    int32_t n_with = 0, without = -1;
    for (int32_t i = 0; i < N_TEXTS; i++) {
        n_with += rows[i].n_draft == 4;
        if (rows[i].n_draft == 0) without = i;
    }
    assert_int_equal(n_with, N_TEXTS - 1);
    assert_int_equal(f->n_warnings, 1);
    const int32_t over = (without + 1) % N_TEXTS;
    const pfd_row last = row_of(over, a, 22, 0);
    pfd_end_text(f->client, over, &last);
    for (int i = 0; i < 60 && rows[without].n_draft == 0; i++) { /* it is tried again after a second */
        rows[without] = row_of(without, a, 20 + i / 10, 4);
        pfd_draft(f->client, &rows[without], 1);
        usleep(100000);
    }
    assert_int_equal(rows[without].n_draft, 4);
    assert_int_equal(f->n_warnings, 1);
}

static void a_worker_that_goes_costs_one_warning_and_returns(void **state)
{
    fixture *f = *state;
    int32_t a[256];
    fill_periodic(a, 256, 10);
    pfd_row row;
    draft_alone(f, a, 20, 4);
    stop_worker(&f->worker);
    int32_t n = 21;
    for (int i = 0; i < 20; i++) {
        row = row_of(0, a, n++, 4);
        pfd_draft(f->client, &row, 1);
        usleep(20000);
    }
    assert_int_equal(row.n_draft, 0);
    assert_int_equal(f->n_warnings, 1);
    assert_non_null(strstr(f->warning, "decoding goes on without it"));
    start_worker(&f->worker);
    row.n_draft = 0;
    for (int i = 0; i < 150 && row.n_draft == 0; i++) {
        row = row_of(0, a, n + i, 4);
        pfd_draft(f->client, &row, 1);
        usleep(100000);
    }
    assert_int_equal(row.n_draft, 4);
}

static void wrong_options_are_named(void **state)
{
    fixture *f = *state;
    pfd_client *client = NULL;
    pf_error error = { 0 };
    pfd_options options = options_of(f);
    options.address = NULL;
    assert_status(pfd_connect(&options, &client, &error), PF_INVALID);
    assert_says(error, "no address");
    options = options_of(f);
    options.n_texts = PF_MAX_BATCH_SEQUENCES + 1;
    assert_status(pfd_connect(&options, &client, &error), PF_INVALID);
    assert_says(error, "257 texts");
    options = options_of(f);
    options.max_draft = 0;
    assert_status(pfd_connect(&options, &client, &error), PF_INVALID);
    assert_says(error, "max_draft is 0");
    options = options_of(f);
    options.vocab_size = 0;
    assert_status(pfd_connect(&options, &client, &error), PF_INVALID);
    assert_null(client);
    pfd_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_of_a_step_are_one_batch_and_told_once, begin, end),
        cmocka_unit_test_setup_teardown(a_text_that_changes_is_opened_again, begin, end),
        cmocka_unit_test_setup_teardown(a_row_without_room_asks_for_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_text_beyond_the_workers_places_drafts_nothing_until_another_ends, begin, end),
        cmocka_unit_test_setup_teardown(a_worker_that_goes_costs_one_warning_and_returns, begin, end),
        cmocka_unit_test_setup_teardown(wrong_options_are_named, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
