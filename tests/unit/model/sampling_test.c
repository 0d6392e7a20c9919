#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "model/sampling/sampling.h"

enum { MAX_VOCAB = 256, MOST_WEIGHTS = 2000 };

static const pf_sampling plain = { .temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f };

static const pf_kernels *kernels(void)
{
    static pf_kernels selected;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &selected, NULL), PF_OK);
    return &selected;
}

static void distribution(const pf_sampling *sampling, const float *logits, int32_t n, float *probabilities)
{
    _Alignas(64) unsigned char scratch[MOST_WEIGHTS * 17];
    assert_true(pf_sampling_scratch_bytes(n) <= sizeof scratch);
    assert_int_equal(pf_sampling_distribution(sampling, kernels(), logits, n, probabilities, scratch), PF_OK);
}

/* ---- noise ----------------------------------------------------------------------------------------------------- */

static void philox_gives_the_known_answers_of_random123(void **state)
{
    (void)state;
    const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        uint32_t out[4];
        pf_noise_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].expected, sizeof out);
    }
}

static void noise_is_a_function_of_seed_domain_position_and_index_alone(void **state)
{
    (void)state;
    const float first = pf_noise_uniform(7, PF_NOISE_TARGET, 100, 9);
    assert_true(pf_noise_uniform(7, PF_NOISE_TARGET, 100, 9) == first);
    assert_true(pf_noise_uniform(8, PF_NOISE_TARGET, 100, 9) != first);
    assert_true(pf_noise_uniform((uint64_t)1 << 40 | 7, PF_NOISE_TARGET, 100, 9) != first);
    assert_true(pf_noise_uniform(7, PF_NOISE_DRAFT, 100, 9) != first);
    assert_true(pf_noise_uniform(7, PF_NOISE_ACCEPT, 100, 9) != first);
    assert_true(pf_noise_uniform(7, PF_NOISE_TARGET, 101, 9) != first);
    for (int32_t index = 0; index < 64; index++)
        if (index != 9) assert_true(pf_noise_uniform(7, PF_NOISE_TARGET, 100, index) != first);
}

static void uniforms_are_multiples_of_2_to_the_minus_24_in_zero_to_one(void **state)
{
    (void)state;
    double sum = 0.0;
    for (int32_t i = 0; i < 100000; i++) {
        const float u = pf_noise_uniform(1, PF_NOISE_ACCEPT, i, 0);
        assert_true(u >= 0.0f && u < 1.0f);
        assert_true(u * 0x1p24f == floorf(u * 0x1p24f));
        sum += (double)u;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.004); /* four sigma */
}

static void gumbel_noise_has_the_standard_mean_and_variance(void **state)
{
    (void)state;
    enum { N = 200000 };
    double sum = 0.0, squares = 0.0;
    for (int32_t i = 0; i < N; i++) {
        const double g = -log(pf_noise_exponential(3, PF_NOISE_TARGET, i / 1000, i % 1000));
        assert_true(isfinite(g));
        sum += g;
        squares += g * g;
    }
    const double mean = sum / N, variance = squares / N - mean * mean;
    assert_true(fabs(mean - 0.5772157) < 0.012);
    assert_true(fabs(variance - 1.6449341) < 0.03);
}

/* A draw wins by a small exponential: where the first 32 bits are nearly 0, more bits must tell two apart. */
static void the_small_end_of_the_noise_is_finer_than_one_word(void **state)
{
    (void)state;
    int32_t seen = 0;
    for (int32_t i = 0; i < 1000000; i++) {
        const double e = pf_noise_exponential(5, PF_NOISE_TARGET, 0, i);
        assert_true(e > 0.0 && isfinite(e));
        if (e >= 0x1p-17) continue;
        const double in_words = -expm1(-e) * 0x1p32;
        const double distance = fabs(in_words - floor(in_words) - 0.5);
        seen += distance > 0.01;
    }
    assert_true(seen > 0); /* about 7 are below 2^-17, and hardly any of them in the middle of a word's step */
}

/* Others on the wire draw the same: the formula of the header, where one block's word serves and where another is asked. */
static void an_open_unit_is_the_middle_of_its_step(void **state)
{
    (void)state;
    static const uint32_t words[] = { 0, 1, 0xFFFF, 0x10000, 0x10001, 0x80000000, 0xFFFFFFFF };
    for (int32_t index = 0; index < 8; index++) {
        uint32_t fine[PF_NOISE_BLOCK];
        pf_noise_block(6, PF_NOISE_DRAFT, 7, (uint32_t)index / 4, 1, fine);
        for (size_t i = 0; i < PF_COUNT(words); i++) {
            const double v = pf_noise_open_unit(words[i], 6, PF_NOISE_DRAFT, 7, index), word = (double)words[i];
            const double small = (double)fine[index % 4] + 0.5;
            assert_true(v == (words[i] < 0x10000 ? (word + small * 0x1p-32) * 0x1p-32 : (word + 0.5) * 0x1p-32));
        }
    }
}

