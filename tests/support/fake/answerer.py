"""A process for tests of `kernels.processes`: does what a job's `do` says, on a bare pipe."""

import json
import os
import subprocess
import sys
import time

for line in sys.stdin.buffer:
    job = json.loads(line)
    print("printed by a library", file=sys.stderr)
    if job["do"] == "echo":
        answer = {"said": job["say"], "pid": os.getpid(), "mood": os.environ.get("MOOD"), "arguments": sys.argv[1:]}
        sys.stdout.write(json.dumps(answer) + "\n")
    elif job["do"] == "ask":
        total = 0
        for number in job["numbers"]:
            sys.stdout.write(json.dumps({"asks": {"double": number}}) + "\n")
            sys.stdout.flush()
            total += json.loads(sys.stdin.buffer.readline())["doubled"]
        sys.stdout.write(json.dumps({"total": total}) + "\n")
    elif job["do"] == "garbage":
        sys.stdout.write("{]\n")
    elif job["do"] == "list":
        sys.stdout.write("[1]\n")
    elif job["do"] == "half":
        sys.stdout.write('{"said": ')
        sys.stdout.flush()
        os._exit(3)
    elif job["do"] == "raise":
        raise RuntimeError("no luck today")
    elif job["do"] == "child":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(job["file"], "w") as file:
            file.write(str(child.pid))
        open(job["hanging"], "w").close()
        time.sleep(600)
    elif job["do"] == "wait":
        open(job["asked"], "w").close()
        time.sleep(600)
    sys.stdout.flush()
