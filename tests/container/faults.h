/* Injected failures of writing, for the tests of random containers. */
#ifndef SLUICE_TESTS_CONTAINER_FAULTS_H
#define SLUICE_TESTS_CONTAINER_FAULTS_H

#include <stdint.h>

/* After this many bytes have been written the disk is full; UINT64_MAX: never. */
void fault_disk_size(uint64_t bytes);

#endif