static void derived_seeds_are_those_of_splitmix64(void **state)
{
    (void)state;
    assert_true(pf_noise_derive_seed(0, 0) == 0xE220A8397B1DCDAFu);
    assert_true(pf_noise_derive_seed(0, 1) == 0x6E789E6AA1B965F4u);
    assert_true(pf_noise_derive_seed(0, 2) == 0x06C45D188009454Fu);
}

/* ---- draws ----------------------------------------------------------------------------------------------------- */

enum { V = 16, TRIALS = 1000000 };

/* Weights over four orders of magnitude, two of them 0. */
static void make_probabilities(float p[V])
{
    double sum = 0.0;
    for (int i = 0; i < V; i++) {
        p[i] = i % 7 == 3 ? 0.0f : (float)exp(-0.6 * i);
        sum += (double)p[i];
    }
    for (int i = 0; i < V; i++) p[i] = (float)((double)p[i] / sum);
}

static double chi_square(const int32_t *counts, const float *p, int n)
{
    double chi = 0.0;
    for (int i = 0; i < n; i++) {
        const double expected = (double)p[i] * TRIALS;
        if (expected > 0.0) chi += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    }
    return chi;
}

static const double REJECT = 39.3; /* chi-square, 13 degrees of freedom, p = 0.0002 */

static void gumbel_draws_have_the_distribution_they_are_given(void **state)
{
    (void)state;
    float p[V];
    make_probabilities(p);
    int32_t counts[V] = { 0 };
    pf_exp_race_fn *race = kernels()->race;
    for (int32_t t = 0; t < TRIALS; t++) counts[race(p, V, 11, PF_NOISE_TARGET, t)]++;

    for (int i = 0; i < V; i++)
        if (p[i] == 0.0f) assert_int_equal(counts[i], 0);
    const double chi = chi_square(counts, p, V);
    if (chi > REJECT) fail_msg("chi-square %.1f, expected at most %.1f", chi, REJECT);

    /* The negative control: against the same weights rounded to 6 bits, the same test must object. */
    float rounded[V];
    double sum = 0.0;
    for (int i = 0; i < V; i++) {
        int exponent;
        const float mantissa = frexpf(p[i], &exponent);
        rounded[i] = ldexpf(roundf(mantissa * 64.0f) / 64.0f, exponent);
        sum += (double)rounded[i];
    }
    for (int i = 0; i < V; i++) rounded[i] = (float)((double)rounded[i] / sum);
    const double wrong = chi_square(counts, rounded, V);
    if (wrong < REJECT)
        fail_msg("chi-square %.1f: this test could not tell a rounded distribution from the right one", wrong);
}

static void a_gumbel_draw_is_the_argmax_of_log_p_plus_the_public_noise(void **state)
{
    (void)state;
    float p[MAX_VOCAB];
    for (int i = 0; i < MAX_VOCAB; i++) p[i] = i % 5 == 0 ? 0.0f : (float)(i % 17 + 1) / 2048.0f;
    pf_exp_race_fn *race = kernels()->race;
    for (int32_t position = 0; position < 2000; position++) {
        int32_t best = -1;
        double best_score = -INFINITY;
        for (int32_t i = 0; i < MAX_VOCAB; i++) {
            if (!(p[i] > 0.0f)) continue;
            const double score = log((double)p[i]) - log(pf_noise_exponential(2, PF_NOISE_DRAFT, position, i));
            if (score > best_score) {
                best_score = score;
                best = i;
            }
        }
        assert_int_equal(race(p, MAX_VOCAB, 2, PF_NOISE_DRAFT, position), best);
    }
}

/* ---- the few most probable ---------------------------------------------------------------------------------------- */

/* The entries of a distribution that come first by probability, then by id. */
static int32_t largest_entries(const float *p, int32_t n_vocab, int32_t max_entries, bool *is_in)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_vocab; i++) is_in[i] = false;
    for (; n < max_entries; n++) {
        int32_t best = -1;
        for (int32_t i = 0; i < n_vocab; i++)
            if (!is_in[i] && p[i] > 0.0f && (best < 0 || p[i] > p[best])) best = i;
        if (best < 0) break;
        is_in[best] = true;
    }
    return n;
}

