/*
 * What the applications here have in common: processes that take FastCGI requests at a socket, one at a
 * time each, through libfcgi's interface for several sockets (FCGX_*_r).
 *
 *     program SOCKET PROCESSES [ROOT]
 *
 * SOCKET is a path, or ADDRESS:PORT. The first process waits; the others end when it does, and it ends when
 * one of them does.
 */

#include <fcgiapp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Answers one request whose query is `query`. */
typedef void answer_function(FCGX_Request *request, const char *query);

/* The value of a number in a query, from `least` to `most`, or -1. */
static long number(const char *query, const char *name, long least, long most)
{
    size_t length = strlen(name);
    for (const char *at = query; at != NULL; at = strchr(at, '&')) {
        if (*at == '&')
            at++;
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            char *end;
            long value = strtol(at + length + 1, &end, 10);
            if (end != at + length + 1 && (*end == '&' || *end == '\0') && value >= least && value <= most)
                return value;
            return -1;
        }
    }
    return -1;
}

static void refuse(FCGX_Request *request, const char *status, const char *why)
{
    FCGX_FPrintF(request->out, "Status: %s\r\nContent-Type: text/plain\r\n\r\n%s\n", status, why);
}

/* The head of a reply: with its length, where the client's query says length=1. */
static void head(FCGX_Request *request, const char *query, size_t bytes)
{
    FCGX_PutS("Content-Type: text/html\r\n", request->out);
    if (number(query, "length", 1, 1) == 1)
        FCGX_FPrintF(request->out, "Content-Length: %ld\r\n", (long)bytes);
    FCGX_PutS("\r\n", request->out);
}

static int serve(int listener, answer_function *answer)
{
    FCGX_Request request;
    if (FCGX_Init() != 0 || FCGX_InitRequest(&request, listener, 0) != 0)
        return 1;
    while (FCGX_Accept_r(&request) == 0) {
        const char *query = FCGX_GetParam("QUERY_STRING", request.envp);
        answer(&request, query != NULL ? query : "");
        FCGX_Finish_r(&request);
    }
    return 1;
}

static int run(const char *socket, const char *processes, answer_function *answer)
{
    char *end;
    long count = strtol(processes, &end, 10);
    if (*end != '\0' || count < 1 || count > 4096) {
        fprintf(stderr, "%s processes; allowed: 1 to 4096\n", processes);
        return 2;
    }
    if (FCGX_Init() != 0)
        return 1;
    int listener = FCGX_OpenSocket(socket, 4096);
    if (listener < 0) {
        fprintf(stderr, "cannot listen at %s\n", socket);
        return 1;
    }
    pid_t first = getpid();
    for (long child = 0; child < count; child++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return 1;
        }
        if (pid == 0) {
            /* It may have ended before this call. The library would have SIGTERM wait for a request. */
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != first)
                _exit(1);
            _exit(serve(listener, answer));
        }
    }
    int status;
    pid_t ended = wait(&status);
    /* SIGTERM, for which the library has a handler. */
    if (ended < 0)
        return 0;
    fprintf(stderr, "process %ld ended with %d\n", (long)ended, status);
    return 1;
}
