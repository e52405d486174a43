/* Messages between the ranks of a job on one machine. A rank that waits does so by a rule: it spins,
 * yields or blocks, depending on the load.
 *
 * Functions return 0 or an error number of <errno.h>. rowlock_message_strerror() describes the number,
 * and rowlock_message_error_text() the failed call, with the rank that it is about. A function stores
 * values in its output arguments only if it returns 0, unless its comment says otherwise. An argument
 * that is a pointer is NULL or valid during the call, and a text ends with a null character. A buffer
 * without bytes may be NULL.
 *
 * A function that ends a handle takes the address of the handle and stores NULL there, so that using it
 * again is an error. Any thread may use any handle, but no thread may use one that another thread ends.
 *
 * A call that waits fails within a fraction of a second after a rank has died, and so do repeated calls
 * that do not wait, such as tests of requests.
 *
 * A rule is a text as listed by the command `rowlock policies`: "adaptive" (the meaning of NULL),
 * "always-block", "2cs+", "44 us" and others.
 *
 * This file is generated from the library's sources. Licence: Apache-2.0 OR MIT. */

#ifndef ROWLOCK_MESSAGE_H
#define ROWLOCK_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

// The most ranks of a job.
#define ROWLOCK_MAX_RANKS 256

// As the source of a message to be received: any rank.
#define ROWLOCK_ANY_SOURCE -1

// As the tag of a message to be received: any tag.
#define ROWLOCK_ANY_TAG -1

// As the color of a rank that is in no part: see `rowlock_communicator_split`.
#define ROWLOCK_NO_COLOR -1

// The type of the values of a reduction.
enum rowlock_type {
  // `int8_t`.
  ROWLOCK_TYPE_INT8 = 1,
  // `int16_t`.
  ROWLOCK_TYPE_INT16,
  // `int32_t`.
  ROWLOCK_TYPE_INT32,
  // `int64_t`.
  ROWLOCK_TYPE_INT64,
  // `uint8_t`.
  ROWLOCK_TYPE_UINT8,
  // `uint16_t`.
  ROWLOCK_TYPE_UINT16,
  // `uint32_t`.
  ROWLOCK_TYPE_UINT32,
  // `uint64_t`.
  ROWLOCK_TYPE_UINT64,
  // `float`.
  ROWLOCK_TYPE_FLOAT,
  // `double`.
  ROWLOCK_TYPE_DOUBLE,
};

// How a reduction combines two values.
enum rowlock_operation {
  // The sum. That of integers wraps around.
  ROWLOCK_OPERATION_SUM = 101,
  // The product, likewise.
  ROWLOCK_OPERATION_PRODUCT,
  // The smaller one. If one is not a number, the other one.
  ROWLOCK_OPERATION_MINIMUM,
  // The larger one, likewise.
  ROWLOCK_OPERATION_MAXIMUM,
  // The bits that both have. For integers, as the following ones.
  ROWLOCK_OPERATION_BIT_AND,
  // The bits that one of them has, or both.
  ROWLOCK_OPERATION_BIT_OR,
  // The bits that only one of them has.
  ROWLOCK_OPERATION_BIT_XOR,
};

// A group of ranks that exchange messages, as one of them sees it. Ranks are counted from 0 in
// each communicator. The numbers in error texts are those of the whole job.
//
// Several threads may use a communicator at the same time, but not for collective calls. A message
// that one thread sends after another is received after it, if both go to the same rank with the
// same tag.
//
// The child of a fork must not use the communicators, requests and windows of its parent. If no
// other thread of the parent was in a call of the library, it may free them, which has no effect
// on the parent's. To take part, it joins another job.
struct rowlock_communicator;

// A receive that was posted: the next message that matches belongs to it.
struct rowlock_receive_request;

// A message that is being sent, with a copy of it.
struct rowlock_send_request;

// Memory of all ranks of a communicator that they registered together, in words of 64 bits. Any
// thread may use it.
struct rowlock_window;

// Counts of the waits at an object so far. An unfinished wait counts as a wait, but its other
// counts are added at its end.
struct rowlock_message_statistics {
  // At a barrier the number of arrivals. Elsewhere the number of waits that did not succeed
  // immediately.
  uint64_t waits;
  // Waits in which the thread spun.
  uint64_t spins;
  // Waits that ended while the thread was spinning.
  uint64_t successful_spins;
  // Running time spent spinning, in nanoseconds.
  uint64_t spin_nanoseconds;
  // How often a thread yielded its CPU.
  uint64_t yields;
  // How often a thread blocked.
  uint64_t blocks;
  // How often a thread found that yielding cost the others too much, and switched them to
  // another way of waiting.
  uint64_t strikes;
  // How often a thread migrated to another CPU.
  uint64_t moves;
  // Time from blocking to running again, in nanoseconds.
  uint64_t block_nanoseconds;
};

