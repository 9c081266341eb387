package expr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryLibraryIsDeclared evaluates an expression with each function that the dialect
// promises.
func TestEveryLibraryIsDeclared(t *testing.T) {
	env := testEnv(t)
	type list = []any
	type object = map[string]any
	cases := map[string]map[string]any{
		"strings": {
			`"abc".charAt(1)`: "b", `"abcb".indexOf("b")`: int64(1), `"abcb".indexOf("b", 2)`: int64(3), `"abcb".lastIndexOf("b")`: int64(3),
			`"aB".lowerAscii()`: "ab", `"aB".upperAscii()`: "AB", `"aa".replace("a", "b")`: "bb", `"aa".replace("a", "b", 1)`: "ba",
			`"a,b".split(",")`: list{"a", "b"}, `"a,b,c".split(",", 2)`: list{"a", "b,c"}, `"abc".substring(1)`: "bc", `"abc".substring(1, 2)`: "b",
			`" a ".trim()`: "a", `"abc".reverse()`: "cba", `["a", "b"].join()`: "ab", `["a", "b"].join("-")`: "a-b",
			`"%s %d %.1f %x %X %b %o %e".format(["a", 1, 1.5, 255, 255, 5, 8, 10.0])`: "a 1 1.5 ff FF 101 10 1.000000e+01",
			`strings.quote("a")`: `"a"`,
		},
		"lists": {
			`[1, 2, 3].slice(1, 3)`: list{int64(2), int64(3)}, `[[1], [2]].flatten()`: list{int64(1), int64(2)}, `[[[1]]].flatten(2)`: list{int64(1)},
			`[2, 1].sort()`: list{int64(1), int64(2)}, `[{"k": 2}, {"k": 1}].sortBy(o, o.k)[0].k`: int64(1), `[1, 1].distinct()`: list{int64(1)},
			`[1, 2].reverse()`: list{int64(2), int64(1)}, `lists.range(3)`: list{int64(0), int64(1), int64(2)},
			`[1, 2].isSorted()`: true, `[1, 2].sum()`: int64(3), `[1, 2].min()`: int64(1), `[1, 2].max()`: int64(2), `[1, 1].indexOf(1)`: int64(0), `[1, 1].lastIndexOf(1)`: int64(1),
			`lists.setAtIndex(["a", "b"], 1, "c")`: list{"a", "c"}, `lists.insertAtIndex(["a"], 0, "c")`: list{"c", "a"}, `lists.removeAtIndex(["a", "b"], 0)`: list{"b"},
		},
		"bindings and optionals": {
			`cel.bind(x, 2, x * x)`: int64(4), `optional.of(1).value()`: int64(1), `optional.none().orValue(2)`: int64(2), `optional.ofNonZeroValue("").hasValue()`: false,
			`{"a": 1}[?"b"].orValue(3)`: int64(3), `{?"a": optional.none()}`: object{}, `[?optional.of(1)]`: list{int64(1)}, `optional.of(1).optMap(x, x + 1).value()`: int64(2),
			`optional.of(1).optFlatMap(x, optional.of(x)).value()`: int64(1), `optional.none().or(optional.of(1)).value()`: int64(1),
		},
		"encoders": {`base64.encode(b"a")`: "YQ==", `string(base64.decode("YQ=="))`: "a"},
		"comprehensions of two variables": {
			`[1, 2].all(i, v, i < v)`: true, `[1, 2].exists(i, v, i == v)`: false, `[1, 0].existsOne(i, v, i == v)`: false, `{"a": 1}.all(k, v, k == "a" && v == 1)`: true,
			`[1, 2].transformList(i, v, i * v)`: list{int64(0), int64(2)}, `[1, 2].transformList(i, v, i > 0, v)`: list{int64(2)}, `{"a": 1}.transformList(k, v, k)`: list{"a"},
			`{"a": 1}.transformMap(k, v, v + 1)`: object{"a": int64(2)}, `{"a": 1, "b": 2}.transformMap(k, v, v > 1, v)`: object{"b": int64(2)},
			`["x"].transformMapEntry(i, v, {v: i})`: object{"x": int64(0)}, `["x", "y"].transformMapEntry(i, v, i > 0, {v: i})`: object{"y": int64(1)},
		},
		"URLs": {
			`isURL("https://a.b/c")`: true, `url("https://a.b:1/c?d=e").getHost()`: "a.b:1", `url("https://a.b:1/c").getHostname()`: "a.b", `url("https://a.b:1/c").getPort()`: "1",
			`url("https://a.b/c").getScheme()`: "https", `url("https://a.b/c").getEscapedPath()`: "/c", `url("https://a.b/c?d=e").getQuery()`: object{"d": list{"e"}},
		},
		"regular expressions": {`"a12".find("[0-9]+")`: "12", `"1 2".findAll("[0-9]")`: list{"1", "2"}, `"1 2".findAll("[0-9]", 1)`: list{"1"}, `"a1".matches("^a")`: true},
		"quantities": {
			`isQuantity("1Gi")`: true, `quantity("1Gi").isGreaterThan(quantity("1M"))`: true, `quantity("1").add(quantity("2")).asInteger()`: int64(3), `quantity("2").sub(1).isInteger()`: true,
			`quantity("1").compareTo(quantity("2"))`: int64(-1), `quantity("1500m").asApproximateFloat()`: 1.5, `sign(quantity("-1"))`: int64(-1), `quantity("1Gi")`: "1Gi",
			`quantity("1Gi").add(quantity("512Mi"))`: "1536Mi", `quantity("2").sub(1)`: "1",
		},
		"addresses": {
			`isIP("10.0.0.1")`: true, `ip("10.0.0.1").family()`: int64(4), `ip("127.0.0.1").isLoopback()`: true, `ip.isCanonical("::1")`: true, `string(ip("10.0.0.1"))`: "10.0.0.1",
			`isCIDR("10.0.0.0/8")`: true, `cidr("10.0.0.0/8").containsIP("10.1.2.3")`: true, `cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")`: true, `cidr("10.0.0.0/8").prefixLength()`: int64(8),
			`cidr("10.1.0.0/8").masked()`: "10.0.0.0/8", `string(cidr("10.0.0.0/8").ip())`: "10.0.0.0",
		},
		"semantic versions": {
			`isSemver("1.2.3")`: true, `semver("1.2.3").major()`: int64(1), `semver("1.2.3").minor()`: int64(2), `semver("1.2.3").patch()`: int64(3),
			`semver("1.2.3").isLessThan(semver("1.3.0"))`: true, `semver("v1.2", true).compareTo(semver("1.2.0"))`: int64(0),
		},
		"hashes": {
			`"%x".format([hash.fnv64a("a")])`: "af63dc4c8601ec8c", `"%x".format([hash.md5("a")])`: "0cc175b9c0f1b6a831c399e269772661",
			`"%x".format([hash.sha256("a")])`: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", `base64.encode(hash.fnv64a("a"))`: "r2PcTIYB7Iw=",
		},
		"JSON":   {`json.unmarshal('{"a": [1]}').a[0] == 1`: true, `json.marshal({"b": 1, "a": ["x"]})`: `{"a":["x"],"b":1}`, `json.encode({"b": 1, "a": ["x", 2]})`: `{"a":["x",2],"b":1}`},
		"random": {`random.seededString(8, "a").size()`: int64(8), `random.seededString(5, "a") == random.seededString(5, "a")`: true, `random.seededInt(3, 4, "a")`: int64(3)},
		"maps": {
			`{"a": 1}.merge({"a": 2, "b": 3})`: object{"a": int64(2), "b": int64(3)}, `{"a": {"x": 1}}.deepMerge({"a": {"y": 2}})`: object{"a": object{"x": int64(1), "y": int64(2)}},
			`{"podSpec": {"runAsNonRoot": "yes"}}.deepMerge(json.unmarshal('{"podSpec": {"fsGroup": 1}}'))`: object{"podSpec": object{"runAsNonRoot": "yes", "fsGroup": float64(1)}},
			`{"name": "x"}.deepMerge(schema.spec).name`:                                                     "shop",
		},
	}
	for library, functions := range cases {
		t.Run(library, func(t *testing.T) {
			for source, want := range functions {
				p, problems := env.Compile(source, "x")
				if problems != nil {
					t.Error(problems.Err())
					continue
				}
				got, err := p.Eval(worldVars(t))
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%s: %v %s", source, err, diff)
				}
			}
		})
	}
}
