/*
 * pilotfish chat: lines in, answers out, turn by turn.
 *
 * Keeps true: standard output holds answers and nothing else. Ctrl-C ends an answer, or clears the line that is typed, and not
 * the chat; lines that come from a pipe have no one to go on, so there it ends the process as it does elsewhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/user_lines.h"

typedef enum { GOES_ON, ENDS, FAILED } outcome;

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static outcome say_failure(pf_status status, const pf_error *error)
{
    (void)pf_out_fail_error(status, error);
    return FAILED;
}

static outcome answer(pf_chat *chat, bool *answered)
{
    pf_error error = { 0 };
    const pf_status status = pf_chat_answer(chat, answered, &error);
    if (status == PF_OK || status == PF_CANCELLED) return GOES_ON; /* the loop looks at the flag */
    return say_failure(status, &error);
}

/* A message that gets no answer is taken back: most templates want the two by turns. */
static outcome take_turn(pf_chat *chat, const char *text, size_t n)
{
    bool answered = false;
    if (pf_conversation_push(&chat->conversation, "user", text, n) != PF_OK)
        return say_failure(PF_NOMEM, &(pf_error){ .text = "no memory for the message" });
    const outcome result = answer(chat, &answered);
    if (!answered) pf_conversation_pop(&chat->conversation);
    if (!answered && result == GOES_ON && chat->is_typed)
        pf_out_say("pilotfish: interrupted; the message is taken back");
    return result;
}

static outcome reset(pf_chat *chat, const char *argument)
{
    (void)argument;
    pf_conversation_reset(&chat->conversation);
    pf_out_say("a new chat begins%s",
               pf_conversation_count(&chat->conversation) > 0 ? "; the system message stays" : "");
    return GOES_ON;
}

static outcome set_system(pf_chat *chat, const char *argument)
{
    if (pf_conversation_set_system(&chat->conversation, argument, strlen(argument)) != PF_OK)
        return say_failure(PF_NOMEM, &(pf_error){ .text = "no memory for the message" });
    pf_out_say("%s", *argument ? "the system message is set" : "there is no system message now");
    return GOES_ON;
}

static outcome save(pf_chat *chat, const char *argument)
{
    pf_error error = { 0 };
    const pf_status status = pf_conversation_save(&chat->conversation, argument, &error);
    if (status != PF_OK) return say_failure(status, &error);
    pf_out_say("%zu messages are in %s", pf_conversation_count(&chat->conversation), argument);
    return GOES_ON;
}

/* Where the last message is a user's, its answer follows. */
static outcome load(pf_chat *chat, const char *argument)
{
    bool answered;
    pf_error error = { 0 };
    const pf_status status = pf_conversation_load(&chat->conversation, argument, &error);
    if (status != PF_OK) return say_failure(status, &error);
    pf_out_say("%zu messages come from %s", pf_conversation_count(&chat->conversation), argument);
    return pf_conversation_awaits_answer(&chat->conversation) ? answer(chat, &answered) : GOES_ON;
}

static outcome print_stats(pf_chat *chat, const char *argument)
{
    (void)argument;
    pf_chat_print_figures(chat);
    return GOES_ON;
}

static outcome quit(pf_chat *chat, const char *argument)
{
    (void)chat;
    (void)argument;
    return ENDS;
}

static outcome help(pf_chat *chat, const char *argument);

typedef struct {
    const char *name, *argument, *help;
    bool needs_argument;
    outcome (*run)(pf_chat *chat, const char *argument);
} chat_command;

static const chat_command chat_commands[] = {
    { "/help", "", "this list", false, help },
    { "/reset", "", "begin a new chat; the system message stays", false, reset },
    { "/system", "TEXT", "set the system message; without TEXT: remove it", false, set_system },
    { "/save", "FILE", "write the messages as JSON, as generate --chat takes them", true, save },
    { "/load", "FILE", "go on with the messages of such a file", true, load },
    { "/stats", "", "tokens computed and reused, tokens a second, acceptance", false, print_stats },
    { "/quit", "", "end the chat, as Ctrl-D does", false, quit },
};
enum { N_CHAT_COMMANDS = sizeof chat_commands / sizeof *chat_commands };

static outcome help(pf_chat *chat, const char *argument)
{
    (void)chat;
    (void)argument;
    for (size_t i = 0; i < N_CHAT_COMMANDS; i++)
        pf_out_say("  %-8s %-5s %s", chat_commands[i].name, chat_commands[i].argument, chat_commands[i].help);
    pf_out_say("  Ctrl-C ends an answer or clears the line. A line that ends with \\ goes on in the next one; one that "
               "begins with // is a message that begins with /.");
    return GOES_ON;
}

