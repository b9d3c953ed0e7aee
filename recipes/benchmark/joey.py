"""Joey NMT 2.3, if it is installed: a GRU of the same sizes with Bahdanau's attention.

Model, loss, clipping and optimizer are its own. It is no dependency of ours: to install it,
`pip install --no-deps joeynmt==2.3.0`, and what it then asks for.
"""

import torch
from sizes import Size, dictionary, sample


class _Words:
    """Answers what a model asks its vocabulary, with fairseq's numbers of the special symbols."""

    bos_index, pad_index, eos_index, unk_index, sep_index = 0, 1, 2, 3, None
    specials, lang_tags = (), ()

    def __init__(self, symbols: int) -> None:
        self.symbols = symbols

    def __len__(self) -> int:
        return self.symbols


class Joey:
    """Runs what ``training.Training`` runs.

    Raises:
        ImportError: Joey NMT, or something that it needs, is not installed.
    """

    def __init__(self, size: Size) -> None:
        from joeynmt.batch import Batch
        from joeynmt.builders import build_gradient_clipper, build_optimizer
        from joeynmt.model import build_model

        torch.manual_seed(0)
        words = _Words(size.symbols)
        embeddings = {"embedding_dim": size.m}
        side = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "hidden_size": size.n}
        self.model = build_model(
            {
                "encoder": side | {"embeddings": embeddings, "bidirectional": True},
                "decoder": side
                | {"embeddings": embeddings, "attention": "bahdanau", "init_hidden": "bridge"},
            },
            words,
            words,
        )
        self.model.loss_function = ("crossentropy", 0.0)
        self.optimizer = build_optimizer(
            {"optimizer": "adadelta", "learning_rate": 1.0}, self.model.parameters()
        )
        self.clip = build_gradient_clipper({"clip_grad_val": None, "clip_grad_norm": 1.0})
        given = sample(size, dictionary(size))
        target = given["target"]
        target = torch.cat((torch.full((len(target), 1), words.bos_index), target), dim=1)
        source = given["net_input"]
        self.batch = Batch(
            src=source["src_tokens"],
            src_length=source["src_lengths"],
            src_prompt_mask=None,
            trg=target,
            trg_prompt_mask=None,
            indices=given["id"],
            device=torch.device("cpu"),
            pad_index=words.pad_index,
            eos_index=words.eos_index,
        )
        self.parameters = sum(p.numel() for p in self.model.parameters())

    def run(self, what: str) -> None:
        if what != "optimizer" or next(self.model.parameters()).grad is None:
            self.model.train()
            self.model.zero_grad()
            with torch.set_grad_enabled(what != "forward"):
                cost = self.model(return_type="loss", **vars(self.batch))[0]
            if what != "forward":
                cost.backward()
        if what in ("update", "optimizer"):
            self.clip(parameters=self.model.parameters())
            self.optimizer.step()