// The source, tag and length of a message.
struct rowlock_status {
  // The rank of the sender in the communicator.
  int source;
  // The tag.
  int64_t tag;
  // The length in bytes.
  size_t length;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A short description of a number that a function of this library returns. Never NULL. The text
// remains valid forever.
const char *rowlock_message_strerror(int code);

// A message about the last failed call of this thread, with names and numbers. Empty if no call
// has failed. Never NULL. The text remains valid until the next failed call of this thread.
const char *rowlock_message_error_text(void);

// Joins the job that the environment tells, as one of the ranks that `rowlock prun` has started.
// The threads of the rank wait by this rule (NULL: "adaptive").
//
// Returns 0, EINVAL if `world` is NULL or `rule` is not a rule, ENOENT if the environment tells no
// job, EEXIST if the rank has joined already, or another number; then `*world` is NULL.
int rowlock_message_join(struct rowlock_communicator **world, const char *rule);

// Joins the job of this name as this rank of so many, for programs that start their ranks
// themselves. The name is the path of a file, preferably below `/dev/shm`, which the first rank
// creates and the last one removes.
//
// Returns as `rowlock_message_join`, or EINVAL if `path` is NULL or the numbers are not those of a
// rank, or of this job.
int rowlock_message_join_named(struct rowlock_communicator **world,
                               const char *path,
                               int rank,
                               int ranks,
                               const char *rule);

// Creates a job whose ranks are threads of this process, and stores their communicators in the
// array `worlds`, which has room for so many. Any thread may use any of them.
//
// Returns 0, EINVAL if `worlds` is NULL, `ranks` is not 1 to ROWLOCK_MAX_RANKS, or `rule` is not a
// rule, or another number; then the array is unchanged.
int rowlock_message_threads(struct rowlock_communicator **worlds, int ranks, const char *rule);

// Frees a communicator that no thread uses any more, and stores NULL in `*communicator`. NULL is
// allowed for both.
//
// With the last communicator, request or window of a rank, the rank leaves the job: others that
// wait for it get an error. Messages that it has sent can be received even then, except for long
// ones whose requests were not waited for. This call waits until all short ones are in shared
// memory, as long as their receivers are there. A process that ends without it has died, for the
// others.
void rowlock_communicator_free(struct rowlock_communicator **communicator);

// Stores the number of the calling rank in `*rank`.
//
// Returns 0, or EINVAL.
int rowlock_communicator_rank(const struct rowlock_communicator *communicator, int *rank);

// Stores the number of ranks in `*ranks`.
//
// Returns 0, or EINVAL.
int rowlock_communicator_ranks(const struct rowlock_communicator *communicator, int *ranks);

// Stores the counts of all waits of this rank so far, in all communicators, in `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_communicator_statistics(const struct rowlock_communicator *communicator,
                                    struct rowlock_message_statistics *statistics);

// Divides the ranks into communicators: those with the same color, 0 to UINT32_MAX, form one, in
// the order of their keys, and then of their ranks. All ranks must call this. A rank with
// ROWLOCK_NO_COLOR gets NULL.
//
// Returns as `rowlock_communicator_barrier`, or EOVERFLOW if a rank has proposed eight million
// communicators; in case of an error, `*part` is NULL.
int rowlock_communicator_split(const struct rowlock_communicator *communicator,
                               int64_t color,
                               int key,
                               struct rowlock_communicator **part);

// Sends a message of `bytes` bytes to a rank. Returns as soon as the memory may change: a short
// message is on its way then, and a long one has been read by the receiver. A tag is 0 to
// UINT32_MAX.
//
// Returns 0, EINVAL if an argument is not valid, EOWNERDEAD if the call has waited and any rank of
// the job has died, EPIPE if the call has waited and the receiver has left, ECANCELED if another
// message to it has failed, EBADMSG if the shared memory is damaged, or EIO if the system refuses
// memory.
int rowlock_communicator_send(const struct rowlock_communicator *communicator,
                              int to,
                              int64_t tag,
                              const void *message,
                              size_t bytes);

