# What is imported is compiled once and kept: pip would compile all there is, and on one core.
unset PYTHONDONTWRITEBYTECODE

# environment FOLDER EXTRAS: a virtual environment with vario installed in it, made once.
environment() {
    local folder="$1" extras="$2" python=""
    for candidate in python3.11 python3.12 python3.13 python3; do
        if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            python="$candidate"
            break
        fi
    done
    if [ -z "$python" ]; then
        echo "vario needs Python 3.11 or later; none was found" >&2
        exit 2
    fi
    if [ ! -e "$folder/.ready" ] || [ pyproject.toml -nt "$folder/.ready" ] || [ constraints.txt -nt "$folder/.ready" ]; then
        "$python" -m venv "$folder"
        "$folder/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".$extras"
        touch "$folder/.ready"
    fi
}
