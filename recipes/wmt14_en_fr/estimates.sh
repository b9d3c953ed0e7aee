# Sourced by run.sh: what disk and time the stages will take.
#
# It is estimated from the bytes that are read, by what all five corpora have (6.6 GB of archives
# hold 40.8 million pairs, 14.7 GB of text), and from the products of the models. Rates were
# measured on an AMD EPYC core; they are for one core where a stage uses all of them. The archives
# of the test sets, whose size is not known, are small.

ARCHIVE_BYTES_PER_PAIR=162
ARCHIVE_TO_TEXT=2.2
TEXT_TO_TOKENS=1.05
WORD_BYTES=6.3             # of tokenised French, its space included
ENGLISH_TO_FRENCH=0.9      # words
DOWNLOAD_BYTES_PER_S=10e6  # a guess: it depends on the line
EXTRACT_BYTES_PER_S=50e6
TOKENISE_PAIRS_PER_S=4500  # a core
SCORE_PAIRS_PER_S=28000    # a core
CUT_PAIRS_PER_S=200000
BINARISE_WORDS_PER_S=165000 # a core
TRAIN_GFLOPS=62             # a core, at the paper's sizes, the optimizer included
SEARCH_GFLOPS=90            # a core, of what a search would multiply without what it keeps
SENTENCE_WORDS=25           # of a test set
TEST_SENTENCES=3003
CHECKPOINTS_KEPT=4 # last, best and two more, each the parameters and two averages of them

# archive_bytes: prints how many bytes are to be read, as if all text were in archives.
archive_bytes() {
    local pair corpora=" $CORPORA "
    if [[ -z $TRAIN_TEXT ]]; then
        awk -F '\t' -v corpora="$corpora" 'index(corpora, " " $1 " ") { sum += $4 }
            END { printf "%.0f\n", sum }' "$ARCHIVE_TABLE"
        return
    fi
    for pair in $TRAIN_TEXT; do
        wc -c -- "${pair%%:*}" "${pair#*:}" 2>/dev/null | sed '$d' || true
    done | awk -v ratio="$ARCHIVE_TO_TEXT" '{ sum += $1 / ($2 ~ /\.gz$/ ? 1 : ratio) }
        END { printf "%.0f\n", sum }'
}

# missing_bytes: prints how many bytes of archives are still to be downloaded.
missing_bytes() {
    local corpus name bytes sum=0 _
    [[ -z $TRAIN_TEXT ]] || { echo 0 && return; }
    while IFS=$'\t' read -r corpus _ name bytes _; do
        [[ " $CORPORA " = *" $corpus "* && ! -e $ARCHIVES/$name && $bytes =~ ^[0-9]+$ ]] || continue
        sum=$((sum + bytes))
    done <"$ARCHIVE_TABLE"
    echo "$sum"
}

# trainings: prints the name, with its longest pair, and the updates of each model.
trainings() {
    local model updates all
    for model in "${CHOSEN[@]}"; do
        updates=$(updates_of "$model")
        if [[ $model = *\* ]]; then # only those beyond RNNsearch-50
            all=$PAPERS_STARRED_UPDATES
            ((all < LONGEST_TRAINING)) || all=$LONGEST_TRAINING
            updates=$((all > updates ? all - updates : 0))
        fi
        echo "${model%\*} $updates"
    done
}

# estimate_models STAGE: prints gigabytes and minutes of a stage that works with models, on CPUs.
estimate_models() {
    local dictionary=0
    [[ $VOCABULARY$REPLACE_UNK != shortlist*dictionary* ]] || dictionary=1
    trainings | awk -v stage="$1" -v m="$EMBEDDING" -v n="$HIDDEN" -v a="$ATTENTION" \
        -v l="$MAXOUT" -v dictionary="$dictionary" \
        -v k="$([[ $VOCABULARY = bpe ]] && echo "$BPE_MERGES" || echo "$SHORTLIST")" \
        -v batch="$BATCH_SIZE" -v beam="$BEAM" \
        -v pairs="$DICTIONARY_PAIRS" -v words="$SENTENCE_WORDS" -v cores="$PROCESSES" \
        -v sentences="$TEST_SENTENCES" -v tests="${#TESTS[@]}" \
        -v training="${GFLOPS:-$((TRAIN_GFLOPS * PROCESSES))}" -v search="$SEARCH_GFLOPS" \
        -v kept="$CHECKPOINTS_KEPT" '
        # multiplications and additions of a source word, and of a target word
        function encoder(attends) { return 2 * (6 * n * (m + n) + (attends ? 2 * n * a : 0)) }
        function decoder(attends) {
            return 2 * (3 * n * (m + 3 * n) + 2 * l * (m + 3 * n) + l * k \
                + (attends ? a * n + words * (a + 2 * n) : 0))
        }
        {
            attends = /^RNNsearch/
            longest = $1; sub(/.*-/, "", longest)
            pair = longest * 0.6 * (encoder(attends) + decoder(attends))
            flops += $2 * batch * pair * 3 # backward is two forward
            parameters += 2 * k * m + 6 * n * (m + n) + 3 * n * (m + 3 * n) \
                + l * (2 * m + 6 * n + k) + (attends ? 3 * n * a : 0)
            translations += tests * sentences * 1.3 # and those without unknown words
            if (attends && dictionary) aligned += pairs * pair
            all += tests * (attends ? sentences : 0)
        }
        END {
            flops_of_search = translations * words * beam * decoder(1) + aligned
            if (stage == "train")
                printf "%.1f %.0f\n", parameters * 12 * kept / 1e9, flops / training / 1e9 / 60
            if (stage == "translate") # a weight of an alignment takes nine bytes
                printf "%.1f %.0f\n", all * words * words * 9 * 2 / 1e9,
                    flops_of_search / search / cores / 1e9 / 60
            if (stage == "report") printf "%.1f %.0f\n", 0, tests * 1
        }'
}

