/*
 * A FastCGI application that computes nothing: as many letters as the query says (bytes=32768), from memory
 * that is there beforehand. What a request costs is what its transport costs.
 *
 *     cc -O2 constant.c -lfcgi -o constant && ./constant SOCKET PROCESSES
 */

#include "serve.h"

#define MOST (64 << 20)

static char *body;

static void answer(FCGX_Request *request, const char *query)
{
    long bytes = number(query, "bytes", 0, MOST);
    if (bytes < 0) {
        refuse(request, "400 Bad Request", "allowed: bytes= with 0 to 67108864");
        return;
    }
    head(request, query, bytes);
    FCGX_PutStr(body, (int)bytes, request->out);
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fprintf(stderr, "%s SOCKET PROCESSES\n", arguments[0]);
        return 2;
    }
    body = malloc(MOST);
    if (body == NULL) {
        perror("malloc");
        return 1;
    }
    memset(body, '=', MOST);
    return run(arguments[1], arguments[2], answer);
}
