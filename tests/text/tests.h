/* The groups of tests of src/text; each returns how many failed. */
#ifndef SLUICE_TESTS_TEXT_TESTS_H
#define SLUICE_TESTS_TEXT_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int run_cases_tests(void);
int run_chat_tests(void);
int run_detokenizer_tests(void);
int run_encode_tests(void);
int run_fault_tests(void);
int run_hostile_tests(void);
int run_load_tests(void);
int run_regex_tests(void);
int run_utf8_tests(void);

#endif
