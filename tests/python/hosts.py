"""Hosts made of network namespaces, joined by a bridge: a network of machines on one. Needs root and `ip`."""

import os
import shutil
import subprocess


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def why_not():
    """Why there can be no such hosts here; "" where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "there is no program ip (package iproute2)"
    name = f"moelab-{os.getpid()}-try"
    try:
        ip("netns", "add", name)
        try:
            ip("-n", name, "link", "add", "bridge", "type", "bridge")
            ip("-n", name, "link", "add", "one", "type", "veth", "peer", "name", "two")
        finally:
            ip("netns", "delete", name)
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.strip()}"
    return ""


class Host:
    def __init__(self, network, number):
        self.name, self.namespace = f"host{number}", f"{network}-{number}"
        self.address, self.port = f"10.77.0.{number}", f"p{number}"
        self.network = network
        ip("netns", "add", self.namespace)
        ip("-n", network, "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns",
           self.namespace)
        ip("-n", network, "link", "set", self.port, "master", "bridge", "up")
        ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", self.namespace, "link", "set", device, "up")

    def command(self, *arguments):
        """What runs it there, under the host's own name."""
        return ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-c",
                'hostname "$0" && exec "$@"', self.name, *map(str, arguments)]

    def cut_off(self):
        ip("-n", self.network, "link", "set", self.port, "down")

    def join(self):
        ip("-n", self.network, "link", "set", self.port, "up")

    def processes(self, *words):
        """Numbers of its processes whose command line has all the words."""
        here = os.stat(f"/run/netns/{self.namespace}").st_ino
        found = []
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = open(f"/proc/{number}/cmdline", "rb").read().decode(errors="replace").split("\0")
                if set(words) <= set(line) and os.stat(f"/proc/{number}/ns/net").st_ino == here:
                    found.append(int(number))
            except OSError:
                pass  # it has ended
        return found


class Hosts:
    """So many of them, gone with the `with`."""

    def __init__(self, count):
        self.network, self.count, self.all = f"moelab-{os.getpid()}", count, []

    def __enter__(self):
        ip("netns", "add", self.network)
        ip("-n", self.network, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.network, "link", "set", "bridge", "up")
        try:
            for number in range(1, self.count + 1):
                self.all.append(Host(self.network, number))
        except BaseException:
            self.__exit__()
            raise
        return self.all

    def __exit__(self, *_):
        for number in range(1, self.count + 1):
            subprocess.run(["ip", "netns", "delete", f"{self.network}-{number}"], capture_output=True)
        subprocess.run(["ip", "netns", "delete", self.network], capture_output=True)
