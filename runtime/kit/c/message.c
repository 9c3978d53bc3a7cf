// Statuses and messages.

#include <stdarg.h>

#include "internal.h"

#define MOST_CHARACTERS 400

static PER_THREAD char message[MOST_CHARACTERS];

uint32_t tcopt_api_version(void) { return TCOPT_API_VERSION; }

const char *tcopt_last_error(void) { return message; }

const char *tcopt_status_name(tcopt_status status) {
  static const char *const names[] = {
      "OK",        "INVALID_ARGUMENT", "INVALID_SHAPE", "INVALID_DATA",  "OUT_OF_MEMORY",
      "CANCELLED", "WRONG_CPU",        "WRONG_VERSION", "WRONG_WEIGHTS", "IO_ERROR"};
  uint32_t number = (uint32_t)status;
  return number < sizeof names / sizeof *names ? names[number] : "UNKNOWN";
}

bool equal_text(const char *a, const char *b) {
  while (*a != 0 && *a == *b)
    a++, b++;
  return *a == *b;
}

static size_t append(size_t end, const char *text) {
  while (*text != 0 && end + 1 < MOST_CHARACTERS)
    message[end++] = *text++;
  return end;
}

static size_t append_number(size_t end, int64_t number) {
  char digits[24];
  char *text = digits + sizeof digits;
  uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
  *--text = 0;
  do {
    *--text = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (number < 0)
    *--text = '-';
  return append(end, text);
}

tcopt_status fail(tcopt_status status, const char *format, ...) {
  size_t end = 0;
  va_list arguments;
  va_start(arguments, format);
  for (; *format != 0; format++) {
    if (format[0] == '%' && format[1] == 's') {
      end = append(end, va_arg(arguments, const char *));
      format++;
    } else if (format[0] == '%' && format[1] == 'd') {
      end = append_number(end, va_arg(arguments, int64_t));
      format++;
    } else if (end + 1 < MOST_CHARACTERS) {
      message[end++] = *format;
    }
  }
  va_end(arguments);
  message[end] = 0;
  return status;
}
