/* Loads the library and SQLite, unloads both, and uses SQLite. Arguments: library, database. */
#include <dlfcn.h>
#include <stdio.h>

typedef struct sqlite3 sqlite3;

int main(int count, char **arguments) {
    (void)count;
    for (int i = 0; i < 3; i++) {
        sqlite3 *db = NULL;
        void *sqlite = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_GLOBAL);
        void *library = dlopen(arguments[1], RTLD_NOW);
        if (!sqlite || !library) return 2;
        int (*begin)(const char *) = dlsym(library, "fonio_sqlite_sync_extra_init");
        if (begin(NULL) != 0) return 3;
        dlclose(library);
        int (*open)(const char *, sqlite3 **) = dlsym(sqlite, "sqlite3_open");
        int (*exec)(sqlite3 *, const char *, void *, void *, char **) = dlsym(sqlite, "sqlite3_exec");
        int (*close)(sqlite3 *) = dlsym(sqlite, "sqlite3_close");
        if (open(arguments[2], &db) != 0) return 4;
        for (int j = 0; j < 5; j++)
            if (exec(db, "INSERT INTO t VALUES (1)", NULL, NULL, NULL) != 0) return 5;
        if (close(db) != 0) return 6;
        dlclose(sqlite);
    }
    puts("done");
    return 0;
}
