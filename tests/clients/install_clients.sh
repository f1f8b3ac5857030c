#!/usr/bin/env bash
# Installs clients that are too heavy for the default suite, each in an environment of its own:
# install_clients.sh FOLDER CLIENT...
#
#   litellm      0.4 GB   the SDK
#   locust       0.1 GB
#   aiperf       1.2 GB
#   genai-bench  1.3 GB
#   guidellm     1.5 GB, with a torch for CPUs; 6 GB where only the one for CUDA can be had
#   sglang-router, vllm-router   0.1 GB each: the routers whose policies are copied
#
# What is there already is left as it is; a stamp with the version says so.  A client that cannot be installed is told
# and does not keep the others from being tried: its tests are skipped.
set -euo pipefail

declare -Ar VERSIONS=([litellm]=1.110.2 [locust]=2.47.0 [aiperf]=0.13.0 [genai-bench]=0.0.5 [guidellm]=0.8.1
  [sglang-router]=0.3.2 [vllm-router]=0.1.17)
readonly TORCH=2.13.0+cpu

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

fetch() {  # CLIENT
  local pinned="$1==${VERSIONS[$1]}"
  rm -rf "${folder:?}/$1"
  "$python" -m venv "$folder/$1" || return
  case $1 in
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
