/* replay.c - the main() of a fuzzer without libFuzzer: gives it each kept input once.
 *
 * Arguments are files or directories (not descended into). A crash or a sanitizer ends the process;
 * no input at all is an error, so that a moved corpus cannot pass unseen.
 */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv); /* if it has one */

static unsigned long inputs;

static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;

    if (!f || fstat(fileno(f), &st) != 0) {
        perror(path);
        exit(1);
    }
    size_t len = (size_t)st.st_size;
    uint8_t *data = malloc(len ? len : 1); /* exact, so that reading past the end is seen */
    if (!data || fread(data, 1, len, f) != len) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, len);
    free(data);
    inputs++;
}

static void replay_path(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        perror(path);
        exit(1);
    }
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path);
        return;
    }
    DIR *dir = opendir(path);
    if (!dir) {
        perror(path);
        exit(1);
    }
    for (struct dirent *e; (e = readdir(dir));) {
        char file[PATH_MAX];
        if (e->d_name[0] == '.')
            continue;
        if (snprintf(file, sizeof(file), "%s/%s", path, e->d_name) >= (int)sizeof(file)) {
            fprintf(stderr, "path too long: %s/%s\n", path, e->d_name);
            exit(1);
        }
        replay_file(file);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        replay_path(argv[i]);
    printf("%lu inputs replayed\n", inputs);
    return inputs ? 0 : 1;
}
