/* Contains SQLite itself. Commits transactions to a database, and writes plain files.
   Arguments: database, journal mode, number of transactions, plain files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sqlite3 sqlite3;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int sqlite3_close(sqlite3 *);

static void run(sqlite3 *db, const char *sql) {
    char *said = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &said) != 0) {
        fprintf(stderr, "%s: %s\n", sql, said);
        exit(1);
    }
}

int main(int count, char **arguments) {
    sqlite3 *db;
    char mode[100];
    if (sqlite3_open(arguments[1], &db) != 0) return 2;
    snprintf(mode, sizeof mode, "PRAGMA journal_mode=%s", arguments[2]);
    run(db, mode);
    run(db, "PRAGMA synchronous=FULL");
    run(db, "CREATE TABLE IF NOT EXISTS t (x)");
    for (int i = 0; i < atoi(arguments[3]); i++) {
        run(db, "INSERT INTO t VALUES (1)");
        for (int file = 4; file < count; file++) {
            int fd = open(arguments[file], O_RDWR | O_CREAT, 0600);
            if (write(fd, "key = 1\n", 8) != 8 || fsync(fd) != 0 || close(fd) != 0) return 3;
        }
    }
    return sqlite3_close(db);
}
