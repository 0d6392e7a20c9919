/* What is counted of the messages between clients and a peer. */
#include <stdlib.h>

#include "host/traffic.h"
#include "tests/support/test.h"

enum { MS = 1000 * 1000 };

typedef struct {
    pf_metrics *metrics;
    pf_traffic *traffic;
    char text[1 << 16];
} counted;

static void begin(counted *c, pf_service service)
{
    pf_error error = { 0 };
    assert_int_equal(pf_metrics_create(&c->metrics), PF_OK);
    assert_ok(pf_traffic_create(c->metrics, service, "tiny", &c->traffic, &error), error);
}

static void end(counted *c)
{
    free(c->traffic);
    pf_metrics_destroy(c->metrics);
}

/* Whether the text has a line. */
static void assert_prints(counted *c, const char *line)
{
    size_t n = 0;
    assert_int_equal(pf_metrics_print(c->metrics, c->text, sizeof c->text - 1, &n), PF_OK);
    assert_true(n < sizeof c->text);
    c->text[n] = '\0';
    const char *at = strstr(c->text, line);
    if (!at || (at != c->text && at[-1] != '\n')) fail_msg("no line %s in\n%s", line, c->text);
}

static void judge(counted *c, pf_traffic_sequence *s, int32_t n_proposed, int32_t n_accepted)
{
    static const int32_t tokens[PF_MAX_DRAFT_TOKENS];
    const pf_proposal p = { .tokens = tokens, .n_tokens = n_proposed };
    const pf_verdict v = { .tokens = tokens,
                           .n_tokens = n_accepted % PF_MAX_DRAFT_TOKENS + 1,
                           .n_accepted = n_accepted };
    pf_traffic_proposal(c->traffic, s, &p);
    pf_traffic_verdict(c->traffic, s, &v);
}

static void proposals_count_when_they_are_judged_and_by_position(void **state)
{
    (void)state;
    static counted c;
    begin(&c, PF_SERVICE_VERIFIER);
    pf_traffic_sequence s = { 0 };
    const pf_open open = { .n_tokens = 9 };
    pf_traffic_open(c.traffic, &s, &open, 0);
    judge(&c, &s, 0, 0); /* plain: the first token */
    judge(&c, &s, 4, 2);
    judge(&c, &s, 3, 3);
    judge(&c, &s, 2, 0);
    pf_traffic_totals t;
    pf_traffic_get(c.traffic, &t);
    assert_true(t.n_opened == 1 && t.prompt_tokens == 9 && t.new_tokens == 1 + 3 + 4 + 1);
    assert_true(t.drafts == 3 && t.drafted == 9 && t.accepted == 5);
    assert_true(t.accepted_to[0] == 2 && t.accepted_to[1] == 2 && t.accepted_to[2] == 1 && t.accepted_to[3] == 0);
    assert_prints(
        &c, "vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"tiny\",engine=\"0\",position=\"1\"} 2\n");
    end(&c);
}

static void proposals_count_by_the_drafter_of_their_sequence(void **state)
{
    (void)state;
    static counted c;
    begin(&c, PF_SERVICE_DRAFTER);
    pf_error error = { 0 };
    static const pf_model_info info = { .drafters = { "model", "suffix" }, .n_drafters = 2 };
    assert_ok(pf_traffic_name_drafters(c.traffic, c.metrics, "tiny", &info, &error), error);
    static const struct {
        const char *name;
        int32_t n_proposed, n_accepted;
    } sequences[] = { { "", 4, 1 }, { "model", 3, 3 }, { "suffix", 8, 5 }, { "of-others", 16, 16 } };
    for (size_t i = 0; i < PF_COUNT(sequences); i++) {
        pf_traffic_sequence s = { 0 };
        pf_open open = { .n_tokens = 1 };
        strcpy(open.drafter, sequences[i].name);
        pf_traffic_open(c.traffic, &s, &open, 0);
        judge(&c, &s, sequences[i].n_proposed, sequences[i].n_accepted);
    }
    assert_prints(&c, "pilotfish:drafter_drafts_total{model_name=\"tiny\",engine=\"0\",drafter=\"model\"} 2\n");
    assert_prints(&c, "pilotfish:drafter_draft_tokens_total{model_name=\"tiny\",engine=\"0\",drafter=\"model\"} 7\n");
    assert_prints(&c,
                  "pilotfish:drafter_accepted_tokens_total{model_name=\"tiny\",engine=\"0\",drafter=\"model\"} 4\n");
    assert_prints(&c,
                  "pilotfish:drafter_accepted_tokens_total{model_name=\"tiny\",engine=\"0\",drafter=\"suffix\"} 5\n");
    assert_prints(&c, "vllm:spec_decode_num_accepted_tokens_total{model_name=\"tiny\",engine=\"0\"} 25\n");
    end(&c);
}

