"""Programs that start processes or threads without end, but a few hundred at most in case nothing ends them."""

_BOUND = 250
PROCESS_BOMB = f"""
import os, sys, time
count = 0
try:
    while count < {_BOUND}:
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
        count += 1
except BlockingIOError as error:
    print("refused", flush=True)
print(count, flush=True)
"""
THREAD_BOMB = f"""
import threading, time
threads = [threading.Thread(target=time.sleep, args=(100,), daemon=True) for _ in range({_BOUND})]
count = 0
try:
    for thread in threads:
        thread.start()
        count += 1
except RuntimeError:
    print("refused", flush=True)
print(count, flush=True)
time.sleep(100)
"""
