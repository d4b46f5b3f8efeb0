#include "store/statements.h"

#define STATEMENT_ROW(name, params, cols, sql) {#name, sql, cols, params},
const struct statement STATEMENTS[STMT_COUNT] = {STATEMENT_TABLE(STATEMENT_ROW)};
#undef STATEMENT_ROW
