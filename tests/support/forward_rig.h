/*
 * A random model on a team of threads, and the claims of row invariance and exact rollback about it: each computes the logits of
 * one text in another way than plainly, one token a pass, and compares bits.
 */
#ifndef PF_TESTS_SUPPORT_FORWARD_RIG_H
#define PF_TESTS_SUPPORT_FORWARD_RIG_H

#include "model/forward/pass.h"
#include "tests/support/test.h"

enum { RIG_TEXT = 75, RIG_ROWS = 80, RIG_TOKENS = 160, RIG_SEQUENCES = 6 };

/* A model on a team, ready to run. */
typedef struct {
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_kv *kv;
    int32_t n_vocab;
} rig;

/* Loads the model of a directory; options.team is set here. */
void rig_open(rig *r, const char *directory, pf_model_options options, int32_t n_threads);
void tear_down(rig *r);

/* Token i of a text, and all of it. */
int32_t text_token(const rig *r, int32_t text, int32_t i);
void make_text(const rig *r, int32_t text, int32_t tokens[RIG_TEXT]);

pf_kv_seq acquire(const rig *r);

/* Feeds tokens [begin, end) in one pass, and copies the logits of all its rows to out [end - begin, n_vocab]. */
void feed(rig *r, pf_kv_seq seq, const int32_t *tokens, int32_t begin, int32_t end, float *out);

/* [RIG_TEXT, n_vocab]; of text 0, one token a pass. The caller frees them. */
float *new_logits(const rig *r);
float *plain_logits(rig *r);

void assert_same_logits(const rig *r, const float *a, const float *b, int32_t begin, int32_t end, const char *how);

/* A pass of `head` tokens, then passes of `step`; and several of these. */
void compare_cut(rig *r, const float *plain, int32_t head, int32_t step);
void compare_cuts(rig *r, const float *plain);

/* Four sequences side by side, in spans of changing sizes, the text in question somewhere among them. */
void compare_in_company(rig *r, const float *plain);

/* Rollbacks at several points, then forks. */
void compare_after_detours(rig *r, const float *plain);

/* Trees behind several lengths of the text, of which the true path is kept. */
void compare_trees(rig *r, const float *plain);

#endif
