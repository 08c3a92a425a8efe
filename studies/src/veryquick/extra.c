#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int fonio_test_extra_init(const char *unused){
  const char *path = getenv("FONIO_SYNC_LIBRARY");
  if( !path ) return 0;
  void *library = dlopen(path, RTLD_NOW);
  int (*init)(const char*) = library ? (int(*)(const char*))dlsym(library, "fonio_sqlite_sync_extra_init") : 0;
  if( !init ){ fprintf(stderr, "%s\n", dlerror()); return 1; }
  return init(unused);
}
