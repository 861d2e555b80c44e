"""A step recorded as a CUDA graph."""

import torch


def captured(step):
    """The graph of a step that has run once before, and the tensors that each replay writes.

    Nothing of an earlier run may hold its graph for autograd: that would tie the leaves to another stream.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    return graph, found
