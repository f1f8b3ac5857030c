#!/usr/bin/env bash
# Installs clients that are too heavy for the default suite, each in an environment of its own:
# install_clients.sh FOLDER CLIENT...
#
#   litellm      0.4 GB   the SDK
#   locust       0.1 GB
#   aiperf       1.2 GB
#   genai-bench  1.3 GB
#   guidellm     1.5 GB, with a torch for CPUs; 6 GB where only the one for CUDA can be had
#   inference-perf   0.8 GB, needs a python3.12 or newer on the PATH
#   llmperf      0.6 GB, with the ray of its time; its source comes from GitHub
#   sglang-router, vllm-router   0.1 GB each: the routers whose policies are copied
#
# What is there already is left as it is; a stamp with the version says so.  A client that cannot be installed is told
# and does not keep the others from being tried: its tests are skipped.
set -euo pipefail

declare -Ar VERSIONS=([litellm]=1.110.2 [locust]=2.47.0 [aiperf]=0.13.0 [genai-bench]=0.0.5 [guidellm]=0.8.1
  [inference-perf]=0.7.0 [llmperf]=f1d6bed47e4501b0e371082b41601b59ab55269f
  [sglang-router]=0.3.2 [vllm-router]=0.1.17)
readonly TORCH=2.13.0+cpu
readonly LLMPERF=https://github.com/ray-project/llmperf

if [ "$#" -lt 2 ]; then
  echo "usage: $0 FOLDER CLIENT..., where CLIENT is one of ${!VERSIONS[*]}" >&2
  exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
python=${PYTHON:-$(cd "$(dirname "$0")/../.." && pwd)/.venv/bin/python}
[ -x "$python" ] || python=python3

install() {  # CLIENT REQUIREMENT...
  "$folder/$1/bin/python" -m pip --disable-pip-version-check --quiet install "${@:2}"
}

new_python() {  # the first that is new enough for inference-perf
  local each
  for each in python3.14 python3.13 python3.12; do
    "$each" -c "" 2> /dev/null && echo "$each" && return
  done
  echo "no python3.12 or newer is on the PATH" >&2
  return 1
}

source_of_llmperf() {
  local source=$folder/llmperf/src/llmperf
  mkdir -p "$source" && git -C "$source" init --quiet &&
    git -C "$source" fetch --quiet --depth 1 "$LLMPERF" "${VERSIONS[llmperf]}" &&
    git -C "$source" checkout --quiet FETCH_HEAD
}

fetch() {  # CLIENT
  local pinned="$1==${VERSIONS[$1]}" with=$python
  [ "$1" != inference-perf ] || with=$(new_python) || return
  rm -rf "${folder:?}/$1"
  "$with" -m venv "$folder/$1" || return
  case $1 in
    llmperf)
      source_of_llmperf &&
        install "$1" ray==2.9.3 "setuptools<70" "pydantic<2.5" "transformers<5" boto3 num2words pandas requests tqdm
      ;;
    guidellm) install "$1" "torch==$TORCH" "$pinned" || install "$1" "$pinned" ;;
    *) install "$1" "$pinned" ;;
  esac
}

for client in "$@"; do
  version=${VERSIONS[$client]:-}
  if [ -z "$version" ]; then
    echo "unknown client $client: expected one of ${!VERSIONS[*]}" >&2
    exit 2
  fi
  [ "$(cat "$folder/$client.stamp" 2> /dev/null)" = "$version" ] && continue
  echo "installing $client $version"
  rm -f "$folder/$client.stamp"
  if fetch "$client"; then
    echo "$version" > "$folder/$client.stamp"
  else
    echo "$client $version could not be installed: its tests will be skipped" >&2
  fi
done
