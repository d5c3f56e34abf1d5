"""Experts spread evenly over GPUs: see uniform_placement.cpp, slots.hpp and coverage.hpp of policies/placement."""

import moelab
import numpy as np


class UniformPlacement(moelab.PlacementPolicy):
    """each layer's experts split evenly over the GPUs, one copy of each"""

    name = "my-uniform"
    source = "Megatron-LM's expert parallelism; Prism, arXiv 2508.12851, section IV-A"

    def place(self, shape, counts):
        if shape.copies == 0:
            raise moelab.InputError("no copy of an expert is asked for, and uniform places as many as are asked for")
        everything = shape.layers * shape.experts
        slots = [min(int(size / shape.expert_bytes), everything) if server.up else 0
                 for server in shape.servers for size in server.gpu_bytes]
        server_of = [n for n, server in enumerate(shape.servers) for _ in server.gpu_bytes]
        cluster = Cluster(shape, counts, slots, server_of)
        per_layer = by_layer(even_shares(slots, everything * shape.copies), shape.layers)
        for layer in range(shape.layers):
            begin = 0
            for gpu, share in enumerate(per_layer[:, layer].tolist()):
                for expert in range(begin, begin + share):
                    expert %= shape.experts
                    if not cluster.on_server(server_of[gpu], layer, expert):
                        cluster.held[gpu, layer, expert] = True
                begin += share
        cluster.cover()
        return cluster.held


def even_shares(slots, total):
    """As even as the slots allow; what does not divide goes to those with more of them."""
    shares = [0] * len(slots)
    for done, gpu in enumerate(sorted(range(len(slots)), key=lambda gpu: slots[gpu])):
        shares[gpu] = min(slots[gpu], total // (len(slots) - done))
        total -= shares[gpu]
    return shares


def by_layer(shares, layers):
    """[GPUs, layers]: each layer the same; what remains goes to the layers that have fewest so far."""
    result = np.empty((len(shares), layers), int)
    extra = np.zeros(layers, int)
    for gpu, share in enumerate(shares):
        result[gpu] = share // layers
        fewest = np.argsort(extra, kind="stable")[:share % layers]
        result[gpu, fewest] += 1
        extra[fewest] += 1
    return result


class Cluster:
    """What GPUs hold, and how an expert without all its copies gets them."""

    def __init__(self, shape, counts, slots, server_of):
        self.shape, self.counts, self.slots = shape, counts, slots
        self.server_of = np.array(server_of, int)
        self.gpus_of = [np.flatnonzero(self.server_of == n) for n in range(len(shape.servers))]
        self.held = np.zeros((len(slots), shape.layers, shape.experts), bool)

    def on_server(self, server, layer, expert):
        return self.held[self.gpus_of[server], layer, expert].any()

    def copies(self, layer, expert):
        return len(set(self.server_of[self.held[:, layer, expert]].tolist()))

    def free(self, gpu):
        return self.slots[gpu] - int(self.held[gpu].sum())

    def cover(self):
        for layer in range(self.shape.layers):
            for expert in range(self.shape.experts):
                while self.copies(layer, expert) < self.shape.copies:
                    if not self.place_in_free_slot(layer, expert):
                        self.place_along_chain(layer, expert)

    def place_in_free_slot(self, layer, expert):
        free = [0 if self.on_server(self.server_of[gpu], layer, expert) else self.free(gpu)
                for gpu in range(len(self.slots))]
        best = int(np.argmax(free))
        if free[best] == 0:
            return False
        self.held[best, layer, expert] = True
        return True

    def spare_slot(self, server):
        """A GPU of the server with a free slot, made free if need be; None where there is none."""
        for gpu in self.gpus_of[server]:
            if self.free(gpu) > 0:
                return gpu
        for gpu in self.gpus_of[server]:
            dispensable = [(use, layer, expert) for layer, expert in np.argwhere(self.held[gpu]).tolist()
                           if (use := self.use_here(server, layer, expert)) is not None]
            if dispensable:
                _, layer, expert = min(dispensable)
                self.held[gpu, layer, expert] = False
                return gpu
        return None

    def use_here(self, server, layer, expert):
        """What the server loses with one of its copies; None where it must stay."""
        if self.held[self.gpus_of[server], layer, expert].sum() > 1:
            return -1.0
        return self.counts[server, layer, expert] if self.copies(layer, expert) > self.shape.copies else None

    def place_along_chain(self, layer, expert):
        """Breadth first from the servers without the expert to one with a slot to spare."""
        up = [n for n, server in enumerate(self.shape.servers) if server.up]
        came = {n: None for n in up if not self.on_server(n, layer, expert)}  # server: (server before, what moves here)
        queue = list(came)
        for server in queue:
            gpu = self.spare_slot(server)
            if gpu is not None:
                return self.move_along(came, server, gpu, layer, expert)
            for other in up:
                if other not in came and (moves := self.movable(server, other)) is not None:
                    came[other] = (server, moves)
                    queue.append(other)
        raise moelab.InputError("there is no room for all copies")

    def movable(self, source, target):
        there = self.held[self.gpus_of[source]].any(axis=0) & ~self.held[self.gpus_of[target]].any(axis=0)
        experts = np.argwhere(there)
        return experts[0].tolist() if len(experts) else None

    def move_along(self, came, server, gpu, layer, expert):
        while came[server] is not None:
            server, (moved_layer, moved) = came[server]
            before = next(g for g in self.gpus_of[server] if self.held[g, moved_layer, moved])
            self.held[before, moved_layer, moved] = False
            self.held[gpu, moved_layer, moved] = True
            gpu = before
        self.held[gpu, layer, expert] = True