/* A shortlist against the whole distribution, cut and divided by what is left of it. */
static void check_shortlist(const pf_sampling *sampling, const float *logits, int32_t n_vocab, int32_t max_entries)
{
    float p[MAX_VOCAB], room[MAX_VOCAB], values[MAX_VOCAB];
    int32_t ids[MAX_VOCAB], n;
    bool is_in[MAX_VOCAB];
    _Alignas(64) unsigned char scratch[MAX_VOCAB * 16];
    distribution(sampling, logits, n_vocab, p);
    const int32_t expected = largest_entries(p, n_vocab, max_entries, is_in);
    double mass = 0.0, sum = 0.0;
    for (int32_t i = 0; i < n_vocab; i++) mass += is_in[i] ? (double)p[i] : 0.0;
    assert_int_equal(
        pf_sampling_shortlist(sampling, kernels(), logits, n_vocab, max_entries, ids, values, &n, room, scratch),
        PF_OK);
    assert_int_equal(n, expected);
    for (int32_t i = 0, at = 0; i < n_vocab; i++) {
        if (!is_in[i]) continue;
        assert_int_equal(ids[at], i);
        assert_true(fabs((double)values[at] - (double)p[i] / mass) < 1e-6);
        sum += (double)values[at++];
    }
    assert_true(fabs(sum - 1.0) < 1e-6);
}

static float drawn(int32_t trial, int32_t use)
{
    return pf_noise_uniform(71, PF_NOISE_DRAFT, trial, use);
}

static void a_shortlist_is_the_top_of_the_distribution(void **state)
{
    (void)state;
    for (int32_t trial = 0; trial < 3000; trial++) {
        const int32_t n_vocab = 1 + (int32_t)(drawn(trial, 0) * (MAX_VOCAB - 16));
        float logits[MAX_VOCAB];
        for (int32_t i = 0; i < n_vocab; i++) logits[i] = 12.0f * drawn(trial, 10 + i) - 6.0f;
        if (trial % 5 == 0 && n_vocab > 2) logits[n_vocab / 2] = -INFINITY;
        if (trial % 7 == 0 && n_vocab > 2) logits[0] = NAN;
        const pf_sampling sampling = { .temperature = trial % 11 == 0 ? 0.0f : 0.05f + 2.0f * drawn(trial, 1),
                                       .top_k = trial % 2 ? (int32_t)(drawn(trial, 2) * 40) : 0,
                                       .top_p = trial % 3 ? 1.0f : 0.05f + 0.9f * drawn(trial, 3),
                                       .min_p = trial % 4 ? 0.0f : 0.5f * drawn(trial, 4),
                                       .typical_p = trial % 6 ? 0.0f : 0.05f + 0.9f * drawn(trial, 6) };
        check_shortlist(&sampling, logits, n_vocab, 1 + (int32_t)(drawn(trial, 5) * 70));
    }
}

