/* Faults of positioned reads, by -Wl,--wrap=pread64. Off until one of these is called; may be used while reads run. */
#ifndef SLUICE_TESTS_EXPERTS_READ_FAULT_H
#define SLUICE_TESTS_EXPERTS_READ_FAULT_H

/* The reads numbered first .. first + n - 1 from now fail with this errno; 0: they find the end of the file. */
void read_fault_fail(int os_errno, unsigned first, unsigned n);

/* Reads wait inside pread until read_fault_go. */
void read_fault_hold(void);

/* No faults, nothing held. */
void read_fault_go(void);

/* Reads that have begun since the process started. */
unsigned read_fault_count(void);

#endif
