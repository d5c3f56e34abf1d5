// The tables of a store.
#pragma once

#include "sim/store/sqlite.hpp"

namespace moelab {

/// Whether nothing was ever made in a database: that of a writer killed before its first transaction.
bool is_untouched(const sqlite::Database& database);
/// Makes the tables, all or none.
void make_schema(const sqlite::Database& database);
/// Throws InputError where the database has other tables than a store.
void check_schema(const sqlite::Database& database);

}  // namespace moelab