static void a_shortlist_breaks_ties_by_id_and_has_no_empty_entries(void **state)
{
    (void)state;
    const float tied[] = { 1.0f, 0.0f, 1.0f, 0.0f }, far[] = { 0.0f, -3000.0f, 1.0f, -INFINITY };
    const float none[] = { NAN, -INFINITY, NAN, -INFINITY }, equal[] = { 1.0f, 1.0f, 1.0f, 1.0f };
    float room[4], values[4], scratch[64];
    int32_t ids[4], n;
    const pf_sampling two = { .temperature = 1.0f, .top_k = 2, .top_p = 1.0f };
    const pf_sampling two_of_most = { .temperature = 1.0f, .top_k = 2, .top_p = 0.99f };
    const pf_sampling greedy = { .temperature = 0.0f, .top_p = 1.0f };
    const pf_sampling alike = { .temperature = 1.0f, .top_p = 1.0f, .min_p = 1.0f };
    const int32_t lowest[] = { 0, 1, 2 };
    assert_true(pf_sampling_scratch_bytes(4) <= sizeof scratch);
    assert_int_equal(pf_sampling_shortlist(&plain, kernels(), tied, 4, 3, ids, values, &n, room, scratch), PF_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(ids, lowest, sizeof lowest);
    assert_int_equal(pf_sampling_shortlist(&two, kernels(), tied, 4, 3, ids, values, &n, room, scratch), PF_OK);
    assert_int_equal(n, 2);
    assert_int_equal(pf_sampling_shortlist(&two_of_most, kernels(), equal, 4, 4, ids, values, &n, room, scratch),
                     PF_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ids[1], 1);
    assert_int_equal(pf_sampling_shortlist(&greedy, kernels(), tied, 4, 4, ids, values, &n, room, scratch), PF_OK);
    assert_int_equal(n, 1);
    assert_true(ids[0] == 0 && values[0] == 1.0f);
    assert_int_equal(pf_sampling_shortlist(&alike, kernels(), tied, 4, 4, ids, values, &n, room, scratch), PF_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ids[1], 2);
    assert_int_equal(pf_sampling_shortlist(&plain, kernels(), far, 4, 4, ids, values, &n, room, scratch), PF_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ids[1], 2);
    assert_int_equal(pf_sampling_shortlist(&plain, kernels(), none, 4, 4, ids, values, &n, room, scratch), PF_INTERNAL);
}

static void an_entry_is_drawn_in_proportion_to_its_value(void **state)
{
    (void)state;
    const float values[] = { 0.5f, 0.25f, 0.0f, 0.25f };
    assert_int_equal(pf_sampling_draw_entry(values, 4, 0.0f), 0);
    assert_int_equal(pf_sampling_draw_entry(values, 4, 0.499999f), 0);
    assert_int_equal(pf_sampling_draw_entry(values, 4, 0.5f), 1);
    assert_int_equal(pf_sampling_draw_entry(values, 4, 0.75f), 3);
    assert_int_equal(pf_sampling_draw_entry(values, 4, 0.9999999f), 3);
    const float short_of_one[] = { 0.5f, 0.4999f };
    assert_int_equal(pf_sampling_draw_entry(short_of_one, 2, 0.9999999f), 1);
    const float and_nothing[] = { 0.5f, 0.4999f, 0.0f };
    assert_int_equal(pf_sampling_draw_entry(and_nothing, 3, 0.9999999f), 1);

    enum { N_SMALL = 1000 }; /* too small to be added to a half as floats */
    float many[N_SMALL + 2] = { [0] = 0.5f, [N_SMALL + 1] = 0.5f - N_SMALL * 0x1p-26f };
    for (int32_t i = 1; i <= N_SMALL; i++) many[i] = 0x1p-26f;
    assert_int_equal(pf_sampling_draw_entry(many, N_SMALL + 2, 0.5f + 500 * 0x1p-26f), 501);
}

/* ---- the distribution ------------------------------------------------------------------------------------------ */

static double number(const json_t *object, const char *field)
{
    return json_number_value(json_object_get(object, field));
}

static int32_t kept_among_equals(const float *logits, const float *probabilities, int32_t n, int32_t token)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++) kept += logits[i] == logits[token] && probabilities[i] > 0.0f;
    return kept;
}

static void filters_give_what_transformers_warpers_give(void **state)
{
    (void)state;
    pf_json doc = { 0 };
    pf_error error;
    if (pf_json_open("tests/golden/sampling/warpers.json", 1 << 20, &doc, &error) != PF_OK) fail_msg("%s", error.text);
    const json_t *cases = json_object_get(doc.root, "cases");
    assert_true(json_array_size(cases) >= 80);

    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *item = json_array_get(cases, c);
        const pf_sampling sampling = {
            .temperature = (float)number(item, "temperature"),
            .top_k = (int32_t)number(item, "top_k"),
            .top_p = (float)number(item, "top_p"),
            .min_p = (float)number(item, "min_p"),
            .typical_p = (float)number(item, "typical_p"),
        };
        assert_int_equal(pf_sampling_check(&sampling, NULL), PF_OK);
        const json_t *logits_json = json_object_get(item, "logits");
        const json_t *expected = json_object_get(item, "probabilities");
        const int32_t n = (int32_t)json_array_size(logits_json);
        assert_in_range(n, 2, MAX_VOCAB);
        float logits[MAX_VOCAB], probabilities[MAX_VOCAB], wanted[MAX_VOCAB];
        for (int32_t i = 0; i < n; i++) {
            logits[i] = (float)json_number_value(json_array_get(logits_json, (size_t)i));
            wanted[i] = (float)json_number_value(json_array_get(expected, (size_t)i));
        }
        distribution(&sampling, logits, n, probabilities);
        for (int32_t i = 0; i < n; i++) {
            const bool differs =
                probabilities[i] > 0.0f && wanted[i] > 0.0f && fabsf(probabilities[i] - wanted[i]) > 1e-6f;
            /* Which of equal logits are in is not transformers' to say; how many, and with what share, is. */
            if (differs || kept_among_equals(logits, probabilities, n, i) != kept_among_equals(logits, wanted, n, i))
                fail_msg("case %zu (%s, T %g, k %d, p %g, min %g, typical %g), token %d: %.9g, expected %.9g", c,
                         json_string_value(json_object_get(item, "name")), (double)sampling.temperature, sampling.top_k,
                         (double)sampling.top_p, (double)sampling.min_p, (double)sampling.typical_p, i,
                         (double)probabilities[i], (double)wanted[i]);
        }
    }
    pf_json_close(&doc);
}

