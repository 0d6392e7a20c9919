/* A drafter of many sequences, whose rows are drawn by a team: each member its share, and no more members than have memory
 * for it. What is proposed and declared is what one thread draws. */
#include "draft/model_drafter.h"
#include "model/backend/cpu_backend.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"
#include "tests/support/tiny_side.h"

enum { N_SEQUENCES = 12, N_DRAFTED = 4, N_DECLARED = 16, N_ROUNDS = 3 };

static const pf_tiny_model MODEL = { .seed = 41, .vocab = 200 };

/* What N_ROUNDS rounds of all sequences gave. */
typedef struct {
    int32_t tokens[N_ROUNDS][N_SEQUENCES][N_DRAFTED];
    int32_t ids[N_ROUNDS][N_SEQUENCES][N_DRAFTED][N_DECLARED];
    float probabilities[N_ROUNDS][N_SEQUENCES][N_DRAFTED][N_DECLARED];
} drafted;

static void keep(const pf_batch *answer, int32_t round, drafted *out)
{
    assert_int_equal(answer->n_proposals, N_SEQUENCES);
    for (int32_t i = 0; i < N_SEQUENCES; i++) {
        const pf_proposal *p = &answer->proposals[i];
        const size_t s = (size_t)p->sequence - 1;
        assert_int_equal(p->n_tokens, N_DRAFTED);
        memcpy(out->tokens[round][s], p->tokens, sizeof out->tokens[round][s]);
        for (int32_t j = 0; j < N_DRAFTED; j++) {
            assert_int_equal(p->declared[j].n, N_DECLARED);
            memcpy(out->ids[round][s][j], p->declared[j].ids, sizeof out->ids[round][s][j]);
            memcpy(out->probabilities[round][s][j], p->declared[j].probabilities,
                   sizeof out->probabilities[round][s][j]);
        }
    }
}

static void draft(int32_t n_threads, drafted *out)
{
    const pf_context_config context = { .max_sequences = N_SEQUENCES + 1 };
    pf_tiny_side side = pf_tiny_side_open(&MODEL, n_threads, &context);
    const pf_model_drafter_config config = { .max_sequences = N_SEQUENCES, .max_draft = N_DRAFTED, .seed = 1 };
    pf_error error = { 0 };
    pf_peer *drafter;
    assert_ok(pf_model_drafter_create(pf_cpu_backend(side.context), &config, &drafter, &error), error);
    pf_open opens[N_SEQUENCES];
    pf_verdict verdicts[N_SEQUENCES];
    int32_t committed[N_SEQUENCES];
    for (int32_t round = 0; round < N_ROUNDS; round++) {
        for (int32_t s = 0; s < N_SEQUENCES; s++) {
            opens[s] = near_peer_open((uint64_t)s + 1);
            opens[s].method = PF_METHOD_REJECTION;
            opens[s].sampling = (pf_sampling){ .temperature = 1.5f, .top_p = 1.0f };
            opens[s].max_declared = N_DECLARED;
            committed[s] = 70 + s;
            verdicts[s] = (pf_verdict){ .sequence = (uint64_t)s + 1,
                                        .incarnation = 1,
                                        .round = (uint64_t)round,
                                        .base = N_PROMPT + round,
                                        .tokens = &committed[s],
                                        .n_tokens = 1 };
        }
        keep(near_peer_ask(drafter, (pf_batch){ .opens = opens,
                                                .n_opens = round == 0 ? N_SEQUENCES : 0,
                                                .verdicts = verdicts,
                                                .n_verdicts = N_SEQUENCES }),
             round, out);
    }
    pf_peer_destroy(drafter);
    pf_tiny_side_close(&side);
}

static void tokens_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    static drafted alone, together;
    draft(1, &alone);
    for (int32_t n_threads = 2; n_threads <= 10; n_threads += 4) { /* 10: more than have memory to draw */
        draft(n_threads, &together);
        assert_memory_equal(&together, &alone, sizeof alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tokens_do_not_depend_on_the_number_of_threads) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
