/* One table a command: it parses the command line and prints the help.
 *
 * A command is a list of tables of options; the first is its own, the others are shared with other
 * commands. An option says where in the caller's struct its value goes (an offset), so shared tables
 * work for every command whose struct begins with the shared part. A name without a dash is a
 * positional argument; positional arguments are required and taken in table order.
 *
 * Long options take "--name value" and "--name=value", short ones "-n value". A value is whatever
 * comes next, dash or not. An option given twice counts the last time, lists excepted. */
#ifndef SLUICE_TOOLS_ARGS_H
#define SLUICE_TOOLS_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

#define ARG_TEXTS_MAX 16
#define ARG_TABLES_MAX 6

/* Kind of an option, and the type its offset points at. */
enum arg_kind {
    ARG_FLAG,   /* bool: no value */
    ARG_TEXT,   /* const char *: not empty */
    ARG_ANY,    /* const char *: may be empty */
    ARG_TEXTS,  /* struct arg_texts: may be given again; none empty */
    ARG_U32,    /* uint32_t in [min, max] */
    ARG_U64,    /* uint64_t in [min, max] */
    ARG_REAL,   /* float in [real_min, real_max] */
    ARG_SIZE,   /* uint64_t bytes in [min, max] */
    ARG_IDS,    /* struct arg_ids */
    ARG_CHOICE, /* int: index into choices */
    ARG_MAYBE   /* int: as ARG_CHOICE with "--name=value"; index 1 with "--name" alone. choices[0] is "off" */
};

struct arg_texts {
    const char *items[ARG_TEXTS_MAX];
    size_t n;
};

struct arg_ids {
    uint32_t *ids; /* released by arg_ids_free */
    size_t n;      /* 0: not given */
};

struct arg_option {
    const char *name; /* "--memory", "-m", or "OUT" for a positional argument; NULL ends a table */
    enum arg_kind kind;
    size_t offset;
    const char *value; /* what the value is called in the help: "SIZE"; NULL for flags */
    const char *help;
    uint64_t min, max; /* whole numbers and sizes; max 0 means no bound of its own */
    double real_min, real_max;
    const char *const *choices; /* ended by NULL */
};

struct arg_command {
    const char *name;    /* "run", "bench decode" */
    const char *usage;   /* what follows the name in the help's first line */
    const char *summary; /* one line */
    const struct arg_option *tables[ARG_TABLES_MAX];
};

/* Fills `options`, which the caller has set to the defaults, from argv[0..argc). *help is set when
 * --help stands among them, and then nothing else counts. SLUICE_INVALID: one line says what is wrong.
 * Lists of ids read until then are the caller's to release in every case. */
sluice_status args_parse(const struct arg_command *command, int argc, char *const *argv, void *options, bool *help,
                         sluice_error *err);

void args_print_help(FILE *out, const struct arg_command *command);

void arg_ids_free(struct arg_ids *ids); /* safe on a zeroed one */

#endif
