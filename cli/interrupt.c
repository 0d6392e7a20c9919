/* Signals as a flag. */
#include "cli/interrupt.h"

#include <signal.h>

#include "cli/cut_short.h"

static volatile bool interrupted;
static volatile sig_atomic_t which;

/* Ends the process, as it would have without us, but that nothing half written stays. */
static void on_last_signal(int number)
{
    pf_cut_short_clean();
    signal(number, SIG_DFL);
    raise(number); /* comes when this returns */
}

static void on_signal(int number)
{
    signal(number, on_last_signal);
    which = number;
    interrupted = true;
}

static void install(int number, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler }; /* no SA_RESTART: a read that waits returns */
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void pf_interrupt_install(void)
{
    install(SIGINT, on_signal);
    install(SIGTERM, on_signal);
    if (!is_ignored(SIGHUP)) install(SIGHUP, on_signal); /* nohup stays in force */
    if (!is_ignored(SIGQUIT)) install(SIGQUIT, on_last_signal);
    install(SIGPIPE, SIG_IGN);
    install(SIGXFSZ, SIG_IGN);
}

const volatile bool *pf_interrupt_flag(void)
{
    return &interrupted;
}

int pf_interrupt_signal(void)
{
    return which;
}
