#!/bin/sh
# A compiler of packages of the workspace (RUSTC_WORKSPACE_WRAPPER), which `cargo xtask fuzz` gives more flags. What the build itself runs
# has none of them.
set -eu

case " $* " in
    *" build_script_"*) exec "$@" ;;
esac
# shellcheck disable=SC2086
exec "$@" $INSTRUMENTATION
