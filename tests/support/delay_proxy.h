/*
 * A line that is slow: what comes in at one socket leaves at another some time later, and back. For tests of what far hosts
 * do to a client; what fails here fails the test.
 */
#ifndef PF_TESTS_SUPPORT_DELAY_PROXY_H
#define PF_TESTS_SUPPORT_DELAY_PROXY_H

typedef struct delay_proxy delay_proxy;

/* From a socket that it makes at the path `from` to whoever listens at `to`, one way in delay_ms. End it with
 * delay_proxy_end, which hangs up on all. */
delay_proxy *delay_proxy_begin(const char *from, const char *to, int delay_ms);
void delay_proxy_end(delay_proxy *line);

#endif
