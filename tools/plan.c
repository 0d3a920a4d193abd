/* sluice plan: what a run would need, line by line, without reading a weight. Exit status 1 when it does not fit. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "command.h"
#include "console.h"
#include "numbers.h"
#include "options.h"

struct plan_options {
    struct engine_choice engine;
    bool json;
};

static const struct arg_option plan_table[] = {
    {"--json", ARG_FLAG, offsetof(struct plan_options, json), NULL, .help = "one JSON object instead of a table"},
    {0},
};

static const struct arg_command plan_args = {
    "plan",
    "[-m DIR] [--memory SIZE] [--context N] [options]",
    "Shows what a run would need and whether it fits, without reading a weight.",
    {plan_table, model_table, engine_table},
};

static void bytes_print(const char *what, uint64_t bytes)
{
    char text[32];

    number_format_bytes(bytes, text, sizeof text);
    console_answer_printf("%-40s %14s\n", what, text);
}

static void plan_print_table(const sluice_plan *plan)
{
    char slot[32];

    for (size_t i = 0; i < plan->n_lines; i++) {
        bytes_print(plan->lines[i].what, plan->lines[i].bytes);
    }
    bytes_print("total", plan->total);
    console_answer_text("\n");
    bytes_print("limit", plan->limit);
    bytes_print("smallest limit", plan->minimum);
    console_answer_printf("%-40s %14s\n", "limit given by", plan_limit_origin(plan));
    console_answer_printf("%-40s %14" PRIu32 "\n", "context, tokens", plan->context);
    console_answer_printf("%-40s %14" PRIu64 "\n", "expert slots", plan->expert_slots);
    console_answer_printf("%-40s %14" PRIu64 "\n", "experts", plan->expert_count);
    console_answer_printf("%-40s %14" PRIu32 "\n", "experts resident per layer", plan->slots_per_layer);
    number_format_bytes(plan->slot_bytes, slot, sizeof slot);
    console_answer_printf("%-40s %14s\n", "one slot", slot);
    console_answer_printf("%-40s %14s\n", "fits", plan->fits ? "yes" : "no");
}

static sluice_status plan_print_json(const sluice_plan *plan, sluice_error *err)
{
    json_t *lines = json_array();

    for (size_t i = 0; i < plan->n_lines; i++) {
        json_array_append_new(
            lines, json_pack("{s:s, s:I}", "what", plan->lines[i].what, "bytes", (json_int_t)plan->lines[i].bytes));
    }
    json_t *object = json_pack(
        "{s:b, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:s}", "fits", (int)plan->fits, "limit",
        (json_int_t)plan->limit, "limit_from", plan_limit_origin(plan), "total", (json_int_t)plan->total, "minimum",
        (json_int_t)plan->minimum, "context", (json_int_t)plan->context, "expert_slots", (json_int_t)plan->expert_slots,
        "slot_bytes", (json_int_t)plan->slot_bytes, "experts", (json_int_t)plan->expert_count, "slots_per_layer",
        (json_int_t)plan->slots_per_layer, "lines", lines, "advice", plan->advice);
    if (object == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for the plan");
    }
    console_answer_json(object);
    json_decref(object);
    return SLUICE_OK;
}

static sluice_status plan(const struct plan_options *options, sluice_error *err)
{
    char buf[PATH_MAX + 64];
    sluice_engine_options engine;
    sluice_plan made;

    console_set_quiet(options->engine.model.quiet);
    TRY(engine_choice_resolve(&options->engine, buf, sizeof buf, &engine, err));
    TRY(sluice_plan_compute(&made, &engine, err));
    if (options->json) {
        TRY(plan_print_json(&made, err));
    } else {
        plan_print_table(&made);
    }
    return made.fits ? SLUICE_OK : plan_refuse(&made, err);
}

static int plan_run(int argc, char *const *argv)
{
    struct plan_options options = {0};
    sluice_error err;
    int result;

    if (command_parse(&plan_args, argc, argv, &options, &result)) {
        result = command_end(plan(&options, &err), &err);
    }
    return result;
}

const struct command command_plan = {&plan_args, plan_run};
