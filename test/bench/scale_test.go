package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"github.com/espalier-dev/espalier/test/bench/curve"
)

func TestScaleReports(t *testing.T) {
	golden.Run(t, "testdata/scale/*.txtar", func(t *testing.T, a *golden.Archive) {
		var r scaleReport
		if err := json.Unmarshal([]byte(a.Input["scale.json"]), &r); err != nil {
			t.Fatal(err)
		}
		a.Record("SCALE.md", r.markdown())
		a.Record("text", r.text())
	})
}

func TestMeasuresAreCollectedBySize(t *testing.T) {
	var b bench
	for _, size := range []int{100, 1000} {
		b.plot("instances", measure{Name: "creation", Unit: "ms", Budget: 1.2}.at(size, float64(size)), measure{Name: "deletion", Unit: "ms"}.at(size, 3))
	}
	b.plot("children", measure{Name: "creation"}.at(5, 1))
	want := map[string][]measure{
		"instances": {
			{Name: "creation", Unit: "ms", Budget: 1.2, Points: []curve.Point{{Size: 100, Value: 100}, {Size: 1000, Value: 1000}}},
			{Name: "deletion", Unit: "ms", Points: []curve.Point{{Size: 100, Value: 3}, {Size: 1000, Value: 3}}},
		},
		"children": {{Name: "creation", Points: []curve.Point{{Size: 5, Value: 1}}}},
	}
	if diff := cmp.Diff(want, b.grown); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMissedBudgetsOfGrowthAreCounted(t *testing.T) {
	at := func(budget float64, values ...float64) measure {
		m := measure{Budget: budget}
		for i, v := range values {
			m.Points = append(m.Points, curve.Point{Size: float64(100 * (i + 1)), Value: v})
		}
		return m
	}
	r := scaleReport{
		Instances: []measure{at(1.2, 10, 30, 12), at(1.2, 10, 12.1), at(0, 10, 1000), at(1.2, 10)},
		Children:  []measure{at(1.2, 1, 2)},
		Rows:      []row{{Value: 1, Budget: 2, OK: true}, {Value: 3, Budget: 2}},
	}
	if got, want := r.missed(), 3; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestSizes(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want sizes
		err  string
	}{
		"numbers are separated by commas": {text: "100,1000,10000", want: sizes{100, 1000, 10_000}},
		"one is enough":                   {text: "5", want: sizes{5}},
		"they must ascend":                {text: "100,100", err: "100 does not follow 100: the numbers must ascend"},
		"0 is no size":                    {text: "0,100", err: `"0" is no number from 1 to 99999`},
		"too large":                       {text: "100000", err: `"100000" is no number from 1 to 99999`},
		"words are none":                  {text: "100,many", err: `"many" is no number from 1 to 99999`},
		"nothing is none":                 {text: "", err: `"" is no number from 1 to 99999`},
	} {
		t.Run(name, func(t *testing.T) {
			var got sizes
			message := ""
			if err := got.Set(tc.text); err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || message != tc.err {
				t.Errorf("error %q, want %q; (-want +got)\n%s", message, tc.err, diff)
			}
			if tc.err == "" && got.String() != tc.text {
				t.Errorf("as text: %q, want %q", got.String(), tc.text)
			}
		})
	}
}
