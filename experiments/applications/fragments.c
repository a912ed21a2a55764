/*
 * An application whose replies are mostly a file, as a page is that is put together of fragments (Suzumura
 * and others 2009): a tenth is computed, and the rest is a file.
 *
 *     cc -O2 fragments.c -lfcgi -o fragments && FILES=DIR ./fragments SOCKET PROCESSES
 *
 * The query says how long the reply is: file=dynamic/65536.html. The file is below FILES, which no URL leads
 * to, and is made when it is first asked for. With FRAGMENTS=named in the environment the application names
 * the file (X-ZeroCopy), and the server sends it. Otherwise the application reads it and sends it itself.
 */

#define _GNU_SOURCE
#include "serve.h"

#include <errno.h>
#include <fcntl.h>

#define MOST (64 << 20)

static const char *files;
static char *page;
static int is_named;

/* The length that a query asks for, or -1. */
static long length_of(const char *query)
{
    static const char key[] = "file=dynamic/";
    char *end;
    if (strncmp(query, key, sizeof key - 1) != 0)
        return -1;
    long length = strtol(query + sizeof key - 1, &end, 10);
    return end != query + sizeof key - 1 && length > 0 && length <= MOST ? length : -1;
}

static int write_to(int file, const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t count = write(file, from, bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return -1;
        from += count;
        bytes -= (size_t)count;
    }
    return 0;
}

static int read_from(int file, char *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t count = read(file, to, bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return -1;
        to += count;
        bytes -= (size_t)count;
    }
    return 0;
}

/* Opens a file of so many bytes. Processes that make it at the same time make the same one. */
static int fragment(char *path, size_t room, size_t bytes)
{
    char unfinished[4096];
    snprintf(path, room, "%s/%zu.fragment", files, bytes);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 || errno != ENOENT)
        return file;
    snprintf(unfinished, sizeof unfinished, "%s/%zu.%d", files, bytes, (int)getpid());
    file = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0)
        return -1;
    memset(page, 'f', bytes);
    int failed = write_to(file, page, bytes) != 0 || rename(unfinished, path) != 0;
    close(file);
    return failed ? -1 : open(path, O_RDONLY | O_CLOEXEC);
}

static void answer(FCGX_Request *request, const char *query)
{
    char path[4096];
    long bytes = length_of(query);
    if (bytes < 0) {
        refuse(request, "400 Bad Request", "allowed: file=dynamic/BYTES.html, up to 64 MiB");
        return;
    }
    size_t computed = (size_t)bytes / 10, of_file = (size_t)bytes - computed;
    int file = fragment(path, sizeof path, of_file);
    if (file < 0) {
        refuse(request, "500 Internal Server Error", strerror(errno));
        return;
    }
    memset(page, 'x', computed);
    if (is_named) {
        FCGX_FPrintF(request->out, "Content-Type: text/html\r\nX-ZeroCopy: %ld/%ld\r\n\r\n", (long)computed,
                     (long)strlen(path));
        FCGX_PutStr(page, (int)computed, request->out);
        FCGX_PutS(path, request->out);
    } else if (read_from(file, page + computed, of_file) != 0) {
        refuse(request, "500 Internal Server Error", strerror(errno));
    } else {
        head(request, query, (size_t)bytes);
        FCGX_PutStr(page, (int)bytes, request->out);
    }
    close(file);
}

int main(int count, char **arguments)
{
    const char *fragments = getenv("FRAGMENTS");
    files = getenv("FILES");
    if (count < 3 || files == NULL) {
        fprintf(stderr, "FILES=DIRECTORY %s SOCKET PROCESSES\n", arguments[0]);
        return 2;
    }
    is_named = fragments != NULL && strcmp(fragments, "named") == 0;
    page = malloc(MOST);
    if (page == NULL) {
        perror("malloc");
        return 1;
    }
    return run(arguments[1], arguments[2], answer);
}
