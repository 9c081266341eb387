package library

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	k8slibrary "k8s.io/apiserver/pkg/cel/library"
)

func TestFunctions(t *testing.T) {
	env, err := cel.NewEnv(append([]cel.EnvOption{ext.Strings(), ext.Lists(), ext.Encoders(), k8slibrary.Lists(), k8slibrary.Quantity()}, All()...)...)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"the FNV hash has eight bytes":                     `"%x".format([hash.fnv64a("hello")]) == "a430d84680aabd0b"`,
		"the SHA-256 hash is what sha256sum prints":        `"%x".format([hash.sha256("")]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`,
		"the MD5 hash is what md5sum prints":               `"%x".format([hash.md5("")]) == "d41d8cd98f00b204e9800998ecf8427e"`,
		"keys of written JSON are sorted":                  `json.marshal({"b": 1, "a": [true, null]}) == '{"a":[true,null],"b":1}'`,
		"bytes in JSON are base64":                         `json.marshal(b"hello") == '"aGVsbG8="'`,
		"large unsigned integers stay numbers":             `json.marshal(18446744073709551615u) == "18446744073709551615"`,
		"numbers of read JSON are doubles":                 `json.unmarshal("[1, 2.5]") == [1.0, 2.5]`,
		"a null may be read":                               `json.unmarshal("null") == null`,
		"a seeded string is the same for ever":             `random.seededString(10, "test-seed") == random.seededString(10, "test-seed")`,
		"a longer seeded string begins like a shorter":     `random.seededString(12, "s").startsWith(random.seededString(5, "s"))`,
		"a seeded string repeats after the hash is used":   `random.seededString(10, "s").substring(8) == random.seededString(2, "s")`,
		"a seeded string is made from the SHA-256":         `random.seededString(4, "") == "ew0w"`,
		"a seeded integer lies in its range":               `random.seededInt(5, 6, "x") == 5`,
		"a seeded integer may be negative":                 `random.seededInt(-100, -50, "x") < -50`,
		"merge lets the right one win":                     `{"a": 1, "b": 1}.merge({"b": 2, "c": 2}) == {"a": 1, "b": 2, "c": 2}`,
		"merge replaces maps":                              `{"a": {"x": 1}}.merge({"a": {"y": 2}}) == {"a": {"y": 2}}`,
		"deepMerge merges maps":                            `{"a": {"x": 1, "z": 1}}.deepMerge({"a": {"y": 2, "z": 2}}) == {"a": {"x": 1, "y": 2, "z": 2}}`,
		"deepMerge replaces lists":                         `{"a": [1, 2]}.deepMerge({"a": [3]}) == {"a": [3]}`,
		"an item is set":                                   `lists.setAtIndex([1, 2, 3], 1, 9) == [1, 9, 3]`,
		"an item is inserted":                              `lists.insertAtIndex([1, 2], 0, 9) == [9, 1, 2]`,
		"an item is appended":                              `lists.insertAtIndex([1, 2], 2, 9) == [1, 2, 9]`,
		"text is replaced everywhere":                      `"aXbX".replace("X", "y") == "ayby"`,
		"text is replaced so many times":                   `"aXbX".replace("X", "y", 1) == "aybX"`,
		"text is replaced everywhere if times is negative": `"aXbX".replace("X", "y", -1) == "ayby"`,
		"text is joined":                                   `["a", "b"].join() + ["a", "b"].join("-") == "aba-b"`,
		"SimpleSchema becomes a schema":                    `simpleschema.toOpenAPI({"kind": "Widget", "spec": {"replicas": "integer | default=1 minimum=0", "name": "string | required=true"}}) == {"type": "object", "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "spec": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "replicas": {"type": "integer", "default": 1, "minimum": 0}}}}}`,
		"types serve spec and status":                      `simpleschema.toOpenAPI({"spec": {"a": "Port"}, "status": {"ports": "[]Port"}, "types": {"Port": {"number": "integer"}}}).properties.status.properties.ports.items.properties.number.type == "integer"`,
		"a text is found at its first place":               `"äbäb".indexOf("b") == 1 && "äbäb".indexOf("b", 2) == 3 && "äb".indexOf("c") == -1 && "ab".indexOf("", 5) == 2 && "ab".indexOf("b", 2) == -1`,
		"a text is found at its last place":                `"äbäb".lastIndexOf("b") == 3 && "äbäb".lastIndexOf("b", 2) == 1 && "äb".lastIndexOf("äbc") == -1 && "ab".lastIndexOf("") == 2 && "".lastIndexOf("a") == -1 && "ab".lastIndexOf("b", 0) == -1 && "ab".lastIndexOf("ab", 1) == 0`,
		"a quantity with an exponent is one":               `isQuantity("1e3") && isQuantity("1E-009") && quantity("1e3") == quantity("1k")`,
		"an exponent without bounds makes no quantity":     `!isQuantity("1e-99999999") && !isQuantity("1E+0099999999")`,
		"a list in a list is found":                        `[[1], [2]].indexOf([2]) == 1 && [[1], [1]].distinct() == [[1]] && [[1], [2]].flatten() == [1, 2] && [1, [2]].flatten(2) == [1, 2]`,
		"an item is removed":                               `lists.removeAtIndex([1, 2, 3], 2) == [1, 2]`,
	}
	for name, source := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := evaluate(t, env, source); err != nil || got != true {
				t.Error(got, err)
			}
		})
	}
	failures := map[string]string{
		"a quantity with a large exponent":         `quantity("1e99999999").add(quantity("1")) == quantity("0")`,
		"a search before the text":                 `"a".indexOf("a", -1) == 0`,
		"items that are too many to compare":       `lists.range(100000).distinct().size() > 0`,
		"an index behind the list":                 `lists.setAtIndex([1], 1, 2)`,
		"a negative index":                         `lists.removeAtIndex([1], -1)`,
		"an index beyond appending":                `lists.insertAtIndex([1], 2, 2)`,
		"a string of no length":                    `random.seededString(0, "x")`,
		"a string that would fill the memory":      `random.seededString(1000000000, "x")`,
		"an empty range":                           `random.seededInt(5, 5, "x")`,
		"a replacement that would fill the memory": `random.seededString(60000, "x").replace("", random.seededString(60000, "y"))`,
		"text that isn't JSON":                     `json.unmarshal("{")`,
		"a type that there isn't":                  `simpleschema.toOpenAPI({"spec": {"a": "strng"}})`,
		"a kind without a schema":                  `simpleschema.toOpenAPI({"kind": "Widget"})`,
		"a schema that is text":                    `simpleschema.toOpenAPI("string")`,
		"a spec that is text":                      `simpleschema.toOpenAPI({"spec": "string"})`,
	}
	for name, source := range failures {
		t.Run(name, func(t *testing.T) {
			if got, err := evaluate(t, env, source); err == nil {
				t.Error("want an error, got", got)
			}
		})
	}
}

func evaluate(t *testing.T, env *cel.Env, source string) (any, error) {
	t.Helper()
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	prog, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := prog.Eval(cel.NoVars())
	if err != nil {
		return nil, err
	}
	return out.(types.Bool) == types.True, nil
}
