/*
 * Forwards a socket to another with a delay each way. For tests of clients on slow networks; a failure here fails the test.
 */
#ifndef PF_TESTS_SUPPORT_DELAY_PROXY_H
#define PF_TESTS_SUPPORT_DELAY_PROXY_H

typedef struct delay_proxy delay_proxy;

/* From a socket that it makes at the path `from` to the server at `to`, delay_ms each way. End it with
 * delay_proxy_end, which closes all connections. */
delay_proxy *delay_proxy_begin(const char *from, const char *to, int delay_ms);
void delay_proxy_end(delay_proxy *line);

#endif
