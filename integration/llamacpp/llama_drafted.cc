// Greedy text of llama.cpp with drafts of a Pilotfish worker: all prompts of the standard input at once, a sequence each.
//
//     llama_drafted MODEL.gguf ADDRESS|none THREADS CONTEXT N_TOKENS MAX_DRAFT < PROMPTS
//
// A prompt is a line of token ids. A line of JSON a text follows, in order, then one of figures. With `none` each step is a
// plain one. The smallest complete use of worker_drafts.h: what an engine on libllama has to do besides is its own decoding.
#include "llama.h"
#include "token_texts.hpp"
#include "worker_drafts.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int MAX_BATCH = 512;

[[noreturn]] void fail(const std::string &what) {
    std::fprintf(stderr, "llama_drafted: %s\n", what.c_str());
    std::exit(1);
}

struct text {
    std::vector<llama_token> tokens;   // committed: prompt and output
    size_t n_prompt = 0;
    size_t n_cached = 0;               // of them, those whose keys and values are kept
    long n_drafted = 0, n_accepted = 0, n_rounds = 0;
    int n_last_accepted = 0;           // of the last round's draft
    double least_margin = 1e30;        // between the two best logits of a token that was chosen
    bool is_over = false;
};

struct target {
    llama_model *model = nullptr;
    llama_context *context = nullptr;
    const llama_vocab *vocab = nullptr;
    int n_vocab = 0;
    llama_batch batch{};

    void add(llama_token token, size_t position, int sequence, bool logits) {
        const int i = batch.n_tokens++;
        batch.token[i] = token;
        batch.pos[i] = static_cast<llama_pos>(position);
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = sequence;
        batch.logits[i] = logits;
    }

    void decode() {
        if (llama_decode(context, batch) != 0) fail("llama_decode failed");
    }

    // The likeliest token of a row; *margin is its lead over the next.
    llama_token best(int row, double *margin) const {
        const float *logits = llama_get_logits_ith(context, row);
        int first = 0, second = -1;
        for (int id = 1; id < n_vocab; id++) {
            if (logits[id] > logits[first]) {
                second = first;
                first = id;
            } else if (second < 0 || logits[id] > logits[second]) {
                second = id;
            }
        }
        *margin = second < 0 ? 1e30 : static_cast<double>(logits[first]) - logits[second];
        return first;
    }
};

void commit(const target &t, text &x, llama_token token, size_t n_most) {
    x.tokens.push_back(token);
    x.is_over = x.tokens.size() - x.n_prompt >= n_most || llama_vocab_is_eog(t.vocab, token);
}

// Reads the prompts but for their last tokens, which the first step computes.
void prefill(target &t, std::vector<text> &texts) {
    for (size_t s = 0; s < texts.size(); s++) {
        text &x = texts[s];
        while (x.n_cached + 1 < x.n_prompt) {
            t.batch.n_tokens = 0;
            for (; x.n_cached + 1 < x.n_prompt && t.batch.n_tokens < MAX_BATCH; x.n_cached++)
                t.add(x.tokens[x.n_cached], x.n_cached, static_cast<int>(s), false);
            t.decode();
        }
    }
}

// One pass over the last token and the draft of each text; the longest prefix of a draft that the target chooses itself is kept.
void step(target &t, std::vector<text> &texts, const std::vector<pfd_row> &rows, size_t n_most) {
    std::vector<int> first_row(rows.size());
    t.batch.n_tokens = 0;
    for (size_t i = 0; i < rows.size(); i++) {
        const text &x = texts[static_cast<size_t>(rows[i].text)];
        first_row[i] = t.batch.n_tokens;
        t.add(x.tokens.back(), x.n_cached, rows[i].text, true);
        for (int k = 0; k < rows[i].n_draft; k++) t.add(rows[i].draft[k], x.n_cached + 1 + static_cast<size_t>(k), rows[i].text, true);
    }
    t.decode();
    for (size_t i = 0; i < rows.size(); i++) {
        text &x = texts[static_cast<size_t>(rows[i].text)];
        x.n_rounds++;
        x.n_drafted += rows[i].n_draft;
        x.n_last_accepted = 0;
        for (int k = 0; !x.is_over; k++) {
            double margin;
            const llama_token token = t.best(first_row[i] + k, &margin);
            x.least_margin = std::min(x.least_margin, margin);
            commit(t, x, token, n_most);
            x.n_cached++;
            if (k == rows[i].n_draft || rows[i].draft[k] != token) break;
            x.n_last_accepted++;
        }
        x.n_accepted += x.n_last_accepted;
        llama_memory_seq_rm(llama_get_memory(t.context), rows[i].text, static_cast<llama_pos>(x.n_cached), -1);
    }
}

void fill(pfd_row &row, const text &x, size_t index) {
    row.text = static_cast<int32_t>(index);
    row.tokens = x.tokens.data();
    row.n_tokens = static_cast<int32_t>(x.tokens.size() - 1);
    row.last = x.tokens.back();
}