/* line: a text that begins with a slash. */
static outcome run_chat_command(pf_chat *chat, char *line)
{
    const size_t n = strcspn(line, " \t");
    char *argument = line + n + strspn(line + n, " \t");
    for (size_t i = 0; i < N_CHAT_COMMANDS; i++) {
        const chat_command *command = &chat_commands[i];
        if (strlen(command->name) != n || memcmp(command->name, line, n) != 0) continue;
        if (command->needs_argument && !*argument) {
            pf_out_say("pilotfish: %s needs a %s", command->name, command->argument);
            return FAILED;
        }
        if (!*command->argument && *argument) {
            pf_out_say("pilotfish: %s takes nothing behind it", command->name);
            return FAILED;
        }
        return command->run(chat, argument);
    }
    pf_out_say("pilotfish: there is no command \"%.*s\"; /help lists them", n < 40 ? (int)n : 40, line);
    return FAILED;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static outcome take_line(pf_chat *chat, pf_bytes *line)
{
    if (pf_bytes_append(line, "", 1) != PF_OK)
        return say_failure(PF_NOMEM, &(pf_error){ .text = "no memory for the line" });
    size_t n = line->n - 1;
    while (n > 0 && strchr(" \t\r\n", line->data[n - 1])) line->data[--n] = '\0';
    const size_t blank = strspn(line->data, " \t");
    if (blank == n) return GOES_ON;
    if (line->data[0] != '/') return take_turn(chat, line->data, n);
    if (line->data[1] == '/') return take_turn(chat, line->data + 1, n - 1);
    return run_chat_command(chat, line->data);
}

/* After an interrupt. Whether the chat goes on. */
static bool survives(const pf_lines *lines)
{
    if (!pf_lines_are_typed(lines) || !pf_interrupt_take() || pf_lines_broken_twice(lines)) return false;
    pf_out_say("(Ctrl-C again, or Ctrl-D, ends the chat)");
    return true;
}

/* An exit status: of lines from a pipe that of the worst. */
static int talk(pf_chat *chat, pf_lines *lines)
{
    int code = PF_EXIT_DONE;
    pf_bytes line = { 0 };
    pf_error error = { 0 };
    for (outcome last = GOES_ON; last != ENDS && !chat->out->error;) {
        pf_line_event event;
        const pf_status status = pf_lines_next(lines, &line, &event, &error);
        if (status != PF_OK) {
            code = pf_out_fail_error(status, &error);
            break;
        }
        if (event == PF_LINE_END) break;
        if (event == PF_LINE_GIVEN) last = take_line(chat, &line);
        if (last == FAILED && !chat->is_typed) code = PF_EXIT_FAILED;
        if (!*pf_interrupt_flag()) continue;
        const bool goes_on = event == PF_LINE_GIVEN ? chat->is_typed && pf_interrupt_take() : survives(lines);
        if (goes_on) continue;
        code = PF_EXIT_INTERRUPTED;
        break;
    }
    pf_bytes_clear(&line);
    return code;
}

/* What is on the screen before the first line. */
static void greet(const pf_chat *chat)
{
    if (chat->is_typed) pf_out_say("/help lists the commands, Ctrl-D ends the chat");
}

static int run_chat(const pf_options *options, pf_chat *chat, pf_out *out)
{
    const char *words[N_CHAT_COMMANDS + 1] = { NULL };
    pf_lines *lines = NULL;
    pf_error error = { 0 };
    for (size_t i = 0; i < N_CHAT_COMMANDS; i++) words[i] = chat_commands[i].name;
    pf_status status = pf_chat_open(options, out, chat, &error);
    if (*pf_interrupt_flag()) return PF_EXIT_INTERRUPTED;
    if (status == PF_OK) status = pf_lines_open(words, &lines, &error);
    if (status != PF_OK) return pf_out_fail_error(status, &error);
    chat->is_typed = pf_lines_are_typed(lines);
    greet(chat);
    const int code = talk(chat, lines);
    pf_lines_close(lines);
    return code;
}

static int run(const pf_options *options, pf_out *out)
{
    const int usage = pf_request_check(&pf_command_chat, options);
    if (usage != PF_EXIT_DONE) return usage;
    pf_chat *chat = calloc(1, sizeof *chat);
    if (!chat) return pf_out_fail("no memory for a chat");
    const int code = run_chat(options, chat, out);
    pf_chat_close(chat);
    free(chat);
    return code;
}

static const pf_option_group *const groups[] = {
    &pf_options_model,       &pf_options_chat,          &pf_options_sampling,
    &pf_options_speculation, &pf_options_running,       &pf_options_target_head,
    &pf_options_context,     &pf_options_draft_running, NULL
};

const pf_command pf_command_chat = {
    .name = "chat",
    .summary = "talk with a model, turn by turn",
    .synopsis = "(-m MODEL | --verifier ADDR -d DRAFT) [options]",
    .description =
        "Puts each line into the model's chat template and writes the answer to standard output as it is made. On a\n"
        "terminal lines are edited and kept in a history, /help lists commands, and Ctrl-C ends an answer. From a "
        "pipe\n"
        "each line is a turn or a command. Only what is new of the conversation is computed.\n",
    .examples = "  pilotfish chat -m HuggingFaceTB/SmolLM2-135M-Instruct\n"
                "  pilotfish chat -m models/target -d models/draft --chat-template chat.jinja\n"
                "  printf 'Hi\\nTell me more\\n' | pilotfish chat -m models/target --chat-template chat.jinja -n 40\n",
    .groups = groups,
    .run = run,
};
