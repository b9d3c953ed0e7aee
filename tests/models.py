"""Small models and batches: from the authors' arrays, at random, and by options."""

import importlib
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_REGISTRY
from omegaconf import OmegaConf

from fairseq_rnnsearch.commands.torch_networks import TorchNetworks
from fairseq_rnnsearch.models.authors_parameters import BY_SYMBOL, PARAMETERS, fairseq_symbols
from fairseq_rnnsearch.plugin.adadelta import RNNSearchAdadelta, RNNSearchAdadeltaConfig
from fairseq_rnnsearch.plugin.model import RNNSearchConfig, RNNSearchModel
from fairseq_rnnsearch.plugin.task import AlignmentHeatmapTask
from fairseq_rnnsearch.plugin.task_options import AlignmentHeatmapConfig

ABLATIONS = Path(__file__).resolve().parents[1] / "recipes" / "ablations"
PAD, EOS, UNK = 1, 2, 3  # fairseq's numbers in every dictionary
# lengths from one word on, in orders that no sorting would give
SOURCES = [[5, 9, EOS], [EOS], [7, 3, 3, 12, 6, EOS], [8, EOS]]
TARGETS = [[4, 8, 8, 11, EOS], [6, EOS], [EOS], [12, 3, 5, EOS]]
PAPER_ARRAYS = {"decoder.output.weight": ("W_dec_deep_softmax",)}  # --output-layer single


def fairseq_words(words, symbols):
    """The authors' numbers in ours: 0 `<s>`, 1 unknown, words, and the last ends a sentence."""
    special = {0: 0, 1: UNK, symbols - 1: EOS}
    return [special.get(int(word), int(word) + 2) for word in words]


def dictionary(symbols):
    """A fairseq dictionary of that many symbols, its four own included."""
    words = Dictionary()
    for i in range(symbols - 4):
        words.add_symbol(f"w{i}")
    return words


SIZES = {  # all different
    "encoder_embed_dim": 4,
    "encoder_hidden_size": 5,
    "decoder_embed_dim": 6,
    "decoder_hidden_size": 7,
    "attention_size": 8,
    "maxout_size": 3,
}


def build_model(source_symbols=14, target_symbols=13, kind=RNNSearchModel, **options):
    """An `RNNSearchModel` as the task would build it; small, its sizes all different."""
    task = SimpleNamespace(
        source_dictionary=dictionary(source_symbols), target_dictionary=dictionary(target_symbols)
    )
    return kind.build_model(RNNSearchConfig(**(SIZES | options)), task)


def arm(name):
    """The kind of model that the ablations name so."""
    if str(ABLATIONS) not in sys.path:
        sys.path.insert(0, str(ABLATIONS))
    importlib.import_module("arms")
    return MODEL_REGISTRY[name]


def random_model(seed=0, **options):
    """In float64, with every parameter N(0, 0.4): nothing is zero, nothing can hide."""
    model = build_model(**options).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
    return model


def _stacked(arrays):
    """Pairs (our parameter, the authors' arrays stacked in it) for the arrays that there are."""
    table = PARAMETERS | (PAPER_ARRAYS if "W_dec_deep_softmax" in arrays else {})
    return [(name, parts) for name, parts in table.items() if parts[0] in arrays]


def groundhog_from_state_dict(state):
    """The authors' arrays; the inverse of `state_dict_from_groundhog`, bit for bit."""
    assert state.keys() == PARAMETERS.keys()  # the paper's equations, --output-layer factorised
    arrays = {}
    for name, parts in PARAMETERS.items():
        value = state[name].detach().cpu()
        if name in BY_SYMBOL:
            value = value[fairseq_symbols(value.size(0) - 1)]
        if name.endswith("energy_weight"):
            value = value.unsqueeze(0)
        for part, block in zip(parts, value.chunk(len(parts)), strict=True):
            block = block if name.endswith("embedding.weight") else block.t()
            arrays[part] = block.contiguous().numpy()
    return arrays


def _by_symbol(name):
    return "embedding.weight" in name or name.endswith(("output.weight", "output.bias"))


def model_from_arrays(arrays, order="program"):
    """The float64 model with these parameters: RNNsearch or RNNencdec, either output layer.

    One symbol more a side than the arrays have: the pad symbol, which is never generated.
    """
    state = {}
    for name, parts in _stacked(arrays):
        transpose = not name.endswith("embedding.weight")
        value = np.concatenate([arrays[p].T if transpose else arrays[p] for p in parts])
        if _by_symbol(name):
            with_pad = np.full((len(value) + 1, *value.shape[1:]), -1e9 if "bias" in name else 0.0)
            with_pad[fairseq_words(range(len(value)), len(value))] = value
            value = with_pad
        state[name] = torch.tensor(value[0] if "energy_weight" in name else value)
    encdec = "A_dec_transition_0" not in arrays
    model = build_model(
        len(state["encoder.embedding.weight"]),
        len(state["decoder.embedding.weight"]),
        encoder_embed_dim=arrays["W_0_enc_approx_embdr"].shape[1],
        encoder_hidden_size=arrays["W_enc_transition_0"].shape[0],
        decoder_embed_dim=arrays["W_0_dec_approx_embdr"].shape[1],
        decoder_hidden_size=arrays["W_dec_transition_0"].shape[0],
        attention_size=1 if encdec else arrays["A_dec_transition_0"].shape[1],
        maxout_size=arrays["W_0_dec_hid_readout_0"].shape[1] // 2,
        decoder_order=order,
        output_layer="single" if "W_dec_deep_softmax" in arrays else "factorised",
        fixed_context=encdec,
    ).double()
    model.load_state_dict(state)
    return model.eval()


