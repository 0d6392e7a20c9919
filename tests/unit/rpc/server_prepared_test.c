/* A server answers a verdict that its drafter has prepared for, while a pass of the drafter runs, and once. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/sequence_host.h"
#include "rpc/client/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/test.h"

enum { PREPARED = 70, DRAFTED = 80, LATER = 90, N_VOCAB = 1000 };

/* Proposes DRAFTED behind the token PREPARED, and LATER behind any other. Its pass lasts until the test ends it. */
typedef struct {
    pf_host host;
    int32_t tokens[2]; /* [0] of the prepared proposal, [1] of another */
    bool wants_pass, is_prepared;
    atomic_int n_begun, n_ended; /* passes that last; set by the test: so many end */
    atomic_int n_proposals;      /* that it has made */
} slow_drafter;

static pf_status follow(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict)
{
    slow_drafter *d = (slow_drafter *)host;
    (void)s;
    (void)verdict;
    pf_prepared_remove(host->prepared, 0);
    d->is_prepared = false;
    return PF_OK;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is that of the hosts' function */
static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    (void)host;
    (void)n_tokens;
    return s->is_due ? PF_HOST_READY : PF_HOST_IDLE;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    slow_drafter *d = (slow_drafter *)host;
    pf_proposal p;
    pf_host_begin_proposal(host, s, &p);
    p.tokens = s->tokens[s->n_committed - 1] == PREPARED ? &d->tokens[0] : &d->tokens[1];
    p.n_tokens = 1;
    pf_host_propose(host, s, &p);
    d->wants_pass = true;
    atomic_fetch_add(&d->n_proposals, 1);
    return true;
}

static void prepare(slow_drafter *d, const pf_host_sequence *s)
{
    pf_prepared_outcome o = {
        .base = s->n_committed, .token = PREPARED, .wanted = s->next_draft, .max_draft = s->max_draft
    };
    pf_host_begin_proposal(&d->host, s, &o.proposal);
    o.round = o.proposal.round++;
    o.proposal.base++;
    o.proposal.tokens = d->tokens;
    o.proposal.n_tokens = 1;
    d->is_prepared = pf_prepared_put(d->host.prepared, 0, &o);
}

/* The first pass prepares, the second lasts. */
static bool work_ahead(pf_host *host)
{
    slow_drafter *d = (slow_drafter *)host;
    if (!d->wants_pass) return false;
    if (!d->is_prepared) {
        prepare(d, &host->sequences[0]);
        return d->is_prepared;
    }
    d->wants_pass = false;
    const int n = atomic_fetch_add(&d->n_begun, 1) + 1;
    while (atomic_load(&d->n_ended) < n) usleep(1000);
    return true;
}

static void destroy(pf_host *host)
{
    pf_prepared_destroy(host->prepared);
}

static const pf_host_role role = { .name = "drafter",
                                   .model = "draft",
                                   .check_open = pf_host_check_draft,
                                   .follow = follow,
                                   .turn = turn,
                                   .add = add,
                                   .work_ahead = work_ahead,
                                   .destroy = destroy };

typedef struct {
    running_server server;
    pf_peer *drafter, *client;
} served;

static slow_drafter *drafter_of(const served *f)
{
    return (slow_drafter *)f->drafter;
}

/* The n-th, from 1: the drafter has made n proposals by then, and has prepared for the verdict on the last of them. */
static void await_pass(const served *f, int n)
{
    while (atomic_load(&drafter_of(f)->n_begun) < n) usleep(1000);
    assert_int_equal(atomic_load(&drafter_of(f)->n_proposals), n);
}

static void end_pass(const served *f, int n)
{
    atomic_store(&drafter_of(f)->n_ended, n);
}

/* In place: the server's thread writes to it. */
static void serve(served *f)
{
    pf_error error;
    slow_drafter *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->tokens[0] = DRAFTED;
    d->tokens[1] = LATER;
    assert_int_equal(pf_prepared_create(1, &d->host.prepared), PF_OK);
    const pf_model_info info = { .protocol_version = PF_PROTOCOL_VERSION,
                                 .model_id = "slow",
                                 .vocab_size = N_VOCAB,
                                 .max_sequences = 1,
                                 .max_draft = 4,
                                 .max_context = 64,
                                 .methods = PF_ANSWER_METHODS };
    const pf_host_config config = {
        .max_sequences = 1, .max_draft = 4, .max_tokens = 64, .n_vocab = N_VOCAB, .info = &info
    };
    assert_ok(pf_host_create(&d->host, &role, &config, &f->drafter, &error), error);
    const pf_server_config serving = { .address = serving_address, .drafter = f->drafter, .grace_ns = 20 * MS };
    serving_begin(&f->server, &serving);
    f->client = connected(serving_address);
    assert_int_equal(say_open(f->client, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(f->client, 1, 0, 5), PF_OK);
    assert_proposal(answer_within(f->client, 60 * SECOND), 1, 1, LATER);
    await_pass(f, 1);
}

static void end_serving(served *f)
{
    pf_peer_destroy(f->client);
    serving_end(&f->server);
    pf_peer_destroy(f->drafter);
}

static void a_prepared_proposal_is_sent_while_a_pass_runs(void **state)
{
    (void)state;
    served f;
    serve(&f);
    assert_int_equal(say_verdict(f.client, 1, 1, PREPARED), PF_OK);
    assert_proposal(answer_within(f.client, 60 * SECOND), 1, 2, DRAFTED);
    assert_int_equal(atomic_load(&drafter_of(&f)->n_proposals), 1);
    end_pass(&f, 1); /* now the drafter is given the verdict, and makes the proposal that has been sent */
    await_pass(&f, 2);
    assert_int_equal(say_verdict(f.client, 1, 2, 6), PF_OK); /* not prepared for */
    end_pass(&f, 2);
    assert_proposal(answer_within(f.client, 60 * SECOND), 1, 3, LATER); /* the next answer: none came twice */
    await_pass(&f, 3);
    end_pass(&f, 3);
    end_serving(&f);
}

static void a_verdict_that_is_not_prepared_for_waits_for_the_pass(void **state)
{
    (void)state;
    served f;
    serve(&f);
    assert_int_equal(say_verdict(f.client, 1, 1, 6), PF_OK);
    const pf_batch *batch;
    pf_error error;
    assert_int_equal(pf_peer_collect(f.client, pf_now_ns() + 100 * MS, &batch, &error), PF_CANCELLED);
    end_pass(&f, 1);
    assert_proposal(answer_within(f.client, 60 * SECOND), 1, 2, LATER);
    await_pass(&f, 2);
    end_pass(&f, 2);
    end_serving(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prepared_proposal_is_sent_while_a_pass_runs),
        cmocka_unit_test(a_verdict_that_is_not_prepared_for_waits_for_the_pass),
    };
    return cmocka_run_group_tests(tests, serving_make_directory, serving_remove_directory);
}
