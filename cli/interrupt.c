/* Signals as a flag. */
#include "cli/interrupt.h"

#include <signal.h>
#include <string.h>

static volatile bool interrupted;
static volatile sig_atomic_t which;

static void on_signal(int number)
{
    which = number;
    interrupted = true;
}

void pf_interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND; /* the second one kills; no SA_RESTART: a read that waits returns */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup stays in force */
        sigaction(SIGHUP, &action, NULL);

    action.sa_handler = SIG_IGN;
    action.sa_flags = 0;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

const volatile bool *pf_interrupt_flag(void)
{
    return &interrupted;
}

int pf_interrupt_signal(void)
{
    return which;
}
