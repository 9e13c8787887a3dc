#!/usr/bin/env bash
# Measures dsv4 beside other software on the same synthetic slice, in turns: llama.cpp (the sources that the PyPI
# package llama-cpp-python carries), transformers, torch's products at the same shapes, and tokenizers.
# usage: scripts/bench_peers.sh [options of bench_peers.py]      --help names them
# Everything is installed and built under build/peers: about 12 GB (torch, the slice, and the slice as GGUF) and
# 20 minutes the first time. The machine must be idle.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly folder=build/peers
readonly llama=llama-cpp-python==0.3.36
readonly packages=(torch==2.7.1 transformers==5.24.0 accelerate tokenizers==0.23.3 numpy safetensors sentencepiece protobuf)

scripts/install_deps.sh --dev
scripts/build.sh release
scripts/fetch_tokenizer.sh models/tokenizer/tokenizer.json
mkdir -p "$folder"

if [[ ! -x $folder/venv/bin/python ]]; then python3 -m venv "$folder/venv"; fi
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" >&2

if [[ ! -x $folder/llama.cpp/build/bin/llama-bench ]]; then
  rm -rf "$folder/sdist" "$folder/llama.cpp"
  "$folder/venv/bin/python" -m pip download --quiet --no-deps --no-binary :all: -d "$folder/sdist" "$llama" >&2
  tar -xzf "$folder"/sdist/*.tar.gz -C "$folder/sdist"
  mv "$folder"/sdist/*/vendor/llama.cpp "$folder/llama.cpp"
  rm -rf "$folder/llama.cpp/.git" # names a folder that the package lacks
  # Without AMX, whose buffers refuse a product of V4's attention: the program would abort.
  readonly no_amx="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
  cmake -S "$folder/llama.cpp" -B "$folder/llama.cpp/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DCMAKE_C_FLAGS="$no_amx" -DCMAKE_CXX_FLAGS="$no_amx" \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF >&2
  cmake --build "$folder/llama.cpp/build" --target llama-bench llama-completion >&2
fi

if [[ ! -f $folder/slice/config.json ]]; then
  build/release/tools/dsv4 synth --preset flash --out "$folder/slice" --tokenizer models/tokenizer/tokenizer.json \
    --set num_hidden_layers=4 n_routed_experts=64 num_nextn_predict_layers=0 'compress_ratios=[0,4,128,4]' >&2
fi
if [[ ! -f $folder/slice.gguf ]]; then
  # FP8 becomes Q8_0 and FP4 becomes MXFP4, without loss.
  "$folder/venv/bin/python" "$folder/llama.cpp/convert_hf_to_gguf.py" "$folder/slice" --outtype bf16 \
    --outfile "$folder/slice.gguf.part" >&2
  mv "$folder/slice.gguf.part" "$folder/slice.gguf"
fi

exec "$folder/venv/bin/python" scripts/bench_peers.py --peers "$folder" "$@"
