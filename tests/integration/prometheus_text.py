"""A strict reader of Prometheus' text format 0.0.4, which also holds a page to the habits that promtool checks: a help
and a type for every metric, counters end in _total and nothing else does, histograms add up."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
HELP = re.compile(rf"# HELP ({NAME}) (\S.*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|\})')
SAMPLE = re.compile(rf"({NAME})(\{{.*\}})? (\S+)")


class Malformed(Exception):
    pass


def _labels(text, where):
    labels, at = {}, 1
    while at < len(text):
        found = LABEL.match(text, at)
        if not found:
            raise Malformed(f"{where}: labels {text!r}")
        name, value, end = found.groups()
        if name in labels:
            raise Malformed(f"{where}: {name} stands twice")
        labels[name] = value.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
        at = found.end()
        if (end == "}") != (at == len(text)):
            raise Malformed(f"{where}: labels {text!r}")
    return labels


def _belongs(name, family, kind):
    ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
    return any(name == family + end for end in ends)


def _check_histogram(family, samples):
    """Every series: ascending bounds, cumulative counts, +Inf is the count, a sum."""
    series = {}
    for (name, labels), value in samples.items():
        rest = tuple(pair for pair in labels if pair[0] != "le")
        part = series.setdefault(rest, {"buckets": []})
        if name.endswith("_bucket"):
            part["buckets"].append((float(dict(labels)["le"]), value))
        else:
            part[name.rsplit("_", 1)[1]] = value
    for rest, part in series.items():
        bounds = [bound for bound, _ in part["buckets"]]
        counts = [count for _, count in part["buckets"]]
        if bounds != sorted(set(bounds)) or counts != sorted(counts) or bounds[-1:] != [float("inf")]:
            raise Malformed(f"{family}{dict(rest)}: buckets {part['buckets']}")
        if "sum" not in part or part.get("count") != counts[-1]:
            raise Malformed(f"{family}{dict(rest)}: sum or count is missing or wrong")


def _begin_family(help_line, type_line, families):
    help_found, type_found = HELP.fullmatch(help_line), TYPE.fullmatch(type_line)
    if not help_found or not type_found or help_found.group(1) != type_found.group(1):
        raise Malformed(f"not a help and a type: {help_line!r}, {type_line!r}")
    family, kind = type_found.groups()
    if family in families:
        raise Malformed(f"{family} stands in two places")
    if family.endswith("_total") != (kind == "counter"):
        raise Malformed(f"{family} is a {kind}")
    return family, kind


def parse(text):
    """{(name, ((label, value), …)): number} of the whole page."""
    if not text.endswith("\n"):
        raise Malformed("the last line has no end")
    families, samples = {}, {}
    lines = text[:-1].split("\n")
    at = 0
    family = kind = None
    while at < len(lines):
        if lines[at].startswith("#"):
            family, kind = _begin_family(lines[at], lines[at + 1] if at + 1 < len(lines) else "", families)
            families[family] = (kind, {})
            at += 2
            continue
        found = SAMPLE.fullmatch(lines[at])
        if not found or family is None or not _belongs(found.group(1), family, kind):
            raise Malformed(f"line {at + 1}: {lines[at]!r}")
        key = found.group(1), tuple(_labels(found.group(2) or "", f"line {at + 1}").items())
        try:
            value = float(found.group(3))
        except ValueError:
            raise Malformed(f"line {at + 1}: {found.group(3)!r} is no number") from None
        if key in samples or (kind != "gauge" and value < 0):
            raise Malformed(f"line {at + 1}: {lines[at]!r} stands twice, or counts down")
        samples[key] = families[family][1][key] = value
        at += 1
    for name, (kind, own) in families.items():
        if kind == "histogram":
            _check_histogram(name, own)
    return samples


def value(samples, name, **labels):
    """One sample's number; None if it is not there."""
    for (found, pairs), number in samples.items():
        if found == name and dict(pairs) == labels:
            return number
    return None
