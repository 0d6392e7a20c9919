/* Compares the names in a directory with the forms in which models are published. */
#include "model/config/model_directory.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* A form of a model that is not read. The table is in order of precedence. */
typedef struct {
    const char *pattern; /* of file names */
    const char *remedy;  /* the rest of the sentence that begins with the file name */
} form;

static const form FORMS[] = {
    { "adapter_config.json", "is that of a LoRA adapter and not of a model: merge it into its base model with peft, "
                             "merge_and_unload().save_pretrained(OUT)" },
    { "adapter_model.*", "is a LoRA adapter and not a model: merge it into its base model with peft, "
                         "merge_and_unload().save_pretrained(OUT)" },
    { "*.gguf", "is GGUF: give the path of the file itself" },
    { "consolidated*.safetensors",
      "has the names of Mistral's own format: take the files that transformers reads, model*.safetensors" },
    { "consolidated*.pth",
      "is Meta's own format: transformers' convert_llama_weights_to_hf.py makes safetensors of it" },
    { "pytorch_model*.bin", "is PyTorch's format, and only safetensors are read: transformers converts it, "
                            "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(OUT)" },
    { "tf_model*.h5", "is TensorFlow's format, and only safetensors are read: transformers 4 converts it, "
                      "AutoModelForCausalLM.from_pretrained(DIR, from_tf=True).save_pretrained(OUT)" },
    { "flax_model*.msgpack", "is Flax's format, and only safetensors are read: transformers 4 converts it, "
                             "AutoModelForCausalLM.from_pretrained(DIR, from_flax=True).save_pretrained(OUT)" },
    { "*.onnx", "is ONNX, and only safetensors are read: take the model that it was made of" },
    { "onnx", "is a folder for ONNX, and only safetensors are read: take the model that it was made of" },
    { "openvino_model.*", "is OpenVINO's format, and only safetensors are read: take the model that it was made of" },
    { "rust_model.ot", "is rust-bert's format, and only safetensors are read: take the model that it was made of" },
    { "*.pt", "is PyTorch's format, and only safetensors are read: load it in PyTorch and save_pretrained(OUT)" },
    { "*.pth", "is PyTorch's format, and only safetensors are read: load it in PyTorch and save_pretrained(OUT)" },
    { "*.ckpt", "is PyTorch's format, and only safetensors are read: load it in PyTorch and save_pretrained(OUT)" },
    { "*.bin", "is no safetensors file, and only these are read: load it in PyTorch and save_pretrained(OUT)" },
    { "*.npz", "is NumPy's or MLX's format, and only safetensors are read: take the model that it was made of" },
};
enum { N_FORMS = sizeof FORMS / sizeof *FORMS, MAX_SHOWN = 5, NAME_BYTES = 64 };

typedef struct {
    int form;                     /* of FORMS, the first that matches; N_FORMS: none */
    char of_form[NAME_BYTES];     /* a file of it */
    char weights[NAME_BYTES];     /* a safetensors file, or "" */
    char model_below[NAME_BYTES]; /* a folder with a config.json, or "" */
    char unfinished[NAME_BYTES];  /* a download that was cut short, or "" */
    bool has_tokenizer;
    bool is_cache; /* of huggingface_hub: refs, snapshots */
    int32_t n_names;
    char shown[MAX_SHOWN * NAME_BYTES];
} survey;

static bool matches(const char *name, const char *pattern)
{
    return fnmatch(pattern, name, 0) == 0;
}

static void keep(char out[NAME_BYTES], const char *name)
{
    if (out[0] == '\0' || strcmp(name, out) < 0)
        snprintf(out, NAME_BYTES, "%s", name); /* the first in alphabetical order */
}

static bool has_config(const char *directory, const char *name)
{
    char path[PF_FILE_PATH_BYTES], below[PF_FILE_PATH_BYTES];
    return pf_file_join(directory, name, path, NULL) == PF_OK &&
           pf_file_join(path, "config.json", below, NULL) == PF_OK && !pf_file_is_absent(below);
}

static void look_at_name(survey *s, const char *directory, const char *name)
{
    s->n_names++;
    for (int i = 0; i <= s->form && i < N_FORMS; i++) {
        if (!matches(name, FORMS[i].pattern)) continue;
        if (i < s->form) s->of_form[0] = '\0';
        s->form = i;
        keep(s->of_form, name);
        break;
    }
    if (matches(name, "*.safetensors")) keep(s->weights, name);
    if (matches(name, "*.incomplete") || matches(name, "*.part") || matches(name, "*.aria2")) keep(s->unfinished, name);
    if (matches(name, "tokenizer*") || matches(name, "*.tiktoken") || matches(name, "vocab.*")) s->has_tokenizer = true;
    if (strcmp(name, "snapshots") == 0) s->is_cache = true;
    if (has_config(directory, name)) keep(s->model_below, name);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* False: the directory cannot be listed. */
static bool look(const char *directory, survey *out)
{
    struct dirent **names;
    const int n = scandir(directory, &names, is_shown, compare_names);
    if (n < 0) return false;
    *out = (survey){ .form = N_FORMS };
    for (int i = 0; i < n; i++) {
        char shown[NAME_BYTES];
        look_at_name(out, directory, names[i]->d_name);
        snprintf(shown, sizeof shown, "%s", names[i]->d_name);
        if (i < MAX_SHOWN) pf_list_word(out->shown, sizeof out->shown, ", ", shown);
        free(names[i]);
    }
    free(names);
    return true;
}

/* Describes the contents for the end of the sentence. True: they are a model in another form. */
static bool describe(const survey *s, bool lacks_config, char *out, size_t capacity)
{
    if (s->form < N_FORMS && !(lacks_config && s->weights[0] != '\0' && s->form > 1))
        return snprintf(out, capacity, "%s %s", s->of_form, FORMS[s->form].remedy) > 0;
    if (s->n_names == 0)
        snprintf(out, capacity, "the directory is empty");
    else if (s->is_cache)
        snprintf(out, capacity,
                 "it is a folder of the Hugging Face cache: give the folder below snapshots/, or org/name");
    else if (s->unfinished[0] != '\0')
        snprintf(out, capacity, "%s is a download that was cut short: download the model again", s->unfinished);
    else if (lacks_config && s->weights[0] != '\0')
        snprintf(out, capacity, "%s is there without it: it comes from where the weights come from", s->weights);
    else if (s->model_below[0] != '\0')
        snprintf(out, capacity, "the folder %s below it has a config.json: give that one", s->model_below);
    else if (s->has_tokenizer)
        snprintf(out, capacity, "it holds a tokenizer and no weights (%s%s): download the whole model", s->shown,
                 s->n_names > MAX_SHOWN ? ", ..." : "");
    else
        snprintf(out, capacity, "it holds %s%s", s->shown, s->n_names > MAX_SHOWN ? ", ..." : "");
    return false;
}

pf_status pf_model_directory_explain(const char *directory, const char *what, pf_error *error)
{
    const bool lacks_config = strcmp(what, "config.json") == 0;
    survey found;
    char there[512];
    if (!look(directory, &found)) return pf_fail(error, PF_UNAVAILABLE, "%s: there is no %s", directory, what);
    const bool is_other = describe(&found, lacks_config, there, sizeof there);
    return pf_fail(error, is_other ? PF_UNSUPPORTED : PF_UNAVAILABLE, "%s: there is no %s; %s", directory, what, there);
}