# estimate STAGE: prints gigabytes and minutes, or nothing where there is no estimate.
estimate() {
    awk -v stage="$1" -v bytes="$(archive_bytes)" -v missing="$(missing_bytes)" \
        -v cores="$PROCESSES" -v keep="$KEEP_WORDS" -v vocabulary="$VOCABULARY" \
        -v per_pair="$ARCHIVE_BYTES_PER_PAIR" -v to_text="$ARCHIVE_TO_TEXT" \
        -v to_tokens="$TEXT_TO_TOKENS" -v word="$WORD_BYTES" -v english="$ENGLISH_TO_FRENCH" \
        -v download="$DOWNLOAD_BYTES_PER_S" -v extract="$EXTRACT_BYTES_PER_S" \
        -v tokenise="$TOKENISE_PAIRS_PER_S" -v score="$SCORE_PAIRS_PER_S" \
        -v cut="$CUT_PAIRS_PER_S" -v binarise="$BINARISE_WORDS_PER_S" '
        function say(disk, seconds) { printf "%.1f %.0f\n", disk / 1e9, seconds / 60 }
        BEGIN {
            text = bytes * to_text; tokens = text * to_tokens; pairs = bytes / per_pair
            words = tokens / word / (1 + english) # French
            if (keep && keep < words) kept = keep; else kept = words
            selected = kept * word * (1 + english)
            both = kept * (1 + english)
            if (stage == "download") say(missing, missing / download)
            if (stage == "extract") say(text * 1.3, text / extract) # and a copy of one corpus
            if (stage == "tokenise") say(tokens, pairs / tokenise / cores)
            if (stage == "select")
                say(selected + pairs * 8, (keep ? pairs / score / cores : 0) + pairs / cut)
            if (stage == "binarise") # two bytes a word of a shortlist, four of many subwords
                say(both * 2 + (vocabulary == "bpe" ? selected * 1.2 : 0),
                    both / binarise / cores * (vocabulary == "bpe" ? 6 : 1))
        }'
}

# print_estimates STAGE...: dies if the disk is too small for those that are not done; a dry run says
# so and goes on.
print_estimates() {
    local stage disk minutes state place=$WORK free problem sum=0
    {
        printf '%-12s %10s %10s\n' stage disk time
        for stage; do
            disk='' minutes='' state=
            read -r disk minutes <<<"$(estimate "$stage")$(estimate_models "$stage")" || true
            [[ ! -e "$WORK/.done/stage $stage" ]] || state="done before"
            if [[ -z $disk ]]; then
                printf '%-12s %10s %10s  %s\n' "$stage" - - "$state"
                continue
            fi
            printf '%-12s %7s GB %8s  %s\n' "$stage" "$disk" \
                "$( ((minutes < 300)) && echo "$minutes min" || echo "$((minutes / 60)) h")" \
                "$state"
            [[ -n $state ]] || sum=$(awk -v a="$sum" -v b="$disk" 'BEGIN { print a + b }')
        done
    } >&2
    until [[ -e $place/ ]]; do place=${place%/*}; done # a dry run makes no folder
    free=$(df -Pk -- "$place/" | awk 'NR == 2 { printf "%.1f", $4 * 1024 / 1e9 }')
    log "estimates for $PROCESSES CPU cores; $sum GB are needed in $WORK, $free GB are free"
    if [[ $CHECK_DISK = 1 ]] && awk -v a="$sum" -v b="$free" 'BEGIN { exit !(a > b) }'; then
        problem="$sum GB are needed in $WORK and only $free are free"
        problem+="; CHECK_DISK=0 begins all the same"
        [[ -n $DRY_RUN ]] || die "$problem"
        log "the recipe would not begin: $problem"
    fi
}
