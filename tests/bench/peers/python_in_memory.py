"""The in-memory backend of the Python SDK as a server: python_in_memory.py PORT [THREADS].

Its ten threads are all there is for streams of work, waits and completions: with more than eight waits the completions
that would end them find no thread. THREADS gives it more, which it has no option for.
"""

import sys
import threading
from concurrent import futures

from durabletask.testing import create_test_backend, in_memory_backend

if len(sys.argv) > 2:
    class Futures:
        @staticmethod
        def ThreadPoolExecutor(max_workers):
            return futures.ThreadPoolExecutor(max_workers=int(sys.argv[2]))

    in_memory_backend.futures = Futures

backend = create_test_backend(port=int(sys.argv[1]))
threading.Event().wait()
