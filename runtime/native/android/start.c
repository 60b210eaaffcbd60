/* Where the kernel enters an Android executable: hands the arguments to bionic, which calls main and exits with what it
 * returns. The NDK's crtbegin_dynamic.o does the same. */
#include <stddef.h>

typedef void function(void);
typedef int main_function(int count, char **words, char **environment);

/* Bionic runs the destructors of this table; its dynamic linker has run the constructors. C has neither. */
typedef struct {
    function **before_constructors, **constructors, **destructors;
    size_t before_constructors_count, constructors_count, destructors_count;
} structors;

main_function main;
_Noreturn void __libc_init(void *arguments, function *on_exit, main_function *main, const structors *table);
_Noreturn void rt_start(void *arguments);

void rt_start(void *arguments) {
    static const structors none;
    __libc_init(arguments, NULL, main, &none);
}

/* The stack pointer is the address of argc; zero frame pointer and return address end a backtrace. */
__asm__(
    ".text\n"
    ".globl _start\n"
    ".type _start, %function\n"
    "_start:\n"
    "    mov x29, #0\n"
    "    mov x30, #0\n"
    "    mov x0, sp\n"
    "    b rt_start\n"
    ".size _start, . - _start\n");