// Waits for a message and receives it into the beginning of `buffer`, which has `bytes` bytes.
// `from` may be ROWLOCK_ANY_SOURCE, and `tag` ROWLOCK_ANY_TAG. `*status` says what came, unless
// `status` is NULL.
//
// Returns 0, EMSGSIZE if the message does not fit and is kept for the next receive that matches,
// ECANCELED if the sender has given it up, or as `rowlock_communicator_send`. In case of an error,
// the content of the buffer is undefined.
int rowlock_communicator_receive(const struct rowlock_communicator *communicator,
                                 int from,
                                 int64_t tag,
                                 void *buffer,
                                 size_t bytes,
                                 struct rowlock_status *status);

// Sends a message and receives one at the same time, as `rowlock_communicator_send` and
// `rowlock_communicator_receive`: without a copy in between, also where two ranks send each other
// long messages. The buffers must not overlap.
//
// Returns as these.
int rowlock_communicator_send_receive(const struct rowlock_communicator *communicator,
                                      int to,
                                      int64_t sent_tag,
                                      const void *message,
                                      size_t message_bytes,
                                      int from,
                                      int64_t tag,
                                      void *buffer,
                                      size_t buffer_bytes,
                                      struct rowlock_status *status);

// Waits for a message without receiving it. `*status` says what came, unless `status` is NULL.
//
// Returns as `rowlock_communicator_receive`.
int rowlock_communicator_probe(const struct rowlock_communicator *communicator,
                               int from,
                               int64_t tag,
                               struct rowlock_status *status);

// Like `rowlock_communicator_probe`, without waiting.
//
// Returns 0, EBUSY if there is no such message yet, or as `rowlock_communicator_receive`.
int rowlock_communicator_iprobe(const struct rowlock_communicator *communicator,
                                int from,
                                int64_t tag,
                                struct rowlock_status *status);

// Copies a message and sends it in this call or in later ones of this rank. Never waits.
//
// Returns 0, EINVAL if an argument is not valid, ENOMEM if there is no memory for the copy, or
// EBADMSG; then `*request` is NULL.
int rowlock_communicator_isend(const struct rowlock_communicator *communicator,
                               int to,
                               int64_t tag,
                               const void *message,
                               size_t bytes,
                               struct rowlock_send_request **request);

// Tells whether a message is complete: received, or in shared memory. Makes progress.
//
// Returns 0 if it is, EBUSY if not, or as `rowlock_communicator_send` if it could not be sent.
int rowlock_send_request_test(const struct rowlock_send_request *request);

// Waits until a message is complete. Frees the request, in case of an error too, and stores NULL
// in `*request`.
//
// Returns 0, EINVAL if `request` or `*request` is NULL, or as `rowlock_communicator_send`.
int rowlock_send_request_wait(struct rowlock_send_request **request);

// Frees a request without waiting, and stores NULL in `*request`. NULL is allowed for both. The
// message is sent nevertheless. But if the rank leaves the job before a long one has been read,
// the receiver gets an error instead.
void rowlock_send_request_free(struct rowlock_send_request **request);

// Posts a receive: the next message that matches belongs to the request. Its buffer is given by
// `rowlock_receive_request_wait`. `from` may be ROWLOCK_ANY_SOURCE, and `tag` ROWLOCK_ANY_TAG.
//
// Returns 0, or EINVAL; then `*request` is NULL.
int rowlock_communicator_ireceive(const struct rowlock_communicator *communicator,
                                  int from,
                                  int64_t tag,
                                  struct rowlock_receive_request **request);

// Tells whether the message of a request has arrived. Then `*status` says how long a buffer must
// be, unless `status` is NULL. Makes progress.
//
// Returns 0 if it has, EBUSY if not, or as `rowlock_communicator_receive`.
int rowlock_receive_request_test(const struct rowlock_receive_request *request, struct rowlock_status *status);

// Waits for the message of a request and receives it into the beginning of `buffer`, which has
// `bytes` bytes. Frees the request, in case of an error too, and stores NULL in `*request`. If
// `buffer` is NULL although it has bytes, the request stays.
//
// Returns 0, EINVAL if `request` or `*request` is NULL, or as `rowlock_communicator_receive`. A
// message that does not fit is there for the next receive that matches.
int rowlock_receive_request_wait(struct rowlock_receive_request **request,
                                 void *buffer,
                                 size_t bytes,
                                 struct rowlock_status *status);

// Frees a request without waiting, and stores NULL in `*request`. NULL is allowed for both. A
// message that belonged to it is there for other receives.
void rowlock_receive_request_free(struct rowlock_receive_request **request);

// Waits until all ranks have called this. As in all collective calls, all ranks must make the same
// ones in the same order.
//
// Returns 0, EINVAL if an argument is not valid, EMSGSIZE if ranks take part with different
// lengths, EOWNERDEAD if a rank has died, EPIPE if one has left, ECANCELED if one has given up,
// EBADMSG if the shared memory is damaged, or EIO if the system refuses memory.
int rowlock_communicator_barrier(const struct rowlock_communicator *communicator);