static void top_k_counts_logits_that_differ_where_their_weights_do_not(void **state)
{
    (void)state;
    const float near[] = { 1.0f, 2.0f, NAN, 3.0f }, far[] = { 20.0f, 1e-8f, 2e-8f, 0.0f };
    const float two_of_near[] = { 0.0f, 0.5f, 0.0f, 0.5f };
    pf_sampling two = { .temperature = 1e30f, .top_k = 2, .top_p = 1.0f };
    float p[4];
    distribution(&two, near, 4, p);
    assert_memory_equal(p, two_of_near, sizeof p);
    two.temperature = 1.0f;
    distribution(&two, far, 4, p);
    assert_true(p[0] > 0.0f && p[1] == 0.0f && p[2] > 0.0f && p[3] == 0.0f);
}

static void temperature_zero_is_one_hot_at_the_lowest_of_the_best(void **state)
{
    (void)state;
    const float logits[] = { -1.0f, 3.0f, NAN, 3.0f, -INFINITY };
    const pf_sampling greedy = { .temperature = 0.0f, .top_k = 3, .top_p = 0.5f };
    float p[5];
    distribution(&greedy, logits, 5, p);
    const float expected[] = { 0.0f, 1.0f, 0.0f, 0.0f, 0.0f };
    assert_memory_equal(p, expected, sizeof p);
}

static void nan_and_minus_infinity_are_never_kept(void **state)
{
    (void)state;
    const float logits[] = { NAN, 1.0f, -INFINITY, 1.0f, -NAN };
    const float expected[] = { 0.0f, 0.5f, 0.0f, 0.5f, 0.0f };
    float p[5];
    distribution(&plain, logits, 5, p);
    for (int i = 0; i < 5; i++) assert_true(p[i] == expected[i]);

    const float hopeless[] = { NAN, -INFINITY };
    const pf_sampling greedy = { .temperature = 0.0f, .top_p = 1.0f };
    unsigned char scratch[64];
    assert_int_equal(pf_sampling_distribution(&plain, kernels(), hopeless, 2, p, scratch), PF_INTERNAL);
    assert_int_equal(pf_sampling_distribution(&greedy, kernels(), hopeless, 2, p, scratch), PF_INTERNAL);
}

static void extreme_temperatures_give_a_distribution(void **state)
{
    (void)state;
    const float logits[] = { 1e38f, -3e38f, 3e38f, 0.0f };
    const float temperatures[] = { 1e-45f, 1e-20f, 1.0f, 3e38f };
    for (size_t t = 0; t < 4; t++) {
        pf_sampling sampling = plain;
        sampling.temperature = temperatures[t];
        float p[4];
        distribution(&sampling, logits, 4, p);
        double sum = 0.0;
        for (int i = 0; i < 4; i++) {
            assert_true(p[i] >= 0.0f && p[i] <= 1.0f);
            sum += (double)p[i];
        }
        assert_true(fabs(sum - 1.0) < 1e-6);
        assert_true(p[2] >= p[0] && p[2] >= p[3]);
    }
}

/* The nucleus of any weights against its definition: sort, add up, stop. */
static void check_nucleus(const float *logits, int32_t n, float top_p)
{
    float p[MOST_WEIGHTS], full[MOST_WEIGHTS];
    pf_sampling sampling = plain;
    sampling.top_p = top_p;
    distribution(&plain, logits, n, full);
    distribution(&sampling, logits, n, p);
    for (int32_t i = 0; i < n; i++) {
        double ahead =
            0.0; /* mass of what ranks before token i; equal weights: the larger logit first, then the lower id */
        for (int32_t j = 0; j < n; j++) {
            const bool first = logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
            if (full[j] > full[i] || (full[j] == full[i] && first)) ahead += (double)full[j];
        }
        if (fabs(ahead - (double)top_p) < 1e-6) continue; /* rounding may decide either way */
        assert_int_equal(p[i] > 0.0f, ahead < (double)top_p);
    }
}

