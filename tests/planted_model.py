"""RNNsearch in torch as one might write it, in which tests plant faults by replacing text.

Nothing is shared with the package or with the oracle, and hardly any style.
"""

import torch
from torch.nn.functional import embedding, linear


class Model:
    def __init__(self, p):
        self.p = p

    def cell(self, side, word, h, context=None):
        p = self.p
        names = ["W_z", "W_r", "W"]
        projected = linear(word, torch.cat([p[name + side] for name in names]))
        if context is not None:
            projected = projected + linear(context, torch.cat([p["C_z"], p["C_r"], p["C"]]))
        u_in, r_in, new_in = projected.chunk(3, dim=-1)
        update = torch.sigmoid(u_in + linear(h, p["U_z" + side]))
        reset = torch.sigmoid(r_in + linear(h, p["U_r" + side]))
        candidate = torch.tanh(new_in + linear(reset * h, p["U" + side]) + p["b" + side])
        return torch.lerp(h, candidate, update)

    def direction(self, side, words, keep, positions):
        h = words.new_zeros(len(words), len(self.p["b" + side]))
        states = {}
        for j in positions:
            h = torch.where(keep[:, j, None], self.cell(side, words[:, j], h), h)
            states[j] = h
        return torch.stack([states[j] for j in range(words.shape[1])], dim=1)

    def encode(self, x, mask):
        p, positions = self.p, range(x.shape[1])
        words = embedding(x, p["E_x"]) + p["b_x"]
        fwd = self.direction("_forward", words, mask, positions)
        bwd = self.direction("_backward", words, mask, positions[::-1])
        summary = bwd[:, 0]
        first = torch.tanh(linear(summary, p["W_s"], p["b_s"]))
        return torch.cat([fwd, bwd], dim=-1), first

    def look(self, s, h, mask):
        p = self.p
        query, keys = linear(s, p["W_a"]), linear(h, p["U_a"])
        scores = torch.einsum("bjk,k->bj", torch.tanh(query.unsqueeze(1) + keys), p["v_a"])
        scores = scores.masked_fill(~mask, float("-inf"))
        alpha = scores.softmax(dim=1)
        return torch.bmm(alpha.unsqueeze(1), h).squeeze(1)

    def word(self, y):
        e = embedding(y.clamp(min=0), self.p["E_y"]) + self.p["b_y"]
        return e * (y >= 0).unsqueeze(1)

    def predict(self, s, previous, context):
        p = self.p
        t = linear(s, p["U_o"], p["b_t"])
        t = t + linear(previous, p["V_o"])
        t = t + linear(context, p["C_o"])
        pooled = torch.maximum(t[:, 0::2], t[:, 1::2])
        return linear(pooled, p["W_o"], p["b_o"]).softmax(dim=-1)

    def step(self, s, y_prev, y, h, mask):
        context = self.look(s, h, mask)
        consumed = self.word(y)
        new = self.cell("", consumed, s, context)
        read = s
        words = self.predict(read, self.word(y_prev), context)
        return {"state": new, "probabilities": words}


def sentence(p, x, mask, y, y_mask):
    model = Model(p)
    h, s = model.encode(x, mask)
    begin, y_prev, scores = s, torch.full_like(y[:, 0], -1), []
    for word in y.unbind(1):
        found = model.step(s, y_prev, word, h, mask)
        scores.append(found["probabilities"].gather(1, word[:, None]).log())
        s, y_prev = found["state"], word
    return torch.cat(scores, 1) * y_mask, begin
