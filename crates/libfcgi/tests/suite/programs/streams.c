/* What fcgiapp.h says of streams and requests beside the usual: filters, ends, errors, sequence. */

#include <fcgiapp.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    FCGX_Request request;
    int n;

    if (FCGX_Accept_r(&request) == 0)
        return 1; /* not initialized */
    if (FCGX_Init() != 0 || FCGX_Init() != 0 || FCGX_IsCGI())
        return 2;
    if (FCGX_InitRequest(&request, 0, 0) != 0)
        return 3;
    while (FCGX_Accept_r(&request) == 0) {
        char text[8];

        FCGX_PutS("Content-Type: text/plain\n\n", request.out);
        FCGX_FPrintF(request.out, "role=%d fd=%d in=%d out=%d\n", request.role, request.ipcFd >= 0,
                     request.in->isReader, request.out->isReader);
        FCGX_FPrintF(request.out, "missing=%d\n", FCGX_GetParam("NOT", request.envp) == NULL);
        /* What is put back need not be what was read; nobody can read a writer. */
        n = FCGX_GetChar(request.in) == 't' && FCGX_UnGetChar('T', request.in) == 'T';
        FCGX_FPrintF(request.out, "%d %d\n", n, FCGX_GetChar(request.out));
        if (request.role == 3) {
            while ((n = FCGX_GetStr(text, sizeof text, request.in)) > 0)
                FCGX_PutStr(text, n, request.out);
            FCGX_FPrintF(request.out, " eof=%d", FCGX_HasSeenEOF(request.in));
            FCGX_FPrintF(request.out, " data=%d\n", FCGX_StartFilterData(request.in));
            while (FCGX_GetLine(text, sizeof text, request.in) != NULL)
                FCGX_FPrintF(request.out, "[%s]", text);
            FCGX_FPrintF(request.out, " again=%d", FCGX_StartFilterData(request.in) < 0);
        } else {
            FCGX_FPrintF(request.out, "data=%d", FCGX_StartFilterData(request.in) < 0);
            FCGX_FPrintF(request.out, " error=%d", FCGX_GetError(request.in));
        }
        FCGX_FPrintF(request.err, "to the log");
        FCGX_SetExitStatus(5, request.out);
        /* Both writers are closed, so the request has ended before it is finished. */
        if (FCGX_FClose(request.out) != 0 || FCGX_FClose(request.err) != 0)
            return 4;
        if (FCGX_PutStr("x", 1, request.out) != EOF)
            return 5;
        FCGX_Finish_r(&request);
        if (request.in != NULL || request.out != NULL)
            return 6;
    }
    FCGX_Free(&request, 1);
    return request.ipcFd < 0 ? 0 : 7;
}
