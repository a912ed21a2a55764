/*
 * Eight threads that accept from one socket, without a lock around that. Each answers with the value of TOKEN
 * as often as QUERY_STRING says, in a line each.
 */

#include <fcgiapp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void *serve(void *unused)
{
    FCGX_Request request;

    if (FCGX_InitRequest(&request, 0, 0) != 0)
        return unused;
    while (FCGX_Accept_r(&request) == 0) {
        const char *token = FCGX_GetParam("TOKEN", request.envp);
        long count = atol(FCGX_GetParam("QUERY_STRING", request.envp));

        FCGX_FPrintF(request.out, "Content-Type: text/plain\nX-Token: %s\n\n", token);
        while (count-- > 0)
            FCGX_FPrintF(request.out, "%s\n", token);
        FCGX_Finish_r(&request);
    }
    FCGX_Free(&request, 1);
    return unused;
}

int main(void)
{
    pthread_t thread;
    sigset_t users;
    int i;

    if (FCGX_Init() != 0)
        return 1;
    /* Only this thread is told to end, and all end with it. */
    sigemptyset(&users);
    sigaddset(&users, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &users, NULL);
    for (i = 0; i < 8; i++)
        pthread_create(&thread, NULL, serve, NULL);
    pthread_sigmask(SIG_UNBLOCK, &users, NULL);
    pause();
    return 0;
}
