"""Passes a number around all ranks."""

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
total = rank + (world.recv(source=rank - 1, tag=7) if rank else 0)
if rank < ranks - 1:
    world.send(total, dest=rank + 1, tag=7)
else:
    print(f"{ranks} ranks, sum {total}")
