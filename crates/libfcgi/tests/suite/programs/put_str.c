/*
 * Answers with FCGX_PutStr: QUERY_STRING is how many bytes, in how many pieces, and whether the length is
 * told: "BYTES,PIECES,LENGTH" with LENGTH 0 or 1. The body of the request is added to the head as its length
 * and a sum.
 */

#include <fcgiapp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    FCGX_Stream *in, *out, *err;
    FCGX_ParamArray envp;

    while (FCGX_Accept(&in, &out, &err, &envp) >= 0) {
        const char *query = FCGX_GetParam("QUERY_STRING", envp);
        long size = 0, pieces = 1, i;
        int told = 0, c;
        unsigned long length = 0, sum = 0;
        char head[256], *body;

        if (query != NULL)
            sscanf(query, "%ld,%ld,%d", &size, &pieces, &told);
        while ((c = FCGX_GetChar(in)) != EOF) {
            length++;
            sum = sum * 31 + (unsigned long)c;
        }
        i = snprintf(head, sizeof head, "Content-Type: text/plain\r\nX-Body: %lu %lu\r\n", length, sum);
        FCGX_PutStr(head, (int)i, out);
        if (told)
            FCGX_FPrintF(out, "Content-Length: %ld\r\n", size);
        FCGX_PutS("\r\n", out);
        body = malloc((size_t)size + 1);
        for (i = 0; i < size; i++)
            body[i] = (char)('a' + i % 26);
        for (i = 0; i < pieces; i++)
            FCGX_PutStr(body + size * i / pieces, (int)(size * (i + 1) / pieces - size * i / pieces), out);
        free(body);
    }
    return 0;
}