// Copies the bytes of the rank `root` to all ranks.
//
// Returns as `rowlock_communicator_barrier`.
int rowlock_communicator_broadcast(const struct rowlock_communicator *communicator,
                                   int root,
                                   void *values,
                                   size_t bytes);

// Divides the values of the rank `root`, `bytes` for each rank, among all ranks in their order.
// Only the root needs values; at the others they may be NULL. The buffers must not overlap.
//
// Returns as `rowlock_communicator_barrier`.
int rowlock_communicator_scatter(const struct rowlock_communicator *communicator,
                                 int root,
                                 const void *values,
                                 void *part,
                                 size_t bytes);

// Collects the parts of all ranks, `bytes` of each, at the rank `root`, in the order of ranks.
// Only the root needs room for all; at the others, `values` may be NULL. The buffers must not
// overlap.
//
// Returns as `rowlock_communicator_barrier`.
int rowlock_communicator_gather(const struct rowlock_communicator *communicator,
                                int root,
                                const void *part,
                                void *values,
                                size_t bytes);

// Collects the parts of all ranks, `bytes` of each, at all ranks. The buffers must not overlap.
//
// Returns as `rowlock_communicator_barrier`.
int rowlock_communicator_all_gather(const struct rowlock_communicator *communicator,
                                    const void *part,
                                    void *values,
                                    size_t bytes);

// Sends the part with the number of each rank, `bytes` long, to that rank, and receives one from
// each. The buffers must not overlap.
//
// Returns as `rowlock_communicator_barrier`.
int rowlock_communicator_all_to_all(const struct rowlock_communicator *communicator,
                                    const void *parts,
                                    void *received,
                                    size_t bytes);

// Combines `count` values of this type (`enum rowlock_type`) of all ranks, place by place, by this
// operation (`enum rowlock_operation`). The results are in `values` at the rank `root`; at the
// others, it has partial results. The order in which values are combined depends only on the
// number of ranks.
//
// Returns as `rowlock_communicator_barrier`.
int rowlock_communicator_reduce(const struct rowlock_communicator *communicator,
                                int root,
                                void *values,
                                size_t count,
                                int value_type,
                                int operation);

// Like `rowlock_communicator_reduce`, with the results at all ranks.
int rowlock_communicator_all_reduce(const struct rowlock_communicator *communicator,
                                    void *values,
                                    size_t count,
                                    int value_type,
                                    int operation);

// Registers memory of so many words, full of zeros. All ranks must call this, and each chooses the
// length of its own part. Zero counts as one.
//
// Returns as `rowlock_communicator_barrier`, or EIO at all ranks if one has less memory than all
// parts need together; then `*window` is NULL.
int rowlock_communicator_window(const struct rowlock_communicator *communicator,
                                size_t words,
                                struct rowlock_window **window);

// Frees a window that no thread uses any more, and stores NULL in `*window`. NULL is allowed for
// both. Other ranks may go on using theirs.
void rowlock_window_free(struct rowlock_window **window);

// Stores the address of the words of this rank in `*words`, and their number in `*count`, unless
// these are NULL. The address is valid until the window is freed. Others change the words at any
// time between two fences, so accesses to words that they use must be atomic.
//
// Returns 0, or EINVAL.
int rowlock_window_own(const struct rowlock_window *window, uint64_t **words, size_t *count);

// Writes `count` words to the memory of a rank, from this place on, counted in words. `words` must
// be outside of the window.
//
// Returns 0, EINVAL, or ERANGE if they are not within its memory.
int rowlock_window_put(const struct rowlock_window *window,
                       int rank,
                       size_t place,
                       const uint64_t *words,
                       size_t count);

// Reads `count` words from the memory of a rank, from this place on, counted in words. `words`
// must be outside of the window.
//
// Returns 0, EINVAL, or ERANGE if they are not within its memory.
int rowlock_window_get(const struct rowlock_window *window, int rank, size_t place, uint64_t *words, size_t count);

// Adds to a word in the memory of a rank, in one step, modulo 2^64. Stores the value before in
// `*before`, unless that is NULL.
//
// Returns 0, EINVAL, or ERANGE if the word is not within its memory.
int rowlock_window_add(const struct rowlock_window *window, int rank, size_t place, uint64_t value, uint64_t *before);

// Waits until all ranks have called this. Then all that they put before is there.
//
// Returns as `rowlock_communicator_barrier`.
int rowlock_window_fence(const struct rowlock_window *window);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ROWLOCK_MESSAGE_H */
