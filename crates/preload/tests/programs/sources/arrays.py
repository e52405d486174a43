"""Matrices, multiplied and inverted by threads of the library below."""
import threading

import numpy

generator = numpy.random.default_rng(7)
# Small whole numbers, so that sums are exact in any order.
matrices = [generator.integers(-3, 4, (n, n)).astype(float) for n in (50, 200, 500)]
for matrix in matrices:
    product = matrix
    for _ in range(3):
        product = numpy.rint((product @ matrix) % 7)
    print(matrix.shape, int(product.sum()), round(float(numpy.linalg.solve(matrix, matrix).trace()), 3))

sums = [0] * 3


def work(number):
    for _ in range(10):
        sums[number] += int((matrices[1] @ matrices[1]).sum())


threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sums)
