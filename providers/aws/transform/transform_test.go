package transform_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/transform"
)

func TestApply(t *testing.T) {
	properties := map[string]any{
		"Name": "My.Name", "Arn": "a/b/c", "Engine": map[string]any{"Mode": "Provisioned"}, "Version": "1.2.3", "Seconds": int64(3), "None": nil,
		"Protocol": "6", "Time": "10:30",
	}
	for expression, want := range map[string][]any{
		`$lowercase(Name)`:                                     {"my.name"},
		`$lowercase(Name) $OR Name`:                            {"my.name", "My.Name"},
		`$join([Name, "."])`:                                   {"My.Name."},
		`$split(Arn, "/")[-1]`:                                 {"c"},
		`$split(Arn, "/")[0] & "-" & $split(Arn, "/")[1]`:      {"a-b"},
		`$join($split(Version, ".", 2), ".")`:                  {"1.2"},
		`$substringAfter(Arn, "/")`:                            {"b/c"},
		`$uppercase(Engine.Mode)='PROVISIONED' ? 'yes' : 'no'`: {"yes"},
		`Seconds * 1000`:                                       {3000.0},
		`$lowercase(Unset)`:                                    {nil},
		`Unset ? 1 : -1`:                                       {-1.0},
		`$replace(Name, /(.*)\.Name$/, "$1x")`:                 {"Myx"},
		`($m := $lookup({'6': 'tcp', '17': 'udp'}, Protocol); $m ? $m : $lowercase(Protocol))`: {"tcp"},
		`$count($split(Arn, "/")) = 3 and true ? "three" : "other"`:                            {"three"},
		`$lowercase($string(Name)) in ['x', 'my.name'] ? true : false`:                         {true},
		`($groups := $match(Time, /^([0-9]{2}):([0-9]{2})(:[0-9]{2})?$/).groups; $groups[1])`:  {"30"},
	} {
		t.Run(expression, func(t *testing.T) {
			got, failed := transform.Apply(expression, properties)
			if diff := cmp.Diff(want, got); diff != "" || failed > 0 {
				t.Errorf("%d failed, %s", failed, diff)
			}
		})
	}
}

// TestTransformsHaveTheResultsOfTheReference compares each expression of the catalog with jsonata 2.2, the reference
// implementation of the language, which has made testdata/jsonata.json: for texts as AWS has them, for numbers, and for values of the
// wrong types. A case without a result has none.
func TestTransformsHaveTheResultsOfTheReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/jsonata.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]struct {
		Input  map[string]any
		Result any
		Error  bool
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for expression, cases := range all {
		if !transform.Supports(expression) {
			continue // TestMostTransformsAreSupported counts them
		}
		for _, c := range cases {
			got, failed := transform.Apply(expression, c.Input)
			switch {
			case c.Error && failed == 0:
				t.Errorf("%s of %v: %v; the reference fails", expression, c.Input, got)
			case !c.Error && failed > 0:
				t.Errorf("%s of %v fails; the reference returns %v", expression, c.Input, c.Result)
			case !c.Error && !cmp.Equal(got[0], c.Result):
				t.Errorf("%s of %v: %v; the reference returns %v", expression, c.Input, got[0], c.Result)
			}
		}
	}
}

// TestMostTransformsAreSupported counts the transforms of all types. Those that define functions are not
// supported, nor what Go's regular expressions lack.
func TestMostTransformsAreSupported(t *testing.T) {
	all, unsupported := 0, 0
	for _, name := range catalog.Names() {
		typ, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for path, expression := range typ.PropertyTransform {
			all++
			if !transform.Supports(expression) {
				unsupported++
				t.Logf("%s %s", name, path)
			}
		}
	}
	t.Logf("%d of %d are not supported", unsupported, all)
	if unsupported > 4 {
		t.Errorf("%d of %d are not supported", unsupported, all)
	}
}

func FuzzApply(f *testing.F) {
	for _, expression := range []string{`$lowercase(Name)`, `a ? b : c`, `($x := [1,2]; $x[-1])`, `$replace(a, /x/i, "$1")`, `{"a": 1}.a`, `-1 + 2 * 3`} {
		f.Add(expression, "value")
	}
	f.Fuzz(func(_ *testing.T, expression, value string) {
		results, _ := transform.Apply(expression, map[string]any{"Name": value, "a": value, "b": []any{value, 1.0}})
		for _, result := range results {
			transform.Matches(result, value)
		}
	})
}