static void first_token_is_timed_from_the_open_and_the_rest_by_token(void **state)
{
    (void)state;
    static counted c;
    begin(&c, PF_SERVICE_VERIFIER);
    pf_traffic_sequence s = { 0 };
    const pf_open open = { .n_tokens = 1 };
    pf_traffic_open(c.traffic, &s, &open, 3000u * MS); /* it has waited for three seconds */
    judge(&c, &s, 0, 0);
    judge(&c, &s, 3, 3);
    pf_traffic_close(c.traffic, &s);
    assert_prints(&c, "vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"2.5\"} 0\n");
    assert_prints(&c, "vllm:time_to_first_token_seconds_count{model_name=\"tiny\",engine=\"0\"} 1\n");
    assert_prints(&c, "vllm:inter_token_latency_seconds_count{model_name=\"tiny\",engine=\"0\"} 4\n");
    assert_prints(&c, "vllm:e2e_request_latency_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"2.5\"} 0\n");
    assert_prints(&c, "vllm:e2e_request_latency_seconds_count{model_name=\"tiny\",engine=\"0\"} 1\n");
    end(&c);
}

static void a_repaired_sequence_is_no_new_one_and_its_next_request_is(void **state)
{
    (void)state;
    static counted c;
    begin(&c, PF_SERVICE_VERIFIER);
    pf_traffic_sequence s = { 0 };
    const pf_open open = { .n_tokens = 5 }, repair = { .n_tokens = 50, .next_round = 3 };
    pf_traffic_totals t;
    pf_traffic_open(c.traffic, &s, &open, 0);
    pf_traffic_open(c.traffic, &s, &repair, 0);
    pf_traffic_get(c.traffic, &t);
    assert_true(t.n_opened == 1 && t.prompt_tokens == 5);
    pf_traffic_open(c.traffic, &s, &open, 0); /* a kept sequence goes on */
    pf_traffic_get(c.traffic, &t);
    assert_true(t.n_opened == 2 && t.prompt_tokens == 10);
    assert_prints(&c, "vllm:e2e_request_latency_seconds_count{model_name=\"tiny\",engine=\"0\"} 1\n");
    end(&c);
}

static void a_drafter_counts_what_its_verdicts_accept(void **state)
{
    (void)state;
    static counted c;
    begin(&c, PF_SERVICE_DRAFTER);
    pf_traffic_sequence s = { 0 };
    const pf_open open = { .n_tokens = 2 };
    pf_traffic_open(c.traffic, &s, &open, 0);
    judge(&c, &s, 4, 1);
    judge(&c, &s, 1, 64); /* a client may say anything */
    pf_traffic_totals t;
    pf_traffic_get(c.traffic, &t);
    assert_true(t.drafts == 2 && t.drafted == 5 && t.accepted == 2);
    assert_prints(&c, "pilotfish:passes_total{model_name=\"tiny\",engine=\"0\",role=\"drafter\"} 0\n");
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_count_when_they_are_judged_and_by_position),
        cmocka_unit_test(proposals_count_by_the_drafter_of_their_sequence),
        cmocka_unit_test(first_token_is_timed_from_the_open_and_the_rest_by_token),
        cmocka_unit_test(a_repaired_sequence_is_no_new_one_and_its_next_request_is),
        cmocka_unit_test(a_drafter_counts_what_its_verdicts_accept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
