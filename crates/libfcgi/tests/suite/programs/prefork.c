/* Three processes that accept from one socket. Each answers with its number, and ends after one request. */

#include <fcgiapp.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    FCGX_Request request;
    int i;

    if (FCGX_Init() != 0 || FCGX_InitRequest(&request, 0, FCGI_FAIL_ACCEPT_ON_INTR) != 0)
        return 1;
    for (i = 0; i < 3; i++) {
        if (fork() == 0) {
            alarm(60); /* Nobody else may end it. */
            if (FCGX_Accept_r(&request) < 0)
                _exit(1);
            FCGX_FPrintF(request.out, "Content-Type: text/plain\n\n%ld", (long)getpid());
            FCGX_Finish_r(&request);
            FCGX_Free(&request, 1);
            _exit(0);
        }
    }
    for (i = 0; i < 3; i++) {
        int status;

        if (wait(&status) < 0 || status != 0)
            return 1;
    }
    return 0;
}
