// Run while building: write_key_table FILE writes the table of keys for the program to take with it.
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "cli/keys/read_key_table.hpp"

int main(int count, char** words) {
  try {
    const std::string document = moelab::cli::key_document(moelab::cli::read_key_table());
    std::ofstream file(count == 2 ? words[1] : "");
    file << document;
    if (file.close(); file) return 0;
    std::cerr << "write_key_table: cannot write; expected the path of a file\n";
  } catch (const std::exception& error) {
    std::cerr << "write_key_table: " << error.what() << "\n";
  }
  return 1;
}
