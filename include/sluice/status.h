/* Status codes and the error record shared by every public header of sluice. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One line a status: name, value, description. Zero is success, every failure is negative. */
#define SLUICE_STATUS_LIST(X)                                                                 \
    X(OK, 0, "success")                                                                       \
    X(INVALID, -1, "misuse of the interface or a bad argument")                               \
    X(NO_MEMORY, -2, "out of memory")                                                         \
    X(IO, -3, "a file could not be read or written")                                          \
    X(FORMAT, -4, "a file is malformed or contradicts itself")                                \
    X(INCOMPLETE, -5, "a file or part of a file is missing, as after an unfinished download") \
    X(UNSUPPORTED, -6, "a valid input that this build or version does not handle")            \
    X(LIMIT, -7, "the request does not fit the memory limit")                                 \
    X(CONTEXT_FULL, -8, "the context holds no further token")                                 \
    X(CANCELLED, -9, "cancelled by the caller")                                               \
    X(NUMERIC, -10, "a value that must be finite is not")                                     \
    X(STALE, -11, "a handle or lease that is no longer valid")                                \
    X(BUSY, -12, "the object is in use")

typedef enum sluice_status {
#define SLUICE_STATUS_ENUM(name, value, text) SLUICE_##name = (value),
    SLUICE_STATUS_LIST(SLUICE_STATUS_ENUM)
#undef SLUICE_STATUS_ENUM
} sluice_status;

/* What went wrong. Filled on failure when the caller passes one; untouched on success. */
typedef struct sluice_error {
    sluice_status status;
    int os_errno;      /* errno of the failing system call, 0 when there was none */
    char message[512]; /* one line, names the file, tensor or field; always terminated */
} sluice_error;

/* Name of a status ("SLUICE_FORMAT"), "SLUICE_UNKNOWN" for a value outside the list. */
SLUICE_API const char *sluice_status_name(sluice_status status);

/* One-line description of a status. */
SLUICE_API const char *sluice_status_text(sluice_status status);

#ifdef __cplusplus
}
#endif
#endif
