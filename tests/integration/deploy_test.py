#!/usr/bin/env python3
"""deploy/ without a container engine: every path, port, flag, package and user in its files is there, and the commands
that the containers would run do run here."""
import re
import shutil
import subprocess
import sys
import unittest
import urllib.parse
from pathlib import Path

import harness
import redis_fleet
from port import Port

try:
    import yaml
except ImportError:  # another Python than Debian's, whose package has it
    sys.path.append("/usr/lib/python3/dist-packages")
    import yaml

ROOT = harness.ROOT
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
NODES = {name: service for name, service in SERVICES.items() if "serve" in service.get("command", [])}
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
PACKAGES = [line.split()[:2] for line in (ROOT / "tools/packages.txt").read_text().splitlines()
            if line and not line.startswith("#")]
ACL_DOC = ROOT / "docs/engines.md"


def text(number_or_text):
    """YAML takes many a word for a number or a truth; compose would refuse those."""
    assert isinstance(number_or_text, str), f"{number_or_text!r} needs quotes"
    return number_or_text


def instructions():
    """(instruction, its text on one line) of the Dockerfile, in order."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.M))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]


def stages():
    """Name of a stage to (base, its instructions)."""
    found, lines = {}, None
    for name, rest in instructions():
        if name == "FROM":
            base, _, stage = rest.split()
            lines = []
            found[stage] = base, lines
        else:
            lines.append((name, rest))
    return found


def values(stage, instruction):
    return [rest for name, rest in stages()[stage][1] if name == instruction]


def flags_of(command):
    return [part for part in command if part.startswith("--")]


def value_after(command, flag):
    return command[command.index(flag) + 1]


def published(service):
    """(address, host port, container port)"""
    return [tuple(text(port).split(":")) for port in service.get("ports", [])]


class Compose(harness.TestCase):
    def test_what_is_there(self):
        self.assertEqual(sorted(SERVICES), ["node-1", "node-2", "redis", "service"])
        self.assertEqual(sorted(NODES), ["node-1", "node-2"])
        self.assertEqual(SERVICES["redis"]["image"], "redis:7")
        self.assertEqual(set(COMPOSE["volumes"]), {"redis-data"})

    def test_all_that_is_mounted_is_in_the_tree(self):
        for name, service in SERVICES.items():
            for mount in service.get("volumes", []):
                source, target = text(mount).split(":")[:2]
                with self.subTest(service=name, mount=mount):
                    self.assertTrue(target.startswith("/"))
                    if source.startswith("."):
                        self.assertTrue((DEPLOY / source).is_file())
                        self.assertTrue(mount.endswith(":ro"), "nobody in a container writes to the tree")
                        self.assertIn(target, service["command"], "mounted, but not used")
                    else:
                        self.assertIn(source, COMPOSE["volumes"])

    def test_images_are_built_from_stages_that_are_there(self):
        for service in (*NODES.values(), SERVICES["service"]):
            build = service["build"]
            context = (DEPLOY / build["context"]).resolve()
            self.assertEqual(context, ROOT.resolve())
            self.assertTrue((context / build["dockerfile"]).is_file())
            self.assertIn(build["target"], stages())

    def test_everything_published_is_published_on_loopback_once(self):
        ports = [port for service in SERVICES.values() for port in published(service)]
        self.assertEqual([port for port in ports if port[0] != "127.0.0.1"], [])
        self.assertEqual(len({port[1] for port in ports}), len(ports))
        self.assertEqual(published(SERVICES["redis"]), [])

    def test_published_ports_are_those_that_are_listened_on(self):
        for name, node in NODES.items():
            listening = {value_after(node["command"], flag).rsplit(":", 1)[1] for flag in ("--http", "--resp")}
            self.assertEqual({port[2] for port in published(node)}, listening, name)
        listens = dict(pair.split("=", 1) for pair in values("service", "ENV"))["LISTEN"]
        self.assertEqual([port[2] for port in published(SERVICES["service"])], [listens.rsplit(":", 1)[1]])

    def test_the_exposed_ports_are_the_defaults_of_the_image(self):
        command = yaml.safe_load(values("penstock", "CMD")[0])
        listening = [value_after(command, flag).rsplit(":", 1)[1] for flag in ("--http", "--resp")]
        self.assertEqual(values("penstock", "EXPOSE"), [" ".join(listening)])

    def test_flags_are_known(self):
        known = set(re.findall(r"--[a-z-]+", harness.run("serve", "--help").stdout))
        for command in [*(node["command"] for node in NODES.values()), yaml.safe_load(values("penstock", "CMD")[0])]:
            self.assertEqual(command[0], "serve")
            self.assertEqual([flag for flag in flags_of(command) if flag not in known], [])

    def test_who_waits_for_whom(self):
        for service in SERVICES.values():
            for other, how in service.get("depends_on", {}).items():
                self.assertEqual(how, {"condition": "service_healthy"})
                self.assertIn("healthcheck", SERVICES[other])
        self.assertEqual(set(SERVICES["service"]["depends_on"]), set(NODES))

    def test_the_service_is_told_of_every_node(self):
        environment = SERVICES["service"]["environment"]
        source = (ROOT / "examples/service/service.py").read_text()
        for name in [*environment, *(pair.split("=", 1)[0] for pair in values("service", "ENV"))]:
            self.assertIn(f'"{name}"', source, "the service does not read it")
        told = set()
        for url in map(urllib.parse.urlsplit, environment["PENSTOCK_NODES"].split(",")):
            told.add(url.hostname)
            self.assertEqual(str(url.port), value_after(NODES[url.hostname]["command"], "--http").rsplit(":", 1)[1])
        self.assertEqual(told, set(NODES))

    def test_nobody_may_more_than_needed(self):
        for name in (*NODES, "service"):
            self.assertEqual(SERVICES[name]["cap_drop"], ["ALL"])
            self.assertIs(SERVICES[name]["read_only"], True)
            self.assertNotIn("privileged", SERVICES[name])


class Image(harness.TestCase):
    def test_debian_12_and_a_stage_without_compilers(self):
        self.assertEqual({name: base for name, (base, _) in stages().items()},
                         {"build": "debian:12", "penstock": "debian:12-slim", "service": "debian:12-slim"})

    def test_not_root_and_nothing_secret(self):
        for name in ("penstock", "service"):
            user = values(name, "USER")[-1]
            self.assertRegex(user, r"^[1-9]\d*:[1-9]\d*$")
            self.assertIn(stages()[name][1][-1][0], ("CMD", "ENTRYPOINT"))
        for name, rest in instructions():
            if name in ("ENV", "ARG", "LABEL"):
                self.assertNotRegex(rest.lower(), "token|passw|secret|key")

    def test_all_that_is_copied_is_in_the_tree(self):
        ignored = [line.strip("/") for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
                   if line and not line.startswith("#")]
        for name, rest in instructions():
            if name != "COPY":
                continue
            *sources, _ = rest.split()
            if sources[0].startswith("--from="):
                self.assertIn(sources[0].removeprefix("--from="), stages())
                continue
            for source in sources:
                self.assertTrue((ROOT / source).exists(), source)
                self.assertNotIn(Path(source).parts[:1], [(part,) for part in ignored])

    def test_packages_are_those_of_the_one_list(self):
        known = {name for _, names in PACKAGES for name in names.split("|")}
        for stage in stages():
            runs = " ".join(values(stage, "RUN"))
            for awk, path in re.findall(r"awk '([^']+)' (\S+)", runs):
                self.assertIn(Path(path).name, ("packages.txt",))
                chosen = subprocess.run(["awk", awk, ROOT / "tools/packages.txt"], capture_output=True, text=True,
                                        check=True).stdout.split()
                self.assertGreater(len(chosen), 5)
                self.assertEqual(set(chosen) - known, set())
            self.assertIn("apt-get install -y --no-install-recommends", runs)
            for install in re.findall(r"apt-get install ([^&]*)", runs):
                named = [word for word in install.split() if not word.startswith("-")]
                self.assertEqual(set(named) - known, set())

    @unittest.skipUnless(harness.BIN.name == "release", "the image holds the release build")
    def test_the_image_has_what_the_program_is_linked_with(self):
        if not re.search(r'VERSION_ID="12"', Path("/etc/os-release").read_text()) or shutil.which("dpkg") is None:
            self.skipTest("this is no Debian 12, whose libraries the image has")
        linked = subprocess.run(["ldd", harness.program("penstock")], capture_output=True, text=True, check=True).stdout
        if re.search(r"lib[atu]\w*san", linked):
            self.skipTest("a sanitized program is linked with more")
        there = {package for group, package in PACKAGES if group == "image"} | {"libc6", "libgcc-s1", "libstdc++6"}
        for library in re.findall(r"=> (\S+)", linked):
            # The folder's name is a link, and dpkg knows some files by the one name and some by the other.
            owner = subprocess.run(["dpkg", "-S", library, Path(library).resolve()], capture_output=True, text=True, check=False)
            self.assertIn(owner.stdout.split(":", 1)[0], there, library)

    def test_what_is_built_is_what_is_copied(self):
        built = " ".join(values("build", "RUN"))
        preset, target = re.search(r"cmake --preset (\S+)", built)[1], re.search(r"--target (\S+)", built)[1]
        self.assertIn(f"build/{preset}/{target} /out/{target}", built)
        self.assertIn(f"--from=build /out/{target} /usr/local/bin/{target}", values("penstock", "COPY"))
        self.assertIn(f'"name": "{preset}"', (ROOT / "CMakePresets.json").read_text())
        options = set(re.findall(r"-D(PENSTOCK_\w+)", built))
        self.assertEqual(options - set(re.findall(r"option\((\w+)", (ROOT / "CMakeLists.txt").read_text())), set())


class Policy(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.engine = urllib.parse.urlsplit(yaml.safe_load((DEPLOY / "policy.yaml").read_text())["engine"]["url"])

    def test_it_lints_clean(self):
        done = harness.run("lint", DEPLOY / "policy.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_its_engine_is_the_redis_of_the_fleet_as_its_user(self):
        self.assertIn(self.engine.hostname, SERVICES)
        self.assertEqual(self.engine.port or 6379, 6379)
        users = (DEPLOY / "redis/users.acl").read_text().splitlines()
        self.assertEqual((self.engine.username, self.engine.password), (redis_fleet.USER, redis_fleet.PASSWORD))
        allowed = [line.split() for line in users if line.split()[1:2] == [self.engine.username]]
        self.assertEqual(len(allowed), 1)
        self.assertIn(f">{self.engine.password}", allowed[0])
        self.assertIn("user default off", " ".join(users), "nobody else gets in")
        documented = (ROOT / "docs/engines.md").read_text().splitlines()
        self.assertIn(" ".join(allowed[0]).replace(f">{self.engine.password}", ">SECRET"), documented)

    def test_its_domain_is_the_services(self):
        domains = yaml.safe_load((DEPLOY / "policy.yaml").read_text())["domains"]
        source = (ROOT / "examples/service/service.py").read_text()
        self.assertEqual(list(domains), re.findall(r'^DOMAIN = "(\w+)"', source, re.M))


class Redis(harness.TestCase):
    """The very command of the container, with the mounted file's own path and a free port."""

    def setUp(self):
        super().setUp()
        if shutil.which("redis-server") is None or shutil.which("redis-cli") is None:
            self.skipTest("there is no redis-server")
        port = Port()
        self.addCleanup(port.close)
        mounts = dict(reversed(mount.split(":")[:2]) for mount in SERVICES["redis"]["volumes"])
        command = [mounts.get(text(part), part) for part in SERVICES["redis"]["command"]]
        command = [str(DEPLOY / part) if part.startswith("./") else part for part in command]
        log = self.enterContext((self.folder / "log").open("w+"))
        redis = subprocess.Popen([*redis_fleet.WITH_US, *command, "--port", str(port.number), "--bind", "127.0.0.1"],
                                 cwd=self.folder, stdout=log, stderr=log)
        self.addCleanup(redis.wait, harness.PATIENCE_S)
        self.addCleanup(redis.kill)
        harness.wait_for(lambda: redis.poll() is not None or "Ready to accept" in (self.folder / "log").read_text(),
                         lambda: (self.folder / "log").read_text())
        self.port = port.number

    def healthy(self, **changes):
        kind, line = SERVICES["redis"]["healthcheck"]["test"]
        self.assertEqual(kind, "CMD-SHELL")
        line = line.replace("redis-cli", f"redis-cli -p {self.port}")
        for old, new in changes.items():
            line = line.replace(old, new)
        return subprocess.run(["sh", "-c", line], capture_output=True, timeout=harness.PATIENCE_S, check=False).returncode == 0

    def test_it_starts_and_is_healthy_and_keeps_its_data(self):
        self.assertTrue(self.healthy())
        self.assertFalse(self.healthy(local="false"), "a wrong password must show")
        self.assertTrue((self.folder / "appendonlydir").is_dir())
        config = dict(zip(SERVICES["redis"]["command"][1::2], SERVICES["redis"]["command"][2::2]))
        self.assertEqual((config["--appendonly"], config["--maxmemory-policy"]), ("yes", "noeviction"))


