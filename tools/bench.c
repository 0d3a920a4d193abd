/* sluice bench: measures the kernels, or decoding with a model, and says how far that is from the machine's limits. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "command.h"
#include "console.h"
#include "options.h"
#include "progress.h"

#define DEFAULT_PROMPT_TOKENS 16
#define DEFAULT_TOKENS 32
#define DEFAULT_RUNS 7

struct kernels_options {
    const char *cpu_features;
};

struct decode_options {
    struct engine_choice engine;
    struct bench_decode_options bench;
};

#define DECODE(field) offsetof(struct decode_options, bench.field)

static const struct arg_option kernels_table[] = {
    {"--cpu-features", ARG_TEXT, offsetof(struct kernels_options, cpu_features), "LIST",
     .help = "instruction sets to measure: all, scalar, avx2"},
    {0},
};

static const struct arg_option decode_table[] = {
    {"-n", ARG_U32, DECODE(tokens), "N", .help = "tokens decoded in a run (default: 32)", .min = 1},
    {"--prompt-tokens", ARG_U32, DECODE(prompt_tokens), "N", .help = "tokens before them (default: 16)", .min = 1},
    {"--runs", ARG_U32, DECODE(runs), "N", .help = "runs, after one that is not measured (default: 7)", .min = 1,
     .max = 1000},
    {0},
};

static const struct arg_command bench_args = {
    "bench",
    "(kernels | decode) [options | --help]",
    "Measures the kernels, or decoding with a model, against the machine's limits.",
    {NULL},
};

static const struct arg_command kernels_args = {
    "bench kernels",
    "[--cpu-features LIST]",
    "Speed of every kernel on every instruction set, beside a streaming read.",
    {kernels_table},
};

static const struct arg_command decode_args = {
    "bench decode",
    "[-m DIR] [-n N] [options]",
    "Tokens per second, with experts resident as far as --memory allows.",
    {decode_table, model_table, engine_table, stats_table},
};

static sluice_status kernels_measure(const struct kernels_options *options, sluice_error *err)
{
    uint32_t features;

    TRY(bench_features_parse(options->cpu_features, &features, err));
    if (bench_kernels(stdout, features) != 0) {
        return error_set(err, SLUICE_NO_MEMORY, "not enough memory for the bench");
    }
    return SLUICE_OK;
}

static sluice_status decode_measure(const struct decode_options *options, sluice_error *err)
{
    sluice_engine *engine;

    TRY(engine_choice_open(&options->engine, &engine, err));
    sluice_status status = bench_decode(stdout, engine, &options->bench, err);
    if (status == SLUICE_OK) {
        stats_report(engine, options->engine.stats);
    }
    progress_watch_engine(NULL);
    sluice_engine_close(&engine, NULL);
    return status;
}

static int kernels_run(int argc, char *const *argv)
{
    struct kernels_options options = {0};
    sluice_error err;
    int result;

    if (command_parse(&kernels_args, argc, argv, &options, &result)) {
        result = command_end(kernels_measure(&options, &err), &err);
    }
    return result;
}

static int decode_run(int argc, char *const *argv)
{
    struct decode_options options = {.bench = {DEFAULT_PROMPT_TOKENS, DEFAULT_TOKENS, DEFAULT_RUNS}};
    sluice_error err;
    int result;

    if (command_parse(&decode_args, argc, argv, &options, &result)) {
        result = command_end(decode_measure(&options, &err), &err);
    }
    return result;
}

static int bench_run(int argc, char *const *argv)
{
    int result;

    if (argc > 0 && strcmp(argv[0], "kernels") == 0) {
        return kernels_run(argc - 1, argv + 1);
    }
    if (argc > 0 && strcmp(argv[0], "decode") == 0) {
        return decode_run(argc - 1, argv + 1);
    }
    if (command_parse(&bench_args, argc, argv, NULL, &result)) {
        result = command_usage(&bench_args, "say what to measure: kernels or decode");
    }
    return result;
}

const struct command command_bench = {&bench_args, bench_run};
