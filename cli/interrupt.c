/* Signals as a flag. */
#include "cli/interrupt.h"

#include <signal.h>

#include "cli/cut_short.h"

static volatile bool interrupted;
static volatile sig_atomic_t which;
static volatile sig_atomic_t n_spared; /* more of SIGINT that only set the flag */

static void install(int number, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler }; /* no SA_RESTART: a read that waits returns */
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void on_signal(int number)
{
    if (number == SIGINT && n_spared > 0)
        n_spared--;
    else
        install(number, pf_cut_short_on_signal);
    if (which == 0 || which == SIGINT) which = number;
    interrupted = true;
}

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* The parent process may have blocked them. */
static void unblock(void)
{
    sigset_t handled;
    sigemptyset(&handled);
    sigaddset(&handled, SIGINT);
    sigaddset(&handled, SIGTERM);
    sigaddset(&handled, SIGHUP);
    sigaddset(&handled, SIGQUIT);
    pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
}

void pf_interrupt_install(void)
{
    install(SIGINT, on_signal);
    install(SIGTERM, on_signal);
    if (!is_ignored(SIGHUP)) install(SIGHUP, on_signal); /* nohup stays in force */
    if (!is_ignored(SIGQUIT)) install(SIGQUIT, pf_cut_short_on_signal);
    install(SIGPIPE, SIG_IGN);
    install(SIGXFSZ, SIG_IGN);
    unblock();
}

const volatile bool *pf_interrupt_flag(void)
{
    return &interrupted;
}

/* The flag first: a signal that comes between sets it again, or is seen in `which`. */
bool pf_interrupt_take(void)
{
    enum { SPARED = 2 };
    const bool was_set = interrupted;
    interrupted = false;
    if (which != 0 && which != SIGINT) interrupted = true;
    n_spared = SPARED;
    install(SIGINT, on_signal);
    return was_set && !interrupted;
}

int pf_interrupt_signal(void)
{
    return which;
}
