#!/usr/bin/env bash
# The Python environment of the capture test: build/capture_venv.
# usage: capture_environment.sh install        makes it from the Python registry, or says why it cannot (exit status 1)
#        capture_environment.sh run SCRIPT...  runs a script in it, or in $MOELAB_CAPTURE_PYTHON, or with python3
# Of torch it takes the wheel without the CUDA libraries that the wheel asks for (0.6 instead of 3.0 GB to download, 1.4
# instead of 5.6 GB on disk): the tests use no GPU, and capture_cuda_stubs.py stands in for what the loader wants to see.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH  # Debian's own Python and pip first
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
requirements=$source/traces/capture/requirements.txt
venv=$source/build/capture_venv
python=$venv/bin/python
recipe=("$requirements" "$here/capture_environment.sh" "$here/capture_cuda_stubs.py")
stamp=$venv/made-from  # what it was made from; written last

torch_imports() { "$python" -c 'import torch; torch.cuda.is_available(); torch.ones(2, 2) @ torch.ones(2, 2)'; }

install() {
  cat "${recipe[@]}" | cmp -s - "$stamp" && return 0
  rm -rf "$venv"
  mkdir -p "$source/build"
  python3 -m venv "$venv"
  local pip=("$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --retries 1 --timeout 30)
  local torch
  torch=$(grep '^torch==' "$requirements")
  "${pip[@]}" --no-deps "$torch"
  # The other requirements do not ask for torch. torch's own are in its metadata: all but the CUDA libraries and triton,
  # of which the CUDA runtime alone.
  { grep -v '^torch==' "$requirements"
    "$python" - <<'END'
import importlib.metadata, re
for line in importlib.metadata.requires("torch"):
    name, _, condition = line.partition(";")
    if name.startswith("cuda-toolkit"): print(re.sub(r"\[.*\]", "[cudart]", name))
    elif not condition: print(name)
END
  } >"$venv/light"
  "${pip[@]}" -r "$venv/light" 2>&1 | { grep -v "dependency resolver\|^torch .* requires" >&2 || true; }
  "$python" "$here/capture_cuda_stubs.py" && torch_imports || "${pip[@]}" "$torch"
  torch_imports || { echo "torch is installed but does not import" >&2; return 1; }
  cat "${recipe[@]}" >"$stamp"
}

case ${1:-} in
  install) install ;;
  run)
    shift
    if [ -n "${MOELAB_CAPTURE_PYTHON:-}" ]; then python=$MOELAB_CAPTURE_PYTHON
    elif [ ! -e "$stamp" ]; then python=$(command -v python3) || exit 77
    fi
    exec "$python" "$@"
    ;;
  *) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
esac