static void the_nucleus_is_the_shortest_prefix_of_the_sorted_weights(void **state)
{
    (void)state;
    srand(4);
    float logits[MOST_WEIGHTS];
    for (int trial = 0; trial < 2000; trial++) {
        const int32_t n = 1 + rand() % 40;
        for (int32_t i = 0; i < n; i++)
            logits[i] = (float)(rand() % (trial % 2 ? 5 : 1000)) * 0.01f; /* every other trial full of ties */
        check_nucleus(logits, n, (float)(1 + rand() % 99) / 100.0f);
    }
    /* Weights of many magnitudes, of one that all but share their leading bits, and of few values. */
    static const float spreads[] = { 40.0f, 1e-4f, 3e-6f };
    for (int trial = 0; trial < 60; trial++) {
        const int32_t n = 500 + rand() % (MOST_WEIGHTS - 500);
        for (int32_t i = 0; i < n; i++) logits[i] = (float)rand() / (float)RAND_MAX * spreads[trial % 3];
        check_nucleus(logits, n, trial % 5 == 0 ? 0.9999f : (float)(1 + rand() % 99) / 100.0f);
    }
    /* About 2^-10 each: half of them share all their bits but the last, and those of some are 0. */
    for (int32_t i = 0; i < 1024; i++) logits[i] = (float)rand() / (float)RAND_MAX * 3e-6f;
    for (int percent = 1; percent < 100; percent++) check_nucleus(logits, 1024, (float)percent / 100.0f);
}

static void a_nucleus_of_equal_weights_has_the_largest_logits(void **state)
{
    (void)state;
    const float logits[] = { 1.0f, 3.0f, NAN, 2.0f, 3.0f, -INFINITY, 3.0f }, best[] = { 0, 0.5f, 0, 0, 0.5f, 0, 0 };
    float p[7];
    distribution(&(pf_sampling){ .temperature = 1e30f, .top_p = 0.39f }, logits, 7, p);
    assert_memory_equal(p, best, sizeof p);
    distribution(&(pf_sampling){ .temperature = 1e30f, .top_p = 0.39f, .top_k = 4 }, logits, 7,
                 p); /* of four weights */
    assert_memory_equal(p, best, sizeof p);
}

/* |-log p - H| of weights [n], in nats; infinity for weights of 0. */
static void define_distances(const float *weights, int32_t n, double *distances)
{
    double sum = 0.0, entropy = 0.0;
    for (int32_t i = 0; i < n; i++) sum += (double)weights[i];
    for (int32_t i = 0; i < n; i++)
        if (weights[i] > 0.0f) entropy -= (double)weights[i] / sum * log((double)weights[i] / sum);
    for (int32_t i = 0; i < n; i++)
        distances[i] = weights[i] > 0.0f ? fabs(-log((double)weights[i] / sum) - entropy) : (double)INFINITY;
}

/* The typical set against its definition: sort by the distance to the entropy, add up, stop. */
static void check_typical(const pf_sampling *before, const float *logits, int32_t n, float typical_p)
{
    float p[MOST_WEIGHTS], full[MOST_WEIGHTS];
    double distances[MOST_WEIGHTS];
    pf_sampling sampling = *before;
    sampling.typical_p = typical_p;
    distribution(before, logits, n, full);
    distribution(&sampling, logits, n, p);
    define_distances(full, n, distances);
    double kept = 0.0, sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        double nearer = 0.0, as_near = 0.0; /* mass of what is clearly nearer than token i, and of what may be */
        for (int32_t j = 0; j < n; j++) {
            if (distances[j] < distances[i] - 1e-5) nearer += (double)full[j];
            if (distances[j] < distances[i] + 1e-5) as_near += (double)full[j];
        }
        if (full[i] == 0.0f || nearer > (double)typical_p + 1e-5) assert_true(p[i] == 0.0f);
        if (full[i] > 0.0f && as_near < (double)typical_p - 1e-5) assert_true(p[i] > 0.0f);
        kept += p[i] > 0.0f ? (double)full[i] : 0.0;
        sum += (double)p[i];
    }
    assert_true(kept >= (double)typical_p - 1e-5);
    assert_true(fabs(sum - 1.0) < 1e-6);
    for (int32_t i = 0; i < n; i++)
        if (p[i] > 0.0f) assert_true(fabs((double)p[i] - (double)full[i] / kept) < 1e-6);
}

static void the_typical_set_is_nearest_to_the_entropy(void **state)
{
    (void)state;
    static const float spreads[] = { 40.0f, 4.0f, 0.5f, 1e-4f };
    srand(6);
    float logits[MOST_WEIGHTS];
    for (int trial = 0; trial < 1200; trial++) {
        const int32_t n = trial % 100 == 0 ? MOST_WEIGHTS : 1 + rand() % 40;
        const pf_sampling before = { .temperature = trial % 3 ? 1.0f : 0.3f + (float)(trial % 7),
                                     .top_k = trial % 5 ? 0 : 7,
                                     .top_p = trial % 7 ? 0.0f : 0.8f };
        for (int32_t i = 0; i < n; i++)
            logits[i] = trial % 2 ? (float)(rand() % 5) : (float)rand() / (float)RAND_MAX * spreads[trial / 2 % 4];
        if (trial % 11 == 0 && n > 2) logits[1] = NAN, logits[2] = -INFINITY;
        check_typical(&before, logits, n, (float)(1 + rand() % 99) / 100.0f);
    }
}

