"""Python's synchronization objects."""
import concurrent.futures
import queue
import threading

THREADS, ROUNDS = 4, 150


def run(work):
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def queues():
    tasks, results = queue.Queue(maxsize=8), queue.Queue()

    def work(_):
        while (task := tasks.get()) is not None:
            results.put(task * task)
            tasks.task_done()

    def produce(number):
        if number == 0:
            for task in range(ROUNDS * 4):
                tasks.put(task)
            tasks.join()
            for _ in range(THREADS - 1):
                tasks.put(None)
        else:
            work(number)

    run(produce)
    print("queues", sum(results.get() for _ in range(ROUNDS * 4)))


def barriers():
    barrier, phases = threading.Barrier(THREADS, action=lambda: phases.append(sum(values))), []
    values = [0] * THREADS

    def work(number):
        for i in range(ROUNDS):
            values[number] = i
            barrier.wait()
            barrier.wait()

    run(work)
    print("barriers", len(phases), sum(phases[::2]))


def conditions():
    condition, state = threading.Condition(), [0]

    def work(number):
        for _ in range(ROUNDS):
            with condition:
                condition.wait_for(lambda: state[0] % THREADS == number)
                state[0] += 1
                condition.notify_all()

    run(work)
    print("conditions", state[0])


def semaphores():
    places, inside, lock, most = threading.Semaphore(2), [0], threading.RLock(), [0]

    def work(_):
        for _ in range(ROUNDS):
            with places:
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with lock:
                    inside[0] -= 1

    run(work)
    event = threading.Event()
    waiter = threading.Thread(target=event.wait, daemon=True)
    waiter.start()
    event.set()
    waiter.join()
    print("semaphores", inside[0], most[0] <= 2, event.is_set(), threading.Event().wait(0.002))


def futures():
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        print("futures", sum(pool.map(lambda n: n * n, range(ROUNDS))))
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print("processes", sum(pool.map(abs, range(-50, 50), chunksize=10)))


if __name__ == "__main__":
    for part in (queues, barriers, conditions, semaphores, futures):
        part()