void run(target &t, std::vector<text> &texts, pfd_client *client, size_t n_most, int max_draft) {
    prefill(t, texts);
    for (;;) {
        std::vector<pfd_row> rows;
        for (size_t s = 0; s < texts.size(); s++) {
            const text &x = texts[s];
            if (x.is_over) continue;
            const size_t n_left = n_most - (x.tokens.size() - x.n_prompt);
            pfd_row row{};
            fill(row, x, s);
            row.max_draft = static_cast<int32_t>(std::min<size_t>(static_cast<size_t>(max_draft), n_left - 1));
            rows.push_back(row);
        }
        if (rows.empty()) return;
        if (client) pfd_draft(client, rows.data(), static_cast<int32_t>(rows.size()));
        step(t, texts, rows, n_most);
        for (pfd_row &row : rows) {
            const text &x = texts[static_cast<size_t>(row.text)];
            if (!client) break;
            pfd_accept(client, x.n_last_accepted);
            if (!x.is_over) continue;
            fill(row, x, static_cast<size_t>(row.text));
            pfd_end_text(client, row.text, &row);
        }
    }
}

std::vector<text> read_prompts() {
    std::vector<text> texts;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream ids(line);
        text x;
        for (llama_token id; ids >> id;) x.tokens.push_back(id);
        x.n_prompt = x.tokens.size();
        if (x.n_prompt < 2) fail("a prompt has fewer than two tokens");
        texts.push_back(x);
    }
    if (texts.empty()) fail("no prompts");
    return texts;
}

void print(const text &x) {
    std::printf("{\"tokens\": [");
    for (size_t i = x.n_prompt; i < x.tokens.size(); i++) std::printf("%s%d", i > x.n_prompt ? ", " : "", x.tokens[i]);
    std::printf("], \"rounds\": %ld, \"drafted\": %ld, \"accepted\": %ld, \"least_margin\": %.9g}\n", x.n_rounds, x.n_drafted,
                x.n_accepted, x.least_margin);
}

void warn(void *, const char *sentence) {
    std::fprintf(stderr, "llama_drafted: %s\n", sentence);
}

void quiet(ggml_log_level level, const char *message, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) std::fputs(message, stderr);
}

pfd_client *connect(const target &t, const char *address, size_t n_texts, int max_draft) {
    const token_texts texts{t.vocab, {}};
    pfd_options options{};
    options.address = address;
    options.n_texts = static_cast<int32_t>(n_texts);
    options.max_draft = max_draft;
    options.vocab_size = t.n_vocab;
    options.texts = {token_texts::token, &texts};
    options.warn = warn;
    pfd_client *client = nullptr;
    pf_error why{};
    if (pfd_connect(&options, &client, &why) != PF_OK) fail(why.text);
    return client;
}

}   // namespace

int main(int argc, char **argv) {
    if (argc != 7) fail("usage: llama_drafted MODEL.gguf ADDRESS|none THREADS CONTEXT N_TOKENS MAX_DRAFT < PROMPTS");
    const std::string address = argv[2];
    const size_t n_most = static_cast<size_t>(std::max(1, std::atoi(argv[5])));
    const int max_draft = std::atoi(argv[6]);
    std::vector<text> texts = read_prompts();

    llama_log_set(quiet, nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    target t;
    t.model = llama_model_load_from_file(argv[1], model_params);
    if (!t.model) fail(std::string("cannot load ") + argv[1]);
    t.vocab = llama_model_get_vocab(t.model);
    t.n_vocab = llama_vocab_n_tokens(t.vocab);
    llama_context_params params = llama_context_default_params();
    params.n_seq_max = static_cast<uint32_t>(texts.size());
    params.n_ctx = static_cast<uint32_t>(std::atoi(argv[4])) * params.n_seq_max;
    params.n_batch = params.n_ubatch = MAX_BATCH;
    params.n_threads = params.n_threads_batch = std::atoi(argv[3]);
    t.context = llama_init_from_model(t.model, params);
    if (!t.context) fail("no context");
    t.batch = llama_batch_init(std::max<int>(MAX_BATCH, static_cast<int>(texts.size()) * (max_draft + 1)), 0, 1);

    pfd_client *client = address == "none" ? nullptr : connect(t, argv[2], texts.size(), max_draft);
    const auto begin = std::chrono::steady_clock::now();
    run(t, texts, client, n_most, max_draft);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    pfd_figures figures{};
    if (client) pfd_get_figures(client, &figures);
    for (const text &x : texts) print(x);
    std::printf("{\"seconds\": %.6f, \"drafted\": %lld, \"accepted\": %lld, \"opens\": %lld, \"late\": %lld, \"told\": %lld}\n", seconds.count(),
                static_cast<long long>(figures.n_drafted), static_cast<long long>(figures.n_accepted),
                static_cast<long long>(figures.n_opens), static_cast<long long>(figures.n_late), static_cast<long long>(figures.n_told));
    pfd_close(client);
    llama_batch_free(t.batch);
    llama_free(t.context);
    llama_model_free(t.model);
}
