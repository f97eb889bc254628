"""Prints the packages whose tests run on Apache Kafka, each with a regular expression of
those tests: of all from which a function of topics/kafka/kafkatest can be reached that says
which brokers there are, also through another package for tests, whose folder ends in test. Nothing else may read the environment variables that say so."""
import collections, pathlib, re, sys

home = pathlib.Path("topics/kafka/kafkatest")
asks = r"\bkafkatest\.(Run|Real|Brokers|Apache|Tool|Tokens|Secured)\b"

# Functions by folder and name. Those of one name, methods of several types say, count as one.
functions, helpers = collections.defaultdict(dict), collections.defaultdict(dict)
for file in sorted(pathlib.Path(".").rglob("*.go")):
    text = file.read_text()
    if file.parent != home and re.search(r'Getenv\("GVBLL_KAFKA', text):
        sys.exit(f"{file} reads GVBLL_KAFKA itself: use {home}")
    test, helper = file.name.endswith("_test.go"), file.parent.name.endswith("test") and file.parent != home
    if test or helper:
        into = functions[file.parent] if test else helpers[file.parent]
        code = re.sub(r"^\s*//.*$", "", text, flags=re.M)
        for name, body in re.findall(r"^func (?:\([^)]*\) )?(\w+)(.*?)(?=^\w|\Z)", code, re.M | re.S):
            into[name] = into.get(name, "") + body
    elif re.search(asks, text):
        sys.exit(f"{file} is no test and asks for brokers")


def reaching(bodies, asks):
    reach = set()
    while more := {n for n, body in bodies.items() if n not in reach and
                   (re.search(asks, body) or reach & set(re.findall(r"\w+", body)))}:
        reach |= more
    return reach


for folder, bodies in helpers.items():
    if names := reaching(bodies, asks):
        asks += rf"|\b{folder.name}\.({'|'.join(sorted(names))})\b"
for folder, bodies in functions.items():
    if tests := sorted(n for n in reaching(bodies, asks) if n.startswith("Test")):
        print(f"./{folder} ^({'|'.join(tests)})$")
