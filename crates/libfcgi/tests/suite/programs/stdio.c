/*
 * A CGI program with a loop around it, by the macros of fcgi_stdio.h: tells its environment and the lines of
 * its input, by every function that writes and reads.
 */

#include <fcgi_stdio.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
}

int main(void)
{
    int requests = 0;

    while (FCGI_Accept() >= 0) {
        char line[64], block[16], large[3000], *query = getenv("QUERY_STRING");
        size_t count;
        FILE *file;
        int c;

        requests++;
        printf("Content-Type: text/plain\r\nX-Requests: %d\r\n", requests);
        puts("\r");
        memset(large, 'l', sizeof large - 1);
        large[sizeof large - 1] = 0;
        say("query=%s number=%0*d %.1f %s\n", query ? query : "none", 8, 7, 2.5, large);
        if (fgets(line, sizeof line, stdin) != NULL)
            fprintf(stdout, "first=%s", line);
        c = getchar();
        if (c != EOF) {
            printf("next=%c again=%c", c, c == ungetc(c, stdin) ? fgetc(stdin) : '?');
            putchar('\n');
        }
        count = fread(block, 1, sizeof block, stdin);
        fputs("block=", stdout);
        fwrite(block, 1, count, stdout);
        fputc('\n', stdout);
        while ((c = getc(stdin)) != EOF)
            continue;
        printf("end=%d error=%d fileno=%d\n", feof(stdin) != 0, ferror(stdin) != 0, fileno(stdin) >= 0);
        file = tmpfile();
        fprintf(file, "in a file %s", "of its own");
        rewind(file);
        count = fread(line, 1, sizeof line, file);
        printf("%.*s %ld\n", (int)count, line, (long)ftell(file));
        fclose(file);
        fprintf(stderr, "request %d", requests);
        fflush(stdout);
        FCGI_SetExitStatus(requests);
    }
    return 0;
}
