# SPDX-License-Identifier: Apache-2.0
"""Commands on the guest as a machine: programs, packet loss, counters."""

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

NIC, IWNIC, MTU = os.environ["NIC"], os.environ["IWNIC"], os.environ["MTU"]
DEVICE = Path("/sys/class/infiniband", os.environ["DEV"])
ROCE_PORT = "4791"
SIW_SETTINGS = Path("/sys/module/siw/parameters")
OUTPUT_LIMIT = 64 << 10  # bytes of a program's output that are returned


def tc(*args):
    done = subprocess.run(["tc", *args], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"tc {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


def listening(port):
    """Whether a TCP socket listens on port. Looks, and does not connect."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                return True
    return False


def cm_listening(port):
    """Whether a program listens on a port of the RDMA connection manager."""
    shown = subprocess.run("rdma -j resource show cm_id".split(), capture_output=True, text=True, check=True).stdout
    ids = json.loads(shown or "[]")
    return any(i["state"] == "LISTEN" and i["src-addr"].rpartition(":")[2] == str(port) for i in ids)


class Job:
    """A program with its output in a file, in a process group of its own."""

    def __init__(self, argv):
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True
        )

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def result(self, timeout_ms):
        """Waits for the end; a program that is not done by then is killed."""
        timed_out = False
        try:
            self.process.wait(timeout_ms / 1000)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.kill()
        self.output.seek(0)
        text = self.output.read(OUTPUT_LIMIT).decode(errors="replace")
        return {"exit": self.process.returncode, "timed_out": timed_out, "output": text}


class Machine:
    def __init__(self):
        self._jobs = {}
        self._netem = False
        self._settings = {}
        self._mtu = False

    def _close(self):
        for job in self._jobs.values():
            job.kill()
        if self._netem:
            self.netem_off()
        self.siw(**self._settings)
        if self._mtu:
            self.mtu(MTU)

    # Programs.

    def run(self, argv, timeout_ms=60000):
        return Job(argv).result(timeout_ms)

    def spawn(self, argv, listen=0, cm_listen=0, timeout_ms=60000):
        """Starts a program; returns once it listens on a TCP port, or one of the connection manager."""
        job = Job(argv)
        name = f"job{len(self._jobs) + 1}"
        self._jobs[name] = job
        deadline = time.monotonic() + timeout_ms / 1000
        while listen and not listening(listen) or cm_listen and not cm_listening(cm_listen):
            if job.process.poll() is not None or time.monotonic() > deadline:
                raise OSError(f"{argv[0]} does not listen on {listen or cm_listen}: {job.result(0)}")
            time.sleep(0.02)
        return {"job": name}

    def ended(self, job):
        return {"ended": self._jobs[job].process.poll() is not None}

    def wait(self, job, timeout_ms=60000):
        return self._jobs[job].result(timeout_ms)

    # The link of iWARP.

    def siw(self, **settings):
        """Sets siw's parameters, for streams that begin from now on, until the connection closes."""
        for name, value in settings.items():
            path = SIW_SETTINGS / name
            self._settings.setdefault(name, path.read_text().strip())
            path.write_text(str(value))

    def mtu(self, mtu):
        """Sets the MTU of iWARP's link, until the connection closes."""
        self._mtu = True
        subprocess.run(["ip", "link", "set", IWNIC, "mtu", str(mtu)], check=True)

    # Packet loss, on RDMA's frames alone: the control connection stays clean.

    def netem(self, direction, args, qpn=None, iwarp=None):
        """Puts netem with args (as of tc-netem(8)) on what the guest sends ("out") or receives ("in").

        RoCEv2's packets get it; with qpn, those to queue pairs of this number alone; 1 is where connection
        managers listen. With iwarp, TCP segments on iWARP's link: "all", or "syn" for those that begin connections.
        """
        self._netem = True
        nic = IWNIC if iwarp else NIC
        if direction == "out":
            tc(*f"qdisc add dev {nic} root handle 1: prio bands 4 priomap".split(), *["0"] * 16)
            tc(*f"qdisc add dev {nic} parent 1:4 netem".split(), *args)
            target = f"dev {nic} parent 1:", "flowid 1:4"
        elif direction == "in":
            subprocess.run(["ip", "link", "add", "ifb0", "type", "ifb"], check=True)
            subprocess.run(["ip", "link", "set", "ifb0", "up"], check=True)
            tc(*"qdisc add dev ifb0 root netem".split(), *args)
            tc(*f"qdisc add dev {nic} ingress".split())
            target = f"dev {nic} parent ffff:", "action mirred egress redirect dev ifb0"
        else:
            raise ValueError("direction is out or in")
        for priority, (protocol, match, header) in enumerate((("ip", "ip", 20), ("ipv6", "ip6", 40)), 1):
            only = f"match {match} dport {ROCE_PORT} 0xffff"
            if qpn is not None:
                only += f" match u32 {qpn} 0xffffff at {header + 8 + 4}"  # in the BTH, behind UDP
            if iwarp:
                only = f"match {match} protocol 6 0xff"
            if iwarp == "syn":
                only += f" match u8 0x02 0x12 at {header + 13}"  # and not ACK
            tc(*f"filter add {target[0]} protocol {protocol} prio {priority} u32 {only} {target[1]}".split())

    def netem_off(self):
        for nic in (NIC, IWNIC):
            for args in (f"qdisc del dev {nic} root", f"qdisc del dev {nic} ingress"):
                subprocess.run(["tc", *args.split()], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", "ifb0"], stderr=subprocess.DEVNULL)
        self._netem = False

    def netem_stats(self):
        """Packets that each netem passed and dropped."""
        stats = {}
        for device, direction in ((NIC, "out"), (IWNIC, "out"), ("ifb0", "in")):
            if not Path("/sys/class/net", device).exists():
                continue
            words = tc("-s", "qdisc", "show", "dev", device).split("qdisc netem", 1)
            if len(words) == 2:
                fields = words[1].split()
                stats[direction] = {
                    "sent": int(fields[fields.index("pkt") - 1]),
                    "dropped": int(fields[fields.index("(dropped") + 1].rstrip(",")),
                }
        return {"netem": stats}

    # Counters.

    def counters(self):
        """The device's hardware counters, by the kernel's names."""
        folder = DEVICE / "ports/1/hw_counters"
        return {"counters": {path.name: int(path.read_text()) for path in folder.iterdir()}}
