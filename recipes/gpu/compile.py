"""Compile Triton's kernels for GPUs that need not be here, and show what the compiler made of them.

    python recipes/gpu/compile.py [sm_80 sm_90 ...] [--products bfloat16]

It calls one step of each loop, the cost and Adadelta at the paper's sizes, and compiles each kernel
where it would be binary, with the compiler and the assembler of Triton's wheel. A line has the
registers of a thread, the bytes that did not fit into them (more than 0 is slow), and how many
instructions load and store how many bits of a thread at once.
"""

from __future__ import annotations

import argparse
import collections
import re
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels import BACKENDS, Direction, gpu
from fairseq_rnnsearch.kernels.gpu import masked_cost
from fairseq_rnnsearch.paper.equations import AlignmentModel, BiasedEmbedding, GatedUnit, Memory

if TYPE_CHECKING:
    from triton.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

# the paper's sizes; 31 positions are padded to a multiple of 8 on a GPU
M, N, ATTENTION, MAXOUT, WORDS, PAIRS, SOURCE = 620, 1000, 1000, 500, 30_000, 80, 32
STEPS = 2  # the last step's gradients come without a product of the following one
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WIDTHS = (128, 64, 32, 16, 8)
SHARED_MEMORY = {"sm_80": 163 * 1024, "sm_90": 227 * 1024}  # of a program


class AbsentGPU:
    """What Triton asks of a driver when it compiles."""

    def __init__(self, target: str) -> None:
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget("cuda", int(target.removeprefix("sm_")), 32)

    def get_current_target(self) -> object:
        return self._target

    def get_current_device(self) -> int:
        return self._target.arch

    def get_current_stream(self, device: int) -> int:
        return 0


def compiled(target: str, dtype: torch.dtype) -> dict[str, CompiledKernel]:
    """Return all kernels of an update with products of a type, by the hash of what they are."""
    import triton
    from triton.runtime.jit import JITFunction

    from fairseq_rnnsearch.kernels.gpu import products

    kernels, run = {}, JITFunction.run

    def compile_only(kernel: JITFunction, *args: object, **options: object) -> None:
        binary = run(kernel, *args, **options | {"warmup": True})
        kernels[binary.hash] = binary

    triton.runtime.driver.set_active(AbsentGPU(target))
    products._shared_memory = lambda device: SHARED_MEMORY.get(target, 99 * 1024)
    JITFunction.run = compile_only
    try:
        update(dtype)
    finally:
        JITFunction.run = run
    return kernels


def update(dtype: torch.dtype) -> None:
    """Call everything that launches a kernel; what it returns is not computed."""
    from fairseq_rnnsearch.plugin.optim import fused_adadelta

    backend, unit = BACKENDS["gpu"], GatedUnit(M, N, 2 * N).to(dtype)
    x = torch.zeros(STEPS, PAIRS, 3 * N, dtype=dtype, requires_grad=True)
    present = torch.ones(STEPS, PAIRS, dtype=torch.bool)
    directions = Direction(x, unit), Direction(x, unit, True)
    for mask in (None, present):
        backend.recurrence(directions, None, mask).sum().backward()
    words = torch.zeros(PAIRS, dtype=torch.int64)
    backend.vectors(words, BiasedEmbedding(WORDS, M)).sum().backward()
    annotations = torch.zeros(PAIRS, SOURCE, 2 * N, dtype=dtype)
    keys = torch.zeros(PAIRS, SOURCE, ATTENTION, dtype=dtype, requires_grad=True)
    memory = Memory(annotations, keys, torch.zeros(PAIRS, SOURCE, dtype=torch.bool))
    model = AlignmentModel(ATTENTION, N, 2 * N).to(dtype)
    s = torch.zeros(PAIRS, N, dtype=dtype)
    for steps in (STEPS, STEPS + 1):  # the last step may only attend
        states, contexts, _ = backend.decoder_recurrence(x, s, steps, memory, unit, model)
        (states.sum() + contexts.sum()).backward()
    t = torch.zeros(PAIRS, MAXOUT, dtype=dtype, requires_grad=True)
    output = torch.zeros(WORDS, MAXOUT, dtype=dtype), torch.zeros(WORDS, dtype=dtype)
    for label_smoothing in (0.0, 0.1):
        backend.output_cost(t, *output, words, label_smoothing)
    with torch.no_grad():
        backend.output_cost(t, *output, words)
    options = {"rho": 0.95, "eps": 1e-6, "weight_decay": 0.0, "lr": 1.0}
    numbers = torch.zeros(4, N, N)  # parameters are in float32
    sound, factor = torch.tensor(1, dtype=torch.int32), torch.tensor(1.0)
    for given in ((None, None), (sound, factor)):
        fused_adadelta.update([numbers, numbers], options, *given)
    fused_adadelta.norm_of(numbers)


def figures(kernel: CompiledKernel, folder: str) -> tuple[str, ...]:
    """Return registers, spilled bytes, and how many loads and stores there are of each width."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    path = Path(folder) / "kernel.cubin"
    path.write_bytes(kernel.asm["cubin"])
    resources, code = (
        subprocess.run([tool, option, path], capture_output=True, text=True, check=True).stdout
        for option in ("--dump-resource-usage", "-sass")
    )
    registers, stack = (re.search(rf"{name}:(\d+)", resources)[1] for name in ("REG", "STACK"))
    return registers, stack, *(_widths(code, name) for name in ("LDG(?:STS)?", "STG"))


def _widths(code: str, name: str) -> str:
    """Return for example "4 x 128, 1 x 8": what is not named has 32 bits."""
    count = collections.Counter()
    for kinds in re.findall(rf"\b{name}\.E([.\w]*)", code):
        width = re.search(r"\.[US]?(128|64|16|8)\b", kinds)
        count[int(width[1]) if width else 32] += 1
    return ", ".join(f"{count[width]} x {width}" for width in WIDTHS if count[width])


@program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", default=list(SHARED_MEMORY), help="such as sm_80")
    parser.add_argument("--products", choices=TYPES, help="type of products (default: each)")
    args = parser.parse_args()
    if find_spec("triton") is None:
        raise UserError("triton is not installed: pip install '.[gpu]'")
    import triton

    gpu._takes = gpu.runs_triton = masked_cost.runs_triton = lambda tensor: True
    print(f"triton {triton.__version__}; loads and stores: how many x bits of a thread")
    line = "{:20} {:8} {:5} {:>9} {:>7}  {:33} {}"
    print(line.format("kernel", "products", "for", "registers", "spilled", "loads", "stores"))
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        for products in [args.products] if args.products else TYPES:
            for target in args.targets:
                for kernel in compiled(target, TYPES[products]).values():
                    row = kernel.name, products, target, *figures(kernel, folder)
                    if row not in seen:
                        print(line.format(*row))
                    seen.add(row)


if __name__ == "__main__":
    main()
