/* What a sub-command is, and what they all do at the edges: parse, and turn a failure into an exit status. */
#ifndef SLUICE_TOOLS_COMMAND_H
#define SLUICE_TOOLS_COMMAND_H

#include "args.h"
#include "base/error.h"

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const struct arg_command *args;
    int (*run)(int argc, char *const *argv); /* the words after the command's name; returns an exit status */
};

extern const struct command command_run, command_chat, command_logits, command_tokenize, command_inspect, command_plan,
    command_synth, command_bench;

/* Parses into options. False: help was printed or the usage was wrong, and *status is the exit status. */
bool command_parse(const struct arg_command *command, int argc, char *const *argv, void *options, int *status);

/* Says what is wrong with the usage; returns EXIT_USAGE. */
int command_usage(const struct arg_command *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Ends a command: says the failure if there is one, or that standard output failed; returns the exit status. */
int command_end(sluice_status status, const sluice_error *err);

#endif
