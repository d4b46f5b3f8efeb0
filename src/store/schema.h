/* schema.h - the migrations: numbered, forward-only, one list of DDL a driver.
 *
 * A migration that was released never changes; a new one is added below it. The statements of
 * statements.h fit the newest schema.
 */
#pragma once

#include <stdint.h>

#define SCHEMA_NUMBER 3                  /* the newest */
#define SCHEMA_APPLICATION_ID 0x50524455 /* "PRDU", in the header of the file */

/* DDL of migration `number` (1 <= number <= SCHEMA_NUMBER) for SQLite. */
const char *schema_sqlite(uint32_t number);
