/*
 * The functions of libfcgi that take any number of arguments, which stable Rust can neither define nor take
 * on. All they do is to write what the C library makes of these. printf.rs gives them their names.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* As in fcgiapp.h and fcgi_stdio.h; what is in a stream is none of our business. */
struct FCGX_Stream;

typedef struct {
    FILE *stdio_stream;
    struct FCGX_Stream *fcgx_stream;
} FCGI_FILE;

extern FCGI_FILE _fcgi_sF[];
extern int FCGX_PutStr(const char *str, int n, struct FCGX_Stream *stream);

int sluice_fcgx_vfprintf(struct FCGX_Stream *stream, const char *format, va_list arguments)
{
    char usual[1024];
    char *large;
    va_list again;
    int length;

    va_copy(again, arguments);
    length = vsnprintf(usual, sizeof usual, format, arguments);
    if (length < (int)sizeof usual) {
        va_end(again);
        return length < 0 ? EOF : FCGX_PutStr(usual, length, stream);
    }
    large = malloc((size_t)length + 1);
    if (large == NULL) {
        va_end(again);
        return EOF;
    }
    length = vsnprintf(large, (size_t)length + 1, format, again);
    va_end(again);
    length = length < 0 ? EOF : FCGX_PutStr(large, length, stream);
    free(large);
    return length;
}

int sluice_fcgx_fprintf(struct FCGX_Stream *stream, const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = sluice_fcgx_vfprintf(stream, format, arguments);
    va_end(arguments);
    return length;
}

int sluice_fcgi_vfprintf(FCGI_FILE *file, const char *format, va_list arguments)
{
    if (file->stdio_stream != NULL)
        return vfprintf(file->stdio_stream, format, arguments);
    if (file->fcgx_stream != NULL)
        return sluice_fcgx_vfprintf(file->fcgx_stream, format, arguments);
    return EOF;
}

int sluice_fcgi_fprintf(FCGI_FILE *file, const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = sluice_fcgi_vfprintf(file, format, arguments);
    va_end(arguments);
    return length;
}

int sluice_fcgi_vprintf(const char *format, va_list arguments)
{
    return sluice_fcgi_vfprintf(&_fcgi_sF[1], format, arguments);
}

int sluice_fcgi_printf(const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = sluice_fcgi_vfprintf(&_fcgi_sF[1], format, arguments);
    va_end(arguments);
    return length;
}
