"""OCC: Brooker's contention model of 2015, written anew in plain Python, to time beside ours.

Clients read a version, write if it has not changed, and start over after full jitter if it has.
Prints one line of JSON: events, processor seconds and mean writes of `runs` runs with `clients` writers.
"""
import heapq
import json
import random
import sys
import time

BASE_MS, CAP_MS = 5.0, 2000.0
READ, READ_ANSWER, WRITE, WRITE_ANSWER = range(4)


def run(clients, rng):
    """One run: the number of events and of writes."""
    queue, sequence, version = [], 0, 0
    seen, attempts, written = [0] * clients, [1] * clients, [False] * clients

    def hop():
        return abs(rng.normalvariate(10.0, 2.0))

    for client in range(clients):
        heapq.heappush(queue, (hop(), sequence, READ, client))
        sequence += 1
    events = writes = 0
    while queue:
        now, _, kind, client = heapq.heappop(queue)
        events += 1
        if kind == READ:
            seen[client] = version
            follow = (now + hop(), READ_ANSWER)
        elif kind == READ_ANSWER:
            follow = (now + hop(), WRITE)
        elif kind == WRITE:
            writes += 1
            if seen[client] == version:
                version += 1
                written[client] = True
            follow = (now + hop(), WRITE_ANSWER)
        elif written[client]:
            continue
        else:
            wait = rng.uniform(0.0, min(CAP_MS, BASE_MS * 2 ** attempts[client]))
            attempts[client] += 1
            follow = (now + hop() + wait, READ)
        heapq.heappush(queue, (follow[0], sequence, follow[1], client))
        sequence += 1
    return events, writes


def main():
    clients, runs = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(1)
    started = time.process_time()
    results = [run(clients, rng) for _ in range(runs)]
    seconds = time.process_time() - started
    events = sum(result[0] for result in results)
    print(json.dumps({"events": events, "seconds": seconds, "writes": sum(r[1] for r in results) / runs}))


main()
