#!/usr/bin/env python3
"""The training step of bench_step.c in PyTorch: GPT-2 124M, 4 rows of 256 random tokens, fp32, AdamW, norm clipped at 1.

A peer for comparison; Penstock itself has no Python. Prints "ready" when the first steps are done, then runs one pair (a
2048^3 product, a step, a product) for each line on standard input, and ends with a line of key=value.

usage: bench_torch.py [--threads N] [--compile]
"""
import argparse
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, LENGTH, WIDTH, HEADS, BLOCKS, ROWS, POSITIONS = 50257, 256, 768, 12, 12, 4, 1024
SIZE = 2048


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        rows, length, _ = x.shape
        q, k, v = (t.view(rows, length, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Tied embeddings, learned positions; the loss is part of the forward so that a compiler may fuse it."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, token, label):
        x = self.tokens(token) + self.positions.weight[: token.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCAB), label.view(-1))


def count_flops(model):
    """6 x matrix weights x tokens, the head once, + 12 x head size x heads x blocks x causal pairs."""
    weights = VOCAB * WIDTH + sum(p.numel() for p in model.blocks.parameters() if p.dim() == 2)
    pairs = ROWS * LENGTH * (LENGTH + 1) / 2
    return 6 * weights * ROWS * LENGTH + 12 * WIDTH * BLOCKS * pairs


def make_optimizer(model, fused):
    decays = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=fused, foreach=None if fused else True)


def measure(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def choose_optimizer(model):
    """The faster of the fused and the grouped one, measured on this model's gradients."""
    for p in model.parameters():
        p.grad = torch.full_like(p, 1e-8)
    best = None
    for fused in (True, False):
        try:
            optimizer = make_optimizer(model, fused)
            optimizer.step()
            seconds = min(measure(optimizer.step) for _ in range(2))
        except RuntimeError:  # this release has no fused one for the CPU
            continue
        if best is None or seconds < best[0]:
            best = (seconds, fused)
        del optimizer
    return make_optimizer(model, best[1]), best[1]


class Product:
    """torch.mm of 2048^3 in the fastest of its layouts."""

    def __init__(self):
        a, b = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)
        ways = [(x, y) for x in (a, a.t()) for y in (b, b.t())]
        self.out = torch.empty(SIZE, SIZE)
        self.way = min(ways, key=lambda way: min(self.run(way) for _ in range(3)))

    def run(self, way):
        return measure(lambda: torch.mm(way[0], way[1], out=self.out))

    def __call__(self):
        return self.run(self.way)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    model, product = GPT2(), Product()
    optimizer, fused = choose_optimizer(model)
    loss_of = torch.compile(model) if options.compile else model
    token = torch.randint(VOCAB, (ROWS, LENGTH + 1))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(token[:, :-1], token[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.item()

    for _ in range(3 if options.compile else 2):
        step()
    name = f"PyTorch {torch.__version__} {'compiled' if options.compile else 'eager'}"
    print(f"{name}, threads {options.threads}, AdamW {'fused' if fused else 'foreach'}: "
          f"{1e-9 * count_flops(model):.1f} GFLOP a step\nready", flush=True)

    pairs = []
    for _ in sys.stdin:
        before, cpu = product(), time.process_time()
        seconds, cpu, after = measure(step), time.process_time() - cpu, product()
        rate = 2 * SIZE**3 / (0.5 * (before + after))
        flops = count_flops(model) / seconds
        pairs.append((1e3 * seconds, 1e-9 * flops, 1e-9 * rate, flops / rate, cpu))
        print("  step %9.2f ms  %7.1f GFLOP/s  rate %7.1f GFLOP/s  ratio %.3f  cpu %.2f s" % pairs[-1], flush=True)
    if pairs:
        medians = tuple(statistics.median(column) for column in zip(*pairs))
        print(f"result pairs={len(pairs)} step_ms=%.3f gflops=%.2f rate_gflops=%.2f ratio=%.4f cpu_s=%.3f" % medians)


if __name__ == "__main__":
    main()
