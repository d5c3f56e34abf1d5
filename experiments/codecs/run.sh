#!/usr/bin/env bash
# Prints every codec under every cache policy of the ZipMoE family. Builds what it needs first.
# example: experiments/codecs/run.sh
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/../build_and_run.sh" codec_rows
