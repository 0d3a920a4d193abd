/* The `sluice` command: finds the sub-command and runs it.
 *
 * Exit status 0: done. 1: failed, and one line on standard error that begins with "sluice: " says why.
 * 2: the usage is wrong, and one line says how. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "console.h"
#include "sluice/sluice.h"

static const struct command *const commands[] = {
    &command_run,     &command_chat, &command_logits, &command_tokenize,
    &command_inspect, &command_plan, &command_synth,  &command_bench,
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

bool command_parse(const struct arg_command *command, int argc, char *const *argv, void *options, int *status)
{
    sluice_error err;
    bool help;

    if (args_parse(command, argc, argv, options, &help, &err) != SLUICE_OK) {
        *status = command_usage(command, "%s", err.message);
        return false;
    }
    if (help) {
        args_print_help(stdout, command);
        *status = command_end(SLUICE_OK, NULL);
        return false;
    }
    return true;
}

int command_usage(const struct arg_command *command, const char *fmt, ...)
{
    char what[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    console_say("sluice: %s: %s (see sluice %s --help)", command->name, what, command->name);
    return EXIT_USAGE;
}

int command_end(sluice_status status, const sluice_error *err)
{
    sluice_error output;

    if (status != SLUICE_OK) {
        console_error(err);
        return EXIT_FAILED;
    }
    if (console_finish(&output) != SLUICE_OK) {
        console_error(&output);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static void usage_print(void)
{
    console_answer_text("usage: sluice COMMAND [options]\n"
                        "Runs GLM-5.2 with its experts streamed from disk.\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        console_answer_printf("  %-10s %s\n", commands[i]->args->name, commands[i]->args->summary);
    }
    console_answer_text("\nsluice COMMAND --help lists a command's options; sluice --version prints the version.\n");
}

/* Opens what the caller left closed among the standard streams, the wrong way round, so that no file of ours takes
 * their place and every use of them fails. */
static void streams_reserve(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
            (void)opened; /* the lowest free number, which is fd */
        }
    }
}

int main(int argc, char **argv)
{
    streams_reserve();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe and a file size limit are write errors, reported as such */
    signal(SIGXFSZ, SIG_IGN);
    setlocale(LC_CTYPE, "");

    if (argc < 2) {
        console_say("sluice: no command given (see sluice --help)");
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage_print();
        return command_end(SLUICE_OK, NULL);
    }
    if (strcmp(argv[1], "--version") == 0) {
        console_answer_printf("sluice %s\n", sluice_version());
        return command_end(SLUICE_OK, NULL);
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i]->args->name) == 0) {
            return commands[i]->run(argc - 2, argv + 2);
        }
    }
    console_say("sluice: unknown %s '%.60s' (see sluice --help)", argv[1][0] == '-' ? "option" : "command", argv[1]);
    return EXIT_USAGE;
}