class Nodes(harness.TestCase):
    def test_the_containers_command_serves_and_is_healthy(self):
        """With the mounted policy's own path, free ports, and a Redis under the same users: no host here is `redis`."""
        if redis_fleet.server_program() is None:
            self.skipTest("there is no redis-server")
        redis = self.enterContext(redis_fleet.Redis())
        for name, node in NODES.items():
            mounts = dict(reversed(mount.split(":")[:2]) for mount in node["volumes"])
            command = [str(DEPLOY / mounts[part]) if part in mounts else text(part) for part in node["command"]]
            command = [re.sub(r"^0\.0\.0\.0:\d+$", "0.0.0.0:0", part) for part in command]
            with self.subTest(node=name), harness.Server("penstock", [*command, "--engine", redis.url()]) as server:
                kind, *check = node["healthcheck"]["test"]
                self.assertEqual(kind, "CMD")
                port = value_after(node["command"], "--http").rsplit(":", 1)[1]
                self.assertIn(f"http://127.0.0.1:{port}/readyz", check)
                check = [part.replace(f":{port}/", f":{server.http[1]}/") for part in check]
                harness.wait_for(lambda: subprocess.run(check, capture_output=True, timeout=harness.PATIENCE_S,
                                                        check=False).returncode == 0)


if __name__ == "__main__":
    harness.main()
