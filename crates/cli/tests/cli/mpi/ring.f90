! Passes a number around all ranks.
program ring
  use mpi
  implicit none
  integer :: rank, ranks, next, previous, sum, error
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  next = mod(rank + 1, ranks)
  previous = mod(rank + ranks - 1, ranks)
  sum = 0
  if (rank > 0) call MPI_Recv(sum, 1, MPI_INTEGER, previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  sum = sum + rank
  if (rank < ranks - 1) call MPI_Send(sum, 1, MPI_INTEGER, next, 7, MPI_COMM_WORLD, error)
  if (rank == ranks - 1) print '(i0,a,i0)', ranks, ' ranks, sum ', sum
  call MPI_Finalize(error)
end program ring
