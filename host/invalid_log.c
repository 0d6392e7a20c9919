#include "host/invalid_log.h"

#include <stdio.h>

bool pf_invalid_log_update(pf_invalid_log *log, pf_peer *peer, pf_service service, char sentence[PF_INVALID_LOG_BYTES])
{
    pf_invalid_logits *all = &log->all, found;
    pf_peer_take_invalid_logits(peer, &found);
    if (found.n_rows == 0) return false;
    const int64_t n_rows = all->n_rows + found.n_rows;
    if (all->n_rows == 0) *all = found;
    all->n_rows = n_rows;
    if (n_rows < 2 * log->n_logged) return false;
    log->n_logged = n_rows;
    pf_model_info info;
    char *const warning = sentence + sprintf(sentence, "warning: ");
    if (pf_peer_info(peer, &info, NULL) != PF_OK) return false;
    pf_invalid_logits_print(all, service == PF_SERVICE_DRAFTER ? "draft" : "target", info.model_id, warning);
    return true;
}
