// Drafts of a Pilotfish worker as an implementation of llama.cpp's speculative decoding: `--spec-type pilotfish`.
//
// speculative_pilotfish.patch includes this file in common/speculative.cpp, behind `common_speculative_impl`. All slots that
// draft are rows of one batch to the worker. llama.cpp accepts a draft token where it samples the same one, so that drafts are greedy
// chains without probabilities.

#include "token_texts.hpp"
#include "worker_drafts.h"

struct common_speculative_impl_pilotfish : public common_speculative_impl {
    common_speculative_impl_pilotfish(const common_params_speculative &params, uint32_t n_seq)
        : common_speculative_impl(COMMON_SPECULATIVE_TYPE_PILOTFISH, n_seq,
                                  std::min<int32_t>(params.draft.n_max, PF_MAX_DRAFT_TOKENS))
    {
        if (params.pilotfish.address.empty()) {
            throw std::runtime_error("--spec-type pilotfish needs --spec-pilotfish-address");
        }
        if (!params.draft.ctx_tgt) {
            throw std::runtime_error("--spec-type pilotfish requires a target context");
        }
        const llama_vocab *vocab = llama_model_get_vocab(llama_get_model(params.draft.ctx_tgt));
        const token_texts texts{ vocab, {} };

        pfd_options options{};
        options.address = params.pilotfish.address.c_str();
        options.n_texts = (int32_t)n_seq;
        options.max_draft = n_max;
        options.adaptive = params.pilotfish.adaptive;
        options.wait_ns = (uint64_t)params.pilotfish.wait_ms * 1000000;
        options.vocab_size = llama_vocab_n_tokens(vocab);
        options.texts = { token_texts::token, &texts };
        options.warn = [](void * /*user*/, const char *sentence) { SPC_WRN("%s\n", sentence); };

        pf_error why{};
        if (pfd_connect(&options, &client, &why) != PF_OK) {
            throw std::runtime_error(std::string("pilotfish worker: ") + why.text);
        }
        rows.reserve(n_seq);
        SPC_TRC("adding speculative implementation 'pilotfish', n_max=%d, address=%s\n", n_max, options.address);
    }

    ~common_speculative_impl_pilotfish() override
    {
        pfd_figures f{};
        pfd_get_figures(client, &f);
        SPC_INF("pilotfish: %lld steps, %lld tokens drafted, %lld accepted, %lld texts opened, %lld steps without an "
                "answer in time\n",
                (long long)f.n_steps, (long long)f.n_drafted, (long long)f.n_accepted, (long long)f.n_opens,
                (long long)f.n_late);
        pfd_close(client);
    }

    void begin(llama_seq_id /*seq_id*/, const llama_tokens & /*prompt*/) override
    {
        // a row that does not continue its slot's text opens it again
    }

    bool process(const common_batch & /*batch*/) override { return true; }

    void draft(common_speculative_draft_params_vec &dparams) override
    {
        rows.clear();
        for (llama_seq_id seq_id = 0; seq_id < (llama_seq_id)n_seq; ++seq_id) {
            const auto &dp = dparams[seq_id];
            if (!dp.drafting || dp.prompt->empty()) {
                continue;
            }
            pfd_row row{};
            row.text = seq_id;
            row.tokens = dp.prompt->data();
            row.n_tokens = (int32_t)dp.prompt->size();
            row.last = dp.id_last;
            row.max_draft = dp.n_max > 0 ? std::min(dp.n_max, n_max) : n_max;
            rows.push_back(row);
        }
        if (rows.empty()) {
            return;
        }
        pfd_draft(client, rows.data(), (int32_t)rows.size());
        for (const auto &row : rows) {
            dparams[row.text].result->assign(row.draft, row.draft + row.n_draft);
        }
    }

    void accept(llama_seq_id /*seq_id*/, uint16_t n_accepted, bool is_other) override
    {
        if (!is_other) {
            pfd_accept(client, n_accepted);
        }
    }

  private:
    pfd_client *client = nullptr;
    std::vector<pfd_row> rows;
};
