#!/usr/bin/env bash
# The lecture about attention: runs the notebook, or opens it in Jupyter.
#
#     bash recipes/lecture/run.sh           # runs it without a screen, in about three minutes
#     bash recipes/lecture/run.sh --open    # opens it in a browser
#
# WORK names the output folder (default: runs/lecture). It gets the notebook with its outputs, as .ipynb
# and .html, and slides/.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/../steps.sh"
export WORK=${WORK:-$ROOT/runs/lecture}
case ${1-} in
    '' | --open) ;;
    -h | --help) show_help && exit ;;
    *) die "unknown option $1; expected --open" ;;
esac
export RNNSEARCH_EXTRAS=${RNNSEARCH_EXTRAS:-lecture}
source "$ROOT/recipes/environment.sh"
mkdir -p -- "$WORK"
WORK=$(CDPATH= cd -- "$WORK" && pwd)
if [[ ${1-} = --open ]]; then
    exec jupyter lab "$HERE/attention.ipynb"
fi
echo "running the lecture, which takes three minutes on an idle core ..." >&2
OMP_NUM_THREADS=1 jupyter nbconvert --log-level WARN --to notebook --execute \
    --ExecutePreprocessor.timeout=-1 --output-dir "$WORK" "$HERE/attention.ipynb"
jupyter nbconvert --log-level ERROR --to html "$WORK/attention.ipynb"
# In tables, MathJax would break every equation into one line for each symbol.
sed -i 's/automatic: true/automatic: false/' "$WORK/attention.html"
printf '%s\n' "$WORK/attention.ipynb" "$WORK/attention.html" "$WORK/slides"