static void the_likeliest_token_may_be_untypical(void **state)
{
    (void)state;
    /* p = 0.4 and 0.1 six times, H = 1.75 nats: -log 0.1 is 0.55 from it, -log 0.4 is 0.83 */
    const float logits[] = { 1.3862944f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f };
    pf_sampling sampling = plain;
    float p[7];
    sampling.typical_p = 0.5f;
    distribution(&sampling, logits, 7, p);
    assert_true(p[0] == 0.0f);
    for (int32_t i = 1; i < 7; i++) assert_true(fabsf(p[i] - 1.0f / 6.0f) < 1e-6f);
    sampling.typical_p = 0.7f;
    distribution(&sampling, logits, 7, p);
    assert_true(fabsf(p[0] - 0.4f) < 1e-6f);
}

static void extreme_logits_have_a_typical_set(void **state)
{
    (void)state;
    const pf_sampling sampling = { .temperature = 1.0f, .typical_p = 0.5f };
    const float infinite[] = { 1.0f, INFINITY, INFINITY, NAN }, far[] = { 3e38f, -3e38f, NAN, -INFINITY };
    const float shared[] = { 0.0f, 0.5f, 0.5f, 0.0f }, one[] = { 1.0f, 0.0f, 0.0f, 0.0f };
    pf_sampling hot = sampling;
    float p[4];
    distribution(&sampling, infinite, 4, p);
    assert_memory_equal(p, shared, sizeof p);
    distribution(&sampling, far, 4, p);
    assert_memory_equal(p, one, sizeof p);
    hot.temperature = 1e38f;
    distribution(&hot, (const float[]){ 1.0f, 2.0f, 3.0f, 4.0f }, 4, p);
    for (int32_t i = 0; i < 4; i++) assert_true(p[i] == 0.25f);
    hot.temperature = 1e-38f;
    distribution(&hot, (const float[]){ 4.0f, 2.0f, 3.0f, 1.0f }, 4, p);
    assert_memory_equal(p, one, sizeof p);
}

static void a_set_with_exactly_the_mass_top_p_is_enough(void **state)
{
    (void)state;
    const float equal[] = { 1.0f, 1.0f, 1.0f, 1.0f }, halves[] = { 0.5f, 0.5f, 0.0f, 0.0f };
    pf_sampling sampling = plain;
    float p[4];
    sampling.top_p = 0.5f;
    distribution(&sampling, equal, 4, p);
    assert_memory_equal(p, halves, sizeof p);

    const float one[] = { 1.0f, 0.0f, 0.0f, 0.0f };
    sampling.top_p = 0x1p-149f; /* hardly anything: the first of the best */
    distribution(&sampling, equal, 4, p);
    assert_memory_equal(p, one, sizeof p);

    int32_t n_exact = 0;
    for (int step = 1; step < 200; step++) {
        const float two[] = { 0.0f, (float)step / 50.0f };
        distribution(&plain, two, 2, p);
        if ((double)p[0] + (double)p[1] != 1.0) continue;
        sampling.top_p = p[1];
        distribution(&sampling, two, 2, p);
        assert_true(p[0] == 0.0f && p[1] == 1.0f);
        n_exact++;
    }
    assert_true(n_exact > 20);
}

static void a_large_vocabulary_sums_to_one_more_closely_than_floats_add_up(void **state)
{
    (void)state;
    enum { N = 150000 };
    pf_sampling sampling = plain;
    sampling.min_p = 1e-4f; /* keeps nearly all, which are then made to sum to 1 */
    float *logits = malloc(N * sizeof *logits), *p = malloc(N * sizeof *p);
    void *scratch = malloc(pf_sampling_scratch_bytes(N));
    for (int32_t i = 0; i < N; i++) logits[i] = pf_noise_uniform(9, PF_NOISE_DRAFT, 0, i);
    assert_int_equal(pf_sampling_distribution(&sampling, kernels(), logits, N, p, scratch), PF_OK);
    double sum = 0.0;
    for (int32_t i = 0; i < N; i++) sum += (double)p[i];
    assert_true(fabs(sum - 1.0) < 1e-8);
    free(logits);
    free(p);
    free(scratch);
}

