/* sluice inspect: what is in a container, checked.
 *
 * The library describes a container as JSON; --json prints that as it is. The text for people follows its
 * shape: a member of an object is a line, an object inside is a section, and an object that holds nothing
 * but objects is a table with a row for each. So a new figure needs no change here. */
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/line.h"
#include "command.h"
#include "console.h"
#include "numbers.h"
#include "options.h"

#define CELL_BYTES 128
#define NAME_WIDTH 28
#define INDENT 2
#define COLUMNS_MAX 12

struct inspect_options {
    struct model_choice model;
    bool json;
};

static const struct arg_option inspect_table[] = {
    {"--json", ARG_FLAG, offsetof(struct inspect_options, json), NULL, .help = "one JSON object instead of a table"},
    {0},
};

static const struct arg_command inspect_args = {
    "inspect",
    "[-m DIR] [--json]",
    "Checks a container and shows what is in it.",
    {inspect_table, model_table},
};

/* ---- One value ---- */

static void cell_set(char *cell, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Strings come from files of unknown origin: only what is printable reaches the terminal. */
static void cell_set(char *cell, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    line_format(cell, CELL_BYTES, fmt, args);
    va_end(args);
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void integer_format(char *cell, const char *name, json_int_t value)
{
    char bytes[32];

    if (ends_with(name, "bytes") && value >= 1024) {
        number_format_bytes((uint64_t)value, bytes, sizeof bytes);
        cell_set(cell, "%" JSON_INTEGER_FORMAT " (%s)", value, bytes);
    } else {
        cell_set(cell, "%" JSON_INTEGER_FORMAT, value);
    }
}

/* Appends to a text of CELL_BYTES what still fits. */
static void text_append(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void text_append(char *text, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(text + used, CELL_BYTES - used, fmt, args);
    va_end(args);
}

static void list_format(char *cell, const json_t *list)
{
    char text[CELL_BYTES] = "";
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        text_append(text, "%s", i > 0 ? ", " : "");
        if (json_is_string(item)) {
            text_append(text, "%s", json_string_value(item));
        } else {
            text_append(text, "%.9g", json_number_value(item));
        }
    }
    cell_set(cell, "%s", json_array_size(list) > 0 ? text : "none");
}

/* {"int8 row": 12, "F32": 8} reads "12 int8 row, 8 F32". */
static void counts_format(char *cell, json_t *counts)
{
    char text[CELL_BYTES] = "";
    const char *name;
    json_t *count;

    json_object_foreach(counts, name, count)
    {
        text_append(text, "%s%.9g %s", text[0] != '\0' ? ", " : "", json_number_value(count), name);
    }
    cell_set(cell, "%s", text[0] != '\0' ? text : "none");
}

static void value_format(char *cell, const char *name, json_t *value)
{
    if (json_is_integer(value)) {
        integer_format(cell, name, json_integer_value(value));
    } else if (json_is_real(value)) {
        cell_set(cell, "%.9g", json_real_value(value));
    } else if (json_is_string(value)) {
        cell_set(cell, "%s", json_string_value(value));
    } else if (json_is_array(value)) {
        list_format(cell, value);
    } else if (json_is_object(value)) {
        counts_format(cell, value);
    } else {
        cell_set(cell, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-");
    }
}

/* "expert_count" reads "expert count". */
static void name_format(char *cell, const char *name)
{
    cell_set(cell, "%s", name);
    for (char *c = cell; *c != '\0'; c++) {
        *c = *c == '_' ? ' ' : *c;
    }
}

/* ---- Tables ---- */

/* True if every member is an object. */
static bool is_table(json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (!json_is_object(value)) {
            return false;
        }
    }
    return json_object_size(object) > 0;
}

/* The cells of one row: its name, then its members. Returns how many. */
static size_t row_format(const char *name, json_t *row, bool heading, char cells[COLUMNS_MAX][CELL_BYTES])
{
    const char *member;
    json_t *value;
    size_t n = 1;

    name_format(cells[0], heading ? "" : name);
    json_object_foreach(row, member, value)
    {
        if (n == COLUMNS_MAX) {
            break;
        }
        if (heading) {
            name_format(cells[n++], member);
        } else {
            value_format(cells[n++], member, value);
        }
    }
    return n;
}

static void row_print(char cells[COLUMNS_MAX][CELL_BYTES], size_t n, size_t widths[COLUMNS_MAX], int indent, bool print)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(cells[i]);
        widths[i] = len > widths[i] ? len : widths[i];
        if (print) {
            bool last = i + 1 == n;
            console_answer_printf("%*s%-*s%s", i == 0 ? indent : 2, "", last ? 0 : (int)widths[i], cells[i],
                                  last ? "\n" : "");
        }
    }
}

/* Two passes over the heading and the rows: widths, then text. */
static void table_print(json_t *rows, int indent)
{
    char cells[COLUMNS_MAX][CELL_BYTES];
    size_t widths[COLUMNS_MAX] = {0};
    const char *name;
    json_t *row;

    for (int print = 0; print < 2; print++) {
        bool heading = true;
        json_object_foreach(rows, name, row)
        {
            for (int lines = heading ? 2 : 1; lines > 0; lines--) {
                size_t n = row_format(name, row, heading, cells);
                heading = false;
                row_print(cells, n, widths, indent, print != 0);
            }
        }
    }
}

/* ---- Objects ---- */

static void object_print(json_t *object, int indent)
{
    char cell[CELL_BYTES], title[CELL_BYTES];
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        name_format(title, name);
        if (json_is_object(value)) {
            console_answer_printf("%*s%s\n", indent, "", title);
            (is_table(value) ? table_print : object_print)(value, indent + INDENT);
        } else {
            value_format(cell, name, value);
            console_answer_printf("%*s%-*s %s\n", indent, "", NAME_WIDTH - indent, title, cell);
        }
    }
}

/* ---- The command ---- */

static sluice_status inspect_print(const char *text, bool as_json, sluice_error *err)
{
    json_t *object;

    if (as_json) {
        console_answer_text(text);
        console_answer_text("\n");
        return SLUICE_OK;
    }
    TRY(json_parse(text, strlen(text), "the description", &object, err));
    object_print(object, 0);
    json_decref(object);
    return SLUICE_OK;
}

static sluice_status inspect(const struct inspect_options *options, sluice_error *err)
{
    sluice_engine_options callbacks;
    char buf[PATH_MAX + 64];
    const char *dir;
    char *text;

    console_set_quiet(options->model.quiet);
    TRY(model_dir_find(&options->model, buf, sizeof buf, &dir, err));
    sluice_engine_options_init(&callbacks);
    callbacks.message = console_message;
    callbacks.progress = console_progress;
    TRY(sluice_inspect(dir, &callbacks, &text, err));
    sluice_status status = inspect_print(text, options->json, err);
    sluice_free(text);
    return status;
}

static int inspect_run(int argc, char *const *argv)
{
    struct inspect_options options = {0};
    sluice_error err;
    int result;

    if (command_parse(&inspect_args, argc, argv, &options, &result)) {
        result = command_end(inspect(&options, &err), &err);
    }
    return result;
}

const struct command command_inspect = {&inspect_args, inspect_run};
