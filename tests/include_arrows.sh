#!/usr/bin/env bash
# The folders' arrows run downhill: a folder includes only what stands below it (models <- traces, policies <- sim <- hw <- cli; python stands on sim),
# of hw only hw/executor takes something of sim, its engine, and hw/calibrate and hw/validate, which stand above, all of it; SimGrid headers in sim/simgrid only, CUDA headers in hw only, YAML headers in the reader only, LZ4 and xxHash headers in hw/codec only, SQLite headers in sim/store only.
# usage: include_arrows.sh SOURCE_DIR
set -u
cd "$1" || exit 2
bad=0
deny() {  # deny FOLDER 'INCLUDED|INCLUDED' : no file of FOLDER includes these
  local hits
  hits=$(grep -rnE "#include \"($2)/" --include='*.hpp' --include='*.cpp' --include='*.cu' --include='*.cuh' "$1" 2>/dev/null)
  [ -z "$hits" ] || { echo "$1 includes what stands above or beside it:"; echo "$hits"; bad=1; }
}
only() {  # only 'HEADER PATTERN' 'ALLOWED FILES PATTERN' : the header appears in these files alone
  local hits
  hits=$(grep -rnE "#include <($1)" --include='*.hpp' --include='*.cpp' --include='*.cu' --include='*.cuh' models traces policies sim hw cli python 2>/dev/null | grep -vE "^($2)")
  [ -z "$hits" ] || { echo "header outside its room ($1):"; echo "$hits"; bad=1; }
}
deny models 'traces|policies|sim|hw|cli'
deny traces 'policies|sim|hw|cli'
deny policies 'traces|sim|hw|cli'
deny sim 'hw|cli'
deny hw 'cli'
for folder in models traces policies sim hw cli; do deny $folder python; done
deny python 'hw|cli'
for folder in codec io compute kernels store bench executor; do deny hw/$folder 'policies|hw/calibrate|hw/validate'; done
for folder in codec io compute kernels store bench; do deny hw/$folder 'sim|hw/executor'; done
for folder in codec io; do deny hw/$folder 'hw/(store|compute|kernels|bench)'; done
deny hw/compute 'hw/(store|kernels|bench)'
deny hw/store 'hw/(io|compute|kernels|bench)'
deny hw/executor 'sim/(serving|results)|hw/bench'
files_of_sim=$(grep -rnE '#include "sim/[a-z_]+\.hpp"' --include='*.hpp' --include='*.cpp' hw/executor 2>/dev/null)
[ -z "$files_of_sim" ] || { echo "hw/executor includes more of sim than its engine:"; echo "$files_of_sim"; bad=1; }
deny sim/engine 'models|traces|policies|sim/serving|sim/results|sim/simgrid'
deny sim/simgrid 'models|traces|policies|sim/serving|sim/results'
only 'yaml-cpp/' 'models/yaml_reader\.cpp:'
only 'simgrid/' 'sim/simgrid/'
only 'cuda|cublas' 'hw/'
only 'lz4' 'hw/codec/'
only 'xxhash' '(hw/codec/|sim/scenario/scenario_document)'
only 'sqlite3' 'sim/store/'
only 'CLI/' 'cli/'
only 'nanobind/' 'python/'
only 'Eigen/' 'hw/calibrate/'
[ "$bad" = 0 ] && echo "include arrows run downhill"
exit $bad