static void parameters_out_of_range_are_named(void **state)
{
    (void)state;
    struct {
        pf_sampling sampling;
        const char *name;
    } cases[] = {
        { { .temperature = -1.0f, .top_p = 1.0f }, "temperature" },
        { { .temperature = NAN, .top_p = 1.0f }, "temperature" },
        { { .temperature = INFINITY, .top_p = 1.0f }, "temperature" },
        { { .top_k = -1, .top_p = 1.0f }, "top_k" },
        { { .top_p = -0.01f }, "top_p" },
        { { .top_p = 1.01f }, "top_p" },
        { { .top_p = NAN }, "top_p" },
        { { .top_p = 1.0f, .min_p = -0.1f }, "min_p" },
        { { .top_p = 1.0f, .min_p = 1.5f }, "min_p" },
        { { .typical_p = -0.1f }, "typical_p" },
        { { .typical_p = 1.5f }, "typical_p" },
        { { .typical_p = NAN }, "typical_p" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_error error;
        assert_int_equal(pf_sampling_check(&cases[i].sampling, &error), PF_INVALID);
        assert_non_null(strstr(error.text, cases[i].name));
    }
    assert_int_equal(pf_sampling_check(&plain, NULL), PF_OK);
}

static void a_zero_is_off_and_all_zero_is_greedy(void **state)
{
    (void)state;
    const float logits[] = { 0.5f, 2.0f, 1.0f };
    const float best[] = { 0.0f, 1.0f, 0.0f };
    const pf_sampling zero = { 0 }, warm = { .temperature = 1.0f };
    float p[3], expected[3];
    assert_int_equal(pf_sampling_check(&zero, NULL), PF_OK);
    distribution(&zero, logits, 3, p);
    assert_memory_equal(p, best, sizeof p);
    assert_int_equal(pf_sampling_check(&warm, NULL), PF_OK);
    distribution(&warm, logits, 3, p);
    distribution(&plain, logits, 3, expected);
    assert_memory_equal(p, expected, sizeof p);

    enum { N = 1000 };
    float many[N], off[N], one[N];
    for (int32_t i = 0; i < N; i++) many[i] = -0.1f * (float)i;
    distribution(&warm, many, N, off);
    distribution(&plain, many, N, one); /* a top_p of 1 is off, too: no tail is lost to rounding */
    assert_memory_equal(one, off, sizeof one);
    assert_true(one[N - 1] > 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers_of_random123),
        cmocka_unit_test(noise_is_a_function_of_seed_domain_position_and_index_alone),
        cmocka_unit_test(uniforms_are_multiples_of_2_to_the_minus_24_in_zero_to_one),
        cmocka_unit_test(gumbel_noise_has_the_standard_mean_and_variance),
        cmocka_unit_test(the_small_end_of_the_noise_is_finer_than_one_word),
        cmocka_unit_test(an_open_unit_is_the_middle_of_its_step),
        cmocka_unit_test(derived_seeds_are_those_of_splitmix64),
        cmocka_unit_test(gumbel_draws_have_the_distribution_they_are_given),
        cmocka_unit_test(a_gumbel_draw_is_the_argmax_of_log_p_plus_the_public_noise),
        cmocka_unit_test(a_shortlist_is_the_top_of_the_distribution),
        cmocka_unit_test(a_shortlist_breaks_ties_by_id_and_has_no_empty_entries),
        cmocka_unit_test(an_entry_is_drawn_in_proportion_to_its_value),
        cmocka_unit_test(filters_give_what_transformers_warpers_give),
        cmocka_unit_test(top_k_counts_logits_that_differ_where_their_weights_do_not),
        cmocka_unit_test(temperature_zero_is_one_hot_at_the_lowest_of_the_best),
        cmocka_unit_test(nan_and_minus_infinity_are_never_kept),
        cmocka_unit_test(extreme_temperatures_give_a_distribution),
        cmocka_unit_test(the_nucleus_is_the_shortest_prefix_of_the_sorted_weights),
        cmocka_unit_test(a_nucleus_of_equal_weights_has_the_largest_logits),
        cmocka_unit_test(the_typical_set_is_nearest_to_the_entropy),
        cmocka_unit_test(the_likeliest_token_may_be_untypical),
        cmocka_unit_test(extreme_logits_have_a_typical_set),
        cmocka_unit_test(a_set_with_exactly_the_mass_top_p_is_enough),
        cmocka_unit_test(a_large_vocabulary_sums_to_one_more_closely_than_floats_add_up),
        cmocka_unit_test(parameters_out_of_range_are_named),
        cmocka_unit_test(a_zero_is_off_and_all_zero_is_greedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
