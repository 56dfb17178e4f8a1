/* Reports every change of the files below one folder, before and after it happens.

   files_watch(folder, watcher) begins: the watcher is called with the operation, its paths and its
   bytes. What it does before an operation (such as ending the process) happens before it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BEFORE, AFTER, FAILED, SIZE = 4096 };
typedef void (*watcher)(int moment, const char *op, const char *path, const char *other,
                        const void *bytes, long long length, long long offset);

static char root[SIZE];
static size_t root_length;
static watcher watch;
static __thread int inside;

void files_watch(const char *folder, watcher callback) {
    root_length = strlen(folder);
    memcpy(root, folder, root_length + 1);
    watch = callback;
}

static int is_watched(const char *path) {
    return watch && !inside && !strncmp(path, root, root_length) &&
           (path[root_length] == '/' || !path[root_length]);
}

static void name_of(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, SIZE - 1);
    out[length < 0 ? 0 : length] = 0;
}

static void absolute(int folder, const char *path, char *out) {
    char base[SIZE];
    if (path[0] == '/') {
        snprintf(out, SIZE, "%s", path);
        return;
    }
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) base[0] = 0;
    } else {
        name_of(folder, base);
    }
    if (snprintf(out, SIZE, "%s/%s", base, path) >= SIZE) out[0] = 0;
}

static void report(int moment, const char *op, const char *path, const char *other,
                   const void *bytes, long long length, long long offset) {
    int error = errno;
    inside = 1;
    watch(moment, op, path, other, bytes, length, offset);
    inside = 0;
    errno = error;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WATCHED(op, path, other, bytes, length, offset, call, succeeded)                          \
    do {                                                                                           \
        report(BEFORE, op, path, other, bytes, length, -1);                                        \
        long long found = (call);                                                                  \
        report(found succeeded ? AFTER : FAILED, op, path, other, bytes, length, offset);          \
        return found;                                                                              \
    } while (0)

static int opened(int (*real)(const char *, int, ...), int folder, const char *path, int flags,
                  mode_t mode) {
    char name[SIZE];
    int changes = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
    absolute(folder, path, name);
    if (!changes || !is_watched(name)) return real(path, flags, mode);
    WATCHED("open", name, "", NULL, flags, 0, real(path, flags, mode), >= 0);
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        REAL(name);                                                                                \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                                  \
        va_end(rest);                                                                              \
        return opened(real, AT_FDCWD, path, flags, mode);                                          \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int name(int folder, const char *path, int flags, ...) {                                       \
        REAL(name);                                                                                \
        char full[SIZE];                                                                           \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                                  \
        va_end(rest);                                                                              \
        absolute(folder, path, full);                                                              \
        int changes = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);                             \
        if (!changes || !is_watched(full)) return real(folder, path, flags, mode);                 \
        WATCHED("open", full, "", NULL, flags, 0, real(folder, path, flags, mode), >= 0);          \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *bytes, size_t length) {
    REAL(write);
    char name[SIZE];
    if (!watch || inside) return real(fd, bytes, length);
    name_of(fd, name);
    if (!is_watched(name)) return real(fd, bytes, length);
    report(BEFORE, "write", name, "", bytes, length, -1);
    ssize_t written = real(fd, bytes, length);
    if (written > 0) report(AFTER, "write", name, "", bytes, written, lseek(fd, 0, SEEK_CUR) - written);
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t written = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (written < 0) return total ? total : written;
        total += written;
        if ((size_t)written < parts[i].iov_len) break;
    }
    return total;
}

#define PWRITE(name)                                                                               \
    ssize_t name(int fd, const void *bytes, size_t length, off_t offset) {                         \
        REAL(name);                                                                                \
        char path[SIZE];                                                                           \
        if (!watch || inside) return real(fd, bytes, length, offset);                              \
        name_of(fd, path);                                                                         \
        if (!is_watched(path)) return real(fd, bytes, length, offset);                             \
        WATCHED("write", path, "", bytes, length, offset, real(fd, bytes, length, offset), > 0);   \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define ON_FILE(name, op, extra)                                                                   \
    {                                                                                              \
        REAL(name);                                                                                \
        char path[SIZE];                                                                           \
        name_of(fd, path);                                                                         \
        if (!is_watched(path)) return real extra;                                                  \
        WATCHED(op, path, "", NULL, 0, size, real extra, == 0);                                    \
    }
int ftruncate(int fd, off_t size) ON_FILE(ftruncate, "truncate", (fd, size))
int ftruncate64(int fd, off64_t size) ON_FILE(ftruncate64, "truncate", (fd, size))
int fsync(int fd) { off_t size = 0; ON_FILE(fsync, "fsync", (fd)) }
int fdatasync(int fd) { off_t size = 0; ON_FILE(fdatasync, "fsync", (fd)) }

#define ON_PATH(name, op, folder, arguments)                                                       \
    {                                                                                              \
        REAL(name);                                                                                \
        char full[SIZE];                                                                           \
        absolute(folder, path, full);                                                              \
        if (!is_watched(full)) return real arguments;                                              \
        WATCHED(op, full, "", NULL, 0, 0, real arguments, == 0);                                   \
    }
int unlink(const char *path) ON_PATH(unlink, "unlink", AT_FDCWD, (path))
int rmdir(const char *path) ON_PATH(rmdir, "rmdir", AT_FDCWD, (path))
int mkdir(const char *path, mode_t mode) ON_PATH(mkdir, "mkdir", AT_FDCWD, (path, mode))
int mkdirat(int folder, const char *path, mode_t mode)
    ON_PATH(mkdirat, "mkdir", folder, (folder, path, mode))
int unlinkat(int folder, const char *path, int flags)
    ON_PATH(unlinkat, (flags & AT_REMOVEDIR ? "rmdir" : "unlink"), folder, (folder, path, flags))

int symlink(const char *target, const char *path)
    ON_PATH(symlink, "symlink", AT_FDCWD, (target, path))

int renameat(int old_folder, const char *old, int new_folder, const char *path) {
    REAL(renameat);
    char from[SIZE], to[SIZE];
    absolute(old_folder, old, from);
    absolute(new_folder, path, to);
    if (!is_watched(to) && !is_watched(from)) return real(old_folder, old, new_folder, path);
    WATCHED("rename", from, to, NULL, 0, 0, real(old_folder, old, new_folder, path), == 0);
}
int rename(const char *old, const char *path) { return renameat(AT_FDCWD, old, AT_FDCWD, path); }
