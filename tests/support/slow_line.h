/*
 * A line that is slow: what comes in at one socket leaves at another some time later, and back. For tests of what far hosts
 * do to a client; what fails here fails the test.
 */
#ifndef PF_TESTS_SUPPORT_SLOW_LINE_H
#define PF_TESTS_SUPPORT_SLOW_LINE_H

typedef struct slow_line slow_line;

/* From a socket that it makes at the path `from` to whoever listens at `to`, one way in delay_ms. End it with
 * slow_line_end, which hangs up on all. */
slow_line *slow_line_begin(const char *from, const char *to, int delay_ms);
void slow_line_end(slow_line *line);

#endif
