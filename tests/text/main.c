/* Tests of src/text. */
#include "tests.h"

int main(void)
{
    return run_utf8_tests() + run_regex_tests() + run_load_tests() + run_hostile_tests() + run_encode_tests() +
           run_detokenizer_tests() + run_chat_tests() + run_cases_tests() + run_fault_tests();
}