def arrays_of(model):
    """A model's parameters as the authors' arrays, others under our names."""
    arrays = {}
    for name, value in model.state_dict().items():
        parts = PARAMETERS.get(name, (name,))
        for part, block in zip(parts, value.chunk(len(parts)), strict=True):
            array = (block if name.endswith("embedding.weight") else block.T).numpy().copy()
            arrays[part] = array[:, None] if name.endswith("energy_weight") else array
    return arrays


def arrays_from_tensors(tensors, arrays):
    """The inverse: tensors in the shapes of a model's parameters, under the names in `arrays`."""
    found = {}
    for name, parts in _stacked(arrays):
        value = tensors[name].detach().numpy()
        if _by_symbol(name):
            value = value[fairseq_words(range(len(value) - 1), len(value) - 1)]
        for part, block in zip(parts, np.split(value, len(parts)), strict=True):
            found[part] = (block if "embedding.weight" in name else block.T).reshape(
                arrays[part].shape
            )
    return found


def padded(sentences, left=False):
    """Lists of word numbers to one tensor (batch, longest)."""
    longest = max(map(len, sentences))
    return torch.tensor(
        [
            [PAD] * (longest - len(s)) + list(s) if left else list(s) + [PAD] * (longest - len(s))
            for s in sentences
        ]
    )


def previous(targets):
    """What fairseq feeds the decoder: the end symbol moved from the end to the front."""
    return [[EOS, *target[:-1]] for target in targets]


def talker(seed=0, **options):
    """A random model that comes to an end."""
    model = random_model(seed, **options)
    with torch.no_grad():
        model.decoder.output.bias[EOS] += 2.0
    return model


def training_task(folder, source_symbols=14, target_symbols=13, **options):
    """Return the task of a training, which writes below a folder."""
    cfg = AlignmentHeatmapConfig(data="d", source_lang="en", target_lang="fr", **options)
    cfg = OmegaConf.structured(cfg)
    cfg.save_dir, cfg.tensorboard_logdir, cfg.path = str(folder), None, None
    return AlignmentHeatmapTask(cfg, dictionary(source_symbols), dictionary(target_symbols))


def task_with_data(corpus, folder, **options):
    """Return the task of a training, with the data of its first epoch."""
    cfg = AlignmentHeatmapConfig(
        source_lang="en", target_lang="fr", save_dir=str(folder),
        # what fairseq's command line would fill in
        dataset_impl="mmap", required_seq_len_multiple=1, train_subset="train",
        **{"data": str(corpus.data)} | options,
    )  # fmt: skip
    task = AlignmentHeatmapTask.setup_task(cfg)
    task.load_dataset("train", combine=True)
    return task


def checkpoint_state(**parts):
    """As much of a checkpoint as fairseq's loader asks for."""
    history = {"criterion_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    state = {"args": None, "cfg": {}, "model": {}, "extra_state": {}}
    return {**state, "optimizer_history": [history], **parts}


def batch_of(sources, targets, left=False):
    """As fairseq collates sentences, numbered from 0; left: sources are padded on the left."""
    return {
        "id": torch.arange(len(sources)),
        "ntokens": sum(map(len, targets)),
        "nsentences": len(sources),
        "net_input": {
            "src_tokens": padded(sources, left),
            "src_lengths": torch.tensor([len(source) for source in sources]),
            "prev_output_tokens": padded(previous(targets)),
        },
        "target": padded(targets),
    }


def score(model, sources, targets, left_source=False, left_target=False):
    """log p of all words and alignment weights of a padded batch, unpadded again.

    Returns:
        For each sentence (target, words) and (target, source), or None without alignment.
    """
    output = model(
        padded(sources, left_source),
        torch.tensor([len(source) for source in sources]),
        padded(previous(targets), left_target),
    )
    lprobs = model.get_normalized_probs(output, log_probs=True)
    attention = output[1]["attn"]
    Tx, Ty = max(map(len, sources)), max(map(len, targets))
    scored = []
    for b, (source, target) in enumerate(zip(sources, targets, strict=True)):
        rows = slice(Ty - len(target), Ty) if left_target else slice(len(target))
        columns = slice(Tx - len(source), Tx) if left_source else slice(len(source))
        weights = None if attention is None else attention[0][b, rows, columns]
        scored.append((lprobs[b, rows], weights))
    return scored


def networks(*models):
    """Models as a translator has them."""
    return TorchNetworks(models, models[0].encoder.dictionary, models[0].decoder.dictionary)


def cost_of(scored, targets):
    """Summed -log p of the target words."""
    return -sum(
        lprobs[range(len(target)), target].sum()
        for (lprobs, _), target in zip(scored, targets, strict=True)
    )


def adadelta(model, **options):
    """Return the optimizer at fairseq's default learning rate, which must not matter."""
    config = RNNSearchAdadeltaConfig(lr=[0.25], **options)
    return RNNSearchAdadelta(config, list(model.parameters()))


def poison(model, word, value=math.nan):
    """A source word's gradient, by a hook: the parameters and the cost stay finite."""

    def spoil(module, words, embedded):
        if embedded.requires_grad:
            hit = words[0].eq(word).unsqueeze(-1)
            embedded.register_hook(lambda grad: torch.where(hit, value, grad))

    model.encoder.embedding.register_forward_hook(spoil)
