/*
 * Decides whether a key of config.json that this engine does not read could change the logits.
 *
 * No list of harmless keys is ever complete, so the decision is made by the look of a key and by its value. A key that looks
 * like arithmetic (scaling, masking, rotation, normalisation, experts, ...) may only have a value that switches it off. Any
 * other key may hold texts, lists of names, false, or nothing; a number or `true` only where its name says that it is about
 * sizes of batches, training or the origin of the file. Internal to model/.
 */
#ifndef PF_MODEL_UNKNOWN_KEYS_H
#define PF_MODEL_UNKNOWN_KEYS_H

#include <jansson.h>
#include <stdbool.h>

/* `root`: the object that has the key; some values are harmless beside others (a window that use_sliding_window switches
 * off). The key is none that is read, and its value is not null. */
bool pf_config_may_ignore(const json_t *root, const char *key, const json_t *value);

/* The same for generation_config.json, of which only the ids that end a text are read: false where greedy decoding by
 * transformers would give another text. Temperature, top-k and top-p are the caller's options and do not count. */
bool pf_generation_may_ignore(const char *key, const json_t *value);

#endif
